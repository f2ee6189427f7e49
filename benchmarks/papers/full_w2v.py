"""Tables 1 and 4 of FULL-W2V: words that the CPU prepares, and bytes that training moves."""

import click
import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.cuda.word2vec import skip_gram as word2vec_cuda
from corpusmill.kernels.word2vec import skip_gram as word2vec_cpu

from benchmarks.gpu.measure import print_row, report, wall_seconds
from benchmarks.gpu.word2vec import bytes_a_word, step_of, text_of


@click.command()
@click.option("--words", default=17_005_207)
@click.pass_obj
def traffic(session, words=17_005_207):
    """Table 4 of FULL-W2V by counted bytes: GB per epoch of Text8 beyond shared memory; needs no GPU."""
    step, _ = step_of(50, 64)
    paper = {"full": "225", "full, no ring": "1,733", "skip-gram": "1,855 (accSGNS)"}
    print_row("form", "GB", "paper: L1, L2, DRAM")
    for name, each in bytes_a_word(128, step).items():
        report(session, "traffic", name, words * each / 1e9, paper.get(name, ""))


@click.command()
@click.option("--words", default=17_005_207)
@click.pass_obj
def batching(session, words=17_005_207):
    """Table 1 of FULL-W2V: M words per second that one CPU thread prepares; needs no GPU."""
    n_words, text = text_of(session, words)
    keep = word2vec_cpu.keep_probability(np.bincount(text.words, minlength=n_words), 1e-3)
    print_row("step", "M words/s", "paper")
    for name, call in {
        "subsampling": lambda: word2vec_cpu.subsample(text.ptr, text.words, keep, random.key(1)),
        "stretches": lambda: word2vec_cuda.cut_stretches(text.ptr),
    }.items():
        call()
        report(session, "batching", name, len(text.words) / wall_seconds(call) / 1e6, "210, all threads")


COMMANDS = (traffic, batching)
