"""Numbers, durations and names as people read them."""

import dask.utils
import pytest
from corpusmill.pipeline.formatting import format_bytes, format_duration, format_number, label, with_minus_sign


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (12, "12"),
        (1234, "1,234"),
        (123456, "123 k"),
        (1.5e6, "1.5 M"),
        (2.34e9, "2.34 G"),
        (0.12345, "0.1235"),
    ],
)
def test_numbers_have_about_four_digits(number, text):
    assert format_number(number) == text


@pytest.mark.parametrize("size", [0, 5, 921, 922, 12_345, 7 * 2**20, 943_718, 943_719, 3 * 2**33, 2**45, 2**52])
def test_bytes_are_written_as_in_dask(size):
    assert format_bytes(size) == dask.utils.format_bytes(size)


def test_durations_minus_signs_and_names():
    assert [format_duration(s) for s in (0.42, 12.3, 185, 300, 7800)] == [
        "0.4 s",
        "12 s",
        "3 min 5 s",
        "5 min",
        "2 h 10 min",
    ]
    assert with_minus_sign("-7.1") == "\N{MINUS SIGN}7.1"
    names = {
        "training_seconds": "training seconds",
        "held_out_loss": "held-out loss",
        "coherence_c_v": "coherence c_v",
        "u_mass": "u_mass",
        "held_out_log_likelihood": "held-out log-likelihood",
        "log_loss": "log loss",
    }
    assert {name: label(name) for name in names} == names
