"""Seed words of LDA's topics, as pseudo-counts."""

from collections.abc import Sequence

from ....io.stores.corpus import Corpus
from ....io.text.vocabulary import find_word_ids


def seed_counts(seeds: Sequence[Sequence[str]], weight: int, corpus: Corpus) -> tuple[tuple[int, int, int], ...]:
    """Return the pseudo-counts of the seed words of each topic as ascending (word, topic, count).

    Raises ValueError if the corpus lacks a seed word.
    """
    words = sorted({word for topic in seeds for word in topic})
    ids = find_word_ids(words, corpus.vocabulary)
    unknown = [word for word, v in zip(words, ids, strict=True) if v < 0]
    if unknown:
        raise ValueError(f"seeds: {corpus.title} does not contain {', '.join(unknown)}: remove these words from seeds")
    id_of = dict(zip(words, ids.tolist(), strict=True))
    pairs = {(id_of[word], k) for k, topic in enumerate(seeds) for word in topic}
    return tuple((v, k, weight) for v, k in sorted(pairs))
