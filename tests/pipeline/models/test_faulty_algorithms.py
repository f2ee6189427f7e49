"""The algorithm that injects faults is like the one that it wraps, so tests of lost workers merge as training does."""

from dataclasses import fields

import pytest
from corpusmill import LDA, NMF, RandomIndexing
from corpusmill.pipeline.engine.algorithm import Algorithm
from helpers.faults import FORWARDED, Faulty
from helpers.toy import write_toy_corpus


@pytest.mark.parametrize(
    "estimator", [LDA(3), LDA(3, sampler="warp"), NMF(3), RandomIndexing(64)], ids=["lda", "warp", "nmf", "ri"]
)
def test_every_constant_and_property_is_that_of_the_wrapped_algorithm(tmp_path, estimator):
    inner = estimator._algorithm(write_toy_corpus(tmp_path / "corpus"))
    faulty = Faulty(inner, (), str(tmp_path))
    names = FORWARDED | {field.name for field in fields(Algorithm)}
    values = {name: getattr(inner, name) for name in names if not callable(getattr(inner, name))}
    assert {"merges_on_device", "wait_bytes", "n_blocks", "bounds"} <= values.keys()
    assert {name: getattr(faulty, name) for name in values} == values
