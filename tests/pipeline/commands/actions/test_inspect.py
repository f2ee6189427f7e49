"""What `corpusmill inspect` says about matrices and graphs."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.io.readers.edge_lists import EdgeOptions
from corpusmill.io.readers.edges import read_edges
from corpusmill.io.stores.graph import write_graph
from corpusmill.io.stores.matrix import write_matrix
from corpusmill.pipeline.commands.actions.inspect import inspect


@pytest.mark.parametrize(("directed", "name", "number"), [(True, "edges", 2), (False, "edges_in_both_directions", 4)])
def test_the_edges_of_a_graph_are_counted_as_they_are_stored(tmp_path, directed, name, number):
    (tmp_path / "edges.tsv").write_text("a\tb\nb\tc\n")
    write_graph(read_edges(str(tmp_path / "edges.tsv"), EdgeOptions(directed=directed)), tmp_path / "graph")
    found = inspect(str(tmp_path / "graph"))
    assert (found["what"], found["nodes"], found[name], found["directed"]) == ("graph", 3, number, directed)


def test_a_matrix_has_rows_and_columns(tmp_path):
    write_matrix(tmp_path / "matrix", scipy.sparse.csr_matrix(np.eye(3, 5)))
    found = inspect(str(tmp_path / "matrix"))
    assert (found["what"], found["rows"], found["columns"], found["stored_numbers"]) == ("matrix", 3, 5, 3)
    assert (found["sparse"], found["dtype"], found["sum"]) == (True, "float32", 3.0)
