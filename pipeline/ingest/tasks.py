"""The tasks of an ingest: they take names and numbers, read and write work files, and return a few numbers.

Work files below ``<corpus>/.work/<digest>/``::

    <stage>/<i>.json               the result of task i, written last: it marks the task as done
    pieces/<p>/<n>.arrow           a row a document of partition p: key, held_out, tokens as numbers of p's words, file
    counts/<p>.arrow               p's words and counts, a record batch a bucket
    merged/<b>.arrow               the words of bucket b that are kept, with counts over all partitions
    encoded/<p>/<n>.arrow          as pieces, tokens as word ids, without those of words that are not kept
    lengths/<p>.arrow              held_out, length and piece of each document
    keys/<part>-<c>.arrow          keys and files of the documents of a chunk
"""

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...io.readers.batches import ReadOptions
from ...io.readers.reader import Reader
from ...io.readers.source import Partition
from ...io.stores.chunk import make_chunk
from ...io.stores.corpus import write_chunk
from ...io.stores.store import Store
from ...io.text import vocabulary as voc
from ...io.text.tokens import TokenOptions, tokenise

#: Parts of a corpus; the documents of ``held_out`` are kept for evaluation.
PARTS = ("train", "held_out")
#: Bytes of words that one merging task holds.
BUCKET_BYTES = 64 << 20


@dataclass(frozen=True)
class IngestOptions(ReadOptions, TokenOptions, voc.VocabularyOptions):
    """All that decides what corpus a source becomes; the bases have the rest."""

    held_out: float = 0.0  # share of the documents set apart for evaluation, chosen by a hash of their keys
    chunk_tokens: int | None = None  # most tokens of a chunk; None: see ingest.default_chunk_tokens
    overwrite: bool = False  # replace a corpus that was made otherwise


@dataclass(frozen=True)
class Job:
    """What every task of an ingest is told."""

    corpus: str
    work: str  # folder of the work files below the corpus
    options: IngestOptions
    buckets: int
    given: bool  # a vocabulary was given
    grows: bool  # and takes in further words

    @property
    def store(self) -> Store:
        """The corpus store."""
        return Store(self.corpus)

    @property
    def files(self) -> Store:
        """The work files."""
        return self.store.child(self.work)


class Run(NamedTuple):
    """Consecutive documents of a piece: rows ``first:last``, counted over the documents of one part alone."""

    partition: int
    piece: int
    first: int
    last: int


def marked(
    function: Callable[..., dict[str, Any]], job: Job, stage: str, index: int, *arguments: Any
) -> dict[str, Any]:
    """Run a task and mark it as done."""
    result = function(job, *arguments)
    job.files.write_json(f"{stage}/{index:06d}.json", result)
    return result


def count_partition(job: Job, index: int, reader: Reader, part: Partition) -> dict[str, int]:
    """Tokenise a partition; write its tokens by piece, and its words with their counts."""
    lexicon = voc.WordCounts()
    sums = {"documents": 0, "counted": 0, "tokens": 0, "pieces": 0}
    for batch in reader.read(part):
        tokens = tokenise(batch, job.options)
        held_out = is_held_out(batch.keys, job.options.held_out)
        numbers = lexicon.add(tokens.words, *voc.count_words(tokens, ~held_out))
        lists = pa.LargeListArray.from_arrays(tokens.doc_ptr, pa.array(numbers[tokens.ids].view(np.uint32)))
        piece = pa.table({"key": batch.keys, "held_out": held_out, "tokens": lists, "file": _files(batch.keys, part)})
        write_table(job.files, f"pieces/{index:06d}/{sums['pieces']:06d}.arrow", piece)
        sums["pieces"] += 1
        sums["documents"] += len(held_out)
        sums["counted"] += int(np.count_nonzero(~held_out))
        sums["tokens"] += len(tokens.ids)
    _write_counts(job, index, lexicon)
    return sums


def _files(keys: pa.Array, part: Partition) -> pa.Array:
    """Return the URL of each document's file. Where a partition has several, each is a document, its name the key."""
    if not part.more_files:
        return pa.repeat(pa.scalar(part.file.url, pa.string()), len(keys))
    urls = {file.name: file.url for file in (part.file, *part.more_files)}
    return pa.array([urls[key] for key in keys.to_pylist()], pa.string())


def _write_counts(job: Job, index: int, lexicon: voc.WordCounts) -> None:
    buckets = voc.hash_buckets(lexicon.words, job.buckets)
    order = np.argsort(buckets, kind="stable")
    table = lexicon.table().append_column("number", pa.array(np.arange(len(order), dtype=np.uint32)))
    cuts = np.searchsorted(buckets[order], np.arange(job.buckets + 1))
    write_table(job.files, f"counts/{index:06d}.arrow", table.take(order) if job.buckets > 1 else table, cuts)


def is_held_out(keys: pa.Array, share: float) -> np.ndarray:
    """Say of each document, by a hash of its key alone, whether it is held out: (D,) bool."""
    if not share:
        return np.zeros(len(keys), bool)
    limit = int(share * (1 << 64))
    hashes = (hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys.to_pylist())
    return np.fromiter((int.from_bytes(h, "big") < limit for h in hashes), bool, len(keys))


def merge_bucket(job: Job, bucket: int, partitions: int, documents: int) -> dict[str, int]:
    """Add up the counts of one bucket's words over all partitions, and prune."""
    tables = (read_batch(job.files, f"counts/{p:06d}.arrow", bucket).drop_columns("number") for p in range(partitions))
    merged = voc.merge_counts(tables, BUCKET_BYTES)
    kept = _kept(job, merged, documents)
    write_table(job.files, f"merged/{bucket:04d}.arrow", kept)
    return {"words": merged.num_rows, "kept": kept.num_rows}


