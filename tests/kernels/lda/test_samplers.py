"""The other samplers of LDA against slow sequential code, draw by draw, and against their target distributions."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import collapsed as lda_collapsed
from corpusmill.kernels.lda import uncollapsed as lda_uncollapsed
from corpusmill.kernels.lda import warp as lda_warp
from corpusmill.kernels.lda.esca import count_words
from corpusmill.kernels.lda.model import ModelBlock
from helpers import naive
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

KEY = random.key(5, 1, 0)


def make(seed=0, documents=9, n_words=12, group_tokens=30, length=12):
    """A small chunk of several groups, one document empty and one of a single token."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, length, documents)
    lengths[:2] = 0, 1
    words = np.minimum(rng.geometric(0.2, lengths.sum()) - 1, n_words - 1).astype(np.uint32)
    return make_chunk(0, np.r_[0, np.cumsum(lengths)], words, group_tokens)


def word_order(chunk):
    return chunk.docs.astype(int), chunk.words[chunk.word_to_doc_order].astype(int), chunk.word_to_doc_order.astype(int)


def topics_of(chunk, n_topics, seed=1):
    return np.random.default_rng(seed).integers(0, n_topics, chunk.n_tokens).astype(np.uint16)


def model_of(chunk, z, alpha, n_words=12, words=None):
    """The model of a corpus that is this chunk alone, or its block of ``words``."""
    words = words or (0, n_words)
    counts = count_words(chunk.word_ids, chunk.word_ptr, z, words, len(alpha))
    totals = np.bincount(z, minlength=len(alpha)).astype(np.int64)
    return ModelBlock(*counts, words[0], totals, np.asarray(alpha, np.float32), 0.05, n_words)


def dense_counts(chunk, z, n_topics, n_words=12):
    docs, words, _ = word_order(chunk)
    return naive.lda_counts(docs, words, z, chunk.n_documents, n_words, n_topics)


@pytest.mark.parametrize("alpha", [[0.25] * 3, [0.5, 0.125, 0.25, 1.0, 2.0]])
@pytest.mark.parametrize("seed", range(4))
def test_warp_equals_the_oracle_draw_by_draw(seed, alpha):
    chunk = make(seed)
    z = topics_of(chunk, len(alpha))
    uniforms = naive.lda_warp_uniforms(KEY, chunk.n_tokens)
    expected = naive.lda_warp_sweep(
        *word_order(chunk), z, dense_counts(chunk, z, len(alpha)), (np.array(alpha), 0.05), uniforms
    )
    found = lda_warp.sample(chunk, model_of(chunk, z, alpha), z, KEY)
    np.testing.assert_array_equal(found, expected)
    assert (found != z).any()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.integers(1, 11), group_tokens=st.integers(1, 60))
def test_warp_draws_the_same_however_the_model_is_cut(seed, cut, group_tokens):
    chunk = make(seed, group_tokens=group_tokens)
    alpha = np.full(7, 0.5)
    z = topics_of(chunk, 7, seed)
    packed, out = np.zeros(len(z), np.uint32), np.zeros_like(z)
    blocks = [model_of(chunk, z, alpha, words=words) for words in ((0, cut), (cut, 12))]
    for block in blocks:
        lda_warp.propose(chunk, block, z, KEY, packed)
    np.testing.assert_array_equal(packed[chunk.word_to_doc_order] >> 16, z)
    lda_warp.accept_and_propose(chunk.doc_ptr, blocks[0], KEY, packed)
    for block in blocks:
        lda_warp.accept(chunk, block, z, KEY, packed, out)
    np.testing.assert_array_equal(out, lda_warp.sample(chunk, model_of(chunk, z, alpha), z, KEY))
    assert out.max(initial=0) < 7


@pytest.mark.parametrize("n", [40_000, lda_warp.MAX_URN + 4])
def test_word_proposals_follow_the_words_other_tokens(n):
    """Also of a word whose line is too long to be written out, and is indexed coarsely."""
    n_topics = 5
    chunk = make_chunk(0, np.arange(0, n + 1, 4), np.zeros(n, np.uint32), 1 << 20)
    z = np.minimum(np.random.default_rng(0).geometric(0.5, n) - 1, n_topics - 1).astype(np.uint16)
    model = model_of(chunk, z, np.ones(n_topics), n_words=1)
    packed = np.zeros(n, np.uint32)
    lda_warp.propose(chunk, model, z, KEY, packed)
    drawn = np.bincount(packed & 0xFFFF, minlength=n_topics)
    share = (np.bincount(z) + 0.05) / (n + 0.05 * n_topics)
    assert stats.chisquare(drawn, share * n).pvalue > 1e-3


