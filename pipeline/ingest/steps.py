"""The steps of an ingest. They run in the client's process, and submit the work on documents as tasks."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...io import words as voc
from ...io.errors import DataError
from ...io.messages import listed, pluralize
from ...io.readers.batches import Odd, merge_odd
from ...io.readers.kinds import Fits, describe_odd_values, kind_of, merge_fits, type_of
from ...io.readers.reader import Reader
from ...io.readers.source import Partition
from ...io.stores.corpus import ChunkInfo, Corpus, commit_corpus, vocabulary_hash
from ...io.stores.filesystems import naming_full_disk
from ..engine.events import IngestListener, IngestProgress
from ..engine.executors import Executor, Synchronous
from . import tasks
from .destination import Identity, clean, has_corpus, prepare
from .job import (
    BAD_LINES,
    PARTS,
    DocumentRange,
    EncodedCounts,
    IngestJob,
    PartitionCounts,
    WrittenChunk,
    read_table,
    write_table,
)

#: Words of partitions that one task looks up in the vocabulary, about. They take some 100 bytes each.
GROUP_WORDS = 1 << 20

#: Documents whose keys are compared at once.
KEYS_AT_ONCE = 1 << 22
#: Documents of a row group of documents-<part>.parquet. A reader of one document reads its whole row group.
DOCUMENTS_PER_GROUP = 1 << 16

Result = TypeVar("Result")
#: Maximum size of a chunk by default. Larger chunks are hardly faster, and each needs more of a worker's memory.
MAX_CHUNK_TOKENS = 1 << 22
#: Chunks are not made smaller than this to get MIN_CHUNKS of them: very short tasks are inefficient.
MIN_CHUNK_TOKENS = 1 << 19
#: Minimum number of chunks by default, so that several workers have equal shares.
MIN_CHUNKS = 16


class Ingest:
    """One call of `ingest`: the steps from the files of a source to a complete corpus."""

    def __init__(
        self,
        reader: Reader,
        job: IngestJob,
        identity: Identity,
        executor: Executor,
        progress: IngestListener | None = None,
        vocabulary: pa.Table | None = None,
        may_be_empty: bool = False,
        check_lock: Callable[[], None] = lambda: None,
    ):
        self.reader = reader
        self.job = job
        self.identity = identity
        self.executor = executor
        self.progress = progress
        self.given = vocabulary
        self.may_be_empty = may_be_empty or vocabulary is not None
        self.check_lock = check_lock
        #: Bytes of the source per partition.
        self._sizes: list[int] = []

    def run(self) -> Corpus:
        """Take the steps that are not done yet, and return the corpus."""
        if has_corpus(self.job, self.reader, self.identity):
            self._report("unchanged", 1, 1)
        else:
            self.check_lock()
            prepare(self.job, self.reader)
            self._make_corpus()
            self._report("finished", 1, 1)
        self.check_lock()
        clean(self.job)
        return Corpus(self.job.corpus)

    def _report(self, stage: str, done: int, total: int, partitions_read: Iterable[int] | None = None) -> None:
        """Report progress. All partitions have been read, unless ``partitions_read`` has those that have."""
        if self.progress is None:
            return
        size = sum(self._sizes)
        read = size
        if partitions_read is not None:
            read = sum(self._sizes[index] for index in partitions_read)
        self.progress(IngestProgress(stage, done, total, read, size))

    def _make_corpus(self) -> None:
        counted = self._count_partitions()
        kept = self._merge_kept(counted)
        vocabulary = self._merge_words(counted)
        encoded = self._run_stage("ids", tasks.number_partitions, _groups_of_partitions(counted))
        chunk_tokens = self._chunk_tokens(encoded)
        kinds = [kind_of(fits) for fits in kept.values()]
        written = self._write_chunks(len(counted), chunk_tokens, kinds)
        about = _about(self.job, counted, encoded, chunk_tokens)
        notices = [describe_odd_values(name, fits) for name, fits in kept.items()]
        if self.given is None:
            notices.append(voc.describe_other_cases(self.job.options.stop_words, vocabulary))
        notices += [
            voc.describe_blank_words(vocabulary),
            _describe_empty(encoded, counted),
            *_describe_odd(counted),
            self._describe_keys(written),
        ]
        if any(notices):
            about["warnings"] = [notice for notice in notices if notice]
        self._finish(vocabulary, written, kinds, about)

    def _merge_kept(self, counted: list[PartitionCounts]) -> dict[str, Fits]:
        """Return how the values of each kept column fit the kinds; raise DataError for a column that is nowhere."""
        names = self.job.options.keep
        kept = {name: merge_fits(part["kept"][column] for part in counted) for column, name in enumerate(names)}
        absent = [name for name, fits in kept.items() if not fits["is_present"]]
        # New files that are added to a vocabulary may well be few, and none may have an optional field.
        if absent and self.given is None:
            raise DataError(
                f"keep: no document has the field {absent[0]!r}; the fields are {listed(self.reader.field_names())}"
            )
        return kept

    def _count_partitions(self) -> list[PartitionCounts]:
        reader = self.reader.for_tasks()
        partitions = list(self.reader.partitions())
        arguments = [(index, reader, part) for index, part in enumerate(partitions)]
        self._sizes = _sizes_of(partitions)
        # Data in memory is not sent to workers.
        executor = self.executor if self.reader.is_repeatable else Synchronous()
        counted = self._run_stage("tokens", tasks.count_partition, arguments, executor)
        check_bad_lines(counted, self.job.options.max_bad_lines)
        return counted

    def _merge_words(self, counted: list[PartitionCounts]) -> pa.Table:
        """Return the vocabulary and write it for the tasks; raise DataError if no word is left."""
        if self.given is not None:
            write_table(self.job.files, "given.arrow", self.given.select(["word"]))
        n_documents = sum(counts["counted"] for counts in counted)
        arguments = [(bucket, len(counted), n_documents) for bucket in range(self.job.n_buckets)]
        self._run_stage("words", tasks.merge_bucket, arguments)
        merged = pa.concat_tables(
            read_table(self.job.files, f"merged/{bucket:04d}.arrow") for bucket in range(self.job.n_buckets)
        )
        vocabulary = self._vocabulary(merged)
        if not vocabulary.num_rows and not self.may_be_empty:
            raise DataError(_describe_nothing_left(self.reader, counted))
        write_table(self.job.files, "vocabulary.arrow", vocabulary)
        return vocabulary

    def _vocabulary(self, merged: pa.Table) -> pa.Table:
        if self.given is None:
            return voc.rank(merged, self.job.options.max_features)
        if self.job.grows:
            return voc.extend(self.given, merged, self.job.options.max_features)
        return voc.count_given(self.given, merged)

    def _chunk_tokens(self, encoded: list[EncodedCounts]) -> int:
        """Return the most tokens that a chunk may have."""
        tokens = sum(counts["tokens"] for counts in encoded)
        return self.job.options.chunk_tokens or default_chunk_tokens(tokens, _longest(encoded))

    def _write_chunks(
        self, n_partitions: int, chunk_tokens: int, kinds: Sequence[str]
    ) -> dict[str, list[WrittenChunk]]:
        """Write the chunks of all parts in one stage, so that workers need not wait between the parts."""
        ranges = cut_chunks(self.job, n_partitions, chunk_tokens)
        arguments = [(part, chunk, ranges[part][chunk], kinds) for part in PARTS for chunk in range(len(ranges[part]))]
        results = self._run_stage("chunks", tasks.gather_chunk, arguments)
        written: dict[str, list[WrittenChunk]] = {part: [] for part in PARTS}
        for (part, *_), result in zip(arguments, results, strict=True):
            written[part].append(result)
        return written

    def _run_stage(
        self,
        stage: str,
        function: Callable[..., Result],
        arguments: Sequence[tuple[object, ...]],
        executor: Executor | None = None,
    ) -> list[Result]:
        """Call a task with each tuple of arguments, unless its result is on file already; return all results."""
        names_on_file = set(self.job.files.names(stage))
        results: dict[int, Result] = {}
        for index in range(len(arguments)):
            name = f"{index:06d}.json"
            if name in names_on_file:
                results[index] = self.job.files.read_json(f"{stage}/{name}")
        missing = [index for index in range(len(arguments)) if index not in results]
        self._report_stage(stage, results, len(arguments))
        calls = [(function, self.job, stage, index, *arguments[index]) for index in missing]
        for position, result in (executor or self.executor).run(tasks.run_and_record, calls, name=f"ingest-{stage}"):
            results[missing[position]] = result
            self._report_stage(stage, results, len(arguments))
        return [results[index] for index in range(len(arguments))]

    def _describe_keys(self, written: dict[str, list[WrittenChunk]]) -> str:
        """Say how many documents have the key of another one, or an empty key; an empty string if none has."""
        if not self.job.options.key and not self.job.options.keys_file:
            return ""  # names of rows
        names = [f"keys/{part}-{chunk:06d}.arrow" for part in PARTS for chunk in range(len(written[part]))]
        n_documents = sum(chunk["info"]["documents"] for part in PARTS for chunk in written[part])
        n_buckets = n_documents // KEYS_AT_ONCE + 1
        n_repeated = n_empty = 0
        example = ""
        for bucket in range(n_buckets):
            some = []
            for name in names:
                keys = read_table(self.job.files, name)["key"].combine_chunks()
                some.append(keys.filter(pa.array(voc.hash_buckets(keys, n_buckets) == bucket)))
            counts = pa.chunked_array(some, pa.string()).cast(pa.large_string()).value_counts()
            is_repeated = pc.greater(counts.field("counts"), 1)
            repeated = counts.filter(is_repeated)
            n_repeated += pc.sum(repeated.field("counts")).as_py() or 0
            n_empty += pc.sum(counts.filter(pc.equal(counts.field("values"), "")).field("counts")).as_py() or 0
            if len(repeated) and not example:
                example = repeated.field("values")[0].as_py()
        notes = []
        if n_repeated:
            notes.append(
                f"{n_repeated:,} of {n_documents:,} documents have the key of another one, such as {example!r:.40}"
            )
        if n_empty:
            notes.append(f"{pluralize(n_empty, 'document')} of {n_documents:,} have an empty key")
        return "; ".join(notes)

    def _report_stage(self, stage: str, results: Mapping[int, object], total: int) -> None:
        # In the first stage, task i reads partition i.
        self._report(stage, len(results), total, results if stage == "tokens" else None)

    def _finish(
        self,
        vocabulary: pa.Table,
        written: dict[str, list[WrittenChunk]],
        kinds: Sequence[str],
        about: dict[str, Any],
    ) -> None:
        """Write the tables of documents, the vocabulary, and at last corpus.json."""
        # A process that was paused must not replace the tables of the corpus that another one has written meanwhile.
        self.check_lock()
        digest = hashlib.sha256(vocabulary_hash(vocabulary["word"].to_pylist()).encode())
        for part in PARTS:
            _write_documents(self.job, part, len(written[part]), kinds)
            for chunk in written[part]:
                digest.update(f"{part} {chunk['digest']}\n".encode())
        infos = {part: [ChunkInfo(**chunk["info"]) for chunk in written[part]] for part in PARTS}
        corpus_hash = digest.hexdigest()[:32]
        about["identity"] = self.identity
        columns = self.reader.column_names()
        if columns is not None:
            self.job.content.write_parquet("columns.parquet", pa.table({"word": pa.array(columns, pa.large_string())}))
        if self.job.options.on_bad_line == "quarantine" and about.get("bad_lines"):
            contents = [self.job.files.read_bytes(f"bad/{name}") for name in self.job.files.names("bad")]
            self.job.store.write_bytes(BAD_LINES, b"".join(contents))
        commit_corpus(
            self.job.store,
            vocabulary,
            infos,
            self.reader.is_ordered,
            corpus_hash,
            about,
            self.check_lock,
            self.job.folder,
        )


def _sizes_of(partitions: Sequence[Partition]) -> list[int]:
    """Return about how many bytes of files each partition reads: the partitions of one file have equal shares."""
    n_partitions = Counter(part.file.url for part in partitions)
    sizes = []
    for part in partitions:
        others = sum(file.size for file in part.more_files)
        sizes.append(part.file.size // n_partitions[part.file.url] + others)
    return sizes


def _groups_of_partitions(counted: Sequence[PartitionCounts]) -> list[tuple[int, list[int]]]:
    """Return the first partition of each group of partitions, and the number of batches of each partition in it."""
    groups: list[tuple[int, list[int]]] = []
    n_words = 0
    for index, counts in enumerate(counted):
        n_words += counts["words"]
        if not groups or n_words > GROUP_WORDS:
            groups.append((index, []))
            n_words = counts["words"]
        groups[-1][1].append(counts["batches"])
    return groups


def _write_documents(job: IngestJob, part: str, n_chunks: int, kinds: Sequence[str]) -> None:
    """Write documents-<part>.parquet, chunk by chunk. ``kinds`` has the kind of each kept column."""
    names = list(job.options.keep)
    kept = [(name, type_of(kind)) for name, kind in zip(names, kinds, strict=True)]
    own = [("key", pa.string()), ("file", pa.string()), ("chunk", pa.int32()), ("row", pa.int32())]
    schema = pa.schema([*own, *kept])
    store = job.content
    with (
        naming_full_disk(Path(store.path)),
        store.open_for_writing(f"documents-{part}.parquet") as file,
        pq.ParquetWriter(file, schema) as writer,
    ):
        for chunk in range(n_chunks):
            keys = read_table(job.files, f"keys/{part}-{chunk:06d}.arrow")
            chunk_column = np.full(keys.num_rows, chunk, np.int32)
            row_column = np.arange(keys.num_rows, dtype=np.int32)
            columns = [keys["key"], keys["file"], chunk_column, row_column, *(keys[name] for name in names)]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=DOCUMENTS_PER_GROUP)


def check_bad_lines(counted: Sequence[PartitionCounts], limit: int | float) -> None:
    """Raise DataError if more lines are bad than the option ``max_bad_lines`` allows."""
    n_bad = sum(counts["bad_lines"] for counts in counted)
    n_lines = n_bad + sum(counts["documents"] for counts in counted)
    allowed = limit if isinstance(limit, int) else limit * n_lines
    if n_bad <= allowed:
        return
    example = next(counts["bad_example"] for counts in counted if counts["bad_example"])
    shown = f"{limit:,}" if isinstance(limit, int) else f"{limit:.1%}"
    raise DataError(
        f"{n_bad:,} of {n_lines:,} lines are bad, and max_bad_lines allows {shown}; the first is {example}; correct "
        f"the files, or raise max_bad_lines"
    )


def _about(
    job: IngestJob, counted: list[PartitionCounts], encoded: list[EncodedCounts], chunk_tokens: int
) -> dict[str, Any]:
    """Return what `corpusmill inspect` shows in addition to the sizes of the corpus."""
    longest = _longest(encoded)
    note = ""
    if longest > chunk_tokens:
        note = (
            f"the longest document has {longest:,} tokens, more than a chunk's {chunk_tokens:,}: its chunk grew to "
            f"hold it"
        )
    about = {
        "version": version("corpusmill"),
        "documents": sum(counts["documents"] for counts in counted),
        "tokens_read": sum(counts["tokens"] for counts in counted),
        "tokens_kept": sum(counts["tokens"] for counts in encoded),
        "tokens_skipped": sum(counts["unseen"] for counts in encoded),
        "chunk_tokens": chunk_tokens,
        "chunk_tokens_by": "option" if job.options.chunk_tokens else "default",
        "note": note,
    }
    n_bad = sum(counts["bad_lines"] for counts in counted)
    if n_bad:
        about["bad_lines"] = n_bad
    return about


def _describe_empty(encoded: list[EncodedCounts], counted: list[PartitionCounts]) -> str:
    """Say how many documents have no word; an empty string if all have one."""
    n_empty = sum(counts["empty"] for counts in encoded)
    if not n_empty:
        return ""
    n_documents = sum(counts["documents"] for counts in counted)
    return f"{n_empty:,} of {pluralize(n_documents, 'document')} have no word of the vocabulary, and stay as empty ones"


def _describe_odd(counted: list[PartitionCounts]) -> list[str]:
    """Say what is odd about rows that were read, and about how many."""
    # JSON has lists for tuples, and an ingest that an earlier version began has no such entry.
    odd = merge_odd(Odd(*one) for counts in counted for one in counts.get("odd", []))
    return [f"{first}: {reason} ({pluralize(number, 'such row')})" for reason, number, first in odd]


def _longest(encoded: list[EncodedCounts]) -> int:
    """Return the number of tokens of the longest document."""
    return max((counts["longest"] for counts in encoded), default=0)


def _describe_nothing_left(reader: Reader, counted: list[PartitionCounts]) -> str:
    """Say why the vocabulary is empty."""
    where = reader.files[0].url if reader.files else "documents in memory"
    n_documents = sum(counts["documents"] for counts in counted)
    n_tokens = sum(counts["tokens"] for counts in counted)
    if not n_documents:
        return f"{where}: there is no document in it"
    if not n_tokens:
        fields = reader.field_names()
        present = f" (the fields are {listed(fields)})" if fields else ""
        return (
            f"{where}: none of {pluralize(n_documents, 'document')} has a word; check the options text, tokens and "
            f"token_pattern{present}"
        )
    if not any(counts["counted"] for counts in counted):
        return f"{where}: all documents ({n_documents:,}) are held out, so no word can be counted; lower held_out"
    tokens = pluralize(n_tokens, "token")
    return f"{where}: no word of {tokens} is left; lower min_df, raise max_df or shorten stop_words"


# --- chunks ---


def default_chunk_tokens(tokens: int, longest: int) -> int:
    """Return the maximum number of tokens per chunk for a corpus of ``tokens`` tokens.

    ``longest`` is the number of tokens of the longest document.

    The result gives the fewest chunks of at most MAX_CHUNK_TOKENS (SaberLDA section 4.2.1), but at least MIN_CHUNKS as
    long as each has MIN_CHUNK_TOKENS. It depends on the documents only, because models depend on the chunks: the same
    documents have to give the same model on every machine.
    """
    most = min(MAX_CHUNK_TOKENS, max(MIN_CHUNK_TOKENS, _divide_up(tokens, MIN_CHUNKS)))
    n_chunks = max(1, _divide_up(tokens, most))
    even = _divide_up(tokens, n_chunks)
    # A chunk ends before the document that does not fit. Without a margin for it, the last tokens would need one more
    # chunk, which would be very small.
    return max(1, even + min(longest, even // 8))


def _divide_up(dividend: int, divisor: int) -> int:
    """Divide and round up."""
    return -(-dividend // divisor)


class ChunkCutter:
    """Assigns documents to chunks, in order. A document that does not fit begins a new chunk; none is split."""

    def __init__(self, chunk_tokens: int):
        self.chunk_tokens = chunk_tokens
        self.chunks: list[list[DocumentRange]] = []
        self._used = 0  # tokens of the last chunk

    def add(self, partition: int, batch: int, lengths: np.ndarray) -> None:
        """Assign the documents of a batch, given their lengths (D,) in tokens."""
        tokens_before = np.append(0, np.cumsum(lengths))
        first = 0
        while first < len(lengths):
            if not self.chunks:
                self._begin_chunk()
            free = self.chunk_tokens - self._used
            stop = int(np.searchsorted(tokens_before, tokens_before[first] + free, side="right")) - 1
            if stop <= first and self._used:
                self._begin_chunk()
                continue
            # A document that is longer than a chunk gets a chunk that is larger than the others.
            stop = max(stop, first + 1)
            self.chunks[-1].append(DocumentRange(partition, batch, first, stop))
            self._used += int(tokens_before[stop] - tokens_before[first])
            first = stop

    def _begin_chunk(self) -> None:
        self.chunks.append([])
        self._used = 0


def cut_chunks(job: IngestJob, n_partitions: int, chunk_tokens: int) -> dict[str, list[list[DocumentRange]]]:
    """Return the documents of each chunk of each part. A chunk has up to ``chunk_tokens`` tokens, or one document."""
    cutters = {part: ChunkCutter(chunk_tokens) for part in PARTS}
    for partition in range(n_partitions):
        table = read_table(job.files, f"lengths/{partition:06d}.arrow")
        lengths = table["length"].to_numpy()
        batches = table["batch"].to_numpy()
        is_held_out = table["held_out"].to_numpy()
        for part, is_in_part in (("train", ~is_held_out), ("held_out", is_held_out)):
            for batch in np.unique(batches[is_in_part]):
                cutters[part].add(partition, int(batch), lengths[is_in_part & (batches == batch)])
    return {part: cutter.chunks for part, cutter in cutters.items()}
