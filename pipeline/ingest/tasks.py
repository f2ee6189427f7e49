"""The functions that run as Dask tasks during an ingest.

They pass data to each other in work files, and return only counts to the client.

Work files are in ``<corpus>/.work/<digest>/``, where the digest identifies the source and the options. A word has a
*number* in its partition and an *id* in the vocabulary. P partitions are read in batches, and words are divided into
buckets by their hash::

    <stage>/<i>.json               result of task i; it is written last, and marks the task as done
    batches/<p>/<b>.arrow          one row per document of a batch: key, held_out, numbers of its words, file, kept
                                   columns
    counts/<p>.arrow               words of partition p, their counts and numbers: one record batch per bucket
    merged/<bucket>.arrow          words of a bucket that are kept, with counts over all partitions
    vocabulary.arrow               all words that are kept; a row's number is the id
    given.arrow                    the vocabulary that the caller gave, if there is one
    word-ids/<p>.arrow             id of each word number of partition p, -1 for words that are not kept
    lengths/<p>.arrow              one row per document: held_out, number of tokens, batch
    keys/<part>-<c>.arrow          keys, files and kept columns of the documents of chunk c
    bad/<p>.jsonl                  bad lines of partition p, if there are any
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...io import words as voc
from ...io.readers.batches import BadLine, Bag, Batch, merge_odd
from ...io.readers.kinds import Fits, as_kind, merge_fits
from ...io.readers.reader import Reader
from ...io.readers.source import Partition
from ...io.stores.chunk import make_chunk
from ...io.stores.corpus import write_chunk
from ...io.words import CharacterRun, TokenOptions, character_run, count_table, tokenise
from ...kernels.text.words import WordTable, character_table, special_capitals
from .job import (
    BucketCounts,
    DocumentRange,
    EncodedCounts,
    IngestJob,
    PartitionCounts,
    WrittenChunk,
    read_batch,
    read_table,
    write_table,
)

#: Bytes of words that a task merges at once.
BUCKET_BYTES = 64 << 20

Result = TypeVar("Result")


def run_and_record(
    function: Callable[..., Result], job: IngestJob, stage: str, index: int, *arguments: object
) -> Result:
    """Run a task and write its result to a work file.

    An ingest that continues after an interruption reads the file instead of running the task again.
    """
    result = function(job, *arguments)
    job.files.write_json(f"{stage}/{index:06d}.json", result)
    return result


# --- first pass: tokens and words ---


def count_partition(job: IngestJob, index: int, reader: Reader, partition: Partition) -> PartitionCounts:
    """Tokenise a partition. Write its tokens batch by batch, and its words with their counts."""
    words = PartitionWords(job.options)
    counts = PartitionCounts(
        documents=0, counted=0, tokens=0, words=0, batches=0, bad_lines=0, odd=[], bad_example="", kept=[]
    )
    fits: list[list[Fits]] = [[] for _ in job.options.keep]
    bad: list[BadLine] = []
    for batch in reader.read(partition):
        bad += batch.bad
        counts["odd"] = merge_odd((*counts["odd"], *batch.odd))
        held_out = is_held_out(batch.keys, job.options.held_out)
        doc_ptr, numbers = words.add(batch, ~held_out)
        columns = {
            "key": batch.keys,
            "held_out": held_out,
            "tokens": _token_lists(doc_ptr, numbers),
            "file": _file_column(batch.keys, partition),
        }
        if batch.kept is not None:
            for found, name in zip(fits, job.options.keep, strict=True):
                columns[_kept_name(name)] = batch.kept[name].values
                found.append(batch.kept[name].fits)
        write_table(job.files, _batch_name(index, counts["batches"]), pa.table(columns))
        counts["batches"] += 1
        counts["documents"] += len(held_out)
        counts["counted"] += int(np.count_nonzero(~held_out))
        counts["tokens"] += len(numbers)
    counts["words"] = _write_counts(job, index, words.table())
    counts["kept"] = [merge_fits(found) for found in fits]
    if bad:
        counts["bad_lines"] = len(bad)
        counts["bad_example"] = bad[0].error
        lines = [json.dumps(line._asdict(), ensure_ascii=False) + "\n" for line in bad]
        job.files.write_bytes(f"bad/{index:06d}.jsonl", "".join(lines).encode("utf-8", "replace"))
    return counts


def is_held_out(keys: pa.Array, share: float) -> np.ndarray:
    """Return for each document whether it is held out: (D,) bool. Only a hash of its key decides."""
    if not share:
        return np.zeros(len(keys), bool)
    limit = int(share * (1 << 64))
    hashes = (hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys.to_pylist())
    return np.fromiter((int.from_bytes(digest, "big") < limit for digest in hashes), bool, len(keys))


def _file_column(keys: pa.Array, partition: Partition) -> pa.Array:
    """Return the URL of each document's file."""
    if not partition.more_files:
        return pa.repeat(pa.scalar(partition.file.stored_url, pa.string()), len(keys))
    # In a partition of several files, each file is one document, and its key is the file's name.
    urls = {file.name: file.stored_url for file in (partition.file, *partition.more_files)}
    return pa.array([urls[key] for key in keys.to_pylist()], pa.string())


