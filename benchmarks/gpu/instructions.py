"""Executed PTX instructions of each kernel, counted on a CPU: CORPUSMILL_PTX=9.0 python -m benchmarks.gpu instructions.

`prediction.py` has the numbers. A warp executes an instruction for its 32 threads at once.
"""

import click
import numpy as np
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random

from benchmarks.common import emulated
from benchmarks.gpu.data import random_documents
from benchmarks.gpu.measure import report


def lda(topics, tokens, words):
    """Draw the topics of documents that have thirty topics each, and count them."""
    from corpusmill.kernels.cuda.lda import esca
    from corpusmill.kernels.lda.counts import count_words, topic_totals
    from corpusmill.kernels.lda.model import ModelBlock

    rng = np.random.default_rng(1)
    doc_ptr = np.r_[0:tokens:330, tokens]
    ids = np.minimum(rng.zipf(1.3, tokens) - 1, words - 1).astype(np.uint32)
    chunk = make_chunk(0, doc_ptr, ids, group_tokens=1 << 62)
    of_documents = rng.integers(0, topics, (len(doc_ptr) - 1, 30))
    z = of_documents[chunk.docs, rng.integers(0, 30, tokens)].astype(np.uint16)
    counts = count_words(chunk.word_ids, chunk.word_ptr, z, (0, words), topics)
    totals = topic_totals(counts.topics, counts.counts, topics)
    model = ModelBlock(*counts, 0, totals, np.full(topics, 0.1, np.float32), 0.01, words)

    def call():
        drawn = esca.sweep(chunk, [model], z, random.key(2))
        esca.finish_words(esca.add_words(chunk.word_ids, chunk.word_ptr, drawn, (0, words), topics, None))

    return call, tokens


def nmf(K, rows, non_zeros):
    """Sweep rows of a sparse matrix by the product's own kernels."""
    from corpusmill.kernels.cuda.nmf import hals, sums
    from corpusmill.kernels.nmf import hals as on_cpu
    from corpusmill.kernels.nmf import products

    rng = np.random.default_rng(1)
    columns = 1000
    indices = np.sort(rng.integers(0, columns, (rows, non_zeros)), axis=1).astype(np.int32)
    indptr = np.arange(0, rows * non_zeros + 1, non_zeros)
    A = products.sparse_matrix(
        products.SparseRows(indptr, indices.ravel(), rng.random(rows * non_zeros, np.float32)), columns
    )
    W, H = rng.random((columns, K), np.float32), rng.random((rows, K), np.float32)
    rule = on_cpu.update_rule(W.T.astype(float) @ W)

    def call():
        P, Q = sums.zero_sums(columns, (K, K), K, np.float32)
        hals.sweep_sparse(A, W, rule, H, P, Q, 1, None)

    return call, rows * non_zeros


def skip_gram(method, tokens, words=200):
    """Train words by FULL-W2V or PAR-Word2Vec, D = 128."""
    from corpusmill.kernels.cuda.word2vec import skip_gram as kernels
    from corpusmill.kernels.word2vec.text import Text, TrainingOptions, negative_table

    rng = np.random.default_rng(1)
    text = Text(
        np.array([0, tokens]), rng.integers(0, words, tokens).astype(np.uint32), np.arange(tokens, dtype=np.uint32)
    )
    table = negative_table(np.arange(words, 0, -1), 0.75, 1 << 12, random.key(5))
    options = TrainingOptions(5, 5, table, random.key(6), random.key(7), 0.025, 1e-9, 1e-4)
    W = [rng.normal(0, 0.1, (words, 128)).astype(np.float32) for _ in range(2)]
    return lambda: kernels.train(method, text, options, *W), tokens


def strata(pairs, rows=512):
    """Train a cell of strata, D = 128."""
    from corpusmill.kernels.cuda.word2vec import cells
    from corpusmill.kernels.word2vec.cells import CellOptions

    rng = np.random.default_rng(1)
    W = [rng.normal(0, 0.1, (rows, 128)).astype(np.float32) for _ in range(2)]
    packed = np.sort(rng.integers(0, rows, pairs) << 16 | rng.integers(0, rows, pairs)).astype(np.uint32)
    options = CellOptions(5, 1.0, 0.1, 0.025, 1e-6, 1e-4, random.key(1))
    table = rng.integers(0, rows, 1 << 12).astype(np.uint16)
    return lambda: cells.train_cell(*W, packed, table, options), pairs


def random_indexing(tokens, D=2048):
    """Sum sparse seeds of ten numbers over windows of five words on each side.

    A word has 66 occurrences on average, as one in a chunk of four million tokens: each word costs a block the time to
    clear its sums and to add them to the result.
    """
    from corpusmill.kernels.cuda.random_indexing import accumulate
    from corpusmill.kernels.random_indexing import text as ri_text

    words = tokens // 66
    chunk = random_documents(1, tokens, words)
    window = ri_text.make_window(5, "permutation")
    text = ri_text.prepare_tokens(chunk, np.ones(words, bool), window.reach)
    seeds = ri_text.make_seeds(random.stream(random.key(1), len(text.ids)), random.key(2), D, 10)
    return lambda: accumulate.accumulate(text, window, seeds, D), chunk.n_tokens


CASES = {
    "LDA, K = 1,024": lambda few: lda(1024, 2000 if few else 60_000, 20 if few else 300),
    "LDA, K = 5,000": lambda few: lda(5000, 2000 if few else 60_000, 20 if few else 300),
    "NMF, K = 256": lambda few: nmf(32 if few else 256, 32, 90),
    "full": lambda few: skip_gram("full", 50 if few else 1000),
    "par": lambda few: skip_gram("par", 50 if few else 1000),
    "strata": lambda few: strata(300 if few else 8000),
    "random indexing": lambda few: random_indexing(400 if few else 40_000),
}


@click.command()
@click.pass_obj
def instructions(session):
    """Executed PTX instructions of a warp per token, non-zero or pair, by kernel. Needs CORPUSMILL_PTX."""
    if not emulated():
        raise click.ClickException("only the device of tests/ptx counts instructions: set CORPUSMILL_PTX=9.0")
    from tests.ptx import device

    for name, case in CASES.items():
        call, units = case(session.quick)
        call()
        with device.launches() as found:
            call()
        totals: dict[str, float] = {}
        for one in found:
            totals[one.name] = totals.get(one.name, 0) + one.counts["warps"].sum() / units
        for kernel, number in totals.items():
            report(session, "instructions", f"{name}: {kernel.rsplit('.', 1)[-1]}", float(number))
