"""Open the explorer of a model, as a page of a server or as one file without a server."""

from ...io.errors import DataError
from ...io.stores.corpus import Corpus
from ...io.stores.store import JsonObject
from ..models.lda.estimator import LDA
from ..models.nmf.estimator import NMF
from .model import ExploredModel, Explorer, corpus_of
from .page import Page
from .topics import TopicExplorer
from .vectors import VectorExplorer

#: Most topics of a page without a server, and documents of each topic that it contains.
FILE_TOPICS = 500
FILE_DOCUMENTS = 6
#: Words of each topic whose own view is in the file.
FILE_WORDS = 60


def open_explorer(
    url: str,
    corpus_url: str | None = None,
    limit: int = 100_000,
    labels: dict[str, str] | None = None,
    comparison: JsonObject | None = None,
) -> Explorer:
    """Return the explorer of a model or run.

    ``limit`` is the number of documents to look at. ``labels`` are groups of words or nodes, which colour their map.
    ``comparison`` is how the model differs from another one, as the command ``diff`` describes it.
    """
    model = ExploredModel(url)
    if model.kind in (LDA._kind, NMF._kind):
        if labels is not None:
            raise ValueError(f"{url}: --labels applies to words or nodes on a map, and this is a model of topics")
        corpus: Corpus | None = corpus_of(model, corpus_url)
        return TopicExplorer(model, corpus, limit, comparison)
    if corpus_url is not None:
        raise ValueError(f"{url}: --corpus applies to models of topics, and this is a {model.kind} model")
    return VectorExplorer(model, labels, comparison)


def standalone_page(explorer: Explorer) -> str:
    """Return the page with all its answers, which needs no server; raise DataError for a model that is too large."""
    answers: JsonObject = {"model": explorer.answer_model()}
    if explorer.comparison is not None:
        answers["comparison"] = explorer.answer_comparison()
    if isinstance(explorer, VectorExplorer):
        answers |= _vector_answers(explorer)
    if isinstance(explorer, TopicExplorer):
        answers |= _topic_answers(explorer)
    return Page().render(answers)


def _vector_answers(explorer: VectorExplorer) -> JsonObject:
    numbers = explorer.map["ids"].tolist()
    found: JsonObject = {f"neighbours?word={number}": explorer.answer_neighbours(number) for number in numbers}
    # Neighbours that are not on the map have a name, but no view of their own.
    found["vocabulary"] = [[number, explorer.vectors.index_to_key[number]] for number in numbers]
    return found


def _topic_answers(explorer: TopicExplorer) -> JsonObject:
    if explorer.n_topics > FILE_TOPICS:
        raise DataError(
            f"{explorer.model.url}: {explorer.n_topics:,} topics are too many for one file, which may have "
            f"{FILE_TOPICS:,}; use `corpusmill explore` without --html"
        )
    if explorer.scan is not None:
        explorer.scan.start()
        explorer.scan.wait()
    found: JsonObject = {}
    words: dict[int, str] = {}
    documents: set[int] = set()
    for topic in range(explorer.n_topics):
        shown = explorer.answer_topic(topic)
        found[f"topic?topic={topic}"] = shown
        words.update(zip(shown["ids"][:FILE_WORDS], shown["words"], strict=False))
        if explorer.documents is None:
            continue
        listed = explorer.answer_documents(topic)
        listed["documents"] = listed["documents"][:FILE_DOCUMENTS]
        documents.update(entry["document"] for entry in listed["documents"])
        found[f"documents?topic={topic}"] = listed
        for column in explorer.documents.corpus.kept_columns:
            found[f"groups?topic={topic}&column={column}"] = explorer.answer_groups(topic, column)
    for word in words:
        found[f"word?word={word}"] = explorer.answer_word(word)
    for document in sorted(documents):
        found[f"document?document={document}"] = explorer.answer_document(document)
    found["vocabulary"] = [[number, word] for number, word in words.items()]
    return found
