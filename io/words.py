r"""The words of documents: tokens, and vocabularies, whose counts are merged in bounded memory, pruned and ranked.

The meaning of the options is that of scikit-learn's CountVectorizer. Most patterns, such as the default, match runs of
characters of one class. `character_run` finds them, and ingest splits such texts by a compiled kernel instead, with the
same result as `tokenise`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .errors import DataError
from .messages import listed
from .readers.batches import Bag, Batch

#: Ids are 32 bits wide.
MAX_WORDS = 1 << 32
#: The columns of a vocabulary other than ``word``.
FREQUENCIES = ("term_frequency", "document_frequency")
#: The default of scikit-learn: words of two or more letters, digits or underscores.
TOKEN_PATTERN = r"(?u)\b\w\w+\b"
#: Largest column number up to which the columns of a bag are counted in an array, not sorted.
MAX_COUNTED_COLUMN = 1 << 24

#: Patterns of words: \w+, \w\w+ and so on, maybe between word boundaries.
_WORD_PATTERN = re.compile(r"(?:\(\?u\))?(?:\\b)?((?:\\w)+)\+(?:\\b)?")
#: Patterns of runs of another class: \S+, [a-z]+, [a-z]{3,}.
_RUN_PATTERN = re.compile(r"(?:\(\?u\))?(\\w|\\S|\[[^\]\\\[]+\])(?:\+|\{(\d+),\})")
#: English words that carry no topic: those of the Glasgow Information Retrieval Group, as scikit-learn has them.
_STOP_WORDS = """
a about above across after afterwards again against all almost alone along already also although always am among
amongst amoungst amount an and another any anyhow anyone anything anyway anywhere are around as at back be became
because become becomes becoming been before beforehand behind being below beside besides between beyond bill both
bottom but by call can cannot cant co con could couldnt cry de describe detail do done down due during each eg eight
either eleven else elsewhere empty enough etc even ever every everyone everything everywhere except few fifteen
fifty fill find fire first five for former formerly forty found four from front full further get give go had has
hasnt have he hence her here hereafter hereby herein hereupon hers herself him himself his how however hundred i ie
if in inc indeed interest into is it its itself keep last latter latterly least less ltd made many may me meanwhile
might mill mine more moreover most mostly move much must my myself name namely neither never nevertheless next nine
no nobody none noone nor not nothing now nowhere of off often on once one only onto or other others otherwise our
ours ourselves out over own part per perhaps please put rather re same see seem seemed seeming seems serious several
she should show side since sincere six sixty so some somehow someone something sometime sometimes somewhere still
such system take ten than that the their them themselves then thence there thereafter thereby therefore therein
thereupon these they thick thin third this those though three through throughout thru thus to together too top
toward towards twelve twenty two un under until up upon us very via was we well were what whatever when whence
whenever where whereafter whereas whereby wherein whereupon wherever whether which while whither who whoever whole
whom whose why will with within without would yet you your yours yourself yourselves
"""

#: The parts of contractions, as in NLTK's list: the default tokens of "don't" are "don". "won" is a word of its own.
_CONTRACTIONS = """
ain aren couldn didn doesn don hadn hasn haven isn ll mightn mustn needn shan shouldn ve wasn weren wouldn
"""

ENGLISH = frozenset((_STOP_WORDS + _CONTRACTIONS).split())


@dataclass(frozen=True)
class TokenOptions:
    """How text is split into tokens. Names and meanings are those of scikit-learn's CountVectorizer."""

    lowercase: bool = True
    token_pattern: str = TOKEN_PATTERN


class Tokens(NamedTuple):
    """Documents as numbers of words. D documents, T tokens, W distinct words in any order."""

    doc_ptr: np.ndarray  # (D + 1,) int64
    ids: np.ndarray  # (T,) int32: index in ``words``
    words: pa.Array  # (W,) large_string


