"""CUDA kernels: what they take, and on a machine with a device how fast they are.

python benchmarks/gpu.py --help
"""

import contextlib
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from unittest import mock

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

#: M tokens/s of others by topics, for the last column.
PAPERS = {1024: "CuLDA_CGS 690, V100", 5000: "SaberLDA 135, GTX 1080", 10_000: "SaberLDA 92, GTX 1080"}


def row(*cells) -> None:
    """Print one row of a table."""
    print("  ".join(f"{c:>14}" if isinstance(c, str) else f"{c:>14.4g}" for c in cells), flush=True)


@click.group(chain=True, invoke_without_command=True)
@click.option("--json", "target", type=click.Path(), help="Write every figure here.")
@click.option("--quick", is_flag=True, help="A few tokens: does it run?")
@click.pass_context
def main(context, target, quick):
    """Measure; several commands may follow one another: ptx copy lda figure-9 figure-10 table-4, or all.

    Without a command: all of them, on a machine without a device what needs none.
    """
    context.obj = {"found": {}, "quick": quick}
    context.call_on_close(lambda: target and write(target, context.obj["found"]))
    if context.invoked_subcommand is None:
        context.invoke(every)


def write(target, found) -> None:
    """Write the figures."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(json.dumps(found, indent=1))


@main.command("all")
@click.pass_context
def every(context):
    """Every command that this machine can run."""
    from corpusmill.pipeline.device import has_cuda

    for command in (ptx, copy, lda, figure_9, figure_10, table_4) if has_cuda() else (ptx,):
        print(f"\n== {command.name}")
        context.invoke(command)


@main.command()
@click.option("--model", "models", multiple=True, help="By default all.")
@click.pass_obj
def ptx(options, models=()):
    """Registers, shared memory, spills and occupancy by compute capability; needs no device."""
    from corpusmill.kernels.cuda import ptx as compiler
    from cuda_launches import LAUNCHES, kernels

    print("| kernel | threads | shared bytes | registers 7.5 / 8.0 / 9.0 | spilled bytes | occupancy 7.5 / 8.0 / 9.0 |")
    print("|---|---|---|---|---|---|")
    for model in models or (["lda, mini-batches"] if options["quick"] else LAUNCHES):
        for launch in kernels(model):
            texts = compiler.ptx_of(launch, *compiler.MULTIPROCESSORS)
            found = {c: compiler.resources_of(text, c) for c, text in texts.items()}
            shared = launch.shared + max(r.shared for r in found.values())
            registers = " / ".join(str(r.registers) for r in found.values())
            spilled = " / ".join(str(r.spilled) for r in found.values())
            busy = " / ".join(f"{compiler.occupancy(launch, r, c):.0%}" for c, r in found.items())
            print(f"| `{launch.name}` | {launch.threads} | {shared:,} | {registers} | {spilled} | {busy} |", flush=True)
            options["found"][f"ptx {launch.name} {launch.shared}"] = {str(c): r._asdict() for c, r in found.items()}


# --- measuring on a device ---


@main.command()
@click.pass_obj
def copy(options):
    """Bytes per second that a copy on the device reads and writes."""
    rate = copy_rate(options)
    row("copy", "GB/s", rate / 1e9)


def copy_rate(options) -> float:
    """Measure it once a run: bytes read and written per second."""
    if "copy" not in options["found"]:
        from corpusmill.kernels.cuda.jit import stream, synchronize
        from corpusmill.kernels.cuda.memory import new

        size = 1 << 20 if options["quick"] else 1 << 30
        source, target = new(size, np.uint8), new(size, np.uint8)
        target.copy_to_device(source, stream=stream())
        synchronize()
        started = time.perf_counter()
        for _ in range(20):
            target.copy_to_device(source, stream=stream())
        synchronize()
        options["found"]["copy"] = 20 * 2 * size / (time.perf_counter() - started)
    return options["found"]["copy"]


@contextlib.contextmanager
def timed():
    """Yield milliseconds by kernel, filled in at the end from events around each launch."""
    from corpusmill.kernels.cuda import jit
    from numba import cuda

    spans, lock, total = [], threading.Lock(), {}

    def launch(function, blocks, threads, *arguments, shared=0):
        events = cuda.event(), cuda.event()
        events[0].record(jit.stream())
        real(function, blocks, threads, *arguments, shared=shared)
        events[1].record(jit.stream())
        with lock:
            spans.append((function.__name__.lstrip("_"), *events))

    real = jit.launch
    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("corpusmill.kernels.cuda.") and module is not jit and "launch" in vars(module):
                stack.enter_context(mock.patch.object(module, "launch", launch))
        yield total
    cuda.synchronize()
    for name, start, end in spans:
        total[name] = total.get(name, 0.0) + start.elapsed_time(end)


class Topics:
    """A made-up corpus in chunks, and its state as training goes on."""

    def __init__(self, n_topics: int, n_tokens: int, n_chunks: int = 1, n_words: int = 100_000):
        self.n_topics, self.n_words, self.epoch = n_topics, n_words, 0
        self.chunks = [make(c, n_tokens // n_chunks, n_words) for c in range(n_chunks)]
        self.z = [None] * n_chunks
        empty = np.zeros(n_words + 1, np.int64), np.empty(0, np.uint16), np.empty(0, np.int32)
        self._set(*empty)

    def _set(self, *counts):
        from corpusmill.kernels import lda as cpu

        totals = cpu.topic_totals(counts[1], counts[2], self.n_topics)
        alpha = np.full(self.n_topics, 50 / self.n_topics, np.float32)
        self.model = cpu.Model(*counts, 0, totals, alpha, 0.01, self.n_words)

    @property
    def n_tokens(self) -> int:
        """Tokens of all chunks."""
        return sum(chunk.n_tokens for chunk in self.chunks)

    def sweep(self, pool=None, streamed=False) -> float:
        """Draw and count all chunks on the device; return the seconds. ``streamed``: send everything anew."""
        from corpusmill.kernels import lda as cpu
        from corpusmill.kernels import random
        from corpusmill.kernels.cuda import lda, memory

        def one(c):
            chunk, key = self.chunks[c], random.key(1, self.epoch, c)
            z = lda.sweep(chunk, [self.model], self.z[c], key)
            counts = lda.count_words(chunk.word_ids, chunk.word_ptr, z, (0, self.n_words), self.n_topics)
            if streamed:
                for array in (*chunk[1:], z):
                    memory.COPIED.drop(id(array))
            return z, counts

        started = time.perf_counter()
        swept = list((pool.map if pool else map)(one, range(len(self.chunks))))
        seconds = time.perf_counter() - started
        merged = swept[0][1]
        for _, counts in swept[1:]:
            merged = cpu.merge_counts(merged, counts)
        self.z, self.epoch = [z for z, _ in swept], self.epoch + 1
        self._set(*merged)
        return seconds

    def train(self, passes: int):
        """Some passes, so that documents have few topics."""
        for _ in range(passes):
            self.sweep()
        return self

    def row_bytes(self) -> float:
        """Bytes of the row of A that a token reads, on average."""
        from corpusmill.kernels import lda as cpu

        total = 0.0
        for chunk, z in zip(self.chunks, self.z, strict=True):
            rows = cpu.count_documents(chunk.doc_ptr, chunk.place, z)
            total += float((4.0 * np.diff(rows.row_ptr) * np.diff(chunk.doc_ptr)).sum())
        return total / self.n_tokens

    def cpu_rate(self, most: int) -> float:
        """Tokens per second of the CPU's kernels, one thread, on so many tokens of the same state."""
        from corpusmill.io.corpus import make_chunk
        from corpusmill.kernels import lda as cpu
        from corpusmill.kernels import random

        chunk, n = self.chunks[0], int(np.searchsorted(self.chunks[0].doc_ptr, most))
        doc_ptr = chunk.doc_ptr[: max(2, n)]
        in_documents = np.empty_like(self.z[0])
        in_documents[chunk.place] = self.z[0]
        part = make_chunk(0, doc_ptr, chunk.words[: doc_ptr[-1]])
        z = in_documents[: doc_ptr[-1]][part.place]
        seconds = []
        for turn in range(3):
            started = time.perf_counter()
            new = cpu.sweep(part, [self.model], z, random.key(2, turn))
            cpu.count_words(part.word_ids, part.word_ptr, new, (0, self.n_words), self.n_topics)
            seconds.append(time.perf_counter() - started)
        return part.n_tokens / min(seconds)


