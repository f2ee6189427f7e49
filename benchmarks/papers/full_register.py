"""FULL-Register: FULL-W2V without its ring, for the ablation in section 5 of the paper (Randall et al., ICS 2021).

Rows of the window's words are read from device memory for each sample, and changed there by atomic additions. For the
updates, each thread keeps its columns of the sample's row in registers, one at a time. The products read that row from
device memory once per word of the window. The paper keeps it in registers for both, and the counted bytes are those of
the paper. One block alone makes the updates of FULL-W2V, and so those of the CPU.
"""

from functools import partial
from unittest import mock

import click
import numpy as np
from corpusmill.kernels.cuda.jit import device, kernel
from corpusmill.kernels.cuda.warp import WARP
from corpusmill.kernels.cuda.word2vec import full, skip_gram
from corpusmill.kernels.cuda.word2vec.full import MAX_SAMPLES
from corpusmill.kernels.cuda.word2vec.updates import dot, gradient, learning_rate
from numba import cuda, float32, int32

from benchmarks.gpu.measure import kernel_seconds, print_row, report
from benchmarks.gpu.word2vec import bytes_a_word, step_of, text_of


def train(text, options, W_in, W_out):
    """Train as `skip_gram.train` does with method "full"."""
    with mock.patch.object(full, "train_full", train_register):
        skip_gram.train("full", text, options, W_in, W_out)


@kernel(launch_bounds=(WARP, 16))
def train_register(stretches, text, options, D, W_in, W_out):
    """Train on ``stretches`` (n, 4) int64, one after another in each block; W_in and W_out (R * D,) float32."""
    reach = (options.window + 1) // 2
    gradients = cuda.shared.array(0, float32)
    samples = cuda.shared.array(MAX_SAMPLES, int32)
    for s in range(cuda.blockIdx.x, len(stretches), cuda.gridDim.x):
        start, end, first, last = stretches[s, 0], stretches[s, 1], stretches[s, 2], stretches[s, 3]
        for i in range(first, last):
            cuda.syncthreads()
            full._draw_samples(i, text, options, samples)
            cuda.syncthreads()
            window = max(start, i - reach), min(end, i + reach + 1), i
            alpha = learning_rate(options, np.int64(text.positions[i]))
            for k in range(options.negative + 1):
                if k == 0 or samples[k] != samples[0]:
                    _train_sample(
                        text.words, window, np.int64(samples[k]), float32(k == 0), alpha, D, W_in, W_out, gradients
                    )


@device
def _train_sample(words, window, sample, label, alpha, D, W_in, W_out, gradients):
    """Train one sample with all other words of the window."""
    first, last, focus = window
    thread = cuda.threadIdx.x
    for c in range(thread // WARP, last - first, cuda.blockDim.x // WARP):
        if first + c != focus:
            product = dot(W_in, np.int64(words[first + c]) * D, W_out, sample * D, D, thread % WARP)
            if thread % WARP == 0:
                gradients[c] = gradient(product, label, alpha)
    cuda.syncthreads()
    for k in range(thread, D, cuda.blockDim.x):
        value = W_out[sample * D + k]
        change = float32(0)
        for c in range(last - first):
            if first + c != focus:
                place = np.int64(words[first + c]) * D + k
                change += gradients[c] * W_in[place]
                cuda.atomic.add(W_in, place, gradients[c] * value)
        cuda.atomic.add(W_out, sample * D + k, change)
    cuda.syncthreads()


@click.command()
@click.option("--words", default=17_005_207)
@click.pass_obj
def ring(session, words=17_005_207):
    """Figure 6 of FULL-W2V: M words per second with the ring and without it, d = 128, window 5, 5 negative samples."""
    n_words, text = text_of(session, words)
    print_row("form", "M words/s", "GB/s counted")
    for name, run in {"full": partial(skip_gram.train, "full"), "full, no ring": train}.items():
        step, W = step_of(n_words, 128)
        _, seconds = kernel_seconds(partial(run, text, step, *W))
        moved = len(text.words) * bytes_a_word(128, step)[name]
        report(session, "ring", name, len(text.words) / seconds / 1e6, moved / seconds / 1e9)
