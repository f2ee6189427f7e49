"""Every format gives the same documents, however it is cut into partitions and compressed."""

import bz2
import gzip
import lzma
import os
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse
from corpusmill.io.errors import DataError, DataWarning
from corpusmill.io.readers.bags import BATCH_TOKENS
from corpusmill.io.readers.batches import ReadOptions
from corpusmill.io.readers.open import open_in_memory, open_source
from corpusmill.io.readers.reader import line_partitions
from corpusmill.io.readers.source import Partition, find_files, find_folders, line_blocks
from corpusmill.io.stores.store import Store
from helpers.sources import COUNTS, collect, read, write_docword, write_jsonl, write_lines
from hypothesis import given, settings
from hypothesis import strategies as st

DOCUMENTS = ["one fish two fish", "", "Élan vital, naïve café", 'red "fish", blue\tfish', "last"]
TOKENS = [
    ["one", "fish", "two", "fish"],
    [],
    ["élan", "vital", "naïve", "café"],
    ["red", "fish", "blue", "fish"],
    ["last"],
]


# --- lines ---


@given(
    lines=st.lists(st.text("ab ", max_size=9), max_size=30),
    end=st.booleans(),
    cut=st.integers(1, 40),
    size=st.integers(1, 50),
)
@settings(max_examples=150)
def test_byte_ranges_give_each_line_once(tmp_path_factory, lines, end, cut, size):
    path = tmp_path_factory.mktemp("lines") / "x.txt"
    content = "\n".join(lines) + ("\n" if end and lines else "")
    path.write_text(content)
    file = find_files(path)[0]
    number, seen = 1, b""
    for start in range(0, max(1, len(content)), cut):
        first = content[: max(0, start - 1)].count("\n") + 1 + (start > 0)
        for data, line in line_blocks(file, Partition(file, start, start + cut, first), size):
            assert line == number
            number += data.count(b"\n")
            seen += data
    assert seen.decode() == content


def test_a_large_file_is_cut_and_lines_keep_their_numbers(tmp_path):
    path = write_lines(tmp_path / "big.txt", (f"line{i} " + "x" * 1000 for i in range(40_000)))
    reader = open_source(path, ReadOptions())
    assert len(list(reader.partitions())) == 3
    keys, documents = collect(reader)
    assert keys == [f"big.txt:{i}" for i in range(1, 40_001)]
    assert [d[0] for d in documents] == [f"line{i}" for i in range(40_000)]


def test_a_compressed_file_is_not_cut(tmp_path):
    path = tmp_path / "big.txt.gz"
    path.write_bytes(gzip.compress(b"word\n" * 5_000_000, 1))
    assert len(list(line_partitions(find_files(path)))) == 1


def test_all_frames_of_a_zst_file_are_read(tmp_path):
    path = tmp_path / "x.txt.zst"
    # Programs that compress with several threads write several frames. Blocks end within lines.
    frames = [pa.Codec("zstd").compress(b"word %d\n" % i * 400_000, asbytes=True) for i in range(3)]
    path.write_bytes(b"".join(frames))
    lines = b"".join(data for data, _ in line_blocks(find_files(path)[0], Partition(find_files(path)[0])))
    assert lines == b"".join(b"word %d\n" % i * 400_000 for i in range(3))


@pytest.mark.parametrize(
    "pack, ending",
    [
        (gzip.compress, ".gz"),
        (bz2.compress, ".bz2"),
        (lzma.compress, ".xz"),
        (partial(pa.Codec("zstd").compress, asbytes=True), ".zst"),
    ],
)
def test_compressed_lines(tmp_path, pack, ending):
    path = tmp_path / f"x.txt{ending}"
    path.write_bytes(pack("\n".join(DOCUMENTS).encode()))
    assert read(path)[1] == TOKENS


# --- formats ---


def test_one_document_per_line(tmp_path):
    path = write_lines(tmp_path / "x.txt", DOCUMENTS)
    assert read(path) == ([f"x.txt:{i}" for i in range(1, 6)], TOKENS)


