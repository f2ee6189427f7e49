"""LDA.partial_fit: what stays, what is added, and that an interrupted call can be repeated."""

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.ingest.ingest import corpus_from
from helpers.models import bits, interrupt_after
from helpers.toy import vocabulary_table, write_topic_corpus


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Two days' documents of the same five topics; the second day's words have other ids, and some are new."""
    folder = tmp_path_factory.mktemp("days")
    monday = write_topic_corpus(folder / "monday", n_topics=5, seed=1)
    tuesday = write_topic_corpus(folder / "tuesday", n_topics=5, seed=2)
    names = np.array(tuesday.vocabulary["word"].to_pylist())
    names[0::20] = [f"new{k}" for k in range(5)]
    names[[1, 2]] = names[[2, 1]]
    frequency = tuesday.vocabulary["term_frequency"].to_numpy()
    rewrite_vocabulary(tuesday, vocabulary_table(names.tolist(), frequency))
    return monday, Corpus(tuesday.url)


def rewrite_vocabulary(corpus, table):
    import pyarrow.parquet as pq

    with corpus.store.fs.open(corpus.store.where("vocabulary.parquet"), "wb") as file:
        pq.write_table(table, file)


@pytest.fixture(scope="module")
def trained(corpora):
    starts = [LDA(5, doc_topic_prior=0.1, max_iter=40, random_state=seed).fit(corpora[0]) for seed in range(4)]
    return max(starts, key=lambda m: m.history_[-1]["log_likelihood"])


def copy_of(model, folder, **parameters):
    model.save(str(folder / "model"))
    return LDA.load(str(folder / "model")).set_params(**parameters)


def count_of(model, word):
    return model.components_[:, model.words_.index(word)] - model.model_.shared["beta"]


def test_a_model_that_was_trained_with_another_default_of_alpha_keeps_its_own(corpora, tmp_path):
    earlier = LDA(5, doc_topic_prior=10.0, max_iter=1).fit(corpora[0])
    model = copy_of(earlier, tmp_path, doc_topic_prior=None).partial_fit(corpora[1])
    np.testing.assert_array_equal(model.model_.shared["alpha"], np.full(5, 10, np.float32))
    chosen = copy_of(earlier, tmp_path, doc_topic_prior=0.5).partial_fit(corpora[1])
    np.testing.assert_array_equal(chosen.model_.shared["alpha"], np.full(5, 0.5, np.float32))


def test_topics_keep_their_numbers_and_get_new_words(corpora, trained, tmp_path):
    model = copy_of(trained, tmp_path, max_iter=10).partial_fit(corpora[1])
    for before, after in zip(trained.topics(10), model.topics(10), strict=True):
        group = {int(w["word"][1:]) // 20 for w in before["words"]}
        assert {int(w["word"][1:]) // 20 for w in after["words"] if w["word"].startswith("w")} == group
        assert np.argmax(count_of(model, f"new{group.pop()}")) == before["topic"]


@pytest.mark.parametrize("sampler", ["esca", "gibbs", "warp"])
@pytest.mark.parametrize("n_blocks", [1, 2])
def test_every_token_of_both_days_is_counted(corpora, trained, tmp_path, sampler, n_blocks):
    monday, tuesday = corpora
    model = copy_of(trained, tmp_path, max_iter=3, sampler=sampler, n_blocks=n_blocks).partial_fit(tuesday)
    assert model.components_.shape == (5, 105)
    expected = dict.fromkeys(model.words_, 0)
    for day in corpora:
        for word, frequency in zip(*(day.vocabulary[c].to_pylist() for c in ("word", "term_frequency")), strict=True):
            expected[word] += frequency
    counts = model.components_.sum(axis=0) - 5 * model.model_.shared["beta"]
    np.testing.assert_allclose(counts, [expected[word] for word in model.words_], atol=0.01)
    np.testing.assert_array_equal(model.model_.vocabulary["term_frequency"], [expected[w] for w in model.words_])
    assert model.model_.shared["totals"].sum() == monday.n_tokens + tuesday.n_tokens


def test_the_topics_of_earlier_tokens_do_not_change(corpora, trained, tmp_path):
    model = copy_of(trained, tmp_path, max_iter=3).partial_fit(corpora[1])
    for word in ("w000", "w020", "w005"):
        assert (count_of(model, word) >= count_of(trained, word) - 1e-3).all()
    np.testing.assert_allclose(count_of(model, "w040"), count_of(trained, "w040"), atol=1e-3)


def test_an_interrupted_call_continues_after_its_last_epoch(corpora, trained, tmp_path):
    run = str(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        copy_of(trained, tmp_path, max_iter=5).partial_fit(corpora[1], run=run, callbacks=[interrupt_after(3)])
    assert RunStore(run).step == 3
    again = copy_of(trained, tmp_path, max_iter=5).partial_fit(corpora[1], run=run)
    assert [row["epoch"] for row in again.history_] == [1, 2, 3, 4, 5]
    assert bits(again) == bits(copy_of(trained, tmp_path, max_iter=5).partial_fit(corpora[1]))


def test_a_third_call_continues_from_the_second(corpora, trained, tmp_path):
    model = copy_of(trained, tmp_path, max_iter=2).partial_fit(corpora[1]).partial_fit(corpora[0])
    assert model.components_.shape == (5, 105)
    assert model.model_.shared["totals"].sum() == 2 * corpora[0].n_tokens + corpora[1].n_tokens


def test_another_number_of_topics_is_refused(corpora, trained, tmp_path):
    with pytest.raises(ValueError, match="n_components is 6, but the model was trained with 5"):
        copy_of(trained, tmp_path, n_components=6).partial_fit(corpora[1])


@pytest.mark.parametrize(("sampler", "n_blocks"), [("esca", 1), ("esca", 3), ("gibbs", 2)])
def test_documents_of_new_words_only_do_not_change_the_score_of_held_out_documents(sampler, n_blocks):
    texts = ["red green blue red", "cat dog cow dog", "red blue", "cat cow"] * 20
    old = corpus_from(texts, held_out=0.3, chunk_tokens=60)
    names = [*old.vocabulary["word"].to_pylist(), *(f"new{k}" for k in range(9))]
    new = corpus_from([names[-9:], names[-3:]] * 30, vocabulary=names, chunk_tokens=60)
    model = LDA(3, max_iter=10, n_blocks=n_blocks, sampler=sampler, learn_priors="none", random_state=1).fit(old)
    assert len(model.model_.blocks) == n_blocks
    before = model.history_[-1]["held_out_log_likelihood"]
    after = model.partial_fit(new, held_out=old.held_out).history_[-1]["held_out_log_likelihood"]
    assert after == before
