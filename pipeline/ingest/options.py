"""The options of an ingest."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ...configs.validation import validated_options
from ...io.readers.batches import ReadOptions
from ...io.text.tokens import TokenOptions
from ...io.text.vocabulary import VocabularyOptions

if TYPE_CHECKING:
    from ...configs.schema import Config


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
