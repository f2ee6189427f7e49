"""A time model of an epoch on a GPU: what each kernel reads, writes and computes, at the rates of the device.

An epoch is a sequence of parts. A part takes as long as the slowest of its resources: device memory, the L2 cache,
shared memory, arithmetic, instructions that are issued, atomic additions to device memory, launches, and copies, which
all work at the same time. Sizes of chunks, and cells in flight, are those that the product makes.
Barriers of all blocks are added, and so are the launches that nothing hides, because the host has waited for the device
before. No GPU has shown yet how far launches overlap with kernels. So each epoch is also predicted without any overlap,
and that time is printed, too, if it differs. Memory that is set to zero counts as no launch: that takes a few
microseconds. Latency is left out but for cells of strata, so the other times are lower bounds. The model needs no GPU.
Where there is one, the other commands print what they measure.

The counts of launches and of copied bytes are those of ``tests/kernels/cuda/test_traffic.py``.
"""

from collections.abc import Iterator
from typing import NamedTuple

import click
import numpy as np
from corpusmill.kernels.word2vec.cells import SHARED
from corpusmill.kernels.word2vec.sub_cells import GROUPS, MOST_ENTRIES
from corpusmill.pipeline.models.skip_gram.strata import StrataSkipGram

from benchmarks.gpu.measure import print_row
from benchmarks.gpu.time_model import H200, Work

#: A float in a sector of 32 bytes, which is what a scattered access moves.
SECTOR = 32


#: LDA: the share of draws that fall into the prior part, and of tokens whose words are counted one by one.
PRIOR_SHARE = 0.1
RARE_SHARE = 0.1
#: LDA: bytes per token of topics that wait to be counted, with a segment for every four tokens; they are counted when
#: they have the bytes of a block of the model. Bytes of a packed count: see docs/measurements/long-run.json.
WAITING = 2 + 12 / 4
PACKED = 1.41


#: Tokens of a chunk, at most: see pipeline/ingest/steps.py.
CHUNK = float(1 << 22)
#: LDA: instructions of a draw, by topics; of both counts, per token; of a table, per number of it.
DRAW_ISSUED = {1024: 145.0, 5000: 226.0, 20_000: 328.0}
COUNT_ISSUED = 6.8, 3.0
TABLE_ISSUED = 1.7
#: NMF: instructions per non-zero and component of a product, and per row and pair of components of a sweep.
PRODUCT_ISSUED = 278 / 256
SWEEP_ISSUED = (750 - 278) * 90 / 256**2
#: Instructions per word of FULL-W2V and PAR-Word2Vec, per pair of strata and per neighbour of random indexing.
FULL_ISSUED, PAR_ISSUED, STRATA_ISSUED, SEED_ISSUED = 4240.0, 3520.0, 1950.0, 12.4


