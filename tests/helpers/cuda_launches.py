"""The launches of every CUDA kernel, recorded on a machine without a device, to compile them and count registers."""

from unittest import mock

import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.count_rows import CountRows
from corpusmill.kernels.cuda import count_rows
from corpusmill.kernels.cuda.launch import launch
from corpusmill.kernels.cuda.lda import esca as lda
from corpusmill.kernels.cuda.lda import minibatch as aga
from corpusmill.kernels.cuda.memory import leave_on_device, upload
from corpusmill.kernels.cuda.nmf import hals as nmf
from corpusmill.kernels.cuda.nmf import products as nmf_products
from corpusmill.kernels.cuda.nmf import sums as nmf_sums
from corpusmill.kernels.cuda.node2vec import walks
from corpusmill.kernels.cuda.random_indexing import accumulate as random_indexing
from corpusmill.kernels.cuda.word2vec import cells
from corpusmill.kernels.cuda.word2vec import skip_gram as word2vec
from corpusmill.kernels.lda import minibatch as lda_minibatch
from corpusmill.kernels.lda.counts import WordCounts
from corpusmill.kernels.lda.model import ModelBlock
from corpusmill.kernels.nmf import hals as nmf_cpu
from corpusmill.kernels.nmf import products
from corpusmill.kernels.node2vec import walks as walks_cpu
from corpusmill.kernels.random_indexing import text as ri_text
from corpusmill.kernels.word2vec.cells import CellOptions
from corpusmill.kernels.word2vec.text import Text, TrainingOptions

from benchmarks.papers import (
    aga_lda,
    full_register,
    random_indexing_passes,
    saberlda_alias,
    saberlda_cuda,
    vector_lengths,
)
from benchmarks.papers.kernels import tiled_cuda

from .cuda_ptx import recorded


def lda_launches(n_topics, n_tokens):
    """Draw first and next topics of one document, and count."""
    words = np.arange(n_tokens, dtype=np.uint32) % 3
    chunk, z = make_chunk(0, np.array([0, n_tokens]), words), np.zeros(n_tokens, np.uint16)
    none = np.zeros(4, np.int64), np.empty(0, np.uint16), np.empty(0, np.int32)
    model = ModelBlock(*none, 0, np.zeros(n_topics, np.int64), np.ones(n_topics, np.float32), 0.01, 3)

    def call():
        for old in (None, z):
            lda.sweep(chunk, [model], old, random.key(1))
        counts = lda.finish_words(lda.add_words(chunk.word_ids, chunk.word_ptr, z, (0, 3), n_topics, None))
        merged = lda.merge_many([WordCounts(**counts)] * 2, n_topics)
        count_rows.pack_rows(CountRows(*merged))

    # Entries of B are written only if there are any.
    return recorded(call, answer=1)


def alias_launches():
    """Draw next topics of one document by alias tables, in order of words and in order of documents."""
    words = np.zeros(6, np.uint32)
    chunk, z = make_chunk(0, np.array([0, 6]), words), np.zeros(6, np.uint16)

    def call():
        arrays = np.array([0, 1]), np.zeros(1, np.uint16), np.ones(1, np.int32)
        model = ModelBlock(*arrays, 0, np.ones(1024, np.int64), np.ones(1024, np.float32), 0.01, 1)
        with saberlda_alias.alias_sampling():
            lda.sweep(chunk, [model], z, random.key(1))
        every_word = tuple(upload(array, "every word") for array in saberlda_cuda.every_word(model))
        saberlda_cuda.draw_by_documents(chunk, z, model, every_word, random.key(1))

    # The others are those of "lda".
    names = ("_build", "draw", "_draw_by_documents")
    return [launch for launch in recorded(call, answer=1) if launch.function.__name__ in names]


def aga_launches(n_topics=128):
    """Draw one mini-batch."""
    tokens = lda_minibatch.Tokens(*(np.zeros(1, np.uint32) for _ in range(3)))
    A, N, alpha = np.ones((1, n_topics), np.int32), np.ones(n_topics, np.int32), np.ones(n_topics, np.float32)
    tables = lda_minibatch.CountTables(A, A.copy(), N, alpha, 0.01, 0.01)
    z, doc_ptr = np.zeros(1, np.uint16), np.array([0, 1])
    return recorded(lambda: aga.minibatch(tokens, tables, z, random.key(1), doc_ptr, 256))


def paper_launches():
    """Draw a mini-batch with immediate updates, train by FULL-Register, compute and scale lengths of vectors."""
    tokens = lda_minibatch.Tokens(*(np.zeros(1, np.uint32) for _ in range(3)))
    A, N = np.ones((1, 128), np.int32), np.ones(128, np.int32)
    tables = lda_minibatch.CountTables(A, A.copy(), N, np.ones(128, np.float32), 0.01, 0.01)
    text, options, W_in, W_out = word2vec_case(128)

    def call():
        aga_lda.minibatch(tokens, tables, np.zeros(1, np.uint16), random.key(1), np.array([0, 1]), 256)
        full_register.train(text, options, W_in, W_out)
        for function, _, _ in vector_lengths.FORMS.values():
            launch(function, 1, vector_lengths.THREADS, np.zeros((1, 256), np.float32), np.zeros(1), 0)

    # The others are those of "lda, mini-batches".
    found = recorded(call)
    return [launch for launch in found if "papers" in launch.function.py_func.__module__]


