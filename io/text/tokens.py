r"""Split text into tokens, a batch of documents at a time, as scikit-learn's CountVectorizer does.

Most patterns, such as the default, match runs of characters of one class. They need no regular expression. Take the
texts "The cat." and "The hat", of which Arrow stores the bytes one after another, and write 0 for the byte 0::

    bytes               T h e   c a t . T h e   h a t
    1. lower, class     t h e 0 c a t 0 t h e 0 h a t     bytes outside the class become 0
    2. starts           ^       ^       ^       ^         a byte that is not 0 after one that is, or in a new document
    3. padded words     the0    cat0    the0    hat       cut at the starts
    4. words            the     cat             hat       distinct ones only, without padding

All steps work on whole arrays. Arrow finds the distinct padded words, and only these are stripped and measured.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..readers.batches import Bag, Batch

#: The default of scikit-learn: words of two or more letters, digits or underscores.
TOKEN_PATTERN = r"(?u)\b\w\w+\b"
#: Largest column number up to which the columns of a bag are counted in an array, not sorted.
MAX_COUNTED_COLUMN = 1 << 24

#: Patterns of words: \w+, \w\w+ and so on, maybe between word boundaries.
_WORD_PATTERN = re.compile(r"(?:\(\?u\))?(?:\\b)?((?:\\w)+)\+(?:\\b)?")
#: Patterns of runs of another class: \S+, [a-z]+, [a-z]{3,}.
_RUN_PATTERN = re.compile(r"(?:\(\?u\))?(\\w|\\S|\[[^\]\\\[]+\])(?:\+|\{(\d+),\})")


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
    run = character_run(options.token_pattern)
    # Gaps between words become zero bytes, so a text that contains zero bytes itself needs the regular expression.
    if run is None or not _buffers(batch.content)[1].all():
        return _split_by_pattern(batch.content, options)
    return _split_by_run(batch.content, options.lowercase, run)


def character_run(pattern: str) -> CharacterRun | None:
    r"""Return what a pattern such as \w+ matches if it matches maximal runs of one class, else None."""
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
    if pattern.groups > 1:
        raise ValueError(f"token_pattern={token_pattern!r} has {pattern.groups} groups; at most one is allowed")
    return pattern


# --- runs of characters of one class ---


class _WideCharacters(NamedTuple):
    """The characters outside ASCII of a text. N characters of M bytes."""

    byte_positions: np.ndarray  # (M,): where their bytes are
    codes: np.ndarray  # (N,) uint32: code points
    widths: np.ndarray  # (N,): bytes of each character


def _split_by_run(texts: pa.Array, lowercase: bool, run: CharacterRun) -> Tokens:
    """Split texts without zero bytes as in the docstring of this module."""
    # All documents are one array of bytes from here on, and doc_ptr says where each begins.
    doc_ptr, data = _buffers(texts)
    wide = _wide_characters(data)
    used_codes = np.flatnonzero(np.bincount(wide.codes))
    if lowercase and any(chr(code).lower() != chr(code) for code in used_codes):
        # The byte table lowers ASCII only. Python has the rules for other capitals, such as the final sigma.
        lowered = pa.array([text.lower() for text in texts.to_pylist()], pa.large_string())
        return _split_by_run(lowered, False, run)
    kept = _zero_outside_class(data, wide, used_codes, run.character_class, lowercase)
    starts = _word_starts(kept != 0, doc_ptr)
    offsets = np.append(starts, len(kept)).astype(np.int64)
    padded_words = pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(kept))
    encoded = padded_words.dictionary_encode()
    tokens = Tokens(np.searchsorted(starts, doc_ptr), encoded.indices.to_numpy(), encoded.dictionary)
    return _strip_padding(tokens, run.min_length)


def _zero_outside_class(
    data: np.ndarray, wide: _WideCharacters, used_codes: np.ndarray, character_class: str, lowercase: bool
) -> np.ndarray:
    """Return the bytes of a text in lower case, with 0 for those of characters that are not in the class."""
    kept = np.frombuffer(data.tobytes().translate(_byte_table(character_class, lowercase)), np.uint8)
    if not len(wide.codes):
        return kept
    is_member = np.zeros(used_codes[-1] + 1, bool)
    is_member[used_codes] = [re.match(character_class, chr(code)) is not None for code in used_codes]
    kept = kept.copy()  # the buffer of bytes is read-only
    is_kept = np.repeat(is_member[wide.codes], wide.widths)
    kept[wide.byte_positions] = np.where(is_kept, data[wide.byte_positions], 0)
    return kept


def _word_starts(is_inside: np.ndarray, doc_ptr: np.ndarray) -> np.ndarray:
    """Return where runs of True begin. A run never continues from one document into the next."""
    is_start = is_inside.copy()
    np.greater(is_inside[1:], is_inside[:-1], out=is_start[1:])
    first_bytes = doc_ptr[:-1][doc_ptr[:-1] < len(is_inside)]
    is_start[first_bytes] = is_inside[first_bytes]
    return np.flatnonzero(is_start)


def _strip_padding(tokens: Tokens, min_length: int) -> Tokens:
    """Remove the zero bytes after the words, and the words of fewer than ``min_length`` characters."""
    # Words that differ only in padding become one word.
    words = pc.ascii_rtrim(tokens.words, "\0").dictionary_encode()
    is_long = pc.greater_equal(pc.utf8_length(words.dictionary), min_length).to_numpy(zero_copy_only=False)
    new_ids = np.where(is_long, np.cumsum(is_long) - 1, -1).astype(np.int32)
    ids = new_ids[words.indices.to_numpy()][tokens.ids]
    is_kept = ids >= 0
    tokens_before = np.append(0, np.cumsum(is_kept))
    return Tokens(tokens_before[tokens.doc_ptr], ids[is_kept], words.dictionary.filter(pa.array(is_long)))


def _buffers(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets (D + 1,) int64 and bytes (uint8) of a large_string array without nulls."""
    if not len(texts):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, offset_buffer, data_buffer = texts.buffers()
    # An array may be a slice of its buffers.
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data_buffer is None:
        return offsets - offsets[0], np.empty(0, np.uint8)
    return offsets - offsets[0], np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]


@lru_cache(maxsize=8)
def _byte_table(character_class: str, lowercase: bool) -> bytes:
    """Return what each of the 256 byte values becomes: 0 if it is not in the class or not ASCII."""
    table = bytearray(256)
    for code in range(128):
        character = chr(code).lower() if lowercase else chr(code)
        if re.fullmatch(character_class, character):
            table[code] = ord(character)
    return bytes(table)


def _wide_characters(data: np.ndarray) -> _WideCharacters:
    """Decode the characters outside ASCII of a UTF-8 text."""
    positions = np.flatnonzero(data >= 0x80)
    # A character begins with a lead byte. It gives the number of bytes after it. Each has six bits of the code point.
    leads = positions[data[positions] >= 0xC0]
    lead_bytes = data[leads].astype(np.uint32)
    n_following = 1 + (lead_bytes >= 0xE0) + (lead_bytes >= 0xF0)
    codes = lead_bytes & np.array([0, 0x1F, 0x0F, 0x07], np.uint32)[n_following]
    for step in range(1, 4):
        bits = data[np.minimum(leads + step, len(data) - 1)] & 0x3F
        codes = np.where(n_following >= step, (codes << 6) | bits, codes)
    return _WideCharacters(positions, codes, n_following + 1)
