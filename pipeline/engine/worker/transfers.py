"""The reads and writes of one worker in one phase of a step: chunks, states, and parts of the model.

Data that is not in the worker's cache is read from the store. If the store makes threads wait, other threads read the
data before the kernels need it. See `overlap`.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from ....io.stores.store import Arrays, Store
from ..algorithm import nbytes
from .buffers import AHEAD, CACHE, REMOTE_WAIT_SECONDS, Pace, ReadAhead, WriteBehind
from .tasks import (
    SHARED,
    Job,
    ModelPart,
    StepModel,
    Stopwatch,
    SweepPhase,
    chunk_key,
    keep_chunk,
    read_model,
    state_key,
)


class Transfers:
    """Reads data before the threads of a worker need them, and writes results while the threads continue."""

    def __init__(self, phase: SweepPhase, n_threads: int = 1):
        job = phase.job
        self._job = job
        self._step = phase.step
        self._is_first_range = not phase.range_index
        self._shared = phase.shared
        self._n_threads = n_threads
        self._data = job.open(job.data)
        self.pace = pace_of(job)
        # Half of the buffers for each direction, so that neither blocks the other one.
        self._ahead = ReadAhead(self.pace, job.plan.buffers // 2)
        self.behind = WriteBehind(self.pace, job.plan.buffers // 2)
        self._lock = threading.Lock()
        self._begun: set[int] = set()  # chunks whose sweeps have begun

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Context manager: at its end, everything is written."""
        try:
            yield
            self.behind.finish()
        except BaseException:
            self.behind.abandon()
            raise
        finally:
            self._ahead.close()

    # --- chunks and states ---

    def read_chunks_ahead(self, own: list[int], upcoming: Iterable[int]) -> None:
        """Start to read a thread's next chunks and their states.

        ``own`` are the chunks that are left of the thread's shard. ``upcoming`` are those of the worker's next shards.
        """
        if not self.pace.store_waits:
            return
        chosen = own[:AHEAD]
        if len(chosen) < AHEAD:
            # The threads share the next shards.
            chosen += islice(upcoming, self._n_threads * AHEAD)
        for index in chosen:
            if not self._start_chunk(index):
                return

    def _start_chunk(self, index: int) -> bool:
        """Start to read a chunk and its state; return False if the buffers are full."""
        job = self._job
        state_step = self._state_step()
        with self._lock:
            if index in self._begun:
                return True
            needs_chunk = CACHE.get(chunk_key(job, job.data, index)) is None
            needs_state = state_step and CACHE.get(state_key(job, index), version=state_step) is None
            if not needs_chunk and not needs_state:
                return True
            estimate = job.algorithm.memory(self._data, self._data.chunks[index])
            is_started = True
            if needs_chunk:
                is_started = self._ahead.start(("chunk", index), partial(self._load_chunk, index), estimate.data)
            if needs_state and is_started:
                read = partial(job.files.state, state_step, index)
                is_started = self._ahead.start(("state", index), read, estimate.state)
        return is_started

    def _load_chunk(self, index: int) -> Any:
        return self._job.algorithm.load_chunk(self._data, index, self.model())

    def chunk(self, index: int, watch: Stopwatch) -> Any:
        """Return a chunk in the algorithm's form."""
        job = self._job
        with self._lock:
            self._begun.add(index)
        chunk = CACHE.get(chunk_key(job, job.data, index))
        if chunk is not None:
            watch.cached += 1
            return chunk
        chunk = self._ahead.get(("chunk", index), partial(self._load_chunk, index))
        keep_chunk(job, job.data, index, chunk)
        return chunk

    def state(self, index: int, watch: Stopwatch) -> Arrays | None:
        """Return the chunk's state after its last sweep; None before its first sweep."""
        state_step = self._state_step()
        if not state_step:
            return None
        state = CACHE.get(state_key(self._job, index), version=state_step)
        if state is not None:
            watch.cached += 1
            return state
        return self._ahead.get(("state", index), partial(self._job.files.state, state_step, index))

    def _state_step(self) -> int:
        """Return the step that wrote the states, or 0 if there are none. The first range of a step writes them."""
        if not self._job.plan.keeps_state:
            return 0
        if not self._is_first_range:
            return self._step
        return max(0, self._step - self._job.needs.rounds)

    def write_state(self, index: int, state: Arrays) -> None:
        """Write a chunk's next state."""
        job = self._job
        self.behind.write(partial(job.files.write_state, self._step, index, state), nbytes(state))
        CACHE.put(state_key(job, index), state, version=self._step, nbytes=nbytes(state), budget=job.plan.cache)

    # --- the model of the last step ---

    def model(self, watch: Stopwatch | None = None, read_parts: dict[ModelPart, None] | None = None) -> StepModel:
        """Return the model that sweeps and updates read. Parts that it reads are added to ``read_parts``."""

        def read(part: ModelPart) -> Arrays:
            if read_parts is not None:
                read_parts[part] = None
            return self._read_part(part)

        return StepModel(self._job, self._step - 1, watch, read, self._shared)

    def read_parts_ahead(self, parts: Iterable[ModelPart]) -> None:
        """Start to read parts of the model that are not in the cache."""
        if not self.pace.store_waits:
            return
        nbytes_of_part = self._job.algorithm.memory(self._data, self._data.chunks[0]).model
        for part in parts:
            if part == SHARED and self._shared is not None:
                continue
            key = (self._job.name, *part)
            if CACHE.get(key, version=self._step - 1) is not None:
                continue
            read = partial(read_model, self._job, self._step - 1, part)
            if not self._ahead.start(part, read, nbytes_of_part):
                return

    def _read_part(self, part: ModelPart) -> Arrays:
        """Return a part of the model that is not in the cache, and start to read the blocks after it."""
        if part != SHARED:
            stop = min(part.number + AHEAD, self._job.algorithm.n_blocks)
            self.read_parts_ahead(ModelPart("block", index) for index in range(part.number, stop))
        return self._ahead.get(part, partial(read_model, self._job, self._step - 1, part))


def pace_of(job: Job) -> Pace:
    """Return the pace of this worker in a run. A store on another machine makes threads wait until it is measured."""
    is_local = job.files.store.is_local and Store(job.data.url).is_local
    return CACHE.load((job.name, "pace"), lambda: Pace(0.0 if is_local else REMOTE_WAIT_SECONDS))