def _kept(job: Job, merged: pa.Table, documents: int) -> pa.Table:
    if not job.given:
        voc.check_limits(job.options, documents)
        return voc.prune(merged, job.options, documents)
    known = pc.is_in(merged["word"], voc.words_of(read_table(job.files, "given.arrow")))
    kept = merged.filter(known)
    if not job.grows:
        return kept
    # Of a few documents the limits may leave no word at all, which is no mistake where there are words already.
    return pa.concat_tables([kept, voc.prune(merged.filter(pc.invert(known)), job.options, documents)])


def encode_partition(job: Job, index: int, pieces: int) -> dict[str, int]:
    """Write a partition's tokens as word ids, those of words not kept left out, and its documents' lengths."""
    files = job.files
    own = read_table(files, f"counts/{index:06d}.arrow")
    ids = np.empty(own.num_rows, np.int64)
    ids[own["number"].to_numpy()] = voc.find_word_ids(own["word"], read_table(files, "vocabulary.arrow"))
    sums, lengths = {"tokens": 0, "unseen": 0, "longest": 0}, [_no_lengths()]
    for number in range(pieces):
        piece = read_table(files, f"pieces/{index:06d}/{number:06d}.arrow")
        doc_ptr, tokens = documents_of(piece)
        new_ptr, kept = voc.encode(doc_ptr, tokens, ids)
        encoded = pa.LargeListArray.from_arrays(new_ptr, pa.array(kept))
        write_table(files, f"encoded/{index:06d}/{number:06d}.arrow", piece.set_column(2, "tokens", encoded))
        lengths.append(_lengths(piece["held_out"], np.diff(new_ptr), number))
        sums["tokens"] += len(kept)
        sums["unseen"] += len(tokens) - len(kept)
        sums["longest"] = max(sums["longest"], int(np.diff(new_ptr).max(initial=0)))
    write_table(files, f"lengths/{index:06d}.arrow", pa.concat_tables(lengths))
    return sums


def _lengths(held_out: pa.ChunkedArray, lengths: np.ndarray, piece: int) -> pa.Table:
    return pa.table({"held_out": held_out, "length": lengths, "piece": np.full(len(lengths), piece, np.int32)})


def _no_lengths() -> pa.Table:
    return _lengths(pa.chunked_array([], pa.bool_()), np.empty(0, np.int64), 0)


def documents_of(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return doc_ptr (D + 1,) int64 and the tokens (T,) uint32 of a table's documents."""
    lists = [c for c in table["tokens"].chunks if len(c)]
    if not lists:
        return np.zeros(1, np.int64), np.empty(0, np.uint32)
    lengths = np.concatenate([np.diff(c.offsets.to_numpy()) for c in lists])
    return np.r_[0, np.cumsum(lengths)], np.concatenate([c.flatten().to_numpy() for c in lists])


def write_one_chunk(job: Job, part: str, chunk: int, runs: list[Run]) -> dict[str, Any]:
    """Gather a chunk's documents, order them by word and write them; return its info and digest."""
    tables = [
        t for place, group in itertools.groupby(runs, key=lambda r: r[:2]) for t in _gather(job, part, place, group)
    ]
    joined = pa.concat_tables(tables)
    doc_ptr, words = documents_of(joined)
    write_table(job.files, f"keys/{part}-{chunk:06d}.arrow", joined.select(["key", "file"]))
    digest = hashlib.sha256(doc_ptr.tobytes())
    digest.update(np.ascontiguousarray(words).data)
    info = write_chunk(job.store, part, make_chunk(chunk, doc_ptr, words))
    return {"info": asdict(info), "digest": digest.hexdigest()}


def _gather(job: Job, part: str, place: tuple[int, ...], runs: Any) -> list[pa.Table]:
    table = read_table(job.files, f"encoded/{place[0]:06d}/{place[1]:06d}.arrow")
    mine = table["held_out"].to_numpy() == (part == "held_out")
    if mine.all():
        return [table.slice(run.first, run.last - run.first) for run in runs]
    rows = np.flatnonzero(mine)
    return [table.take(pa.array(rows[run.first : run.last])) for run in runs]


# --- work files are Arrow tables, mapped into memory where they are local ---


def write_table(store: Store, name: str, table: pa.Table, cuts: np.ndarray | None = None) -> None:
    """Write a table as one record batch, or as several, cut at the given rows."""
    table = table.combine_chunks()
    bounds = [0, table.num_rows] if cuts is None else cuts.tolist()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        for first, last in itertools.pairwise(bounds):
            rows = table.slice(first, last - first).to_batches()
            writer.write_batch(rows[0] if rows else pa.RecordBatch.from_pylist([], table.schema))
    store.write_bytes(name, sink.getvalue())


def read_table(store: Store, name: str) -> pa.Table:
    """Read a whole table."""
    return _open_table(store, name).read_all()


def read_batch(store: Store, name: str, index: int) -> pa.Table:
    """Read one record batch of a table."""
    return pa.Table.from_batches([_open_table(store, name).get_batch(index)])


def _open_table(store: Store, name: str) -> pa.ipc.RecordBatchFileReader:
    source = pa.memory_map(store.where(name)) if store.is_local else pa.BufferReader(store.read_bytes(name))
    return pa.ipc.open_file(source)
