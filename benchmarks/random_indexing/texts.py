"""Texts of the benchmarks: documents as lists of words, and as word ids."""

import json
import re
from collections import Counter
from typing import NamedTuple

import numpy as np
from corpusmill.kernels.random_indexing import text as ri_text

from benchmarks.common import Session, data_file


class Text(NamedTuple):
    """Documents as word ids."""

    words: list[str]  # the words by id, most frequent first
    doc_ptr: np.ndarray  # (D + 1,) int64
    ids: np.ndarray  # (T,) uint32
    hashes: np.ndarray  # (V,) uint64: hashes of the words, which their seeds follow from
    frequency: np.ndarray  # (V,) int64


def documents(session: Session, name: str) -> list[list[str]]:
    """Return chapters of the King James Bible, papers of NIPS, or Wikipedia in pieces of 1,000 words."""
    if session.quick:
        return [[f"w{i * i * 7919 % 211 % (1 + i % 97)}" for i in range(d, d + 200)] for d in range(20)]
    if name == "kjv":
        chapters: dict[tuple[str, str], list[str]] = {}
        for line in data_file(session.data, "kjv.tsv").read_text().splitlines():
            book, chapter, _, text = line.split("\t")
            chapters.setdefault((book, chapter), []).extend(re.findall("[a-z']+", text.lower()))
        return list(chapters.values())
    if name == "nips":
        lines = data_file(session.data, "nips.jsonl").read_text().splitlines()
        return [re.findall("[a-z']+", json.loads(line)["text"].lower()) for line in lines]
    words = data_file(session.data, "wiki8.txt").read_text().split()
    return [words[i : i + 1000] for i in range(0, len(words), 1000)]


def encode(session: Session, name: str, tokens: int) -> Text:
    """Number the words of the first documents with about ``tokens`` tokens, by falling frequency."""
    chosen = documents(session, name)
    chosen = chosen[: int(np.searchsorted(np.cumsum([len(d) for d in chosen]), tokens)) + 1]
    counts = Counter(word for document in chosen for word in document)
    words = sorted(counts, key=lambda word: (-counts[word], word))
    id_of = {word: i for i, word in enumerate(words)}
    doc_ptr = np.r_[0, np.cumsum([len(document) for document in chosen])].astype(np.int64)
    ids = np.array([id_of[word] for document in chosen for word in document], np.uint32)
    return Text(words, doc_ptr, ids, ri_text.hash_words(words), np.bincount(ids, minlength=len(words)))
