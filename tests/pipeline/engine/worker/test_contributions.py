"""What a worker has swept: its deltas stay on the worker, and only numbers travel to the client."""

import contextlib
import pickle

import numpy as np
import pytest
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import Synchronous
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.engine.worker.contributions import Contribution, update_if_complete
from helpers.toy import Tally, equal_blocks, write_toy_corpus


def test_a_contribution_travels_without_its_deltas():
    deltas = [{"values": np.zeros(1 << 20)} for _ in range(3)]
    contribution = Contribution("key", "address", {}, [((0, 1), deltas)])
    sent = pickle.dumps(contribution)
    assert len(sent) < 1000
    received = pickle.loads(sent)
    assert received.nbytes == 3 << 23
    assert not received.has_deltas
    assert received.pieces([0]) == []


@pytest.mark.parametrize("n_ranges", [1, 3])
def test_one_worker_updates_the_blocks_that_it_has_swept_alone(tmp_path, n_ranges):
    corpus = write_toy_corpus(tmp_path / "corpus", n_chunks=3, documents=4)

    class Watched(Synchronous):
        """Updates as a worker does that has swept all shards, and fails if an update is requested again."""

        def __init__(self):
            self.found = []

        @contextlib.contextmanager
        def sweep(self, phase, *arguments):
            with super().sweep(phase, *arguments) as finish:

                def finish_and_update():
                    swept = finish()
                    (contribution,) = swept.contributions
                    update_if_complete(phase, contribution)
                    self.found.append(contribution)
                    return swept

                yield finish_and_update

        def update(self, *arguments):
            raise AssertionError("the blocks are updated already")

    executor = Watched()
    algorithm = Tally(bounds=equal_blocks(3), n_ranges=n_ranges)
    train(Training(algorithm, corpus, RunStore(str(tmp_path / "run")), 2), executor)
    assert [len(contribution.applied) for contribution in executor.found] == 2 * n_ranges * [3 // n_ranges]
