r"""Splitting documents into tokens in Python: texts by any regular expression, token lists, and counted words.

The meaning of the options is that of scikit-learn's CountVectorizer. Most patterns, such as the default, match runs of
characters of one class. `character_run` finds them, and ingest splits such texts by a compiled kernel instead, with the
same result.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..readers.batches import Bag, Batch

#: The default of scikit-learn: words of two or more letters, digits or underscores.
TOKEN_PATTERN = r"(?u)\b\w\w+\b"
#: Largest column number up to which the columns of a bag are counted in an array, not sorted.
MAX_COUNTED_COLUMN = 1 << 24

#: Patterns of words: \w+, \w\w+ and so on, maybe between word boundaries.
_WORD_PATTERN = re.compile(r"(?:\(\?u\))?(?:\\b)?((?:\\w)+)\+(?:\\b)?")
#: Patterns of runs of another class: \S+, [a-z]+, [a-z]{3,}.
_RUN_PATTERN = re.compile(r"(?:\(\?u\))?(\\w|\\S|\[[^\]\\\[]+\])(?:\+|\{(\d+),\})")


@dataclass(frozen=True)
class TokenOptions:
    """How text is split into tokens. Names and meanings are those of scikit-learn's CountVectorizer."""

    lowercase: bool = True
    token_pattern: str = TOKEN_PATTERN


class Tokens(NamedTuple):
    """Documents as numbers of words. D documents, T tokens, W distinct words in any order."""

    doc_ptr: np.ndarray  # (D + 1,) int64
    ids: np.ndarray  # (T,) int32: index in ``words``
    words: pa.Array  # (W,) large_string


class CharacterRun(NamedTuple):
    """Tokens that are maximal runs of characters of one class."""

    character_class: str  # a regular expression for one character
    min_length: int


def tokenise(batch: Batch, options: TokenOptions) -> Tokens:
    """Return the tokens of a batch of texts, token lists or counted words; raise ValueError for a bad pattern."""
    if isinstance(batch.content, Bag):
        return _split_bag(batch.content)
    if pa.types.is_large_list(batch.content.type):
        return _split_lists(batch.content)
    return _split_by_pattern(batch.content, options)


def character_run(pattern: str) -> CharacterRun | None:
    r"""Return what a pattern such as \w+ matches if it matches maximal runs of one class, else None.

    Raises ValueError for a bad pattern.
    """
    _compiled(pattern)
    words = _WORD_PATTERN.fullmatch(pattern)
    if words:
        return CharacterRun(r"\w", words[1].count("w"))
    run = _RUN_PATTERN.fullmatch(pattern)
    if run is None or run[2] == "0":
        return None
    return CharacterRun(run[1], int(run[2] or 1))


# --- lists, bags, and any pattern ---


def _split_lists(lists: pa.Array) -> Tokens:
    # Arrow numbers distinct words in the order of their first occurrence.
    encoded = lists.flatten().cast(pa.large_string()).dictionary_encode()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    doc_ptr = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return Tokens(doc_ptr, encoded.indices.to_numpy(), encoded.dictionary)


def _split_bag(bag: Bag) -> Tokens:
    # An array with one element per possible column is faster than sorting, unless columns are hashes.
    if int(bag.columns.max(initial=0)) > MAX_COUNTED_COLUMN:
        present, ids = np.unique(bag.columns, return_inverse=True)
    else:
        is_present = np.bincount(bag.columns) > 0
        present = np.flatnonzero(is_present)
        ids = (np.cumsum(is_present) - 1)[bag.columns]
    if bag.names is None:
        names = pa.array(present).cast(pa.string())
    else:
        names = bag.names.take(pa.array(present))
    return Tokens(bag.doc_ptr, ids.astype(np.int32), names.cast(pa.large_string()))


def _split_by_pattern(texts: pa.Array, options: TokenOptions) -> Tokens:
    # findall returns the group of a pattern with one group, and the whole match otherwise, as scikit-learn does.
    pattern = _compiled(options.token_pattern)
    lists = []
    for text in texts.to_pylist():
        lists.append(pattern.findall(text.lower() if options.lowercase else text))
    return _split_lists(pa.array(lists, pa.large_list(pa.large_string())))


def _compiled(token_pattern: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(token_pattern)
    except re.error as error:
        raise ValueError(f"token_pattern={token_pattern!r} is not a regular expression: {error}") from None
    if pattern.search("") is not None:
        raise ValueError(
            f"token_pattern={token_pattern!r} also matches nothing, so the empty word would be everywhere; write + in "
            f"place of *"
        )
    if pattern.groups > 1:
        raise ValueError(f"token_pattern={token_pattern!r} has {pattern.groups} groups; at most one is allowed")
    return pattern