def lda_epoch(tokens: float, documents: float, words: int, topics: int, chunk_tokens: float) -> Iterator[Work]:
    """Yield the steps of an epoch of ESCA.

    Assumes 30 topics per document, 60 entries of B per word or all topics, and chunks that stay resident.
    """
    chunks = max(1.0, tokens / chunk_tokens)
    row = 4.0 * min(topics, 30)  # bytes of a document's row of A
    entries = words * min(topics, 60 + tokens / words / 20)
    jobs = max(words, tokens / 128)
    job_entries = min(topics, entries / words * 4)  # frequent words have more jobs, and longer rows
    yield Work(
        "draw topics",
        # Document, old and new topic; a row of A in whole sectors. A job reads its row of B.
        memory=tokens * (4 + 2 + 2 + max(SECTOR, row)) + jobs * job_entries * 6,
        # φ of each entry of the row. Two searches in a tree, of three times 32 numbers, for the prior part. A job sets
        # and clears φ and the counts of its entries, and builds the leaves.
        shared=tokens * (row + PRIOR_SHARE * 2 * 3 * 256) + jobs * job_entries * (4 * 4 + 3 * 8),
        flops=tokens * row / 2,
        issued=tokens * float(np.interp(topics, list(DRAW_ISSUED), list(DRAW_ISSUED.values()))),
        bus=2 * tokens,  # the topics of another chunk, by the worker's other thread
        launches=chunks,
        idle_launches=chunks,
    )
    yield Work(
        "count by document",
        # Order, topic, scattered topic, topic in document order; the row is written, read and written again.
        memory=tokens * (4 + 2 + SECTOR + 2) + 3 * documents * row,
        # A slot is read and written per token. A table has about three slots per token, each cleared once.
        shared=tokens * (8 + 3 * 4),
        issued=tokens * COUNT_ISSUED[0],
        launches=3 * chunks,  # the topics in document order; short and long documents
    )
    in_memory = 1.0 if topics > 2048 else RARE_SHARE
    yield Work(
        "count by word",
        memory=tokens * 2 + chunks * entries * 8,
        shared=tokens * 8,
        atomics=tokens * in_memory,
        issued=tokens * COUNT_ISSUED[1],
        launches=2 * chunks,  # frequent and rare words
    )
    # A table of the chunks that have waited, and another one to add it to those before.
    counted = max(1.0, WAITING * tokens / (6.0 * min(tokens, words * topics)))
    yield merge_counts(2 * counted, words, topics, entries)
    yield Work("pack the counts", memory=2 * 6 * entries + PACKED * entries, launches=2, idle_launches=1)
    yield Work("counts to the host, as they are and packed", bus=(6 + PACKED) * entries)


def merge_counts(tables: float, words: int, topics: int, entries: float) -> Work:
    """Return the compression of some tables. Each is cleared, read twice, and written as rows, which are added up."""
    return Work(
        "merge and compress the counts",
        memory=tables * 3 * 4.0 * words * topics + 3 * 6 * entries,
        issued=tables * words * topics * TABLE_ISSUED,
        launches=3 * tables,
        idle_launches=tables,
    )


#: Passes of a sort of tokens by document and topic, eight bits each: 30 of the document, 16 of the topic.
SORT_PASSES = 6


def saberlda_epoch(step: str, tokens: float, documents: float, words: int, topics: int) -> Iterator[Work]:
    """An epoch of a step of SaberLDA's Figure 9, on resident chunks: G0 to G3. G4 hides copies, which are left out.

    All chunks are one shard. Its counts are the same in all steps.
    """
    draw, count, by_word = list(lda_epoch(tokens, documents, words, topics, tokens / 8))[:3]
    draw = draw._replace(bus=0.0)
    row = min(topics, 30)
    entries = words * min(topics, 60 + tokens / words / 20)
    if step == "G0":
        # φ lies in device memory: a sector per entry of a document's row. The word's row changes with each token.
        draw = draw._replace(memory=draw.memory + tokens * row * SECTOR, shared=0.0)
    if step in ("G0", "G1"):
        # A draw of the prior part reads a share, and then its topic; each is in a sector of its own.
        draw = draw._replace(memory=draw.memory + tokens * PRIOR_SHARE * 2 * SECTOR)
        # One thread builds a row, so each of about six accesses per entry moves a sector.
        yield Work("build alias tables", memory=entries * 6 * SECTOR, launches=2)
    yield draw
    if step == "G3":
        yield count
    else:
        yield Work("sort by document and topic", memory=tokens * SORT_PASSES * 2 * 8, small_launches=SORT_PASSES * 8)
    yield by_word
    yield merge_counts(1, words, topics, entries)


