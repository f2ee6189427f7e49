"""Latent Dirichlet allocation: the algorithm for the engine, and the estimator."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..io.corpus import Chunk, Corpus
from ..io.store import Arrays, Store
from ..kernels import lda, lda_priors, random
from ..kernels.lda_counts import LARGEST
from .algorithm import Address, Algorithm, Model, Need, Swept
from .coherence import coherence
from .corpora import TextEstimator
from .device import choose, kernels
from .estimator import Fitted
from .lda_base import Base, joined
from .lda_inference import PIECE_BYTES, Table, complete, fold_in, kernel_model, left_to_right

#: The address of draws that belong to no epoch: folding in held-out documents.
FOLD_IN = -2
#: Bins of the histogram of the counts in B: up to 2^40.
WORD_BINS = int(lda_priors.bins_of(np.array(1 << 40))) + 1
#: How `LDA.score` scores documents.
METHODS = ("completion", "left-to-right")
#: What `LDA(learn_priors=...)` may be.
LEARN = ("none", "symmetric", "asymmetric")
#: Samplers that have CUDA kernels.
ON_DEVICE = ("esca", "minibatch")


@dataclass(frozen=True)
class ESCA(Algorithm):
    """LDA by ESCA (SaberLDA section 2.2). State: topics z by token. Model: word-topic counts B, sparse by row.

    Where training goes on from a model, its counts stay: they are added to those of the first chunk.
    """

    name: ClassVar[str] = "lda"
    n_words: int = 0  # V; with a base, its words that the corpus has not count too
    n_topics: int = 0
    alpha: tuple[float, ...] = ()  # one, or one a topic
    beta: float = 0.01
    leave_out: bool = True
    bounds: tuple[int, ...] = ()  # first word of each block, then n_words
    entries: int = 0  # non-zeros that B can have at most
    device: str = "cpu"
    corpus: str = ""  # whose words the model's rows are, where there is a base
    base: str = ""  # a saved model to go on from
    learn_priors: str = "none"
    learn_every: int = 10
    bins: int = 0  # of histograms of documents' lengths

    @property
    def blocks(self) -> int:  # type: ignore[override]
        """Blocks of words."""
        return len(self.bounds) - 1

    def need(self, data: Any, chunk: Any) -> Need:
        """Bytes of one sweep: the chunk in both orders, topics old and new, B, and deltas while two are merged."""
        block = (6 * self.entries + 8 * self.n_words) // self.blocks
        own = 6 * (self.entries if self.base else min(self.entries, chunk.tokens)) + 8 * self.n_words
        return Need(
            data=12 * chunk.tokens + 12 * chunk.segments + 16 * chunk.documents,
            state=4 * chunk.tokens,
            model=block,
            delta=max(2 * own, 3 * block) + 16 * self.n_topics * self.bins,
            # Topics in document order, rows of A twice while they are trimmed, the same dense for a group of documents.
            # Scores of held-out documents, a chunk too, hold as much, and dense rows of some documents.
            scratch=22 * chunk.tokens + 64 * chunk.documents + 48 * self.n_topics + 2 * PIECE_BYTES,
            # The same, rows of A in lines of 128 bytes, and where each of a thousand blocks spreads a word's row.
            device=44 * chunk.tokens + 28 * chunk.segments + 160 * chunk.documents + block + (16 << 10) * self.n_topics,
        )

    def begin(self, block: int) -> Arrays:
        """No counts, or those of the base."""
        if self.base:
            return self._base_rows(block)
        rows = self.bounds[block + 1] - self.bounds[block]
        return {
            "row_ptr": np.zeros(rows + 1, np.int64),
            "topics": np.empty(0, np.uint16),
            "counts": np.empty(0, np.int32),
        }

    def _base_rows(self, block: int) -> Arrays:
        first, behind = self.bounds[block], self.bounds[block + 1]
        return Base(self.base).rows(Corpus(self.corpus).vocabulary.slice(first, behind - first))

    def begin_shared(self) -> Arrays:
        """No totals, or those of the base; the priors."""
        alpha = np.broadcast_to(np.asarray(self.alpha, np.float32), self.n_topics).copy()
        shared = {"totals": np.zeros(self.n_topics, np.int64), "alpha": alpha, "beta": np.float64(self.beta)}
        if self.base:
            base = Base(self.base)
            _, elsewhere = base.elsewhere(Corpus(self.corpus).vocabulary)
            shared |= {"totals": base.shared["totals"], "elsewhere": elsewhere}
            if self.learn_priors != "none":
                shared |= {"alpha": base.shared["alpha"], "beta": base.shared["beta"]}
        return shared

    def sweep(
        self, model: Model, chunk: Any, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> Swept:
        """Draw every token's topic from the counts of the last epoch and count the new ones by word."""
        models = (self.block_of(model, j) for j in range(self.blocks))
        old = None if state is None else state["z"]
        z = kernels("lda", self.device).sweep(chunk, models, old, random.key(*address), self.leave_out)
        return self._swept(chunk, z, deltas, address)

    def _swept(self, chunk: Chunk, z: np.ndarray, deltas: list[Arrays] | None, address: Address) -> Swept:
        """Count the new topics ``z`` by word and, in epochs that learn priors, how often a document has how many."""
        sums: Arrays = {}
        if self.learn_priors != "none" and address.epoch % self.learn_every == 0:
            rows = lda.count_documents(chunk.doc_ptr, chunk.place, z)
            sums |= named("topics", lda_priors.topic_histogram(rows, self.n_topics, self.bins))
            sums |= named("lengths", lda_priors.histogram(np.diff(chunk.doc_ptr), self.bins))
        return Swept({"z": z}, self._count(chunk, z, deltas), sums)

    def _count(self, chunk: Chunk, z: np.ndarray, deltas: list[Arrays] | None) -> list[Arrays]:
        counted = []
        for j in range(self.blocks):
            words = (self.bounds[j], self.bounds[j + 1])
            delta = kernels("lda", self.device).count_words(chunk.word_ids, chunk.word_ptr, z, words, self.n_topics)
            counted.append(delta._asdict() if deltas is None else self.merge(deltas[j], delta._asdict()))
            if self.base and chunk.number == 0:
                counted[j] = self.merge(counted[j], self._base_rows(j))
        return counted

    def block_of(self, model: Model, index: int) -> lda.Model:
        """Return one block of the model as the kernels take it."""
        return kernel_model(model.block(index), model.shared, self.bounds[index], self.n_words)

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add counts, exactly."""
        return lda.merge_counts(lda.Counts(**left), lda.Counts(**right))._asdict()

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """The new counts are the sum of all shards' counts."""
        totals = {"totals": lda.topic_totals(delta["topics"], delta["counts"], self.n_topics)}
        if self.learn_priors != "none":
            totals |= named("words", lda_priors.histogram(delta["counts"], WORD_BINS))
        return delta, totals

    def finish(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, dict[str, float]]:
        """New topic totals; the priors stay, but for epochs that learn them."""
        shared = shared | {"totals": totals["totals"] + shared.get("elsewhere", 0)}
        metrics = {"topics_used": float(np.count_nonzero(totals["totals"]))}
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
            table = Table([model.block(j) for j in range(self.blocks)], model.shared, self.n_words)
            return complete(chunk.doc_ptr, chunk.words, table, keys)
        rows = lda.count_documents(chunk.doc_ptr, chunk.place, state["z"])
        total = sum(lda.log_likelihood(chunk, rows, self.block_of(model, j)) for j in range(self.blocks))
        return {"log_likelihood": np.float64(total), "tokens": np.int64(chunk.n_tokens)}

    def describe(self, model: Model, data: Any) -> list[str]:
        """The largest topics' sizes and words."""
        totals = model.shared["totals"]
        blocks = (model.block(j) for j in range(self.blocks))
        best = top_words(blocks, self.bounds, self.n_topics, 8)
        largest = np.argsort(-totals, kind="stable")[:24]
        names = data.vocabulary["word"]
        share = totals / max(1, totals.sum())
        return [f"{share[k]:6.1%}  " + " ".join(names[v].as_py() for v, _ in best[k]) for k in largest]

    def rate(self, sums: Arrays, held_out: bool) -> dict[str, float]:
        """Log-likelihood per token (Moon's dissertation, equation 2.4)."""
        name = "held_out_log_likelihood" if held_out else "log_likelihood"
        return {name: float(sums["log_likelihood"] / max(1, sums["tokens"]))}