class CharacterRun(NamedTuple):
    """Tokens that are maximal runs of characters of one class."""

    character_class: str  # a regular expression for one character
    min_length: int


def tokenise(batch: Batch, options: TokenOptions) -> Tokens:
    """Return the tokens of a batch of texts, token lists or counted words; raise ValueError for a bad pattern."""
    if isinstance(batch.content, Bag):
        return _split_bag(batch.content)
    if pa.types.is_large_list(batch.content.type):
        return _split_lists(batch.content)
    return _split_by_pattern(batch.content, options)


def character_run(pattern: str) -> CharacterRun | None:
    r"""Return what a pattern such as \w+ matches if it matches maximal runs of one class, else None.

    Raises ValueError for a bad pattern.
    """
    _compiled(pattern)
    words = _WORD_PATTERN.fullmatch(pattern)
    if words:
        return CharacterRun(r"\w", words[1].count("w"))
    run = _RUN_PATTERN.fullmatch(pattern)
    if run is None or run[2] == "0":
        return None
    return CharacterRun(run[1], int(run[2] or 1))


# --- lists, bags, and any pattern ---


def _split_lists(lists: pa.Array) -> Tokens:
    # Arrow numbers distinct words in the order of their first occurrence.
    encoded = lists.flatten().cast(pa.large_string()).dictionary_encode()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    doc_ptr = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return Tokens(doc_ptr, encoded.indices.to_numpy(), encoded.dictionary)


def _split_bag(bag: Bag) -> Tokens:
    # An array with one element per possible column is faster than sorting, unless columns are hashes.
    if int(bag.columns.max(initial=0)) > MAX_COUNTED_COLUMN:
        present, ids = np.unique(bag.columns, return_inverse=True)
    else:
        is_present = np.bincount(bag.columns) > 0
        present = np.flatnonzero(is_present)
        ids = (np.cumsum(is_present) - 1)[bag.columns]
    if bag.names is None:
        names = pa.array(present).cast(pa.string())
    else:
        names = bag.names.take(pa.array(present))
    return Tokens(bag.doc_ptr, ids.astype(np.int32), names.cast(pa.large_string()))


def _split_by_pattern(texts: pa.Array, options: TokenOptions) -> Tokens:
    # findall returns the group of a pattern with one group, and the whole match otherwise, as scikit-learn does.
    pattern = _compiled(options.token_pattern)
    lists = []
    for text in texts.to_pylist():
        lists.append(pattern.findall(text.lower() if options.lowercase else text))
    return _split_lists(pa.array(lists, pa.large_list(pa.large_string())))


