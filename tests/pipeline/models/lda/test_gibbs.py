"""Collapsed Gibbs sampling in cells: exact counts, and the same bits wherever cells are trained."""

import os
import signal
import uuid
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.pipeline.engine import plan
from corpusmill.pipeline.engine.algorithm import Address
from corpusmill.pipeline.engine.data import equal_blocks
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.events import CellsTrained, Described, EpochFinished, ShardSwept
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.ingest.ingest import corpus_from, ingest
from corpusmill.pipeline.models.lda import gibbs
from corpusmill.pipeline.models.lda.gibbs import WordOrderGibbs, in_order_of_rows, joined
from helpers.toy import write_topic_corpus
from hypothesis import given, settings
from hypothesis import strategies as st

#: Numbers of topics of the three kernels: in registers, dense rows of A, sparse rows of A.
TOPICS = (5, 70, 300)
BLOCKS = 4


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("gibbs") / "corpus", n_topics=5, n_chunks=7)


def lda(n_topics=5, **parameters):
    return LDA(n_topics, **{"sampler": "gibbs", "max_iter": 5, "random_state": 3, "n_blocks": BLOCKS} | parameters)


def assert_counts(model, corpus):
    """Check that the model counts each token of the corpus once."""
    counts = model.components_ - model.topic_word_prior_
    assert counts.min() >= -1e-6
    np.testing.assert_array_equal(counts.sum(axis=0).round(), corpus.vocabulary["term_frequency"].to_numpy())


@pytest.mark.slow
@pytest.mark.parametrize("n_topics", TOPICS)
def test_each_token_counts_once_and_the_bits_are_those_of_any_number_of_workers(corpus, cluster_of, n_topics):
    here = lda(n_topics).fit(corpus, evaluate_every=1)
    assert_counts(here, corpus)
    assert len(here.model_.blocks) == BLOCKS
    curve = [row["log_likelihood"] for row in here.history_]
    assert curve[-1] > curve[0] + 0.1
    for workers in (1, 3):
        there = lda(n_topics).fit(corpus, client=cluster_of(workers), evaluate_every=1)
        np.testing.assert_array_equal(there.components_, here.components_)
        assert [row["log_likelihood"] for row in there.history_] == curve


def test_blocks_have_equal_shares_of_the_tokens_and_frequent_and_rare_words(corpus):
    algorithm = lda()._algorithm(corpus)
    frequency = corpus.vocabulary["term_frequency"].to_numpy()[algorithm.word_order(corpus)]
    blocks = np.split(frequency, algorithm.bounds[1:-1])
    np.testing.assert_allclose([block.sum() for block in blocks], frequency.sum() / BLOCKS, rtol=0.02)
    assert max(block.min() for block in blocks) < min(block.max() for block in blocks)


