"""The sections of a configuration, except those of the models (``model_schema``) and clusters (``cluster_schema``)."""

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from .cluster_schema import AnyClusterConfig, LocalConfig
from .model_schema import AnyModelConfig, LDAConfig, Section

#: A share of a whole, which leaves some of it.
Fraction = Annotated[float, Field(ge=0, lt=1)]


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
    max_features: PositiveInt | None = Field(None, description="Keep this many of the most frequent words")


class CorpusConfig(Section):
    """The corpus store that ingest writes and training reads."""

    url: str = Field("corpus", description="Folder or URL of the store")
    chunk_tokens: PositiveInt | None = Field(
        None, description="Tokens a chunk; by default the most that a worker's memory allows"
    )
    held_out: Fraction = Field(0.05, description="Share of the documents that is set apart to evaluate with")


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
    keep: PositiveInt = Field(7, description="Versions kept, the one in use besides")
    dates: str = Field(
        r"(\d{4})[-_/.]?(\d\d)[-_/.]?(\d\d)", description="Pattern of year, month and day in a file's path, for --as-of"
    )


class ReportConfig(Section):
    """The page that a run leaves."""

    path: str | None = Field(None, description="The HTML file; by default report.html inside the run")
    n_words: PositiveInt = Field(12, description="Words shown of each topic")


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