def _write_counts(job: IngestJob, index: int, words: pa.Table) -> int:
    """Write the count table of a partition, and return its number of words.

    It is sorted by bucket, so that each merging task reads one record batch.
    """
    buckets = voc.hash_buckets(voc.words_of(words), job.n_buckets)
    order = np.argsort(buckets, kind="stable")
    numbers = pa.array(np.arange(len(order), dtype=np.uint32))
    table = words.append_column("number", numbers)
    if job.n_buckets > 1:
        table = table.take(order)
    bounds = np.searchsorted(buckets[order], np.arange(job.n_buckets + 1))
    write_table(job.files, f"counts/{index:06d}.arrow", table, bounds)
    return table.num_rows


def merge_bucket(job: IngestJob, bucket: int, n_partitions: int, n_documents: int) -> BucketCounts:
    """Add up the counts of one bucket's words over all partitions, and write the words that are kept."""
    names = (f"counts/{partition:06d}.arrow" for partition in range(n_partitions))
    tables = (read_batch(job.files, name, bucket).drop_columns("number") for name in names)
    merged = voc.merge_counts(tables, BUCKET_BYTES)
    kept = _kept_words(job, merged, n_documents)
    write_table(job.files, f"merged/{bucket:04d}.arrow", kept)
    return BucketCounts(words=merged.num_rows, kept=kept.num_rows)


def _kept_words(job: IngestJob, merged: pa.Table, n_documents: int) -> pa.Table:
    """Return the rows of ``merged`` whose words become part of the vocabulary.

    Without a given vocabulary, the options decide. Words of a given vocabulary are always kept. If it grows, the
    options decide about all other words.
    """
    if not job.has_vocabulary:
        voc.check_limits(job.options, n_documents)
        return voc.prune(merged, job.options, n_documents)
    is_given = pc.is_in(merged["word"], voc.words_of(read_table(job.files, "given.arrow")))
    given = merged.filter(is_given)
    if not job.grows:
        return given
    # No call of `check_limits`: a small update of a large corpus may have no new word within the limits.
    new = voc.prune(merged.filter(pc.invert(is_given)), job.options, n_documents)
    return pa.concat_tables([given, new])


# --- second pass: ids and chunks ---


def number_partitions(job: IngestJob, first: int, n_batches: list[int]) -> EncodedCounts:
    """Find the ids of the words of consecutive partitions. Write them, and the lengths of documents in kept words.

    ``first`` is the first partition, and ``n_batches`` has the number of batches of each.
    """
    counts = EncodedCounts(tokens=0, unseen=0, longest=0, empty=0)
    for index, ids in enumerate(_ids_of_numbers(job, first, len(n_batches)), first):
        write_table(job.files, _ids_name(index), pa.table({"id": ids}))
        _write_lengths(job, index, ids, n_batches[index - first], counts)
    return counts


