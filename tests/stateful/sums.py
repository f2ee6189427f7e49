"""What a model of random indexing has learned, in a form that does not depend on the order of its words."""


def sums_by_word(estimator):
    """Return the sums and statistics of each word that occurs in the documents."""
    sums = estimator.model_.joined("sums")
    statistics = estimator.model_.joined("statistics")
    rows = zip(estimator.words_, sums, statistics, strict=True)
    return {word: (row.tolist(), counts.tolist()) for word, row, counts in rows if counts[0]}
