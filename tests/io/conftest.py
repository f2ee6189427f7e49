"""Fixtures of the tests of readers and stores."""

import pytest
from corpusmill.io.readers.edge_lists import EdgeOptions
from helpers.graphs import graph_of


@pytest.fixture
def read(tmp_path):
    """Return a function that makes a graph of a text file with this content."""

    def write_and_read(text, name="edges.txt", chunk_edges=1 << 24, **options):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return graph_of(str(path), tmp_path / "graph", EdgeOptions(**options), chunk_edges=chunk_edges)

    return write_and_read