def _write_lengths(job: IngestJob, index: int, ids: np.ndarray, n_batches: int, counts: EncodedCounts) -> None:
    """Write the lengths of a partition's documents, and add them to ``counts``."""
    are_all_kept = bool((ids >= 0).all())
    length_tables = [_length_table(pa.chunked_array([], pa.bool_()), np.empty(0, np.int64), 0)]
    for batch in range(n_batches):
        table = read_table(job.files, _batch_name(index, batch))
        doc_ptr, numbers = token_arrays(table)
        n_read = len(numbers)
        if not are_all_kept:
            doc_ptr, numbers = voc.translate_words(doc_ptr, numbers, ids)
        lengths = np.diff(doc_ptr)
        length_tables.append(_length_table(table["held_out"], lengths, batch))
        counts["tokens"] += len(numbers)
        counts["unseen"] += n_read - len(numbers)
        counts["empty"] += int(np.count_nonzero(lengths == 0))
        counts["longest"] = max(counts["longest"], int(lengths.max(initial=0)))
    write_table(job.files, f"lengths/{index:06d}.arrow", pa.concat_tables(length_tables))


def _batch_name(partition: int, batch: int) -> str:
    return f"batches/{partition:06d}/{batch:06d}.arrow"


def _ids_name(partition: int) -> str:
    return f"word-ids/{partition:06d}.arrow"


def _ids_of_numbers(job: IngestJob, first: int, n_partitions: int) -> Iterator[np.ndarray]:
    """Yield the id of each word number of each partition: (W,) int64, -1 for words that are not kept."""
    tables = [read_table(job.files, f"counts/{index:06d}.arrow") for index in range(first, first + n_partitions)]
    # One call for all partitions, because each call makes a hash table of the whole vocabulary.
    words = pa.chunked_array([chunk for table in tables for chunk in table["word"].chunks], pa.large_string())
    found = voc.find_word_ids(words, read_table(job.files, "vocabulary.arrow"))
    start = 0
    for table in tables:
        ids = np.empty(table.num_rows, np.int64)
        # The table is sorted by bucket, not by number.
        ids[table["number"].to_numpy()] = found[start : start + table.num_rows]
        start += table.num_rows
        yield ids


def _length_table(held_out: pa.ChunkedArray, lengths: np.ndarray, batch: int) -> pa.Table:
    return pa.table({"held_out": held_out, "length": lengths, "batch": np.full(len(lengths), batch, np.int32)})


def _token_lists(doc_ptr: np.ndarray, tokens: np.ndarray) -> pa.Array:
    """Return the tokens as one list per document."""
    return pa.LargeListArray.from_arrays(doc_ptr, pa.array(tokens))


