"""Search for words by what users type."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class WordSearch:
    """Finds words by their spelling, in upper or lower case. A word is found as its number, its place in ``words``."""

    def __init__(self, words: Sequence[str]):
        # Words and texts are folded by the same function: those of Python and Arrow differ for some letters.
        folded = [word.casefold() for word in words]
        self._folded = pa.array(folded, pa.large_string())
        self._first = {word: number for number, word in reversed(list(enumerate(folded)))}

    def first(self, word: str) -> int:
        """Return the first word with this spelling, or -1."""
        return self._first.get(word.casefold(), -1)

    def containing(self, text: str, limit: int) -> list[int]:
        """Return words that contain a text: the word itself first, then those that begin with it."""
        wanted = text.casefold()
        if not wanted:
            return []
        equal = _numbers(pc.equal(self._folded, wanted))
        beginning = _numbers(pc.starts_with(self._folded, wanted))
        containing = _numbers(pc.match_substring(self._folded, wanted))
        # Enough of each, also if the first ones were found before.
        found = [*equal[:limit], *beginning[: 2 * limit], *containing[: 3 * limit]]
        return list(dict.fromkeys(found))[:limit]


def _numbers(are_found: pa.Array) -> list[int]:
    """Return the numbers of the words for which a boolean array is true."""
    return np.flatnonzero(are_found.to_numpy(zero_copy_only=False)).tolist()