def named(name: str, histogram: lda_priors.Histogram) -> Arrays:
    """Return a histogram as arrays that are added by name."""
    return {name: histogram.numbers, f"{name}_sums": histogram.sums}


class LDA(TextEstimator):
    """Latent Dirichlet allocation, out of core on Dask. Parameters as in scikit-learn's LatentDirichletAllocation.

    ``n_components``: topics, K <= 32,768. ``doc_topic_prior``: alpha, a number or (K,); 50 / K by default.
    ``topic_word_prior``: beta, 0.01 by default. ``max_iter``: epochs, the first of which draws topics from the prior.
    ``leave_out``: leave a token out of its own counts (False is ESCA as published). ``n_blocks``: cut the model into
    blocks of words, of which a sweep holds one at a time. ``sampler``: ``esca``; ``warp``, whose cost does not grow
    with the topics; ``auto``, ``warp`` while likelihood, scored every ``evaluate_every`` epochs, rises fast, then
    ``esca``; ``cgs``, ``minibatch``, ``reference`` and ``uncollapsed``, Moon's samplers, for comparison. ``device``:
    "auto" draws on the worker's CUDA device where it has one, the same topics to the bit.

    ``learn_priors``: every ``learn_every`` epochs alpha ("symmetric": one number, "asymmetric": one a topic) and beta
    are set to what makes the topics so far likeliest; the priors given are where learning begins.

    ``partial_fit`` takes further documents, not those trained on before: the topics of the old model's tokens stay as
    they are, those of the new tokens are first drawn from the old model and then, epoch after epoch, from both. Topics
    keep their numbers, words keep their counts, new words join.
    """

    kind = "lda"

    def __init__(
        self,
        n_components: int = 100,
        doc_topic_prior: float | Iterable[float] | None = None,
        topic_word_prior: float | None = None,
        max_iter: int = 200,
        leave_out: bool = True,
        n_blocks: int = 1,
        sampler: str = "esca",
        device: str = "auto",
        learn_priors: str = "none",
        learn_every: int = 10,
        random_state: int | None = 0,
    ):
        self.n_components = n_components
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.max_iter = max_iter
        self.leave_out = leave_out
        self.n_blocks = n_blocks
        self.sampler = sampler
        self.device = device
        self.learn_priors = learn_priors
        self.learn_every = learn_every
        self.random_state = random_state

    def algorithm(self, data: Any) -> ESCA:
        """Return the algorithm for a corpus; raise ValueError for parameters out of range."""
        from .lda_samplers import SAMPLERS  # which extend ESCA

        if self.sampler not in SAMPLERS:
            raise ValueError(f"sampler is {self.sampler!r}: choose one of {', '.join(SAMPLERS)}")
        alpha, beta = self._priors()
        frequency = np.asarray(data.vocabulary["term_frequency"])
        origin: dict[str, Any] = {"n_words": data.n_words}
        if self._base:
            base = self._base_model()
            frequency = frequency + base.lengths(data.vocabulary)
            apart, _ = base.elsewhere(data.vocabulary)
            origin = {"n_words": data.n_words + apart, "corpus": Store(data.url).absolute, "base": self._base}
        entries = np.minimum(frequency, self.n_components)
        return SAMPLERS[self.sampler](
            n_topics=self.n_components,
            alpha=alpha,
            beta=beta,
            leave_out=self.leave_out,
            bounds=_bounds(entries, self.n_blocks),
            entries=int(entries.sum()),
            device=self._device(data),
            **self._learning(data),
            **origin,
        )

    def _learning(self, data: Any) -> dict[str, Any]:
        if self.learn_priors not in LEARN:
            raise ValueError(f"learn_priors is {self.learn_priors!r}: choose one of {', '.join(LEARN)}")
        if self.learn_every < 1:
            raise ValueError(f"learn_every is {self.learn_every}: choose 1 epoch or more")
        if self.learn_priors == "none":
            return {}
        longest = max((c.longest for c in data.chunks), default=0)
        bins = int(lda_priors.bins_of(np.array(longest))) + 1
        return {"learn_priors": self.learn_priors, "learn_every": self.learn_every, "bins": bins}

    def _base_model(self) -> Base:
        base = Base(self._base)
        if len(base.shared["totals"]) != self.n_components:
            raise ValueError(
                f"n_components is {self.n_components}, but the model to go on from has "
                f"{len(base.shared['totals'])} topics: leave n_components as it was, or fit anew"
            )
        return base

    def joined_with(self, old: Fitted) -> None:
        """Keep the words that did not occur again. Topics are those of the old model's documents and of the new."""
        self.model_ = joined(old, self.model_)
        self.loaded()

    def _device(self, data: Any) -> str:
        longest = max((c.longest for c in data.chunks), default=0)
        if longest > LARGEST:
            return choose(self.device, False, f"a document of {longest:,} tokens (more than {LARGEST:,})")
        return choose(self.device, self.sampler in ON_DEVICE, f"sampler {self.sampler!r}")

    def _priors(self) -> tuple[tuple[float, ...], float]:
        K = self.n_components
        if not 2 <= K <= 32768:
            raise ValueError(f"n_components is {K}: choose 2 to 32768 topics")
        if self.n_blocks < 1:
            raise ValueError(f"n_blocks is {self.n_blocks}: choose 1 or more")
        given = 50.0 / K if self.doc_topic_prior is None else self.doc_topic_prior
        alpha = tuple(float(a) for a in np.atleast_1d(np.asarray(given, float)))
        beta = 0.01 if self.topic_word_prior is None else float(self.topic_word_prior)
        if len(alpha) not in (1, K):
            raise ValueError(f"doc_topic_prior has {len(alpha)} values: give one, or one for each of {K} topics")
        if not (np.isfinite(alpha).all() and min(alpha) > 0 and np.isfinite(beta) and beta > 0):
            raise ValueError("doc_topic_prior and topic_word_prior must be positive numbers")
        return alpha, beta

    # --- the trained model ---

    def loaded(self) -> None:
        """Set the bounds of the model's blocks."""
        sizes = [len(b["row_ptr"]) - 1 for b in self.model_.blocks]
        self.bounds_ = tuple(int(b) for b in np.r_[0, np.cumsum(sizes)])

    @property
    def components_(self) -> np.ndarray:
        """Word-topic counts plus beta: (K, V) float32, columns as in ``words_``, or as in a fitted matrix."""
        model = self._fitted()
        counts = np.full((self.n_components, self.bounds_[-1]), model.shared["beta"], np.float32)
        for first, block in zip(self.bounds_[:-1], model.blocks, strict=True):
            words = first + np.repeat(np.arange(len(block["row_ptr"]) - 1), np.diff(block["row_ptr"]))
            counts[block["topics"], words] += block["counts"]
        return self.in_input_order(counts, float(model.shared["beta"]))

    @property
    def topic_sizes_(self) -> np.ndarray:
        """Share of the tokens in each topic: (K,) float64."""
        totals = self._fitted().shared["totals"]
        return totals / max(1, totals.sum())

    def topics(self, n_words: int = 10) -> list[dict[str, Any]]:
        """Return each topic's size and heaviest words with their probabilities, in the order of the topics."""
        model = self._fitted()
        best = top_words(model.blocks, self.bounds_, self.n_components, n_words)
        beta, total = float(model.shared["beta"]), model.shared["totals"]
        names = model.vocabulary["word"]
        found = []
        for k in range(self.n_components):
            norm = float(total[k]) + beta * self.bounds_[-1]
            words = [{"word": names[int(v)].as_py(), "probability": (c + beta) / norm} for v, c in best[k]]
            found.append({"topic": k, "size": float(self.topic_sizes_[k]), "words": words})
        return found

    def transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Fold in documents given as word ids of the model: (D, K) float32, rows sum to one."""
        return fold_in(doc_ptr, words, self._table(), keys)

    def score_chunk(
        self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray, method: str = "completion", particles: int = 20
    ) -> Arrays:
        """Score documents as ``score`` does: sums ``log_likelihood`` and ``tokens``."""
        if method == "left-to-right":
            return left_to_right(doc_ptr, words, self._table(), keys, particles)
        return complete(doc_ptr, words, self._table(), keys)

    def score_sums(  # type: ignore[override]
        self, data: Any, client: Any | None = None, method: str = "completion", particles: int = 20
    ) -> Arrays:
        """Return the sums ``log_likelihood`` and ``tokens`` over all documents: see ``score``."""
        if method not in METHODS:
            raise ValueError(f"method is {method!r}: choose one of {', '.join(METHODS)}")
        if particles < 1:
            raise ValueError(f"particles is {particles}: choose 1 or more")
        return super().score_sums(data, client, method=method, particles=particles)

    def score(  # type: ignore[override]
        self, data: Any, client: Any | None = None, method: str = "completion", particles: int = 20
    ) -> float:
        """Return the held-out log-likelihood per token.

        ``method``: "completion" estimates topics from half of each document and scores the other half;
        "left-to-right" scores whole documents by so many particles (Wallach et al., 2009), at a cost that grows with
        the square of their lengths. Raises ValueError for another one.
        """
        return super().score(data, client, method=method, particles=particles)

    def _table(self) -> Table:
        model = self._fitted()
        return Table(model.blocks, model.shared, self.bounds_[-1])

    def coherence(
        self, data: Any, measure: str = "npmi", topn: int = 10, window: int | None = None, client: Any | None = None
    ) -> np.ndarray:
        """Return how well each topic's ``topn`` heaviest words belong together in a corpus: (K,) float64.

        ``measure``: "u_mass", "npmi" or "c_v"; ``window``: see pipeline.coherence, which says what is raised.
        """
        words = [[w["word"] for w in topic["words"]] for topic in self.topics(topn)]
        return coherence(self.open(data), words, measure, window, client)

    def diversity(self, topn: int = 25) -> float:
        """Return the share of distinct words among the ``topn`` heaviest words of all topics (Dieng et al., 2020)."""
        words = [w["word"] for topic in self.topics(topn) for w in topic["words"]]
        return len(set(words)) / max(1, len(words))

    def to_pyldavis(self, data: Any, client: Any | None = None) -> dict[str, Any]:
        """Return what ``pyLDAvis.prepare`` takes, for the documents of ``data``: see lda_interop."""
        from .lda_interop import to_pyldavis  # which knows this class

        return to_pyldavis(self, data, client)

    def to_gensim(self) -> Any:
        """Return a gensim LdaModel of the same topics: see lda_interop. Raises ImportError without gensim."""
        from .lda_interop import to_gensim

        return to_gensim(self)

    def perplexity(self, data: Any, client: Any | None = None) -> float:
        """Return exp(-score)."""
        return float(np.exp(-self.score(data, client=client)))


def _bounds(entries: np.ndarray, blocks: int) -> tuple[int, ...]:
    """Cut words into blocks of about equal numbers of entries, none empty of words."""
    blocks = min(blocks, len(entries))
    weight = np.cumsum(entries + 1.0)
    cuts = np.searchsorted(weight, weight[-1] * np.arange(1, blocks) / blocks) + 1
    inner = np.clip(np.maximum.accumulate(cuts - np.arange(blocks - 1)) + np.arange(blocks - 1), 1, None)
    inner = np.minimum(inner, len(entries) - np.arange(blocks - 1, 0, -1))
    return (0, *(int(c) for c in inner), len(entries))


def top_words(
    blocks: Iterable[Arrays], bounds: tuple[int, ...], n_topics: int, n_words: int
) -> list[list[tuple[int, int]]]:
    """Return each topic's (word, count) pairs of the largest counts, falling, ties by word."""
    best: list[list[tuple[int, int]]] = [[] for _ in range(n_topics)]
    for first, block in zip(bounds[:-1], blocks, strict=True):
        words = first + np.repeat(np.arange(len(block["row_ptr"]) - 1), np.diff(block["row_ptr"]))
        order = np.lexsort((words, -block["counts"].astype(np.int64), block["topics"]))
        topics = block["topics"][order]
        heads = np.searchsorted(topics, np.arange(n_topics + 1))
        for k in range(n_topics):
            mine = order[heads[k] : min(heads[k] + n_words, heads[k + 1])]
            best[k] += [(int(words[i]), int(block["counts"][i])) for i in mine]
    return [sorted(pairs, key=lambda p: (-p[1], p[0]))[:n_words] for pairs in best]
