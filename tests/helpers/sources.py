"""Source files for tests, and functions that read them as ingest does."""

import json

import numpy as np
import pyarrow as pa
from corpusmill.io.readers.batches import ReadOptions
from corpusmill.io.readers.open import open_source
from corpusmill.io.words import TokenOptions, tokenise

COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 3, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])


def read(source, **options):
    """Return the keys and the tokens of all documents of a source."""
    reader = open_source(source, ReadOptions(**options))
    return collect(reader)


def collect(reader):
    """Return the keys and the tokens of all documents of a reader."""
    keys, documents = [], []
    for part in reader.partitions():
        for batch in reader.read(part):
            found = tokenise(batch, TokenOptions())
            pairs = zip(found.doc_ptr[:-1], found.doc_ptr[1:], strict=True)
            documents += [found.words.take(pa.array(found.ids[a:b])).to_pylist() for a, b in pairs]
            keys += batch.keys.to_pylist()
    assert len(keys) == len(documents)
    return keys, documents


def write_lines(path, lines):
    """Write lines of text and return the path as a string."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def write_jsonl(path, rows):
    """Write one JSON value per line and return the path as a string."""
    return write_lines(path, [json.dumps(row) for row in rows])


def write_docword(path, counts, header=None):
    """Write a matrix of counts (documents, words) in UCI's docword format; ``header`` replaces its first lines."""
    rows = [f"{d + 1} {w + 1} {counts[d, w]}" for d, w in np.argwhere(counts)]
    return write_lines(path, [*(header or (*counts.shape, len(rows))), *rows])