PRIOR = np.array([0.3, 0.7, 0.5])
B, N = np.array([[5, 4, 9], [1, 1, 1]]), np.array([20, 40, 30])


def fixed_model():
    """Counts that stand still whatever the topics of the chunk."""
    rows = np.array([0, 3, 6]), np.tile(np.arange(3, dtype=np.uint16), 2), B.ravel().astype(np.int32)
    return ModelBlock(*rows, 0, N.astype(np.int64), PRIOR.astype(np.float32), 0.05, 2)


def pairs(n):
    """Equal documents of words 0 and 1."""
    return make_chunk(0, np.arange(0, 2 * n + 1, 2), np.tile(np.array([0, 1], np.uint32), n), 4 * n)


def test_first_step_goes_where_its_chain_says():
    n = 60_000
    chunk, z = pairs(n), np.zeros(2 * n, np.uint16)
    packed = np.zeros(2 * n, np.uint32)
    lda_warp.propose(chunk, fixed_model(), z, KEY, packed)
    lda_warp.accept_and_propose(chunk.doc_ptr, fixed_model(), KEY, packed)
    own = np.array([1, 0, 0])
    proposal = (B[0] - own + 0.05) / (B[0] - own + 0.05).sum()
    weight = (own + PRIOR) / (N - own + 0.1)  # the document's other token is in topic 0 too
    chance = proposal * np.minimum(1, weight / weight[0])
    chance[0] += 1 - chance.sum()
    assert stats.chisquare(np.bincount(packed[0::2] >> 16, minlength=3), chance * n).pvalue > 1e-3


@pytest.mark.parametrize("own", [0, 1, 2])
def test_second_step_leaves_its_target_unchanged(own):
    n, rng = 60_000, np.random.default_rng(own)
    chunk, one = pairs(n), np.arange(3) == own
    z = np.full(2 * n, own, np.uint16)
    document = np.array([1, 0, 0]) + PRIOR
    target = document * (B[0] - one + 0.05) / (N - one + 0.1)
    now = rng.choice(3, 2 * n, p=target / target.sum())
    new = rng.choice(3, 2 * n, p=document / document.sum())
    packed, out = (now << 16 | new).astype(np.uint32), np.zeros_like(z)
    lda_warp.accept(chunk, fixed_model(), z, KEY, packed, out)
    mine = np.bincount(out[chunk.words[chunk.word_to_doc_order] == 0], minlength=3)
    assert stats.chisquare(mine, target / target.sum() * n).pvalue > 1e-3
    assert (out != now[chunk.word_to_doc_order]).any()


# --- counts that follow ---


def tokens_of(chunk):
    return lda_collapsed.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)


def tables_of(chunk, z, alpha, n_words=12):
    A, B, N = (t.astype(np.int32) for t in dense_counts(chunk, z, len(alpha), n_words))
    np.testing.assert_array_equal(A, lda_collapsed.document_counts(tokens_of(chunk), z, len(A), len(alpha)))
    return lda_collapsed.CountTables(A, B, N, np.asarray(alpha, np.float32), 0.05, n_words * 0.05)


def oracle(chunk, z, alpha, order):
    docs, words, _ = word_order(chunk)
    z, counts = z.copy(), dense_counts(chunk, z, len(alpha))
    uniforms = naive.lda_uniforms(KEY, len(z))
    naive.lda_collapsed(order, docs, words, z, counts, (np.asarray(alpha), 0.05), uniforms)
    return z, counts


ALPHAS = [np.full(3, 0.25), np.linspace(0.1, 2, 37)]


@pytest.mark.parametrize("alpha", ALPHAS, ids=len)
@pytest.mark.parametrize("seed", range(3))
def test_sequential_equals_algorithm_1_draw_by_draw(seed, alpha):
    chunk = make(seed)
    z = topics_of(chunk, len(alpha))
    expected, counts = oracle(chunk, z, alpha, np.argsort(chunk.word_to_doc_order))
    tables = tables_of(chunk, z, alpha)
    lda_collapsed.sequential(tokens_of(chunk), tables, z, KEY)
    np.testing.assert_array_equal(z, expected)
    for found, wanted in zip(tables[:3], counts, strict=True):
        np.testing.assert_array_equal(found, wanted)