def make(number: int, n_tokens: int, n_words: int):
    """Documents of about 330 tokens, as in NYTimes, of a few of 500 topics each; frequencies as Zipf has them."""
    from corpusmill.io.corpus import make_chunk

    rng = np.random.default_rng(number)
    ends = np.cumsum(rng.poisson(330, n_tokens // 330 + 1) + 1)
    doc_ptr = np.r_[0, ends[ends < n_tokens], n_tokens]
    docs = np.repeat(np.arange(len(doc_ptr) - 1), np.diff(doc_ptr))
    topics = rng.integers(0, 500, (len(doc_ptr) - 1, 6))[docs, rng.integers(0, 6, n_tokens)]
    rank = np.exp(rng.random(n_tokens) * np.log(n_words)).astype(np.int64) - 1
    # Of a topic's words the frequent ones are everyone's, the others lie at a place of its own.
    words = np.where(rank < 200, rank, 200 + (rank * 977 + topics * 7919) % (n_words - 200))
    return make_chunk(number, doc_ptr, words.astype(np.uint32), group_tokens=1 << 62)


def sizes(options, tokens: int) -> tuple[int, int]:
    """Tokens and passes."""
    return (2000, 2) if options["quick"] else (tokens, 30)


DRAWS = ("draw", "first")


@main.command()
@click.option("--topics", multiple=True, type=int, default=[1024, 5000])
@click.option("--tokens", default=50_000_000)
@click.pass_obj
def lda(options, topics=(1024, 5000), tokens=50_000_000):
    """M tokens per second, bytes per second over those of a copy, the CPU beside it."""
    tokens, passes = sizes(options, tokens)
    row("topics", "M tokens/s", "of draws", "GB/s counted", "over copy", "CPU, 1 thread", "others")
    for n_topics in topics:
        state = Topics(n_topics, tokens).train(passes)
        seconds = median(state.sweep() for _ in range(5))
        with timed() as spent:
            state.sweep()
        draws = max(1e-9, sum(spent.get(name, 0.0) for name in DRAWS) / 1e3)
        # A token's document, its topics old and new, and its row of A.
        moved = state.n_tokens * (8 + state.row_bytes()) / draws
        cpu = state.cpu_rate(min(tokens, 2_000_000))
        found = [state.n_tokens / s / 1e6 for s in (seconds, draws)]
        found += [moved / 1e9, moved / copy_rate(options), cpu / 1e6]
        row(str(n_topics), *found, PAPERS.get(n_topics, ""))
        options["found"][f"lda {n_topics}"] = found


PARTS = {"draws": DRAWS, "A": ("shuffle", "count", "make_dense"), "B": ("count_words", "tighten")}


@main.command("figure-9")
@click.option("--tokens", default=50_000_000)
@click.option("--topics", "n_topics", default=1000)
@click.pass_obj
def figure_9(options, tokens=50_000_000, n_topics=1000):
    """SaberLDA's Figure 9: where an epoch's milliseconds go, chunks sent or resident, on one stream or four."""
    tokens, passes = sizes(options, tokens)
    state = Topics(n_topics, tokens, n_chunks=2 if options["quick"] else 8).train(passes)
    row("chunks", "streams", *PARTS, "rest", "all")
    for streamed in (True, False):
        for streams in (1, 4):
            with ThreadPoolExecutor(streams) as pool:
                state.sweep(pool, streamed)
                with timed() as spent:
                    seconds = state.sweep(pool, streamed)
            parts = [sum(spent.get(name, 0.0) for name in names) for names in PARTS.values()]
            found = [*parts, 1e3 * seconds - sum(parts), 1e3 * seconds]
            row("sent" if streamed else "resident", str(streams), *found)
            options["found"][f"figure 9 {'sent' if streamed else 'resident'} {streams}"] = found


@main.command("figure-10")
@click.option("--tokens", default=50_000_000)
@click.option("--topics", multiple=True, type=int, default=[1000, 3000, 5000])
@click.pass_obj
def figure_10(options, tokens=50_000_000, topics=(1000, 3000, 5000)):
    """SaberLDA's Figure 10: seconds an epoch by chunks, by streams (10 chunks, sent), by threads a block."""
    from corpusmill.kernels.cuda import lda as kernels

    tokens, passes = sizes(options, tokens)
    few = options["quick"]
    row("what", "topics", "number", "seconds")
    for n_topics in topics[:1] if few else topics:
        for n_chunks in (1, 2) if few else (1, 2, 4, 8, 16):
            seconds = Topics(n_topics, tokens, n_chunks).train(passes).sweep()
            tell(options, "chunks", n_topics, n_chunks, seconds)
        state = Topics(n_topics, tokens, 2 if few else 10).train(passes)
        for streams in (1, 2) if few else (1, 2, 4, 8):
            with ThreadPoolExecutor(streams) as pool:
                state.sweep(pool, streamed=True)
                tell(options, "streams", n_topics, streams, median(state.sweep(pool, streamed=True) for _ in range(3)))
        for warps in (1, 2) if few else (2, 4, 8, 16, 32):
            with mock.patch.object(kernels, "WARPS", warps):
                state.sweep()
                tell(options, "threads", n_topics, 32 * warps, median(state.sweep() for _ in range(3)))


def tell(options, what, n_topics, number, seconds) -> None:
    """Print and keep one point."""
    row(what, str(n_topics), str(number), seconds)
    options["found"][f"figure 10 {what} {n_topics} {number}"] = seconds


@main.command("table-4")
@click.option("--tokens", default=50_000_000)
@click.pass_obj
def table_4(options, tokens=50_000_000):
    """SaberLDA's Table 4 by counted bytes: what draws read of device memory and its caches, and of shared memory."""
    tokens, passes = sizes(options, tokens)
    state = Topics(1000, tokens).train(passes)
    with timed() as spent:
        state.sweep()
    seconds = max(1e-9, spent.get("draw", 0.0) / 1e3)
    per_token = state.row_bytes()
    row("memory", "GB/s", "over copy")
    for name, each in {"global and L2": 8 + per_token, "shared": per_token}.items():
        rate = state.n_tokens * each / seconds
        row(name, rate / 1e9, rate / copy_rate(options))
        options["found"][f"table 4 {name}"] = rate


if __name__ == "__main__":
    main()
