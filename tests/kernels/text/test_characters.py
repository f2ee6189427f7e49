"""What becomes of every character of Unicode agrees with `re` and `str.lower`."""

import re

import numpy as np
import pytest
from corpusmill.kernels.text.words import N_CODES, OUTSIDE, character_table, special_capitals

CHARACTERS = [chr(code) for code in range(N_CODES) if not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize(
    "character_class, lowercase", [(r"\w", True), (r"\w", False), (r"\S", False), ("[a-z]", True), ("[^ A]", False)]
)
def test_each_character_is_lowered_and_classified_as_python_does(character_class, lowercase):
    table = character_table(character_class, lowercase)
    is_member = re.compile(character_class).match
    expected = np.full(N_CODES, OUTSIDE, np.uint32)
    for character in CHARACTERS:
        lowered = character.lower() if lowercase else character
        if is_member(lowered):
            expected[ord(character)] = int.from_bytes(lowered.encode()[:4], "little")
    is_ordinary = np.ones(N_CODES, bool)
    is_ordinary[0xD800:0xE000] = False
    if lowercase:
        is_ordinary[[ord(character) for character in special_capitals()]] = False
    np.testing.assert_array_equal(table[is_ordinary], expected[is_ordinary])


@pytest.mark.parametrize("before, after", [("a", ""), ("", "a"), ("A", "A"), ("", "")])
def test_the_lower_case_of_all_but_special_capitals_does_not_depend_on_neighbours(before, after):
    ordinary = [character for character in CHARACTERS if character not in special_capitals()]
    text = " ".join(f"{before}{character}{after}" for character in ordinary)
    alone = " ".join(f"{before}{character.lower()}{after}" for character in ordinary)
    assert text.lower() == alone.replace("A", "a")
    assert len(alone) == len(text)
