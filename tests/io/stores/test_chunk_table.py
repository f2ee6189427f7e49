"""The tables of chunks of matrices and graphs: they are read only when they are needed."""

import random

import numpy as np
import pyarrow as pa
import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.readers.edges import read_edges
from corpusmill.io.stores.graph import write_graph
from corpusmill.io.stores.matrix import Matrix, write_matrix
from corpusmill.pipeline.commands.actions.inspect import inspect


@pytest.fixture(params=["matrix", "graph"])
def store(request, tmp_path):
    """A store of three chunks."""
    url = str(tmp_path / request.param)
    if request.param == "matrix":
        return write_matrix(url, np.ones((6, 2)), chunk_numbers=4)
    (tmp_path / "edges.txt").write_text("a b\nb c\n")
    return write_graph(read_edges(str(tmp_path / "edges.txt")), url, chunk_edges=1)


def sizes(store):
    """What a store says about itself without its table."""
    if isinstance(store, Matrix):
        return store.shape, store.n_tokens, repr(store)
    return store.n_nodes, store.n_edges, repr(store)


def test_opening_a_store_does_not_read_its_table_of_chunks(store):
    assert len(store.chunks) == store.meta["chunks"] == inspect(store.url)["chunks"] == 3
    expected = sizes(store)
    store.store.delete("chunks.parquet")
    opened = type(store)(store.url)
    assert sizes(opened) == expected
    with pytest.raises(DataError, match=r"chunks.parquet: missing"):
        _ = opened.chunks


@pytest.mark.parametrize("table", [pa.table({"documents": [1]}), pa.table({"x": [1, 2, 3]})])
def test_a_table_of_other_chunks_is_refused(store, table):
    store.store.write_parquet("chunks.parquet", table)
    with pytest.raises(DataError, match="not the table of this store; restore it"):
        _ = type(store)(store.url).chunks


def test_a_table_with_a_flipped_bit_is_the_same_or_is_refused_with_its_name(store):
    expected = store.chunks
    content = store.store.read_bytes("chunks.parquet")
    refused = 0
    for bit in random.Random(1).sample(range(8 * len(content)), 300):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        store.store.write_bytes("chunks.parquet", bytes(damaged))
        try:
            found = type(store)(store.url).chunks
        except DataError as error:
            assert "chunks.parquet: " in str(error)
            refused += 1
        else:
            assert found == expected
    assert refused > 100


@pytest.mark.parametrize("value", [[], "text", None, 3])
def test_a_json_file_that_is_not_an_object_is_refused(store, value):
    store.store.write_json(f"{store.kind}.json", value)
    with pytest.raises(DataError, match="damaged"):
        type(store)(store.url)
    with pytest.raises(DataError, match="damaged"):
        inspect(store.url)
