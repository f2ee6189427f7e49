"""Word2Vec on a CUDA device."""

from functools import partial

import click
import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.cuda.word2vec import skip_gram as word2vec_cuda
from corpusmill.kernels.word2vec import skip_gram as word2vec_cpu
from corpusmill.kernels.word2vec.text import Text, TrainingOptions, negative_table

from benchmarks.gpu.data import random_documents
from benchmarks.gpu.measure import copy_rate, kernel_seconds, print_row, report, to_host_after, wall_seconds
from benchmarks.papers import word2vec_data_movement

#: Words of the text of a quick run.
QUICK_TEXT = 60


@click.command()
@click.option("--words", default=17_005_207, help="The default is the size of Text8.")
@click.pass_obj
def word2vec(session, words=17_005_207):
    """FULL-W2V and PAR-Word2Vec, d = 128, window 5, 5 negative samples: M words per second, and one CPU thread."""
    measure_methods(session, words)


def measure_methods(session, words: int) -> None:
    """Measure both methods on random documents of ``words`` words."""
    n_words, text = text_of(session, words)
    print_row("method", "M words/s", "with transfers", "GB/s counted", "over copy", "CPU, 1 thread", "paper")
    for method in ("full", "par"):
        step, W = step_of(n_words, 128)
        train = partial(word2vec_cuda.train, method, text, step, *W)
        _, seconds = kernel_seconds(train)
        n = len(text.words)
        rates = [n / s / 1e6 for s in (seconds, wall_seconds(partial(to_host_after, train, W), 1))]
        moved = n * bytes_a_word(128, step)[method] / seconds
        part = first_documents(text, 1_000_000)
        cpu = len(part.words) / wall_seconds(partial(word2vec_cpu.train, method, part, step, *W), 1)
        found = [*rates, moved / 1e9, moved / copy_rate(session), cpu / 1e6]
        report(session, "word2vec", method, *found, "8.6 x Wombat, V100" if method == "full" else "")


def text_of(session, words: int):
    """Return the number of words, and random documents of about 330 words."""
    n_words, words = (50, QUICK_TEXT) if session.quick else (70_000, words)
    chunk = random_documents(0, words, max(n_words, 300))
    places = np.arange(words, dtype=np.uint32)
    return n_words, Text(chunk.doc_ptr, (chunk.words % n_words).astype(np.uint32), places)


def step_of(n_words: int, dimension: int, window: int = 5, negative: int = 5):
    """Return the options of training, and W_in and W_out."""
    table = negative_table(np.arange(n_words, 0, -1), 0.75, 1 << 16, random.key(5))
    step = TrainingOptions(window, negative, table, random.key(6), random.key(7), 0.025, 1e-9, 1e-4)
    rng = np.random.default_rng(4)
    return step, [rng.normal(0, 0.1, (n_words, dimension)).astype(np.float32) for _ in range(2)]


def first_documents(text, words: int):
    """Return the text of the first documents, which have about ``words`` words."""
    n_documents = int(np.searchsorted(text.ptr, min(words, text.ptr[-1])))
    ptr = text.ptr[: n_documents + 1]
    return Text(ptr, text.words[: ptr[-1]], text.positions[: ptr[-1]])


def bytes_a_word(dimension: int, step) -> dict[str, float]:
    """Return the bytes of device memory and its caches that a word reads and writes, by variant of the algorithm.

    A row that changes is read once, and then read and written by the atomic addition. Without the ring, each sample
    changes the rows of all context words. All variants have as many context words as FULL-W2V.
    """
    reach = (step.window + 1) // 2
    change, samples, around = 12 * dimension, step.negative + 1, 2 * reach
    paper = word2vec_data_movement.Case(1, 1000, dimension, reach, step.negative, 16 << 10)
    return {
        "full": change * (1 + samples),
        "full, no ring": change * samples * (around + 1),
        "par": 4 * word2vec_data_movement.par_total(paper) / 1000,
        "skip-gram": 4 * word2vec_data_movement.sgns_total(paper) / 1000,
    }
