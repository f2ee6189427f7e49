"""A configuration and its sections, except those of models, which are in ``model_schema``."""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    Discriminator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Tag,
    field_validator,
    model_validator,
)

from .model_schema import CLASS_PATTERN, AnyModelConfig, LDAConfig, Section, tag_of

#: A share of documents or lines. A number of them is strictly an integer, so that 2.0 does not pass for 2.
Share = Annotated[float, Field(ge=0, le=1)]


class SourceConfig(Section):
    """Where documents come from, and how text becomes words."""

    path: str | list[str] = Field(
        description="File, folder, glob pattern or URL, or a list of these. demo:kjv is the King James Bible"
    )
    format: Literal[
        "auto",
        "lines",
        "text",
        "jsonl",
        "csv",
        "mallet",
        "parquet",
        "arrow",
        "docword",
        "svmlight",
        "lda-c",
        "matrixmarket",
        "npz",
        "h5ad",
        "zarr",
        "10x-h5",
        "10x-mtx",
    ] = Field(
        "auto",
        description="Format of the files. auto goes by their names and beginnings; lines has one document per line, "
        "text one per file, mallet a name, a label and a text per line",
    )
    text: str = Field("text", description="Column or JSON key of the text. article.body is a field of a nested column")
    tokens: str | None = Field(None, description="Column or JSON key of lists of words, which replaces the text")
    key: str | None = Field(
        None, description="Column or JSON key of a document's name. null makes names from file and row"
    )
    keep: list[str] = Field(
        default_factory=list,
        description="Columns or JSON keys that are stored with the documents, such as [date, title, author]. Parquet, "
        "JSONL and CSV have them; a folder of text files has none",
    )
    vocabulary_file: str | None = Field(
        None, description="File with the words of a docword, svmlight, LDA-C, MatrixMarket or npz file, one per line"
    )
    keys_file: str | None = Field(
        None, description="File with the names of the documents of a MatrixMarket or npz file, one per line"
    )
    layer: str | None = Field(
        None, description="Matrix of an AnnData file: X, raw/X, or a layer such as layers/counts. null means X"
    )
    names: Literal["id", "name"] | None = Field(
        None, description="Names of the features of 10x files. null means id; name adds -1, -2 to equal names"
    )
    feature_type: str | None = Field(
        None, description="Type of the features of 10x files to keep, such as Peaks. null keeps all"
    )
    transpose: bool = Field(False, description="Whether the columns of a MatrixMarket or npz file are the documents")
    delimiter: str | None = Field(
        None, description="Character between the columns of CSV files. null means a tab in .tsv and .tab, else a comma"
    )
    quote: str = Field(
        '"',
        description="Character around fields of CSV files that hold delimiters or line ends; none: quotes are letters",
    )
    escape: str | None = Field(
        None, description="Character before a quote within a field of a CSV file. null means a second quote"
    )
    columns: list[str] = Field(
        default_factory=list, description="Names of the columns of CSV files without a header, such as [id, text]"
    )
    encoding: str | None = Field(
        None, description="Encoding of text, JSONL and CSV files, such as utf-16 or cp1252. null means UTF-8"
    )
    binarize: bool = Field(False, description="Read every count above 0 as 1")
    zero_based: bool = Field(False, description="Whether the columns of svmlight files count from 0")
    encoding_errors: Literal["strict", "replace"] = Field(
        "strict", description="Invalid UTF-8 is an error (strict) or becomes a replacement character (replace)"
    )
    null_text: Literal["error", "empty"] = Field(
        "error", description="A row without text is an error, or an empty document"
    )
    on_bad_line: Literal["error", "skip", "quarantine"] = Field(
        "error",
        description="A line of a JSONL, CSV or text file that cannot be read is an error, or is skipped. quarantine "
        "also writes it to bad-lines.jsonl in the corpus",
    )
    max_bad_lines: Annotated[int, Field(ge=0, strict=True)] | Share = Field(
        0.1,
        description="More bad lines than this are an error. An integer is a number, a float a share of all lines",
    )
    lowercase: bool = Field(True, description="Convert text to lower case before splitting it into words")
    token_pattern: str = Field(r"(?u)\b\w\w+\b", description="Regular expression that matches a word")
    stop_words: Literal["english"] | list[str] | None = Field(
        None, description="Words to ignore: english, or a list of words"
    )
    min_df: Annotated[int, Field(ge=0, strict=True)] | Share = Field(
        1, description="Ignore words in fewer documents. An integer is a count, a float up to 1.0 a share"
    )
    max_df: Annotated[int, Field(gt=0, strict=True)] | Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="Ignore words in more documents. An integer is a count, a float up to 1.0 a share"
    )
    max_features: PositiveInt | None = Field(
        None, description="Keep this many of the most frequent words. null keeps all"
    )


