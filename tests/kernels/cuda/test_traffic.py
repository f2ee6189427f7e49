"""Bytes that a sweep copies, and how often kernels are launched and the host waits: formulas for each model.

A sweep uploads only arrays that are not on the device yet, and downloads only its results. These tests fail when a
change adds a copy, a launch or a wait, and name it. They run .
"""

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.cuda.lda import document_counts, word_counts
from corpusmill.kernels.cuda.lda import esca as cuda_esca
from corpusmill.kernels.cuda.lda import minibatch as cuda_minibatch
from corpusmill.kernels.cuda.lda.order import make_jobs, word_order
from corpusmill.kernels.cuda.memory import cached_copy, share_residents
from corpusmill.kernels.cuda.nmf import hals as cuda_hals
from corpusmill.kernels.cuda.nmf import products as cuda_products
from corpusmill.kernels.cuda.nmf import sums as cuda_sums
from corpusmill.kernels.cuda.node2vec import walks as cuda_walks
from corpusmill.kernels.cuda.random_indexing import accumulate as cuda_accumulate
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.cuda.word2vec import cells as cuda_cells
from corpusmill.kernels.cuda.word2vec import skip_gram as cuda_skip_gram
from corpusmill.kernels.lda import minibatch
from corpusmill.kernels.lda.counts import WordCounts, count_words, topic_totals
from corpusmill.kernels.lda.model import ModelBlock
from corpusmill.kernels.nmf import hals, products
from corpusmill.kernels.node2vec import walks
from corpusmill.kernels.random_indexing import text as ri_text
from corpusmill.kernels.word2vec.cells import CellOptions
from corpusmill.kernels.word2vec.sub_cells import number_of_groups
from corpusmill.kernels.word2vec.text import Text, TrainingOptions, negative_table
from helpers.cuda_traffic import Traffic
from helpers.graphs import adjacency, random_graph
from helpers.on_device import on_device
from helpers.toy import write_topic_corpus
from scipy import sparse

pytestmark = on_device


def sizes(prefix, arrays):
    """Return the bytes of a named tuple's arrays by the causes that the ledger shows; without empty arrays."""
    named = {f"{prefix}.{field}": value for field, value in arrays._asdict().items() if isinstance(value, np.ndarray)}
    return {cause: array.nbytes for cause, array in named.items() if array.size}


# --- LDA ---

K, W = 7, 12


def lda_case(n_tokens=50, n_documents=5):
    rng = np.random.default_rng(0)
    doc_ptr = np.r_[0, np.sort(rng.integers(0, n_tokens, n_documents - 1)), n_tokens]
    words = np.minimum(rng.geometric(0.2, n_tokens) - 1, W - 1).astype(np.uint32)
    return make_chunk(0, doc_ptr, words, group_tokens=40)


def model_of(chunk, z):
    counts = count_words(chunk.word_ids, chunk.word_ptr, z, (0, W), K)
    totals = topic_totals(counts.topics, counts.counts, K)
    return ModelBlock(*counts, 0, totals, np.full(K, 0.1, np.float32), 0.01, W)