def nmf_epoch(rows: int, columns: int, entries: int, K: int, n_blocks: int = 1) -> Iterator[Work]:
    """FAST-HALS on sparse rows in one chunk. P, Q, W and H stay on the device; copied is what a commit writes.

    H is copied while P and Q are computed, and W while its Gram matrix is. The host waits for both copies. It waits for
    those of W in each block.
    """
    yield from nmf_rows(rows, columns, entries, K)
    if n_blocks > 1:
        yield Work("join the blocks of W", memory=2 * 4.0 * K * columns, small_launches=n_blocks)
    yield Work(
        "sweep W",
        memory=3 * 4.0 * K * columns,
        shared=4.0 * K * K * columns * 2,
        flops=4.0 * K * K * columns,
        issued=columns * K * K * SWEEP_ISSUED,
        launches=n_blocks,
        idle_launches=n_blocks,
    )
    yield Work(
        "Gram matrix and <P, W>; W to the host",
        memory=3 * 4.0 * K * columns,
        flops=2.0 * K * K * columns,
        small_launches=2 * n_blocks,
        pinned=4.0 * K * columns,
    )
    yield from nmf_matrices(K, n_blocks)


def nmf_rows(rows: int, columns: int, entries: int, K: int) -> Iterator[Work]:
    """The update of H, and its products."""
    factors = 4.0 * K * (rows + columns)
    gathered = 4.0 * K * entries
    yield Work(
        "sweep H",
        memory=gathered + 2 * 4.0 * K * rows + 12 * entries,
        shared=4.0 * K * K * rows * 2,
        flops=2 * entries * K + 4.0 * K * K * rows,
        issued=entries * K * PRODUCT_ISSUED + rows * K * K * SWEEP_ISSUED,
        launches=1,
        idle_launches=1,
    )
    yield Work(
        "P and Q; H to the host",
        memory=gathered + 3 * factors,
        flops=2 * entries * K + 2.0 * K * K * rows,
        issued=entries * K * PRODUCT_ISSUED,  # without CuPy; Q is left out, which cuBLAS computes with it
        launches=1,
        small_launches=1,
        pinned=4.0 * K * rows,
    )


def nmf_matrices(K: int, n_blocks: int = 1) -> Iterator[Work]:
    """The copies of small matrices: S of each block and Q in float64, and back in float32, as rules of the updates."""
    yield Work("S and Q to the host", pinned=(1 + n_blocks) * 8.0 * K * K)
    yield Work("rules to the device", bus=(1 + n_blocks) * 4.0 * K * K)


def tiled_nmf_epoch(rows: int, columns: int, entries: int, K: int, T: int) -> Iterator[Work]:
    """FAST-HALS in the papers' order: H in blocks of rows, and W in tiles of T components that are normalised."""
    yield from nmf_rows(rows, columns, entries, K)
    tiles = K / T
    yield Work(
        "products of tiles of W",
        # W and P are transposed, and W back: three scattered writes in whole sectors. Then the Gram matrix and ⟨P, W⟩.
        memory=tiles * 4.0 * K * columns + 3 * (4.0 + SECTOR) * K * columns + 3 * 4.0 * K * columns,
        flops=4.0 * K * K * columns,
        launches=1,
        small_launches=tiles + 4,
        idle_launches=1,
    )
    yield Work(
        "phase 2 of W",
        # A component is read and written twice, and changes half of the tile's components on average.
        memory=4.0 * columns * K * (4 + T),
        flops=2.0 * columns * K * (T / 2 + 3),
        launches=tiles,
        barriers=K,
    )
    yield Work("W to the host", pinned=4.0 * K * columns)
    yield from nmf_matrices(K)


