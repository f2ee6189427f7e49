"""What the commands return. With ``--json`` they print exactly this, as one JSON object."""

from typing import Literal, NotRequired, TypedDict

from ..topics import Topic

#: Named values, in the order in which they are printed.
Facts = dict[str, object]


class CorpusResult(TypedDict):
    """A corpus on disk."""

    what: str
    url: str
    documents: int
    held_out_documents: int
    tokens: int
    words: int
    order: str
    chunks: int
    largest_chunk_tokens: int
    hash: str
    format: int
    chunk_tokens: NotRequired[int]
    chunk_tokens_by: NotRequired[str]
    note: NotRequired[str]
    #: Lines of the source that could not be read and were skipped.
    bad_lines: NotRequired[int]
    #: What a user should look at, such as a column that became text because of a few values.
    warnings: NotRequired[list[str]]
    version: NotRequired[str]


class IngestResult(CorpusResult):
    """A corpus after ingest."""

    #: False if the corpus was complete before.
    changed: bool


class RestartResult(TypedDict):
    """One of several factorisations that were trained side by side."""

    name: str
    n_components: int
    random_state: int
    epochs: int
    #: The reconstruction error after the last epoch.
    error: float
    model: str


class TrainingResult(TypedDict):
    """A trained model. Scores are per token."""

    kind: str
    epochs: int
    training_seconds: float
    #: The median over the epochs. None if no epoch was trained.
    tokens_per_second: float | None
    log_likelihood: NotRequired[float]
    held_out_log_likelihood: NotRequired[float]
    #: Other measures of the last epoch, by name.
    measures: dict[str, float]
    run: str
    model: str
    #: Epochs that this call trained; 0 if the run was complete before.
    trained_epochs: int
    report: NotRequired[str]
    #: All restarts, if the configuration has more than one.
    restarts: NotRequired[list[RestartResult]]
    #: The topics, largest first. Empty for models without topics.
    topics: list[Topic]


class TopicsResult(TypedDict):
    """The topics of a saved model, largest first."""

    model: str
    #: Epochs after which the model was saved. A run that was continued since may have more.
    epochs: int
    topics: list[Topic]


class Similar(TypedDict):
    """A word or a document and its cosine similarity to a query."""

    word: NotRequired[str]
    document: NotRequired[str]
    similarity: float


class Finding(TypedDict):
    """What one check of ``doctor`` found."""

    check: str
    #: "advice" slows work down or limits it. "problem" makes work impossible or results wrong.
    status: Literal["fine", "advice", "problem"]
    #: What was found; for advice and problems also what to do.
    text: str
