"""What a configuration may say: one class a section, one class a kind of model and of cluster.

Names are those that users know: scikit-learn's for LDA, NMF and tokenising, gensim's for embeddings, Dask's for
clusters.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, description="Seed of all random draws: the same seed, the same model to the bit")]
Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    Field(description="Where kernels run; auto: on a worker's CUDA device where it has one"),
]


class Section(BaseModel):
    """A mapping of known keys; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class SourceConfig(Section):
    """Where documents come from, and how text becomes words."""

    path: str | list[str] = Field(
        description="File, folder, glob or fsspec URL, or a list of them; demo:kjv: the King James Bible"
    )
    format: Literal["auto", "lines", "text", "jsonl", "csv", "parquet", "docword", "svmlight", "matrixmarket"] = Field(
        "auto", description="What the files hold; auto: by their names; lines: a document a line; text: one a file"
    )
    text: str = Field("text", description="Column or JSON key of the text")
    tokens: str | None = Field(None, description="Column or JSON key of lists of words, instead of text")
    key: str | None = Field(None, description="Column or JSON key of a document's name; by default file and row")
    vocabulary_file: str | None = Field(None, description="Words of a docword, svmlight or MatrixMarket file")
    zero_based: bool = Field(False, description="Whether svmlight columns count from 0")
    encoding_errors: Literal["strict", "replace"] = Field("strict", description="What to do about invalid UTF-8")
    null_text: Literal["error", "empty"] = Field("error", description="What to do about a row without text")
    lowercase: bool = Field(True, description="Turn text to lower case before it is cut into words")
    token_pattern: str = Field(r"(?u)\b\w\w+\b", description="Regular expression of a word")
    stop_words: Literal["english"] | list[str] | None = Field(None, description="Words to leave out")
    min_df: int | float = Field(
        1, ge=0, description="Leave out words of fewer documents: a count, or a share below 1.0"
    )
    max_df: int | float = Field(
        1.0, gt=0, description="Leave out words of more documents: a count, or a share up to 1.0"
    )
    max_features: Positive | None = Field(None, description="Keep this many of the most frequent words")


class CorpusConfig(Section):
    """The corpus store that ingest writes and training reads."""

    url: str = Field("corpus", description="Folder or URL of the store")
    chunk_tokens: Positive | None = Field(
        None, description="Tokens a chunk; by default the most that a worker's memory allows"
    )
    held_out: Fraction = Field(0.05, description="Share of the documents that is set apart to evaluate with")


class LDAConfig(Section):
    """Latent Dirichlet allocation: each document is a mixture of topics, each topic a distribution over words."""

    kind: Literal["lda"] = "lda"
    n_components: int = Field(100, ge=2, le=32768, description="Topics")
    doc_topic_prior: float | list[float] | None = Field(
        None, description="alpha, one number or one for each topic; 50 / n_components by default"
    )
    topic_word_prior: float | None = Field(None, gt=0, description="beta; 0.01 by default")
    max_iter: Positive = Field(200, description="Epochs")
    leave_out: bool = Field(True, description="Leave a token out of its own counts; false is ESCA as published")
    n_blocks: Positive = Field(1, description="Blocks of words that the model is cut into; a sweep holds one")
    sampler: Literal["esca", "warp", "auto", "cgs", "minibatch", "reference", "uncollapsed"] = Field(
        "esca", description="How topics are drawn; warp for thousands of topics, auto for warp first and esca after"
    )
    device: Device = "auto"
    learn_priors: Literal["none", "symmetric", "asymmetric"] = Field(
        "none", description="Learn beta and alpha, one number or one for each topic, from the topics so far"
    )
    learn_every: Positive = Field(10, description="Epochs between two times that priors are learned")
    seeds: tuple[tuple[str, ...], ...] | None = Field(
        None, description="Words that the first topics begin with, a list a topic"
    )
    seed_weight: Positive = Field(20, description="Tokens that the prior of a topic's seed is worth")
    random_state: Seed = 0


