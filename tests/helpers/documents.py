"""Random documents in files, and the contents of a corpus."""

from pathlib import Path

import numpy as np


def write_source(folder, files=3, lines=400, seed=0):
    """Write files of random lines, some empty, and return the folder's pattern."""
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    for f in range(files):
        lengths = rng.integers(0, 30, lines)
        rows = [" ".join(f"w{n:03d}" for n in np.minimum(rng.geometric(0.02, k), 400)) for k in lengths]
        (folder / f"{f}.txt").write_text("\n".join(rows) + "\n")
    return str(folder / "*.txt")


def words_of(corpus):
    """Return each document's words, read back from the chunks."""
    names = np.array(corpus.vocabulary["word"].to_pylist())
    found = []
    for c, info in enumerate(corpus.chunks):
        chunk = corpus.read_chunk(c)
        assert (chunk.n_documents, chunk.n_tokens) == (info.documents, info.tokens)
        found += [names[chunk.words[a:b]].tolist() for a, b in zip(chunk.doc_ptr[:-1], chunk.doc_ptr[1:], strict=True)]
    return found


def source_words(pattern):
    """Return each document's words, as the files have them."""
    files = sorted(Path(pattern).parent.glob(Path(pattern).name))
    return [line.split() for f in files for line in f.read_text().splitlines()]


def corpus_files(corpus):
    """Return the bytes of all files of a corpus by relative path, except its lock."""
    root = Path(corpus.url)
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file() and p.name != "ingest.lock"
    }


def _boats_and_bread():
    """Return 24 documents that alternate between two subjects, each with a few words of its own."""
    boats = "the boat sails over the sea and the sailor steers the boat to the harbour"
    bread = "the baker bakes bread from flour and the oven browns the bread and the cake"
    return [f"{boats if i % 2 == 0 else bread} word{i // 4}" for i in range(24)]


#: Documents about boats (even positions) and bread (odd positions).
BOATS_AND_BREAD = _boats_and_bread()
