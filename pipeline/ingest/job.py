"""The options of an ingest, and what its tasks share: the job, its work files, and the results returned as JSON."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from ...configs.validation import validated_options
from ...io.readers.batches import Odd, ReadOptions
from ...io.readers.kinds import Fits
from ...io.stores.store import Store
from ...io.words import TokenOptions, VocabularyOptions

if TYPE_CHECKING:
    from ...configs.schema import Config

#: Parts of a corpus. The documents of ``held_out`` are set aside for evaluation.
PARTS = ("train", "held_out")
#: The lines that were skipped, one JSON object per line. Written only if on_bad_line is "quarantine".
BAD_LINES = "bad-lines.jsonl"


@dataclass(frozen=True)
class IngestOptions(ReadOptions, TokenOptions, VocabularyOptions):
    r"""How documents become a corpus: how to read them, which words to keep, and how to cut chunks.

    `ingest` takes these parameters as keywords.

    Words and their limits have the names and meanings of scikit-learn's CountVectorizer.

    Parameters
    ----------
    stop_words : "english", or list or set of str, optional
        Words to leave out. By default, none.
    min_df, max_df : int or float, default=1 and 1.0
        Words in fewer or in more documents are left out. An integer is a number of documents, a float is a share.
    max_features : int, optional
        Keep only the most frequent words, up to this number. By default, all.
    lowercase : bool, default=True
        Whether to convert texts to lower case.
    token_pattern : str, default=r"(?u)\b\w\w+\b"
        Regular expression of a token.
    format : str, default="auto"
        Format of the files, such as "jsonl". By default, the names and beginnings of the files decide.
    text : str, default="text"
        Column or field of the text. "article.body" is a field of a nested column or object.
    tokens : str, optional
        Column or field with a list of tokens, to be read instead of text.
    key : str, optional
        Column or field with the key of the document. By default, the key is ``file:row``.
    vocabulary_file : str, optional
        File with the words of the columns of docword, svmlight, LDA-C, MatrixMarket and .npz files, one per line.
    keys_file : str, optional
        File with the keys of the documents of MatrixMarket and .npz files, one per line.
    layer : str, optional
        Matrix of AnnData: "X" (the default), "raw/X", or a layer such as "layers/counts".
    names : {"id", "name"}, optional
        Names of the features of 10x Genomics. The default is "id". With "name", equal names get "-1", "-2" and so on.
    feature_type : str, optional
        Type of the features of 10x Genomics to keep, such as "Peaks". By default, all.
    transpose : bool, default=False
        Whether the columns of MatrixMarket and .npz files are the documents.
    delimiter : str, optional
        Character between the columns of CSV files. By default, a tab in .tsv and .tab files and a comma in others.
    quote : str, default='"'
        Character around fields of CSV files that hold delimiters or line ends. With "none", quotes are letters.
    escape : str, optional
        Character before a quote within a field of a CSV file, such as a backslash. By default, a second quote.
    columns : list of str, optional
        Names of the columns of CSV files without a header. By default, the first line has them.
    encoding : str, optional
        Encoding of text, JSONL and CSV files, such as "utf-16" or "cp1252". By default, UTF-8.
    binarize : bool, default=False
        Whether to read every count above 0 as 1.
    zero_based : bool, default=False
        Whether the columns of svmlight files count from 0.
    encoding_errors : {"strict", "replace"}, default="strict"
        Whether to refuse invalid UTF-8 or to replace it.
    null_text : {"error", "empty"}, default="error"
        Whether to refuse a row without text or to read an empty document.
    on_bad_line : {"error", "skip", "quarantine"}, default="error"
        What to do with a line of a JSONL, CSV or text file that cannot be read. "skip" leaves it out, and "quarantine"
        also writes it to ``bad-lines.jsonl`` in the corpus, with the reason.
    max_bad_lines : int or float, default=0.1
        More bad lines than this are an error in any case. An integer is a number, a float a share of all lines.
    keep : list of str, optional
        Columns or fields of the source that are stored with the documents, such as the date, the title and the author.
        `Corpus.documents` has them, with types, and so do the files that ``corpusmill transform`` writes.
    held_out : float, default=0.0
        Share of the documents to set aside for evaluation. A hash of a document's key decides. Without the option
        ``key``, that is the name of its file and its row, so a file that is renamed has other documents held out.
    chunk_tokens : int, optional
        Maximum number of tokens of a chunk. A longer document gets a chunk of its own. By default, a sixteenth
        of the corpus, but at least 2^19 (524,288) and at most 2^22 (4,194,304) tokens.
    overwrite : bool, default=False
        Whether to replace a corpus that was made from another source or with other options.

    Examples
    --------
    >>> from corpusmill import ingest
    >>> documents = [["one", "fish", "and", "two", "fish"], ["red", "fish", "and", "blue", "fish"]]
    >>> corpus = ingest(documents, "fish-only", stop_words="english", min_df=2)
    >>> corpus.vocabulary["word"].to_pylist()
    ['fish']
    """

    held_out: float = 0.0
    chunk_tokens: int | None = None
    overwrite: bool = False


def make_options(given: Mapping[str, Any]) -> IngestOptions:
    """Return options of these names and values.

    Raises TypeError for an unknown name and ValueError for an invalid value. Options that only some formats have are
    checked when the source is opened.
    """
    names = [field.name for field in fields(IngestOptions)]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r} of ingest; the options are {', '.join(names)}")
    return IngestOptions(**validated_options(given))


def ingest_options(config: "Config", overwrite: bool = False) -> IngestOptions:
    """Return the options of ingest from the sections ``source`` and ``corpus``; raise ValueError without a source."""
    if config.source is None:
        raise ValueError("source: nothing to ingest; set source.path, or use `corpusmill train` on an existing corpus")
    sections = config.source.model_dump() | config.corpus.model_dump()
    names = {field.name for field in fields(IngestOptions)}
    options = {key: value for key, value in sections.items() if key in names}
    if isinstance(options["stop_words"], list):
        options["stop_words"] = tuple(options["stop_words"])
    options["keep"] = tuple(options["keep"])
    options["columns"] = tuple(options["columns"])
    return IngestOptions(**options | {"overwrite": overwrite})


# --- what tasks have in common ---


def content_folder(digest: str) -> str:
    """Return the name of the folder of content that an ingest with this folder of work files writes."""
    return f"content-{digest}"


@dataclass(frozen=True)
class IngestJob:
    """An ingest as its tasks see it. Every task gets a copy, so it is small."""

    corpus: str  # URL of the corpus
    work: str  # folder of the work files, relative to the corpus
    options: IngestOptions
    n_buckets: int  # number of buckets in which words are merged, by their hash
    has_vocabulary: bool  # whether the caller gave a vocabulary
    grows: bool  # whether words that the given vocabulary lacks are added to it
    is_temporary: bool = False  # whether the corpus is deleted before this process ends

    @property
    def store(self) -> Store:
        """The corpus store."""
        return Store(self.corpus, is_durable=not self.is_temporary)

    @property
    def folder(self) -> str:
        """Name in the store of the folder of the corpus's content."""
        return content_folder(self.work.rpartition("/")[2])

    @property
    def content(self) -> Store:
        """The folder of the chunks and tables of the corpus that this ingest makes."""
        return self.store.child(self.folder)

    @property
    def files(self) -> Store:
        """The folder of the work files, which are deleted in the end."""
        return self.store.child(self.work)


