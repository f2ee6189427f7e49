"""A large corpus of real text: the corpora at hand, written many times, with words renamed in each copy.

In real text, the number of distinct words grows with a power of the length (Heaps' law). So the most frequent words
are the same in all copies, and the others get a suffix: copy c has the variant floor(c^GROWTH) of them.
"""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.common import data_file

FILES = ("wiki8.txt", "nips.jsonl", "20news-bydate.jsonl", "kjv.tsv")
WORD = re.compile(r"[a-z]{2,}")
#: Tokens of a document.
LENGTH = 500
#: Words that are the same in all copies: the most frequent ones, among them all function words.
COMMON = 500
#: Exponent of Heaps' law, which is 0.4 to 0.6 in English text.
GROWTH = 0.5


def read_words(folder: Path, quick: bool) -> tuple[list[str], np.ndarray]:
    """Return the distinct words of the corpora, most frequent first, and their tokens as ids: (T,) int32."""
    texts = []
    for name in FILES[-1:] if quick else FILES:
        content = data_file(folder, name).read_text()
        if name.endswith(".jsonl"):
            content = "\n".join(json.loads(line)["text"] for line in content.splitlines())
        texts.extend(WORD.findall(content.lower()))
    encoded = pa.array(texts).dictionary_encode()
    ids = encoded.indices.to_numpy()
    order = np.argsort(-np.bincount(ids), kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    return encoded.dictionary.take(order).to_pylist(), rank[ids]


def variant(copy: int) -> int:
    """Return the variant of the words that a copy has."""
    return int(copy**GROWTH)


def write_copy(target: Path, words: list[str], tokens: np.ndarray, copy: int) -> None:
    """Write one copy of the text as documents of `LENGTH` tokens: a JSONL file, compressed with zstd."""
    suffix = "" if variant(copy) == 0 else chr(ord("a") + variant(copy) % 26) * (2 + variant(copy) // 26)
    renamed = pa.array(words[:COMMON] + [word + suffix for word in words[COMMON:]])
    starts = np.append(np.arange(0, len(tokens), LENGTH), len(tokens)).astype(np.int32)
    # A copy begins at another token, so that no two copies have the same documents.
    texts = renamed.take(pa.array(np.roll(tokens, copy * LENGTH // 3)))
    documents = pc.binary_join(pa.ListArray.from_arrays(starts, texts), " ")
    lines = pc.binary_join_element_wise('{"text":"', documents, '"}\n', "")
    unfinished = target.with_suffix(".unfinished")
    with pa.CompressedOutputStream(str(unfinished), "zstd") as stream:
        for line in lines.to_pylist():
            stream.write(line.encode())
    unfinished.rename(target)