class NMFConfig(Section):
    """Non-negative matrix factorisation: the corpus as a product of two small non-negative matrices."""

    kind: Literal["nmf"] = "nmf"
    n_components: Positive = Field(100, description="Components")
    solver: Literal["hals", "mu", "anls"] = Field("hals", description="How factors are updated; hals is the fastest")
    beta_loss: Literal["frobenius", "kullback-leibler"] = Field("frobenius", description="What is made small")
    init: Literal["random", "nndsvd", "nndsvda", "nndsvdar"] = Field("random", description="Where the factors begin")
    tol: float = Field(1e-4, ge=0, description="Stop when the error falls by less than this share; 0: never early")
    max_iter: Positive = Field(200, description="Epochs, at most")
    alpha_W: float = Field(0.0, ge=0, description="Weight of the penalty on the word factor")
    alpha_H: float | Literal["same"] = Field("same", description="Weight of the penalty on the document factor")
    l1_ratio: float = Field(0.0, ge=0, le=1, description="Share of the penalty that is L1, which makes zeros")
    order: Literal["separable", "paper"] = Field("separable", description="Order of the updates in a sweep")
    sweeps: Positive = Field(1, description="Sweeps over a factor while its products are at hand")
    extrapolate: bool = Field(False, description="Start each epoch beyond the last: fewer epochs to the same error")
    weighting: Literal["counts", "tfidf"] = Field("counts", description="What a corpus is as a matrix")
    dtype: Literal["float32", "float64"] = Field("float32", description="Precision")
    n_blocks: Positive = Field(1, description="Blocks of words that the word factor is cut into")
    random_state: Seed = 0
    device: Device = "auto"


class SkipGramConfig(Section):
    """What Word2Vec and Node2Vec share."""

    vector_size: Positive = Field(100, description="Numbers in a vector")
    window: Positive = Field(5, description="Words to each side that count as neighbours")
    min_count: Positive = Field(5, description="Leave out words with fewer occurrences")
    negative: Positive = Field(5, description="Random words for each true neighbour")
    ns_exponent: float = Field(0.75, description="Negatives are drawn by frequency to this power")
    sample: float = Field(1e-3, ge=0, description="Frequency above which words are thinned out")
    alpha: float = Field(0.025, gt=0, description="Learning rate at the start")
    min_alpha: float = Field(1e-4, ge=0, description="Learning rate at the end")
    epochs: Positive = Field(5, description="Passes over the corpus")
    seed: Seed = 1
    method: Literal["par", "full", "sgns"] = Field("par", description="Form of the updates; par is the fastest")
    ignore_sentence_ends: bool = Field(False, description="Let windows reach over the ends of documents")
    threads: Positive = Field(1, description="Threads a sweep; with more than one, results vary from run to run")
    shards_per_round: Positive = Field(
        1,
        description="Shards that train apart before their changes are averaged: more is faster, fewer is better",
    )
    n_blocks: Positive = Field(1, description="Blocks of words that the model is cut into")
    device: Device = "auto"


class Word2VecConfig(SkipGramConfig):
    """Word vectors by skip-gram with negative sampling."""

    kind: Literal["word2vec"] = "word2vec"


class Node2VecConfig(SkipGramConfig):
    """Vectors of a graph's nodes: skip-gram over random walks. corpus.url is a graph store or a file of edges."""

    kind: Literal["node2vec"] = "node2vec"
    vector_size: Positive = Field(128, description="Numbers in a vector")
    window: Positive = Field(10, description="Nodes to each side of a walk that count as neighbours")
    min_count: Positive = Field(1, description="Leave out nodes that walks pass less often")
    sample: float = Field(0.0, ge=0, description="Frequency above which nodes are thinned out; 0: none")
    p: float = Field(1.0, gt=0, description="How unlikely a walk returns to where it came from")
    q: float = Field(1.0, gt=0, description="How unlikely a walk leaves the neighbourhood")
    num_walks: Positive = Field(10, description="Walks from every node")
    walk_length: Positive = Field(80, description="Nodes of a walk")
    walk_method: Literal["rejection", "tables"] = Field("rejection", description="How steps are drawn")
    table_memory: Positive = Field(1 << 30, description="Bytes of alias tables, at most")
    walks: str | None = Field(None, description="Folder or URL that keeps the walks; null: a temporary one")