class CorpusConfig(Section):
    """The corpus store that ingest writes and training reads."""

    url: str = Field("corpus", description="Folder or URL of the corpus")
    chunk_tokens: PositiveInt | None = Field(
        None,
        description="Maximum number of tokens in a chunk. null means a sixteenth of the corpus, but at least half a "
        "million and at most four million tokens",
    )
    held_out: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0,
        description="Share of the documents that is not trained on, but held out for evaluation. A hash of the key of "
        "a document decides; see source.key",
    )


class IngestSection(SourceConfig, CorpusConfig):
    """The options of ``ingest`` in Python. Its source and its destination are no options."""

    path: str | list[str] = ""
    overwrite: bool = False


class RunConfig(Section):
    """Where training writes, and how often it evaluates."""

    url: str = Field(
        "runs/latest", description="Folder or URL of the run, which keeps the last epochs so that it can be resumed"
    )
    model: str | None = Field(None, description="Folder or URL of the trained model. null means 'model' inside the run")
    evaluate_every: NonNegativeInt = Field(
        10, description="Number of epochs between evaluations on the held-out documents. 0 means never"
    )
    metrics_file: str | None = Field(
        None,
        description="File in Prometheus's text format, such as corpusmill.prom, written when the job ends, "
        "successfully or not",
    )


class RetrainConfig(Section):
    """Versions of a model that is retrained on a schedule."""

    url: str = Field("models/latest", description="Folder or URL of the versions. Its HEAD names the one in use")
    model: dict[str, Any] | None = Field(
        None,
        description="Parameters that differ from the model section when a version continues from the one in use",
    )
    tolerance: NonNegativeFloat = Field(
        0.01,
        description="Publish a new version unless its held-out score is worse than that of the one in use by more "
        "than this share",
    )
    best_tolerance: NonNegativeFloat | None = Field(
        None,
        description="The same, compared with the best score of all versions published so far, so that quality cannot "
        "decline a little every night. null means three times the tolerance",
    )
    max_new_words: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5,
        description="Do not publish a version if a larger share of the tokens of its new documents are new words",
    )
    keep: PositiveInt = Field(
        7, description="Number of latest versions kept. The one in use and the one before it are always kept"
    )
    least_age: NonNegativeFloat = Field(
        0.0,
        description="Leave local files that were changed less than this many seconds ago for the next call: a program "
        "may still be writing them. Object stores show complete files only",
    )
    dates: str = Field(
        r"(\d{4})[-_/.]?(\d\d)[-_/.]?(\d\d)",
        description="Regular expression for year, month and day in the path of a file, used by --as-of",
    )

    @field_validator("dates")
    @classmethod
    def _has_three_groups(cls, pattern: str) -> str:
        try:
            n_groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        if n_groups != 3:
            raise ValueError(f"{pattern!r} needs three groups, for year, month and day, but the number is {n_groups}")
        return pattern


# --- Dask clusters, with the names of Dask ---


