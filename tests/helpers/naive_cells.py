"""Reference implementations of the pairs of skip-gram in cells, and of the training of a cell. See naive.py."""

import math

import numpy as np

from .naive import splitmix, word2vec_context, word2vec_errors, word2vec_move


def pairs_of(docs, places, keep, window, keys, passage=0):
    """Return the pairs of documents, in the order of the text, as lists of (centre, context) for each cell.

    ``docs`` are lists of (token, word), ``places`` the (block, row) of each word; a pair has the rows alone. ``keys``
    are those of subsampling and of windows. Repetitions of a word among ``passage`` kept words are thinned.
    """
    cells = {}
    for doc in docs:
        kept = []
        for i, word in doc:
            if word < len(places) and splitmix(keys[0], i) // 2**40 / 2**24 < keep[word]:
                kept.append((i, places[word]))
        for k, (i, centre) in enumerate(kept):
            reach = window - splitmix(keys[1], i) % window
            if passage:
                before = [place for _, place in kept[k - k % passage : k]]
                if (splitmix(keys[1], i) // 2**40 / 2**24) ** 2 * (1 + before.count(centre)) >= 1:
                    continue
            for context in word2vec_context([place for _, place in kept], k, reach):
                cells.setdefault((centre[0], context[0]), []).append((centre[1], context[1]))
    return cells


def runs_of(pairs, size):
    """Cut sorted pairs (centre, context) into heavy centres and runs of at most ``size``: lists of places of pairs."""
    groups = []
    for p, (centre, _) in enumerate(pairs):
        if p and pairs[p - 1][0] == centre:
            groups[-1].append(p)
        else:
            groups.append([p])
    most = size * max(2, sum(-(-len(group) // size) for group in groups) // 16)
    heavy = [group for group in groups if len(group) > most]
    light = [group for group in groups if len(group) <= most]
    runs = [group[a : a + size] for group in light for a in range(0, len(group), size)]
    stride = stride_of(len(runs))
    return heavy, [runs[k * stride % len(runs)] for k in range(len(runs))]


def stride_of(n):
    """The least number from the golden section of n on that has no common divisor with n."""
    stride = max(1, int(0.618 * n))
    while math.gcd(stride, n) > 1:
        stride += 1
    return stride


def batches_of(pairs, runs, centre, limit):
    """Join runs to batches: at most 16 runs and ``limit`` pairs, and at most ``centre`` pairs of one centre."""
    batches = []
    for run in runs:
        batch = batches[-1] if batches else []
        joined = [p for other in [*batch, run] for p in other]
        same = sum(pairs[p][0] == pairs[run[0]][0] for p in joined)
        if batch and len(batch) < 16 and len(joined) <= limit and same <= centre:
            batch.append(run)
        else:
            batches.append([run])
    return batches


def limits_of(alpha, per_pair, heaviest):
    """The most pairs of a run, of one centre, of a batch, and of a run of a heavy centre."""
    same_context = max(1, 0.25 / (alpha * math.sqrt(heaviest)))
    centre = int(max(1, min(8, 2 / per_pair)))
    run = int(min(2, centre, same_context))
    batch = int(max(run, min(32, 1 / (per_pair * heaviest))))
    return run, centre, batch, int(max(1, min(centre, same_context, 0.5 / (per_pair * heaviest))))


def train_cell(pairs, W_in, W_out, table, negative, weight, heaviest, rate, key):
    """Train sorted pairs (centre, context) of one cell: heavy centres, then batches of runs with 16 shared negatives.

    ``rate`` is the learning rate as a function of the number of pairs done.
    """
    per_pair = min(0.5, rate(0) * negative * weight)
    run_limit, centre_limit, batch_limit, heavy_limit = limits_of(rate(0), per_pair, heaviest)
    strength = per_pair / rate(0) / 16
    heavy, runs = runs_of(pairs, run_limit)
    done = 0

    def negatives_at(head):
        part = len(table) // 16
        return [table[o * part + splitmix(key, head * 16 + o) // 2**48 % part] for o in range(16)]

    for group in heavy:
        for a in range(0, len(group), heavy_limit):
            run = group[a : a + heavy_limit]
            centre, contexts, negatives = pairs[run[0]][0], [pairs[p][1] for p in run], negatives_at(run[0])
            errors = word2vec_errors(W_in, centre, W_out, contexts + negatives, [1] * len(run) + [0] * 16)
            weights = [1] * len(run) + [len(run) * strength] * 16
            errors = [error * w for error, w in zip(errors, weights, strict=True)]
            word2vec_move(W_in, centre, W_out, contexts + negatives, errors, rate(done))
            done += len(run)
    for batch in batches_of(pairs, runs, centre_limit, batch_limit):
        alpha = rate(done)
        attracted = [(pairs[run[0]][0], [pairs[p][1] for p in run]) for run in batch]
        errors = [word2vec_errors(W_in, v, W_out, contexts, [1] * len(contexts)) for v, contexts in attracted]
        for (v, contexts), error in zip(attracted, errors, strict=True):
            word2vec_move(W_in, v, W_out, contexts, error, alpha)
        centres, negatives = [pairs[run[0]][0] for run in batch], negatives_at(batch[0][0])
        V, U = W_in[centres].copy(), W_out[negatives].copy()
        weights = np.array([len(run) for run in batch]) * strength
        G = -alpha * weights[:, None] / (1 + np.exp(-(V @ U.T)))
        np.add.at(W_out, negatives, G.T @ V)
        np.add.at(W_in, centres, G @ U)
        done += sum(len(run) for run in batch)
