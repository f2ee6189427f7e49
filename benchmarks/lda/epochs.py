"""Whole epochs of LDA through the engine: how much of them the kernels take, and a model that exceeds memory."""

from pathlib import Path
from statistics import median

import click
import numpy as np
from corpusmill import LDA
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.ingest.ingest import corpus_from

from benchmarks.common import print_row
from benchmarks.lda.data import read, zipf_counts


@click.command()
@click.option("--topics", "n_topics", default=100)
@click.option("--chunk-tokens", default=1_000_000)
@click.option("--chunks", default=8)
@click.option("--passes", default=20)
@click.option("--sampler", type=click.Choice(["esca", "warp"]), default="esca")
@click.pass_obj
def epoch(run, n_topics, chunk_tokens, chunks, passes, sampler):
    """Whole epochs of Wikipedia without Dask, on one Dask worker, and on two.

    The column "of kernels" is the time that the kernels take in an epoch without Dask, as a share of the time of the
    epoch. All times are medians of the last seven epochs.
    """
    passes = 3 if run.session.quick else passes
    matrix = read(run.session, "wikipedia", chunk_tokens * chunks)
    corpus = corpus_from(matrix, chunk_tokens=chunk_tokens)
    seconds = {}
    for kind, workers in (("synchronous", 1), ("local", 1), ("local", 2)):
        options = {"n_workers": workers} if kind == "local" else {}
        with open_cluster(kind, **options) as client:
            model = LDA(n_topics, 50 / n_topics, max_iter=passes, sampler=sampler)
            fitted = model.fit(corpus, client=client, evaluate_every=10**9)
        last = fitted.history_[-7:]
        seconds[f"{kind} {workers}"] = median(row["seconds"] for row in last)
        if kind == "synchronous":
            seconds["kernels"] = median(row["seconds_kernel"] for row in last)
    run.session.figures["epoch"] = seconds
    print_row("", "M tokens/s", "of kernels")
    for name, value in seconds.items():
        print_row(name, corpus.n_tokens / value / 1e6, seconds["kernels"] / value)
    print(f"two workers: {seconds['local 1'] / seconds['local 2']:.2f} times one")


@click.command("larger-than-memory")
@click.option("--words", default=100_000)
@click.option("--topics", "n_topics", default=10_000)
@click.option("--tokens", default=2_000_000)
@click.option("--blocks", default=8)
@click.option("--passes", default=3)
@click.option("--sampler", default="esca")
@click.pass_obj
def larger_than_memory(run, words, n_topics, tokens, blocks, passes, sampler):
    """Word blocks streamed through one worker with a quarter of the memory of dense counts; are the bits the same?"""
    if run.session.quick:
        words, n_topics, tokens, passes = 1000, 50, 20_000, 2
    dense = 4 * words * n_topics
    limit = max(dense // 4, 700 << 20)
    corpus = corpus_from(zipf_counts(words, tokens), chunk_tokens=max(10_000, tokens // 8))
    model = LDA(n_topics, 50 / n_topics, max_iter=passes, sampler=sampler, n_blocks=blocks, device="cpu")
    events = []
    with open_cluster("local", n_workers=1, threads_per_worker=1, memory_limit=limit) as client:
        streamed = model.fit(corpus, client=client, evaluate_every=0, callbacks=[events.append]).model_
        peak = max(client.run(peak_bytes).values())
    with open_cluster("synchronous") as client:
        whole = LDA(**model.get_params() | {"n_blocks": 1}).fit(corpus, client=client, evaluate_every=0).model_
    same = True
    for name in ("topics", "counts"):
        joined = np.concatenate([block[name] for block in streamed.blocks])
        same = same and np.array_equal(joined, whole.blocks[0][name])
    figures = [size / 2**30 for size in (dense, limit, events[0].plan["total"], peak)]
    print_row("GiB", "dense", "limit", "plan", "peak", "same bits")
    print_row("", *figures, str(same))
    run.session.figures["larger than memory"] = [*figures, same]


def peak_bytes() -> int:
    """Return the most bytes that this process has had in memory."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10
