"""Slow, readable reference implementations, written from the papers in float64.

They share no code with the kernels that they check. Even random numbers are implemented a second time, by `splitmix`.
Each kernel names its reference implementation in its first lines. Arrays have the kernels' shapes unless noted.
"""

import numpy as np
import scipy.sparse

# --- random numbers ---


def splitmix(key, index):
    """The draw at ``index`` of the stream ``key``, below 2^64: SplitMix64 in Python's integers."""
    x = (key + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def lda_uniforms(key, n):
    """The first n draws of a stream as float64 in [0, 1) with 53 bits: (n,)."""
    return np.array([splitmix(int(key), i) // 2**11 / 2**53 for i in range(n)])


# --- Latent Dirichlet allocation ---


def lda_counts(docs, words, z, n_documents, n_words, n_topics):
    """Return A (D, K), B (V, K) and N (K,) of T tokens, given by their documents, words and topics."""
    A, B = np.zeros((n_documents, n_topics)), np.zeros((n_words, n_topics))
    np.add.at(A, (docs, z), 1)
    np.add.at(B, (words, z), 1)
    return A, B, B.sum(axis=0)


def lda_weights(A_d, B_v, N, alpha, beta, n_words, left_out=None):
    """Return SaberLDA's equation (1) for every topic, not normalised: (K,).

    ``left_out``: the topic of a token that is left out of the counts.
    """
    A_d, B_v, N = A_d.astype(float), B_v.astype(float), N.astype(float)
    if left_out is not None:
        A_d[left_out] -= 1
        B_v[left_out] -= 1
        N[left_out] -= 1
    return (A_d + alpha) * (B_v + beta) / (N + n_words * beta)


def lda_lane_order(items):
    """Deal items to eight lanes and join the lanes: items 0, 8, 16, ... first, then 1, 9, 17, ..."""
    ordered = []
    for lane in range(8):
        ordered += items[lane::8]
    return ordered


def lda_intervals(A_d, B_v, N, alpha, beta, n_words, old, leave_out, order):
    """Return the intervals of a token's distribution in the order of the kernel: their topics and their widths.

    ``order`` lists the topics of the document's row; None stands for a dense row, which has one interval per topic.
    """
    n_topics, less = len(alpha), float(leave_out)
    A_d, B_v, N = A_d.copy(), B_v.copy(), N.copy()
    A_d[old] -= less
    B_v[old] -= less
    N[old] -= less
    totals = N + n_words * beta
    phi = (B_v + beta) / totals
    if order is None:
        topics = np.array(lda_lane_order(list(range(n_topics))))
        return topics, ((A_d + alpha) * phi)[topics]
    others = np.array([k for k in range(n_topics) if k != old], int)
    entries = np.array(lda_lane_order(list(order)), int)
    from_beta, from_word, from_document = alpha * beta / totals, alpha * B_v / totals, A_d * phi
    topics = np.concatenate([[old], others, others, entries])
    widths = [[alpha[old] * phi[old]], from_beta[others], from_word[others], from_document[entries]]
    return topics, np.concatenate(widths)


def lda_sweep(docs, words, word_to_doc_order, z, counts, prior, uniforms, leave_out, dense):
    """Draw every token's next topic from its whole distribution; arrays of tokens are in word order.

    ``counts`` is (A, B, N), ``prior`` is (alpha (K,), beta).
    """
    A, B, N = counts
    alpha, beta = prior
    in_document_order = np.argsort(word_to_doc_order)
    row_orders = {}
    for d in np.unique(docs):
        topics = z[in_document_order[docs[in_document_order] == d]]
        # A row lists its topics in the order of their first tokens.
        row_orders[d] = None if dense else list(dict.fromkeys(topics.tolist()))
    out = np.empty_like(z)
    for i in range(len(z)):
        d, v = docs[i], words[i]
        topics, widths = lda_intervals(A[d], B[v], N, alpha, beta, len(B), z[i], leave_out, row_orders[d])
        ends = np.cumsum(widths)
        out[i] = topics[min(np.searchsorted(ends, uniforms[i] * ends[-1], "right"), len(ends) - 1)]
    return out


def lda_log_likelihood(docs, words, counts, prior):
    """Return Moon's equation 2.3, where Σ is printed as Π: the sum over tokens of log Σ_k φ_kv θ_dk."""
    A, B, N = counts
    alpha, beta = prior
    phi = (B + beta) / (N + len(B) * beta)
    theta = (A + alpha) / (A + alpha).sum(axis=1, keepdims=True)
    return sum(np.log(theta[d] @ phi[v]) for d, v in zip(docs, words, strict=True))


def lda_warp_uniforms(key, n):
    """Return the uniform numbers of n tokens: (n, 4), the columns in the order in which a sweep uses them.

    Columns 0 and 3 are indexed by position in word order. Columns 1 and 2 are parts of one draw, and are indexed by
    position in document order.
    """
    rows = []
    for i in range(n):
        first, second, third = (splitmix(int(key), 3 * i + draw) for draw in range(3))
        rows.append((first // 2**11 / 2**53, second // 2**40 / 2**24, second % 2**31 / 2**31, third // 2**40 / 2**24))
    return np.array(rows)


def lda_metropolis(now, new, u, target, proposal):
    """Return ``new`` if the uniform number u accepts it by Metropolis and Hastings, else ``now``."""
    ratio = target(new) * proposal(now) / (target(now) * proposal(new))
    return new if u < ratio else now


def lda_warp_sweep(docs, words, word_to_doc_order, z, counts, prior, uniforms):
    """Make both steps of WarpLDA, each token left out of its own counts; arrays of tokens are in word order."""
    A, B, N = counts
    alpha, beta = prior
    n_topics, mass = len(alpha), len(B) * beta
    tokens = list(range(len(z)))

    def without(i, row):
        return row - (np.arange(n_topics) == z[i])

    # Step 1: propose in proportion to B_vk + β, accept by the whole distribution.
    after = z.copy()
    for i in tokens:
        urn = np.repeat(np.arange(n_topics), without(i, B[words[i]]).astype(int))
        x = uniforms[i, 0] * (len(urn) + n_topics * beta)
        new = urn[int(x)] if x < len(urn) else min(int((x - len(urn)) / beta), n_topics - 1)
        a, b, n = (without(i, row) for row in (A[docs[i]], B[words[i]], N))
        after[i] = lda_metropolis(
            z[i],
            new,
            uniforms[word_to_doc_order[i], 1],
            lambda k, a=a, b=b, n=n: (a[k] + alpha[k]) * (b[k] + beta) / (n[k] + mass),
            lambda k, b=b: b[k] + beta,
        )
    # Step 2: propose in proportion to A_dk + α_k, with A counted after step 1, and accept likewise.
    out = z.copy()
    for i in tokens:
        same_document = [j for j in tokens if docs[j] == docs[i] and j != i]
        same_document.sort(key=lambda j: word_to_doc_order[j])
        n_others = len(same_document)
        x = uniforms[word_to_doc_order[i], 2] * (n_others + alpha.sum())
        if x < n_others:
            new = after[same_document[int(x)]]
        else:
            new = min(np.searchsorted(n_others + np.cumsum(alpha), x, "right"), n_topics - 1)
        b, n = without(i, B[words[i]]), without(i, N)
        a = np.bincount(after[same_document], minlength=n_topics) if n_others else np.zeros(n_topics)
        out[i] = lda_metropolis(
            after[i],
            new,
            uniforms[i, 3],
            lambda k, a=a, b=b, n=n: (a[k] + alpha[k]) * (b[k] + beta) / (n[k] + mass),
            lambda k, a=a: a[k] + alpha[k],
        )
    return out


def lda_collapsed(order, docs, words, z, counts, prior, uniforms):
    """Moon's Algorithm 1 over the tokens in ``order``; ``counts`` (A, B, N) and ``z`` change in place."""
    A, B, N = counts
    alpha, beta = prior
    for i in order:
        d, w = docs[i], words[i]
        A[d, z[i]] -= 1
        B[w, z[i]] -= 1
        N[z[i]] -= 1
        ends = np.cumsum(lda_weights(A[d], B[w], N, alpha, beta, len(B)))
        z[i] = np.searchsorted(ends, uniforms[i] * ends[-1], "right")
        A[d, z[i]] += 1
        B[w, z[i]] += 1
        N[z[i]] += 1


def lda_minibatch(batches, docs, words, z, prior, uniforms, n_words):
    """Moon's Algorithm 4, but each token is left out of its own counts. A mini-batch is drawn from new counts."""
    alpha, beta = prior
    shape = max(docs) + 1, n_words, len(alpha)
    for batch in batches:
        A, B, N = lda_counts(docs, words, z, *shape)
        for i in batch:
            ends = np.cumsum(lda_weights(A[docs[i]], B[words[i]], N, alpha, beta, len(B), left_out=z[i]))
            z[i] = np.searchsorted(ends, uniforms[i] * ends[-1], "right")


def lda_uncollapsed(docs, words, theta, phi, uniforms):
    """Draw topics (T,) given θ (D, K) and φ (V, K): a part of Moon's Algorithm 2."""
    z = []
    for d, w, u in zip(docs, words, uniforms, strict=True):
        ends = np.cumsum(phi[w].astype(float) * theta[d])
        z.append(np.searchsorted(ends, u * ends[-1], "right"))
    return np.array(z)


def lda_folded_in(words, phi, alpha, tolerance=0.05, overstep=0.5):
    """Return the topic shares (K,) of a document under φ (V, K): expectation-maximisation with longer steps."""
    mass = alpha.sum() + len(words)
    theta = alpha / alpha.sum() * mass
    for _ in range(50):
        shares = [theta * phi[v] / (theta @ phi[v]) for v in words]
        step = alpha + np.sum(shares, axis=0) - theta
        theta = np.maximum(alpha, theta + (1 + overstep) * step)
        if np.abs(step).sum() <= tolerance * mass:
            break
    return theta / theta.sum()


def lda_learned_alpha(alpha, A, symmetric, steps=50):
    """Minka's fixed point, document by document.

    For a whole number n, ψ(x + n) − ψ(x) is the sum of 1 / (x + i) over i < n, so no function ψ is needed.
    """
    alpha = [float(a) for a in alpha]
    for _ in range(steps):
        total = sum(alpha)
        spent = sum(1 / (total + i) for row in A for i in range(int(sum(row))))
        gained = []
        for k, a in enumerate(alpha):
            gained.append(sum(1 / (a + i) for row in A for i in range(int(row[k]))))
        if symmetric:
            gained = [sum(gained) / len(alpha)] * len(alpha)
        alpha = [max(a * g / spent, 1e-6) for a, g in zip(alpha, gained, strict=True)]
    return alpha


def lda_left_to_right(words, phi, alpha, streams):
    """Return Wallach's left-to-right estimate of log p(words).

    ``streams`` has one iterator of uniform numbers per particle.
    """
    total = 0.0
    particles = [[] for _ in streams]
    for n in range(len(words)):
        probabilities = []
        for z, uniforms in zip(particles, streams, strict=True):
            for i in range(n + 1):
                others = z[:i] + z[i + 1 : n]
                counts = np.bincount(others, minlength=len(alpha)) if others else np.zeros(len(alpha))
                weights = (counts + alpha) * phi[words[i]]
                if i == n:
                    probabilities.append(weights.sum() / (n + sum(alpha)))
                k = int(np.searchsorted(np.cumsum(weights), next(uniforms) * weights.sum(), "right"))
                # Replaces the topic of an earlier word, or appends that of word n.
                z[i : i + 1] = [k]
        total += np.log(np.mean(probabilities))
    return total


def window_pairs(documents, n, window):
    """Count the windows that hold both words of each pair, as n lists of n, and all windows."""
    windows = []
    for document in documents:
        steps = max(1, len(document) - window + 1)
        windows += [set(document[i : i + window]) for i in range(steps)]
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
    """Set each row of H, then each column of W, to its own minimum of ½‖A − WH‖² + l1·Σ + ½ l2·Σ².

    The penalties are pairs: of W, of H. Yields (W, H) after each epoch.
    """
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


def nmf_known_row(a, x, Y, l1=0.0, l2=0.0, sweeps=1):
    """Set each entry of a row x of a factor to its own minimum of ½‖a − Yx‖² + n(l1·Σ + ½ l2·Σ²).

    Only the n entries of ``a`` that are not NaN count. The result is 0 if there are none.
    """
    x = x.copy()
    known = ~np.isnan(a)
    n, a, Y = known.sum(), a[known], Y[known]
    for _ in range(sweeps):
        for k in range(len(x)):
            residual = a - Y @ x + Y[:, k] * x[k]
            curvature = Y[:, k] @ Y[:, k] + n * l2
            if curvature > 0:
                x[k] = max(0, (Y[:, k] @ residual - n * l1) / curvature)
    return x if n else np.zeros_like(x)


def sparse_products(A, X):
    """Return A·X, the sum over the non-zeros of each row, for a sparse matrix in coordinates."""
    product = np.zeros((A.shape[0], X.shape[1]))
    for i, j, a in zip(A.row, A.col, A.data, strict=True):
        product[i] += a * X[j]
    return product


def nmf_extrapolated(X, before, momentum):
    """Return the point extrapolated beyond X, with negative entries set to zero, and its product with itself."""
    ahead = np.empty(X.shape)
    for index, x in np.ndenumerate(X):
        ahead[index] = max(x + momentum * (x - before[index]), 0.0)
    return ahead, ahead.T @ ahead


# --- Word2Vec ---


def word2vec_errors(W_a, a, W_b, rows, labels):
    """Return label − σ(product) for the products of row ``a`` of W_a with ``rows`` of W_b."""
    return [label - 1 / (1 + np.exp(-(W_a[a] @ W_b[r]))) for r, label in zip(rows, labels, strict=True)]


def word2vec_move(W_a, a, W_b, rows, errors, alpha):
    """Move row ``a`` and each of ``rows`` by their errors; the rows move by the old values of row ``a``."""
    before, change = W_a[a].copy(), np.zeros_like(W_a[a])
    for r, error in zip(rows, errors, strict=True):
        change += alpha * error * W_b[r]
        W_b[r] += alpha * error * before
    W_a[a] += change


def word2vec_step(W_a, a, W_b, rows, labels, alpha):
    """Train the pairs of row ``a`` with each of ``rows``: all products first, then all moves."""
    word2vec_move(W_a, a, W_b, rows, word2vec_errors(W_a, a, W_b, rows, labels), alpha)


def word2vec_context(sentence, i, reach):
    """Return the words within ``reach`` of word i."""
    return [w for j, w in enumerate(sentence) if j != i and abs(j - i) <= reach]


def word2vec_negatives(table, key, first, n):
    """Return n words of the table of negatives: those at the draws from ``first`` on."""
    return [table[splitmix(key, first + k) // 2**44 % len(table)] for k in range(n)]


def word2vec_sgns(sentences, W_in, W_out, window, negative, table, keys, rate):
    """Moon's Algorithm 19.

    ``sentences`` are lists of (position, word), ``keys`` those of windows and of negatives, ``rate`` is the learning
    rate as a function of the position.
    """
    for sentence in sentences:
        words = [w for _, w in sentence]
        for i, (position, word) in enumerate(sentence):
            reach = window - splitmix(keys[0], position) % window
            for c, other in enumerate(word2vec_context(words, i, reach)):
                first = (position * 2 * window + c) * negative
                drawn = word2vec_negatives(table, keys[1], first, negative)
                targets = [word] + [w for w in drawn if w != word]
                word2vec_step(W_in, other, W_out, targets, [1] + [0] * (len(targets) - 1), rate(position))


def word2vec_full(sentences, W_in, W_out, window, negative, table, keys, rate):
    """FULL-W2V, section 3: a window's samples one after the other, each with all context words of the window."""
    for sentence in sentences:
        words = [w for _, w in sentence]
        for i, (position, word) in enumerate(sentence):
            context = word2vec_context(words, i, -(-window // 2))
            drawn = word2vec_negatives(table, keys[1], position * negative, negative)
            samples = [word] + [w for w in drawn if w != word]
            for s, sample in enumerate(samples):
                word2vec_step(W_out, sample, W_in, context, [int(s == 0)] * len(context), rate(position))


def word2vec_par(sentences, W_in, W_out, window, negative, table, keys, rate, batch=24):
    """Moon's Algorithms 20 and 21, and 22 with another number of negatives, mini-batch by mini-batch."""
    for sentence in sentences:
        if len(sentence) < 2:
            continue
        words = [w for _, w in sentence]
        for head in range(0, len(words), batch):
            position = sentence[head][0]
            alpha = rate(position)
            members = range(head, min(head + batch, len(words)))
            # Attraction: all products of the mini-batch come before all moves.
            contexts, errors = [], []
            for i in members:
                reach = window - splitmix(keys[0], sentence[i][0]) % window
                context = word2vec_context(words, i, reach)
                contexts.append(context)
                errors.append(word2vec_errors(W_out, words[i], W_in, context, [1] * len(context)))
            for i, context, error in zip(members, contexts, errors, strict=True):
                word2vec_move(W_out, words[i], W_in, context, error, alpha)
            # Repulsion from shared negatives: ``negative`` for each context that a word has on average.
            contexts_of_all_reaches = sum(
                len(word2vec_context(words, i, reach)) for i in members for reach in range(1, window + 1)
            )
            cases = window * len(members)
            n = (2 * negative * contexts_of_all_reaches + cases) // (2 * cases)
            shared = word2vec_negatives(table, keys[1], position * (2 * window * negative + 1) + 1, n)
            own = words[head : head + batch]
            M_in, M_out = W_in[own].copy(), W_out[shared].copy()
            gradient = -alpha / (1 + np.exp(-(M_out @ M_in.T)))
            np.add.at(W_in, own, gradient.T @ M_out)
            np.add.at(W_out, shared, gradient @ M_in)


# --- random walks ---


def walk_probabilities(W, p, q, t, v):
    """Return where a walk goes from v if it came from t: (V,), all zero if no edge leads out of v.

    t is None for the first step. ``W`` (V, V) are the weights of the edges, zero where there is none.
    """
    weights = W[v].astype(float)
    if t is not None:
        for x in np.flatnonzero(W[v]):
            if x == t:
                weights[x] *= 1 / p
            elif W[t, x] == 0:
                weights[x] *= 1 / q
    total = weights.sum()
    return weights / total if total else weights


# --- random indexing ---


def ri_seed(word_hash, salt, dimension, seed_length):
    """Return one row of S (equation 2.4): +1 and −1 in turn at the first ``seed_length`` different positions drawn."""
    key = splitmix(salt, word_hash)
    seed = np.zeros(dimension)
    index, sign = 0, 1
    while np.count_nonzero(seed) < seed_length:
        position = (splitmix(key, index) >> 32) * dimension >> 32
        index += 1
        if seed[position] == 0:
            seed[position] = sign
            sign = -sign
    return seed


def ri_rotation(offset, order):
    """Return by how many positions the seed of a neighbour at ``offset`` is rotated to the right."""
    return {"permutation": offset, "direction": 1 if offset > 0 else -1, "none": 0}[order]


def ri_train(docs, S, n_words, radius, order="permutation", weighting="uniform"):
    """Algorithm 2.1 without its last step: equation 2.7, one window position of one document at a time.

    ``docs`` are lists of word ids, with None for the null term.
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
    """Return the same for order "permutation": counts of neighbours at each offset, times their rotated seeds."""
    T = np.zeros((n_words, S.shape[1]), np.int64)
    text = np.concatenate(docs)
    document = np.repeat(np.arange(len(docs)), [len(d) for d in docs])
    for offset in range(1, radius + 1):
        same = document[:-offset] == document[offset:]
        left, right = text[:-offset][same], text[offset:][same]
        counts = scipy.sparse.csr_array((np.ones(len(left), np.int64), (left, right)), shape=(n_words, n_words))
        for neighbours, rotation in ((counts, offset), (counts.T, -offset)):
            rotated = scipy.sparse.csr_array(np.roll(S, rotation, axis=1).astype(np.int64))
            T += (neighbours.tocsr() @ rotated).toarray()
    return T


def ri_normalised(T):
    """Divide each row by its length: step 5 of Algorithm 2.1."""
    lengths = np.sqrt((T.astype(float) ** 2).sum(axis=1))
    return T / np.where(lengths > 0, lengths, 1.0)[:, None]
