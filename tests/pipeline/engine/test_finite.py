"""A run whose numbers diverge ends with an error, and keeps the epochs before."""

from dataclasses import dataclass

import numpy as np
import pytest
from corpusmill.io.errors import DataError
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import Synchronous
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.engine.training import Advice
from corpusmill.pipeline.engine.worker.tasks import Job, check_finite
from helpers.toy import Tally, write_toy_corpus


@dataclass(frozen=True, kw_only=True)
class Diverging(Tally):
    """Its model has a weight that doubles its exponent in each epoch, until float32 cannot hold it."""

    part: str = "block"

    def begin(self, data, blocks, previous):
        return (arrays | {"weight": np.float32([1e15])} for arrays in super().begin(data, blocks, previous))

    def apply(self, block, delta, shared, first):
        counts, totals = super().apply(block, delta, shared, first)
        return counts | {"weight": block["weight"] ** 2 if self.part == "block" else block["weight"]}, totals

    def reduce(self, shared, totals, sums, history):
        shared, metrics = super().reduce(shared, totals, sums, history)
        if self.part == "shared" and metrics["drawn"]:
            shared = shared | {"rate": np.float64("nan")}
        return shared, metrics


def diverge(corpus, folder, part):
    run = RunStore(str(folder))
    with pytest.raises(DataError) as caught, np.errstate(over="ignore"):
        train(Training(Diverging(part=part), corpus, run, epochs=4), Synchronous())
    return run, str(caught.value)


def test_an_epoch_with_an_infinite_number_is_not_committed(tmp_path):
    run, message = diverge(write_toy_corpus(tmp_path / "corpus"), tmp_path / "run", "block")
    assert "in epoch 2, the array 'weight' of block 0 of the model" in message
    assert message.endswith(Advice().divergence)
    assert run.step == 1


def test_an_epoch_whose_shared_arrays_contain_nan_is_not_committed(tmp_path):
    run, message = diverge(write_toy_corpus(tmp_path / "corpus"), tmp_path / "run", "shared")
    assert "in epoch 1, the array 'rate' of the shared part of the model" in message
    assert run.step == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_number_among_many_is_found(bad):
    numbers = np.zeros((100, 10), np.float32)
    check_finite(1, "a block", {"numbers": numbers, "counts": np.arange(3), "empty": np.empty(0)})
    numbers[57, 3] = bad
    with pytest.raises(DataError, match="'numbers' of a block"):
        check_finite(1, "a block", {"numbers": numbers})


@pytest.mark.parametrize("step, epoch", [(1, 1), (3, 1), (4, 2)])
def test_epochs_of_several_commits_are_counted(tmp_path, step, epoch):
    algorithm = Tally(rounds=3)
    training = Training(algorithm, None, RunStore(str(tmp_path)), 1)
    assert Job(training, 6, algorithm.needs(None, 1)).epoch(step) == epoch
