"""The WarpLDA sampler draw by draw against its reference implementation, and its steps against their distributions."""

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import warp
from corpusmill.kernels.lda.model import ModelBlock
from helpers import naive
from helpers.lda_cases import dense_counts, model_of, random_topics, small_chunk, word_order
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

KEY = random.key(5, 1, 0)
BETA = 0.05
N_WORDS = 12


@pytest.mark.parametrize("alpha", [[0.25] * 3, [0.5, 0.125, 0.25, 1.0, 2.0]])
@pytest.mark.parametrize("seed", range(4))
def test_every_draw_is_that_of_the_reference_implementation(seed, alpha):
    chunk = small_chunk(seed)
    z = random_topics(chunk, len(alpha))
    uniforms = naive.lda_warp_uniforms(KEY, chunk.n_tokens)
    counts = dense_counts(chunk, z, len(alpha), N_WORDS)
    expected = naive.lda_warp_sweep(*word_order(chunk), z, counts, (np.array(alpha), BETA), uniforms)
    found = warp.sample(chunk, model_of(chunk, z, alpha, N_WORDS, beta=BETA), z, KEY)
    np.testing.assert_array_equal(found, expected)
    assert (found != z).any()


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), cut=st.integers(1, 11), group_tokens=st.integers(1, 60))
def test_draws_are_the_same_for_any_blocks_of_the_model(seed, cut, group_tokens):
    chunk = small_chunk(seed, group_tokens=group_tokens)
    alpha = np.full(7, 0.5)
    z = random_topics(chunk, 7, seed)
    packed, out = np.zeros(len(z), np.uint32), np.zeros_like(z)
    blocks = [model_of(chunk, z, alpha, N_WORDS, words, BETA) for words in ((0, cut), (cut, N_WORDS))]
    for block in blocks:
        warp.propose(chunk, block, z, KEY, packed)
    np.testing.assert_array_equal(packed[chunk.word_to_doc_order] >> 16, z)
    warp.accept_and_propose(chunk.doc_ptr, blocks[0], KEY, packed)
    for block in blocks:
        warp.accept(chunk, block, z, KEY, packed, out)
    np.testing.assert_array_equal(out, warp.sample(chunk, model_of(chunk, z, alpha, N_WORDS, beta=BETA), z, KEY))
    assert out.max(initial=0) < 7


@given(counts=st.lists(st.integers(1, 50), min_size=1, max_size=9))
def test_the_index_of_an_urn_stays_within_its_memory(counts):
    n = len(counts)
    index = warp.new_urn_index(n)
    size = len(index.entries)
    memory = np.full(size + 8, 0xFFFF, np.uint16)
    index = index._replace(entries=memory[:size])
    shift = warp._index_urn(index, np.array(counts, np.int32), np.uint64(0), np.uint64(n))
    assert (memory[size:] == 0xFFFF).all()
    # The entry of each indexed position is the one that holds it.
    positions = np.arange(0, sum(counts), 1 << shift)
    np.testing.assert_array_equal(memory[: len(positions)], np.searchsorted(np.cumsum(counts), positions, "right"))


@pytest.mark.parametrize("n", [40_000, warp.MAX_URN + 4], ids=["urn", "index of an urn"])
def test_word_proposals_follow_the_other_tokens_of_the_word(n):
    n_topics = 5
    chunk = make_chunk(0, np.arange(0, n + 1, 4), np.zeros(n, np.uint32), 1 << 20)
    z = np.minimum(np.random.default_rng(0).geometric(0.5, n) - 1, n_topics - 1).astype(np.uint16)
    packed = np.zeros(n, np.uint32)
    warp.propose(chunk, model_of(chunk, z, np.ones(n_topics), 1, beta=BETA), z, KEY, packed)
    drawn = np.bincount(packed & 0xFFFF, minlength=n_topics)
    share = (np.bincount(z) + BETA) / (n + BETA * n_topics)
    assert stats.chisquare(drawn, share * n).pvalue > 1e-3


PRIOR = np.array([0.3, 0.7, 0.5])
B, N = np.array([[5, 4, 9], [1, 1, 1]]), np.array([20, 40, 30])


def fixed_model():
    """A model that was not counted from the chunk."""
    rows = np.array([0, 3, 6]), np.tile(np.arange(3, dtype=np.uint16), 2), B.ravel().astype(np.int32)
    return ModelBlock(*rows, 0, N.astype(np.int64), PRIOR.astype(np.float32), BETA, 2)


def equal_documents(n):
    """n documents of the words 0 and 1."""
    return make_chunk(0, np.arange(0, 2 * n + 1, 2), np.tile(np.array([0, 1], np.uint32), n), 4 * n)


def test_the_first_step_has_the_transition_probabilities_of_its_chain():
    n = 60_000
    chunk, z = equal_documents(n), np.zeros(2 * n, np.uint16)
    packed = np.zeros(2 * n, np.uint32)
    warp.propose(chunk, fixed_model(), z, KEY, packed)
    warp.accept_and_propose(chunk.doc_ptr, fixed_model(), KEY, packed)
    own = np.array([1, 0, 0])
    proposal = (B[0] - own + BETA) / (B[0] - own + BETA).sum()
    # The document's other token is in topic 0 too.
    weight = (own + PRIOR) / (N - own + 2 * BETA)
    chance = proposal * np.minimum(1, weight / weight[0])
    chance[0] += 1 - chance.sum()
    assert stats.chisquare(np.bincount(packed[0::2] >> 16, minlength=3), chance * n).pvalue > 1e-3


@pytest.mark.parametrize("own", [0, 1, 2])
def test_the_second_step_leaves_its_target_distribution_unchanged(own):
    n, rng = 60_000, np.random.default_rng(own)
    chunk, one = equal_documents(n), np.arange(3) == own
    z = np.full(2 * n, own, np.uint16)
    document = np.array([1, 0, 0]) + PRIOR
    target = document * (B[0] - one + BETA) / (N - one + 2 * BETA)
    now = rng.choice(3, 2 * n, p=target / target.sum())
    new = rng.choice(3, 2 * n, p=document / document.sum())
    packed, out = (now << 16 | new).astype(np.uint32), np.zeros_like(z)
    warp.accept(chunk, fixed_model(), z, KEY, packed, out)
    of_word_0 = np.bincount(out[chunk.words[chunk.word_to_doc_order] == 0], minlength=3)
    assert stats.chisquare(of_word_0, target / target.sum() * n).pvalue > 1e-3
    assert (out != now[chunk.word_to_doc_order]).any()
