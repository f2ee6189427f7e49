"""What retraining and comparing return. With ``--json`` the commands print exactly this, as one JSON object."""

from typing import NotRequired, TypedDict


class RetrainResult(TypedDict):
    """What a call of ``retrain`` did, or would do if it is a dry run."""

    #: "published", "refused", "unchanged", or "planned" for a dry run that would train or publish.
    status: str
    url: str
    kind: str
    #: The version that the status is about, and the version in use before the call. None if there is none.
    version: int | None
    previous: int | None
    #: The version from which training continues. None if the model is trained from scratch.
    continues_from: int | None
    #: Files that the new version covers, and how many of them this call reads.
    partitions: int
    files_to_read: int
    #: Files that were changed in the last retrain.least_age seconds, and are left for the next call.
    too_young: int
    #: URLs of files.
    added: list[str]
    changed: list[str]
    removed: list[str]
    forgotten: list[str]
    documents: int | None
    tokens: int | None
    words: int | None
    new_words: int | None
    #: Lines of the new files that could not be read and were skipped.
    bad_lines: int | None
    epochs: int | None
    #: Name of the score on the held-out documents, its value, and the value of the version in use.
    measure: str | None
    score: float | None
    score_before: float | None
    #: Why a version was refused, or is not published again.
    reason: str | None
    #: URL of the model of ``version``.
    model: str | None
    as_of: str | None


class WordList(TypedDict):
    """How many words there are, and the first few of them."""

    number: int
    first: list[str]


class VersionScore(TypedDict):
    """The name of a version's measure of quality, and its value on the held-out documents."""

    measure: str
    score: float | None


class TopicChange(TypedDict):
    """How one topic of the new version differs from the topic that it was matched with."""

    topic: int
    #: The name that a user gave to it.
    name: NotRequired[str]
    #: The name that the matched topic of the old version has.
    name_before: NotRequired[str]
    #: Number in the old version. None if the topic is new; then ``drift`` and ``size_before`` are None too.
    was: int | None
    #: Hellinger distance between the word distributions: 0 if they are equal, 1 if they share no word.
    drift: float | None
    size: float
    size_before: float | None
    words: list[str]
    entered: list[str]
    left: list[str]


class NeighbourChange(TypedDict):
    """How the nearest neighbours of one word differ."""

    word: str
    #: Share of the neighbours that are the same in both versions.
    kept: float
    before: list[str]
    now: list[str]


class ModelDiff(TypedDict):
    """How two models of one kind differ. Topic models have topics, the others have neighbours."""

    kind: str
    #: Number of words of the old and of the new model.
    words: list[int]
    words_added: WordList
    words_removed: WordList
    mean_drift: NotRequired[float]
    #: Topics of the new model, those with the largest drift first.
    topics: NotRequired[list[TopicChange]]
    #: Topics of the old model that have no counterpart.
    topics_removed: NotRequired[list[int]]
    #: Number of words whose neighbours were compared.
    compared: NotRequired[int]
    #: Mean share of neighbours kept. None if fewer than two words could be compared.
    kept_neighbours: NotRequired[float | None]
    #: The words that kept the fewest neighbours.
    moved: NotRequired[list[NeighbourChange]]


class VersionDiff(ModelDiff):
    """How two versions of a model differ."""

    url: str
    old: int
    new: int
    #: Scores of the old and of the new version.
    scores: list[VersionScore]