def test_windows_line_ends(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("\r\n".join(DOCUMENTS).encode())
    assert read(path)[1] == TOKENS


def test_jsonl(tmp_path):
    path = write_jsonl(tmp_path / "x.jsonl", [{"id": f"d{i}", "n": i, "text": d} for i, d in enumerate(DOCUMENTS)])
    assert read(path) == ([f"x.jsonl:{i}" for i in range(1, 6)], TOKENS)
    assert read(path, key="id")[0] == [f"d{i}" for i in range(5)]
    assert read(path, key="n")[0] == [str(i) for i in range(5)]


def test_jsonl_with_blank_lines_and_odd_rows(tmp_path):
    rows = ['{"text": "a\\ud800b cc"}', "", '{"text": "dd", "more": [1, {"x": null}]}', '{"more": 3, "text": "ee"}']
    assert read(write_lines(tmp_path / "x.jsonl", rows)) == (
        ["x.jsonl:1", "x.jsonl:3", "x.jsonl:4"],
        [["cc"], ["dd"], ["ee"]],
    )


def test_fields_of_jsonl_are_kept_when_it_is_read_line_by_line(tmp_path):
    # A name with a dot may be a path in nested objects, so such files are read line by line.
    path = write_jsonl(tmp_path / "x.jsonl", [{"text": "aa", "by": {"name": "Ann"}}, {"text": "bb"}])
    reader = open_source(path, ReadOptions(keep=("by.name",)))
    (batch,) = (batch for part in reader.partitions() for batch in reader.read(part))
    assert batch.kept["by.name"].values.to_pylist() == ["Ann", None]


def test_jsonl_of_tokens(tmp_path):
    path = write_jsonl(tmp_path / "x.jsonl", [{"words": t} for t in TOKENS])
    assert read(path, tokens="words")[1] == TOKENS


def test_csv_with_line_ends_in_quotes(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('id,text,n\n"a, b","one fish\ntwo ""fish""",1\nc,,2\nd,last,3\n')
    assert read(path) == (["x.csv:1", "x.csv:2", "x.csv:3"], [["one", "fish", "two", "fish"], [], ["last"]])
    assert read(path, key="id")[0] == ["a, b", "c", "d"]


def test_tsv(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("verse\twords\n1\tin the, beginning\n2\tlight\n")
    assert read(path, text="words", key="verse") == (["1", "2"], [["in", "the", "beginning"], ["light"]])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_of_text(tmp_path, kind):
    text = (
        pa.array(DOCUMENTS).cast(kind) if not pa.types.is_dictionary(kind) else pa.array(DOCUMENTS).dictionary_encode()
    )
    pq.write_table(pa.table({"id": range(5), "text": text}), tmp_path / "x.parquet", row_group_size=2)
    assert read(tmp_path / "x.parquet") == ([f"x.parquet:{i}" for i in range(1, 6)], TOKENS)
    assert read(tmp_path / "x.parquet", key="id")[0] == list("01234")


def test_parquet_of_tokens(tmp_path):
    pq.write_table(pa.table({"words": TOKENS}), tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet", tokens="words")[1] == TOKENS


def test_parquet_is_cut_at_row_groups(tmp_path):
    letters = np.random.default_rng(0).integers(97, 123, (40_000, 1000), np.uint8)
    text = [row.tobytes().decode() for row in letters]
    pq.write_table(pa.table({"text": text}), tmp_path / "x.parquet", row_group_size=5_000)
    reader = open_source(tmp_path / "x.parquet", ReadOptions())
    parts = list(reader.partitions())
    assert [p.first_row for p in parts] == [1, 20_001]
    batches = [b for p in parts for b in reader.read(p)]
    assert max(b.content.nbytes for b in batches) < 8 << 20
    assert [k for b in batches for k in b.keys.to_pylist()] == [f"x.parquet:{i}" for i in range(1, 40_001)]


#: What programs write beside the documents a/one.txt and b/two.
NO_DOCUMENTS = (
    *("b/.hidden", "_SUCCESS", "_temporary/0/part", "a/.one.txt.crc", ".DS_Store", "a/Thumbs.db", "desktop.ini"),
    *("a/.one.txt.swp", ".git/x"),
)
COPIES = ("a/one.txt~", "a/#one.txt#", "a/one.txt.bak", "a/one.txt.orig", "_drafts/three.txt")


@pytest.fixture
def with_copies(tmp_path):
    """A folder whose name is like a pattern, with documents, and with what programs write beside them."""
    folder = tmp_path / "_x[1]"
    others = dict.fromkeys((*NO_DOCUMENTS, *COPIES), "no")
    for name, text in {"b/two": "zwei\nlines", "a/one.txt": "eins", "a/app.log.old": "drei"}.items() | others.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    return folder


def test_a_folder_is_read_without_what_programs_write_beside_documents(with_copies):
    with pytest.warns(
        DataWarning, match=rf"{len(COPIES)} files left out, such as .*: names .* if a pattern names them"
    ):
        found = read(with_copies, format="text")
    assert found == (["a/app.log.old", "a/one.txt", "b/two"], [["drei"], ["eins"], ["zwei", "lines"]])


@pytest.mark.filterwarnings("error")
def test_marks_alone_are_no_notice(tmp_path):
    write_lines(tmp_path / "one.txt", ["one fish"])
    (tmp_path / "_SUCCESS").touch()
    assert read(tmp_path)[1] == [["one", "fish"]]


def test_a_pattern_reads_all_but_hidden_files_that_it_does_not_name(tmp_path):
    for name in (*COPIES, *NO_DOCUMENTS):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("no")
    for pattern in ("a/*.bak", "a/*~", "a/#*#", "[_a]*", "?drafts/*", ".git/*", "a/.one.*"):
        assert find_files(tmp_path / pattern)
    assert [file.name for file in find_files(tmp_path / "*/*") if file.name.split("/")[-1].startswith(".")] == []


def test_a_copy_is_a_document_if_the_file_itself_is_not_there(tmp_path):
    write_lines(tmp_path / "a.orig", "boat")
    write_lines(tmp_path / "b.orig", "sea")
    assert [file.name for file in find_files(tmp_path)] == ["a.orig", "b.orig"]


@pytest.mark.parametrize("name", ["File::Spec.txt", "a*b?.txt", "[a]#1.txt", "5%20.txt", "naïve 猫.txt", "a\nb.txt"])
def test_names_of_files_may_have_any_characters(tmp_path, monkeypatch, name):
    write_lines(tmp_path / name, ["one fish"])
    expected = [f"{name}:1"], [["one", "fish"]]
    assert read(tmp_path / name) == expected
    monkeypatch.chdir(tmp_path)
    assert read(name) == expected
    assert read(tmp_path) == ([name], [["one", "fish"]])


def test_a_store_may_have_two_colons_in_its_name(tmp_path):
    store = Store(tmp_path / "My::Corpus")
    store.write_json("a.json", {"b": 1})
    assert (tmp_path / "My::Corpus" / "a.json").exists()
    assert store.child("c").path == str(tmp_path / "My::Corpus" / "c")
    # In other URLs, two colons join two of them.
    (tmp_path / "x.txt").write_text("one fish")
    assert read(f"simplecache::file://{tmp_path}/x.txt") == (["x.txt:1"], [["one", "fish"]])


@pytest.mark.parametrize("pattern", ["", "*.txt", "\udce9t\udce9.txt"])
def test_a_name_that_is_not_utf8_is_refused(tmp_path, pattern):
    (tmp_path / "\udce9t\udce9.txt").write_text("one fish")
    with pytest.raises(DataError, match=r"\?t\?\.txt: the name of this file or of its folder is not UTF-8; rename it"):
        find_files(tmp_path / pattern)


@pytest.mark.parametrize("pattern", ["*.txt", ""])
def test_links_to_files_are_read_with_the_times_of_the_files(tmp_path, pattern):
    folder, elsewhere = tmp_path / "folder", write_lines(tmp_path / "elsewhere.txt", "sea")
    folder.mkdir()
    write_lines(folder / "a.txt", "boat")
    (folder / "b.txt").symlink_to("../elsewhere.txt")
    found = find_files(folder / pattern)
    assert [file.name for file in found] == ["a.txt", "b.txt"]
    os.utime(elsewhere, (1, 1))
    assert float(find_files(folder / pattern)[1].modified) == 1.0
    (folder / "c.txt").symlink_to("nowhere.txt")
    with pytest.raises(DataError, match=r"c\.txt: this link leads to nowhere\.txt, which does not exist; remove the"):
        find_files(folder / pattern)


def test_a_pattern_leaves_out_hidden_names_unless_it_begins_with_a_dot(tmp_path):
    write_lines(tmp_path / "a.txt", "boat")
    write_lines(tmp_path / ".b.txt", "sea")
    # Emacs locks a file that is being edited with a link that leads nowhere.
    (tmp_path / ".#a.txt").symlink_to("me@host.123:1")
    assert [file.name for file in find_files(tmp_path / "*.txt")] == ["a.txt"]
    assert [file.name for file in find_files(tmp_path / ".b*")] == [".b.txt"]


def test_a_pattern_leaves_out_hidden_folders_unless_it_names_them(tmp_path):
    here = tmp_path / ".here"
    for name in ("a/one.txt", "a/.ipynb_checkpoints/one.txt", ".git/two.txt"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        write_lines(here / name, "boat")
    assert [file.name for file in find_files(here / "**/*.txt")] == ["one.txt"]
    assert [file.name for file in find_files(here / "*/*.txt")] == ["one.txt"]
    assert [file.name for file in find_files(here / ".g*/*.txt")] == ["two.txt"]
    assert len(find_files(here / "**/.ipynb_checkpoints/*.txt")) == 1
    (here / ".git" / "cells.zarr").mkdir()
    with pytest.raises(DataError, match="no such folder"):
        find_folders(here / "**/*.zarr")
    assert [folder.name for folder in find_folders(here / ".git/*.zarr")] == ["cells.zarr"]


def test_a_link_to_a_folder_is_refused_in_a_folder(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"loop: links to folders are not followed; remove the link, and name"):
        find_files(tmp_path)


def test_a_folder_of_jsonl_files_in_the_order_of_their_names(tmp_path):
    for name in "cab":
        write_jsonl(tmp_path / f"{name}.jsonl", [{"text": name * 2}])
    assert read(tmp_path) == (["a.jsonl:1", "b.jsonl:1", "c.jsonl:1"], [["aa"], ["bb"], ["cc"]])
    assert read(str(tmp_path / "[bc].jsonl"))[0] == ["b.jsonl:1", "c.jsonl:1"]
    assert read([str(tmp_path / f"{name}.jsonl") for name in "ca"])[0] == ["c.jsonl:1", "a.jsonl:1"]


def test_a_url(tmp_path):
    path = write_lines(tmp_path / "x.txt", DOCUMENTS)
    assert read(f"file://{path}")[1] == TOKENS


def counts_of(documents, names):
    """Return the matrix of counts of documents of words."""
    return np.array([[d.count(n) for n in names] for d in documents])


@pytest.mark.parametrize("packed", [False, True])
def test_docword(tmp_path, packed):
    path = write_docword(tmp_path / "docword.x.txt", COUNTS)
    if packed:
        (tmp_path / "docword.x.txt.gz").write_bytes(gzip.compress((tmp_path / "docword.x.txt").read_bytes()))
        path += ".gz"
    vocabulary = write_lines(tmp_path / "vocab.txt", ["fish", "cat", "dog", "élan"])
    keys, documents = read(path, vocabulary_file=vocabulary)
    assert keys == [f"{path.rpartition('/')[2]}:{i}" for i in range(1, 6)]
    np.testing.assert_array_equal(counts_of(documents, ["fish", "cat", "dog", "élan"]), COUNTS)
    np.testing.assert_array_equal(counts_of(read(path)[1], ["0", "1", "2", "3"]), COUNTS)


@pytest.mark.parametrize("header, documents", [((2, 0, 0), [[], []]), ((0, 4, 0), [])])
def test_docword_without_documents_or_words(tmp_path, header, documents):
    assert read(write_lines(tmp_path / "docword.x.txt", header))[1] == documents


def test_docword_in_many_blocks_and_batches(tmp_path):
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.3, (2_000, 500)) * 40
    assert counts.sum() > 2 * BATCH_TOKENS
    reader = open_source(write_docword(tmp_path / "docword.x.txt", counts), ReadOptions())
    batches = [b.content for p in reader.partitions() for b in reader.read(p)]
    assert len(batches) > 2
    found = np.concatenate([np.diff(b.doc_ptr) for b in batches])
    np.testing.assert_array_equal(found, counts.sum(axis=1))
    columns = np.bincount(np.concatenate([b.columns for b in batches]), minlength=500)
    np.testing.assert_array_equal(columns, counts.sum(axis=0))


@pytest.mark.parametrize("field", ["integer", "real", "pattern"])
def test_matrixmarket(tmp_path, field):
    counts = np.minimum(COUNTS, 1) if field == "pattern" else COUNTS
    scipy.io.mmwrite(tmp_path / "x.mtx", scipy.sparse.csr_matrix(counts), field=field, comment="two\nlines")
    np.testing.assert_array_equal(counts_of(read(tmp_path / "x.mtx")[1], ["0", "1", "2", "3"]), counts)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("field", ["integer", "pattern"])
@pytest.mark.parametrize("blank", ["\n", " \t\n", "\r\n"])
def test_matrixmarket_with_blank_lines_is_read_as_scipy_does(tmp_path, field, blank, transpose):
    path = tmp_path / "x.mtx"
    scipy.io.mmwrite(path, scipy.sparse.csr_matrix(COUNTS), field=field)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + blank + blank.join(lines[3:]) + blank)
    expected = scipy.io.mmread(path).toarray()
    found = counts_of(read(path, transpose=transpose)[1], [str(i) for i in range(5 if transpose else 4)])
    np.testing.assert_array_equal(found, expected.T if transpose else expected)
    path.write_text(path.read_text() + "\n9 9 9\n"[: None if field == "integer" else -3])
    line = len(path.read_text().splitlines())
    with pytest.raises(DataError, match=rf"x\.mtx, line {line}: the \w+ 9 is not in 1\.\."):
        read(path, transpose=transpose)


@pytest.mark.parametrize("zero_based", [False, True])
def test_svmlight(tmp_path, zero_based):
    datasets = pytest.importorskip("sklearn.datasets")
    path = tmp_path / "x.svmlight"
    datasets.dump_svmlight_file(COUNTS, np.arange(5), str(path), zero_based=zero_based, comment="made by a test")
    vocabulary = write_lines(tmp_path / "vocab.txt", ["fish", "cat", "dog", "elk"])
    _, documents = read(path, vocabulary_file=vocabulary, zero_based=zero_based)
    np.testing.assert_array_equal(counts_of(documents, ["fish", "cat", "dog", "elk"]), COUNTS)
    with pytest.raises(DataError, match=f"line 2: '# Column indices are .*; read it with zero_based={zero_based}"):
        read(path, zero_based=not zero_based)


def test_lda_c(tmp_path):
    lines = []
    for row in COUNTS:
        pairs = [f"{word}:{count}" for word, count in enumerate(row) if count]
        lines.append(" ".join([str(len(pairs)), *pairs]))
    path = write_lines(tmp_path / "ap.dat", lines)
    vocabulary = write_lines(tmp_path / "vocab.txt", ["fish", "cat", "dog", "elk"])
    keys, documents = read(path, format="lda-c", vocabulary_file=vocabulary)
    assert keys == [f"ap.dat:{line}" for line in range(1, 6)]
    np.testing.assert_array_equal(counts_of(documents, ["fish", "cat", "dog", "elk"]), COUNTS)
    np.testing.assert_array_equal(counts_of(read(path, format="lda-c")[1], ["0", "1", "2", "3"]), COUNTS)


ZEROS = scipy.sparse.csr_matrix(([2, 0, 0, 1, 3, 0], [0, 1, 3, 2, 1, 0], [0, 3, 4, 4, 6]), shape=(4, 4))


def _triples():
    coo = ZEROS.tocoo()
    return [f"{row + 1} {column + 1} {count}" for row, column, count in zip(coo.row, coo.col, coo.data, strict=True)]


def _pairs(first, name):
    rows = []
    for row in range(4):
        part = ZEROS[row]
        pairs = [f"{c + first}:{n}" for c, n in sorted(zip(part.indices, part.data, strict=True))]
        rows.append(" ".join([name or str(len(pairs)), *pairs]))
    return rows


WITH_ZEROS = {
    "x.npz": (lambda path: scipy.sparse.save_npz(path, ZEROS), {}),
    "x.mtx": (lambda path: scipy.io.mmwrite(path, ZEROS), {}),
    "transposed.mtx": (lambda path: scipy.io.mmwrite(path, ZEROS.T.tocsr()), {"transpose": True}),
    "docword.x.txt": (lambda path: write_lines(path, [4, 4, 6, *_triples()]), {}),
    "x.svmlight": (lambda path: write_lines(path, _pairs(0, "1")), {"zero_based": True}),
    "x.dat": (lambda path: write_lines(path, _pairs(0, "")), {"format": "lda-c"}),
}


@pytest.mark.parametrize("binarize", [False, True])
@pytest.mark.parametrize("name", WITH_ZEROS)
def test_stored_zeros_are_no_words_in_any_format(tmp_path, name, binarize):
    write, options = WITH_ZEROS[name]
    write(tmp_path / name)
    _, documents = read(tmp_path / name, binarize=binarize, **options)
    names = sorted({word for document in documents for word in document})
    wanted = ZEROS.toarray() > 0 if binarize else ZEROS.toarray()
    np.testing.assert_array_equal(counts_of(documents, names), wanted[:, wanted.any(axis=0)])


def test_svmlight_with_sets_of_labels(tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    labels = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 1]])
    path = tmp_path / "x.svmlight"
    datasets.dump_svmlight_file(COUNTS, labels, str(path), zero_based=False, multilabel=True)
    _, documents = read(path)
    with_words = COUNTS[COUNTS.any(axis=1) | labels.any(axis=1)]
    np.testing.assert_array_equal(counts_of(documents, ["1", "2", "3", "4"]), with_words)


def test_mallet(tmp_path):
    gensim = pytest.importorskip("gensim.corpora")
    texts = [["computer", "human"], [], ["survey", "system", "user", "system"]]
    vocabulary = gensim.Dictionary(texts)
    corpus = [vocabulary.doc2bow(text) for text in texts]
    gensim.MalletCorpus.serialize(str(tmp_path / "x.mallet"), corpus, id2word=vocabulary)
    path = tmp_path / "x.mallet"
    path.write_text(path.read_text() + "\na,b computer\nname\tlabel\tone two\n")
    keys, documents = read(path, format="mallet")
    assert keys == ["0", "1", "2", "a,b", "name"]
    assert [sorted(words) for words in documents] == [*map(sorted, texts), [], ["one", "two"]]


def test_documents_with_some_lines_of_numbers_are_text(tmp_path):
    path = write_lines(tmp_path / "x.txt", ["2 0:1 1:1", "1984", "a novel"])
    assert len(read(path)[0]) == 3


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.dok_array, np.asarray])
def test_matrices(make):
    keys, documents = collect(open_in_memory(make(COUNTS), ReadOptions()))
    assert keys == list("01234")
    np.testing.assert_array_equal(counts_of(documents, ["0", "1", "2", "3"]), COUNTS)


