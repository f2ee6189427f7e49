"""The parameters of every model: types, ranges and choices, defaults, and what each one means.

This is the only place that checks parameters. The sections check the configuration, and ``validation.validate_model``
applies the same rules to estimators that were made in Python. Names are those that users know: scikit-learn's for LDA
and NMF, gensim's for embeddings.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

Seed = Annotated[
    Annotated[int, Field(ge=0)] | None,
    Field(description="Seed of all random draws. The same seed gives the same model, bit for bit. null means 0"),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    Field(description="Where the kernels run. auto takes the CUDA device of a worker that has one"),
]
Blocks = Annotated[
    PositiveInt | Literal["auto"],
    Field(
        description="Number of blocks of words that the model is split into. A task holds one block at a time. auto "
        "takes as few as the memory of the workers allows"
    ),
]


class Section(BaseModel):
    """One section of the configuration. A key that it does not define is an error, and so is an infinite number."""

    # Without protected_namespaces=(), pydantic warns of keys that begin with "model".
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


#: A kind that is the module and the class of somebody else, such as my_module:MyModel.
CLASS_PATTERN = r"^\w+(\.\w+)*:\w+$"


def kind_tag(kind: object) -> str:
    """Return the name by which a kind selects a section: the kind itself, or "own" for a module and a class."""
    return "own" if ":" in str(kind) else str(kind)


def tag_of(section: object) -> str | None:
    """Return the tag by which pydantic chooses the class of a section, given as a mapping or as an object."""
    kind = section.get("kind") if isinstance(section, dict) else getattr(section, "kind", None)
    return None if kind is None else kind_tag(kind)


class LDAConfig(Section):
    """Latent Dirichlet allocation: each document is a mixture of topics, each topic a distribution over words."""

    kind: Literal["lda"] = "lda"
    n_components: int = Field(100, ge=1, le=32768, description="Number of topics")
    doc_topic_prior: PositiveFloat | list[PositiveFloat] | None = Field(
        None,
        description="Dirichlet prior alpha of the topics of a document: one number, or one number per topic. "
        "null means 0.1, or 5 / n_components if that is smaller",
    )
    topic_word_prior: PositiveFloat | None = Field(
        None, description="Dirichlet prior beta of the words of a topic. null means 0.01"
    )
    max_iter: PositiveInt = Field(200, description="Number of epochs (passes over the corpus)")
    leave_out: bool = Field(
        True,
        description="Exclude a token from the counts while its topic is drawn. false is ESCA as published",
    )
    n_blocks: Blocks = "auto"
    sampler: Literal["esca", "gibbs", "warp", "auto", "minibatch"] = Field(
        "esca",
        description="Algorithm that draws topics. gibbs has exact counts; warp suits thousands of topics; auto is "
        "gibbs, or for more than 1,000 topics warp and then esca; minibatch is for comparison",
    )
    minibatch_documents: PositiveInt = Field(
        256, description="Number of documents after which counts change, for sampler minibatch"
    )
    device: Device = "auto"
    learn_priors: Literal["auto", "none", "symmetric", "asymmetric"] = Field(
        "auto",
        description="Estimate alpha and beta during training. symmetric learns one alpha, asymmetric one per topic; "
        "auto is asymmetric for up to 50 topics (gibbs: 100 to 1,000, by the length of documents) and at least 1,000 "
        "documents, unless a prior or seeds are given",
    )
    learn_every: PositiveInt = Field(10, description="Number of epochs between two estimates of the priors")
    seeds: list[list[str]] | None = Field(
        None, description="Seed words: one list of words per topic, for the first topics"
    )
    seed_weight: PositiveInt = Field(20, description="Number of pseudo-counts that each seed word has in its topic")
    random_state: Seed = 0

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        topics = self.n_components
        if isinstance(self.doc_topic_prior, list) and len(self.doc_topic_prior) not in (1, topics):
            given = len(self.doc_topic_prior)
            raise ValueError(f"doc_topic_prior has {given} values: give one number, or one for each of {topics} topics")
        if self.seeds and len(self.seeds) > topics:
            raise ValueError(f"seeds has {len(self.seeds)} lists: give {topics} lists at most, one per topic")
        if self.seeds and self.learn_priors not in ("auto", "none"):
            raise ValueError(f"seeds set a prior, and learn_priors is {self.learn_priors!r}: set learn_priors='none'")
        return self


class NMFConfig(Section):
    """Non-negative matrix factorisation: the corpus as a product of two small non-negative matrices."""

    kind: Literal["nmf"] = "nmf"
    n_components: PositiveInt = Field(100, description="Number of components")
    solver: Literal["hals", "mu"] = Field(
        "hals", description="Update rule. hals is the fastest; mu is multiplicative updates"
    )
    beta_loss: Literal["frobenius", "kullback-leibler"] = Field(
        "frobenius", description="Loss to minimise. kullback-leibler needs solver mu"
    )
    init: Literal["random", "nndsvd", "nndsvda", "nndsvdar"] = Field(
        "random", description="Initial factors: random numbers, or a singular value decomposition"
    )
    tol: float = Field(
        1e-4, ge=0, description="Stop when the measure that convergence names is at most this. 0 disables the check"
    )
    missing: Literal["zero", "unknown"] = Field(
        "zero",
        description="What entries are that a matrix does not store. unknown leaves them and NaN out, as for ratings",
    )
    convergence: Literal["error", "gradient"] = Field(
        "error",
        description="What tol limits: the share by which an epoch lowers the error, or the projected gradient as a "
        "share of the first epoch's, as in scikit-learn",
    )
    max_iter: PositiveInt = Field(200, description="Maximum number of epochs")
    alpha_W: float = Field(0.0, ge=0, description="Weight of the penalty on the factor of the documents")
    alpha_H: NonNegativeFloat | Literal["same"] = Field(
        "same", description="Weight of the penalty on the factor of the words. same means alpha_W"
    )
    l1_ratio: float = Field(
        0.0, ge=0, le=1, description="Share of the L1 penalty, which produces zeros. The rest is the L2 penalty"
    )
    sweeps: PositiveInt = Field(1, description="Number of sweeps over a factor per epoch")
    extrapolate: bool = Field(
        False, description="Start each epoch beyond the last factors, which needs fewer epochs for the same error"
    )
    weighting: Literal["counts", "tfidf"] = Field("counts", description="Entries of the matrix made from a corpus")
    dtype: Literal["float32", "float64"] = Field("float32", description="Floating-point type of the factors")
    n_blocks: Blocks = "auto"
    restarts: PositiveInt = Field(
        1,
        description="Number of factorisations that are trained side by side, with consecutive seeds from random_state. "
        "The model is the one with the lowest error; all of them are saved below restarts inside the run",
    )
    restart_components: list[PositiveInt] | None = Field(
        None,
        description="Numbers of components that are trained side by side, one of them n_components; each has restarts "
        "seeds. The model is the best one with n_components",
    )
    validation_fraction: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of the entries that training leaves out, to measure how well each number of components "
        "predicts them",
    )
    random_state: Seed = 0
    device: Device = "auto"

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        numbers = self.restart_components or [self.n_components]
        if self.n_components not in numbers or len(set(numbers)) < len(numbers):
            raise ValueError(
                f"restart_components is {numbers}: give different numbers, with n_components, {self.n_components}"
            )
        has_restarts = self.restarts > 1 or len(numbers) > 1 or self.validation_fraction > 0
        is_plain = self.solver == "hals" and self.init == "random" and not self.extrapolate
        if self.missing == "unknown" and (not is_plain or self.convergence != "error"):
            raise ValueError(
                "missing='unknown' needs solver='hals', init='random', extrapolate=False and convergence='error'"
            )
        if self.beta_loss == "kullback-leibler" and self.solver != "mu":
            raise ValueError("beta_loss='kullback-leibler' needs solver='mu'")
        is_penalised = self.alpha_W != 0 or self.alpha_H not in ("same", 0)
        if (is_penalised or self.extrapolate) and self.solver != "hals":
            raise ValueError("alpha_W, alpha_H and extrapolate need solver='hals'")
        if self.convergence == "gradient" and self.solver != "hals":
            raise ValueError("convergence='gradient' needs solver='hals'")
        if has_restarts and not is_plain:
            raise ValueError("restarts and validation_fraction need solver='hals', init='random' and extrapolate=False")
        if is_penalised and self.extrapolate:
            raise ValueError(
                "extrapolate compares errors without penalties: set alpha_W and alpha_H to 0, or extrapolate to False"
            )
        return self


class SkipGramConfig(Section):
    """Parameters that Word2Vec and Node2Vec share."""

    vector_size: PositiveInt = Field(100, description="Number of dimensions of a vector")
    window: PositiveInt = Field(5, le=255, description="Number of words on each side that count as neighbours")
    min_count: PositiveInt = Field(5, description="Ignore words with fewer occurrences")
    negative: PositiveInt = Field(5, le=1000, description="Number of negative samples per true neighbour")
    ns_exponent: float = Field(0.75, description="Negative samples are drawn in proportion to frequency ** ns_exponent")
    sample: float = Field(
        1e-3, ge=0, lt=1, description="Words with a higher relative frequency are downsampled at random. 0 keeps all"
    )
    alpha: float = Field(0.025, gt=0, lt=1, description="Learning rate at the start")
    min_alpha: float = Field(1e-4, ge=0, lt=1, description="Learning rate at the end")
    epochs: PositiveInt = Field(5, description="Number of passes over the corpus")
    seed: Annotated[int, Field(ge=0)] = Field(
        1, description="Seed of all random draws. The same seed gives the same model, bit for bit"
    )
    method: Literal["strata", "par", "full"] = Field(
        "strata",
        description="How the model is trained: strata on any number of workers, in blocks of words; the others on one "
        "worker, in the order of the text. par shares negative samples among minibatch_words words, and full within a "
        "window",
    )
    minibatch_words: int = Field(
        24, ge=4, le=4096, multiple_of=4, description="Number of words that share negative samples, for method par"
    )
    ignore_sentence_ends: bool = Field(False, description="Let a window extend from one document into the next")
    threads: PositiveInt = Field(
        1, le=1024, description="Number of threads per task, for method strata. It does not change the result"
    )
    n_blocks: Annotated[int, Field(ge=1, le=65536)] | None = Field(
        None,
        description="Number of blocks of words for method strata, a power of two: at most this number of tasks run at "
        "the same time. By default 8, fewer for small corpora, and 16 for very large ones",
    )
    device: Device = "auto"

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.min_alpha > self.alpha:
            raise ValueError(f"min_alpha is {self.min_alpha}, above alpha ({self.alpha}): choose {self.alpha} or less")
        n_blocks = self.n_blocks or 1
        if self.method != "strata" and max(n_blocks, self.threads) > 1:
            raise ValueError(f"method {self.method!r} trains one block with one thread: choose method 'strata'")
        if n_blocks & (n_blocks - 1):
            raise ValueError(f"n_blocks is {n_blocks}: choose a power of two, such as 16")
        return self


class Word2VecConfig(SkipGramConfig):
    """Word vectors by skip-gram with negative sampling."""

    kind: Literal["word2vec"] = "word2vec"


class Node2VecConfig(SkipGramConfig):
    """Vectors of a graph's nodes: skip-gram over random walks. corpus.url is a graph store or a file of edges."""

    kind: Literal["node2vec"] = "node2vec"
    vector_size: PositiveInt = Field(128, description="Number of dimensions of a vector")
    window: PositiveInt = Field(
        10, le=255, description="Number of nodes on each side of a walk that count as neighbours"
    )
    min_count: PositiveInt = Field(1, description="Ignore nodes that the walks visit less often")
    sample: float = Field(
        0.0, ge=0, lt=1, description="Nodes with a higher relative frequency are downsampled at random. 0 keeps all"
    )
    p: PositiveFloat = Field(1.0, description="Return parameter: larger values make a step back less likely")
    q: PositiveFloat = Field(
        1.0, description="In-out parameter: larger values keep walks near the node that they come from"
    )
    num_walks: PositiveInt = Field(10, description="Number of walks that start at each node")
    walk_length: int = Field(80, ge=2, description="Number of nodes in a walk")
    walk_method: Literal["rejection", "tables"] = Field(
        "rejection", description="How a step is drawn: by rejection sampling, or from one alias table per edge"
    )
    table_memory: PositiveInt = Field(1 << 30, description="Maximum size of the alias tables in bytes")
    walks: str | None = Field(
        None, description="Folder or URL where the walks are kept. null means the folder walks inside the run"
    )


