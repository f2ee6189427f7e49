"""LDA by ESCA against tomotopy, gensim and scikit-learn; whole epochs against bare kernels; many topics.

python -m benchmarks.lda --help
"""

import json
import os
import time
from pathlib import Path
from statistics import median

import click
import numpy as np
from corpusmill import LDA
from corpusmill.pipeline.engine.clusters import open_cluster
from corpusmill.pipeline.ingest.ingest import corpus_from

from benchmarks.lda.systems import SYSTEMS, Clock, Corpusmill, load, score, split, zipf_matrix

FILES = {
    "kos": "uci-kos/docword.kos.txt",
    "nips": "nips_bow_1740x12419.npz",
    "wikipedia": "wiki-bow-252k.npz",
}
#: Tokens of the variational systems at 1 topic: they get so few documents that a pass takes seconds.
FEW = 40_000_000
#: Systems of others.
SLOW = ("tomotopy", "gensim", "scikit-learn")
THREADS = 2


@click.group(chain=True, invoke_without_command=True)
@click.option("--data", default=os.environ.get("CORPUSMILL_DATA", "data"), help="Folder of the unpacked corpora.")
@click.option("--json", "target", type=click.Path(), help="Write every figure here.")
@click.option("--system", "systems", multiple=True, type=click.Choice(list(SYSTEMS)), default=list(SYSTEMS))
@click.option("--quick", is_flag=True, help="Made-up tokens and two passes: does it run? Without a command, all.")
@click.pass_context
def main(context, data, target, systems, quick):
    """Compare; several commands may follow one another: speed topics epoch larger-than-memory race quality."""
    chosen = {name: SYSTEMS[name] for name in systems}
    context.obj = {"data": Path(data), "quick": quick, "systems": chosen, "found": {}}
    context.call_on_close(lambda: target and Path(target).write_text(json.dumps(context.obj["found"], indent=1)))
    if context.invoked_subcommand is None:
        if not quick:
            raise click.UsageError("name a command, or --quick")
        context.invoke(speed, topics=[100])
        context.invoke(race, topics=[100], seconds=2)
        for command in (topics, epoch, larger_than_memory, quality, transform, priors):
            context.invoke(command)


def read(options, name: str, tokens: int):
    """Load a corpus, or make a tiny one up when in a hurry."""
    return zipf_matrix(1000, 20_000) if options["quick"] else load(str(options["data"] / FILES[name]), tokens)


def row(*cells) -> None:
    """Print one row of a table."""
    print("  ".join(f"{c:>14}" if isinstance(c, str) else f"{c:>14.3g}" for c in cells), flush=True)


@main.command()
@click.option("--corpus", "names", multiple=True, default=["nips", "wikipedia"])
@click.option("--topics", multiple=True, type=int, default=[100, 1000, 5000])
@click.option("--tokens", default=5_000_000, help="At most so many of a corpus.")
@click.option("--passes", default=30)
@click.pass_obj
def speed(options, names, topics, tokens, passes):
    """Tokens per second and per CPU-second by pass, systems taking turns."""
    passes = 2 if options["quick"] else passes
    row("corpus", "topics", "system", "M tokens/s", "per CPU-s", "first / this", "first passes")
    for name in names:
        for n_topics in topics:
            found = one_speed(options["systems"], read(options, name, tokens), n_topics, passes)
            options["found"][f"speed {name} {n_topics}"] = found
            for system, rates in found.items():
                late = median(r[1] for r in rates[-5:])
                ours = median(r[1] for r in next(iter(found.values()))[-5:])
                wall, early = median(r[0] for r in rates[-5:]), median(r[1] for r in rates[:3])
                row(name, str(n_topics), system, wall / 1e6, late / 1e6, ours / late, early / 1e6)


