"""Skip-gram one pair at a time, which only serves for comparison."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill import Word2Vec
from helpers import naive
from helpers.graphs import random_graph
from helpers.skip_gram_cases import LENGTHS, make_model, make_options, make_text, reference_training
from helpers.toy import write_topic_corpus

from benchmarks.papers.algorithms.word2vec import PaperNode2Vec, PaperWord2Vec
from benchmarks.papers.kernels.sgns import train_sgns


def train(text, options, W_in, W_out):
    train_sgns(0, len(text.ptr) - 1, text, options, W_in, W_out)


@pytest.mark.parametrize(("window", "negative", "dimension"), [(1, 1, 3), (5, 5, 64), (8, 3, 130)])
def test_the_updates_are_those_of_the_reference_implementation(window, negative, dimension):
    text, options = make_text(LENGTHS, 30), make_options(window, negative, 30)
    W_in, W_out = make_model(30, dimension)
    wanted = reference_training(naive.word2vec_sgns, text, options, W_in, W_out)
    train(text, options, W_in, W_out)
    for found, expected in zip((W_in, W_out), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)
        assert not found[:, dimension:].any()


def test_products_far_from_zero_stay_finite_and_documents_of_one_word_change_nothing():
    options = make_options(5, 5, 30)
    W_in, W_out = (W * 300 for W in make_model(30, 20))
    train(make_text((60,), 30), options, W_in, W_out)
    assert np.isfinite(W_in).all() and np.isfinite(W_out).all()
    before = W_in.copy(), W_out.copy()
    train(make_text((1, 0, 1), 30), options, W_in, W_out)
    np.testing.assert_array_equal(W_in, before[0])
    np.testing.assert_array_equal(W_out, before[1])


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("topics") / "corpus", 3)


def small(**parameters):
    return PaperWord2Vec(**{"vector_size": 20, "min_count": 1, "sample": 0, "method": "sgns"} | parameters)


def test_words_of_a_topic_come_together(topics):
    wv = small(epochs=15, alpha=0.1).fit(topics).wv
    same = [int(wv.most_similar(w, topn=1)[0][0][1:]) // 20 == int(w[1:]) // 20 for w in wv.index_to_key]
    assert np.mean(same) > 0.95


def test_nodes_of_a_graph_get_vectors():
    graph = scipy.sparse.csr_array(random_graph(30, 0.2, directed=False, weighted=False))
    model = PaperNode2Vec(vector_size=8, num_walks=2, walk_length=8, epochs=1, method="sgns").fit(graph)
    assert np.isfinite(model.wv.vectors).all()


def test_there_are_no_cuda_kernels(topics):
    with pytest.raises(ValueError, match="method 'sgns' has no CUDA kernels"):
        small(device="cuda").fit(topics)


def test_names_of_methods_are_listed(topics):
    with pytest.raises(ValueError, match="method is 'cbow': choose one of strata, par, full, sgns"):
        small(method="cbow").fit(topics)
    with pytest.raises(ValueError, match="method is 'sgns': choose one of strata, par, full"):
        Word2Vec(method="sgns").fit(topics)