class RandomIndexingConfig(Section):
    """Word vectors as exact sums of their neighbours' sparse random seeds."""

    kind: Literal["random-indexing"] = "random-indexing"
    vector_size: Annotated[int, Field(ge=4, le=65536)] | Literal["auto"] = Field(
        2048, description="Number of dimensions of a vector. auto chooses by the size of the vocabulary"
    )
    window: PositiveInt = Field(5, description="Number of words on each side that count as neighbours")
    seed_length: int = Field(
        10, ge=2, multiple_of=2, description="Number of non-zero positions in a seed, half of them +1 and half -1"
    )
    order: Literal["permutation", "direction", "none"] = Field(
        "permutation",
        description="Rotate the seed of a neighbour by its offset (permutation), by the sign of the offset "
        "(direction), or not at all (none)",
    )
    retrain: int = Field(0, ge=0, description="Number of further passes, each with the last pass's vectors as seeds")
    normalize: bool = Field(True, description="Scale vectors to length one")
    random_state: Seed = 0
    weighting: Literal["uniform", "linear"] = Field(
        "uniform", description="Weight of a neighbour: the same for all, or falling linearly with the distance"
    )
    contexts: Literal["words", "documents"] = Field(
        "words", description="A word's vector is the sum of the seeds of its neighbours, or of its documents"
    )
    min_count: PositiveInt = Field(1, description="Ignore words with fewer occurrences")
    max_count: PositiveInt | None = Field(None, description="Ignore words with more occurrences. null means no limit")
    stop_words: Literal["english"] | list[str] | None = Field(
        None, description="Words to ignore: english, or a list of words"
    )
    document_weights: Literal["none", "idf", "entropy"] = Field(
        "none", description="Weight of a word in the vector of a document"
    )
    n_blocks: Blocks = "auto"
    device: Device = "auto"

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        smallest = 2 * self.seed_length
        if self.vector_size != "auto" and self.vector_size < smallest:
            raise ValueError(
                f"vector_size is {self.vector_size}: choose 'auto' or {smallest} (twice seed_length) to 65536"
            )
        if self.max_count is not None and self.max_count < self.min_count:
            raise ValueError(f"max_count is {self.max_count}: choose {self.min_count} (min_count) or more")
        if self.contexts == "documents" and (self.order != "none" or self.retrain > 0):
            raise ValueError("contexts='documents' has no order and no retraining: set order='none' and retrain=0")
        return self


