"""Smaller forms of arrays hold the same numbers."""

import numpy as np
import pytest
from corpusmill.pipeline.engine.packing import narrow, widen
from corpusmill.pipeline.engine.run import RunStore
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

ONE_DIMENSION = st.integers(0, 20)


@given(
    arrays(np.uint16, ONE_DIMENSION, elements=st.integers(0, 257)),
    arrays(np.float32, ONE_DIMENSION, elements=st.integers(0, 257)),
)
def test_widened_arrays_are_those_that_were_narrowed(numbers, others):
    given_arrays = {"numbers": numbers, "others": others}
    found = widen(narrow(given_arrays))
    assert found.keys() == given_arrays.keys()
    for name, array in given_arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(("largest", "bytes_per_token"), [(255, 1), (256, 2)])
def test_a_state_of_at_most_256_topics_takes_a_byte_per_token(tmp_path, largest, bytes_per_token):
    z = np.arange(100_000, dtype=np.uint16) % np.uint16(largest + 1)
    run = RunStore(str(tmp_path), owner=1)
    run.write_state(1, 0, {"z": z})
    found = run.state(1, 0)["z"]
    assert found.dtype == z.dtype
    np.testing.assert_array_equal(found, z)
    stored = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert stored == pytest.approx(bytes_per_token * len(z), rel=0.05)
