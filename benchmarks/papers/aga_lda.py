"""AGA-LDA with immediate updates, after Algorithms 10 and 11 of Moon's dissertation (2019).

A draw changes the counts of its word and the totals at once, by atomic operations, and other threads draw from the
changed counts. The package changes them after the panel and after the mini-batch, so that topics do not depend on which
thread comes first. Counts by document change after the mini-batch in both forms.

Unlike in Algorithm 10, the token is left out of DNT too, and its old topic is lowered for other threads only after the
draw. The settings are not those of section 2.5.4 either, which are alpha = beta = 0.1, K = 128, and 330 documents in a
mini-batch of KOS.
"""

from unittest import mock

import click
import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.cuda.jit import kernel
from corpusmill.kernels.cuda.lda import minibatch as delayed
from corpusmill.kernels.cuda.random import uniform64
from corpusmill.kernels.lda import minibatch as cpu
from numba import cuda, int32

from benchmarks.gpu.data import random_documents
from benchmarks.gpu.measure import kernel_seconds, print_row, report
from benchmarks.papers.lda_samplers import count_tables


def minibatch(*arguments):
    """Draw as `delayed.minibatch` does, with immediate updates."""
    with mock.patch.multiple(delayed, _draw=_draw_immediately, _update=_update_documents):
        delayed.minibatch(*arguments)


@kernel
def _draw_immediately(state, factors, first, first_tile, tiles, topics, panel_words, key):
    """Draw the tokens of one panel in each block. Each draw changes the panel and the totals."""
    tokens, tables = state
    stride = len(tables.alpha) | 1
    tile = first_tile + cuda.blockIdx.x
    start = tiles.ptr[tile]
    end = tiles.ptr[tile + 1]
    if start == end:
        return
    first_word = cuda.blockIdx.x * panel_words
    n_words = min(panel_words, len(tables.B) - first_word)
    panel = cuda.shared.array(0, int32)
    delayed._copy_panel(tables.B, first_word, n_words, panel, True)
    cuda.syncthreads()
    for t in range(start + cuda.threadIdx.x, end, cuda.blockDim.x):
        i = tiles.order[t]
        d = np.int64(tokens.docs[i])
        head = (np.int64(tokens.words[i]) - first_word) * stride
        old = np.int64(topics.old[i])
        u = uniform64(key, i)
        k = delayed._draw_topic(tables, panel, head, d, factors[d - first], old, u)
        topics.drawn[i] = k
        if k != old:
            cuda.atomic.sub(panel, head + old, 1)
            cuda.atomic.add(panel, head + k, 1)
            cuda.atomic.sub(tables.N, old, 1)
            cuda.atomic.add(tables.N, k, 1)
    cuda.syncthreads()
    delayed._copy_panel(tables.B, first_word, n_words, panel, False)


@kernel
def _update_documents(state, tiles, first, last, topics):
    """Bring the counts by document up to date after a mini-batch."""
    tokens, tables = state
    for t in range(tiles.ptr[first] + cuda.grid(1), tiles.ptr[last], cuda.gridsize(1)):
        i = tiles.order[t]
        old = np.int64(topics.old[i])
        drawn = np.int64(topics.drawn[i])
        if old != drawn:
            d = np.int64(tokens.docs[i])
            cuda.atomic.sub(tables.A, (d, old), 1)
            cuda.atomic.add(tables.A, (d, drawn), 1)


#: The forms of the mini-batches.
FORMS = {"delayed": delayed.minibatch, "immediate": minibatch}


@click.command("aga")
@click.option("--tokens", default=2_000_000)
@click.option("--topics", "n_topics", default=256)
@click.option("--documents", default=256, help="Documents of a mini-batch.")
@click.option("--passes", default=20)
@click.pass_obj
def aga(session, tokens=2_000_000, n_topics=256, documents=256, passes=20):
    """Figure 2.12 of Moon: mini-batches with delayed and with immediate updates. M tokens/s, and the likelihood."""
    if session.quick:
        tokens, n_topics, documents, passes = 60, 8, 2, 2
    chunk = random_documents(0, tokens, 300 if session.quick else 30_000)
    words = cpu.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)
    n_words = int(chunk.words.max()) + 1
    first = np.random.default_rng(0).integers(0, n_topics, len(chunk.docs)).astype(np.uint16)
    print_row("updates", "M tokens/s", *(f"pass {n}" for n in (1, passes // 2, passes)))
    for name, draw in FORMS.items():
        z = first.copy()
        found = []
        seconds = 1.0
        for turn in range(passes):
            tables = tables_of(words, z, len(chunk.doc_ptr) - 1, n_words, n_topics)
            if turn == 0:
                arguments = words, tables, z.copy(), random.key(1), chunk.doc_ptr, documents
                _, seconds = kernel_seconds(lambda draw=draw, arguments=arguments: draw(*arguments))
            draw(words, tables, z, random.key(1, turn), chunk.doc_ptr, documents)
            if turn + 1 in (1, passes // 2, passes):
                found.append(log_likelihood(words, z, len(chunk.doc_ptr) - 1, n_words, n_topics))
        report(session, "aga", name, len(z) / seconds / 1e6, *found)


def tables_of(tokens, z, n_documents, n_words, n_topics):
    """Return the counts of topics ``z``."""
    alpha = np.full(n_topics, 50 / n_topics, np.float32)
    return count_tables(tokens, z, n_documents, n_words, alpha, 0.01)


def log_likelihood(tokens, z, n_documents, n_words, n_topics) -> float:
    """Return the mean log likelihood of a token: equation 2.4, for the training documents."""
    A, B, N, alpha, beta, mass = tables_of(tokens, z, n_documents, n_words, n_topics)
    theta = (A + alpha) / (A.sum(axis=1, keepdims=True) + alpha.sum())
    phi = (B + beta) / (N + mass)
    total = 0.0
    for part in np.array_split(np.arange(len(z)), max(1, len(z) // 100_000)):
        total += np.log(np.einsum("tk,tk->t", theta[tokens.docs[part]], phi[tokens.words[part]])).sum()
    return float(total / len(z))
