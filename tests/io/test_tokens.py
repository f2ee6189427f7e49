"""Token lists and counted words become numbers of words, and the patterns of runs of characters are recognised."""

import numpy as np
import pyarrow as pa
import pytest
from corpusmill.io.readers.batches import Bag, Batch
from corpusmill.io.words import TOKEN_PATTERN, TokenOptions, character_run, tokenise


@pytest.mark.parametrize(
    "pattern, run",
    [
        (TOKEN_PATTERN, (r"\w", 2)),
        (r"\w+", (r"\w", 1)),
        (r"[a-z]{3,}", ("[a-z]", 3)),
        (r"\S+", (r"\S", 1)),
        (r"[^a]+", ("[^a]", 1)),
        (r"\b[a-z]{3,}\b", None),
        (r"[a-z]{3,5}", None),
        (r"a+|b", None),
    ],
)
def test_which_patterns_need_no_regular_expression(pattern, run):
    assert character_run(pattern) == run


@pytest.mark.parametrize("pattern", [r"[a-z]{0,}", r"\w*", r"a|", r"(a?)"])
def test_patterns_that_match_nothing_are_refused(pattern):
    with pytest.raises(ValueError, match="also matches nothing"):
        character_run(pattern)


def test_token_lists_stay_as_they_are():
    lists = pa.array([["A", "b b"], [], None, ["A"]], pa.large_list(pa.large_string()))
    found = tokenise(Batch(pa.array(["x"] * 4), lists), TokenOptions())
    assert found.doc_ptr.tolist() == [0, 2, 2, 2, 3]
    assert [found.words[i].as_py() for i in found.ids] == ["A", "b b", "A"]


def test_a_bag_keeps_the_names_of_its_columns():
    bag = Bag(np.array([0, 2, 3]), np.array([4, 4, 7]), None)
    found = tokenise(Batch(pa.array(["x", "y"]), bag), TokenOptions())
    assert (found.words.to_pylist(), found.ids.tolist()) == (["4", "7"], [0, 0, 1])