def uploads_of_model(model, leave_out):
    """The model's rows, and the arrays of K or K + 1 numbers that make the prior."""
    rows = model.row_ptr.nbytes + model.topics.nbytes + model.counts.nbytes
    prior = 3 * 8 * K + 8 * (K + 1) + 4 * K  # alpha, inverse, word_factor; smooth; base
    if leave_out:
        prior += 8 * K  # lowered: otherwise the same array as inverse
    tree = 8 * K + 8 * -(-K // 32)
    return rows + prior + tree


@pytest.fixture
def _few_blocks():
    with mock.patch.multiple(cuda_esca, BLOCKS=2), mock.patch.multiple(document_counts, BLOCKS=2, WARPS=2):
        yield


def model_bytes(uploads):
    return sum(nbytes for cause, nbytes in uploads.items() if cause.startswith(("model.", "prior.")))


@pytest.mark.usefixtures("_few_blocks")
def test_a_chunk_of_lda_is_uploaded_once_and_its_topics_never():
    chunk = lda_case()
    T, D, S = chunk.n_tokens, chunk.n_documents, len(chunk.word_ids)
    first_model = model_of(chunk, np.zeros(T, np.uint16))
    topics = {}

    def sweep(model, old):
        topics[old] = cuda_esca.sweep(chunk, [model], topics.get(old - 1), random.key(1, old))

    # First topics: the chunk in order of words.
    first = Traffic(lambda: sweep(first_model, 0))
    order = word_order(chunk.word_ids, chunk.word_ptr)
    n_jobs = len(make_jobs(order, (0, W), 256, cuda_esca.JOBS).rows)
    assert model_bytes(first.uploads) == uploads_of_model(first_model, leave_out=False)
    assert sum(first.uploads.values()) - model_bytes(first.uploads) == (
        (4 + 8) * S + 8 * (S + 1)  # the order of segments, and the tokens before each
        + 8 * (S + 1) + 4 * T  # word_ptr, docs
        + 4 * 8 * n_jobs
    )  # fmt: skip
    assert first.downloads == {"topics": 2 * T}
    assert first.launches == {"clear": 1, "draw": 1}
    assert first.waits == {"topics": 1}

    # The second sweep of the chunk needs its documents, too. The topics are on the device already.
    second_model = model_of(chunk, topics[0])
    second = Traffic(lambda: sweep(second_model, 1))
    assert model_bytes(second.uploads) == uploads_of_model(second_model, leave_out=True)
    assert sum(second.uploads.values()) - model_bytes(second.uploads) == (
        8 * (D + 1) + 4 * T  # doc_ptr, word_to_doc_order
        + 8 * (D + 1)  # where the rows of A begin
        + (8 + 4) * D  # the documents by the size of their tables, and these sizes
        + 4 * K  # alpha, for dense rows
    )  # fmt: skip
    assert second.downloads == {"topics": 2 * T}
    # So few topics are always drawn from dense rows. Cleared are the number of entries and the cursor of the jobs.
    assert second.launches == {"clear": 2, "shuffle": 1, "count_documents": 1, "make_dense": 1, "draw": 1}
    # The host does not wait before the draws.
    assert second.waits == {"topics": 1}

    # From then on, no array of the chunk is copied.
    third_model = model_of(chunk, topics[1])
    third = Traffic(lambda: sweep(third_model, 2))
    # The model of this test has a new alpha in each epoch.
    assert sum(third.uploads.values()) - model_bytes(third.uploads) == 4 * K
    assert third.downloads == second.downloads
    assert third.launches == second.launches
    assert third.waits == second.waits


@pytest.mark.usefixtures("_few_blocks")
def test_counts_of_words_stay_on_the_device():
    chunk = lda_case()
    z = np.random.default_rng(1).integers(0, K, chunk.n_tokens).astype(np.uint16)
    found = {"counts": None}

    def add():
        with mock.patch.multiple(word_counts, BLOCKS=2):
            found["counts"] = cuda_esca.add_words(chunk.word_ids, chunk.word_ptr, z, (0, W), K, found["counts"])

    def finish():
        with mock.patch.multiple(word_counts, BLOCKS=2):
            found["finished"] = cuda_esca.finish_words(found["counts"])

    first = Traffic(add)
    assert first.downloads == {}
    # All words of this text are rare, and are counted by one warp each.
    assert first.launches == {"clear": 1, "add_rare_words": 1}
    assert first.waits == {}
    # A second chunk of the shard would upload its own tokens.
    again = Traffic(add)
    assert again.uploads == {}
    assert again.downloads == {}
    assert again.launches == {"add_rare_words": 1}
    assert again.waits == {}
    last = Traffic(finish)
    counts = found["finished"]
    assert last.uploads == {"B.row_ptr": 8 * (W + 1)}
    assert last.downloads == {"B.lengths": 8 * W}
    assert last.launches == {"count_entries": 1, "write_entries": 1}
    assert last.waits == {"B.lengths": 1}
    # Those of two shards are added on the device.
    tables = [WordCounts(**counts)] * 2
    merged = {}
    both = Traffic(lambda: merged.update(cuda_esca.merge_many(tables, K)._asdict()))
    assert both.uploads == {"B.row_ptr": 8 * (W + 1)}
    assert both.downloads == {"B.lengths": 8 * W}
    assert both.launches == {"clear": 1, "add_rows": 2, "count_entries": 1, "write_entries": 1}
    assert both.waits == {"B.lengths": 1}
    # The sum is fetched once, for the update of the block. It stays there for the next sweep.
    update = Traffic(lambda: RESIDENTS.bring_back(merged.values(), keep=True))
    assert update.downloads == {"B.topics": merged["topics"].nbytes, "B.counts": merged["counts"].nbytes}
    assert update.waits == {"B.topics": 1, "B.counts": 1}
    assert Traffic(lambda: [cached_copy(array, "model") for array in merged.values()]).uploads == {}


def test_mini_batches_upload_counts_and_download_topics():
    chunk = lda_case()
    tokens = minibatch.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)
    z = np.random.default_rng(2).integers(0, K, chunk.n_tokens).astype(np.uint16)
    A = minibatch.document_counts(tokens, z, chunk.n_documents, K)
    B = np.zeros((W, K), np.int32)
    np.add.at(B, (tokens.words, z), 1)
    tables = minibatch.CountTables(A, B, B.sum(axis=0, dtype=np.int32), np.full(K, 0.1, np.float32), 0.1, 0.1 * W)
    documents = 2
    batches = -(-chunk.n_documents // documents)

    def draw():
        with mock.patch.multiple(cuda_minibatch, BLOCKS=2):
            cuda_minibatch.minibatch(tokens, tables, z, random.key(1), chunk.doc_ptr, documents)

    draw()
    again = Traffic(draw)
    assert again.uploads == {"B": B.nbytes, "N": 4 * K, "topics": z.nbytes}
    assert again.downloads == {"topics": z.nbytes}
    once = {"clear": 1, "count_documents": 1}
    assert again.launches == once | {"document_factors": batches, "draw": batches, "update": batches}
    assert again.waits == {"topics": 1}


# --- NMF ---


def rule_bytes(rule, K=5):
    return {"S": 4 * K * K, "keep": rule.keep.nbytes, "step": rule.step.nbytes}


@pytest.fixture
def _few_blocks_of_nmf():
    with mock.patch.multiple(cuda_products, BLOCKS=2):
        with mock.patch.multiple(cuda_sums, BLOCKS=2):
            yield


@pytest.mark.usefixtures("_few_blocks_of_nmf")
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_an_epoch_of_nmf_copies_only_what_a_commit_writes(form):
    rng = np.random.default_rng(0)
    A = sparse.random(35, 9, 0.4, "csr", dtype=np.float32, random_state=rng)
    matrix = products.sparse_matrix(
        products.SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data), 9
    )
    W, H = rng.random((9, 5), np.float32), rng.random((35, 5), np.float32)
    rule = hals.update_rule(W.T @ W)
    dense = A.toarray()
    found = {"H": H, "W": W}

    def begin():
        found["P"], found["Q"] = cuda_sums.zero_sums(9, (5, 5), 5, np.float32)

    def sweep():
        if form == "sparse":
            swept = cuda_hals.sweep_sparse(matrix, found["W"], rule, found["H"], found["P"], found["Q"], 1, None)
        else:
            swept = cuda_hals.sweep_dense(dense, found["W"], rule, found["H"], found["P"], found["Q"], 1, None)
        found["H"] = swept

    def update():
        RESIDENTS.bring_back([found["Q"]])
        found["W"], _, _ = cuda_hals.sweep_products(found["P"], rule, found["W"], 1, None)

    begun = Traffic(begin)
    assert begun.uploads == {}
    first = Traffic(sweep)
    chunk = Counter(sizes("A", matrix.by_row)) + Counter(sizes("A", matrix.by_column))
    if form == "dense":
        chunk = {"A": dense.nbytes}
    assert first.uploads == chunk | rule_bytes(rule) | {"W": W.nbytes, "H": H.nbytes}
    assert first.downloads == {"H": H.nbytes}
    # In the next epoch, the new H is on the device. Another chunk of the shard adds to the same P and Q.
    again = Traffic(sweep)
    assert again.uploads == rule_bytes(rule)
    assert again.allocations == {"H": 1}
    assert again.downloads == {"H": H.nbytes}
    if form == "sparse" and not cuda_products.has_cupy():
        assert again.launches == {"sweep_block": 1, "multiply_rows": 1, "multiply_columns": 1}
    assert again.waits == {"H": 1}
    # The sums of shards wait on the device, and are added there.
    shared = Traffic(lambda: share_residents([found["P"], found["Q"]], "sums"))
    assert shared.downloads == {}
    # P never leaves the device, and the old W is there already.
    last = Traffic(update)
    assert last.uploads == rule_bytes(rule)
    parts = cuda_sums.PARTS
    assert last.downloads == {"Q": 8 * 5 * 5, "W sums": 8 * (5 * 5 + parts), "W": W.nbytes}
    assert last.waits == {"Q": 1, "W sums": 1, "W": 1}
    # The next sweep finds the new W on the device.
    begin()
    assert Traffic(sweep).uploads == rule_bytes(rule)


