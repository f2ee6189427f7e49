"""Slow, readable reference implementation of collapsed Gibbs sampling in word order, as in naive.py."""

import numpy as np

from .naive import lda_lane_order


def lda_gibbs_sweep(docs, words, word_to_doc_order, z, counts, prior, uniforms, dense, apart=False):
    """Draw every token in turn, in word order, while A, B and N follow. Arguments are those of `lda_sweep`.

    If ``apart``, what the token before this one adds to the weight of its topic, if it is of the same word, has an
    interval at the end.
    """
    A, B, N = (table.astype(float) for table in counts)
    alpha, beta = prior
    mass = len(B) * beta
    # N of the part that is the same for all words stays as it is.
    from_beta = alpha * beta / (N + mass)
    z = z.copy()
    in_document_order = np.argsort(word_to_doc_order)
    document_topics, word_topics = {}, {}
    for d in np.unique(docs):
        document_topics[d] = list(dict.fromkeys(z[in_document_order[docs[in_document_order] == d]].tolist()))
    for i, (d, v) in enumerate(zip(docs, words, strict=True)):
        if i == 0 or v != words[i - 1] or v not in word_topics:
            # A row lists the topics of its tokens, in ascending order at first, then as they come.
            present = [k for k in word_topics.get(v, range(len(alpha))) if B[v, k] > 0]
            word_topics[v] = present
        old = z[i]
        without = np.arange(len(alpha)) == old
        a, b, n = A[d] - without, B[v] - without, N - without + mass
        if dense:
            topics = lda_lane_order(list(range(len(alpha))))
            weights = (a + alpha) * (b + beta) / n
            if apart and i > 0 and v == words[i - 1]:
                last = np.arange(len(alpha)) == z[i - 1]
                without_last = (a - last * (d == docs[i - 1]) + alpha) * (b - last + beta) / (n - last)
                topics = [*topics, z[i - 1]]
                weights = np.append(without_last, (weights - without_last)[z[i - 1]])
                widths = weights[[*topics[:-1], -1]]
            else:
                widths = weights[topics]
        else:
            entries = lda_lane_order(_in_whole_vectors(document_topics[d]))
            own = lda_lane_order(_in_whole_vectors(word_topics[v]))
            every = list(range(len(alpha)))
            parts = [a * (b + beta) / n, alpha * b / n, from_beta]
            topics = entries + own + every
            widths = [0 if k is None else p[k] for p, ks in zip(parts, (entries, own, every), strict=True) for k in ks]
        ends = np.cumsum(widths)
        new = topics[min(np.searchsorted(ends, uniforms[i] * ends[-1], "right"), len(ends) - 1)]
        if new == old:
            continue
        z[i] = new
        for row, change in ((A[d], document_topics[d]), (B[v], None), (N, None)):
            row[old] -= 1
            row[new] += 1
            if change is not None and row[old] == 0:
                # The last topic of the row takes the place of one without tokens.
                change[change.index(old)] = change[-1]
                change.pop()
        for known in (document_topics[d], word_topics[v]):
            if new not in known:
                known.append(new)
    return z


def _in_whole_vectors(topics):
    """Pad a list with None to a multiple of eight."""
    return topics + [None] * (-len(topics) % 8)
