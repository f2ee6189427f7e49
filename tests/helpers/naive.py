"""Slow, readable oracles, written from the papers in float64; they share no line with the kernels that they check."""

import numpy as np
import scipy.sparse

# --- Latent Dirichlet allocation ---


def lda_counts(docs, words, z, n_documents, n_words, n_topics):
    """A (D, K), B (V, K) and N (K,) of tokens given as three arrays (T,)."""
    A, B = np.zeros((n_documents, n_topics)), np.zeros((n_words, n_topics))
    np.add.at(A, (docs, z), 1)
    np.add.at(B, (words, z), 1)
    return A, B, B.sum(axis=0)


def lda_weights(A_d, B_v, N, alpha, beta, n_words, lowered=None):
    """Equation (1) of SaberLDA for every topic, unnormalised; one token of topic ``lowered`` is left out."""
    A_d, B_v, N = A_d.astype(float), B_v.astype(float), N.astype(float)
    if lowered is not None:
        A_d[lowered], B_v[lowered], N[lowered] = A_d[lowered] - 1, B_v[lowered] - 1, N[lowered] - 1
    return (A_d + alpha) * (B_v + beta) / (N + n_words * beta)


def lda_draws(key, n):
    """The first n numbers of a stream of SplitMix64, below 2^64."""
    for i in range(n):
        x = (int(key) + (i + 1) * 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        yield x ^ (x >> 31)


def lda_uniforms(key, n):
    """The same as float64 in [0, 1) with 53 bits."""
    return np.array([x // 2**11 / 2**53 for x in lda_draws(key, n)])


def lda_deal(items):
    """Deal items to eight lanes and join the lanes."""
    return [item for lane in range(8) for item in items[lane::8]]


def lda_line(A_d, B_v, N, alpha, beta, n_words, old, leave_out, order):
    """The pieces of a token's line, (topics, widths).

    ``order`` holds the document's topics as its row has them; None: the line of a dense row.
    """
    n_topics, less = len(alpha), float(leave_out)
    A_d, B_v, N = A_d.copy(), B_v.copy(), N.copy()
    A_d[old] -= less
    B_v[old] -= less
    N[old] -= less
    totals = N + n_words * beta
    phi = (B_v + beta) / totals
    if order is None:
        topics = np.array(lda_deal(list(range(n_topics))))
        return topics, ((A_d + alpha) * phi)[topics]
    others = np.array([k for k in range(n_topics) if k != old], int)
    dealt = np.array(lda_deal(list(order)), int)
    topics = np.concatenate([[old], others, others, dealt])
    smooth, word, document = alpha * beta / totals, alpha * B_v / totals, A_d * phi
    return topics, np.concatenate([[alpha[old] * phi[old]], smooth[others], word[others], document[dealt]])


def lda_sweep(docs, words, place, z, counts, prior, uniforms, leave_out, dense):
    """Draw every token's next topic from the whole distribution; ``prior`` is (alpha (K,), beta)."""
    (A, B, N), (alpha, beta) = counts, prior
    by_place = np.argsort(place)
    orders = {}
    for d in np.unique(docs):
        topics = z[by_place[docs[by_place] == d]]
        orders[d] = None if dense else list(dict.fromkeys(topics.tolist()))
    out = np.empty_like(z)
    for i in range(len(z)):
        d, v = docs[i], words[i]
        topics, widths = lda_line(A[d], B[v], N, alpha, beta, len(B), z[i], leave_out, orders[d])
        ends = np.cumsum(widths)
        out[i] = topics[min(np.searchsorted(ends, uniforms[i] * ends[-1], "right"), len(ends) - 1)]
    return out


def lda_log_likelihood(docs, words, counts, prior):
    """Moon's equation 2.3 (its log): Σ over tokens of log Σ_k φ_kv θ_dk."""
    (A, B, N), (alpha, beta) = counts, prior
    phi = (B + beta) / (N + len(B) * beta)
    theta = (A + alpha) / (A + alpha).sum(axis=1, keepdims=True)
    return sum(np.log(theta[d] @ phi[v]) for d, v in zip(docs, words, strict=True))


def lda_warp_uniforms(key, n):
    """(n, 4): columns 0 and 3 go by position in word order, columns 1 and 2, of one draw, by that in document order."""
    draws = list(lda_draws(key, 3 * n))
    return np.array(
        [
            (a // 2**11 / 2**53, b // 2**40 / 2**24, b % 2**31 / 2**31, c // 2**40 / 2**24)
            for a, b, c in zip(draws[0::3], draws[1::3], draws[2::3], strict=True)
        ]
    )


def lda_warp_sweep(docs, words, place, z, counts, prior, uniforms):
    """Both Metropolis-Hastings steps of WarpLDA, each token left out of its own counts; all arrays in word order."""
    (A, B, N), (alpha, beta) = counts, prior
    n_topics, mass = len(alpha), len(B) * beta
    everyone = list(range(len(z)))

    def step(now, new, u, target, proposal):
        ratio = target(new) * proposal(now) / (target(now) * proposal(new))
        return new if u < ratio else now

    def lowered(i, row):
        return row - (np.arange(n_topics) == z[i])

    after = z.copy()
    for i in everyone:
        line = np.repeat(np.arange(n_topics), lowered(i, B[words[i]]).astype(int))
        x = uniforms[i, 0] * (len(line) + n_topics * beta)
        new = line[int(x)] if x < len(line) else min(int((x - len(line)) / beta), n_topics - 1)
        a, b, n = (lowered(i, row) for row in (A[docs[i]], B[words[i]], N))
        after[i] = step(
            z[i],
            new,
            uniforms[place[i], 1],
            lambda k, a=a, b=b, n=n: (a[k] + alpha[k]) * (b[k] + beta) / (n[k] + mass),
            lambda k, b=b: b[k] + beta,
        )
    out = z.copy()
    for i in everyone:
        company = sorted((j for j in everyone if docs[j] == docs[i] and j != i), key=lambda j: place[j])
        x = uniforms[place[i], 2] * (len(company) + alpha.sum())
        ends = len(company) + np.cumsum(alpha)
        new = after[company[int(x)]] if x < len(company) else min(np.searchsorted(ends, x, "right"), n_topics - 1)
        b, n = lowered(i, B[words[i]]), lowered(i, N)
        a = np.bincount(after[company], minlength=n_topics) if company else np.zeros(n_topics)
        out[i] = step(
            after[i],
            new,
            uniforms[i, 3],
            lambda k, a=a, b=b, n=n: (a[k] + alpha[k]) * (b[k] + beta) / (n[k] + mass),
            lambda k, a=a: a[k] + alpha[k],
        )
    return out


def lda_collapsed(order, docs, words, z, counts, prior, uniforms):
    """Moon's Algorithm 1 over tokens in ``order``; ``counts`` (A, B, N) and ``z`` change in place."""
    (A, B, N), (alpha, beta) = counts, prior
    for i in order:
        d, w = docs[i], words[i]
        A[d, z[i]], B[w, z[i]], N[z[i]] = A[d, z[i]] - 1, B[w, z[i]] - 1, N[z[i]] - 1
        ends = np.cumsum(lda_weights(A[d], B[w], N, alpha, beta, len(B)))
        z[i] = np.searchsorted(ends, uniforms[i] * ends[-1], "right")
        A[d, z[i]], B[w, z[i]], N[z[i]] = A[d, z[i]] + 1, B[w, z[i]] + 1, N[z[i]] + 1


def lda_minibatch(batches, docs, words, z, prior, uniforms, n_words):
    """Moon's Algorithm 4, each token left out of its own counts, which are taken anew for every mini-batch."""
    alpha, beta = prior
    shape = max(docs) + 1, n_words, len(alpha)
    for batch in batches:
        A, B, N = lda_counts(docs, words, z, *shape)
        for i in batch:
            ends = np.cumsum(lda_weights(A[docs[i]], B[words[i]], N, alpha, beta, len(B), lowered=z[i]))
            z[i] = np.searchsorted(ends, uniforms[i] * ends[-1], "right")


def lda_uncollapsed(docs, words, theta, phi, uniforms):
    """Moon's Algorithm 2, the draw of topics, given θ (D, K) and φ (V, K)."""
    z = []
    for d, w, u in zip(docs, words, uniforms, strict=True):
        ends = np.cumsum(phi[w].astype(float) * theta[d])
        z.append(np.searchsorted(ends, u * ends[-1], "right"))
    return np.array(z)


def lda_folded_in(words, phi, alpha, still=0.05, further=0.5):
    """Topics (K,) of a document under φ (V, K): expectation-maximisation in longer steps, until little moves."""
    theta = alpha / alpha.sum() * (alpha.sum() + len(words))
    for _ in range(50):
        shares = [theta * phi[v] / (theta @ phi[v]) for v in words]
        step = alpha + np.sum(shares, axis=0) - theta
        theta = np.maximum(alpha, theta + (1 + further) * step)
        if np.abs(step).sum() <= still * (alpha.sum() + len(words)):
            break
    return theta / theta.sum()


def lda_learned_alpha(alpha, A, symmetric, steps=50):
    """Minka's fixed point, document by document; ψ(x + n) - ψ(x) of a whole n is a sum of n fractions."""
    alpha = [float(a) for a in alpha]
    for _ in range(steps):
        total = sum(alpha)
        spent = sum(1 / (total + i) for row in A for i in range(int(sum(row))))
        gained = [sum(1 / (a + i) for row in A for i in range(int(row[k]))) for k, a in enumerate(alpha)]
        gained = [sum(gained) / len(alpha)] * len(alpha) if symmetric else gained
        alpha = [max(a * g / spent, 1e-6) for a, g in zip(alpha, gained, strict=True)]
    return alpha


def lda_left_to_right(words, phi, alpha, streams):
    """Wallach's left-to-right estimate of log p(words); ``streams``: the uniform numbers of each particle, in turn."""
    total = 0.0
    particles = [[] for _ in streams]
    for n in range(len(words)):
        seen = []
        for z, uniforms in zip(particles, streams, strict=True):
            for i in range(n + 1):
                A = np.bincount(z[:i] + z[i + 1 : n], minlength=len(alpha)) if n else np.zeros(len(alpha))
                weights = (A + alpha) * phi[words[i]]
                if i == n:
                    seen.append(weights.sum() / (n + sum(alpha)))
                k = int(np.searchsorted(np.cumsum(weights), next(uniforms) * weights.sum(), "right"))
                z[i : i + 1] = [k]
        total += np.log(np.mean(seen))
    return total


def window_pairs(documents, n, window):
    """In how many windows both words of a pair are, (n, n), and how many windows there are."""
    windows = [set(d[i : i + window]) for d in documents for i in range(max(1, len(d) - window + 1))]
    return [[sum({v, w} <= held for held in windows) for w in range(n)] for v in range(n)], len(windows)


# --- Non-negative matrix factorisation ---


def nmf_fast_hals(A, W, H, epochs):
    """Algorithm 1 of ALO-NMF: A (V, D), W (V, K), H (K, D); yields (W, H) after each epoch."""
    W, H, epsilon = W.copy(), H.copy(), np.finfo(float).eps
    for _ in range(epochs):
        R, S = A.T @ W, W.T @ W
        for k in range(len(H)):
            H[k] = np.maximum(epsilon, H[k] + R[:, k] - H.T @ S[:, k])
        P, Q = A @ H.T, H @ H.T
        for k in range(len(H)):
            W[:, k] = np.maximum(epsilon, W[:, k] * Q[k, k] + P[:, k] - W @ Q[:, k])
            W[:, k] = W[:, k] / np.sqrt(np.sum(W[:, k] ** 2))
        yield W.copy(), H.copy()


def nmf_best_rows(A, W, H, epochs, l1=(0.0, 0.0), l2=(0.0, 0.0), sweeps=1):
    """Each row of H, then each column of W, to its own minimum of ½‖A − WH‖² + l1·Σ + ½l2·Σ², (of W, of H)."""
    W, H = W.copy(), H.copy()
    for _ in range(epochs):
        for _ in range(sweeps):
            for k in range(len(H)):
                residual = A - W @ H + np.outer(W[:, k], H[k])
                H[k] = np.maximum(0, (W[:, k] @ residual - l1[1]) / (W[:, k] @ W[:, k] + l2[1]))
        for _ in range(sweeps):
            for k in range(len(H)):
                residual = A - W @ H + np.outer(W[:, k], H[k])
                W[:, k] = np.maximum(0, (residual @ H[k] - l1[0]) / (H[k] @ H[k] + l2[0]))
        yield W.copy(), H.copy()


def nmf_extrapolated(X, before, momentum):
    """The point beyond X, entry by entry and never below zero, and its product with itself."""
    ahead = np.array(
        [[max(x + momentum * (x - b), 0.0) for x, b in zip(*rows, strict=True)] for rows in zip(X, before, strict=True)]
    )
    return ahead, ahead.T @ ahead


# --- Word2Vec and random walks ---


def word2vec_errors(W_a, a, W_b, rows, labels):
    """How far the products of row ``a`` with ``rows`` are from their labels, as probabilities."""
    return [label - 1 / (1 + np.exp(-(W_a[a] @ W_b[r]))) for r, label in zip(rows, labels, strict=True)]


def word2vec_move(W_a, a, W_b, rows, errors, alpha):
    """Move row ``a`` and each of ``rows``, both sides seeing row ``a`` as it was."""
    before, change = W_a[a].copy(), np.zeros_like(W_a[a])
    for r, error in zip(rows, errors, strict=True):
        change += alpha * error * W_b[r]
        W_b[r] += alpha * error * before
    W_a[a] += change


def word2vec_step(W_a, a, W_b, rows, labels, alpha):
    """Pairs of row ``a`` with each of ``rows``, products taken before any change; both sides move."""
    word2vec_move(W_a, a, W_b, rows, word2vec_errors(W_a, a, W_b, rows, labels), alpha)


def word2vec_context(sentence, i, reach):
    """The words within ``reach`` of place i."""
    return [w for j, w in enumerate(sentence) if j != i and abs(j - i) <= reach]


def word2vec_sgns(sentences, W_in, W_out, window, negative, table, keys, rate):
    """Algorithm 19. ``sentences``: lists of (place, word). ``keys``: of windows and of negatives."""
    for sentence in sentences:
        words = [w for _, w in sentence]
        for i, (place, word) in enumerate(sentence):
            reach = window - splitmix(keys[0], place) % window
            for c, other in enumerate(word2vec_context(words, i, reach)):
                first = (place * 2 * window + c) * negative
                drawn = [table[splitmix(keys[1], first + k) // 2**44 % len(table)] for k in range(negative)]
                targets = [word] + [w for w in drawn if w != word]
                word2vec_step(W_in, other, W_out, targets, [1] + [0] * (len(targets) - 1), rate(place))


def word2vec_full(sentences, W_in, W_out, window, negative, table, keys, rate):
    """FULL-W2V section 3: a window's samples one after the other, each with all of the window's context words."""
    for sentence in sentences:
        words = [w for _, w in sentence]
        for i, (place, word) in enumerate(sentence):
            context = word2vec_context(words, i, -(-window // 2))
            drawn = [table[splitmix(keys[1], place * negative + k) // 2**44 % len(table)] for k in range(negative)]
            for s, sample in enumerate([word] + [w for w in drawn if w != word]):
                word2vec_step(W_out, sample, W_in, context, [int(s == 0)] * len(context), rate(place))


def word2vec_par(sentences, W_in, W_out, window, negative, table, keys, rate, batch=24):
    """Algorithms 20 to 22, attraction and repulsion of one mini-batch before the next."""
    for sentence in (s for s in sentences if len(s) > 1):
        words = [w for _, w in sentence]
        for head in range(0, len(words), batch):
            place, members = sentence[head][0], range(head, min(head + batch, len(words)))
            reaches = [window - splitmix(keys[0], sentence[i][0]) % window for i in members]
            contexts = [word2vec_context(words, i, r) for i, r in zip(members, reaches, strict=True)]
            errors = [
                word2vec_errors(W_out, words[i], W_in, c, [1] * len(c)) for i, c in zip(members, contexts, strict=True)
            ]
            for i, context, error in zip(members, contexts, errors, strict=True):
                word2vec_move(W_out, words[i], W_in, context, error, rate(place))
            is_edge = head <= window - 1 or len(words) - 1 - head <= window - 1
            first = place * (2 * window * negative + 1)
            n = splitmix(keys[1], first) % (window if is_edge else 2 * window) * negative
            shared = [table[splitmix(keys[1], first + 1 + k) // 2**44 % len(table)] for k in range(n)]
            members = words[head : head + batch]
            M_in, M_out = W_in[members].copy(), W_out[shared].copy()
            gradient = -rate(place) / (1 + np.exp(-(M_out @ M_in.T)))
            np.add.at(W_in, members, gradient.T @ M_out)
            np.add.at(W_out, shared, gradient @ M_in)


def walk_probabilities(W, p, q, t, v):
    """Where a walk goes from v, come to from t (None: it begins in v): (V,), all 0 where there is no way out.

    ``W`` (V, V): the weights of the edges, 0 where there is none.
    """
    towards = W[v].astype(float)
    for x in np.flatnonzero(W[v]) if t is not None else []:
        if x == t:
            towards[x] *= 1 / p
        elif W[t, x] == 0:
            towards[x] *= 1 / q
    return towards / towards.sum() if towards.sum() else towards


# --- Random indexing ---


def splitmix(key, index):
    """The draw at ``index`` of stream ``key``, in Python's integers."""
    x = (key + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def ri_seed(word_hash, salt, dimension, seed_length):
    """One row of S (equation 2.4): +1 and -1 in turn at the first ``seed_length`` different positions drawn."""
    key, seed, index = splitmix(salt, word_hash), np.zeros(dimension), 0
    sign = 1
    while np.count_nonzero(seed) < seed_length:
        position = (splitmix(key, index) >> 32) * dimension >> 32
        index += 1
        if seed[position] == 0:
            seed[position] = sign
            sign = -sign
    return seed


def ri_rotation(offset, order):
    """Places that the seed of a neighbour at ``offset`` is rotated to the right (negative: to the left)."""
    return {"permutation": offset, "direction": 1 if offset > 0 else -1, "none": 0}[order]


def ri_train(docs, S, n_words, radius, order="permutation", weighting="uniform"):
    """Algorithm 2.1 before its last step: for every window position of every document, equation 2.7.

    ``docs``: lists of word ids, None for the null term.
    """
    T = np.zeros((n_words, S.shape[1]))
    for d in docs:
        for n, focus in enumerate(d):
            for offset in range(-radius, radius + 1):
                inside = 0 <= n + offset < len(d)
                if offset == 0 or not inside or focus is None or d[n + offset] is None:
                    continue
                weight = radius + 1 - abs(offset) if weighting == "linear" else 1
                T[focus] += weight * np.roll(S[d[n + offset]], ri_rotation(offset, order))
    return T


def ri_train_by_offset(docs, S, n_words, radius):
    """The same for order "permutation" as sums of products, neighbours counted by offset times their rotated seeds."""
    T = np.zeros((n_words, S.shape[1]), np.int64)
    text = np.concatenate(docs)
    document = np.repeat(np.arange(len(docs)), [len(d) for d in docs])
    for offset in range(1, radius + 1):
        same = document[:-offset] == document[offset:]
        left, right = text[:-offset][same], text[offset:][same]
        counts = scipy.sparse.csr_array((np.ones(len(left), np.int64), (left, right)), shape=(n_words, n_words))
        for neighbours, rotation in ((counts, offset), (counts.T, -offset)):
            T += (neighbours.tocsr() @ scipy.sparse.csr_array(np.roll(S, rotation, axis=1).astype(np.int64))).toarray()
    return T


def ri_normalised(T):
    """Step 5 of Algorithm 2.1."""
    lengths = np.sqrt((T.astype(float) ** 2).sum(axis=1))
    return T / np.where(lengths > 0, lengths, 1.0)[:, None]