@pytest.mark.usefixtures("_few_blocks_of_nmf")
@pytest.mark.parametrize("n_blocks", [1, 2])
def test_epochs_of_nmf_upload_nothing_but_the_rules_of_updates(n_blocks, tmp_path):
    from corpusmill import NMF

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=2, documents=4, length=8)
    K, V, D, chunks = 3, corpus.n_words, corpus.n_documents, len(corpus.chunks)
    model = NMF(K, max_iter=3, tol=0, device="cuda", n_blocks=n_blocks).fit(corpus)
    rule = sum(rule_bytes(hals.update_rule(np.eye(K)), K).values())
    parts = cuda_sums.PARTS
    for row in model.history_[1:]:
        # Several blocks are joined on the device for the sweeps of an epoch.
        assert row["device_upload_bytes"] == (chunks + n_blocks) * rule
        gram = 8 * K * K
        assert row["device_download_bytes"] == 4 * K * (D + V) + n_blocks * (2 * gram + 8 * parts)


# --- Word2Vec ---


@pytest.mark.parametrize("method", ["full", "par"])
def test_matrices_in_training_are_copied_once_in_each_direction(method):
    rng = np.random.default_rng(4)
    ptr = np.r_[0, 5, 12].astype(np.int64)
    words = rng.integers(0, 9, 12).astype(np.uint32)
    text = Text(ptr, words, np.arange(12, dtype=np.uint32))
    table = negative_table(np.arange(9, 0, -1), 0.75, 64, random.key(5))
    options = TrainingOptions(3, 2, table, random.key(6), random.key(7), 0.05, 1e-3, 0.02)
    W_in, W_out = (rng.normal(0, 0.3, (9, 64)).astype(np.float32) for _ in range(2))

    def train():
        cuda_skip_gram.train(method, text, options, W_in, W_out)

    first = Traffic(train)
    matrices = {"W_in": W_in.nbytes, "W_out": W_out.nbytes}
    stretches = {"stretches": 2 * 4 * 8}
    assert first.uploads == matrices | stretches | sizes("text", text) | {"negatives": table.nbytes}
    assert first.downloads == {}
    assert first.launches == {f"train_{method}": 1}
    assert first.waits == {}
    # A second chunk of the shard would upload its own text and negatives.
    again = Traffic(train)
    assert again.uploads == stretches
    assert again.downloads == {}
    last = Traffic(lambda: RESIDENTS.bring_back([W_in, W_out]))
    assert last.downloads == matrices
    assert last.uploads == {}
    # After that, the matrices belong to the host again.
    assert Traffic(lambda: RESIDENTS.bring_back([W_in, W_out])).downloads == {}


