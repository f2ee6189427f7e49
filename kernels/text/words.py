"""Words of texts, numbered in the order of their first occurrence, and how often they occur.

A token is a maximal run of characters of one class, see `character_table`. One pass over the bytes of the texts lowers
each character, finds the ends of the runs, looks each word up in a hash table, and counts it. The words are stored one
after another in the *arena*. The bytes of a token are appended to it while they are read, and stay there if the word is
new.

The table is larger than the processor's caches. So tokens are taken in small groups: the slots of the whole group are
prefetched while its tokens are read, before the first one is looked up.

A slot of the hash table has two numbers:

    key     the bytes of a word of up to 8 bytes, or a hash of a longer word
    entry   upper half: number of the word + 1; lower half: its length in bytes up to 8, or LONG. 0 is a free slot.

So a word of up to 8 bytes, as most are, is found without a look at the arena. If a slot has another word, the next slot
is tried.

All numbers in the inner loops are unsigned: numba tests a signed index for being negative, at each access.

Reference implementation: tests/helpers/naive_words.py, with `re`, `str.lower` and a dictionary.
"""

import re
import sys
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from ..jit import kernel
from ..simd.prefetch import prefetch

#: Lower half of the entry of a word of more than 8 bytes.
LONG = np.uint64(9)
#: Words for which a new table has memory.
FIRST_WORDS = 1 << 14
#: Tokens that are read before they are looked up.
GROUP = 64
#: The lower case of a character has at most this many times its bytes. ASCII characters keep their one byte.
GROWTH = 2

#: An odd number whose bits look random: 2 ** 64 divided by the golden ratio.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOWER_HALF = np.uint64(0xFFFFFFFF)
_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_4 = np.uint64(4)
_8 = np.uint64(8)

#: Document, position in the bytes of the batch, number of tokens in the batch, and number of words in the table.
Cursor: TypeAlias = tuple[int, int, int, int]
#: Number of code points of Unicode.
N_CODES = sys.maxunicode + 1
#: Stands for a character that is not in the class. It is no character in UTF-8.
OUTSIDE = 0xFFFFFFFF
#: The only character whose lower case depends on its neighbours: it differs at the end of a word.
_SIGMA = "Σ"
#: Code points that are lowered together. Most of such blocks have no capital.
_BLOCK = 128


@lru_cache(maxsize=4)
def character_table(character_class: str, lowercase: bool) -> np.ndarray:
    """Return the bytes of each character in UTF-8, in lower case if ``lowercase``: (N_CODES,) uint32.

    The first byte is the lowest byte of the number. Characters outside the class have OUTSIDE. ``character_class`` is a
    regular expression that matches one character. Both come from Python itself, from `str.lower` and `re`, so they
    agree with every version of it. Characters of `special_capitals` do not have one lower case; if ``lowercase``, they
    must not occur in a text.
    """
    characters = _all_characters()
    if lowercase:
        characters = _lowered(characters)
    codes = np.frombuffer(characters.encode("utf-32-le", "surrogatepass"), np.uint32)
    is_member = np.zeros(N_CODES, bool)
    # A class has far fewer runs of consecutive code points than members.
    for run in re.finditer(f"(?:{character_class})+", characters):
        is_member[run.start() : run.end()] = True
    table = np.full(N_CODES, OUTSIDE, np.uint32)
    table[is_member] = _packed(codes[is_member])
    table.flags.writeable = False
    return table


@lru_cache(maxsize=1)
def special_capitals() -> tuple[str, ...]:
    """Return the characters whose lower case is not always the same single character."""
    found = [_SIGMA]
    for block in _blocks(_all_characters()):
        if len(block.lower()) != len(block):
            found += [character for character in block if len(character.lower()) != 1]
    return tuple(found)


