"""A corpus made in the test, and the smallest algorithm that uses every part of the engine."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from corpusmill.io.corpus import Corpus, make_chunk, write_chunk, write_corpus_table
from corpusmill.io.store import Store
from corpusmill.kernels import random
from corpusmill.pipeline.algorithm import Algorithm, Need, Swept


def write_toy_corpus(url, n_chunks=6, documents=20, n_words=50, length=30, seed=0, held_out=1):
    """Write a corpus of random words and return it opened."""
    rng = np.random.default_rng(seed)
    store = Store(url)
    parts = {}
    for part, count in (("train", n_chunks), ("held_out", held_out)):
        infos = []
        for c in range(count):
            lengths = rng.integers(0, 2 * length, documents)
            doc_ptr = np.r_[0, np.cumsum(lengths)]
            words = np.minimum(rng.geometric(0.08, doc_ptr[-1]) - 1, n_words - 1).astype(np.uint32)
            infos.append(write_chunk(store, part, make_chunk(c, doc_ptr, words, group_tokens=200)))
        parts[part] = infos
        keys = pa.table({"key": [f"{part}:{i}" for i in range(count * documents)]})
        with store.fs.open(store.where(f"documents-{part}.parquet"), "wb") as file:
            pq.write_table(keys, file)
    names = [f"w{i:03d}" for i in range(n_words)]
    zeros = np.zeros(n_words, np.int64)
    vocabulary = pa.table({"word": names, "term_frequency": zeros, "document_frequency": zeros})
    write_corpus_table(store, vocabulary, parts, True, f"toy-{seed}-{n_chunks}-{documents}", {"source": "toy"})
    return Corpus(str(url))


@dataclass(frozen=True)
class Tally(Algorithm):
    """Each epoch adds a random number a token to the count of its word; the state remembers the last numbers."""

    name: ClassVar[str] = "tally"
    n_words: int = 50
    blocks: int = 1
    rounds: int = 1
    scratch: int = 0

    def _bounds(self):
        return np.linspace(0, self.n_words, self.blocks + 1).astype(int)

    def need(self, data, chunk):
        return Need(data=chunk.tokens * 16, state=chunk.tokens * 8, delta=self.n_words * 8, scratch=self.scratch)

    def begin(self, block):
        lo, hi = self._bounds()[block : block + 2]
        return {"counts": np.zeros(hi - lo, np.int64)}

    def begin_shared(self):
        return {"total": np.zeros((), np.int64)}

    def sweep(self, model, chunk, state, deltas, address):
        key = random.key(*address)
        drawn = np.array([int(random.draw(key, i)) % 10 for i in range(chunk.n_tokens)], np.int64)
        last = np.zeros_like(drawn) if state is None else state["last"]
        tokens = np.repeat(chunk.word_ids, np.diff(chunk.word_ptr)).astype(np.int64)
        whole = np.bincount(tokens, drawn + last + int(model.shared["total"]) % 3, self.n_words).astype(np.int64)
        bounds = self._bounds()
        parts = [{"counts": whole[bounds[j] : bounds[j + 1]]} for j in range(self.blocks)]
        if deltas is not None:
            parts = [self.merge(a, b) for a, b in zip(deltas, parts, strict=True)]
        return Swept({"last": drawn}, parts, {"drawn": drawn.sum()})

    def merge(self, left, right):
        return {"counts": left["counts"] + right["counts"]}

    def apply(self, block, delta, shared):
        counts = block["counts"] + delta["counts"]
        return {"counts": counts}, {"total": counts.sum()}

    def finish(self, shared, totals, sums):
        return {"total": np.asarray(totals["total"])}, {"drawn": float(sums["drawn"])}

    def score(self, model, chunk, state, address):
        known = -1 if state is None else int(state["last"].sum())
        return {"tokens": np.int64(chunk.n_tokens), "known": np.int64(known)}

    def rate(self, sums, held_out):
        return {
            "held_out_tokens" if held_out else "train_tokens": float(sums["tokens"]),
            f"known_{held_out}": float(sums["known"]),
        }


def model_of(run, algorithm):
    """Return the committed model of a run as one array."""
    return np.concatenate([run.block(run.step, j)["counts"] for j in range(algorithm.blocks)])
