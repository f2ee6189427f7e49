"""Texts are split as scikit-learn's CountVectorizer splits them, whatever the options and the text."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from corpusmill.io.readers.batches import Batch
from corpusmill.io.words import TOKEN_PATTERN, TokenOptions
from corpusmill.pipeline.ingest.tasks import PartitionWords
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
    words = PartitionWords(TokenOptions(**options))
    doc_ptr, numbers = words.add(batch, np.ones(len(documents), bool))
    found = words.table()["word"].to_pylist()
    assert len(set(found)) == len(found)
    return [[found[i] for i in numbers[a:b]] for a, b in zip(doc_ptr[:-1], doc_ptr[1:], strict=True)]


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


@pytest.mark.parametrize("template", ["x{}y", "{}", "X{}", "Σ{}Σ.{}Α"])
def test_every_character_splits_and_is_lowered_as_in_a_regular_expression(template):
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    blocks = [codes[i : i + 4096] for i in range(0, len(codes), 4096)]
    if "Σ" in template:
        # Python lowers these texts. A few blocks of characters are enough for this path.
        blocks = blocks[:3]
    texts = [" ".join(template.replace("{}", chr(code)) for code in block) for block in blocks]
    pattern = re.compile(TOKEN_PATTERN)
    assert tokens_of(texts) == [pattern.findall(text.lower()) for text in texts]


@pytest.mark.parametrize("content", [["A", "b b"], []])
def test_slices_of_arrays_are_split_as_arrays_are(content):
    texts = pa.array(["x y z", *content, "é"], pa.large_string()).slice(1, len(content))
    words = PartitionWords(TokenOptions(token_pattern=r"\w+"))
    words.add(Batch(pa.array([""] * len(content)), texts), np.ones(len(content), bool))
    assert words.table()["word"].to_pylist() == (["a", "b"] if content else [])


@pytest.mark.parametrize(
    "pattern, message", [("(a", "not a regular expression"), ("[z-a]+", "not a regular expression")]
)
def test_an_invalid_pattern_is_refused(pattern, message):
    with pytest.raises(ValueError, match=message):
        tokens_of(["ab"], token_pattern=pattern)


def test_a_pattern_with_two_groups_is_refused():
    with pytest.raises(ValueError, match="2 groups"):
        tokens_of(["ab"], token_pattern=r"(a)(b)")
