"""How many bytes the counts of LDA take, packed and not, and how fast they are packed: constants for the extrapolation.

python -m benchmarks.scale.packing --help
"""

from pathlib import Path

import click
import numpy as np
from corpusmill import LDA
from corpusmill.kernels.count_rows import CountRows, pack_rows, unpack_rows
from corpusmill.pipeline.ingest.ingest import corpus_from

from benchmarks.common import DATA, JSON, QUICK, Session, fastest_cpu_seconds, print_row, write_json
from benchmarks.lda.data import read


@click.command()
@DATA
@click.option("--topics", multiple=True, type=int, default=[200, 1000], show_default=True)
@click.option("--tokens", default=16_000_000, show_default=True)
@click.option("--chunk-tokens", default=1_000_000, show_default=True)
@click.option("--epochs", default=10, show_default=True)
@JSON
@QUICK
def main(
    data: Path, topics: list[int], tokens: int, chunk_tokens: int, epochs: int, target: Path | None, quick: bool
) -> None:
    """Train LDA on Wikipedia with `warp`, and pack the counts of all words, and those of the topics of one chunk.

    The counts of a model are read by all workers and written at each commit. Those of a chunk are the smallest part of
    what workers exchange: the more chunks are added up, the more their counts resemble those of the model.
    """
    if quick:
        topics, tokens, chunk_tokens, epochs = [20], 100_000, 10_000, 2
    matrix = read(Session(data, quick), "wikipedia", tokens)
    print_row("topics", "counts of", "entries", "MB", "packed MB", "share", "packs MB/s", "unpacks MB/s")
    found = []
    for n_topics in topics:
        corpus = corpus_from(matrix, chunk_tokens=chunk_tokens)
        model = LDA(n_topics, 50 / n_topics, max_iter=epochs, sampler="warp", device="cpu").fit(corpus)
        (block,) = model.model_.blocks
        whole = CountRows(block["row_ptr"], block["topics"], block["counts"])
        for name, rows in (("the model", whole), ("a chunk", counts_of_first_chunk(whole, chunk_tokens / tokens))):
            row = {"topics": n_topics, "counts": name} | measure(rows)
            print_row(*row.values())
            found.append(row)
    if target is not None:
        write_json(target, found)


def counts_of_first_chunk(rows: CountRows, share: float) -> CountRows:
    """Return counts like those of a chunk: each token of the model belongs to it with the probability ``share``."""
    counts = np.random.default_rng(0).binomial(rows.counts, share).astype(np.int32)
    is_kept = counts > 0
    kept_before = np.concatenate([[0], np.cumsum(is_kept)])
    return CountRows(kept_before[rows.row_ptr], rows.columns[is_kept], counts[is_kept])


def measure(rows: CountRows) -> dict[str, float]:
    """Return the bytes of the counts, and how fast they are packed and unpacked, by bytes that are not packed."""
    nbytes = sum(array.nbytes for array in rows)
    packed = pack_rows(rows)
    if packed is None:
        raise ValueError("the rows of the model cannot be packed")
    unpacked = unpack_rows(packed)
    if not all(np.array_equal(left, right) for left, right in zip(rows, unpacked, strict=True)):
        raise ValueError("unpacked rows differ from the rows that were packed")
    return {
        "entries": len(rows.columns),
        "megabytes": nbytes / 1e6,
        "packed_megabytes": packed.nbytes / 1e6,
        "share": packed.nbytes / nbytes,
        "packs": nbytes / 1e6 / fastest_cpu_seconds(lambda: pack_rows(rows)),
        "unpacks": nbytes / 1e6 / fastest_cpu_seconds(lambda: unpack_rows(packed)),
    }


if __name__ == "__main__":
    main()
