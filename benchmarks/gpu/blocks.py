"""Word scores by the number of thread blocks that train at a time: Moon's dissertation (2019), Figure 4.7.

``par`` and ``full`` change rows without locks: the more blocks, the older the rows that a block reads. ``strata`` has
groups instead, of which no two blocks share a row. A CPU can compute the same result, except for rounding.
"""

import contextlib
from unittest import mock

import click
from corpusmill.kernels.cuda.word2vec import cells as cuda_cells
from corpusmill.kernels.cuda.word2vec import skip_gram as cuda_skip_gram
from corpusmill.kernels.word2vec import cells

from benchmarks.common import DATA, print_row
from benchmarks.gpu import cells as on_cpu
from benchmarks.gpu.race import METHODS, scores_of, texts_of, word2vec_of
from benchmarks.word2vec.quality import held_out_pairs


@click.command()
@DATA
@click.option("--method", "methods", multiple=True, default=METHODS, help="The default is all methods.")
@click.option("--blocks", multiple=True, type=int, default=[1, 8, 64, 512, 2048], help="Thread blocks of par and full.")
@click.option("--groups", multiple=True, type=int, default=[1, 4, 8, 16], help="Groups of strata.")
@click.option("--device", default="cuda", help='"cpu" computes what a device would compute by strata.')
@click.option("--epochs", default=1, help="Epochs.")
@click.pass_obj
def quality(session, data, methods=METHODS, blocks=(1, 2048), groups=(1, 8), device="cuda", epochs=1):
    """Word scores by number of thread blocks."""
    session.data = data
    if session.quick:
        blocks, groups = (1, 2), (1, 2)
    texts, folder = texts_of(session)
    pairs = held_out_pairs(texts)
    print_row("method", "blocks", "seconds", "scores")
    for method in methods:
        if device == "cpu" and method != "strata":
            raise click.UsageError(f"on the CPU, method {method!r} has no thread blocks: choose strata")
        for number in groups if method == "strata" else blocks:
            model = word2vec_of(session, method, device, epochs)
            with number_of_blocks(method, number):
                model.fit(texts.corpus, evaluate_every=0)
            found = scores_of(model, pairs, folder)
            seconds = sum(step["seconds"] for step in model.history_)
            session.figures[f"quality {method} {number}"] = found
            print_row(method, str(number), seconds, ", ".join(f"{name} {score:.4g}" for name, score in found.items()))


@contextlib.contextmanager
def number_of_blocks(method: str, number: int):
    """Context manager: this number of thread blocks train, or a cell has this number of groups."""

    def train_on_cpu(W_in, W_out, pairs, table, options):
        on_cpu.train_sub_cells(W_in, W_out, pairs, table, options, number)

    with (
        mock.patch.object(cuda_skip_gram, "BLOCKS", number if method != "strata" else cuda_skip_gram.BLOCKS),
        mock.patch.object(cells, "train_cell", train_on_cpu),
        mock.patch.object(cuda_cells, "number_of_groups", lambda rows, columns: number),
    ):
        yield