class DocumentRange(NamedTuple):
    """Consecutive documents of one part of the corpus in one batch of a partition.

    Only the documents of that part are counted: a range of the part ``train`` skips held-out documents.
    """

    partition: int
    batch: int
    first: int
    stop: int


class PartitionCounts(TypedDict):
    """The sizes of a partition of the source, as `tasks.count_partition` found them."""

    documents: int
    counted: int  # documents that are not held out; only they count for the frequencies of words
    tokens: int
    words: int  # distinct words
    batches: int
    bad_lines: int
    odd: list[Odd]  # what is odd about rows that were read
    bad_example: str  # what is wrong with the first bad line; empty if there is none
    kept: list[Fits]  # for each kept column, how its values fit the kinds, see io.readers.kinds


class BucketCounts(TypedDict):
    """How many words of a bucket there are, and how many become part of the vocabulary; see `tasks.merge_bucket`."""

    words: int
    kept: int


class EncodedCounts(TypedDict):
    """The sizes of some partitions in words of the vocabulary, as `tasks.number_partitions` found them."""

    tokens: int
    unseen: int  # tokens whose words are not in the vocabulary
    longest: int  # tokens of the longest document
    empty: int  # documents without a token


class WrittenChunk(TypedDict):
    """What is known of a chunk of the corpus after `tasks.gather_chunk` has written it."""

    info: dict[str, int]  # the fields of ChunkInfo
    digest: str  # SHA-256 of the documents


# --- work files ---

# They are tables in Arrow's file format, which are mapped into memory if they are local files.


def write_table(store: Store, name: str, table: pa.Table, bounds: np.ndarray | None = None) -> None:
    """Write a table as one record batch.

    With ``bounds`` (B + 1,), write B record batches: batch b has the rows ``bounds[b]:bounds[b + 1]``.
    """
    table = table.combine_chunks()
    ends = [0, table.num_rows] if bounds is None else bounds.tolist()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        for first, stop in itertools.pairwise(ends):
            batches = table.slice(first, stop - first).to_batches()
            # An empty table has no batches, but readers count on one batch per pair of bounds.
            writer.write_batch(batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema))
    store.write_bytes(name, sink.getvalue())


def read_table(store: Store, name: str) -> pa.Table:
    """Read a whole table."""
    return _open_table(store, name).read_all()


def read_batch(store: Store, name: str, index: int) -> pa.Table:
    """Read the record batch ``index`` of a table, without the others."""
    return pa.Table.from_batches([_open_table(store, name).get_batch(index)])


def _open_table(store: Store, name: str) -> pa.ipc.RecordBatchFileReader:
    if store.is_local:
        source = pa.memory_map(store.where(name))
    else:
        source = pa.BufferReader(store.read_bytes(name))
    return pa.ipc.open_file(source)
