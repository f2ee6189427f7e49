"""A trained factorisation is applied to the rows of a matrix on the workers of a client."""

import numpy as np
from corpusmill import NMF, write_matrix
from distributed import get_task_stream


def test_the_workers_of_a_client_transform_and_score_the_rows_of_a_matrix(tmp_path, cluster_of):
    A = np.random.default_rng(0).random((120, 60))
    matrix = write_matrix(str(tmp_path / "m"), A, "float32", chunk_numbers=700)
    model = NMF(5, max_iter=3).fit(matrix)
    client = cluster_of(2)
    for rows in (matrix, A):
        with get_task_stream(client) as stream:
            np.testing.assert_array_equal(model.transform(rows, client=client), model.transform(rows))
            assert model.score(rows, client=client) == model.score(rows)
        names = [task["key"].rpartition("-")[0].rpartition("-")[0] for task in stream.data]
        expected = len(matrix.chunks) if rows is matrix else 1
        assert (names.count("rows_of_matrix"), names.count("error_of_matrix")) == (expected, expected)
