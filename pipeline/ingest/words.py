"""Numbering and counting the words of a partition.

There are two ways from text to words. Patterns that match runs of characters of one class, such as the default, use the
kernel in `kernels.text.words`. All others use Python's regular expressions. Lists of words and counted words need
neither.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...io.readers.batches import Bag, Batch
from ...io.text.tokens import CharacterRun, TokenOptions, character_run, tokenise
from ...io.text.vocabulary import count_table
from ...kernels.text.characters import character_table, special_capitals
from ...kernels.text.words import WordTable


class PartitionWords:
    """The words of the documents that were added. Words are numbered in the order in which they first occurred."""

    def __init__(self, options: TokenOptions):
        self._options = options
        self._run = character_run(options.token_pattern)
        self._words = WordTable()

    def add(self, batch: Batch, is_counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split D documents; return their tokens, (D + 1,) int64, and the numbers of the words, (T,) uint32.

        Words are counted in the documents where ``is_counted`` (D,) is True. Raises ValueError for a bad pattern.
        """
        content = batch.content
        if isinstance(content, Bag) or not pa.types.is_large_string(content.type) or self._run is None:
            tokens = tokenise(batch, self._options)
            numbers = self._words.number(*_bytes_of(tokens.words))[tokens.ids]
            self._words.count(tokens.doc_ptr, numbers, is_counted)
            return tokens.doc_ptr, numbers
        return self._split(content, self._run, is_counted)

    def _split(self, texts: pa.Array, run: CharacterRun, is_counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        characters = character_table(run.character_class, self._options.lowercase)
        if self._options.lowercase:
            texts = _without_special_capitals(texts)
        data, doc_ptr = _bytes_of(texts)
        return self._words.split(data, doc_ptr, is_counted, characters, run.min_length)

    def table(self) -> pa.Table:
        """Return the count table of all words, in the order of their numbers."""
        word_ptr, data = self._words.words()
        words = pa.LargeStringArray.from_buffers(len(word_ptr) - 1, pa.py_buffer(word_ptr), pa.py_buffer(data))
        return count_table(words, *self._words.frequencies())


def _without_special_capitals(texts: pa.Array) -> pa.Array:
    """Return the texts, with those in lower case that have a character which the kernel cannot lower."""
    data = _bytes_of(texts)[0]
    present = [character for character in special_capitals() if _has(data, character)]
    if not present:
        return texts
    is_special = pc.match_substring_regex(texts, f"[{''.join(present)}]")
    lowered = [text.lower() for text in texts.filter(is_special).to_pylist()]
    return pc.replace_with_mask(texts, is_special, pa.array(lowered, pa.large_string()))


def _has(data: np.ndarray, character: str) -> bool:
    """Return whether a character outside ASCII occurs in the bytes (n,) uint8 of a text."""
    code = character.encode()
    n_positions = max(0, len(data) - len(code) + 1)
    # Array operations are several times as fast as bytes.find, which stops at each letter with the same first byte.
    is_found = data[:n_positions] == code[0]
    for i, byte in enumerate(code):
        is_found &= data[i : i + n_positions] == byte
    return bool(is_found.any())


def _bytes_of(strings: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of D strings, (n,) uint8, and where each begins, (D + 1,) int64. The type is large_string."""
    if not len(strings):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offset_buffer, data_buffer = strings.buffers()
    # An array may be a slice of its buffers.
    offsets = np.frombuffer(offset_buffer, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    if data_buffer is None:
        return np.empty(0, np.uint8), offsets - offsets[0]
    return np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]
