"""Sums over the chunks of a shard."""

import numpy as np
import pytest
from corpusmill.pipeline.models.nmf.deltas import cut_sums, shard_sums


@pytest.mark.parametrize("bounds", [(0, 6), (0, 2, 6)])
def test_all_chunks_of_a_shard_add_to_the_same_arrays(bounds):
    W = np.ones((6, 3), np.float32)
    P, Q = shard_sums((3, 3), W, None)
    next_P, next_Q = shard_sums((3, 3), W, cut_sums(bounds, P, Q))
    assert next_P is P
    assert next_Q is Q
