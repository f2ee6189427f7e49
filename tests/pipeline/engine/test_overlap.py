"""Reading ahead and writing behind: on a slow store, sweeps wait little, errors surface, and bits stay the same."""

import threading
import time
from typing import ClassVar

import fsspec
import numpy as np
import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import Synchronous
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.engine.worker.buffers import Pace, ReadAhead, WriteBehind
from fsspec.implementations.memory import MemoryFileSystem
from helpers.toy import Tally, equal_blocks, model_of, write_toy_corpus

SLOW = 0.01


class SlowFileSystem(MemoryFileSystem):
    """Files in memory. Reading or writing one takes a while, and may fail."""

    protocol = "slow"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]
    full_after: ClassVar[int] = 1 << 30  # states that can be written
    states: ClassVar[list[str]] = []
    threads: ClassVar[set[str]] = set()

    def cat_file(self, path, *arguments, **options):
        time.sleep(SLOW)
        self.threads.add(threading.current_thread().name)
        return super().cat_file(path, *arguments, **options)

    def pipe(self, path, value=None, **options):
        time.sleep(SLOW)
        self.threads.add(threading.current_thread().name)
        if any("/state/" in name for name in path):
            self.states.append(next(iter(path)))
            if len(self.states) > self.full_after:
                raise OSError(28, "No space left on device")
        super().pipe(path, value, **options)


@pytest.fixture
def slow():
    fsspec.register_implementation("slow", SlowFileSystem, clobber=True)
    SlowFileSystem.store.clear()
    SlowFileSystem.states.clear()
    SlowFileSystem.threads.clear()
    SlowFileSystem.full_after = 1 << 30
    write_toy_corpus("slow://corpus", n_chunks=8, documents=4)
    return Corpus("slow://corpus")


def trained(corpus, folder):
    algorithm = Tally(bounds=equal_blocks(3))
    run = RunStore(str(folder))
    train(Training(algorithm, corpus, run, 2, seed=7, evaluate_every=0), Synchronous())
    return model_of(run, algorithm)


def test_a_slow_store_changes_no_bit_and_is_read_and_written_by_other_threads(slow, tmp_path):
    expected = trained(write_toy_corpus(tmp_path / "corpus", n_chunks=8, documents=4), tmp_path / "run")
    np.testing.assert_array_equal(trained(slow, "slow://run"), expected)
    assert any(name.startswith("corpusmill-read") for name in SlowFileSystem.threads)
    assert any(name.startswith("corpusmill-write") for name in SlowFileSystem.threads)
    row = RunStore("slow://run").metrics[-1]
    # Of each of the 8 chunks: its state is a group and two arrays, with metadata. Then 3 blocks and the shared part.
    assert row["requests_write"] == 5 * 8 + 3 * (3 + 1) + 2  # and metrics and HEAD of the step before


def test_a_full_store_fails_the_step_and_the_run_continues_to_the_same_bits(slow, tmp_path):
    expected = trained(slow, tmp_path / "run")
    SlowFileSystem.states.clear()
    SlowFileSystem.full_after = 11
    with pytest.raises(DataError, match=r"No space left on device\); committed results are safe"):
        trained(slow, "slow://run")
    assert RunStore("slow://run").step == 1
    SlowFileSystem.full_after = 1 << 30
    np.testing.assert_array_equal(trained(slow, "slow://run"), expected)


def test_reading_ahead_stays_within_its_bytes():
    ahead = ReadAhead(Pace(1.0), nbytes=100)
    assert ahead.start("a", lambda: "A", 60)
    assert not ahead.start("b", lambda: "B", 60)
    assert ahead.get("a", lambda: "again") == "A"
    assert ahead.get("b", lambda: "B") == "B"
    assert ahead.start("c", lambda: "C", 60)
    ahead.close()


def test_an_error_of_reading_ahead_is_raised_where_the_value_is_needed():
    def fail():
        raise DataError("damaged")

    ahead = ReadAhead(Pace(1.0), nbytes=100)
    ahead.start("a", fail, 10)
    with pytest.raises(DataError, match="damaged"):
        ahead.get("a", fail)
    ahead.close()


def test_writing_waits_while_too_much_is_not_written():
    may_write = threading.Event()
    written = []

    def write(name):
        may_write.wait(10)
        written.append(name)

    behind = WriteBehind(Pace(1.0), nbytes=100)
    behind.write(lambda: write("a"), 60)
    assert written == []
    threading.Timer(0.05, may_write.set).start()
    behind.write(lambda: write("b"), 60)
    assert written[0] == "a"
    behind.finish()
    assert written == ["a", "b"]


def test_a_store_that_does_not_wait_needs_no_thread():
    pace = Pace(0.0)
    assert not pace.store_waits
    for _ in range(20):
        pace.timed(lambda: time.sleep(0.02))
    assert pace.store_waits