def _all_characters() -> str:
    """Return the characters of all code points, so that each is at the position of its number."""
    return np.arange(N_CODES, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


def _blocks(characters: str) -> list[str]:
    return [characters[first : first + _BLOCK] for first in range(0, N_CODES, _BLOCK)]


def _lowered(characters: str) -> str:
    """Return the lower case of each character by itself. Characters without a single lower case stay as they are."""
    blocks = []
    for block in _blocks(characters):
        lowered = block.lower()
        if lowered != block:
            alone = [character.lower() for character in block]
            pairs = zip(block, alone, strict=True)
            lowered = "".join(lower if len(lower) == 1 else character for character, lower in pairs)
        blocks.append(lowered)
    return "".join(blocks)


def _packed(codes: np.ndarray) -> np.ndarray:
    """Return the UTF-8 bytes of each code point as one number: (N,) uint32."""
    last = codes & 0x3F
    second_last = codes >> 6 & 0x3F
    third_last = codes >> 12 & 0x3F
    two = 0x80C0 | codes >> 6 | last << 8
    three = 0x8080E0 | codes >> 12 | second_last << 8 | last << 16
    four = 0x808080F0 | codes >> 18 | third_last << 8 | second_last << 16 | last << 24
    return np.select([codes < 0x80, codes < 0x800, codes < 0x10000], [codes, two, three], four).astype(np.uint32)


class Words(NamedTuple):
    """The hash table and the words in it. There is memory for W words of B bytes."""

    slots: np.ndarray  # (4 * W,) uint64: key and entry of 2 * W slots; W is a power of two
    arena: np.ndarray  # (B,) uint8: the bytes of all words
    word_ptr: np.ndarray  # (W + 1,) int64: word w has the bytes arena[word_ptr[w]:word_ptr[w + 1]]
    statistics: np.ndarray  # (3 * W,) int64: term frequency, document frequency and last document of each word


class WordTable:
    """Numbers words and counts them. Words keep their numbers when others are added."""

    def __init__(self) -> None:
        self.n_words = 0
        self._n_documents = 0
        self._words = _new_words(FIRST_WORDS)

    def split(
        self, data: np.ndarray, doc_ptr: np.ndarray, is_counted: np.ndarray, characters: np.ndarray, min_length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Split D texts into tokens; return the tokens of each text, (D + 1,) int64, and their words, (T,) uint32.

        ``data`` (n,) uint8 are the bytes of all texts in UTF-8, and text d is ``data[doc_ptr[d]:doc_ptr[d + 1]]``. A
        token has at least ``min_length`` characters of the table ``characters``, see `character_table`. Words are
        counted in the texts where ``is_counted`` (D,) is True.
        """
        n_documents = len(doc_ptr) - 1
        self._reserve_bytes(GROWTH * len(data))
        # At least one byte separates two tokens.
        tokens = np.empty((len(data) + n_documents) // 2 + 1, np.uint32)
        token_ptr = np.zeros(n_documents + 1, np.int64)
        cursor = (0, 0, 0, self.n_words)
        while cursor[0] < n_documents:
            cursor = _split(
                data,
                doc_ptr,
                is_counted,
                self._n_documents + 1,
                characters,
                min_length,
                self._words,
                cursor,
                tokens,
                token_ptr,
            )
            self.n_words = cursor[3]
            if cursor[0] < n_documents:
                self._grow()
        self._n_documents += n_documents
        return token_ptr, tokens[: cursor[2]].copy()

    def number(self, data: np.ndarray, word_ptr: np.ndarray) -> np.ndarray:
        """Return the numbers of n words, which are added if they are new: (n,) uint32.

        Word i is ``data[word_ptr[i]:word_ptr[i + 1]]``. The words are not counted.
        """
        self._reserve_bytes(len(data))
        numbers = np.empty(len(word_ptr) - 1, np.uint32)
        done = 0
        while done < len(numbers):
            done, self.n_words = _number(data, word_ptr, self._words, done, self.n_words, numbers)
            if done < len(numbers):
                self._grow()
        return numbers

    def count(self, doc_ptr: np.ndarray, numbers: np.ndarray, is_counted: np.ndarray) -> None:
        """Count words of D documents: ``doc_ptr`` (D + 1,) int64, ``numbers`` (T,) uint32, ``is_counted`` (D,) bool."""
        _count(doc_ptr, numbers, is_counted, self._n_documents + 1, self._words.statistics)
        self._n_documents += len(doc_ptr) - 1

    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the words in the order of their numbers: ``word_ptr`` (n + 1,) int64, and bytes (n,) uint8."""
        word_ptr = self._words.word_ptr[: self.n_words + 1]
        return word_ptr, self._words.arena[: word_ptr[-1]]

    def frequencies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the term and the document frequency of each word, each (n,) int64."""
        statistics = self._words.statistics.reshape(-1, 3)[: self.n_words]
        return statistics[:, 0].copy(), statistics[:, 1].copy()

    def _reserve_bytes(self, n_bytes: int) -> None:
        """Make the arena large enough for ``n_bytes`` further bytes. Memory that is never written costs nothing."""
        arena = self._words.arena
        needed = int(self._words.word_ptr[self.n_words]) + n_bytes
        if needed > len(arena):
            larger = np.empty(max(needed, 2 * len(arena)), np.uint8)
            larger[: len(arena)] = arena
            self._words = self._words._replace(arena=larger)

    def _grow(self) -> None:
        """Double the number of words that the table has memory for."""
        old = self._words
        new = _new_words(2 * (len(old.word_ptr) - 1))
        new.word_ptr[: len(old.word_ptr)] = old.word_ptr
        new.statistics[: len(old.statistics)] = old.statistics
        _copy_slots(old.slots, new.slots)
        self._words = new._replace(arena=old.arena)


def _new_words(n_words: int) -> Words:
    return Words(
        slots=np.zeros(4 * n_words, np.uint64),
        arena=np.empty(0, np.uint8),
        word_ptr=np.zeros(n_words + 1, np.int64),
        statistics=np.zeros(3 * n_words, np.int64),
    )


# --- hash table ---


@kernel(inline="always")
def _mixed(key: np.uint64) -> np.uint64:
    """Return a number of which all bits depend on all bits of the key. Different keys give different numbers."""
    key = (key ^ (key >> _HALF)) * _FACTOR
    return key ^ (key >> _HALF)


@kernel(inline="always")
def _first_slot(slots: np.ndarray, key: np.uint64, kind: np.uint64) -> np.uint64:
    """Return the position in ``slots`` of the first slot that a word may have."""
    return (_mixed(key + kind) << _1) & np.uint64(len(slots) - 1)


@kernel(inline="always")
def _find(
    slots: np.ndarray, arena: np.ndarray, word_ptr: np.ndarray, key: np.uint64, start: np.uint64, length: np.uint64
) -> np.uint64:
    """Return the position of the slot of the word ``arena[start:start + length]``, or of the free slot for it."""
    kind = min(length, LONG)
    slot = _first_slot(slots, key, kind)
    while True:
        entry = slots[slot + _1]
        if entry == _0:
            return slot
        if slots[slot] == key and entry & _LOWER_HALF == kind:
            if length < LONG:
                return slot
            word = (entry >> _HALF) - _1
            first = np.uint64(word_ptr[word])
            if np.uint64(word_ptr[word + _1]) - first == length:
                i = _0
                while i < length and arena[first + i] == arena[start + i]:
                    i += _1
                if i == length:
                    return slot
        slot = (slot + _2) & np.uint64(len(slots) - 1)


@kernel
def _copy_slots(old: np.ndarray, new: np.ndarray) -> None:
    """Copy the words of one table of slots, (n,) uint64, to a larger one without words."""
    for i in range(0, len(old), 2):
        if old[i + 1] != 0:
            slot = _first_slot(new, old[i], old[i + 1] & _LOWER_HALF)
            while new[slot + _1] != _0:
                slot = (slot + _2) & np.uint64(len(new) - 1)
            new[slot] = old[i]
            new[slot + _1] = old[i + 1]


# --- texts ---


@kernel
def _wide_character(
    data: np.ndarray, i: np.uint64, stop: np.uint64, characters: np.ndarray
) -> tuple[np.uint32, np.uint64]:
    """Return what ``characters`` has for the character outside ASCII at byte i, and its number of bytes in ``data``.

    Nothing is read from ``stop`` on, even if the bytes are not UTF-8.
    """
    lead = np.uint32(data[i])
    width = _2
    if lead >= 0xE0:
        width = _3
    if lead >= 0xF0:
        width = _4
    if i + width > stop:
        return np.uint32(OUTSIDE), stop - i
    # The lead byte has a bit for each byte of the character, and a zero after them.
    code = lead & (np.uint32(0xFF) >> np.uint32(width + _1))
    j = _1
    while j < width:
        code = code << np.uint32(6) | np.uint32(data[i + j]) & np.uint32(0x3F)
        j += _1
    if code >= len(characters):
        return np.uint32(OUTSIDE), width
    return characters[code], width


@kernel(inline="always")
def _read_token(
    data: np.ndarray, i: np.uint64, stop: np.uint64, characters: np.ndarray, arena: np.ndarray, end: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Append the token that begins at byte i to the arena, at its byte ``end``.

    Returns the byte after the token and the character that ends it, the end of the token in the arena, its key, and its
    number of characters, which is 0 if the first one is outside the class.
    """
    n_characters = _0
    hashed = _0  # of all bytes up to the last multiple of eight
    eight = _0  # the bytes since
    shift = _0
    while i < stop:
        byte = data[i]
        if byte < 0x80:
            # The lower case of such a character is one byte, too.
            packed = characters[byte]
            if packed == np.uint32(OUTSIDE):
                return i + _1, end, hashed ^ eight, n_characters
            i += _1
            n_characters += _1
            arena[end] = packed
            end += _1
            eight |= np.uint64(packed) << shift
            shift += _8
            if shift == 64:
                hashed = _mixed(hashed ^ eight)
                eight = _0
                shift = _0
            continue
        packed, width = _wide_character(data, i, stop, characters)
        i += width
        if packed == np.uint32(OUTSIDE):
            break
        n_characters += _1
        while packed != 0:
            arena[end] = packed & np.uint32(0xFF)
            end += _1
            eight |= np.uint64(packed & np.uint32(0xFF)) << shift
            shift += _8
            if shift == 64:
                hashed = _mixed(hashed ^ eight)
                eight = _0
                shift = _0
            packed >>= np.uint32(8)
    return i, end, hashed ^ eight, n_characters


@kernel(inline="always")
def _look_up(
    words: Words,
    keys: np.ndarray,
    ends: np.ndarray,
    n_read: int,
    used: np.uint64,
    n_words: np.uint64,
    tokens: np.ndarray,
    n_tokens: np.uint64,
) -> tuple[np.uint64, np.uint64]:
    """Look up a group of tokens, add the words that are new, and append the numbers of the words to ``tokens``.

    Token k has the key ``keys[k]`` and ends at byte ``ends[k]`` of the arena. The first one begins at byte ``used``.
    Returns ``used`` and ``n_words`` after the additions.
    """
    slots, arena, word_ptr, _ = words
    start = used
    for k in range(n_read):
        length = ends[k] - start
        slot = _find(slots, arena, word_ptr, keys[k], start, length)
        entry = slots[slot + _1]
        if entry == _0:
            n_words += _1
            entry = n_words << _HALF | min(length, LONG)
            slots[slot] = keys[k]
            slots[slot + _1] = entry
            # The words before it in the group may have been known, so that their bytes are overwritten.
            i = _0
            while i < length:
                arena[used + i] = arena[start + i]
                i += _1
            used += length
            word_ptr[n_words] = used
        start = ends[k]
        tokens[n_tokens + np.uint64(k)] = (entry >> _HALF) - _1
    return used, n_words


@kernel
def _split(
    data: np.ndarray,
    doc_ptr: np.ndarray,
    is_counted: np.ndarray,
    first_document: int,
    characters: np.ndarray,
    min_length: int,
    words: Words,
    cursor: Cursor,
    tokens: np.ndarray,
    token_ptr: np.ndarray,
) -> Cursor:
    """Read tokens from the cursor on, until the texts end or the table may become full; return how far it came.

    ``data`` (n,) uint8, ``doc_ptr`` (D + 1,) int64, ``is_counted`` (D,) bool and ``characters`` (N,) uint32 are those
    of `WordTable.split`. Writes ``tokens`` (T,) uint32 and ``token_ptr`` (D + 1,) int64.
    """
    slots, arena, word_ptr, statistics = words
    document = cursor[0]
    i = np.uint64(cursor[1])
    n_tokens = np.uint64(cursor[2])
    n_words = np.uint64(cursor[3])
    used = np.uint64(word_ptr[n_words])
    max_words = np.uint64(len(word_ptr) - 1)
    least = np.uint64(min_length)
    keys = np.empty(GROUP, np.uint64)
    ends = np.empty(GROUP, np.uint64)
    while document < len(doc_ptr) - 1:
        stop = np.uint64(doc_ptr[document + 1])
        while i < stop:
            if n_words + np.uint64(GROUP) > max_words:
                return document, int(i), int(n_tokens), int(n_words)
            n_read = 0
            start = used
            while i < stop and n_read < GROUP:
                i, end, key, n_characters = _read_token(data, i, stop, characters, arena, start)
                if n_characters >= least:
                    prefetch(slots, _first_slot(slots, key, min(end - start, LONG)))
                    keys[n_read] = key
                    ends[n_read] = end
                    n_read += 1
                    start = end
            used, n_words = _look_up(words, keys, ends, n_read, used, n_words, tokens, n_tokens)
            if is_counted[document]:
                for k in range(n_read):
                    _count_token(statistics, np.uint64(tokens[n_tokens + np.uint64(k)]), first_document + document)
            n_tokens += np.uint64(n_read)
        document += 1
        token_ptr[document] = n_tokens
    return document, int(i), int(n_tokens), int(n_words)


# --- words that are given one by one ---


@kernel
def _number(
    data: np.ndarray, offsets: np.ndarray, words: Words, first: int, n_words: int, numbers: np.ndarray
) -> tuple[int, int]:
    """Number words from ``first`` on, until they end or a new one finds the table full.

    ``data`` (n,) uint8 and ``offsets`` (W + 1,) int64 are those of `WordTable.number`. Writes ``numbers`` (W,) uint32.
    Returns the number of words that have been numbered, and the number of words in the table.
    """
    slots, arena, word_ptr, _ = words
    for i in range(first, len(numbers)):
        used = np.uint64(word_ptr[n_words])
        end = used
        hashed = _0
        eight = _0
        shift = _0
        for position in range(offsets[i], offsets[i + 1]):
            arena[end] = data[position]
            end += _1
            eight |= np.uint64(data[position]) << shift
            shift += _8
            if shift == 64:
                hashed = _mixed(hashed ^ eight)
                eight = _0
                shift = _0
        slot = _find(slots, arena, word_ptr, hashed ^ eight, used, end - used)
        if slots[slot + _1] == _0:
            if n_words == len(word_ptr) - 1:
                return i, n_words
            n_words += 1
            slots[slot] = hashed ^ eight
            slots[slot + _1] = np.uint64(n_words) << _HALF | min(end - used, LONG)
            word_ptr[n_words] = end
        numbers[i] = (slots[slot + _1] >> _HALF) - _1
    return len(numbers), n_words


# --- frequencies ---


@kernel(inline="always")
def _count_token(statistics: np.ndarray, word: np.uint64, document: int) -> None:
    """Count a token. Documents are numbered from 1 in the order of the calls."""
    column = word * _3
    statistics[column] += 1
    if statistics[column + _2] != document:
        statistics[column + _2] = document
        statistics[column + _1] += 1


@kernel
def _count(
    doc_ptr: np.ndarray, numbers: np.ndarray, is_counted: np.ndarray, first_document: int, statistics: np.ndarray
) -> None:
    """Count the tokens of documents, see `WordTable.count`. Changes ``statistics`` (3 * W,) int64."""
    for document in range(len(doc_ptr) - 1):
        if is_counted[document]:
            for t in range(doc_ptr[document], doc_ptr[document + 1]):
                _count_token(statistics, np.uint64(numbers[t]), first_document + document)
