"""Formulas for data movement and operations against the figures that the papers print."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gpu.word2vec import bytes_a_word, step_of
from benchmarks.papers import nmf_data_movement as nmf
from benchmarks.papers import word2vec_data_movement as word2vec
from benchmarks.papers.kernels.tiled import best_tile


def test_data_movement_of_nmf_is_that_of_the_papers():
    assert nmf.moved_by_loop(11_554, 256) == 775_015_680
    assert int(nmf.moved(11_554, 256, 16, 33)) == 338_840_256
    assert nmf.moved_by_loop(26_214, 240) == 1_547_732_400
    assert int(nmf.moved(26_214, 240, 15, 35 << 20)) == 189_208_129
    assert nmf.hals_flops(26_214, 11_314, 256) == pytest.approx(3.1e11, rel=0.02)


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 500), st.integers(1, 500))
def test_tiling_does_not_change_the_number_of_operations(T, tiles_across, V, D):
    K = T * tiles_across
    assert nmf.tiled_flops(V, D, K, T) == nmf.hals_flops(V, D, K)


@given(st.integers(2, 2000), st.floats(16, 1e8))
def test_equation_11_is_where_equation_9_is_least(K, C):
    T = best_tile(K, C)
    assert nmf.slope(K, T, C) == pytest.approx(0, abs=1e-6 * K)
    assert nmf.moved(10, K, T, C) <= min(nmf.moved(10, K, T * s, C) for s in (0.9, 1.1)) * (1 + 1e-12)
    total = nmf.moved_by_tiles(10, K, 5) - K * (5 + 10) + 2 * nmf.moved_by_products(10, K, 5, C)
    assert total == pytest.approx(nmf.moved(10, K, 5, C))
    assert nmf.moved_by_hals(10, 20, K, C) > nmf.moved_by_loop(10, K)


def test_data_movement_of_word2vec_is_that_of_the_paper():
    # Dissertation, section 4.5.5: One Billion Word, and a cache of 35 MB, counted as 35 Mi elements.
    words, sentences = 804_269_958, 30_607_741
    case = word2vec.Case(sentences, words / sentences, dimension=128, window=8, negative=5, cache=35 * 2**20)
    assert word2vec.sgns_total(case) == pytest.approx(85_665_204e6, rel=1e-6)
    assert word2vec.sgns_repulsion(case) == pytest.approx(72_487_241e6, rel=1e-6)
    assert word2vec.par_repulsion(case) == pytest.approx(19_239_278e5, rel=1e-6)
    assert word2vec.par_total(case) == pytest.approx(15_109_321e6, rel=5e-4)
    assert word2vec.sgns_total(case) / word2vec.par_total(case) == pytest.approx(5.67, abs=0.005)
    assert 1 - word2vec.par_repulsion(case) / word2vec.sgns_repulsion(case) == pytest.approx(0.973, abs=0.0005)


def test_without_a_ring_each_sample_of_full_w2v_changes_itself_and_all_context_words():
    step, _ = step_of(50, 64)
    found = bytes_a_word(128, step)
    row = 3 * 4 * 128  # read, and then read and written by an atomic addition
    samples, context_words = 1 + 5, 2 * 3
    assert found["full, no ring"] == row * samples * (1 + context_words)
    assert found["full"] == row * (samples + 1)
