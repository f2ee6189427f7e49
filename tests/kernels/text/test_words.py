"""The kernel that splits, numbers and counts words does what `re` and a dictionary do."""

import numpy as np
import pytest
from corpusmill.kernels.text.words import FIRST_WORDS, WordTable, character_table
from helpers.naive_words import words_of_texts
from hypothesis import given, settings
from hypothesis import strategies as st

# Letters of one to four bytes, so that words of 7, 8, 9, 16 and 17 bytes occur, and words of equal beginnings.
words = st.text("abcé中𝔘", min_size=1, max_size=20) | st.sampled_from(["a" * n for n in (7, 8, 9, 15, 16, 17, 40)])
texts = st.lists(st.lists(words, max_size=12).map(" ".join), min_size=1, max_size=6)


def bytes_of(strings):
    """Return the bytes of strings, and where each begins."""
    encoded = [string.encode() for string in strings]
    ptr = np.append(0, np.cumsum([len(one) for one in encoded], dtype=np.int64))
    return np.frombuffer(b"".join(encoded), np.uint8), ptr


def words_in(table):
    """Return the words of a table in the order of their numbers."""
    ptr, data = table.words()
    return [data[a:b].tobytes().decode() for a, b in zip(ptr[:-1], ptr[1:], strict=True)]


def as_lists(ptr, numbers):
    """Return the numbers of each document."""
    return [numbers[a:b].tolist() for a, b in zip(ptr[:-1], ptr[1:], strict=True)]


@given(batches=st.lists(texts, min_size=1, max_size=3), data=st.data())
@settings(max_examples=60)
def test_batches_are_numbered_and_counted_as_one_text(batches, data):
    table = WordTable()
    documents = []
    counted = []
    for batch in batches:
        is_counted = np.array(data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch))))
        ptr, numbers = table.split(*bytes_of(batch), is_counted, character_table(r"\w", True), 2)
        documents += as_lists(ptr, numbers)
        counted += is_counted.tolist()
    everything = [text for batch in batches for text in batch]
    term_frequency, document_frequency = (counts.tolist() for counts in table.frequencies())
    found = (documents, words_in(table), term_frequency, document_frequency)
    assert found == words_of_texts(everything, r"\w\w+", True, counted)


@given(batches=st.lists(st.lists(st.text(max_size=12), max_size=20), min_size=1, max_size=3))
@settings(max_examples=60)
def test_words_that_are_given_have_the_same_number_each_time(batches):
    table = WordTable()
    known = {}
    for batch in batches:
        numbers = table.number(*bytes_of(batch))
        assert numbers.tolist() == [known.setdefault(word, len(known)) for word in batch]
        table.count(np.array([0, len(batch)]), numbers, np.ones(1, bool))
    assert words_in(table) == list(known)
    frequencies = [[batch.count(word) for batch in batches] for word in known]
    assert table.frequencies()[0].tolist() == [sum(counts) for counts in frequencies]
    assert table.frequencies()[1].tolist() == [np.count_nonzero(counts) for counts in frequencies]


@pytest.mark.parametrize("way", ["texts", "words"])
def test_a_table_grows(way):
    many = [f"word{i}" for i in range(3 * FIRST_WORDS)]
    table = WordTable()
    for _ in range(2):
        if way == "texts":
            text = [" ".join(many)]
            _, numbers = table.split(*bytes_of(text), np.ones(1, bool), character_table(r"\w", True), 2)
        else:
            numbers = table.number(*bytes_of(many))
            table.count(np.array([0, len(many)]), numbers, np.ones(1, bool))
        assert numbers.tolist() == list(range(len(many)))
    assert words_in(table) == many
    assert (table.frequencies()[0] == 2).all()
    assert (table.frequencies()[1] == 2).all()


@pytest.mark.parametrize("tail", [b"\xc3", b"\xe4\xb8", b"\xf0\x9d\x94", b"\xf8\x80\x80\x80", b"\xff", b"\x80"])
def test_bytes_after_the_end_of_a_text_are_not_read(tail):
    found = []
    for following in (b"\xa9\xb8\x80\x80", b"abcd"):
        data = np.frombuffer(b"ab " + tail + following, np.uint8)
        ptr = np.array([0, 3 + len(tail)])
        table = WordTable()
        table.split(data, ptr, np.ones(1, bool), character_table(r"\S", True), 1)
        found.append([column.tobytes() for column in table.words()])
    assert found[0] == found[1]
