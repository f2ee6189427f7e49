"""Text to tokens: the words that scikit-learn's CountVectorizer would find, a whole batch at a time.

A pattern that asks for runs of characters of one class (the default is one) needs no regular expression: the bytes of
the batch are looked up in a table and cut where the class begins and ends.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..readers.batches import Bag, Batch

#: scikit-learn's default: words of two or more letters, digits or underscores.
TOKEN_PATTERN = r"(?u)\b\w\w+\b"

_WORDS = re.compile(r"(?:\(\?u\))?(?:\\b)?((?:\\w)+)\+(?:\\b)?")
_RUN = re.compile(r"(?:\(\?u\))?(\\w|\\S|\[[^\]\\\[]+\])(?:\+|\{(\d+),\})")


@dataclass(frozen=True)
class TokenOptions:
    """How text becomes tokens, with scikit-learn's names and meanings."""

    lowercase: bool = True
    token_pattern: str = TOKEN_PATTERN


class Tokens(NamedTuple):
    """Documents as numbers of words. D documents, T tokens, W distinct words in order of first occurrence."""

    doc_ptr: np.ndarray  # (D + 1,) int64
    ids: np.ndarray  # (T,) int32: rows of ``words``
    words: pa.Array  # (W,) large_string


def tokenise(batch: Batch, options: TokenOptions) -> Tokens:
    """Return a batch's tokens, whatever its content; raise ValueError for a bad token_pattern."""
    if isinstance(batch.content, Bag):
        return _from_bag(batch.content)
    if pa.types.is_large_list(batch.content.type):
        return _from_lists(batch.content)
    run = character_run(options.token_pattern)
    # Cutting fills gaps with zero bytes, so text that contains zero bytes is left to the regular expression.
    if run is None or not _buffers(batch.content)[1].all():
        return _by_pattern(batch.content, options)
    return _by_run(batch.content, options, *run)


def character_run(pattern: str) -> tuple[str, int] | None:
    """Return (class of characters, least length) when the pattern means maximal runs of one class, else None."""
    if match := _WORDS.fullmatch(pattern):
        return r"\w", len(match[1]) // 2
    match = _RUN.fullmatch(pattern)
    return (match[1], int(match[2] or 1)) if match and match[2] != "0" else None


def _from_lists(lists: pa.Array) -> Tokens:
    encoded = lists.flatten().cast(pa.large_string()).dictionary_encode()
    offsets = np.r_[0, np.cumsum(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False))]
    return Tokens(offsets.astype(np.int64), encoded.indices.to_numpy(), encoded.dictionary)


def _from_bag(bag: Bag) -> Tokens:
    if int(bag.columns.max(initial=0)) > 1 << 24:  # hashed columns: too many to count each
        present, ids = np.unique(bag.columns, return_inverse=True)
    else:
        is_present = np.bincount(bag.columns) > 0
        present, ids = np.flatnonzero(is_present), (np.cumsum(is_present) - 1)[bag.columns]
    ids = ids.astype(np.int32)
    names = pa.array(present).cast(pa.string()) if bag.names is None else bag.names.take(pa.array(present))
    return Tokens(bag.doc_ptr, ids, names.cast(pa.large_string()))


def _by_pattern(texts: pa.Array, options: TokenOptions) -> Tokens:
    pattern = _compiled(options.token_pattern)
    lists = [pattern.findall(t.lower() if options.lowercase else t) for t in texts.to_pylist()]
    return _from_lists(pa.array(lists, pa.large_list(pa.large_string())))


