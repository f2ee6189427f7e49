"""Slow, readable reference implementation of collapsed Gibbs sampling in word order, as in naive.py."""

import numpy as np

from .naive import lda_lane_order


def lda_gibbs_sweep(docs, words, word_to_doc_order, z, counts, prior, uniforms, form):
    """Draw every token in turn, in word order, while A, B and N follow. Arguments are those of `lda_sweep`.

    Rows of A in the form "registers" have one interval per topic. So have "dense" ones, but what the token before this
    one adds to the weight of its topic, if it is of the same word, has an interval at the end. "sparse" ones have an
    interval for each topic of the document, then for each topic of the word, then for each topic.
    """
    A, B, N = (table.astype(float) for table in counts)
    alpha, beta = prior
    mass = len(B) * beta
    z = z.copy()
    in_document_order = np.argsort(word_to_doc_order)
    document_topics = {d: topics_in_order(z[in_document_order[docs[in_document_order] == d]]) for d in np.unique(docs)}
    word_topics = {}
    most = max(64, 4 * len(alpha))
    if form == "registers":
        most = int(max(1, min(most, N.sum() // (16 * len(alpha)))))
    drawn, piece_end = most, 0
    for i, (d, v) in enumerate(zip(docs, words, strict=True)):
        if i == piece_end:
            # A row lists the topics of its tokens, in ascending order at first, then as they come.
            present = [k for k in word_topics.get(v, range(len(alpha))) if B[v, k] > 0]
            word_topics[v] = present
            if form == "registers" or drawn >= most:
                inverse = 1 / (N + mass)
                drawn = 0
            piece_start, piece_end = i, i + int(np.argmin(np.append(words[i : i + most] == v, False)))
            drawn += piece_end - piece_start
        old = z[i]
        without = np.arange(len(alpha)) == old
        a, b = A[d] - without, B[v] - without
        used = inverse.copy()
        if form == "sparse" or (form == "registers" and most == 1):
            used[old] = 1 / (N[old] - 1 + mass)
        if form == "sparse":
            parts = [a * (b + beta) * used, alpha * b * inverse, alpha * beta * inverse]
            topics, widths = sparse_intervals(parts, document_topics[d], word_topics[v])
        else:
            topics = lda_lane_order(list(range(len(alpha))))
            weights = (a + alpha) * (b + beta) * used
            if form == "dense" and i > piece_start:
                rest = without_last(A[d], B[v], alpha, beta, inverse, old, z[i - 1], d == docs[i - 1])
                widths, topics = np.append(rest[topics], (weights - rest)[z[i - 1]]), [*topics, z[i - 1]]
            else:
                widths = weights[topics]
        ends = np.cumsum(widths)
        new = topics[min(np.searchsorted(ends, uniforms[i] * ends[-1], "right"), len(ends) - 1)]
        if new == old:
            continue
        z[i] = new
        for row in (A[d], B[v], N):
            row[old] -= 1
            row[new] += 1
        if A[d, old] == 0:
            # The last topic of the row takes the place of one without tokens.
            document_topics[d][document_topics[d].index(old)] = document_topics[d][-1]
            document_topics[d].pop()
        ratios = (N + mass)[[old, new]] * inverse[[old, new]]
        if form != "registers" and (ratios.max() > 1.06 or ratios.min() < 0.94):
            piece_end = i + 1 if form == "sparse" else min(piece_end, i + 2)
            drawn = most
        for known in (document_topics[d], word_topics[v]):
            if new not in known:
                known.append(new)
    return z


def lda_gibbs_sweep_in_pairs(docs, words, word_to_doc_order, z, counts, prior, uniforms, groups, document_middles):
    """Draw the quarters of each group, halves of its documents by halves of its words, one after the other.

    The two quarters of a turn share neither documents nor words, and they see the same N, so their order is of no
    consequence. ``groups`` are the first and last token of each group, and ``document_middles`` the first document of
    its second half.
    """
    A, B, N = (table.copy() for table in counts)
    z = z.copy()
    for (first, stop), middle in zip(groups, document_middles, strict=True):
        firsts = [i for i in range(first, stop) if i == first or words[i] != words[i - 1]]
        later = [i for i in firsts if i >= (first + stop) // 2]
        cut = later[0] if later else stop
        for turn in range(2):
            before = N.copy()
            for half in range(2):
                is_late_word = np.arange(first, stop) >= cut
                part = first + np.flatnonzero((is_late_word == (half != turn)) & ((docs[first:stop] >= middle) == half))
                if not len(part):
                    continue
                table = A, B, before
                arguments = docs[part], words[part], np.argsort(np.argsort(word_to_doc_order[part]))
                new = lda_gibbs_sweep(*arguments, z[part], table, prior, uniforms[part], "registers")
                np.add.at(A, (docs[part], z[part]), -1)
                np.add.at(B, (words[part], z[part]), -1)
                np.add.at(N, z[part], -1)
                z[part] = new
                np.add.at(A, (docs[part], new), 1)
                np.add.at(B, (words[part], new), 1)
                np.add.at(N, new, 1)
    return z


def _in_whole_vectors(topics):
    """Pad a list with None to a multiple of eight."""
    return topics + [None] * (-len(topics) % 8)


def sparse_intervals(parts, document_topics, word_topics):
    """Return topics and widths of the intervals of a document's topics, of a word's topics, and of every topic."""
    entries = lda_lane_order(_in_whole_vectors(document_topics))
    own = lda_lane_order(_in_whole_vectors(word_topics))
    every = list(range(len(parts[0])))
    widths = [0 if k is None else p[k] for p, ks in zip(parts, (entries, own, every), strict=True) for k in ks]
    return entries + own + every, widths


def topics_in_order(z):
    """Return the topics of some tokens, each once."""
    return list(dict.fromkeys(z.tolist()))


def without_last(a, b, alpha, beta, inverse, old, last, is_same_document):
    """Return the weights of the topics without a token of topic ``old`` and the token before it, of topic ``last``."""
    here, before = np.arange(len(alpha)) == old, np.arange(len(alpha)) == last
    return (a - here - before * is_same_document + alpha) * (b - here - before + beta) * inverse
