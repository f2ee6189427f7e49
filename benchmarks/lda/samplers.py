"""LDA's samplers side by side: likelihood over epochs and over CPU-seconds, threads, and SaberLDA's ablation.

python -m benchmarks.lda.samplers --help
"""

import concurrent.futures
import json
import os
from pathlib import Path
from statistics import median

import click
import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.lda import collapsed as lda_collapsed
from corpusmill.kernels.lda import esca as lda
from corpusmill.kernels.lda import uncollapsed as lda_uncollapsed

from benchmarks.lda.systems import BETA, Clock, Corpusmill, Warp, load, zipf_matrix
from benchmarks.papers import atomic_totals, saberlda

FILES = {"kos": "uci-kos/docword.kos.txt", "nips": "nips_bow_1740x12419.npz", "wikipedia": "wiki-bow-252k.npz"}
#: Document groups and word blocks of cgs; documents of a mini-batch (the dissertation's Figure 2.8: 330 and 140).
PARTS, DOCUMENTS = 8, {"kos": 330, "nips": 140}


@kernel
def plain(order, docs, words, z, A, B, N, alpha, beta, key):
    """The yardstick: collapsed Gibbs sampling as one writes it down, running sums and a linear search."""
    K, mass = len(N), beta * len(B)
    p = np.empty(K, np.float64)
    for i in order:
        d, v = docs[i], words[i]
        A[d, z[i]] -= 1
        B[v, z[i]] -= 1
        N[z[i]] -= 1
        total = 0.0
        for k in range(K):
            total += (A[d, k] + alpha) * (B[v, k] + beta) / (N[k] + mass)
            p[k] = total
        u = random.uniform64(key, i) * total
        new = 0
        while p[new] <= u:
            new += 1
        z[i] = new
        A[d, new] += 1
        B[v, new] += 1
        N[new] += 1


class Following(Corpusmill):
    """One chunk whose dense tables follow the tokens; threads share its tiles."""

    def __init__(self, matrix, n_topics: int, threads: int, documents: int = 0):
        self.documents = documents
        super().__init__(matrix, n_topics, 1)
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)

    def start(self) -> None:
        """Draw first topics and count them."""
        super().start()
        (chunk,), (self.z,) = self.chunks, self.states
        self.tokens = lda_collapsed.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)
        self.order = np.argsort(chunk.word_to_doc_order)
        self.recount()

    def recount(self) -> None:
        """Make the tables anew."""
        B = np.zeros((self.n_words, self.n_topics), np.int32)
        np.add.at(B, (self.tokens.words, self.z), 1)
        A = lda_collapsed.document_counts(self.tokens, self.z, self.chunks[0].n_documents, self.n_topics)
        self.tables = lda_collapsed.CountTables(
            A, B, B.sum(axis=0, dtype=np.int32), self.alpha, BETA, self.n_words * BETA
        )

    def run(self) -> None:
        """One pass."""
        self.epoch += 1
        self.follow(random.key(1, self.epoch, 0))

    def follow(self, key) -> None:
        """Draw in tiles."""
        lda_collapsed.diagonals(self.tokens, self.tables, self.z, key, PARTS, self.pool)


class AtomicTotals(Following):
    """One array of totals that all threads change."""

    def follow(self, key) -> None:
        """Draw in tiles."""
        atomic_totals.diagonals(self.tokens, self.tables, self.z, key, PARTS, self.pool)


class Minibatch(Following):
    """Counts that stand still within a mini-batch of documents."""

    def follow(self, key) -> None:
        """Draw by mini-batches."""
        lda_collapsed.minibatch(self.tokens, self.tables, self.z, key, self.chunks[0].doc_ptr, self.documents)


class Reference(Following):
    """The product's Algorithm 1."""

    def follow(self, key) -> None:
        """Draw one token after the other."""
        lda_collapsed.sequential(self.tokens, self.tables, self.z, key)


class Plain(Following):
    """The yardstick."""

    def follow(self, key) -> None:
        """Draw one token after the other."""
        A, B, N, *_ = self.tables
        docs, words = self.tokens.docs, self.tokens.words
        plain(self.order, docs, words, self.z, A, B, N, float(self.alpha[0]), BETA, key)


class Uncollapsed(Following):
    """θ and φ drawn."""

    def follow(self, key) -> None:
        """Draw topics, then count them."""
        lda_uncollapsed.sample(self.tokens, self.tables, (key, key + np.uint64(1)), self.z)
        self.recount()


def makers(documents: int = 140) -> dict:
    """Return what makes each sampler of (matrix, topics, threads)."""
    return {
        "plain": Plain,
        "reference": Reference,
        "cgs": Following,
        "cgs, atomic": AtomicTotals,
        "minibatch": lambda *given: Minibatch(*given, documents=documents),
        "uncollapsed": Uncollapsed,
        "esca": Corpusmill,
        "esca, all counts": lambda *given: Corpusmill(*given, leave_out=False),
        "warp": Warp,
    }


def likelihood(system) -> float:
    """Log-likelihood per token (the dissertation's equation 2.4)."""
    if isinstance(system, Following):
        system._merge([system._count(system.chunks[0], system.z)])
        system.states = [system.z]
    total = 0.0
    for chunk, z in zip(system.chunks, system.states, strict=True):
        total += lda.log_likelihood(chunk, lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z), system.model)
    return total / sum(c.n_tokens for c in system.chunks)


def row(*cells) -> None:
    """Print one row of a table."""
    print("  ".join(f"{c:>16}" if isinstance(c, str) else f"{c:>16.4g}" for c in cells), flush=True)