class RandomIndexingConfig(Section):
    """Word vectors as exact sums of their neighbours' sparse random seeds."""

    kind: Literal["random-indexing"] = "random-indexing"
    dimension: Positive | Literal["auto"] = Field(2048, description="Numbers in a vector; auto: by the vocabulary")
    window: Positive = Field(5, description="Words to each side that count as neighbours")
    seed_length: int = Field(10, ge=2, multiple_of=2, description="Positions of a word's seed that are not zero")
    order: Literal["permutation", "direction", "none"] = Field(
        "permutation", description="How the place of a neighbour counts"
    )
    retrain: int = Field(0, ge=0, description="Further passes with the last pass's vectors as seeds")
    normalize: bool = Field(True, description="Vectors of length one")
    random_state: Seed = 0
    weighting: Literal["uniform", "linear"] = Field("uniform", description="How the distance of a neighbour counts")
    contexts: Literal["words", "documents"] = Field("words", description="What a word's vector is the sum of")
    min_count: Positive = Field(1, description="Fewest occurrences of a word that has a vector")
    max_count: Positive | None = Field(None, description="Most occurrences of a word that has a vector")
    stop_words: str | list[str] | None = Field(None, description="Words without a vector")
    document_weights: Literal["none", "idf", "entropy"] = Field(
        "none", description="Weights of words in the vector of a document"
    )
    n_blocks: Positive = Field(1, description="Blocks of words that the model is cut into")
    device: Device = "auto"


AnyModelConfig = LDAConfig | NMFConfig | Word2VecConfig | Node2VecConfig | RandomIndexingConfig


class RunConfig(Section):
    """What training leaves behind."""

    url: str = Field("runs/latest", description="Folder or URL of the run: every committed epoch, for resume")
    model: str | None = Field(None, description="Where the trained model goes; by default 'model' inside the run")
    evaluate_every: int = Field(10, ge=0, description="Epochs between evaluations on the held-out documents; 0: never")
    metrics_file: str | None = Field(
        None, description="File of Prometheus figures, name.prom, that a job leaves when it ends, however it does"
    )


class RetrainConfig(Section):
    """Versions of a model that is brought up to date again and again."""

    url: str = Field("models/latest", description="Folder or URL of the versions; HEAD there names the one in use")
    model: dict[str, Any] = Field(
        default_factory=dict, description="What differs from the model section where a version goes on from another"
    )
    tolerance: float = Field(
        0.01, ge=0, description="Share by which a version may be worse on the held-out documents than the one in use"
    )
    keep: Positive = Field(7, description="Versions kept, the one in use besides")
    dates: str = Field(
        r"(\d{4})[-_/.]?(\d\d)[-_/.]?(\d\d)", description="Pattern of year, month and day in a file's path, for --as-of"
    )


