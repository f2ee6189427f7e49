"""Latent Dirichlet allocation by ESCA, as the engine trains it; other samplers share all but the draw."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.lda import esca as lda
from ....kernels.lda import priors as lda_priors
from ...engine.algorithm import Address, Algorithm, MemoryEstimate, Model, PreviousModel, SweepResult
from ...engine.device import kernels
from ..base.sparse_rows import row_of_each_entry
from .base import PreviousTopics
from .inference import Table, complete, kernel_model

#: The address of draws that belong to no epoch: folding in held-out documents.
FOLD_IN = -2
#: Bins of the histogram of the counts in B: up to 2^40.
WORD_BINS = int(lda_priors.bins_of(np.array(1 << 40))) + 1


@dataclass(frozen=True, kw_only=True)
class ESCA(Algorithm[Corpus, Chunk]):
    """LDA by ESCA (SaberLDA section 2.2). State: topics z by token. Model: word-topic counts B, sparse by row.

    Some counts belong to no token of the corpus: those of the previous model and those of seed words. They are constant
    and are added to the counts of every epoch.
    """

    name: ClassVar[str] = "lda"
    n_words: int  # V, including words that only the previous model has
    n_topics: int
    alpha: tuple[float, ...] = ()  # one, or one a topic
    beta: float = 0.01
    leave_out: bool = True
    entries: int = 0  # non-zeros that B can have at most
    seeds: tuple[tuple[int, int, int], ...] = ()  # (word, topic, count), ascending
    learn_priors: str = "none"
    learn_every: int = 10
    bins: int = 0  # of histograms of documents' lengths

    def memory(self, data: Any, chunk: Any) -> MemoryEstimate:
        """Bytes of one sweep: the chunk in both orders, topics old and new, B, and deltas while two are merged."""
        block = (6 * self.entries + 8 * self.n_words) // self.n_blocks
        own = 6 * min(self.entries, chunk.tokens) + 8 * self.n_words
        return MemoryEstimate(
            data=12 * chunk.tokens + 12 * chunk.segments + 16 * chunk.documents,
            state=4 * chunk.tokens,
            model=block,
            delta=max(2 * own, 3 * block) + 16 * self.n_topics * self.bins,
            # Topics in document order, rows of A twice while they are trimmed, the same dense for a group of documents.
            # Scores of held-out documents, a chunk too, hold as much.
            scratch=22 * chunk.tokens + 64 * chunk.documents + 48 * self.n_topics,
            # The same, rows of A in lines of 128 bytes, and where each of some thousand blocks counts and spreads rows.
            device=44 * chunk.tokens + 28 * chunk.segments + 160 * chunk.documents + block + (40 << 10) * self.n_topics,
        )

    def begin(self, data: Corpus, block: int, previous: PreviousModel | None) -> Arrays:
        """Return the constant counts."""
        first = self.bounds[block]
        stop = self.bounds[block + 1]
        if previous is not None:
            return PreviousTopics(previous).rows(data.vocabulary.slice(first, stop - first))
        words, topics, counts = np.array(self.seeds, np.int64).reshape(-1, 3).T
        row_ptr = np.searchsorted(words, np.arange(first, stop + 1))
        mine = slice(row_ptr[0], row_ptr[-1])
        return {
            "row_ptr": row_ptr - row_ptr[0],
            "topics": topics[mine].astype(np.uint16),
            "counts": counts[mine].astype(np.int32),
        }

    def constant_delta(self, data: Corpus, block: int, previous: PreviousModel | None) -> Arrays | None:
        """Return the counts of the previous model or of the seeds, if there are any."""
        if previous is None and not self.seeds:
            return None
        return self.begin(data, block, previous)

    def begin_shared(self, data: Corpus, previous: PreviousModel | None) -> Arrays:
        """Return the topic totals of the constant counts, those of seed words alone, and the priors."""
        alpha = np.broadcast_to(np.asarray(self.alpha, np.float32), self.n_topics).copy()
        _, topics, counts = np.array(self.seeds, np.int64).reshape(-1, 3).T
        seeded = lda.topic_totals(topics.astype(np.uint16), counts.astype(np.int32), self.n_topics)
        shared = {"totals": seeded, "seeded": seeded, "alpha": alpha, "beta": np.float64(self.beta)}
        if previous is not None:
            before = previous.shared
            _, elsewhere = PreviousTopics(previous).elsewhere(data.vocabulary)
            shared |= {
                "totals": before["totals"],
                "seeded": before.get("seeded", seeded),
                "elsewhere": elsewhere,
            }
            if self.learn_priors != "none":
                shared |= {"alpha": before["alpha"], "beta": before["beta"]}
        return shared

    def sweep(
        self, model: Model, chunk: Any, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Draw every token's topic from the counts of the last epoch and count the new ones by word."""
        models = (self.block_of(model, j) for j in range(self.n_blocks))
        old = None if state is None else state["z"]
        z = kernels("lda.esca", self.device).sweep(chunk, models, old, random.key(*address), self.leave_out)
        return self._swept(chunk, z, deltas, address)

    def _swept(self, chunk: Chunk, z: np.ndarray, deltas: list[Arrays] | None, address: Address) -> SweepResult:
        """Count the new topics ``z`` by word and, in epochs that learn priors, how often a document has how many."""
        sums: Arrays = {}
        if self.learn_priors != "none" and address.epoch % self.learn_every == 0:
            rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
            sums |= named("topics", lda_priors.topic_histogram(rows, self.n_topics, self.bins))
            sums |= named("lengths", lda_priors.histogram(np.diff(chunk.doc_ptr), self.bins))
        return SweepResult({"z": z}, self._count(chunk, z, deltas), sums)

    def _count(self, chunk: Chunk, z: np.ndarray, deltas: list[Arrays] | None) -> list[Arrays]:
        counted = []
        for j in range(self.n_blocks):
            words = (self.bounds[j], self.bounds[j + 1])
            delta = kernels("lda.esca", self.device).count_words(
                chunk.word_ids, chunk.word_ptr, z, words, self.n_topics
            )
            counted.append(delta._asdict() if deltas is None else self.merge(deltas[j], delta._asdict()))
        return counted

    def block_of(self, model: Model, index: int) -> lda.ModelBlock:
        """Return one block of the model as the kernels take it."""
        return kernel_model(model.block(index), model.shared, self.bounds[index], self.n_words)

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add counts, exactly."""
        return lda.merge_counts(lda.WordCounts(**left), lda.WordCounts(**right))._asdict()

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """The new counts are the sum of all shards' counts."""
        totals = {"totals": lda.topic_totals(delta["topics"], delta["counts"], self.n_topics)}
        if self.learn_priors != "none":
            totals |= named("words", lda_priors.histogram(delta["counts"], WORD_BINS))
        return delta, totals

    def reduce_shared(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, dict[str, float]]:
        """New topic totals; the priors stay, but for epochs that learn them."""
        shared = shared | {"totals": totals["totals"] + shared.get("elsewhere", 0)}
        metrics = {"topics_used": float(np.count_nonzero(totals["totals"] - shared["seeded"]))}
        if self.learn_priors != "none":
            if sums:
                shared |= self._learned(shared, totals | sums)
            metrics |= {"alpha_sum": float(shared["alpha"].sum()), "beta": float(shared["beta"])}
        return shared, metrics

    def _learned(self, shared: Arrays, sums: Arrays) -> Arrays:
        of = {name: lda_priors.Histogram(sums[name], sums[f"{name}_sums"]) for name in ("topics", "lengths", "words")}
        alpha = lda_priors.learn_alpha(shared["alpha"], of["topics"], of["lengths"], self.learn_priors == "symmetric")
        beta = lda_priors.learn_beta(float(shared["beta"]), of["words"], shared["totals"], self.n_words)
        return {"alpha": alpha.astype(np.float32), "beta": np.float64(beta)}

    def score(self, model: Model, chunk: Any, state: Arrays | None, address: Address) -> Arrays:
        """Log-likelihood of the chunk's tokens: given their topics (training), or by document completion (held out)."""
        if state is None:
            keys = random.stream(random.key(address.seed, FOLD_IN, address.chunk), chunk.n_documents)
            table = Table((model.block(j) for j in range(self.n_blocks)), model.shared, self.n_words)
            return complete(chunk.doc_ptr, chunk.words, table, keys)
        rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, state["z"])
        total = sum(lda.log_likelihood(chunk, rows, self.block_of(model, j)) for j in range(self.n_blocks))
        return {"log_likelihood": np.float64(total), "tokens": np.int64(chunk.n_tokens)}

    def describe(self, model: Model, data: Any) -> list[str]:
        """The largest topics' sizes and words."""
        totals = model.shared["totals"] - model.shared["seeded"]
        blocks = (model.block(j) for j in range(self.n_blocks))
        best = top_words(blocks, self.bounds, self.n_topics, 8)
        largest = np.argsort(-totals, kind="stable")[:24]
        names = data.vocabulary["word"]
        share = totals / max(1, totals.sum())
        return [f"{share[k]:6.1%}  " + " ".join(names[v].as_py() for v, _ in best[k]) for k in largest]

    def metrics_from_sums(self, sums: Arrays, held_out: bool) -> dict[str, float]:
        """Log-likelihood per token (Moon's dissertation, equation 2.4)."""
        name = "held_out_log_likelihood" if held_out else "log_likelihood"
        return {name: float(sums["log_likelihood"] / max(1, sums["tokens"]))}


def named(name: str, histogram: lda_priors.Histogram) -> Arrays:
    """Return a histogram as arrays that are added by name."""
    return {name: histogram.numbers, f"{name}_sums": histogram.sums}


def top_words(
    blocks: Iterable[Arrays], bounds: tuple[int, ...], n_topics: int, n_words: int
) -> list[list[tuple[int, int]]]:
    """Return each topic's (word, count) pairs of the largest counts, falling, ties by word."""
    best: list[list[tuple[int, int]]] = [[] for _ in range(n_topics)]
    for first, block in zip(bounds[:-1], blocks, strict=True):
        words = first + row_of_each_entry(block["row_ptr"])
        order = np.lexsort((words, -block["counts"].astype(np.int64), block["topics"]))
        topics = block["topics"][order]
        heads = np.searchsorted(topics, np.arange(n_topics + 1))
        for k in range(n_topics):
            mine = order[heads[k] : min(heads[k] + n_words, heads[k + 1])]
            best[k] += [(int(words[i]), int(block["counts"][i])) for i in mine]
    return [sorted(pairs, key=lambda p: (-p[1], p[0]))[:n_words] for pairs in best]