def par_epoch(tokens: float, words: int, D: int, window: int, negative: int, chunk_tokens: float) -> Iterator[Work]:
    """PAR-Word2Vec. A mini-batch has 24 words and shares as many negatives as one word would have."""
    contexts = window + 1
    negatives = contexts * negative
    chunks = max(1.0, tokens / chunk_tokens)
    row = 4.0 * D
    yield Work(
        "attract",
        # A pair reads both rows for the product, and one of them again and changes it.
        memory=tokens * contexts * row * (2 + 2),
        flops=tokens * contexts * D * 6,
        issued=tokens * PAR_ISSUED * D / 128,  # of both steps
        atomics=tokens * D * (contexts + 1),
    )
    yield Work(
        "repel",
        memory=tokens * row * 2 + tokens * negatives / 24 * row * 2,
        # Three products. The first reads five vectors for sixteen additions, and the others two.
        shared=tokens * negatives * row * (1.25 + 2 * 0.5),
        flops=tokens * negatives * D * 6,
        atomics=tokens * D * (1 + negatives / 24),
        launches=chunks,
        bus=tokens * 8,  # the text of the next chunk
    )
    yield Work("matrices, once in each direction", bus=4 * 4.0 * words * D)


#: Strata: pairs of a batch of a sub-cell, runs of a batch, and the share of the time of a diagonal in which an average
#: block works: measured on random pairs with eight groups.
BATCH_PAIRS = 20
BATCH_RUNS = 16
BALANCE = 0.87
#: Cells that a worker with a device trains at the same time.
CELLS = StrataSkipGram.device_cells
#: Seconds of a host thread for a cell, before its launch: to divide each of its pairs, and its negatives. Measured.
DIVIDE_PAIR = 8e-9
DIVIDE_NEGATIVES = 0.8e-3


def strata_epoch(tokens: float, words: int, D: int, pairs: float, n_blocks: int, passes: int) -> Iterator[Work]:
    """Yield the steps of an epoch of strata, with ``pairs`` per token and `CELLS` cells at the same time.

    Both blocks stay on the device, so a row is read and written once per batch, and not once per pair.
    """
    n_batches = tokens * pairs / BATCH_PAIRS
    n_cells = passes * n_blocks**2
    dividing = tokens * pairs * DIVIDE_PAIR + n_cells * DIVIDE_NEGATIVES
    row = 4.0 * D
    rows = BATCH_RUNS + BATCH_PAIRS + SHARED
    moves = 3 * BATCH_RUNS * SHARED
    yield Work(
        "train cells",
        memory=n_batches * 2 * rows * row,
        # Rows in and out, products and moves of pairs. Products of repulsion read five numbers for four additions, and
        # moves two for four, of which one is the same for the whole warp.
        shared=n_batches * row * (2 * rows + BATCH_PAIRS * 5 + BATCH_RUNS * SHARED * (1.25 + 2 * 0.5)),
        flops=n_batches * D * 2 * (3 * BATCH_PAIRS + moves),
        issued=tokens * pairs * STRATA_ISSUED * D / 128,
        launches=n_cells,
        # Each of these threads divides a cell, and trains it, with its groups side by side.
        batches=(n_batches / GROUPS / BALANCE + dividing * H200.batches) / min(n_blocks, CELLS),
    )
    yield Work("pairs to the device", bus=4 * tokens * pairs)
    yield Work("negatives to the device", bus=2.0 * MOST_ENTRIES * n_cells)
    yield Work("matrices, once in each direction per step", bus=4 * 4.0 * words * D)


def word2vec_epoch(
    tokens: float, words: int, D: int, window: int, negative: int, chunk_tokens: float
) -> Iterator[Work]:
    """FULL-W2V. A window has window + 1 contexts on average, and each meets the centre and the negatives."""
    pairs = tokens * (window + 1) * (negative + 1)
    chunks = max(1.0, tokens / chunk_tokens)
    yield Work(
        "train",
        # A context row is read and written once while it is in the ring; a row of negatives once per window.
        memory=tokens * 4 * D * 2 * (1 + negative + 1),
        shared=pairs * 4 * D * 3,
        flops=pairs * D * 6,
        issued=tokens * FULL_ISSUED * D / 128,
        atomics=tokens * D * (negative + 2),
        launches=chunks,
        bus=tokens * 8,  # the text of the next chunk
    )
    yield Work("matrices, once in each direction", bus=4 * 4.0 * words * D)