@pytest.mark.parametrize(
    "documents", [DOCUMENTS, iter(DOCUMENTS), TOKENS, (t for t in TOKENS), [tuple(t) for t in TOKENS]]
)
def test_iterables(documents):
    assert collect(open_in_memory(documents, ReadOptions())) == (list("01234"), TOKENS)


@pytest.mark.parametrize("name", ["x.txt", "x.jsonl", "x.csv", "folder/x"])
def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    head = {"x.jsonl": '{"text": "aa bb"}\n\n', "x.csv": "text\naa bb\n"}.get(name, "aa bb\n")
    path.write_text(head, encoding="utf-8-sig")
    if name in ("x.txt", "x.jsonl"):
        path.write_bytes(2 * path.read_bytes())  # files that were joined
    reader = open_source(path.parent if name == "folder/x" else path, ReadOptions())
    (batch,) = (batch for part in reader.partitions() for batch in reader.read(part))
    assert {text.strip() for text in batch.content.to_pylist()} == {"aa bb"}


def test_a_name_that_looks_like_a_pattern(tmp_path):
    (tmp_path / "x[1].txt").write_text("aa\n")
    assert read(tmp_path / "x[1].txt")[1] == [["aa"]]


def test_an_array_of_strings():
    assert collect(open_in_memory(np.array(DOCUMENTS), ReadOptions()))[1] == TOKENS


