"""An algorithm that sleeps for the time of a kernel, and a corpus of tiny chunks for it."""

import contextlib
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.io.stores.corpus import Corpus, commit_corpus, write_chunk
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.algorithm import Algorithm, MemoryEstimate, Merge, Needs, SweepResult, add
from distributed import get_worker

#: Tokens of a chunk. The memory estimate and the events need some.
TOKENS = 10


class AnyOrder(Merge):
    """Adds integers, in any order."""

    def exact_bytes(self, step):
        """Return that no bytes have to wait."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Sleeper(Algorithm):
    """Its sweeps sleep. A delta of a block is an array of ``delta_bytes`` bytes, and deltas are added up."""

    name: ClassVar[str] = "sleeper"

    seconds: float  # of the sweep of one chunk
    delta_bytes: int
    state_bytes: int = 0
    exact: bool = True
    slow_worker: str = ""  # name of a worker that takes ``slowness`` times as long
    slowness: float = 3.0

    @property
    def merge(self):
        """Deltas are added in any order, or along the tree."""
        return AnyOrder() if self.exact else Merge()

    def needs(self, data, n_workers):
        """Return the most shards."""
        return Needs(shards=4096)

    def memory(self, data, chunk):
        """Return the bytes of a sweep."""
        deltas = self.n_blocks * self.delta_bytes
        return MemoryEstimate(data=1000, state=self.state_bytes, model=deltas, delta=3 * deltas)

    def _zeros(self):
        return {"values": np.zeros(self.delta_bytes // 8, np.int64)}

    def begin(self, data, blocks, previous):
        """Yield blocks of zeros."""
        return (self._zeros() for block in blocks)

    def begin_shared(self, data, previous):
        """Return a number."""
        return {"total": np.int64(0)}

    def sweep(self, model, chunk, state, shard, address):
        """Read the whole model, and sleep."""
        for block in range(self.n_blocks):
            model.block(block)
        factor = 1.0
        with contextlib.suppress(ValueError):
            if self.slow_worker and get_worker().name == self.slow_worker:
                factor = self.slowness
        time.sleep(self.seconds * factor)
        size = self.delta_bytes // 8
        new = [{"values": np.full(size, address.chunk + address.step + j)} for j in range(self.n_blocks)]
        next_state = {"z": np.zeros(self.state_bytes, np.uint8)} if self.state_bytes else None
        return SweepResult(next_state, shard.plus(new), {"chunks": np.int64(1)})

    def apply(self, block, delta, shared, first):
        """Add the sum of the deltas."""
        return add(block, delta), {"total": delta["values"][:1].sum()}

    def reduce(self, shared, totals, sums, history):
        """Return the totals; the metric shows that no shard was lost or counted twice."""
        return {"total": totals["total"]}, {"total": float(totals["total"]), "chunks": float(sums["chunks"])}


def write_corpus(url, n_chunks):
    """Write a corpus of ``n_chunks`` chunks with one document each."""
    store = Store(url)
    doc_ptr = np.array([0, TOKENS])
    words = np.arange(TOKENS, dtype=np.uint32)
    chunks = [write_chunk(store, "train", make_chunk(c, doc_ptr, words)) for c in range(n_chunks)]
    frequency = np.full(TOKENS, n_chunks, np.int64)
    names = [f"w{i}" for i in range(TOKENS)]
    vocabulary = pa.table({"word": names, "term_frequency": frequency, "document_frequency": frequency})
    infos = {"train": chunks, "held_out": []}
    keys = pa.table({"key": [f"d{c}" for c in range(n_chunks)]})
    store.write_parquet("documents-train.parquet", keys)
    store.write_parquet("documents-held_out.parquet", keys.slice(0, 0))
    commit_corpus(store, vocabulary, infos, True, f"sleepers-{n_chunks}", {"source": "sleepers"})
    return Corpus(str(url))
