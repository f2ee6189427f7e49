"""LDA on a CUDA device."""

from statistics import median

import click

from benchmarks.gpu.data import trained
from benchmarks.gpu.measure import copy_rate, print_row, timed

#: M tokens/s of others by topics, for the last column.
PAPERS = {1024: "CuLDA_CGS 690, V100", 5000: "SaberLDA 135, GTX 1080", 10_000: "SaberLDA 92, card not named"}


@click.command()
@click.option("--topics", multiple=True, type=int, default=[1024, 5000])
@click.option("--tokens", default=50_000_000)
@click.pass_obj
def lda(session, topics=(1024, 5000), tokens=50_000_000):
    """LDA: M tokens per second, memory bandwidth over that of a copy, and one CPU thread."""
    print_row("topics", "M tokens/s", "of draws", "GB/s counted", "over copy", "CPU, 1 thread", "others")
    for n_topics in topics[:1] if session.quick else topics:
        state = trained(session, n_topics, tokens)
        seconds = median(state.sweep() for _ in range(1 if session.quick else 5))
        with timed() as spent:
            state.sweep()
        draws = max(1e-9, spent.get("draw", 0.0) / 1e3)
        # Per token: its document, its old and new topic, and its row of A.
        moved = state.n_tokens * (8 + state.row_bytes()) / draws
        cpu = state.cpu_rate(min(tokens, 2_000_000))
        found = [state.n_tokens / s / 1e6 for s in (seconds, draws)]
        found += [moved / 1e9, moved / copy_rate(session), cpu / 1e6]
        print_row(str(n_topics), *found, PAPERS.get(n_topics, ""))
        session.figures[f"lda {n_topics}"] = found