class ClusterConfig(Section):
    """Base of all kinds of cluster."""

    kind: str
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of the library's own cluster class, passed on unchanged"
    )

    @property
    def is_left_to_us(self) -> bool:
        """Whether the number of workers is left open: a command with little data may then start none."""
        return False

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of ``open_cluster``. Keys that are null are left out."""
        given = self.model_dump(exclude={"options"})
        arguments = {name: value for name, value in given.items() if value is not None}
        return arguments | self.options


class SynchronousConfig(ClusterConfig):
    """No Dask: every task runs in this process, one after the other. The results are the same, bit for bit."""

    kind: Literal["synchronous"] = "synchronous"


class AdaptConfig(Section):
    """Bounds of a cluster that grows and shrinks with its work."""

    minimum: NonNegativeInt = Field(1, description="Minimum number of workers")
    maximum: PositiveInt = Field(description="Maximum number of workers")


class ScaledConfig(ClusterConfig):
    """Base of the clusters that start their own workers. The number of workers does not change results."""

    adapt: AdaptConfig | None = Field(
        None, description="Let the number of workers follow the work, between these bounds, instead of n_workers"
    )


class LocalConfig(ScaledConfig):
    """Worker processes on this machine."""

    kind: Literal["local"] = "local"
    n_workers: PositiveInt | None = Field(None, description="Number of worker processes. null means one per core")
    threads_per_worker: PositiveInt = Field(1, description="Number of chunks that a worker processes at a time")
    memory_limit: str | int = Field(
        "auto", description="Memory limit of each worker, such as 4GiB. auto is an equal share of the machine's memory"
    )
    dashboard_address: str = Field(
        "127.0.0.1:8787", description="Address of the live page. If the port is taken, another one is chosen"
    )

    @property
    def is_left_to_us(self) -> bool:
        """Whether the number of workers is left open: a command with little data may then start none."""
        return self.n_workers is None and self.adapt is None and not self.options


class AddressConfig(ClusterConfig):
    """A scheduler that runs already. With certificates, connections use TLS."""

    kind: Literal["address"] = "address"
    address: str | None = Field(
        None, description="Address of the scheduler, such as tcp://scheduler:8786 or tls://scheduler:8786"
    )
    scheduler_file: str | None = Field(
        None,
        description="Path of the file with the address, which dask scheduler --scheduler-file writes. It replaces "
        "address",
    )
    tls_ca_file: str | None = Field(None, description="Certificate of the authority, a PEM file")
    tls_client_cert: str | None = Field(None, description="Certificate of this client, a PEM file")
    tls_client_key: str | None = Field(None, description="Private key of this client, a PEM file")

    @model_validator(mode="after")
    def _has_one_address(self) -> Self:
        if (self.address is None) == (self.scheduler_file is None):
            raise ValueError("the scheduler's address is needed: set either address or scheduler_file")
        return self


class ClassConfig(ScaledConfig):
    """Workers that a class of another package starts, such as those of dask-jobqueue, dask-kubernetes and dask-cuda.

    The kind is the module and the class. ``options`` are the arguments of the class, n_workers included.
    """

    kind: str = Field("dask_jobqueue:SLURMCluster", pattern=CLASS_PATTERN, description="Module and class")


AnyClusterConfig = Annotated[
    Annotated[SynchronousConfig, Tag("synchronous")]
    | Annotated[LocalConfig, Tag("local")]
    | Annotated[AddressConfig, Tag("address")]
    | Annotated[ClassConfig, Tag("own")],
    Discriminator(tag_of),
]


# --- all sections ---


class ReportConfig(Section):
    """The HTML report about a run."""

    path: str | None = Field(None, description="Path of the HTML file. null means report.html inside the run")
    n_words: PositiveInt = Field(12, description="Number of words shown of each topic")


class MLflowConfig(Section):
    """Logging of training to MLflow. It needs the extra mlflow."""

    experiment: str = Field("corpusmill", description="Name of the experiment, which is created if it is missing")
    tracking_uri: str | None = Field(
        None,
        description="Where MLflow stores runs, such as http://localhost:5000 or sqlite:///mlflow.db. null means "
        "MLflow's own setting, such as the variable MLFLOW_TRACKING_URI",
    )

    @field_validator("tracking_uri")
    @classmethod
    def _has_no_password(cls, uri: str | None) -> str | None:
        # A URI without a host has no password, and "@" may be in its path: sqlite:////home/a@b/mlflow.db. Where there
        # is a host, "@" is refused in the path too, because a password may contain a slash.
        if uri is not None and "@" in uri and urlsplit(uri).netloc:
            raise ValueError(
                "a URI with a name or a password: set the environment variable MLFLOW_TRACKING_URI instead, because "
                "configurations are stored"
            )
        return uri


class Config(Section):
    """A whole configuration: which model to train on which data, where, and what to write."""

    source: SourceConfig | None = Field(None, description="What ingest reads. null if the corpus exists already")
    corpus: CorpusConfig = CorpusConfig()
    model: AnyModelConfig = LDAConfig()
    run: RunConfig = RunConfig()
    retrain: RetrainConfig = RetrainConfig()
    cluster: AnyClusterConfig = LocalConfig()
    report: ReportConfig | None = Field(ReportConfig(), description="null means no report")
    mlflow: MLflowConfig | None = Field(None, description="null means no logging to MLflow")

    @property
    def model_url(self) -> str:
        """Folder or URL of the trained model."""
        return self.run.model or f"{self.run.url.rstrip('/')}/model"

    @property
    def report_path(self) -> str:
        """Path of the report; empty if there is none."""
        if self.report is None:
            return ""
        return self.report.path or f"{self.run.url.rstrip('/')}/report.html"
