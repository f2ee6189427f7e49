"""What a worker has swept: its deltas stay on the worker, and only numbers travel to the client."""

import contextlib

import numpy as np
import pytest
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import Synchronous
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.engine.worker.contributions import (
    ContributionLost,
    SweptDeltas,
    update_if_complete,
)
from corpusmill.pipeline.engine.worker.tasks import Job, SweepPhase
from helpers.toy import Tally, equal_blocks, write_toy_corpus


def phase_of(step, name):
    training = Training(Tally(bounds=equal_blocks(3)), None, RunStore("run"), 2)
    return SweepPhase(Job(training, n_chunks=1, name=name), step)


def test_deltas_stay_on_their_worker_until_its_next_phase_or_the_end_of_the_run():
    swept = SweptDeltas()
    deltas = [{"values": np.full(1 << 20, block)} for block in range(3)]
    phase = phase_of(1, "run")
    source = swept.keep(phase, "address", [((0, 1), deltas)])
    other = swept.keep(phase_of(1, "other"), "address", [])
    assert source.nbytes == 3 << 23
    assert swept.fetch(source, [2]) == [((0, 1), [deltas[2]])]
    swept.forget("run", but=phase.name)
    assert swept.fetch(source, [0]) == [((0, 1), [deltas[0]])]
    swept.forget("run", but=phase_of(2, "run").name)
    with pytest.raises(ContributionLost):
        swept.fetch(source, [0])
    assert swept.fetch(other, []) == []
    swept.forget("other")
    with pytest.raises(ContributionLost):
        swept.fetch_packed(other, [])


@pytest.mark.parametrize("n_ranges", [1, 3])
def test_one_worker_updates_the_blocks_that_it_has_swept_alone(tmp_path, n_ranges):
    corpus = write_toy_corpus(tmp_path / "corpus", n_chunks=3, documents=4)

    class Watched(Synchronous):
        """Updates as a worker does that has swept all shards, and fails if an update is requested again."""

        def __init__(self):
            super().__init__()
            self.found = []

        @contextlib.contextmanager
        def sweep(self, phase, *arguments):
            with super().sweep(phase, *arguments) as finish:

                def finish_and_update():
                    swept = finish()
                    (contribution,) = swept.contributions
                    update_if_complete(phase, contribution, self._deltas.fetch)
                    self.found.append(contribution)
                    return swept

                yield finish_and_update

        def update(self, *arguments):
            raise AssertionError("the blocks are updated already")

    executor = Watched()
    algorithm = Tally(bounds=equal_blocks(3), n_ranges=n_ranges)
    train(Training(algorithm, corpus, RunStore(str(tmp_path / "run")), 2), executor)
    assert [len(contribution.applied) for contribution in executor.found] == 2 * n_ranges * [3 // n_ranges]