def _compiled(token_pattern: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(token_pattern)
    except re.error as error:
        raise ValueError(f"token_pattern={token_pattern!r} is not a regular expression: {error}") from None
    if pattern.search("") is not None:
        raise ValueError(
            f"token_pattern={token_pattern!r} also matches nothing, so the empty word would be everywhere; write + in "
            f"place of *"
        )
    if pattern.groups > 1:
        raise ValueError(f"token_pattern={token_pattern!r} has {pattern.groups} groups; at most one is allowed")
    return pattern


@dataclass(frozen=True)
class VocabularyOptions:
    """Which words are kept. Names and meanings are scikit-learn's: a float is a share of the documents."""

    stop_words: str | tuple[str, ...] | None = None  # "english" or a list
    min_df: int | float = 1
    max_df: int | float = 1.0
    max_features: int | None = None


def count_table(words: pa.Array, term_frequency: np.ndarray, document_frequency: np.ndarray) -> pa.Table:
    """Return a count table, with the columns word, term_frequency and document_frequency."""
    return pa.table(
        {
            "word": words,
            "term_frequency": np.asarray(term_frequency, np.int64),
            "document_frequency": np.asarray(document_frequency, np.int64),
        }
    )


class WordCounts:
    """Words and their frequencies. Words are numbered in the order in which they were first added."""

    def __init__(self) -> None:
        self.words = pa.array([], pa.large_string())
        self.term_frequency = np.empty(0, np.int64)
        self.document_frequency = np.empty(0, np.int64)

    def add(self, words: pa.Array, term_frequency: np.ndarray, document_frequency: np.ndarray) -> np.ndarray:
        """Add the frequencies of n words, which may have been added before; return their numbers: (n,) int32."""
        encoded = pa.concat_arrays([self.words, words]).dictionary_encode()
        numbers = encoded.indices.to_numpy()[len(self.words) :]
        self.words = encoded.dictionary
        self.term_frequency = _grown(self.term_frequency, numbers, term_frequency, len(self.words))
        self.document_frequency = _grown(self.document_frequency, numbers, document_frequency, len(self.words))
        return numbers

    def table(self) -> pa.Table:
        """Return the count table, in the order of the numbers."""
        return count_table(self.words, self.term_frequency, self.document_frequency)


def _grown(counts: np.ndarray, numbers: np.ndarray, added: np.ndarray, size: int) -> np.ndarray:
    """Return the counts, extended to ``size`` words, with ``added`` added at ``numbers``."""
    grown = np.zeros(size, np.int64)
    grown[: len(counts)] = counts
    np.add.at(grown, numbers, added)
    return grown


def hash_buckets(words: pa.Array, n_buckets: int) -> np.ndarray:
    """Assign each word to a bucket by a hash of its bytes, the same on every machine: (W,) int64."""
    if n_buckets == 1 or not len(words):
        return np.zeros(len(words), np.int64)
    # Concatenation copies a slice to buffers of its own, so that offsets begin at 0.
    words = pa.concat_arrays([words.cast(pa.large_string())])
    _, offset_buffer, data_buffer = words.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[: len(words) + 1]
    data = np.frombuffer(data_buffer, np.uint8)[: offsets[-1]].astype(np.uint64)
    # Each byte is multiplied by a factor that depends on its position in the word, so that anagrams differ.
    positions = (np.arange(len(data)) - np.repeat(offsets[:-1], np.diff(offsets))).astype(np.uint64)
    factors = positions * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03)
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum((data + np.uint64(1)) * factors, out=sums[1:])
    hashes = sums[offsets[1:]] - sums[offsets[:-1]]
    # The finaliser of MurmurHash3 spreads the sums over all bits.
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(factor)
    return ((hashes >> np.uint64(33)) % np.uint64(n_buckets)).astype(np.int64)


def merge_counts(tables: Iterable[pa.Table], max_bytes: int) -> pa.Table:
    """Add up count tables. Up to ``max_bytes`` bytes of tables are collected, and then added in one pass."""
    counts = WordCounts()
    collected: list[pa.Table] = []
    size = 0
    for table in tables:
        collected.append(table)
        size += table.nbytes
        # Each addition is a pass over all words so far. So collect about as many bytes as these words take.
        if size > min(max_bytes, max(1 << 20, counts.words.nbytes)):
            _add_tables(counts, collected)
            collected = []
            size = 0
    _add_tables(counts, collected)
    return counts.table()


def _add_tables(counts: WordCounts, tables: list[pa.Table]) -> None:
    if not tables:
        return
    joined = pa.concat_tables(tables)
    counts.add(words_of(joined), *(joined[name].to_numpy() for name in FREQUENCIES))


def check_limits(options: VocabularyOptions, documents: int) -> None:
    """Raise ValueError if max_df allows fewer of the ``documents`` documents than min_df requires."""
    least = _in_documents(options.min_df, documents)
    most = _in_documents(options.max_df, documents)
    if most < least and documents:
        raise ValueError(
            f"max_df={options.max_df} allows at most {most:g} of {documents} documents, which is less than the "
            f"{least:g} that min_df={options.min_df} requires; lower min_df or raise max_df"
        )