#: Random indexing: shared memory's passes per atomic addition of 32 lanes to random addresses. A pass serves one
#: address per bank, so it is the largest number of lanes in one of 32 banks on average.
PASSES = 3.53
#: Additions that remain because seeds of the most frequent words are counted before they are added, in wiki8 with ten
#: numbers per seed: 44% of the neighbours take one addition instead of ten, and for every seventh of them a seed of ten
#: is added at the end. Measured by counting words in the pieces that blocks take.
ADDITIONS_LEFT = 0.67
#: Share of neighbours that are among the 4,096 most frequent words, in wiki8. Their seeds take 128 KiB, which fits the
#: L1 cache of a multiprocessor.
FREQUENT_SHARE = 0.826


def random_indexing_epoch(
    tokens: float, words: int, D: int, radius: int, length: int, chunk_tokens: float
) -> Iterator[Work]:
    """Sums of sparse seeds of up to sixteen numbers, which lie in one sector each."""
    neighbours = tokens * 2 * radius
    additions = neighbours * length
    # Occurrences of a word are at random places of the text. A window begins anywhere in a sector.
    window = SECTOR + 4.0 * (2 * radius)
    yield Work(
        "accumulate",
        memory=tokens * (4 + window) + 2 * 4.0 * words * D,
        cache=neighbours * (1 - FREQUENT_SHARE) * SECTOR,
        # A pass of 32 banks takes the time in which they could move 128 bytes.
        shared=additions * ADDITIONS_LEFT / 32 * PASSES * 128,
        issued=neighbours * SEED_ISSUED,
        atomics=min(additions, tokens * D / 1024),
        launches=2,
        bus=8 * tokens,  # the text of another chunk, by the worker's other thread
    )
    # Each shard's sums are added once, and the sum of several shards is written.
    yield Work("add up the sums of shards", memory=3 * tokens / chunk_tokens * 4.0 * words * D)
    yield Work("sums to the host", bus=4.0 * words * D)


class Epoch(NamedTuple):
    """An epoch to predict."""

    name: str
    amount: float  # of work
    unit: str
    parts: list[Work]
    #: Longest time of the epoch that is wanted, in seconds, if there is a target.
    target: float = 0.0
    #: Share of the rate of shared memory that the first part should reach, if that is the target, and the bytes that
    #: count for it: eight per addition of the equation, without conflicts of banks.
    shared_target: float = 0.0
    shared_bytes: float = 0.0


EPOCHS = (
    Epoch("LDA, K = 1,024", 1e9, "tokens", list(lda_epoch(1e9, 3e6, 100_000, 1024, CHUNK)), target=1e9 / 1.5e9),
    Epoch("LDA, K = 5,000", 1e9, "tokens", list(lda_epoch(1e9, 3e6, 100_000, 5000, CHUNK)), target=1e9 / 1.8e9),
    Epoch("LDA, K = 20,000", 1e9, "tokens", list(lda_epoch(1e9, 3e6, 100_000, 20_000, CHUNK)), target=1.0),
    *(
        Epoch(f"SaberLDA's Figure 9, {step}", 1e8, "tokens", list(saberlda_epoch(step, 1e8, 3e5, 100_000, 1000)))
        for step in ("G0", "G1", "G2", "G3")
    ),
    Epoch(
        "NMF, K = 256, 20 Newsgroups",
        1_018_191,
        "non-zeros",
        list(nmf_epoch(11_314, 26_214, 1_018_191, 256)),
        target=3e-3,
    ),
    Epoch(
        "NMF, K = 256, n_blocks = 4",
        1_018_191,
        "non-zeros",
        list(nmf_epoch(11_314, 26_214, 1_018_191, 256, 4)),
        target=3e-3,
    ),
    Epoch(
        "NMF in the papers' order, K = 256",
        1_018_191,
        "non-zeros",
        list(tiled_nmf_epoch(11_314, 26_214, 1_018_191, 256, 16)),
    ),
    Epoch("PAR-Word2Vec, D = 128", 8e8, "words", list(par_epoch(8e8, 500_000, 128, 5, 5, CHUNK))),
    Epoch("FULL-W2V, D = 128", 8e8, "words", list(word2vec_epoch(8e8, 500_000, 128, 5, 5, CHUNK)), target=8e8 / 150e6),
    Epoch(
        "Strata, D = 128, 16 blocks",
        8e8,
        "words",
        list(strata_epoch(8e8, 500_000, 128, 4.9, 16, 200)),
        target=8e8 / 60e6,
    ),
    Epoch(
        "Random indexing, D = 2,048",
        1e9,
        "tokens",
        list(random_indexing_epoch(1e9, 100_000, 2048, 5, 10, CHUNK)),
        shared_target=0.6,
        shared_bytes=1e9 * 10 * 10 * 8,
    ),
)
HEAD = (
    "memory GB",
    "L2 GB",
    "shared GB",
    "GFLOP",
    "G instr.",
    "atomics G",
    "bus GB",
    "pinned GB",
    "launches",
    "barriers",
    "batches",
    "ms",
    "limit",
)


