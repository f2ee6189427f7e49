"""What the files of a run say about it, and runs of other formats."""

import pytest
from corpusmill import LDA
from corpusmill.io.errors import DataError
from corpusmill.pipeline.engine.run import RunStore, describe_changes
from helpers.models import bits
from helpers.toy import write_toy_corpus

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


def trained(tmp_path, epochs, folder="run"):
    """Train a model on the corpus of this test, or continue the run in a folder."""
    return LDA(3, max_iter=epochs, device="cpu").fit(str(tmp_path / "corpus"), run=str(tmp_path / folder))


def test_a_run_of_format_2_is_resumed_and_becomes_one_of_format_3(tmp_path):
    corpus = write_toy_corpus(tmp_path / "corpus")
    trained(tmp_path, 1)
    run = RunStore(str(tmp_path / "run"))
    run.store.write_json("run.json", run.meta | {"format": 2})
    for chunk in range(len(corpus.chunks)):
        # Format 2 has no narrow arrays.
        run.store.write_arrays(f"{run.folder(1)}/state/{chunk:06d}", run.state(1, chunk))
    assert bits(trained(tmp_path, 3)) == bits(trained(tmp_path, 3, "whole"))
    assert run.meta["format"] == 3


@pytest.mark.parametrize("number", [1, 4])
def test_a_run_of_another_format_is_refused(tmp_path, number):
    write_toy_corpus(tmp_path / "corpus")
    trained(tmp_path, 1)
    run = RunStore(str(tmp_path / "run"))
    run.store.write_json("run.json", run.meta | {"format": number})
    with pytest.raises(DataError, match=f"run format {number} is not supported by .*, which reads format 2 or 3;"):
        trained(tmp_path, 2)
