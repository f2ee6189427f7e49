"""What becomes of each character of Unicode when a text is lowered and split into words.

Both come from Python itself, from `str.lower` and `re`, so they agree with every version of it. The reference
implementation is ``re.findall(pattern, text.lower())``.
"""

import re
import sys
from functools import lru_cache

import numpy as np

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
    regular expression that matches one character. Characters of `special_capitals` do not have one lower case; if
    ``lowercase``, they must not occur in a text.
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