def token_arrays(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return doc_ptr (D + 1,) int64 and tokens (T,) uint32 of the column ``tokens``, the inverse of `_token_lists`."""
    lists = [chunk for chunk in table["tokens"].chunks if len(chunk)]
    if not lists:
        return np.zeros(1, np.int64), np.empty(0, np.uint32)
    # A chunk may be a slice of a longer array. Its offsets and its flattened tokens are those of the slice.
    lengths = np.concatenate([np.diff(chunk.offsets.to_numpy()) for chunk in lists])
    tokens = np.concatenate([chunk.flatten().to_numpy() for chunk in lists])
    return np.append(0, np.cumsum(lengths)), tokens


def gather_chunk(
    job: IngestJob, part: str, chunk: int, ranges: list[DocumentRange], kinds: Sequence[str]
) -> WrittenChunk:
    """Collect the documents of a chunk, sort their tokens by word as well, and write the chunk.

    ``kinds`` has the kind of each kept column, see ``io.readers.kinds``.
    """
    keys = []
    lengths = [np.zeros(1, np.int64)]
    words = []
    # Ranges are in the order of the source, so those of one batch are neighbours, and its file is read once.
    for (partition, batch), group in itertools.groupby(ranges, key=lambda r: (r.partition, r.batch)):
        table = read_table(job.files, _batch_name(partition, batch))
        ids = read_table(job.files, _ids_name(partition))["id"].to_numpy()
        for rows in _rows_of_ranges(table, part, group):
            doc_ptr, kept = voc.translate_words(*token_arrays(rows), ids)
            columns = {"key": rows["key"], "file": rows["file"]}
            for name, kind in zip(job.options.keep, kinds, strict=True):
                columns[name] = as_kind(rows[_kept_name(name)], kind)
            keys.append(pa.table(columns))
            lengths.append(np.diff(doc_ptr))
            words.append(kept)
    write_table(job.files, f"keys/{part}-{chunk:06d}.arrow", pa.concat_tables(keys))
    made = make_chunk(chunk, np.cumsum(np.concatenate(lengths)), np.concatenate(words))
    digest = hashlib.sha256(made.doc_ptr.tobytes())
    digest.update(made.words.data)
    info = write_chunk(job.content, part, made)
    return WrittenChunk(info=asdict(info), digest=digest.hexdigest())


def _kept_name(name: str) -> str:
    """Return the name of a kept column in a file of a batch, which has columns of its own."""
    return f"kept:{name}"


def _rows_of_ranges(table: pa.Table, part: str, ranges: Iterable[DocumentRange]) -> list[pa.Table]:
    """Return the documents of each range, as a table per range."""
    is_in_part = table["held_out"].to_numpy() == (part == "held_out")
    if is_in_part.all():
        # A slice copies nothing.
        return [table.slice(r.first, r.stop - r.first) for r in ranges]
    rows = np.flatnonzero(is_in_part)
    return [table.take(pa.array(rows[r.first : r.stop])) for r in ranges]


# --- the words of a partition ---


class PartitionWords:
    """The words of the documents that were added. Words are numbered in the order in which they first occurred."""

    def __init__(self, options: TokenOptions):
        self._options = options
        self._run = character_run(options.token_pattern)
        self._words = WordTable()

    def add(self, batch: Batch, is_counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split D documents; return their tokens, (D + 1,) int64, and the numbers of the words, (T,) uint32.

        Words are counted in the documents where ``is_counted`` (D,) is True. Raises ValueError for a bad pattern.
        """
        content = batch.content
        if isinstance(content, Bag) or not pa.types.is_large_string(content.type) or self._run is None:
            tokens = tokenise(batch, self._options)
            numbers = self._words.number(*_bytes_of(tokens.words))[tokens.ids]
            self._words.count(tokens.doc_ptr, numbers, is_counted)
            return tokens.doc_ptr, numbers
        return self._split(content, self._run, is_counted)

    def _split(self, texts: pa.Array, run: CharacterRun, is_counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        characters = character_table(run.character_class, self._options.lowercase)
        if self._options.lowercase:
            texts = _without_special_capitals(texts)
        data, doc_ptr = _bytes_of(texts)
        return self._words.split(data, doc_ptr, is_counted, characters, run.min_length)

    def table(self) -> pa.Table:
        """Return the count table of all words, in the order of their numbers."""
        word_ptr, data = self._words.words()
        words = pa.LargeStringArray.from_buffers(len(word_ptr) - 1, pa.py_buffer(word_ptr), pa.py_buffer(data))
        return count_table(words, *self._words.frequencies())


def _without_special_capitals(texts: pa.Array) -> pa.Array:
    """Return the texts, with those in lower case that have a character which the kernel cannot lower."""
    data = _bytes_of(texts)[0]
    present = [character for character in special_capitals() if _has(data, character)]
    if not present:
        return texts
    is_special = pc.match_substring_regex(texts, f"[{''.join(present)}]")
    lowered = [text.lower() for text in texts.filter(is_special).to_pylist()]
    return pc.replace_with_mask(texts, is_special, pa.array(lowered, pa.large_string()))


def _has(data: np.ndarray, character: str) -> bool:
    """Return whether a character outside ASCII occurs in the bytes (n,) uint8 of a text."""
    code = character.encode()
    n_positions = max(0, len(data) - len(code) + 1)
    # Array operations are several times as fast as bytes.find, which stops at each letter with the same first byte.
    is_found = data[:n_positions] == code[0]
    for i, byte in enumerate(code):
        is_found &= data[i : i + n_positions] == byte
    return bool(is_found.any())


def _bytes_of(strings: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of D strings, (n,) uint8, and where each begins, (D + 1,) int64. The type is large_string."""
    if not len(strings):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offset_buffer, data_buffer = strings.buffers()
    # An array may be a slice of its buffers.
    offsets = np.frombuffer(offset_buffer, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    if data_buffer is None:
        return np.empty(0, np.uint8), offsets - offsets[0]
    return np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]