def _compiled(token_pattern: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(token_pattern)
    except re.error as error:
        raise ValueError(f"token_pattern {token_pattern!r} is no regular expression: {error}") from None
    if pattern.groups > 1:
        raise ValueError(f"token_pattern {token_pattern!r} has {pattern.groups} groups: it may have one")
    return pattern


def _by_run(texts: pa.Array, options: TokenOptions, members: str, least: int) -> Tokens:
    """Cut where the class begins: each word carries the zero bytes up to the next one until it is looked up."""
    doc_ptr, data = _buffers(texts)
    others = np.flatnonzero(data >= 0x80)
    codes, widths = _characters(data, others)
    used = np.flatnonzero(np.bincount(codes))
    if options.lowercase and any(chr(code).lower() != chr(code) for code in used):
        # Python's rules for capitals outside ASCII (final sigma, dotted I) are scikit-learn's.
        lowered = pa.array([t.lower() for t in texts.to_pylist()], pa.large_string())
        return _by_run(lowered, replace(options, lowercase=False), members, least)
    kept = np.frombuffer(data.tobytes().translate(_byte_table(members, options.lowercase)), np.uint8)
    if len(others):
        is_member = np.zeros(used[-1] + 1, bool)
        is_member[used] = [re.match(members, chr(code)) is not None for code in used]
        kept = kept.copy()
        kept[others] = np.where(np.repeat(is_member[codes], widths), data[others], 0)
    starts = _starts(kept != 0, doc_ptr)
    offsets = np.append(starts, len(kept)).astype(np.int64)
    padded = pa.LargeStringArray.from_buffers(
        len(starts), pa.py_buffer(offsets), pa.py_buffer(kept)
    ).dictionary_encode()
    words = pc.ascii_rtrim(padded.dictionary, "\0").dictionary_encode()
    tokens = Tokens(np.searchsorted(starts, doc_ptr), padded.indices.to_numpy(), padded.dictionary)
    return _only_long(tokens, words, least)


def _only_long(tokens: Tokens, words: pa.Array, least: int) -> Tokens:
    """Replace the tokens' words by ``words``, their stripped forms, those below ``least`` characters left out."""
    is_long = pc.greater_equal(pc.utf8_length(words.dictionary), least).to_numpy(zero_copy_only=False)
    numbers = np.where(is_long, np.cumsum(is_long) - 1, -1).astype(np.int32)
    ids = numbers[words.indices.to_numpy()][tokens.ids]
    kept = ids >= 0
    before = np.r_[0, np.cumsum(kept)]
    return Tokens(before[tokens.doc_ptr], ids[kept], words.dictionary.filter(pa.array(is_long)))


def _starts(inside: np.ndarray, doc_ptr: np.ndarray) -> np.ndarray:
    """Return where runs of True begin; a run never crosses from one document into the next."""
    begins = inside.copy()
    np.greater(inside[1:], inside[:-1], out=begins[1:])
    heads = doc_ptr[:-1][doc_ptr[:-1] < len(inside)]
    begins[heads] = inside[heads]
    return np.flatnonzero(begins)


def _buffers(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets (D + 1,) int64 and bytes (uint8) of a large_string array without nulls."""
    _, offsets, data = texts.buffers()
    ptr = (
        np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        if len(texts)
        else np.zeros(1, int)
    )
    body = np.frombuffer(data, np.uint8)[ptr[0] : ptr[-1]] if data is not None else np.empty(0, np.uint8)
    return ptr - ptr[0], body


@lru_cache(maxsize=8)
def _byte_table(members: str, lowercase: bool) -> bytes:
    """What each byte becomes: 0 where it is not in the class or not ASCII."""
    characters = [chr(code).lower() if lowercase else chr(code) for code in range(128)]
    return bytes(ord(c) if re.fullmatch(members, c) else 0 for c in characters) + bytes(128)


def _characters(data: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the code points of characters outside ASCII (their bytes are at ``others``), and the bytes of each."""
    leads = others[data[others] >= 0xC0]
    first = data[leads].astype(np.uint32)
    following = 1 + (first >= 0xE0) + (first >= 0xF0)
    codes = first & np.array([0, 0x1F, 0x0F, 0x07], np.uint32)[following]
    for step in range(1, 4):
        byte = data[np.minimum(leads + step, len(data) - 1)] & 0x3F
        codes = np.where(following >= step, (codes << 6) | byte, codes)
    return codes, following + 1