# --- random indexing and walks ---


def test_random_indexing_downloads_the_sums_of_a_shard_once():
    rng = np.random.default_rng(0)
    words = np.minimum(rng.geometric(0.25, 60) - 1, 9).astype(np.uint32)
    chunk = make_chunk(0, np.array([0, 25, 26, 60]), words, group_tokens=40)
    tokens, window = ri_text.prepare_tokens(chunk, np.ones(10, bool), 3), ri_text.make_window(3, "permutation")
    seeds = ri_text.make_seeds(random.stream(random.key(1), len(tokens.ids)), random.key(2), 41, 3)
    n_words = len(tokens.occurrence_ptr) - 1

    found = {}

    def add():
        sums = cuda_accumulate.accumulate(tokens, window, seeds, 41)
        parts = [(np.arange(n_words), sums)]
        if "sums" in found:
            parts.insert(0, (np.arange(n_words), found["sums"]))
        found["sums"] = cuda_accumulate.sum_at(n_words, parts)

    first = Traffic(add)
    of_window = sum(array.nbytes for array in (window.offsets, window.shifts, window.weights))
    small = {"window": of_window, "pieces": 3 * 8 * n_words, "overflow": 4, "positions": 8 * n_words}
    text = {"text": tokens.text.nbytes, "occurrences": tokens.occurrences.nbytes, "seeds": seeds.nbytes // 3 * 4}
    assert first.uploads == small | text
    assert first.downloads == {"overflow": 4}
    assert first.launches == {"clear": 2, "accumulate_piece": 1, "add_integers": 1}
    assert first.waits == {"overflow": 1}
    # The next chunk of the shard is added on the device.
    again = Traffic(add)
    assert again.uploads == small | {"positions": 2 * 8 * n_words}
    assert again.downloads == first.downloads
    last = Traffic(lambda: RESIDENTS.bring_back([found["sums"]]))
    assert last.downloads == {"sums": 4 * n_words * 41}
    assert last.waits == {"sums": 1}


def test_walks_upload_the_graph_once_and_download_the_walks():
    graph = adjacency(random_graph(9, 0.3, False, True, seed=3), symmetric=True)
    walker = walks.make_walker(graph, 0.5, 2, False)
    starts = np.arange(9, dtype=np.uint32)

    def walk():
        cuda_walks.walk(walker, starts, 12, random.key(7))

    first = Traffic(walk)
    assert sizes("graph", graph).items() <= first.uploads.items()
    assert first.downloads == {"walks": 4 * 9 * 12, "lengths": 8 * 9}
    assert first.launches == {"walk": 1}
    assert first.waits == {"lengths": 1, "walks": 1}
    assert Traffic(walk).uploads == {"starts": starts.nbytes}


# --- strata ---


def test_a_cell_uploads_its_pairs_and_negatives_and_leaves_both_blocks_on_the_device():
    rng = np.random.default_rng(0)
    rows, n, size, G = 200, 30, 256, 2
    W = [rng.normal(0, 0.3, (rows, 64)).astype(np.float32) for _ in range(2)]
    pairs = np.sort(rng.integers(0, rows, n)).astype(np.uint32) << 16 | rng.integers(0, rows, n).astype(np.uint32)
    table = np.sort(rng.integers(0, rows, size)).astype(np.uint16)
    options = CellOptions(5, 1.0, 0.1, 0.025, 1e-6, 1e-4, random.key(1))
    assert number_of_groups(rows, rows) == G
    first, again = (Traffic(lambda: cuda_cells.train_cell(*W, pairs, table, options)) for _ in range(2))
    of_cell = {
        "pairs": 4 * n,
        "bounds": 8 * (G * G + 1),
        "negatives": 2 * size,
        "weights": 8 * G,
        "heaviest": 8 * G,
    }
    assert first.uploads == of_cell | {"W_in": W[0].nbytes, "W_out": W[1].nbytes}
    assert again.uploads == of_cell
    assert again.allocations == {}
    assert first.launches == again.launches == {"clear": 1, "train_sub_cells": 1}
    assert first.waits == again.waits == {"cell": 1}
    assert first.downloads == {}
    end = Traffic(lambda: RESIDENTS.bring_back(W))
    assert end.downloads == {"W_in": W[0].nbytes, "W_out": W[1].nbytes}
