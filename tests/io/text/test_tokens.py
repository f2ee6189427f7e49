"""Tokens equal those of scikit-learn's CountVectorizer, whatever the options and the text."""

import json

import numpy as np
import pyarrow as pa
import pytest
from corpusmill.io.readers.batches import Bag, Batch
from corpusmill.io.text.tokens import TOKEN_PATTERN, TokenOptions, character_run, tokenise
from hypothesis import given, settings
from hypothesis import strategies as st

PATTERNS = [
    TOKEN_PATTERN,
    r"(?u)\b\w+\b",
    r"\w\w\w+",
    r"[a-z]{2,}",
    r"[^ ]+",
    r"\S+",
    r"[a-z]+[0-9]",
    r"x([a-z])",
]
# Capitals whose lower case is longer or depends on their neighbours, letters of two to four bytes, combining marks, and
# control characters.
CHARACTERS = "abXY_09 .,-\n\0\x1c\x85éÉßİΣςᾼ中文ﬁ🙂𝔘ʰ\u0301\u200b\u00a0Ǆ١²"

texts = st.lists(
    st.text(st.sampled_from(CHARACTERS) | st.characters(exclude_categories=["Cs"]), max_size=30), max_size=6
)


def tokens_of(documents, **options):
    """Return each document's tokens as a list of words."""
    batch = Batch(pa.array([""] * len(documents)), pa.array(documents, pa.large_string()))
    found = tokenise(batch, TokenOptions(**options))
    words = found.words.to_pylist()
    assert len(set(words)) == len(words)
    pairs = zip(found.doc_ptr[:-1], found.doc_ptr[1:], strict=True)
    return [[words[i] for i in found.ids[a:b]] for a, b in pairs]


def expected(documents, **options):
    """Return the tokens that CountVectorizer sees."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    analyzer = text.CountVectorizer(**options).build_analyzer()
    return [analyzer(d) for d in documents]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("pattern", PATTERNS)
@given(documents=texts)
@settings(max_examples=60)
def test_tokens_are_those_of_count_vectorizer(pattern, lowercase, documents):
    options = {"token_pattern": pattern, "lowercase": lowercase}
    assert tokens_of(documents, **options) == expected(documents, **options)


def test_tokens_of_real_text_are_those_of_count_vectorizer(real_data):
    with real_data("nips.jsonl").open() as lines:
        documents = [json.loads(line)["text"] for line, _ in zip(lines, range(300), strict=False)]
    assert not "".join(documents).isascii()
    assert tokens_of(documents) == expected(documents)


def test_words_do_not_run_from_one_document_into_the_next():
    assert tokens_of(["ab", "cd", "", "ef gh", "ij"]) == [["ab"], ["cd"], [], ["ef", "gh"], ["ij"]]


def test_nothing_is_cut_off_at_ten_thousand_tokens():
    words = [f"word{i % 70000}" for i in range(50_000)]
    assert tokens_of([" ".join(words)]) == [words]


@pytest.mark.parametrize(
    "pattern, run",
    [
        (TOKEN_PATTERN, (r"\w", 2)),
        (r"\w+", (r"\w", 1)),
        (r"[a-z]{3,}", ("[a-z]", 3)),
        (r"\S+", (r"\S", 1)),
        (r"[^a]+", ("[^a]", 1)),
        (r"\b[a-z]{3,}\b", None),
        (r"[a-z]{3,5}", None),
        (r"[a-z]{0,}", None),
        (r"a+|b", None),
    ],
)
def test_which_patterns_need_no_regular_expression(pattern, run):
    assert character_run(pattern) == run


def test_a_pattern_with_two_groups_is_refused():
    with pytest.raises(ValueError, match="2 groups"):
        tokens_of(["ab"], token_pattern=r"(a)(b)")


def test_an_invalid_pattern_is_refused():
    with pytest.raises(ValueError, match="is not a regular expression"):
        tokens_of(["ab"], token_pattern="(a")


def test_token_lists_stay_as_they_are():
    lists = pa.array([["A", "b b"], [], None, ["A"]], pa.large_list(pa.large_string()))
    found = tokenise(Batch(pa.array(["x"] * 4), lists), TokenOptions())
    assert found.doc_ptr.tolist() == [0, 2, 2, 2, 3]
    assert [found.words[i].as_py() for i in found.ids] == ["A", "b b", "A"]


def test_a_bag_keeps_the_names_of_its_columns():
    bag = Bag(np.array([0, 2, 3]), np.array([4, 4, 7]), None)
    found = tokenise(Batch(pa.array(["x", "y"]), bag), TokenOptions())
    assert (found.words.to_pylist(), found.ids.tolist()) == (["4", "7"], [0, 0, 1])
