"""Make a corpus store of a source of documents.

An ingest reads its source once, and never holds more than one batch of documents or one chunk in memory. It has two
passes:

1. Tokenise each partition of the source, and count its words. Merge the counts, leave out words that the options do not
   admit, and rank the others. The rank of a word is its id.
2. Replace words by ids, cut the documents into chunks, and write each chunk in both orders.

`tasks` does this work and lists the files between the two passes. Finished tasks are recorded, so an ingest that was
interrupted can be continued. corpus.json is written last: without it, a folder is not a corpus.
"""

import os
import shutil
import tempfile
import uuid
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import scipy

from ...io.data import Data, Kind, items_of, recognise
from ...io.errors import DataError, DataWarning
from ...io.matrices.names import check_unique
from ...io.readers.open import open_in_memory, open_source
from ...io.readers.reader import Document, Reader
from ...io.readers.source import Paths, is_folder
from ...io.stores.corpus import LOCK, Corpus
from ...io.stores.locks import acquire_lock
from ...io.stores.store import Store, check_free
from ...io.words import find_word_ids, translate_words
from ..engine.events import IngestListener
from ..engine.executors import Synchronous, executor_for
from . import tasks
from .destination import OTHER_STORES, Identity, digest_of, has_corpus, identity_of
from .job import IngestJob, IngestOptions, make_options
from .steps import Ingest
from .tasks import PartitionWords

if TYPE_CHECKING:
    from distributed import Client


#: Documents, or a matrix of counts with one row per document.
InMemory: TypeAlias = "Iterable[Document] | np.ndarray | scipy.sparse.sparray | scipy.sparse.spmatrix | Data"
#: The distinct words of a text take about a sixteenth of its bytes at most.
BYTES_PER_WORD_BYTE = 16
#: More buckets of words than this would mean too many small tasks.
MAX_BUCKETS = 256


def ingest(
    source: "Paths | InMemory | Reader",
    corpus_url: str,
    *,
    client: "Client | None" = None,
    progress: IngestListener | None = None,
    vocabulary: pa.Table | Sequence[str] | None = None,
    grow: bool = False,
    **options: Any,
) -> Corpus:
    """Turn documents into a corpus store, and return it.

    The same call continues an ingest that was interrupted. It does nothing if the corpus was already made from the same
    files with the same options.

    Parameters
    ----------
    source : str, os.PathLike, list or data in memory
        Where the documents are: a file, folder, glob or URL in a format that corpusmill reads, or a list of files, each
        a ``pathlib.Path`` or a URL such as "s3://news/monday.jsonl". Of a folder, hidden files, those that begin with _
        and backup copies are left out. Or the documents themselves: a list of strings or of lists of words, a sparse
        matrix of counts (documents, words), a table, or an open reader.
    corpus_url : str
        Folder or URL for the corpus.
    client : distributed.Client, optional
        Where to run. By default the current Dask client, or this process if there is none.
    progress : callable, optional
        Called with an `IngestProgress` after every task. `corpusmill.ProgressLines` shows the progress.
    vocabulary : pyarrow.Table or sequence of str, optional
        The words of the corpus, or a table with these in its column ``word``. Their positions become their ids. Other
        words are skipped and counted. For a matrix, a sequence names the columns, such as
        ``vectorizer.get_feature_names_out()``.
    grow : bool, default=False
        Whether to append words that are not in ``vocabulary``, if the options admit them.
    **options : values by name
        The parameters of `IngestOptions`: how to read and tokenise documents, which words to keep, the size of chunks
        in tokens, and the share of documents to set aside for evaluation.

    Returns
    -------
    Corpus
        The finished corpus.

    Raises
    ------
    DataError
        If the source cannot be read, if the folder holds another store, such as a model, or files that would be
        overwritten, or if ``vocabulary`` is no list of different strings.
    ValueError
        If an option is invalid.
    TypeError
        If there is no option of this name, or if ``corpus_url`` or ``progress`` is of the wrong type.
    Locked
        If another process ingests into the same corpus.

    See Also
    --------
    Corpus : Open a corpus store.

    Examples
    --------
    >>> from corpusmill import ingest
    >>> with open("fish.txt", "w") as file:
    ...     _ = file.write("One fish\\nTwo fish\\nRed fish\\n")
    >>> corpus = ingest("fish.txt", "fish-corpus", stop_words=["red"])
    >>> corpus.n_documents, corpus.n_tokens
    (3, 5)
    >>> corpus.vocabulary["word"].to_pylist()
    ['fish', 'one', 'two']
    """
    if not isinstance(corpus_url, str | os.PathLike):
        raise TypeError(f"corpus_url is {corpus_url!r}: pass the path or URL of a folder")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is {progress!r}: pass a function, such as ProgressLines()")
    chosen = make_options(options)
    data = recognise(source)
    words, names = _words_or_names(data, vocabulary)
    reader = source if isinstance(source, Reader) else _open_reader(data, corpus_url, chosen, names)
    identity = identity_of(reader, chosen, words, grow)
    job = _new_job(corpus_url, reader, chosen, identity, words is not None, grow)
    executor = executor_for(client)
    message = "another process is ingesting into this corpus; wait for it"
    with acquire_lock(job.store, LOCK, message) as check, executor.guarded():
        executor.check_folders([], written=[job.corpus])
        corpus = Ingest(reader, job, identity, executor, progress, words, check_lock=check).run()
    for notice in corpus.meta["about"].get("warnings", []):
        warnings.warn(f"{corpus_url}: {notice}", DataWarning, stacklevel=2)
    return corpus