# --- recognised formats ---

ROWS = pa.table({"text": ["one fish", "two"], "id": ["a", "b"]})


def _arrow(path, make):
    with make(str(path), ROWS.schema) as writer:
        for batch in ROWS.to_batches(max_chunksize=1):
            writer.write_batch(batch)


#: What writes a file, by its format.
BY_CONTENT = {
    "parquet": lambda path: pq.write_table(ROWS, path),
    "arrow": lambda path: _arrow(path, pa.ipc.new_file),
    "arrow stream": lambda path: _arrow(path, pa.ipc.new_stream),
    "feather": lambda path: pyarrow.feather.write_feather(ROWS, str(path), compression="zstd"),
}


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.feather", "x.txt", "x", "x.csv", "x.data"])
@pytest.mark.parametrize("write", BY_CONTENT.values(), ids=BY_CONTENT)
def test_tables_are_recognised_by_content(tmp_path, write, name):
    write(tmp_path / name)
    assert read(str(tmp_path / name), key="id") == (["a", "b"], [["one", "fish"], ["two"]])
    assert read(str(tmp_path / name))[0] == [f"{name}:1", f"{name}:2"]


@pytest.mark.parametrize("name", ["x.npz", "x.mtx", "x", "x.txt", "x.mtx.gz"])
@pytest.mark.parametrize("form", ["npz", "mtx"])
def test_matrices_are_recognised_by_content(tmp_path, name, form):
    if form == "npz":
        if name.endswith(".gz"):
            pytest.skip("SciPy's archive is packed by itself")
        with (tmp_path / name).open("wb") as file:
            scipy.sparse.save_npz(file, scipy.sparse.csr_matrix(COUNTS))
    else:
        scipy.io.mmwrite(tmp_path / "made.mtx", scipy.sparse.csr_matrix(COUNTS))
        content = (tmp_path / "made.mtx").read_bytes()
        (tmp_path / "made.mtx").unlink()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    np.testing.assert_array_equal(counts_of(read(tmp_path / name)[1], ["0", "1", "2", "3"]), COUNTS)


def test_a_url_of_a_file_may_be_escaped(tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "50%25.txt").write_text("one two\n")
    path = tmp_path / "a b" / "50%25.txt"
    for url in (path.as_uri(), f"file://{path}", str(path)):
        assert read(url)[1] == [["one", "two"]]