class ClusterConfig(Section):
    """Base of all kinds: what is not named here goes to the library's own class as ``options``."""

    kind: str
    options: dict[str, Any] = Field(default_factory=dict, description="Further arguments of the library's own class")

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of ``open_cluster``; what was left null is left out."""
        own = {name: value for name, value in self.model_dump(exclude={"options"}).items() if value is not None}
        return own | self.options


class SynchronousConfig(ClusterConfig):
    """No Dask: every task runs in this process, one by one, with the same result to the bit."""

    kind: Literal["synchronous"] = "synchronous"


class AdaptConfig(Section):
    """How many workers a cluster may have, as there is work for them."""

    minimum: Positive = Field(1, description="Fewest workers")
    maximum: Positive = Field(description="Most workers")


class ScaledConfig(ClusterConfig):
    """Starts its own workers, as many as asked for or as there is work for; the model is the same to the bit."""

    adapt: AdaptConfig | None = Field(None, description="Fewest and most workers, instead of a fixed number")


class LocalConfig(ScaledConfig):
    """Worker processes on this machine."""

    kind: Literal["local"] = "local"
    n_workers: Positive | None = Field(None, description="Worker processes; by default one a core")
    threads_per_worker: Positive = Field(1, description="Chunks that a worker sweeps at a time")
    memory_limit: str | int = Field("auto", description="Memory of each worker, such as 4GiB; auto: its share")
    dashboard_address: str = Field(
        "127.0.0.1:8787", description="Where the live page is served; another port if this one is taken"
    )


class SecuredConfig(ClusterConfig):
    """Connects to a scheduler that is there already, by TLS if certificates are given."""

    tls_ca_file: str | None = Field(None, description="Certificate of the authority, in PEM format")
    tls_client_cert: str | None = Field(None, description="The client's certificate")
    tls_client_key: str | None = Field(None, description="The file of the client's private key")


class AddressConfig(SecuredConfig):
    """A scheduler at a known address."""

    kind: Literal["address"] = "address"
    address: str = Field(description="Such as tcp://scheduler:8786 or tls://scheduler:8786")


class SchedulerFileConfig(SecuredConfig):
    """A scheduler that wrote its address to a shared file (dask scheduler --scheduler-file)."""

    kind: Literal["scheduler-file"] = "scheduler-file"
    scheduler_file: str = Field(description="Path of the file")


class LocalCudaConfig(ScaledConfig):
    """One worker for each GPU of this machine (dask-cuda)."""

    kind: Literal["local-cuda"] = "local-cuda"
    n_workers: Positive | None = Field(None, description="Workers; by default one a GPU")
    threads_per_worker: Positive = Field(
        2, description="Chunks that a GPU has at a time: one is sent while another is drawn from"
    )
    memory_limit: str | int | None = Field(None, description="Host memory of each worker")
    device_memory_limit: str | float | None = Field(
        None, description="GPU memory above which a worker spills to the host"
    )
    rmm_pool_size: str | float | None = Field(None, description="GPU memory that each worker sets apart at start")


class JobQueueConfig(ScaledConfig):
    """Workers as jobs of a batch system (dask-jobqueue)."""

    kind: Literal["jobqueue"] = "jobqueue"
    scheduler: Literal["slurm", "pbs", "lsf", "sge", "oar", "htcondor", "moab", "local"] = "slurm"
    n_workers: Positive = Field(1, description="Workers to ask for")
    cores: Positive = Field(1, description="Threads a job")
    processes: Positive = Field(1, description="Worker processes a job")
    memory: str = Field("4GiB", description="Memory a job")
    walltime: str | None = Field(None, description="Longest time a job may take, such as 02:00:00")
    queue: str | None = Field(None, description="Queue or partition")
    account: str | None = Field(None, description="Account that pays")


class KubernetesConfig(ScaledConfig):
    """Workers as pods (dask-kubernetes and its operator)."""

    kind: Literal["kubernetes"] = "kubernetes"
    name: str = Field("corpusmill", description="Name of the DaskCluster resource")
    image: str = Field(description="Container image that has corpusmill installed")
    namespace: str | None = Field(None, description="Kubernetes namespace; by default the current one")
    n_workers: Positive = Field(2, description="Worker pods")
    resources: dict[str, dict[str, str]] | None = Field(None, description="Requests and limits of a pod")
    env: dict[str, str] | None = Field(None, description="Environment of scheduler and workers")


AnyClusterConfig = (
    SynchronousConfig
    | LocalConfig
    | AddressConfig
    | SchedulerFileConfig
    | LocalCudaConfig
    | JobQueueConfig
    | KubernetesConfig
)


class ReportConfig(Section):
    """The page that a run leaves."""

    path: str | None = Field(None, description="The HTML file; by default report.html inside the run")
    n_words: Positive = Field(12, description="Words shown of each topic")


class Config(Section):
    """A whole configuration: what to train on what, where, and what to leave behind."""

    source: SourceConfig | None = Field(
        None, description="What ingest reads; without it the corpus must be there already"
    )
    corpus: CorpusConfig = CorpusConfig()
    model: AnyModelConfig = Field(LDAConfig(), discriminator="kind")
    run: RunConfig = RunConfig()
    retrain: RetrainConfig = RetrainConfig()
    cluster: AnyClusterConfig = Field(LocalConfig(), discriminator="kind")
    report: ReportConfig | None = Field(ReportConfig(), description="null: no report")

    @property
    def model_url(self) -> str:
        """Where the trained model goes."""
        return self.run.model or f"{self.run.url.rstrip('/')}/model"

    @property
    def report_path(self) -> str:
        """Where the report goes; empty when none is wanted."""
        return (self.report.path or f"{self.run.url.rstrip('/')}/report.html") if self.report else ""