def _as_tuple(value: Any) -> Any:
    """Return a list of YAML as a tuple."""
    return tuple(value) if isinstance(value, list) else value


class FastRPConfig(Section):
    """Vectors of a graph's nodes by random projection. corpus.url is a graph store or a file of edges."""

    kind: Literal["fastrp"] = "fastrp"
    vector_size: int = Field(256, ge=4, le=65536, description="Number of dimensions of a vector")
    weights: Annotated[tuple[float, ...], BeforeValidator(_as_tuple)] = Field(
        (0.0, 0.0, 1.0, 1.0),
        min_length=1,
        description="Weight of the rows of nodes after each step of a random walk, one number per step",
    )
    degree_exponent: float = Field(
        -0.5,
        ge=-1,
        le=1,
        description="First rows are multiplied by this power of the node's share of all edges. The lower it is, the "
        "less count neighbours that many nodes have",
    )
    random_state: Seed = 0
    n_blocks: Blocks = "auto"
    device: Device = "auto"

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if not any(self.weights):
            raise ValueError("weights are all 0: choose one number per step, of which one is not 0")
        return self


class OwnModelConfig(Section, extra="allow"):
    """An algorithm of your own module. Its kind is the module and the class, such as my_module:MyModel.

    The class may also be an estimator. The section then has its parameters, and corpusmill cannot check them here.
    """

    kind: str = Field("my_module:MyModel", pattern=CLASS_PATTERN, description="Module and class")
    parameters: dict[str, Any] = Field({}, description="Fields of the algorithm, except bounds")
    max_iter: PositiveInt = Field(10, description="Number of epochs")
    n_blocks: Blocks = 1
    random_state: Seed = 0


AnyModelConfig = Annotated[
    Annotated[LDAConfig, Tag("lda")]
    | Annotated[NMFConfig, Tag("nmf")]
    | Annotated[Word2VecConfig, Tag("word2vec")]
    | Annotated[Node2VecConfig, Tag("node2vec")]
    | Annotated[RandomIndexingConfig, Tag("random-indexing")]
    | Annotated[FastRPConfig, Tag("fastrp")]
    | Annotated[OwnModelConfig, Tag("own")],
    Discriminator(tag_of),
]

#: The section of each kind of model.
MODEL_SECTIONS: dict[str, type[Section]] = {
    "lda": LDAConfig,
    "nmf": NMFConfig,
    "word2vec": Word2VecConfig,
    "node2vec": Node2VecConfig,
    "random-indexing": RandomIndexingConfig,
    "fastrp": FastRPConfig,
}