def corpus_from(data: InMemory, vocabulary: pa.Table | Sequence[str] | None = None, **options: Any) -> Corpus:
    """Make a temporary corpus of data in memory. Its files are deleted together with the returned object.

    ``data`` is documents (strings or lists of words), a table of documents, or a matrix of counts with one row per
    document.
    ``vocabulary`` and ``options`` are those of `ingest`. By default, the word of a column is its number.

    Raises DataError for data that cannot be used, and ValueError for an invalid option.
    """
    chosen = make_options(options)
    recognised = recognise(data)
    words, names = _words_or_names(recognised, vocabulary)
    reader = open_in_memory(recognised, chosen, names)
    identity = identity_of(reader, chosen, words)
    folder = tempfile.mkdtemp(prefix="corpusmill-corpus-")
    try:
        job = _new_job(folder, reader, chosen, identity, has_vocabulary=words is not None, is_temporary=True)
        corpus = Ingest(reader, job, identity, Synchronous(), vocabulary=words, may_be_empty=True).run()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    corpus.title = "documents in memory"
    weakref.finalize(corpus, shutil.rmtree, folder, ignore_errors=True)
    return corpus


def _words_or_names(
    data: Data, vocabulary: pa.Table | Sequence[str] | None
) -> tuple[pa.Table | None, list[str] | None]:
    """Return a vocabulary as the table of the words of documents, or as the names of the columns of a matrix."""
    if vocabulary is None or isinstance(vocabulary, pa.Table):
        return vocabulary, None
    words = _checked_words(vocabulary)
    if data.kind is Kind.MATRIX:
        return None, words
    return pa.table({"word": words}), None


def documents_of(
    data: InMemory, vocabulary: pa.Table, column_names: Sequence[str] | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield documents in memory, batch by batch, by the ids of their words in a vocabulary.

    A batch is doc_ptr (D + 1,) int64 and words (T,) uint32, as in a chunk of the corpus that `corpus_from` would make.
    Words outside the vocabulary are left out.
    """
    options = IngestOptions()
    reader = open_in_memory(data, options, column_names)
    for partition in reader.partitions():
        for batch in reader.read(partition):
            words = PartitionWords(options)
            doc_ptr, numbers = words.add(batch, np.ones(len(batch.keys), bool))
            yield translate_words(doc_ptr, numbers, find_word_ids(words.table()["word"], vocabulary))


def _checked_words(vocabulary: Sequence[str]) -> list[str]:
    """Return a vocabulary as a list; raise DataError unless it is a sequence of different strings."""
    if isinstance(vocabulary, str | Mapping | Set) or not isinstance(vocabulary, Iterable):
        kind = type(vocabulary).__name__
        raise DataError(f"vocabulary is of type {kind}: pass a list of words, in the order of their ids")
    words = list(items_of(vocabulary))
    others = [word for word in words if not isinstance(word, str)]
    if others:
        raise DataError(f"vocabulary has {others[0]!r:.40}, which is not a string: pass a list of words")
    check_unique(pa.array(words, pa.large_string()), "vocabulary", "remove it")
    return words


def _open_reader(data: Data, corpus_url: str, options: IngestOptions, names: Sequence[str] | None) -> Reader:
    if data.kind is Kind.PATH:
        return open_files(data.value, corpus_url, options)
    if isinstance(data.value, list | tuple):
        _check_for_file_names(data.value)
    return open_in_memory(data, options, names)


def _check_for_file_names(documents: Sequence[object]) -> None:
    """Raise DataError if the first document is the name of a file, which was probably meant to be read."""
    first = documents[0] if documents else None
    # pathlib would raise an error for a long text, which is no name of a file.
    if isinstance(first, str) and os.path.isfile(first):  # noqa: PTH113
        raise DataError(
            f"{first}: a file, but the strings of a list are documents; pass a list of pathlib.Path or URLs for files"
        )


def open_files(source: Paths, corpus_url: str, options: IngestOptions) -> Reader:
    """Return the reader of files; raise DataError if the corpus would be inside the folder of its documents."""
    if isinstance(source, str | os.PathLike) and is_folder(source):
        folder = Store(source).absolute.rstrip("/")
        if f"{Store(corpus_url).absolute}/".startswith(f"{folder}/"):
            raise DataError(
                f"{corpus_url}: is inside the folder of documents {source}, where the next ingest would read it; "
                f"choose a folder outside, or name the documents with a pattern such as '{source}/*.txt'"
            )
    return open_source(source, options)


def check_destination(url: str, reader: Reader, options: IngestOptions) -> None:
    """Raise DataError if the folder of the corpus holds something that an ingest does not replace."""
    identity = identity_of(reader, options, None)
    job = _new_job(url, reader, options, identity, has_vocabulary=False)
    check_free(job.store, *OTHER_STORES)
    has_corpus(job, reader, identity)


def _new_job(
    url: str,
    reader: Reader,
    options: IngestOptions,
    identity: Identity,
    has_vocabulary: bool,
    grows: bool = False,
    is_temporary: bool = False,
) -> IngestJob:
    source_bytes = sum(file.size for file in reader.files)
    n_buckets = source_bytes // (BYTES_PER_WORD_BYTE * tasks.BUCKET_BYTES)
    # All data in memory has the same identity.
    digest = uuid.uuid4().hex[:16]
    if reader.is_repeatable:
        digest = digest_of(identity)
    return IngestJob(
        corpus=Store(url).absolute,
        work=f".work/{digest}",
        options=options,
        n_buckets=min(max(1, n_buckets), MAX_BUCKETS),
        has_vocabulary=has_vocabulary,
        grows=grows,
        is_temporary=is_temporary,
    )
