"""The estimator LDA: latent Dirichlet allocation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays
from ....io.words import find_word_ids, merge_vocabularies
from ....kernels.chunk import as_int32
from ....kernels.lda.counts import MAX_COUNT
from ...engine.algorithm import AnyAlgorithm, recut
from ...engine.data import cut_blocks
from ...engine.device import resolve_device
from ...engine.grid import CellAlgorithm
from ...engine.training import Advice
from ...topics import Topic, TopicWord
from ..base.advice import warn_of_data
from ..base.inputs import DataLike
from ..base.saved import SavedModel, TrainedModel
from ..base.scikit_learn import RandomState
from ..base.topics import TopicModel
from ..other_names import explain_parameters
from . import interop
from .algorithm import ENOUGH_DOCUMENTS, LdaAlgorithm, document_bins
from .inference import TrainedTopics, fold_in, score_by_completion, score_left_to_right
from .minibatch import MinibatchGibbs
from .samplers import SAMPLERS, choose
from .word_topics import PreviousTopics, gather_rows, heaviest_entries, list_entries, merge_models

if TYPE_CHECKING:
    from distributed import Client
    from gensim.models import LdaModel

#: Blocks of a range, if there are more.
RANGE_BLOCKS = 16


class LDA(TopicModel):
    """Topics by latent Dirichlet allocation (LDA), for corpora that need not fit into memory.

    Choose it to learn what documents are about: each document is a mixture of topics, and each topic is a distribution
    over words. The model is trained by Gibbs sampling. Parameters are named as in scikit-learn's
    LatentDirichletAllocation, which uses variational inference instead.

    Parameters
    ----------
    n_components : int, default=100
        Number of topics K, 1 to 32,768. The default of scikit-learn is 10, that of gensim 100.
    doc_topic_prior : float, sequence of float or None, default=None
        Dirichlet prior alpha of the topics of a document: one number for all topics, or one per topic. None means the
        smaller of 0.1 and 5 / K, which predicts held-out documents better than 50 / K, except for long documents and a
        thousand topics; see Notes. In `partial_fit`, None keeps the prior of the model. The default of scikit-learn and
        gensim is 1 / K, that of tomotopy 0.1, and that of MALLET 5 / K.
    topic_word_prior : float or None, default=None
        Dirichlet prior beta of the words of a topic. None means 0.01, as in tomotopy and MALLET. In `partial_fit`, None
        keeps the prior of the model. The default of scikit-learn and gensim is 1 / K.
    max_iter : int, default=200
        Number of epochs, which are passes over the corpus. The first epoch draws the topics from the prior. The default
        of scikit-learn is 10 passes of variational inference; Gibbs sampling needs more, but shorter ones.
    leave_out : bool, default=True
        Whether ESCA excludes a token from the counts while its topic is drawn. False is ESCA as published.
    n_blocks : int or "auto", default="auto"
        Number of blocks of words that the model is split into. A task holds one block at a time. "auto" takes as few
        as the memory of the workers allows. The result is the same for any number. With the sampler "gibbs", it is not:
        then the number is a power of two, at most that of the chunks, and "auto" depends on the corpus only.
    sampler : {"esca", "gibbs", "warp", "auto", "minibatch"}, default="esca"
        Algorithm that draws the topics:

        - "esca": the time per epoch grows with the number of topics in a document. For up to a few hundred topics.
        - "gibbs": collapsed Gibbs sampling. Counts change after each token, instead of after each epoch. For few or
          short documents, and words that occur rarely: it needs a third of the epochs or fewer, and reaches likelihoods
          that "esca" may not reach. At most as many workers help as there are blocks, and those need as many chunks.
        - "warp": WarpLDA. The time per epoch does not depend on the number of topics. For a first look at thousands.
        - "auto": "gibbs" for up to 1,000 topics. For more, "warp" while the likelihood rises fast, then "esca". The
          likelihood is measured every ``evaluate_every`` epochs (see `fit`). If it is never measured, "esca" starts
          after 30 epochs. With ``device="cuda"``, it is "esca".
        - "minibatch": collapsed Gibbs sampling within a chunk with dense counts, for comparison. Counts change after
          each ``minibatch_documents`` documents.
    minibatch_documents : int, default=256
        Number of documents after which counts change with the sampler "minibatch".
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where topics are drawn. "auto" uses the CUDA device of a worker that has one. "esca" and "minibatch" have
        kernels for CUDA, which draw the same topics, bit for bit.
    learn_priors : {"auto", "none", "symmetric", "asymmetric"}, default="auto"
        Whether alpha and beta are re-estimated by maximum likelihood during training, starting from the values above.
        "symmetric" learns one alpha, "asymmetric" one per topic; beta is one number. "auto" is "asymmetric" for a new
        model of up to 50 topics and at least 1,000 documents, if ``doc_topic_prior``, ``topic_word_prior`` and
        ``seeds`` are not given. With the sampler "gibbs", up to 10 topics for each token of a document, on average,
        between 100 and 1,000. Otherwise it is "none". tomotopy learns one alpha per topic by default, scikit-learn
        and gensim learn none.
    learn_every : int, default=10
        Number of epochs between two estimates of the priors.
    seeds : sequence of sequences of str or None, default=None
        Seed words for the first ``len(seeds)`` topics, one sequence of words per topic. Every seed word has
        ``seed_weight`` pseudo-counts in its topic, in addition to beta. Cannot be combined with ``learn_priors``.
    seed_weight : int, default=20
        Number of pseudo-counts of a seed word, in tokens. A larger weight holds topics closer to their seed words.
    random_state : int, numpy.random.RandomState, numpy.random.Generator or None, default=0
        Seed of all random draws. None means 0. From a generator, `fit` draws a seed. The same seed gives the same
        model, bit for bit, for any number of workers. The default of scikit-learn is a different seed for each call.

    Attributes
    ----------
    components_ : ndarray of shape (K, V)
        Number of tokens of each word in each topic plus beta, float32. The columns are those of the matrix that `fit`
        received, or of ``words_`` for a corpus or documents.
    doc_topic_prior_ : ndarray of shape (K,)
        Dirichlet prior alpha of each topic of a document, given or learned, float32. gensim calls it ``alpha``.
    topic_word_prior_ : float
        Dirichlet prior beta of the words of a topic, given or learned. gensim calls it ``eta``.
    topic_sizes_ : ndarray of shape (K,)
        Share of the tokens that each topic has, float64.
    topic_names_ : mapping of int to str
        Names that users gave to topics, by number of the topic; see ``corpusmill explore``.
    words_ : list of str
        The vocabulary, by falling frequency, or in the order that was given to ingest. After ``partial_fit``, the words
        of the new documents come first, so the columns move. Ingest these documents with a ``vocabulary`` that begins
        with the known words to keep the columns in place.
    history_ : list of dict
        Metrics of each epoch, such as ``log_likelihood`` per token. That of training is measured on
        ``evaluated_tokens``: all of up to 32,767, else every n-th one, at least 16,384, of up to 16 chunks.
    n_iter_ : int
        Number of epochs that were trained.
    n_features_in_ : int
        Number of columns of the matrix that `fit` received, or of words.
    feature_names_in_ : ndarray of shape (V,)
        Column names of the data frame that `fit` received. Other inputs have none.
    model_ : TrainedModel
        The arrays of the model, as they are saved.

    See Also
    --------
    NMF : Topics by non-negative matrix factorisation, which also takes real numbers.

    Notes
    -----
    A document has alpha K pseudo-counts, in addition to its tokens. If they are many more than its tokens, all
    documents have nearly the same topics. So alpha must fall as K rises, and more so if documents are short.
    Documents of a thousand tokens or more take 0.1 for any number of topics.

    Tokens cannot have weights: counts must be integers, so that sums are exact in any order.

    `partial_fit` takes further documents, not those trained on before. The topics of earlier tokens stay as they are.
    The topics of new tokens are first drawn from the earlier model, then from the counts of both. Topics keep their
    numbers, words keep their counts, and new words are added.

    `transform` and `score` draw no topics, except for ``method="left-to-right"``. The weights of a document are the
    fixed point of expectation-maximisation given the trained topics, so they depend on the document only.

    References
    ----------
    - K. Li et al., "SaberLDA: Sparsity-Aware Learning of Topic Models on GPUs", ASPLOS 2017: ESCA, section 2.2,
      equation 1.
    - J. Chen et al., "WarpLDA: a Cache Efficient O(1) Algorithm for Latent Dirichlet Allocation", VLDB 2016: "warp",
      sections 4 and 5.
    - G. E. Moon, "Parallel Algorithms for Machine Learning", dissertation, The Ohio State University, 2019, chapter 2:
      "gibbs" (algorithm 3), "minibatch" (algorithms 4, 5 and 7, but a token is left out of its own counts), and the
      log-likelihood per token of training documents (equation 2.4, there of test documents).
    - T. P. Minka, "Estimating a Dirichlet distribution", 2000, equation 55: ``learn_priors``.
    - H. M. Wallach et al., "Evaluation Methods for Topic Models", ICML 2009, algorithm 3:
      ``score(method="left-to-right")``.

    Examples
    --------
    >>> from corpusmill import LDA
    >>> sea = ["sea boat storm harbour", "boat sea sailor", "harbour storm sailor"]
    >>> kitchen = ["oven bread flour cake", "bread cake oven", "flour oven bread"]
    >>> lda = LDA(n_components=2, max_iter=50).fit(sea + kitchen)
    >>> lda.topic_words(3)
    [['harbour', 'sailor', 'storm'], ['bread', 'oven', 'cake']]
    >>> lda.transform(["sailor on the sea", "fresh bread"]).round(1)
    array([[0.9, 0.1],
           [0.1, 0.9]], dtype=float32)
    """

    _kind = "lda"
    _score_methods = ("completion", "left-to-right")
    _fixed_parameters = ("n_components",)

    #: The values of ``sampler``. A subclass may add samplers that are defined elsewhere.
    _samplers: ClassVar[Mapping[str, type[LdaAlgorithm]]] = SAMPLERS

    @explain_parameters
    def __init__(
        self,
        n_components: int = 100,
        doc_topic_prior: float | Iterable[float] | None = None,
        topic_word_prior: float | None = None,
        max_iter: int = 200,
        leave_out: bool = True,
        n_blocks: int | str = "auto",
        sampler: str = "esca",
        minibatch_documents: int = 256,
        device: str = "auto",
        learn_priors: str = "auto",
        learn_every: int = 10,
        seeds: Sequence[Sequence[str]] | None = None,
        seed_weight: int = 20,
        random_state: RandomState = 0,
    ):
        self.n_components = n_components
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.max_iter = max_iter
        self.leave_out = leave_out
        self.n_blocks = n_blocks
        self.sampler = sampler
        self.minibatch_documents = minibatch_documents
        self.device = device
        self.learn_priors = learn_priors
        self.learn_every = learn_every
        self.seeds = seeds
        self.seed_weight = seed_weight
        self.random_state = random_state

    # --- training ---

    def _planned_epochs(self) -> int:
        return self.max_iter

    def _algorithm(self, data: Corpus, previous: SavedModel | None = None) -> LdaAlgorithm:
        """Return the algorithm that trains on a corpus.

        Raises ValueError if the corpus lacks a seed word, if the previous model has another number of topics, or if a
        word has 2^31 tokens or more.
        """
        n_words = data.n_words
        seeds: tuple[tuple[int, int, int], ...] = ()
        warn_of_data(data, self.n_components, previous)
        vocabulary = data.vocabulary
        if previous is not None:
            vocabulary = merge_vocabularies(vocabulary, previous.vocabulary).table
        # All tokens of a word may have the same topic.
        frequency = vocabulary["term_frequency"].to_numpy()
        as_int32(frequency, "tokens of the most frequent word (leave it out by max_df or stop_words)")
        if previous is None:
            seeds = self._seed_counts(data)
        else:
            n_words += PreviousTopics(previous).n_words_outside(data.vocabulary)
        row_lengths = self._row_lengths(data, previous)
        learn_priors = self._priors_to_learn(data, previous)
        sampler = self._sampler()
        n_blocks = None if isinstance(self.n_blocks, str) else self.n_blocks
        options = {"documents": self.minibatch_documents} if issubclass(sampler, MinibatchGibbs) else {}
        return sampler(
            n_words=n_words,
            n_topics=self.n_components,
            alpha=self._alpha(previous),
            beta=self._beta(previous),
            leave_out=self.leave_out,
            bounds=sampler.cut_words(data, row_lengths, n_blocks),
            entries=int(row_lengths.sum()) + len(seeds),
            seeds=seeds,
            learn_priors=learn_priors,
            learn_every=self.learn_every,
            bins=0 if learn_priors == "none" else document_bins(data.chunks),
            device=self._choose_device(data),
            **options,
        )

    def _seed_counts(self, data: Corpus) -> tuple[tuple[int, int, int], ...]:
        """Return the pseudo-counts of the seed words of each topic as ascending (word, topic, count).

        Raises ValueError if the corpus lacks a seed word.
        """
        topics = self.seeds or ()
        if not topics:
            return ()
        words = sorted({word for topic in topics for word in topic})
        ids = find_word_ids(words, data.vocabulary)
        unknown = [word for word, v in zip(words, ids, strict=True) if v < 0]
        if unknown:
            names = ", ".join(unknown)
            raise ValueError(f"seeds: {data.title} does not contain {names}: remove these words from seeds")
        id_of = dict(zip(words, ids.tolist(), strict=True))
        pairs = {(id_of[word], k) for k, topic in enumerate(topics) for word in topic}
        return tuple((v, k, self.seed_weight) for v, k in sorted(pairs))

    def _row_lengths(self, data: Corpus, previous: SavedModel | None) -> np.ndarray:
        """Return the most entries of each row of B: one per topic, and one per token."""
        occurrences = np.asarray(data.vocabulary["term_frequency"])
        if previous is not None:
            occurrences = occurrences + PreviousTopics(previous).row_lengths(data.vocabulary)
        return np.minimum(occurrences, self.n_components)

    def _cut(
        self, algorithm: AnyAlgorithm, data: Corpus, previous: SavedModel | None
    ) -> Callable[[int], AnyAlgorithm] | None:
        """Cut B. Many blocks are updated in several ranges, because a worker keeps the counts of a range."""
        if isinstance(algorithm, CellAlgorithm):
            return None
        row_lengths = cache(lambda: self._row_lengths(data, previous))

        def cut(n: int) -> AnyAlgorithm:
            bounds = cut_blocks(row_lengths(), n)
            return recut(algorithm, {"bounds": bounds, "n_ranges": max(1, (len(bounds) - 1) // RANGE_BLOCKS)})

        return cut

    def _advice(self) -> Advice:
        names = {"alpha": "doc_topic_prior", "beta": "topic_word_prior", "n_topics": "n_components"}
        return Advice(names=names)

    def _alpha(self, previous: SavedModel | None) -> tuple[float, ...]:
        if self.doc_topic_prior is None:
            # 0.1 for few topics.
            alpha = min(0.1, 5 / self.n_components)
            if previous is None or np.all(previous.shared["alpha"] == np.float32(alpha)):
                return (alpha,)
            # The default of earlier versions, or learned priors. Topics that are continued keep theirs.
            return tuple(previous.shared["alpha"].tolist())
        return tuple(float(alpha) for alpha in np.atleast_1d(np.asarray(self.doc_topic_prior, float)))

    def _beta(self, previous: SavedModel | None) -> float:
        if self.topic_word_prior is not None:
            return float(self.topic_word_prior)
        return 0.01 if previous is None else float(previous.shared["beta"])

    def _priors_to_learn(self, data: Corpus, previous: SavedModel | None) -> str:
        """Return which priors are learned: "none", "symmetric" or "asymmetric"."""
        if self.learn_priors != "auto":
            return self.learn_priors
        is_given = self.doc_topic_prior is not None or self.topic_word_prior is not None or bool(self.seeds)
        # A continued model keeps its priors: new documents alone do not say what suits all of them.
        if is_given or previous is not None:
            return "none"
        is_safe = self.n_components <= self._sampler().learned_topics(data) and data.n_documents >= ENOUGH_DOCUMENTS
        return "asymmetric" if is_safe else "none"

    def _choose_device(self, data: Corpus) -> str:
        longest = max((chunk.longest for chunk in data.chunks), default=0)
        if longest > MAX_COUNT:
            return resolve_device(self.device, False, f"a document of {longest:,} tokens (more than {MAX_COUNT:,})")
        return resolve_device(self.device, self._sampler().has_cuda_kernels, f"sampler {self.sampler!r}")

    def _sampler(self) -> type[LdaAlgorithm]:
        return choose(self._chosen("sampler", self._samplers), self.n_components, self.device)

    def _merge_previous(self, previous: TrainedModel) -> None:
        """Add the words that only the previous model has."""
        self.model_ = merge_models(self._fitted(), previous)

    # --- the trained model ---

    def _loaded(self) -> None:
        """Put the rows of blocks in the order of the words, if words were dealt to the blocks."""
        model = self._fitted()
        if "words" in model.shared:
            # The word of each row.
            shared = dict(model.shared)
            rows = np.argsort(shared.pop("words"))
            ends = np.cumsum([len(block["row_ptr"]) - 1 for block in model.blocks])
            blocks = [gather_rows(part, model.blocks) for part in np.split(rows, ends[:-1])]
            self.model_ = TrainedModel(blocks, shared, model.vocabulary, model.metadata)

    @property
    def components_(self) -> np.ndarray:
        """Number of tokens of each word in each topic, plus beta: (K, V) float32."""
        model = self._fitted()
        beta = float(model.shared["beta"])
        components = np.full((self._n_topics, model.vocabulary.num_rows), beta, np.float32)
        for block in list_entries(model.blocks):
            components[block.topics, block.words] += block.counts
        return self._in_input_order(components, beta)

    @property
    def doc_topic_prior_(self) -> np.ndarray:
        """Dirichlet prior alpha of each topic of a document: (K,) float32."""
        return np.array(self._fitted().shared["alpha"])

    @property
    def topic_word_prior_(self) -> float:
        """Dirichlet prior beta of the words of a topic."""
        return float(self._fitted().shared["beta"])

    @property
    def topic_sizes_(self) -> np.ndarray:
        """Share of the tokens that each topic has: (K,) float64."""
        shared = self._fitted().shared
        n_tokens = shared["totals"] - shared["seeded"]
        return n_tokens / max(1, n_tokens.sum())

    @property
    def _n_topics(self) -> int:
        """K of the trained model, even if the parameter ``n_components`` was changed since."""
        return len(self._fitted().shared["totals"])

    def _topics(self, n_words: int) -> list[Topic]:
        """Return each topic's share of the tokens and its ``n_words`` most probable words, in the order of topics."""
        model = self._fitted()
        names = model.vocabulary["word"]
        beta = float(model.shared["beta"])
        # phi_kv = (B_vk + beta) / (N_k + V beta). The blocks store only counts above 0.
        norms = model.shared["totals"] + beta * model.vocabulary.num_rows
        sizes = self.topic_sizes_.tolist()
        topics: list[Topic] = []
        for k, (found, counts) in enumerate(heaviest_entries(model.blocks, self._n_topics, n_words)):
            pairs = zip(found.tolist(), counts.tolist(), strict=True)
            words: list[TopicWord] = [
                {"word": names[v].as_py(), "probability": float((count + beta) / norms[k])} for v, count in pairs
            ]
            topics.append({"topic": k, "size": sizes[k], "words": words})
        return topics

    # --- further documents ---

    def _transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Estimate the topic weights of documents given as word ids of the model: (D, K) float32, rows sum to one."""
        return fold_in(doc_ptr, words, self._trained_topics())

    def _score_chunk(
        self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray, method: str = "completion", particles: int = 20
    ) -> Arrays:
        """Score documents as `score` does: the sums ``log_likelihood`` and ``tokens``."""
        if method == "left-to-right":
            return score_left_to_right(doc_ptr, words, self._trained_topics(), keys, particles)
        return score_by_completion(doc_ptr, words, self._trained_topics(), keys)

    def _trained_topics(self) -> TrainedTopics:
        model = self._fitted()
        return TrainedTopics(model.blocks, model.shared, model.vocabulary.num_rows)

    def score(
        self,
        X: DataLike,
        y: object = None,
        *,
        client: "Client | None" = None,
        method: str = "completion",
        particles: int = 20,
    ) -> float:
        """Return the log-likelihood per token of held-out documents; larger is better.

        Parameters
        ----------
        X : store, URL or data in memory
            The documents, as for `transform`.
        y : ignored
            Present for scikit-learn's searches.
        client : distributed.Client, optional
            Where to score. By default the current Dask client, or this process if there is none.
        method : {"completion", "left-to-right"}, default="completion"
            "completion" estimates the topics of each document from a random half of its tokens and scores the other
            half. The half depends on the document's words alone, so the score is the same in any corpus. During
            training, ``held_out_log_likelihood`` uses other random halves and therefore differs by chance.
            "left-to-right" estimates the likelihood of whole documents (Wallach et al. 2009); its time grows with the
            square of a document's length.
        particles : int, default=20
            Number of samples per document for "left-to-right".

        Returns
        -------
        float
            A natural logarithm.

        Raises
        ------
        ValueError
            If ``method`` is unknown or ``particles`` is below 1.
        DataError
            If there is no token to score.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.score(documents) < 0
        True
        """
        if method not in self._score_methods:
            raise ValueError(f"method is {method!r}: choose one of {', '.join(self._score_methods)}")
        if particles < 1:
            raise ValueError(f"particles is {particles}: choose an integer of 1 or more")
        sums = self._sum_scores(X, client, {"method": method, "particles": particles})
        return float(sums["log_likelihood"] / int(sums["tokens"]))

    def perplexity(self, X: DataLike, *, client: "Client | None" = None) -> float:
        """Return the perplexity per token of held-out documents; smaller is better.

        Parameters
        ----------
        X : store, URL or data in memory
            The documents, as for `transform`.
        client : distributed.Client, optional
            Where to score. By default the current Dask client, or this process if there is none.

        Returns
        -------
        float
            exp(-score), where `score` has the method "completion". 1 or more.

        Raises
        ------
        DataError
            If there is no token to score.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.perplexity(documents) > 1
        True
        """
        return float(np.exp(-self.score(X, client=client)))

    # --- other libraries ---

    def to_pyldavis(self, X: DataLike, *, client: "Client | None" = None) -> interop.PyLdavisArguments:
        """Return the arguments of ``pyLDAvis.prepare``: these topics, and their weights in some documents.

        Parameters
        ----------
        X : store, URL or data in memory
            The documents, as for `transform`. Those without a word of the model are left out.
        client : distributed.Client, optional
            Where to compute. By default the current Dask client, or this process if there is none.

        Returns
        -------
        dict
            Arguments by name; call ``pyLDAvis.prepare(**arguments)``.

        Raises
        ------
        DataError
            If no document is left.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> arguments = lda.to_pyldavis(documents)
        >>> arguments["topic_term_dists"].shape, arguments["doc_topic_dists"].shape
        ((2, 8), (4, 2))
        """
        corpus = self._open_for_transform(X)
        lengths = interop.known_lengths(self._fitted(), corpus)
        if not lengths.any():
            raise DataError(f"{corpus.title}: no document contains a word of the model")
        weights = np.asarray(self.transform(corpus, client=client))
        return interop.pyldavis_arguments(self._fitted(), lengths, weights)

    def to_gensim(self) -> "LdaModel":
        """Return a gensim LdaModel with the same topics.

        Returns
        -------
        gensim.models.LdaModel
            A copy, with the same words and priors.

        Raises
        ------
        ImportError
            If gensim is not installed.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.to_gensim().num_topics
        2
        """
        return interop.gensim_model(self._fitted())