def prune(counts: pa.Table, options: VocabularyOptions, documents: int) -> pa.Table:
    """Keep the words that min_df, max_df and stop_words allow. ``documents`` is the number of documents counted."""
    # Held-out documents are not counted. Words that occur only in them have frequency 0, and are never kept.
    least = max(1, _in_documents(options.min_df, documents))
    most = _in_documents(options.max_df, documents)
    document_frequency = counts["document_frequency"]
    is_kept = pc.and_(pc.greater_equal(document_frequency, least), pc.less_equal(document_frequency, most))
    stop_words = stop_list(options.stop_words)
    if stop_words:
        is_stop_word = pc.is_in(counts["word"], pa.array(stop_words, pa.large_string()))
        is_kept = pc.and_(is_kept, pc.invert(is_stop_word))
    return counts.filter(is_kept)


def _in_documents(limit: int | float, documents: int) -> float:
    """Return min_df or max_df as a number of documents: an integer is one already, a float is a share."""
    return int(limit) if isinstance(limit, Integral) else limit * documents


def stop_list(stop_words: str | tuple[str, ...] | None) -> list[str]:
    """Return the words of "english", or the list itself; raise ValueError for another name."""
    if stop_words is None:
        return []
    if isinstance(stop_words, str):
        if stop_words != "english":
            raise ValueError(f"stop_words is {stop_words!r}, but must be 'english', a list of words, or None")
        return sorted(ENGLISH)
    return list(stop_words)


def describe_other_cases(stop_words: str | tuple[str, ...] | None, vocabulary: pa.Table) -> str:
    """Say which words of a vocabulary differ from a stop word in their case only; an empty string if there is none."""
    given = set(stop_list(stop_words))
    others = sorted({other for word in given for other in (word.lower(), word.upper(), word.capitalize())} - given)
    left = [other for other, word_id in zip(others, find_word_ids(others, vocabulary), strict=True) if word_id >= 0]
    if not left:
        return ""
    return (
        f"words that differ from stop_words in their case only are kept: {listed(left)}; write stop words in the case "
        f"of the corpus"
    )


def describe_blank_words(vocabulary: pa.Table) -> str:
    """Say which words of a vocabulary are empty or only white space; an empty string if none is."""
    is_blank = pc.equal(pc.utf8_trim_whitespace(vocabulary["word"]), "")
    blank = vocabulary.filter(is_blank)
    if not blank.num_rows:
        return ""
    n_tokens = pc.sum(blank["term_frequency"]).as_py()
    return (
        f"{n_tokens:,} tokens are blank words ({listed(blank['word'].to_pylist())}); leave them out with "
        f"stop_words, or before"
    )


def rank(counts: pa.Table, max_features: int | None = None) -> pa.Table:
    """Sort words by descending term frequency, then by word; a row's number is its id. Keep up to ``max_features``."""
    check_size(counts.num_rows)
    order = pc.sort_indices(counts, sort_keys=[("term_frequency", "descending"), ("word", "ascending")])
    if max_features is not None:
        order = order[:max_features]
    return counts.take(order).combine_chunks()


def check_size(n_words: int) -> None:
    """Raise DataError for a vocabulary whose ids do not fit into 32 bits."""
    if n_words > MAX_WORDS:
        raise DataError(f"{n_words:,} words are more than the limit of {MAX_WORDS:,}: raise min_df")


def words_of(table: pa.Table) -> pa.Array:
    """Return the column ``word`` as one array (W,) of large_string."""
    return table["word"].cast(pa.large_string()).combine_chunks()


def count_given(given: pa.Table, counts: pa.Table) -> pa.Table:
    """Return the given words in the same order, with their frequencies in ``counts``, or 0 if they are not in it.

    All words of ``counts`` must be among the given ones.
    """
    ids = find_word_ids(counts["word"], given)
    columns = []
    for name in FREQUENCIES:
        column = np.zeros(given.num_rows, np.int64)
        column[ids] = counts[name].to_numpy()
        columns.append(column)
    return count_table(words_of(given), *columns)