def run_diagonals(chunk, z, alpha, parts, threads):
    z, tables = z.copy(), tables_of(chunk, z, alpha)
    with ThreadPoolExecutor(threads) as pool:
        lda_collapsed.diagonals(tokens_of(chunk), tables, z, KEY, parts, pool)
    for found, wanted in zip(tables[:3], dense_counts(chunk, z, len(alpha)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    return z


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_tiles_of_a_diagonal_start_from_the_same_totals_draw_by_draw(parts):
    chunk, alpha = make(3, documents=12), ALPHAS[1]
    docs, words, _ = word_order(chunk)
    z = topics_of(chunk, len(alpha))
    expected, uniforms = z.copy(), naive.lda_uniforms(KEY, len(z))
    A, B, N = dense_counts(chunk, z, len(alpha))
    order, tile_ptr = lda_collapsed.cut_into_tiles(tokens_of(chunk), parts)
    assert sorted(order) == list(range(len(z)))
    for step in range(parts):
        changed = np.zeros_like(N)
        for group in range(parts):
            tile = group * parts + (group + step) % parts
            own_totals = N.copy()
            batch = order[tile_ptr[tile] : tile_ptr[tile + 1]]
            naive.lda_collapsed(batch, docs, words, expected, (A, B, own_totals), (alpha, 0.05), uniforms)
            changed += own_totals - N
        N += changed
    np.testing.assert_array_equal(run_diagonals(chunk, z, alpha, parts, 1), expected)


def test_the_number_of_threads_does_not_change_the_topics():
    chunk, alpha = make(4, documents=400, length=40), ALPHAS[0]
    z = topics_of(chunk, len(alpha))
    np.testing.assert_array_equal(run_diagonals(chunk, z, alpha, 6, 4), run_diagonals(chunk, z, alpha, 6, 1))


def test_tiles_of_a_diagonal_share_no_document_and_no_word():
    chunk = make(6, documents=50)
    tokens = tokens_of(chunk)
    order, tile_ptr = lda_collapsed.cut_into_tiles(tokens, 4)
    for step in range(4):
        mine = [order[tile_ptr[t] : tile_ptr[t + 1]] for t in (g * 4 + (g + step) % 4 for g in range(4))]
        for ids in (tokens.docs, tokens.words):
            distinct = [set(ids[tile]) for tile in mine]
            assert len(set().union(*distinct)) == sum(map(len, distinct)) > 0


@pytest.mark.parametrize("documents", [1, 4, 100])
def test_minibatch_equals_algorithm_4_draw_by_draw(documents):
    chunk, alpha = make(7), ALPHAS[1]
    docs, words, _ = word_order(chunk)
    z = topics_of(chunk, len(alpha))
    tables, expected = tables_of(chunk, z, alpha), z.copy()
    batches = [np.flatnonzero((docs >= d) & (docs < d + documents)) for d in range(0, chunk.n_documents, documents)]
    prior, uniforms = (alpha, 0.05), naive.lda_uniforms(KEY, len(z))
    naive.lda_minibatch(batches, docs, words, expected, prior, uniforms, 12)
    lda_collapsed.minibatch(tokens_of(chunk), tables, z, KEY, chunk.doc_ptr, documents)
    np.testing.assert_array_equal(z, expected)
    np.testing.assert_array_equal(tables.B, dense_counts(chunk, z, len(alpha))[1])


# --- θ and φ drawn ---


@pytest.mark.parametrize("seed", range(3))
def test_uncollapsed_draws_topics_as_algorithm_2(seed):
    chunk, alpha = make(seed), ALPHAS[1]
    docs, words, _ = word_order(chunk)
    tables, out = tables_of(chunk, topics_of(chunk, len(alpha)), alpha), np.zeros(chunk.n_tokens, np.uint16)
    theta = lda_uncollapsed.dirichlet(tables.A + tables.alpha, 1, KEY)
    phi = lda_uncollapsed.dirichlet(tables.B + np.float32(tables.beta), 0, random.key(9))
    expected = naive.lda_uncollapsed(docs, words, theta, phi, naive.lda_uniforms(KEY, chunk.n_tokens))
    lda_uncollapsed.sample(tokens_of(chunk), tables, (KEY, random.key(9)), out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_dirichlet_draws_have_their_mean_and_variance(axis):
    a = np.array([0.3, 0.5, 2, 7])
    drawn = lda_uncollapsed.dirichlet(np.tile(a, (40_000, 1)) if axis else np.tile(a[:, None], 40_000), axis, KEY)
    drawn = drawn if axis else drawn.T
    np.testing.assert_allclose(drawn.sum(axis=1), 1, atol=1e-5)
    mean = a / a.sum()
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=4e-3)
    np.testing.assert_allclose(drawn.var(axis=0), mean * (1 - mean) / (a.sum() + 1), rtol=0.06)