def _print_row(name: str, *cells: object) -> None:
    print(f"{name:<40}", end="")
    print_row(*cells, width=9)


@click.command()
@click.pass_obj
def predict(session):
    """Predicted time of an epoch on an H200: bytes, arithmetic, launches and copies of each kernel. Needs no GPU."""
    for epoch in EPOCHS:
        print()
        _print_row(epoch.name, *HEAD)
        total = 0.0
        for part in epoch.parts:
            seconds, limit = part.seconds(H200)
            total += seconds
            counted = [
                part.memory,
                part.cache,
                part.shared,
                part.flops,
                part.issued,
                part.atomics,
                part.bus,
                part.pinned,
            ]
            _print_row(
                part.name,
                *(number / 1e9 for number in counted),
                *(int(n) for n in (part.launches + part.small_launches, part.barriers, part.batches)),
                1e3 * seconds,
                limit,
            )
        print(f"an epoch: {1e3 * total:,.1f} ms, {epoch.amount / total / 1e6:,.0f} million {epoch.unit} per second")
        _print_target(epoch, total)
        _print_without_overlap(epoch, total)
        session.figures[f"predict {epoch.name}"] = total


def _print_target(epoch: Epoch, seconds: float) -> None:
    """Print whether the predicted time meets the target of the epoch, if it has one."""
    if epoch.target:
        verdict = "met" if seconds <= epoch.target else "missed"
        rate = epoch.amount / epoch.target / 1e6
        print(f"target: {1e3 * epoch.target:,.1f} ms, {rate:,.0f} million {epoch.unit} per second: {verdict}")
    if epoch.shared_target:
        first = epoch.parts[0]
        reached = epoch.shared_bytes / H200.shared / first._replace(bus=0.0).seconds(H200)[0]
        verdict = "met" if reached >= epoch.shared_target else "missed"
        print(
            f"target: {epoch.shared_target:.0%} of the rate of shared memory; {first.name}: {reached:.0%}: {verdict}. "
            f"Counted are all additions of the equation; those that are made reach {reached * ADDITIONS_LEFT:.0%}"
        )


def _print_without_overlap(epoch: Epoch, seconds: float) -> None:
    """Print the time without overlap if it is longer in the digits that are printed, and what it means for a target."""
    alone = sum(part.seconds_without_overlap(H200) for part in epoch.parts)
    before, after = (f"{1e3 * each:,.1f}" for each in (seconds, alone))
    if before == after:
        return
    line = f"if no launch overlapped with kernels or copies: {after} ms"
    if epoch.target:
        verdict = "met" if alone <= epoch.target else "missed"
        line += f", target {verdict}"
    print(line)
