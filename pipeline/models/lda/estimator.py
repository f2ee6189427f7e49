"""Latent Dirichlet allocation: the estimator."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....io.stores.store import Arrays
from ....io.text.vocabulary import find_word_ids
from ....kernels.lda import priors as lda_priors
from ....kernels.lda.counts import MAX_COUNT
from ...engine.device import resolve_device
from ..base.blocks import cut_blocks
from ..base.saved import Fitted, SavedModel
from ..base.sparse_rows import row_of_each_entry
from ..base.text import TextEstimator
from ..base.topics import Topic, TopicModel, TopicWord
from . import export as lda_interop
from .algorithm import ESCA, top_words
from .base import PreviousTopics, joined
from .inference import Table, complete, fold_in, left_to_right
from .samplers import ON_DEVICE, SAMPLERS

if TYPE_CHECKING:
    from distributed import Client

#: How `LDA.score` scores documents.
METHODS = ("completion", "left-to-right")
#: What `LDA(learn_priors=...)` may be.
LEARN = ("none", "symmetric", "asymmetric")


class LDA(TextEstimator, TopicModel):
    """Latent Dirichlet allocation, out of core on Dask. Parameters as in scikit-learn's LatentDirichletAllocation.

    ``n_components``: topics, K <= 32,768. ``doc_topic_prior``: alpha, a number or (K,); 50 / K by default.
    ``topic_word_prior``: beta, 0.01 by default. ``max_iter``: epochs, the first of which draws topics from the prior.
    ``leave_out``: leave a token out of its own counts (False is ESCA as published). ``n_blocks``: cut the model into
    blocks of words, of which a sweep holds one at a time. ``sampler``: ``esca``; ``warp``, whose cost does not grow
    with the topics; ``auto``, ``warp`` while likelihood, scored every ``evaluate_every`` epochs, rises fast (for 30
    epochs where it is never scored), then ``esca``; ``cgs``, ``minibatch``, ``reference`` and ``uncollapsed``, Moon's
    samplers, for comparison. ``device``: "auto" draws on the worker's CUDA device where it has one, the same topics to
    the bit. Tokens have no weights: counts would be no integers, whose sums are exact, nor fit their 16 bits.

    ``learn_priors``: every ``learn_every`` epochs alpha ("symmetric": one number, "asymmetric": one a topic) and beta
    are set to what makes the topics so far likeliest; the priors given are where learning begins.

    ``seeds``: words of the first topics, a list a topic, with which these begin: each has a prior of ``seed_weight``
    tokens there, besides beta. Higher weights hold topics to their seeds, and keep other words out.

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
        seeds: Sequence[Sequence[str]] | None = None,
        seed_weight: int = 20,
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
        self.seeds = seeds
        self.seed_weight = seed_weight
        self.random_state = random_state

    def planned_epochs(self) -> int:
        """Return the number of epochs to train."""
        return self.max_iter

    def seed_number(self) -> int:
        """Return the seed of all random draws."""
        return int(self.random_state or 0)

    def algorithm(self, data: Any, previous: SavedModel | None = None) -> ESCA:
        """Return the algorithm for a corpus; raise ValueError for parameters out of range."""
        if self.sampler not in SAMPLERS:
            raise ValueError(f"sampler is {self.sampler!r}: choose one of {', '.join(SAMPLERS)}")
        alpha, beta = self._priors()
        frequency = np.asarray(data.vocabulary["term_frequency"])
        origin: dict[str, Any] = {"n_words": data.n_words, "seeds": ()}
        if previous is None:
            origin["seeds"] = self._seeds(data)
        else:
            topics = self._previous_topics(previous)
            frequency = frequency + topics.lengths(data.vocabulary)
            only_in_old, _ = topics.elsewhere(data.vocabulary)
            origin["n_words"] = data.n_words + only_in_old
        entries = np.minimum(frequency, self.n_components)
        return SAMPLERS[self.sampler](
            n_topics=self.n_components,
            alpha=alpha,
            beta=beta,
            leave_out=self.leave_out,
            bounds=cut_blocks(entries, self.n_blocks),
            entries=int(entries.sum()) + sum(map(len, self.seeds or ())),
            device=self._device(data),
            **self._learning(data),
            **origin,
        )

    def _seeds(self, data: Any) -> tuple[tuple[int, int, int], ...]:
        if not self.seeds:
            return ()
        if len(self.seeds) > self.n_components or self.seed_weight < 1:
            raise ValueError(
                f"seeds are for {len(self.seeds)} topics, seed_weight is {self.seed_weight}: give {self.n_components} "
                f"lists of words at most, and a weight of 1 token or more"
            )
        if self.learn_priors != "none":
            raise ValueError("seeds are a prior of their own: leave learn_priors at 'none'")
        words = sorted({word for topic in self.seeds for word in topic})
        ids = find_word_ids(words, data.vocabulary)
        if (ids < 0).any():
            unknown = ", ".join(word for word, v in zip(words, ids, strict=True) if v < 0)
            raise ValueError(f"seeds: {data.url} does not have {unknown}: leave out what its vocabulary does not have")
        number = dict(zip(words, ids.tolist(), strict=True))
        pairs = {(number[word], k) for k, topic in enumerate(self.seeds) for word in topic}
        return tuple((v, k, self.seed_weight) for v, k in sorted(pairs))

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

    def _previous_topics(self, previous: SavedModel) -> PreviousTopics:
        topics = PreviousTopics(previous)
        n_topics = len(topics.shared["totals"])
        if n_topics != self.n_components:
            raise ValueError(
                f"n_components is {self.n_components}, but the model to go on from has "
                f"{n_topics} topics: leave n_components as it was, or fit anew"
            )
        return topics

    def merge_previous(self, old: Fitted) -> None:
        """Keep the words that did not occur again. Topics are those of the old model's documents and of the new."""
        self.model_ = joined(old, self._fitted())
        self.loaded()

    def _device(self, data: Any) -> str:
        longest = max((c.longest for c in data.chunks), default=0)
        if longest > MAX_COUNT:
            return resolve_device(self.device, False, f"a document of {longest:,} tokens (more than {MAX_COUNT:,})")
        return resolve_device(self.device, self.sampler in ON_DEVICE, f"sampler {self.sampler!r}")

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
            words = first + row_of_each_entry(block["row_ptr"])
            counts[block["topics"], words] += block["counts"]
        return self.in_input_order(counts, float(model.shared["beta"]))

    @property
    def topic_sizes_(self) -> np.ndarray:
        """Share of the tokens in each topic: (K,) float64."""
        shared = self._fitted().shared
        totals = shared["totals"] - shared.get("seeded", 0)
        return totals / max(1, totals.sum())

    def topics(self, n_words: int = 10) -> list[Topic]:
        """Return each topic's size and heaviest words with their probabilities, in the order of the topics."""
        model = self._fitted()
        best = top_words(model.blocks, self.bounds_, self.n_components, n_words)
        beta, total = float(model.shared["beta"]), model.shared["totals"]
        names = model.vocabulary["word"]
        found: list[Topic] = []
        for k in range(self.n_components):
            norm = float(total[k]) + beta * self.bounds_[-1]
            words: list[TopicWord] = [
                {"word": names[int(v)].as_py(), "probability": (c + beta) / norm} for v, c in best[k]
            ]
            found.append({"topic": k, "size": float(self.topic_sizes_[k]), "words": words})
        return found

    def transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Fold in documents given as word ids of the model: (D, K) float32, rows sum to one."""
        return fold_in(doc_ptr, words, self._table())

    def score_chunk(
        self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray, method: str = "completion", particles: int = 20
    ) -> Arrays:
        """Score documents as ``score`` does: sums ``log_likelihood`` and ``tokens``."""
        if method == "left-to-right":
            return left_to_right(doc_ptr, words, self._table(), keys, particles)
        return complete(doc_ptr, words, self._table(), keys)

    def score_sums(  # type: ignore[override]
        self, X: Any, *, client: "Client | None" = None, method: str = "completion", particles: int = 20
    ) -> Arrays:
        """Return the sums ``log_likelihood`` and ``tokens`` over all documents: see ``score``."""
        if method not in METHODS:
            raise ValueError(f"method is {method!r}: choose one of {', '.join(METHODS)}")
        if particles < 1:
            raise ValueError(f"particles is {particles}: choose 1 or more")
        return super().score_sums(X, client=client, method=method, particles=particles)

    def score(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        *,
        client: "Client | None" = None,
        method: str = "completion",
        particles: int = 20,
    ) -> float:
        """Return the held-out log-likelihood per token.

        ``method``: "completion" estimates topics from half of each document and scores the other half;
        "left-to-right" scores whole documents by so many particles (Wallach et al., 2009), at a cost that grows with
        the square of their lengths. Raises ValueError for another one.
        """
        return super().score(X, client=client, method=method, particles=particles)

    def _table(self) -> Table:
        model = self._fitted()
        return Table(model.blocks, model.shared, self.bounds_[-1])

    def to_pyldavis(self, X: Any, *, client: "Client | None" = None) -> dict[str, Any]:
        """Return what ``pyLDAvis.prepare`` takes, for the documents of ``data``: see lda_interop."""
        return lda_interop.to_pyldavis(self, X, client)

    def to_gensim(self) -> Any:
        """Return a gensim LdaModel of the same topics: see lda_interop. Raises ImportError without gensim."""
        return lda_interop.to_gensim(self)

    def perplexity(self, X: Any, *, client: "Client | None" = None) -> float:
        """Return exp(-score)."""
        return float(np.exp(-self.score(X, client=client)))