def random_indexing_launches(dimension=2048):
    """Sum sparse seeds by word and in passes, sum dense seeds."""
    chunk = make_chunk(0, np.array([0, 40]), np.zeros(40, np.uint32))
    tokens, window = ri_text.prepare_tokens(chunk, np.ones(1, bool), 2), ri_text.make_window(2, "permutation")
    seeds, rows = np.zeros((1, 5), np.uint32), np.ones((1, dimension), np.int32)

    def call():
        sums = random_indexing.accumulate(tokens, window, seeds, dimension)
        random_indexing.sum_at(len(sums), [(np.arange(len(sums)), sums)])
        floats = leave_on_device(upload(np.ones((1, dimension), np.float32), "sums"), "sums")
        random_indexing.sum_at(1, [(np.zeros(1, np.int64), floats)])
        random_indexing_passes.accumulate(tokens, window, seeds, dimension)
        with mock.patch.object(random_indexing_passes, "SMALLEST", 1):
            random_indexing_passes.accumulate(tokens, window, seeds, dimension)
        slabs = random_indexing.make_slabs([(rows, np.zeros(1, np.uint32))])
        random_indexing.accumulate_dense(tokens, window, slabs, 0, np.zeros((1, dimension), np.float32))

    return recorded(call)


def word2vec_case(dimension):
    """Return a text of three words, options, and both matrices."""
    text = Text(np.array([0, 3]), np.zeros(3, np.uint32), np.zeros(3, np.uint32))
    table = np.zeros(4, np.uint32)
    options = TrainingOptions(5, 5, table, random.key(1), random.key(2), 0.025, 1e-6, 1e-4)
    return text, options, *(np.zeros((2, dimension), np.float32) for _ in range(2))


def word2vec_launches(dimension=128):
    """Train by FULL-W2V and by PAR-Word2Vec, and a cell of strata."""
    text, options, W_in, W_out = word2vec_case(dimension)

    def call():
        for method in ("full", "par"):
            word2vec.train(method, text, options, W_in, W_out)
        cell = CellOptions(5, 1.0, 0.1, 0.025, 1e-6, 1e-4, random.key(1))
        with mock.patch.object(cells, "shared_memory_limit", return_value=227 << 10):
            cells.train_cell(W_in, W_out, np.zeros(1, np.uint32), np.zeros(64, np.uint16), cell)

    return recorded(call)


def walks_launches():
    """Walk over a graph with weights."""
    edges = np.array([0, 1, 2]), np.array([1, 0], np.uint32), np.full(2, 2, np.float32)
    walker = walks_cpu.make_walker(walks_cpu.Adjacency(*edges, True), 0.5, 2)
    starts = np.zeros(1, np.uint32)
    return recorded(lambda: walks.walk(walker, starts, 8, random.key(1)), answer=1)


def nmf_launches(K=128):
    """Sweep factors by blocks of rows, for sparse and dense data and from products; add sums."""
    A = products.sparse_matrix(products.SparseRows(np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32)), 1)
    one = np.ones((1, K), np.float32)
    rule = nmf_cpu.update_rule(np.eye(K))

    def call():
        P, Q = nmf_sums.zero_sums(1, (K, K), K, np.float32)
        nmf.sweep_sparse(A, one, rule, one.copy(), P, Q, 1, None)
        nmf.sweep_dense(np.ones((1, 1), np.float32), one, rule, one.copy(), P, Q, 1, None)
        nmf_sums.add_sums(P, P, "P")
        nmf.sweep_products(P, rule, one.copy(), 1, None)

    # If CuPy is installed, its matrix products replace some kernels.
    with mock.patch.object(nmf_products, "has_cupy", return_value=False):
        return recorded(call)


def tile_launches(K=128):
    """Sweep a factor in the three phases of ALO-NMF."""
    one = np.ones((1, K), np.float32)

    def call():
        tiled_cuda.sweep_columns(one.copy(), one.copy(), np.eye(K, dtype=np.float32), 16, 1)

    with mock.patch.object(tiled_cuda, "has_cupy", return_value=False):
        found = recorded(call)
    # The others are those of "nmf".
    return [launch for launch in found if launch.function.__name__ in ("_transpose", "_multiply", "_sweep_tile")]


#: All launches by model. The first launch of each kernel has the sizes of real use.
LAUNCHES = {
    # A long document may have dense rows, its words are frequent, and its table may be too large for shared memory. Of
    # 11,000 topics, only φ fits into shared memory, and of 13,000 nothing.
    "lda": lambda: [*lda_launches(1024, 5000), *lda_launches(11_000, 6), *lda_launches(13_000, 5000)],
    "lda, alias tables": alias_launches,
    "lda, mini-batches": aga_launches,
    "random indexing": random_indexing_launches,
    "word2vec": word2vec_launches,
    "walks": walks_launches,
    "nmf": nmf_launches,
    "nmf, tiles": tile_launches,
    "other kernels of papers": paper_launches,
}


def kernels(model):
    """Return the first launch of each of a model's kernels."""
    first = {}
    for one in LAUNCHES[model]():
        first.setdefault(one.function, one)
    return list(first.values())
