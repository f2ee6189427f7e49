"""Search for words."""

import pytest
from corpusmill.pipeline.explorer.model import WordSearch

WORDS = ["ΟΔΟΣ", "İstanbul", "Straße", "roads"]


@pytest.mark.parametrize("word", WORDS)
def test_every_word_is_found_by_its_own_spelling_and_in_lower_case(word):
    search = WordSearch(WORDS)
    for text in (word, word.lower()):
        assert search.first(text) == WORDS.index(word)
        assert search.containing(text, 5) == [WORDS.index(word)]


def test_a_word_is_found_in_upper_case():
    assert WordSearch(WORDS).containing("STRASS", 5) == [2]
    assert WordSearch(WORDS).first("ROADS") == 3