def test_scores_and_shown_words_in_training_are_those_of_the_model_in_the_order_of_words(corpus):
    events = []
    estimator = lda().fit(corpus, held_out=corpus.held_out, evaluate_every=1, callbacks=[events.append])
    scores, model = estimator._algorithm(corpus).scores, estimator.model_
    shown = [event.lists for event in events if isinstance(event, Described) and event.epoch == 5]
    assert shown == [scores.describe(model, corpus)]
    sums = scores.score(model, corpus.held_out.read_chunk(0), None, Address(3, 5, 0), corpus.held_out)
    expected = sums["log_likelihood"] / sums["tokens"]
    assert estimator.history_[-1]["held_out_log_likelihood"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n_topics", TOPICS)
def test_a_run_is_resumed_after_each_epoch(corpus, tmp_path, n_topics):
    expected = lda(n_topics, max_iter=4).fit(corpus).components_
    for epochs in (1, 2, 3, 4):
        found = lda(n_topics, max_iter=epochs).fit(corpus, run=tmp_path / "run")
    for model in (found, LDA.from_run(str(tmp_path / "run"))):
        np.testing.assert_array_equal(model.components_, expected)


@pytest.mark.parametrize("n_topics", TOPICS)
def test_rows_that_wait_on_the_disk_give_the_same_bits(corpus, n_topics, monkeypatch):
    expected = lda(n_topics).fit(corpus).components_
    monkeypatch.setattr(plan, "HELD_OF_REST", 0)
    np.testing.assert_array_equal(lda(n_topics).fit(corpus).components_, expected)


@dataclass(frozen=True, kw_only=True)
class Killed(WordOrderGibbs):
    """Kills its process when a cell of a table (step, row, column) is trained for the first time. Several threads."""

    killed: tuple[tuple[int, int, int], ...] = ()
    folder: str = ""
    threads: int = 1

    def train_cell(self, rows, columns, prepared, shared, cell, step):
        if (step, cell.row, cell.column) in self.killed:
            name = f"{step}-{cell.row}-{cell.column}"
            is_first = not list(Path(self.folder).glob(f"{name}-*"))
            Path(self.folder, f"{name}-{uuid.uuid4().hex}").touch()
            if is_first:
                os.kill(os.getpid(), signal.SIGKILL)
        super().train_cell(rows, columns, prepared, shared, cell, step)


def trained(corpus, run, executor=None, **options):
    """Train four epochs, and return the arrays of the blocks, one after the other."""
    algorithm = lda()._algorithm(corpus)
    own = {field.name: getattr(algorithm, field.name) for field in fields(algorithm)}
    store = RunStore(str(run))
    train(Training(Killed(**own, **options), corpus, store, epochs=4, seed=3), executor or Synchronous())
    return [array for j in range(BLOCKS) for array in store.block(4, j).values()]


@pytest.mark.slow
def test_killed_workers_change_no_bit(corpus, tmp_path, cluster_of):
    killed = ((2, 0, 3), (3, 3, 1))
    expected = trained(corpus, tmp_path / "here")
    found = trained(corpus, tmp_path / "there", OnDask(cluster_of(2)), killed=killed, folder=str(tmp_path))
    for step, row, column in killed:
        assert len(list(tmp_path.glob(f"{step}-{row}-{column}-*"))) >= 2
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


def test_several_threads_change_no_bit(corpus, tmp_path):
    for left, right in zip(trained(corpus, tmp_path / "4", threads=4), trained(corpus, tmp_path / "1"), strict=True):
        np.testing.assert_array_equal(left, right)


def test_blocks_and_rows_follow_the_corpus(corpus, monkeypatch):
    def blocks(model, data=corpus):
        return model._algorithm(data).n_blocks

    assert blocks(lda(n_blocks="auto")) == 1
    monkeypatch.setattr(gibbs, "CELL_TOKENS", 10)
    assert blocks(lda(n_blocks="auto")) == 4
    assert blocks(lda(n_blocks=16)) == 4
    with pytest.raises(ValueError, match="3 blocks: a grid needs a power of two, such as 2 or 4"):
        blocks(lda(n_blocks=3))
    words = corpus_from([["apple", "pear"], ["pear", "plum"]])
    assert blocks(lda(n_blocks=2), words) == 1


def test_more_blocks_than_chunks_are_refused(corpus, tmp_path):
    algorithm = replace(lda()._algorithm(corpus), bounds=equal_blocks(100, 8))
    with pytest.raises(ValueError, match="8 blocks for 7 chunks"):
        train(Training(algorithm, corpus, RunStore(str(tmp_path / "run")), epochs=1), Synchronous())


def test_work_that_is_reported_adds_up_to_the_tokens_of_each_epoch(corpus, cluster_of):
    events = []
    lda(max_iter=3).fit(corpus, client=cluster_of(2), callbacks=[events.append])
    for epoch, kind in ((1, ShardSwept), (2, CellsTrained), (3, CellsTrained)):
        work = [event for event in events if isinstance(event, ShardSwept | CellsTrained) and event.epoch == epoch]
        assert {type(event) for event in work} == {kind}
        assert sum(event.tokens for event in work) == pytest.approx(corpus.n_tokens)
    finished = [event.metrics["tokens"] for event in events if isinstance(event, EpochFinished)]
    assert finished == [corpus.n_tokens] * 3


def test_a_corpus_of_one_chunk_leaves_a_second_worker_idle(cluster_of):
    events = []
    documents = ["boat on the sea", "bread in the oven"]
    LDA(2, sampler="gibbs", max_iter=1).fit(documents, client=cluster_of(2), callbacks=[events.append])
    assert (
        events[0].idle == "1 task at a time for 2 threads of workers: to use more, ingest with a smaller chunk_tokens"
    )


def test_learned_priors_do_not_depend_on_workers(corpus, cluster_of):
    options = {"learn_priors": "asymmetric", "learn_every": 2, "max_iter": 6}
    here = lda(**options).fit(corpus)
    there = lda(**options).fit(corpus, client=cluster_of(2))
    assert len(set(here.doc_topic_prior_.tolist())) == 5
    np.testing.assert_array_equal(here.doc_topic_prior_, there.doc_topic_prior_)
    assert here.topic_word_prior_ == there.topic_word_prior_ != 0.01
    np.testing.assert_array_equal(here.components_, there.components_)
    assert_counts(here, corpus)


def test_training_continues_with_constant_counts(corpus, tmp_path):
    first = lda().fit(corpus)
    before = first.components_
    more = write_topic_corpus(tmp_path / "more", n_topics=5, n_chunks=5, seed=1)
    first.partial_fit(more)
    added = first.components_ - before
    frequency = more.vocabulary["term_frequency"].to_numpy()
    np.testing.assert_array_equal(added.sum(axis=0).round(), frequency)
    assert added.min() >= -0.01


def test_there_are_no_more_blocks_than_can_have_equal_shares(monkeypatch):
    monkeypatch.setattr(gibbs, "CELL_TOKENS", 1)
    texts = [["the", "the", *(f"w{number}" for number in range(4))]] * 60
    heavy = lda(n_blocks="auto")._algorithm(corpus_from(texts, chunk_tokens=12))
    assert heavy.n_blocks == 2
    assert lda(n_blocks="auto")._algorithm(corpus_from([text[1:] for text in texts], chunk_tokens=12)).n_blocks == 4


# --- unusual corpora ---


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n_topics", [2, 70, 300])
@pytest.mark.parametrize(
    "texts",
    [
        [["w0"]],
        [["w0"] * 30] * 4,
        [[], ["w0", "w1"], [], []],
        [["w0", "w0", "w1"], ["w2"]],
        [[f"w{number}" for number in range(40)]],
    ],
    ids=["one token", "one word", "empty documents", "more blocks than words", "one document"],
)
def test_tiny_corpora_are_counted_exactly(texts, n_topics):
    corpus = corpus_from(texts, chunk_tokens=1)
    model = lda(n_topics, n_blocks=8, max_iter=3).fit(corpus)
    assert_counts(model, corpus)
    np.testing.assert_allclose(model.transform(texts).sum(axis=1), 1, rtol=1e-5)


documents = st.lists(st.lists(st.integers(0, 6), max_size=6), min_size=1, max_size=12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=25, deadline=None)
@given(documents, st.sampled_from([2, 40, 70]), st.integers(1, 12), st.sampled_from([1, 2, 8, "auto"]))
def test_any_corpus_is_counted_exactly(tmp_path_factory, texts, n_topics, chunk_tokens, n_blocks):
    # A word in each document makes sure that there is one.
    texts = [[f"w{word}" for word in text] for text in texts] + [["w0"]]
    corpus = ingest(texts, tmp_path_factory.mktemp("any") / "corpus", chunk_tokens=chunk_tokens)
    model = lda(n_topics, n_blocks=n_blocks, max_iter=3).fit(corpus)
    assert_counts(model, corpus)
    np.testing.assert_allclose(model.transform(texts).sum(axis=1), 1, rtol=1e-5)


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=8), st.permutations(range(10)))
def test_a_chunk_in_the_order_of_rows_has_the_same_documents(texts, order):
    bounds = np.cumsum([0, *map(len, texts)])
    chunk = make_chunk(0, bounds, np.array([word for text in texts for word in text], np.uint32), 4)
    found = in_order_of_rows(chunk, np.array(order))
    np.testing.assert_array_equal(np.array(order)[found.completed().words], chunk.words)
    np.testing.assert_array_equal(found.docs, found._replace(docs=np.zeros(0, np.uint32)).completed().docs)
    for start, end in zip(found.group_ptr, found.group_ptr[1:], strict=False):
        assert (np.diff(found.word_ids[start:end].astype(int)) > 0).all()
        tokens = slice(found.word_ptr[start], found.word_ptr[end])
        np.testing.assert_array_equal(np.sort(found.word_to_doc_order[tokens]), np.arange(tokens.start, tokens.stop))


@given(st.lists(st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=5), min_size=1, max_size=4))
def test_joined_chunks_have_the_documents_and_groups_of_all(parts):
    chunks = []
    for number, texts in enumerate(parts):
        bounds = np.cumsum([0, *map(len, texts)])
        chunks.append(make_chunk(number, bounds, np.array([w for text in texts for w in text], np.uint32), 4))
    whole = joined(chunks).completed()
    texts = [text for part in parts for text in part]
    words = np.empty(whole.n_tokens, int)
    words[whole.word_to_doc_order] = np.repeat(whole.word_ids, np.diff(whole.word_ptr))
    assert [words[a:b].tolist() for a, b in zip(whole.doc_ptr, whole.doc_ptr[1:], strict=False)] == texts
    documents = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    np.testing.assert_array_equal(whole.docs, documents[whole.word_to_doc_order])
    assert len(whole.group_ptr) - 1 == sum(len(chunk.group_ptr) - 1 for chunk in chunks)
    assert whole.group_ptr[-1] == len(whole.word_ids) == len(whole.word_ptr) - 1
