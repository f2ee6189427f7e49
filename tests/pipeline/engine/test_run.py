"""What the files of a run say about it."""

import pytest
from corpusmill.pipeline.engine.run import describe_changes

STORED = {
    "algorithm": "word2vec",
    "parameters": {"steps": 2, "device": "cpu"},
    "config": {"model": {"epochs": 2, "window": 5, "stop_words": ["a", "the"], "device": "cpu"}},
    "data": {"hash": "1"},
    "previous": None,
    "seed": 0,
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"algorithm": "lda"}, "the model (word2vec there, lda here)"),
        (
            {"config": {"model": {"epochs": 3, "window": 6, "stop_words": ("a", "the"), "device": "cuda"}}},
            "epochs (2 there, 3 here), window (5 there, 6 here)",
        ),
        ({"data": {"hash": "2"}, "previous": "3"}, "the data, the model that training continues from"),
        # The configuration of a caller need not have parameters.
        ({"config": {}, "parameters": {"steps": 3, "device": "cuda"}}, "max_steps (2 there, 3 here)"),
        ({"config": {"model": ["window"]}, "parameters": {"steps": 3}}, "max_steps (2 there, 3 here)"),
        ({"config": {}, "seed": 1}, "the seed (0 there, 1 here)"),
        ({}, "a setting that another version of corpusmill added or dropped"),
    ],
)
def test_the_refusal_of_a_run_names_what_differs(change, expected):
    assert describe_changes(STORED, STORED | change, {"steps": "max_steps"}) == expected
