"""Other programs can read every file: the zarr library opens the arrays, pyarrow the tables, and the rest is JSON."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import zarr
from corpusmill import LDA, NMF, Corpus, Node2Vec, RandomIndexing, Word2Vec, ingest
from corpusmill.io.stores.matrix import write_matrix
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.ingest.graph import ingest_graph

DOCUMENTS = [["apple", "pear", "plum", "fig"] * 3, ["car", "road", "wheel", "tyre"] * 3] * 8


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write stores of every kind below one folder: data, runs, models and results."""
    folder = tmp_path_factory.mktemp("written")
    options = {"held_out": 0.2, "chunk_tokens": 60}
    corpus = ingest(DOCUMENTS, str(folder / "corpus"), **options)
    matrix = scipy.sparse.random_array((30, 12), density=0.4, rng=np.random.default_rng(0), format="csr")
    write_matrix(folder / "sparse", matrix)
    write_matrix(folder / "dense", matrix.toarray())
    (folder / "edges.txt").write_text("a b\nb c\nc a\nc d\n")
    graph = ingest_graph(str(folder / "edges.txt"), str(folder / "graph"))
    short_walks = {"num_walks": 2, "walk_length": 5, "walks": str(folder / "walks")}
    models = {
        "lda": LDA(3, max_iter=2).fit(corpus, run=str(folder / "runs" / "lda")),
        "nmf": NMF(2, max_iter=2).fit(corpus, run=str(folder / "runs" / "nmf")),
        "word2vec": Word2Vec(8, min_count=1, epochs=1).fit(corpus, run=str(folder / "runs" / "word2vec")),
        "random-indexing": RandomIndexing(64, seed_length=4).fit(corpus, run=str(folder / "runs" / "indexing")),
        "node2vec": Node2Vec(vector_size=8, epochs=1, **short_walks).fit(graph),
    }
    for kind, model in models.items():
        model.save(str(folder / "models" / kind))
    models["lda"].transform_to(Corpus(corpus.url), str(folder / "weights"))
    models["word2vec"].wv.save(str(folder / "vectors.zarr"))
    models["word2vec"].wv.save(str(folder / "vectors.parquet"))
    return folder


def zarr_groups(folder):
    """Return the folders of all Zarr groups below a folder."""
    metadata = {path.parent: json.loads(path.read_text()) for path in folder.rglob("zarr.json")}
    return [path for path, content in metadata.items() if content["node_type"] == "group"]


def test_zarr_opens_every_group_with_the_same_arrays(written):
    groups = zarr_groups(written)
    assert len(groups) > 20
    for path in groups:
        opened = {name: array[...] for name, array in zarr.open(str(path), mode="r").arrays()}
        ours = Store(str(path.parent)).read_arrays(path.name)
        assert opened.keys() == ours.keys()
        for name, array in opened.items():
            np.testing.assert_array_equal(array, ours[name])


def test_pyarrow_reads_every_table(written):
    tables = {path: pq.read_table(path) for path in written.rglob("*.parquet")}
    assert len(tables) > 10
    assert all(table.num_columns for table in tables.values())


def test_every_other_file_is_json_or_empty(written):
    groups = zarr_groups(written)
    for path in written.rglob("*"):
        is_in_group = any(group in path.parents for group in groups)
        if path.is_dir() or is_in_group or path.suffix == ".parquet" or path == written / "edges.txt":
            continue
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text() or "null"]
        for line in lines:
            json.loads(line)