def one_speed(makers, matrix, n_topics: int, passes: int) -> dict[str, list[tuple[float, float]]]:
    """Return each system's (tokens/s, tokens per CPU-second) of every pass."""
    order = np.random.default_rng(1).permutation(matrix.shape[0])
    ends = np.cumsum(matrix.sum(axis=1).A1[order])
    few = matrix[np.sort(order[: max(20, np.searchsorted(ends, FEW // n_topics))])]
    inputs = {name: few if name in ("gensim", "scikit-learn") else matrix for name in makers}
    systems = {name: make(inputs[name], n_topics, THREADS) for name, make in makers.items()}
    rates = {name: [] for name in makers}
    for t in range(passes):
        for name, system in systems.items():
            # The variational systems' passes are alike, and slow.
            if t < 3 or name not in ("gensim", "scikit-learn"):
                wall, cpu = Clock().time(system.run)
                tokens = int(inputs[name].sum())
                rates[name].append((tokens / wall, tokens / cpu))
    return rates


@main.command()
@click.option("--tokens", default=5_000_000)
@click.option("--passes", default=40)
@click.pass_obj
def topics(options, tokens, passes):
    """Tokens per CPU-second at 10,000 topics against 1,000 (Wikipedia)."""
    passes = 2 if options["quick"] else passes
    matrix = read(options, "wikipedia", tokens)
    systems = {k: Corpusmill(matrix, k, THREADS) for k in (1000, 10_000)}
    rates = {k: [] for k in systems}
    row("pass", "K = 1000", "K = 10000", "ratio")
    for t in range(passes):
        for k, system in systems.items():
            rates[k].append(int(matrix.sum()) / Clock().time(system.run)[1])
        if t % 10 == 9 or t == passes - 1:
            few, many = (median(rates[k][-5:]) for k in systems)
            row(str(t + 1), few / 1e6, many / 1e6, many / few)
    options["found"]["topics"] = rates


@main.command()
@click.option("--topics", "n_topics", default=100)
@click.option("--chunk-tokens", default=1_000_000)
@click.option("--chunks", default=8)
@click.option("--passes", default=20)
@click.pass_obj
def epoch(options, n_topics, chunk_tokens, chunks, passes):
    """Whole epochs on one and two workers against the bare kernels on the same chunks (Wikipedia)."""
    passes = 3 if options["quick"] else passes
    matrix = read(options, "wikipedia", chunk_tokens * chunks)
    corpus = corpus_from(matrix, chunk_tokens=chunk_tokens)
    seconds = {}
    for kind, workers in (("synchronous", 1), ("local", 1), ("local", 2)):
        sizes = {"n_workers": workers} if kind == "local" else {}
        with open_cluster(kind, **sizes) as client:
            fitted = LDA(n_topics, max_iter=passes).fit(corpus, client=client, evaluate_every=10**9)
        seconds[f"{kind} {workers}"] = median(h["seconds"] for h in fitted.history_[-7:])
    system = Corpusmill(matrix, n_topics, 1)
    system.chunks = [corpus.read_chunk(c) for c in range(len(corpus.chunks))]
    system.start()
    walls = [Clock().time(system.run)[0] for _ in range(passes - 1)]
    seconds["kernels"] = median(walls[-7:])
    options["found"]["epoch"] = seconds
    row("", "M tokens/s", "of kernels")
    for name, value in seconds.items():
        row(name, corpus.n_tokens / value / 1e6, seconds["kernels"] / value)
    print(f"two workers: {seconds['local 1'] / seconds['local 2']:.2f} times one")


@main.command("larger-than-memory")
@click.option("--words", default=100_000)
@click.option("--topics", "n_topics", default=10_000)
@click.option("--tokens", default=2_000_000)
@click.option("--blocks", default=8)
@click.option("--passes", default=3)
@click.option("--sampler", default="esca")
@click.pass_obj
def larger_than_memory(options, words, n_topics, tokens, blocks, passes, sampler):
    """Word blocks streamed through one worker whose limit is a quarter of the dense counts, against all at once."""
    if options["quick"]:
        words, n_topics, tokens, passes = 1000, 50, 20_000, 2
    dense = 4 * words * n_topics
    limit = max(dense // 4, 700 << 20)
    corpus = corpus_from(zipf_matrix(words, tokens), chunk_tokens=max(10_000, tokens // 8))
    sizes = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": limit}
    model = LDA(n_topics, max_iter=passes, sampler=sampler, n_blocks=blocks, device="cpu")
    plans = []
    with open_cluster("local", **sizes) as client:
        cut = model.fit(corpus, client=client, evaluate_every=0, callbacks=[plans.append]).model_
        peak = max(client.run(peak_bytes).values())
    with open_cluster("synchronous") as client:
        whole = LDA(**model.get_params() | {"n_blocks": 1}).fit(corpus, client=client, evaluate_every=0).model_
    same = all(
        np.array_equal(np.concatenate([b[name] for b in cut.blocks]), whole.blocks[0][name])
        for name in ("topics", "counts")
    )
    row("GiB", "dense", "limit", "plan", "peak", "same bits")
    figures = [n / 2**30 for n in (dense, limit, plans[0].plan["total"], peak)]
    row("", *figures, str(same))
    options["found"]["larger than memory"] = [*figures, same]


def peak_bytes() -> int:
    """Return the most bytes that this process has held."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10


@main.command()
@click.option("--corpus", "names", multiple=True, default=["nips", "wikipedia"])
@click.option("--topics", multiple=True, type=int, default=[100, 1000])
@click.option("--tokens", default=5_000_000)
@click.option("--seconds", default=60.0, help="CPU-seconds of training.")
@click.option("--slow-seconds", default=0.0, help="CPU-seconds of tomotopy, gensim and scikit-learn, where other.")
@click.option("--held-out", default=100, help="Documents, at most.")
@click.option("--picture", type=click.Path(), help="Draw the curves here (PNG or SVG).")
@click.pass_obj
def race(options, names, topics, tokens, seconds, slow_seconds, held_out, picture):
    """Held-out log-likelihood per token over training time."""
    seconds, slow_seconds = (0.5, 0.5) if options["quick"] else (seconds, slow_seconds or seconds)
    curves = {}
    for name in names:
        train, first, second = split(read(options, name, tokens), most=held_out)
        for n_topics in topics:
            for system, make in options["systems"].items():
                limit = slow_seconds if system in SLOW else seconds
                curve = one_race(make(train, n_topics, THREADS), first, second, limit)
                curves.setdefault(f"{name}, K = {n_topics}", {})[system] = curve
                row(name, str(n_topics), system, f"{curve[-1][1]:.1f} CPU-s", f"{curve[-1][2]:.4f}")
            compare(curves[f"{name}, K = {n_topics}"])
    options["found"]["race"] = curves
    if picture:
        draw(curves, picture)


def one_race(system, first, second, seconds: float) -> list[tuple[float, float, float]]:
    """Return (seconds, CPU-seconds, held-out log-likelihood) at passes further and further apart."""
    clock, curve, seen, passes, due = Clock(), [], [], 0, 1
    if hasattr(system, "start"):  # compiled kernels
        system.run()
        system.start()
    while clock.cpu < seconds:
        clock.time(system.run)
        passes += 1
        if passes == due or clock.cpu >= seconds:
            curve.append((clock.wall, clock.cpu, score(system.phi(), first, second)))
            seen.append((passes, curve[-1][2]))
            due = int(due * 1.4) + 1
            if hasattr(system, "look"):
                system.look(seen)
    return curve


def compare(curves: dict[str, list[tuple[float, float, float]]]) -> None:
    """Print when each system came to tomotopy's last likelihood, in CPU-seconds and in shares of tomotopy's."""
    if "tomotopy" not in curves:
        return
    _, whole, goal = curves["tomotopy"][-1]
    for system, curve in curves.items():
        cpu, value = (np.array(c) for c in list(zip(*curve, strict=True))[1:])
        when = np.interp(goal, np.maximum.accumulate(value), cpu) if value.max() >= goal else np.nan
        row("", "", system, f"{when:.1f} CPU-s", f"{when / whole:.2f} of it")


def draw(curves, picture: str) -> None:
    """Draw held-out likelihood over time, one panel a corpus and number of topics."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(5 * len(curves), 4), squeeze=False)
    for axis, (title, systems) in zip(axes[0], curves.items(), strict=True):
        for name, curve in systems.items():
            axis.plot([c[1] for c in curve], [c[2] for c in curve], marker=".", label=name)
        axis.set(title=title, xlabel="CPU-seconds of training")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("held-out log-likelihood per token")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(picture, dpi=120)


@main.command()
@click.option("--corpus", "names", multiple=True, default=["kos", "nips"])
@click.option("--topics", "n_topics", default=100)
@click.option("--passes", default=200)
@click.option("--slow-passes", default=50, help="Passes of the variational systems, which converge sooner.")
@click.pass_obj
def quality(options, names, n_topics, passes, slow_passes):
    """Held-out log-likelihood per token after training, one split and one scoring function for all."""
    for name in names:
        train, first, second = split(read(options, name, 0))
        for system, make in options["systems"].items():
            count = slow_passes if system in ("gensim", "scikit-learn") else passes
            model = make(train, n_topics, THREADS)
            for _ in range(2 if options["quick"] else count):
                model.run()
            value = score(model.phi(), first, second)
            options["found"].setdefault(f"quality {name}", {})[system] = value
            row(name, str(n_topics), system, f"{value:.4f}")


@main.command()
@click.option("--corpus", "names", multiple=True, default=["nips", "wikipedia"])
@click.option("--topics", multiple=True, type=int, default=[100, 1000])
@click.option("--tokens", default=2_000_000, help="At most so many of a corpus.")
@click.option("--passes", default=30)
@click.pass_obj
def transform(options, names, topics, tokens, passes):
    """Folding documents in against training on them, in M tokens per CPU-second of whole epochs and calls."""
    row("corpus", "topics", "training", "transform", "of training")
    for name in names:
        corpus = corpus_from(read(options, name, tokens))
        for n_topics in topics:
            stamps = Stamps()
            model = LDA(n_topics, max_iter=2 if options["quick"] else passes)
            model.fit(corpus, evaluate_every=0, callbacks=[stamps])
            calls = [Clock().time(lambda model=model, corpus=corpus: model.transform(corpus))[1] for _ in range(4)]
            trained, folded = (corpus.n_tokens / s for s in (np.median(np.diff(stamps.cpu)[-5:]), np.median(calls[1:])))
            options["found"][f"transform {name} {n_topics}"] = {"training": trained, "transform": folded}
            row(name, str(n_topics), trained / 1e6, folded / 1e6, folded / trained)


class Stamps:
    """Notes the CPU-seconds of this process after each epoch."""

    def __init__(self):
        self.cpu = []

    def after_epoch(self, progress) -> None:
        """Note them."""
        self.cpu.append(time.process_time())


@main.command()
@click.option("--corpus", "name", default="nips")
@click.option("--topics", "n_topics", default=100)
@click.option("--passes", default=150)
@click.pass_obj
def priors(options, name, n_topics, passes):
    """Held-out log-likelihood per token by document completion, priors fixed and learned."""
    matrix = read(options, name, 0)
    order = np.random.default_rng(0).permutation(matrix.shape[0])
    tenth = matrix.shape[0] // 10
    test, train = (corpus_from(matrix[np.sort(part)]) for part in (order[:tenth], order[tenth:]))
    for learned in ("none", "symmetric", "asymmetric"):
        model = LDA(n_topics, max_iter=2 if options["quick"] else passes, learn_priors=learned)
        value = model.fit(train, evaluate_every=0).score(test)
        options["found"].setdefault(f"priors {name}", {})[learned] = value
        row(name, str(n_topics), learned, f"{value:.4f}")


if __name__ == "__main__":
    main()
