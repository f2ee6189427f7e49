"""Text to tokens: the words that scikit-learn's CountVectorizer would find, a whole batch at a time.

A pattern that asks for runs of characters of one class (the default is one) needs no regular expression: the bytes of
the batch are looked up in a table and cut where the class begins and ends.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .source import Bag, Batch

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
    run = run_of(options.token_pattern)
    if run is None:
        return _by_pattern(batch.content, options)
    return _by_run(batch.content, options, *run)


def run_of(pattern: str) -> tuple[str, int] | None:
    """Return (class of characters, least length) when the pattern means maximal runs of one class, else None."""
    if match := _WORDS.fullmatch(pattern):
        return r"\w", len(match[1]) // 2
    match = _RUN.fullmatch(pattern)
    # A zero byte stands for "not in the class" below, so a class that contains it is left to the regular expression.
    if match is None or re.match(match[1], "\0") or match[2] == "0":
        return None
    return match[1], int(match[2] or 1)


def _from_lists(lists: pa.Array) -> Tokens:
    encoded = lists.flatten().cast(pa.large_string()).dictionary_encode()
    offsets = np.r_[0, np.cumsum(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False))]
    return Tokens(offsets.astype(np.int64), encoded.indices.to_numpy(), encoded.dictionary)


def _from_bag(bag: Bag) -> Tokens:
    present = np.flatnonzero(np.bincount(bag.columns)) if len(bag.columns) else np.empty(0, np.int64)
    ids = np.searchsorted(present, bag.columns).astype(np.int32)
    names = pa.array(present).cast(pa.string()) if bag.names is None else bag.names.take(pa.array(present))
    return Tokens(bag.doc_ptr, ids, names.cast(pa.large_string()))


def _by_pattern(texts: pa.Array, options: TokenOptions) -> Tokens:
    pattern = re.compile(options.token_pattern)
    if pattern.groups > 1:
        raise ValueError(f"token_pattern {options.token_pattern!r} has {pattern.groups} groups: it may have one")
    lists = [pattern.findall(t.lower() if options.lowercase else t) for t in texts.to_pylist()]
    return _from_lists(pa.array(lists, pa.large_list(pa.large_string())))


def _by_run(texts: pa.Array, options: TokenOptions, members: str, least: int) -> Tokens:
    if options.lowercase and not _is_ascii(texts):
        # Python's rules for capitals outside ASCII (final sigma, dotted I) are scikit-learn's.
        texts = pa.array([t if t.isascii() else t.lower() for t in texts.to_pylist()], pa.large_string())
    doc_ptr, data = _buffers(texts)
    kept = _byte_table(members, options.lowercase)[data]
    inside = kept != 0
    lead = data >= 0x80
    if lead.any():
        _classify(data, np.flatnonzero(lead), members, inside, kept)
    starts, stops = _runs(inside, doc_ptr)
    lengths = stops - starts
    characters = lengths
    if least > 1 and lead.any():
        continuing = np.r_[0, np.cumsum((data & 0xC0) == 0x80)]
        characters = lengths - (continuing[stops] - continuing[starts])
    long_enough = characters >= least
    if not long_enough.all():
        # Runs too short are cleared, so that the rest can be pushed together in one pass.
        for offset in range(int(lengths[~long_enough].max())):
            short = starts[~long_enough & (lengths > offset)] + offset
            inside[short] = False
        starts, lengths = starts[long_enough], lengths[long_enough]
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    words = pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(kept[inside]))
    encoded = words.dictionary_encode()
    return Tokens(np.searchsorted(starts, doc_ptr), encoded.indices.to_numpy(), encoded.dictionary)


def _is_ascii(texts: pa.Array) -> bool:
    _, data = _buffers(texts)
    return not len(data) or int(data.max()) < 0x80


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


def _runs(inside: np.ndarray, doc_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where runs of True start and stop; a run never crosses from one document into the next."""
    if not len(inside):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    change = np.empty(len(inside) + 1, bool)
    change[0], change[-1] = inside[0], inside[-1]
    np.not_equal(inside[1:], inside[:-1], out=change[1:-1])
    edges = np.flatnonzero(change)
    seams = np.unique(doc_ptr[1:-1])
    seams = seams[(seams > 0) & (seams < len(inside))]
    seams = seams[inside[seams] & inside[seams - 1]]
    if len(seams):
        edges = np.insert(edges, np.repeat(np.searchsorted(edges, seams), 2), np.repeat(seams, 2))
    return edges[::2], edges[1::2]


@lru_cache(maxsize=8)
def _byte_table(members: str, lowercase: bool) -> np.ndarray:
    """(256,) uint8: what an ASCII byte becomes, 0 where it is not in the class."""
    table = np.zeros(256, np.uint8)
    for code in range(1, 128):
        character = chr(code).lower() if lowercase else chr(code)
        if re.fullmatch(members, character):
            table[code] = ord(character)
    return table


@lru_cache(maxsize=8)
def _character_table(members: str) -> np.ndarray:
    """(0x110000,) bool: whether a code point is in the class."""
    table = np.zeros(0x110000, bool)
    codes = np.r_[0:0xD800, 0xE000:0x110000].astype(np.uint32)
    everything = codes.astype("<u4").tobytes().decode("utf-32-le")
    inside = np.zeros(len(codes), bool)
    for match in re.finditer(f"(?:{members})+", everything):
        inside[match.start() : match.end()] = True
    table[codes] = inside
    return table


def _classify(data: np.ndarray, where: np.ndarray, members: str, inside: np.ndarray, kept: np.ndarray) -> None:
    """Decide about the bytes of characters outside ASCII; ``where`` are all of their places."""
    leads = where[data[where] >= 0xC0]
    first = data[leads].astype(np.uint32)
    extra = 1 + (first >= 0xE0) + (first >= 0xF0)
    code = first & np.array([0, 0x1F, 0x0F, 0x07], np.uint32)[extra]
    last = len(data) - 1
    for step in range(1, 4):
        following = data[np.minimum(leads + step, last)] & 0x3F
        code = np.where(extra >= step, (code << 6) | following, code)
    member = _character_table(members)[code]
    inside[where] = np.repeat(member, extra + 1)
    kept[where] = data[where]
