"""Small corpora, and a small algorithm that uses every part of the engine."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.io.stores.corpus import Corpus, commit_corpus, write_chunk
from corpusmill.io.stores.store import Store
from corpusmill.kernels import random
from corpusmill.pipeline.engine.algorithm import Algorithm, MemoryEstimate, Needs, Scores, SweepResult
from corpusmill.pipeline.engine.training import MemoryPlan, Training
from corpusmill.pipeline.engine.worker.tasks import Job


def vocabulary_table(words, frequency):
    """Return a vocabulary of these words and term frequencies."""
    frequency = np.asarray(frequency, np.int64)
    return pa.table({"word": words, "term_frequency": frequency, "document_frequency": frequency})


def write_documents(url, parts, n_words, name):
    """Write parts of chunks of documents (arrays of word ids) as a corpus with words w000, w001, ..."""
    store, infos = Store(url), {}
    frequency = np.zeros(n_words, np.int64)
    for part, chunks in parts.items():
        infos[part] = []
        for c, documents in enumerate(chunks):
            doc_ptr = np.r_[0, np.cumsum([len(d) for d in documents])].astype(np.int64)
            words = np.concatenate(documents).astype(np.uint32)
            if part == "train":
                frequency += np.bincount(words, minlength=n_words)
            infos[part].append(write_chunk(store, part, make_chunk(c, doc_ptr, words, group_tokens=200)))
        keys = pa.table({"key": [f"{part}:{i}" for i in range(sum(len(c) for c in chunks))]})
        store.write_parquet(f"documents-{part}.parquet", keys)
    vocabulary = vocabulary_table([f"w{i:03d}" for i in range(n_words)], frequency)
    commit_corpus(store, vocabulary, infos, True, name, {"source": "toy"})
    return Corpus(str(url))


def write_toy_corpus(url, n_chunks=6, documents=20, n_words=50, seed=0):
    """Write a corpus of random words, some documents empty, and return it opened."""
    rng = np.random.default_rng(seed)

    def chunk():
        lengths = rng.integers(0, 60, documents)
        return [np.minimum(rng.geometric(0.08, n) - 1, n_words - 1) for n in lengths]

    parts = {"train": [chunk() for _ in range(n_chunks)], "held_out": [chunk()]}
    return write_documents(url, parts, n_words, f"toy-{seed}-{n_chunks}-{documents}")


def write_topic_corpus(url, n_topics, words_per_topic=20, n_chunks=4, documents=40, length=60, seed=0):
    """Write a corpus drawn from topics without common words: topic k starts at word k * words_per_topic."""
    rng = np.random.default_rng(seed)

    def document():
        theta = rng.dirichlet(np.full(n_topics, 0.1))
        topics = rng.choice(n_topics, length, p=theta)
        return topics * words_per_topic + rng.integers(0, words_per_topic, length)

    def chunk():
        return [document() for _ in range(documents)]

    parts = {"train": [chunk() for _ in range(n_chunks)], "held_out": [chunk()]}
    return write_documents(url, parts, n_topics * words_per_topic, f"topics-{n_topics}-{seed}")


@dataclass(frozen=True, kw_only=True)
class Tally(Algorithm):
    """Each epoch adds a random number per token to the count of its word; the state holds the last numbers."""

    name: ClassVar[str] = "tally"
    bounds: tuple[int, ...] = (0, 50)
    scratch: int = 0
    n_ranges: int = 1
    rounds: int = 1

    def needs(self, data, n_workers):
        return Needs(ranges=self.n_ranges, rounds=self.rounds)

    def memory(self, data, chunk):
        return MemoryEstimate(
            data=chunk.tokens * 16, state=chunk.tokens * 32, delta=self.n_rows * 8, scratch=self.scratch
        )

    def begin(self, data, blocks, previous):
        return ({"counts": np.zeros(self.bounds[block + 1] - self.bounds[block], np.int64)} for block in blocks)

    def begin_shared(self, data, previous):
        return {"total": np.zeros((), np.int64)}

    def sweep(self, model, chunk, state, shard, address):
        if shard.is_later_range:
            return SweepResult(None, self.deltas(chunk, state, shard), {})
        key = random.key(*address)
        drawn = np.array([int(random.draw(key, i)) % 10 for i in range(chunk.n_tokens)], np.int64)
        last = np.zeros_like(drawn) if state is None else state["last"]
        state = {"last": drawn, "counted": drawn + last + int(model.shared["total"]) % 3}
        return SweepResult(state, self.deltas(chunk, state, shard), {"drawn": drawn.sum()})

    def deltas(self, chunk, state, shard):
        tokens = np.repeat(chunk.word_ids, np.diff(chunk.word_ptr)).astype(np.int64)
        whole = np.bincount(tokens, state["counted"], self.n_rows).astype(np.int64)
        parts = [{"counts": whole[self.bounds[j] : self.bounds[j + 1]]} for j in shard.blocks]
        return shard.plus(parts, self.merge)

    def apply(self, block, delta, shared, first):
        counts = block["counts"] + delta["counts"]
        return {"counts": counts}, {"total": counts.sum()}

    def reduce(self, shared, totals, sums, history):
        return {"total": np.asarray(totals["total"])}, {"drawn": float(sums["drawn"])}

    @property
    def scores(self):
        return TallyScores()


class TallyScores(Scores):
    """Counts tokens, and adds up the numbers of the states."""

    def score(self, model, chunk, state, address, data):
        known = -1 if state is None else int(state["last"].sum())
        return {"tokens": np.int64(chunk.n_tokens), "known": np.int64(known)}

    def metrics(self, sums, held_out):
        return {
            "held_out_tokens" if held_out else "train_tokens": float(sums["tokens"]),
            f"known_{held_out}": float(sums["known"]),
        }


def job_of(algorithm, data, run, name, cache_bytes):
    """Return the job of tasks of a training, as the engine makes it."""
    training = Training(algorithm, data, run, epochs=1, seed=7).for_tasks(run)
    return Job(training, len(data.chunks), plan=MemoryPlan(cache=cache_bytes), name=name)


def model_of(run, algorithm):
    """Return the committed model of a run as one array."""
    return np.concatenate([run.block(run.step, j)["counts"] for j in range(algorithm.n_blocks)])


def equal_blocks(n_blocks, n_rows=50):
    """Return the bounds of blocks of about equal size."""
    return tuple(np.linspace(0, n_rows, n_blocks + 1).astype(int).tolist())