@click.group(chain=True, invoke_without_command=True)
@click.option("--data", default=os.environ.get("CORPUSMILL_DATA", "data"), help="Folder of the unpacked corpora.")
@click.option("--json", "target", type=click.Path(), help="Write every figure here.")
@click.option("--quick", is_flag=True, help="Made-up tokens and two passes: does it run? Without a command, all.")
@click.pass_context
def main(context, data, target, quick):
    """Compare; several commands may follow one another: curves threads saber."""
    context.obj = {"data": Path(data), "quick": quick, "found": {}}
    context.call_on_close(lambda: target and Path(target).write_text(json.dumps(context.obj["found"], indent=1)))
    if context.invoked_subcommand is None:
        if not quick:
            raise click.UsageError("name a command, or --quick")
        for command in (curves, threads, saber):
            context.invoke(command)


def read(options, name: str, tokens: int = 0):
    """Load a corpus, or make a tiny one up when in a hurry."""
    return zipf_matrix(1000, 20_000) if options["quick"] else load(str(options["data"] / FILES[name]), tokens)


@main.command()
@click.option("--corpus", "names", multiple=True, default=["kos", "nips"])
@click.option("--topics", "n_topics", default=128)
@click.option("--passes", default=200)
@click.option("--sampler", "samplers", multiple=True, type=click.Choice(list(makers())), default=list(makers()))
@click.option("--picture", type=click.Path(), help="Draw the curves here (PNG or SVG).")
@click.pass_obj
def curves(options, names, n_topics, passes, samplers, picture):
    """Log-likelihood per token over epochs and CPU-seconds, one thread each (Figures 2.4, 2.7 and 2.8)."""
    passes = 2 if options["quick"] else passes
    found = {}
    row("corpus", "sampler", "M tokens / CPU-s", "log-likelihood", "less the plain's")
    for name in names:
        matrix = read(options, name)
        found[name] = {}
        for sampler in samplers:
            curve = one_curve(makers(DOCUMENTS[name])[sampler](matrix, n_topics, 1), passes)
            found[name][sampler] = curve
            speed = int(matrix.sum()) * passes / curve[-1][1] / 1e6
            row(name, sampler, speed, f"{curve[-1][2]:.4f}", f"{curve[-1][2] - found[name][samplers[0]][-1][2]:.4f}")
    options["found"]["curves"] = found
    if picture:
        draw(found, picture)


def one_curve(system, passes: int) -> list[tuple[int, float, float]]:
    """Return (pass, CPU-seconds, log-likelihood per token) at passes further and further apart."""
    clock, curve, due = Clock(), [], 1
    system.run()
    system.start()
    for t in range(1, passes + 1):
        clock.time(system.run)
        if t in (due, passes):
            curve.append((t, clock.cpu, likelihood(system)))
            due = int(due * 1.3) + 1
    return curve


def draw(found, picture: str) -> None:
    """Draw a row a corpus: likelihood over epochs, and over CPU-seconds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(found), 2, figsize=(11, 4 * len(found)), squeeze=False)
    for (name, samplers), (epochs, seconds) in zip(found.items(), axes, strict=True):
        for sampler, curve in samplers.items():
            passes, cpu, value = zip(*curve, strict=True)
            epochs.plot(passes, value, label=sampler)
            seconds.plot(cpu, value, label=sampler)
        epochs.set(title=name, xlabel="epoch", ylabel="log-likelihood per token")
        seconds.set(title=name, xlabel="CPU-seconds of training", xscale="log")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(picture, dpi=100)


@main.command()
@click.option("--corpus", "name", default="nips")
@click.option("--topics", "n_topics", default=128)
@click.option("--passes", default=7)
@click.pass_obj
def threads(options, name, n_topics, passes):
    """Seconds of a pass on one thread and on two, systems taking turns (Table 2.4)."""
    passes = 2 if options["quick"] else passes
    matrix = read(options, name)
    chosen = {k: makers()[k] for k in ("plain", "cgs", "cgs, atomic", "esca", "warp")}
    systems = {
        (k, n): make(matrix, n_topics, n) for k, make in chosen.items() for n in ((1,) if k == "plain" else (1, 2))
    }
    times = {key: [] for key in systems}
    for _ in range(passes):
        for key, system in systems.items():
            times[key].append(Clock().time(system.run))
    row("sampler", "threads", "s a pass", "CPU-s a pass", "times plain's CPU")
    best = {key: [median(t) for t in zip(*found[1:], strict=True)] for key, found in times.items()}
    for (sampler, n), (wall, cpu) in best.items():
        row(sampler, str(n), wall, cpu, best["plain", 1][1] / cpu)
    options["found"]["threads"] = {f"{k} {n}": v for (k, n), v in best.items()}


@main.command()
@click.option("--corpus", "name", default="nips")
@click.option("--topics", "n_topics", default=1000)
@click.option("--passes", default=20)
@click.pass_obj
def saber(options, name, n_topics, passes):
    """SaberLDA's ablation (its Figure 9) on one thread: what each of its ideas saves of a pass."""
    matrix = read(options, name, 2_000_000)
    found = saberlda.run(Corpusmill(matrix, n_topics, 1), 2 if options["quick"] else passes)
    row("", "ns a token", "of the first")
    first = next(iter(found.values()))
    for what, nanoseconds in found.items():
        row(what, nanoseconds, nanoseconds / first)
    options["found"]["saber"] = found


if __name__ == "__main__":
    main()