def extend(given: pa.Table, counts: pa.Table, max_features: int | None = None) -> pa.Table:
    """Return the given words, which keep their ids, followed by the other words of ``counts`` in the order of `rank`.

    All frequencies come from ``counts``. ``max_features`` limits the total, but given words are never dropped.
    """
    # Only words that are not given compete for the places that max_features leaves.
    is_given = pc.is_in(counts["word"], words_of(given))
    max_others = None
    if max_features is not None:
        max_others = max(0, max_features - given.num_rows)
    others = rank(counts.filter(pc.invert(is_given)), max_others)
    extended = pa.concat_tables([count_given(given, counts.filter(is_given)), others])
    check_size(extended.num_rows)
    return extended.combine_chunks()


def find_word_ids(words: pa.Array | pa.ChunkedArray | Sequence[str], vocabulary: pa.Table) -> np.ndarray:
    """Return the id of each word in a vocabulary: (W,) int64, -1 for a word that the vocabulary does not have."""
    if not isinstance(words, pa.Array | pa.ChunkedArray):
        words = pa.array(words, pa.large_string())
    words = words_of(pa.table({"word": words}))
    known = words_of(vocabulary)
    if len(words) > len(known):
        return _positions(words, known)
    # Arrow hashes the words that it looks others up in. So it gets the few given ones, not the whole vocabulary.
    encoded = words.dictionary_encode("encode")
    positions = _positions(known, encoded.dictionary)
    ids = np.full(len(encoded.dictionary), -1)
    ids[positions[positions >= 0]] = np.flatnonzero(positions >= 0)
    return ids[encoded.indices.to_numpy()]


def _positions(words: pa.Array, distinct: pa.Array) -> np.ndarray:
    """Return the position of each word in an array of different words: (W,) int64, -1 for a word that it lacks."""
    return pc.fill_null(pc.index_in(words, distinct), -1).to_numpy().astype(np.int64)


class MergedVocabulary(NamedTuple):
    """The words of an older and of a newer vocabulary together. V words in all."""

    table: pa.Table  # (V,) rows: word, term_frequency, document_frequency
    only_in_old: np.ndarray  # (n,) int64: rows of the older vocabulary that became the last n rows of ``table``


def merge_vocabularies(new: pa.Table, old: pa.Table) -> MergedVocabulary:
    """Merge the vocabulary of a model that was trained further with that of the model it started from.

    Words of ``new`` keep their ids. Words that only ``old`` has follow, in the order of ``old``. Frequencies of words
    in both add up. Both tables have the columns word, term_frequency and document_frequency.
    """
    # -1 for words that only the older vocabulary has. They get the ids after those of the new words.
    ids = find_word_ids(old["word"], new)
    only_in_old = np.flatnonzero(ids < 0)
    ids[only_in_old] = new.num_rows + np.arange(len(only_in_old))
    words = pa.concat_arrays([words_of(new), words_of(old).take(pa.array(only_in_old))])
    columns = []
    for name in FREQUENCIES:
        column = np.zeros(len(words), np.int64)
        column[: new.num_rows] = new[name].to_numpy()
        column[ids] += old[name].to_numpy()
        columns.append(column)
    return MergedVocabulary(count_table(words, *columns), only_in_old)


def translate_words(doc_ptr: np.ndarray, numbers: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Replace numbers of words by ids, and drop tokens without an id: doc_ptr (D + 1,) int64 and words (n,) uint32.

    ``ids`` (W,) int64 has the id of each number, or -1. The numbers may be those of a partition, or the ids that the
    words have in another vocabulary.
    """
    words = ids[numbers]
    is_kept = words >= 0
    if is_kept.all():
        return doc_ptr, words.astype(np.uint32)
    tokens_before = np.append(0, np.cumsum(is_kept))
    return tokens_before[doc_ptr], words[is_kept].astype(np.uint32)
