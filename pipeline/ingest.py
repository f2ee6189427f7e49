"""A source of documents in, a corpus store out, in two passes that never hold more than a partition or a chunk.

Pass 1 tokenises each partition once and writes its tokens as numbers of the partition's own words; the words' counts
are merged by hash buckets, pruned and ranked. Pass 2 turns numbers into ids, cuts documents into chunks by the tokens that
were kept, and writes the chunks. What is finished is marked in work files below ``<corpus>/.work``, so that an
interrupted ingest goes on where it stopped.
"""

import hashlib
import itertools
import json
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..io import vocabulary as voc
from ..io.corpus import ChunkInfo, Corpus, make_chunk, vocabulary_hash, write_chunk, write_corpus_table
from ..io.formats import open_source
from ..io.readers import Reader
from ..io.source import Batch, Partition, ReadOptions
from ..io.store import DataError, Store
from ..io.tokens import TokenOptions, tokenise
from .executors import Executor, Synchronous, executor_for

#: Parts of a corpus; a document of ``held_out`` is kept for evaluation.
PARTS = ("train", "held_out")
#: Bytes that training holds for one token: both orders, topics old and new, scratch.
TOKEN_BYTES = 40
#: Default chunks hold no more than this: beyond it nothing is gained, and there are fewer chunks to share out.
MOST_TOKENS = 1 << 24
#: Default chunks hold no less than this while there are fewer than BALANCED of them.
LEAST_TOKENS = 1 << 19
#: Chunks that keep a handful of workers evenly busy.
BALANCED = 16
#: Bytes of words that one merging task may hold.
BUCKET_BYTES = 64 << 20


@dataclass(frozen=True)
class IngestOptions(ReadOptions, TokenOptions, voc.VocabularyOptions):
    """All that decides what corpus a source becomes; see the three bases for the rest."""

    held_out: float = 0.0  # share of the documents set apart for evaluation, chosen by a hash of their keys
    chunk_tokens: int | None = None  # tokens a chunk; None: see default_chunk_tokens
    memory_limit: int | None = None  # bytes of one worker thread; None: what the workers have
    overwrite: bool = False  # replace a corpus that was made otherwise


@dataclass(frozen=True)
class IngestProgress:
    """How far an ingest is: ``stage`` is "tokens", "words", "ids", "chunks", or at the end "finished" or "unchanged"."""

    stage: str
    done: int
    total: int | None


Progress = Callable[[IngestProgress], None]


@dataclass(frozen=True)
class Job:
    """What every task of an ingest is told."""

    corpus: str
    work: str  # folder of work files below the corpus
    reader: Reader
    options: IngestOptions
    buckets: int

    @property
    def store(self) -> Store:
        """The corpus store."""
        return Store(self.corpus)

    @property
    def files(self) -> Store:
        """The work files."""
        return Store(f"{self.corpus.rstrip('/')}/{self.work}")


def ingest(
    source: Any,
    corpus_url: str,
    options: IngestOptions | None = None,
    client: Any | None = None,
    progress: Progress | None = None,
    vocabulary: pa.Table | None = None,
) -> Corpus:
    """Make a corpus of a source, or finish one that was begun, and return it.

    ``source``: a path, folder, glob or URL, a list of pathlib paths, a sparse or dense matrix of counts, or an iterable
    of strings or token lists. ``vocabulary``: a table with a column ``word``; ids are its rows, words that it does not
    have are skipped and counted. Nothing is done where the same source was ingested with the same options.
    Raises DataError for what cannot be read or used, ValueError for bad options.
    """
    options = options or IngestOptions()
    _check(options)
    return _Ingest(source, corpus_url, options, executor_for(client), progress or (lambda _: None), vocabulary).run()


def corpus_from(data: Any, vocabulary: Any | None = None, **options: Any) -> Corpus:
    """Make a temporary corpus of data in memory; it is deleted together with the returned object.

    ``data``: a matrix of counts (its columns named by number, or by the list ``vocabulary``), or an iterable of strings or
    of token lists (``vocabulary``: a table, see ``ingest``). ``options`` are those of IngestOptions.
    """
    folder = tempfile.mkdtemp(prefix="corpusmill-corpus-")
    try:
        begun = _Ingest(data, folder, IngestOptions(**options), Synchronous(), lambda _: None, vocabulary, True)
        corpus = begun.run()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(corpus, shutil.rmtree, folder, ignore_errors=True)
    return corpus


def _check(options: IngestOptions) -> None:
    if not 0 <= options.held_out < 1:
        raise ValueError(f"held_out={options.held_out} must be at least 0 and below 1")
    if options.chunk_tokens is not None and options.chunk_tokens < 1:
        raise ValueError(f"chunk_tokens={options.chunk_tokens} must be at least 1")


def default_chunk_tokens(tokens: int, memory: int) -> int:
    """Return tokens a chunk when no option says so.

    The fewest chunks that fit ``memory`` (bytes of one worker thread, 0: no limit; SaberLDA section 4.2.1), but up to
    BALANCED of at least LEAST_TOKENS, and of at most MOST_TOKENS, so that several workers share them evenly.
    """
    fits = max(1, memory // (2 * TOKEN_BYTES)) if memory else MOST_TOKENS
    most = min(fits, MOST_TOKENS, max(LEAST_TOKENS, -(-tokens // BALANCED)))
    # Chunks of equal size: the last one would otherwise hold what is left over.
    return -(-tokens // max(1, -(-tokens // most))) or 1


class _Ingest:
    """One call of ``ingest``, in the client."""

    def __init__(
        self,
        source: Any,
        url: str,
        options: IngestOptions,
        executor: Executor,
        progress: Progress,
        vocabulary: Any | None = None,
        temporary: bool = False,
    ):
        self.options, self.executor, self.progress = options, executor, progress
        self.temporary = temporary
        names = None if vocabulary is None or isinstance(vocabulary, pa.Table) else list(vocabulary)
        self.fixed = vocabulary if isinstance(vocabulary, pa.Table) else None
        reader = open_source(source, options, names)
        self.identity = _identity(reader, options, self.fixed)
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]
        buckets = max(1, sum(f.size for f in reader.files) // (BUCKET_BYTES * 16))
        self.job = Job(url, f".work/{digest}", reader, options, min(buckets, 256))
        self.store, self.files = self.job.store, self.job.files

    def run(self) -> Corpus:
        """Do what is not done yet."""
        if self._is_there():
            self.progress(IngestProgress("unchanged", 1, 1))
            return Corpus(self.job.corpus)
        self._clear()
        counted = self._count()
        vocabulary = self._vocabulary(counted)
        encoded = self._encode(counted, vocabulary)
        tokens = sum(e["tokens"] for e in encoded)
        size = self.options.chunk_tokens or default_chunk_tokens(tokens, self._memory())
        chunks = _cut_chunks(self.job, len(encoded), size)
        infos = self._write_chunks(chunks)
        self._finish(vocabulary, infos, counted, encoded, size)
        self.progress(IngestProgress("finished", 1, 1))
        return Corpus(self.job.corpus)

    def _is_there(self) -> bool:
        """Whether this very corpus stands already; raise DataError when another one does."""
        if not self.store.exists("corpus.json"):
            return False
        about = Corpus(self.job.corpus).meta["about"]
        same = about.get("identity") == self.identity and self.job.reader.repeatable
        if not same and not self.options.overwrite:
            raise DataError(
                f"{self.job.corpus}: a corpus of {_difference(about.get('identity', {}), self.identity)} is here; choose "
                f"another folder, or replace it with --overwrite"
            )
        return same

    def _clear(self) -> None:
        """Remove an older corpus, and work files of ingests that were begun otherwise."""
        if self.temporary:
            return
        self.store.delete("corpus.json")
        mine = self.job.work.rsplit("/", 1)[-1]
        others = [name for name in self.store.names(".work") if name != mine or not self.job.reader.repeatable]
        if others or mine not in self.store.names(".work"):
            for part in PARTS:
                self.store.delete(part)
        for name in others:
            self.store.delete(f".work/{name}")

    def _run(
        self, stage: str, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], local: bool = False
    ) -> list[Any]:
        """Run one task for each tuple of arguments that has no result on file yet; return all results in order."""
        wanted = list(arguments)
        done = set(self.files.names(stage))
        results = {
            i: self.files.read_json(f"{stage}/{i:06d}.json") for i in range(len(wanted)) if f"{i:06d}.json" in done
        }
        missing = [i for i in range(len(wanted)) if i not in results]
        self.progress(IngestProgress(stage, len(results), len(wanted)))
        executor = Synchronous() if local else self.executor
        tasks = [(function, self.job, stage, i, wanted[i]) for i in missing]
        for position, result in executor.run(_marked, tasks, key=f"{stage}-{self.job.work}-{time.time_ns()}"):
            results[missing[position]] = result
            self.progress(IngestProgress(stage, len(results), len(wanted)))
        return [results[i] for i in range(len(wanted))]

    def _count(self) -> list[dict[str, int]]:
        parts = self.job.reader.partitions()
        return self._run("tokens", count_partition, ((p,) for p in parts), local=not self.job.reader.repeatable)

    def _vocabulary(self, counted: list[dict[str, int]]) -> pa.Table:
        if self.fixed is not None:
            vocabulary = self.fixed
        else:
            documents = sum(c["train"] for c in counted)
            buckets = [(b, len(counted), documents) for b in range(self.job.buckets)]
            self._run("words", merge_bucket, buckets)
            tables = [_read_table(self.files, f"merged/{b:04d}.arrow") for b in range(self.job.buckets)]
            vocabulary = voc.rank(pa.concat_tables(tables), self.options.max_features)
        if not vocabulary.num_rows and not self.temporary:
            raise DataError(_nothing_left(self.job, counted))
        _write_table(self.files, "vocabulary.arrow", vocabulary)
        return vocabulary

    def _encode(self, counted: list[dict[str, int]], vocabulary: pa.Table) -> list[dict[str, int]]:
        return self._run("ids", encode_partition, ((p, c["pieces"]) for p, c in enumerate(counted)))

    def _memory(self) -> int:
        if self.options.memory_limit is not None:
            return self.options.memory_limit
        return min((c.memory // c.threads for c in self.executor.capacities()), default=0)

    def _write_chunks(self, chunks: dict[str, list[list["_Run"]]]) -> dict[str, list[dict[str, Any]]]:
        flat = [(part, c, runs) for part in PARTS for c, runs in enumerate(chunks[part])]
        results = self._run("chunks", write_one_chunk, flat)
        return {part: [r for r, (p, _, _) in zip(results, flat, strict=True) if p == part] for part in PARTS}

    def _finish(
        self,
        vocabulary: pa.Table,
        results: dict[str, list[dict[str, Any]]],
        counted: list[dict[str, int]],
        encoded: list[dict[str, int]],
        chunk_tokens: int,
    ) -> None:
        digest = hashlib.sha256(vocabulary_hash(vocabulary["word"].to_pylist()).encode())
        for part in PARTS:
            _write_documents(self.job, part, len(results[part]))
            for result in results[part]:
                digest.update(f"{part} {result['digest']}\n".encode())
        infos = {part: [ChunkInfo(**r["info"]) for r in results[part]] for part in PARTS}
        longest = max((i.longest for part in PARTS for i in infos[part]), default=0)
        read = {k: sum(c[k] for c in counted) for k in ("documents", "read_tokens")}
        about = {
            "identity": self.identity,
            "documents": read["documents"],
            "tokens_read": read["read_tokens"],
            "tokens_kept": sum(e["tokens"] for e in encoded),
            "tokens_unseen": sum(e["unseen"] for e in encoded),
            "chunk_tokens": chunk_tokens,
            "chunk_tokens_by": "option" if self.options.chunk_tokens else "default",
            "chunks_grown": _grown(longest, chunk_tokens),
            "version": version("corpusmill"),
        }
        write_corpus_table(self.store, vocabulary, infos, self.job.reader.ordered, digest.hexdigest()[:32], about)
        self.store.delete(".work")


def _grown(longest: int, chunk_tokens: int) -> str | None:
    if longest <= chunk_tokens:
        return None
    return (
        f"the longest document has {longest:,} tokens, more than a chunk's {chunk_tokens:,}: its chunk grew to hold it"
    )


def _identity(reader: Reader, options: IngestOptions, vocabulary: pa.Table | None) -> dict[str, Any]:
    """Return all that decides the corpus, as JSON would give it back."""
    decisive = asdict(replace(options, overwrite=False))
    words = None if vocabulary is None else vocabulary_hash(vocabulary["word"].to_pylist())
    found = {"source": reader.describe(), "reader": type(reader).__name__, "options": decisive, "vocabulary": words}
    return json.loads(json.dumps(found))


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    if old.get("source") != new["source"]:
        return "another source"
    options = [k for k, v in new["options"].items() if old.get("options", {}).get(k) != v]
    return (
        f"other options ({', '.join(options)})" if options else "another vocabulary" if old != new else "data in memory"
    )


def _nothing_left(job: Job, counted: list[dict[str, int]]) -> str:
    where = job.reader.files[0].url if job.reader.files else "the documents in memory"
    documents, tokens = (sum(c[k] for c in counted) for k in ("documents", "read_tokens"))
    if not documents:
        return f"{where}: no document in it"
    if not tokens:
        return f"{where}: none of {documents:,} documents has a token; check text, tokens and token_pattern"
    return f"{where}: no word is left of {tokens:,} tokens; lower min_df, raise max_df or shorten stop_words"


# --- tasks: they take names and numbers, read and write work files, return a few numbers ---


def _marked(
    function: Callable[..., dict[str, Any]], job: Job, stage: str, index: int, arguments: tuple[Any, ...]
) -> dict[str, Any]:
    """Run a task and write its result last: the file marks the task as done."""
    result = function(job, index, *arguments)
    job.files.write_json(f"{stage}/{index:06d}.json", result)
    return result


def count_partition(job: Job, index: int, part: Partition) -> dict[str, int]:
    """Tokenise a partition; write its tokens by piece, and its words with their counts."""
    lexicon, pieces = voc.Lexicon(), 0
    sums = {"documents": 0, "train": 0, "read_tokens": 0}
    for batch in job.reader.read(part):
        tokens = tokenise(batch, job.options)
        held_out = is_held_out(batch.keys, job.options.held_out)
        numbers = lexicon.add(tokens.words, *voc.frequencies(tokens, ~held_out))
        piece = _piece(batch, held_out, tokens.doc_ptr, numbers[tokens.ids])
        _write_table(job.files, f"pieces/{index:06d}/{pieces:06d}.arrow", piece)
        pieces += 1
        sums["documents"] += len(held_out)
        sums["train"] += int(np.count_nonzero(~held_out))
        sums["read_tokens"] += len(tokens.ids)
    buckets = voc.bucket_of(lexicon.words, job.buckets)
    order = np.argsort(buckets, kind="stable")
    words = lexicon.table().append_column("number", pa.array(np.arange(len(order), dtype=np.uint32))).take(order)
    cuts = np.searchsorted(buckets[order], np.arange(job.buckets + 1))
    _write_table(job.files, f"counts/{index:06d}.arrow", words, cuts)
    return sums | {"pieces": pieces}


def _piece(batch: Batch, held_out: np.ndarray, doc_ptr: np.ndarray, ids: np.ndarray) -> pa.Table:
    """A row a document: key, held_out, tokens."""
    lists = pa.LargeListArray.from_arrays(np.ascontiguousarray(doc_ptr, np.int64), pa.array(ids.astype(np.uint32)))
    return pa.table({"key": batch.keys, "held_out": held_out, "tokens": lists})


def is_held_out(keys: pa.Array, share: float) -> np.ndarray:
    """Say of each document, by a hash of its key alone, whether it is held out: (D,) bool."""
    if not share:
        return np.zeros(len(keys), bool)
    limit = int(share * (1 << 64))
    hashes = (hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys.to_pylist())
    return np.fromiter((int.from_bytes(h, "big") < limit for h in hashes), bool, len(keys))


def merge_bucket(job: Job, index: int, bucket: int, partitions: int, documents: int) -> dict[str, int]:
    """Add up the counts of one bucket's words over all partitions, and prune."""
    tables = (_read_batch(job.files, f"counts/{p:06d}.arrow", bucket) for p in range(partitions))
    merged = voc.merge_counts((t.drop_columns("number") for t in tables), BUCKET_BYTES)
    kept = voc.prune(merged, job.options, documents)
    _write_table(job.files, f"merged/{bucket:04d}.arrow", kept)
    return {"words": merged.num_rows, "kept": kept.num_rows}


def encode_partition(job: Job, index: int, partition: int, pieces: int) -> dict[str, int]:
    """Write a partition's tokens as word ids, those of pruned words left out, and its documents' lengths."""
    files = job.files
    words = _read_table(files, f"counts/{partition:06d}.arrow").sort_by("number")
    ids = voc.numbers_of(pa.concat_arrays(words["word"].chunks), _read_table(files, "vocabulary.arrow"))
    sums = {"tokens": 0, "unseen": 0}
    lengths = [
        pa.table(
            {
                "held_out": pa.array([], pa.bool_()),
                "length": pa.array([], pa.int64()),
                "piece": pa.array([], pa.int32()),
            }
        )
    ]
    for number in range(pieces):
        piece = _read_table(files, f"pieces/{partition:06d}/{number:06d}.arrow")
        doc_ptr, tokens = _documents(piece)
        new_ptr, kept = voc.encode(doc_ptr, tokens, ids)
        encoded = pa.LargeListArray.from_arrays(new_ptr, pa.array(kept))
        _write_table(files, f"encoded/{partition:06d}/{number:06d}.arrow", piece.set_column(2, "tokens", encoded))
        number_column = pa.array(np.full(len(doc_ptr) - 1, number, np.int32))
        lengths.append(pa.table({"held_out": piece["held_out"], "length": np.diff(new_ptr), "piece": number_column}))
        sums["tokens"] += len(kept)
        sums["unseen"] += len(tokens) - len(kept)
    _write_table(files, f"lengths/{partition:06d}.arrow", pa.concat_tables(lengths))
    return sums


def _documents(piece: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return (doc_ptr, tokens) of a piece's or a slice's documents."""
    lists = [c for c in piece["tokens"].chunks if len(c)]
    lengths = [np.diff(c.offsets.to_numpy()) for c in lists]
    doc_ptr = np.r_[0, np.cumsum(np.concatenate(lengths))] if lists else np.zeros(1, np.int64)
    values = [c.flatten().to_numpy() for c in lists]
    return doc_ptr.astype(np.int64), np.concatenate(values) if lists else np.empty(0, np.uint32)


@dataclass(frozen=True)
class _Run:
    """Consecutive documents of one part within one piece: rows ``first:last``, counted over that part alone."""

    partition: int
    piece: int
    first: int
    last: int


def _cut_chunks(job: Job, partitions: int, size: int) -> dict[str, list[list[_Run]]]:
    """Cut each part into chunks of about ``size`` tokens: a document begins a new chunk when it would not fit."""
    chunks: dict[str, list[list[_Run]]] = {part: [] for part in PARTS}
    used = dict.fromkeys(PARTS, 0)
    for partition in range(partitions):
        lengths = _read_table(job.files, f"lengths/{partition:06d}.arrow")
        held_out, pieces = lengths["held_out"].to_numpy(), lengths["piece"].to_numpy()
        for part, mine in zip(PARTS, (~held_out, held_out), strict=True):
            for piece in np.unique(pieces[mine]):
                tokens = lengths["length"].to_numpy()[mine & (pieces == piece)]
                for first, last, is_new in _fill(tokens, size, used, part, bool(chunks[part])):
                    if is_new:
                        chunks[part].append([])
                    chunks[part][-1].append(_Run(partition, int(piece), first, last))
    return chunks


def _fill(
    lengths: np.ndarray, size: int, used: dict[str, int], part: str, begun: bool
) -> Iterator[tuple[int, int, bool]]:
    """Yield (first, last, whether a new chunk begins) of the documents that go into each chunk in turn."""
    sums, first = np.r_[0, np.cumsum(lengths)], 0
    is_new = not begun
    while first < len(lengths):
        if is_new:
            used[part] = 0
        last = int(np.searchsorted(sums, sums[first] + size - used[part], side="right")) - 1
        if last <= first and used[part] == 0:
            last = first + 1
        if last > first:
            yield first, last, is_new
            used[part] += int(sums[last] - sums[first])
            first, is_new = last, False
        if first < len(lengths):
            is_new = True


def write_one_chunk(job: Job, index: int, part: str, chunk: int, runs: list[_Run]) -> dict[str, Any]:
    """Gather a chunk's documents, order them by word and write them; return its info and digest."""
    tables = []
    for (partition, piece), group in itertools.groupby(runs, key=lambda r: (r.partition, r.piece)):
        table = _read_table(job.files, f"encoded/{partition:06d}/{piece:06d}.arrow")
        mine = table["held_out"] if part == "held_out" else pc.invert(table["held_out"])
        rows = np.flatnonzero(mine.to_numpy())
        for run in group:
            whole = run.last - run.first == table.num_rows
            tables.append(table if whole else table.take(pa.array(rows[run.first : run.last])))
    doc_ptr, words = _documents(pa.concat_tables(tables))
    info = write_chunk(job.store, part, make_chunk(chunk, doc_ptr, words))
    keys = pa.concat_tables([t.select(["key"]) for t in tables])
    _write_table(job.files, f"keys/{part}-{chunk:06d}.arrow", keys)
    digest = hashlib.sha256(doc_ptr.tobytes())
    digest.update(np.ascontiguousarray(words))
    return {"info": asdict(info), "digest": digest.hexdigest()}


def _write_documents(job: Job, part: str, chunks: int) -> None:
    """Write documents-<part>.parquet, chunk by chunk."""
    schema = pa.schema([("key", pa.string()), ("chunk", pa.int32()), ("row", pa.int32())])
    name = f"documents-{part}.parquet"
    job.store.fs.makedirs(job.store.path, exist_ok=True)
    with job.store.fs.open(job.store.where(name), "wb") as file, pq.ParquetWriter(file, schema) as writer:
        for chunk in range(chunks):
            keys = _read_table(job.files, f"keys/{part}-{chunk:06d}.arrow")["key"]
            count = len(keys)
            columns = [keys, np.full(count, chunk, np.int32), np.arange(count, dtype=np.int32)]
            writer.write_table(pa.table(columns, schema=schema))


# --- work files: Arrow tables ---


def _write_table(store: Store, name: str, table: pa.Table, cuts: np.ndarray | None = None) -> None:
    """Write a table, as one record batch or cut at the given rows."""
    table = table.combine_chunks()
    bounds = [0, table.num_rows] if cuts is None else cuts.tolist()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        for first, last in itertools.pairwise(bounds):
            rows = table.slice(first, last - first).to_batches()
            writer.write_batch(rows[0] if rows else pa.RecordBatch.from_pylist([], table.schema))
    store.write_bytes(name, sink.getvalue())


def _open_table(store: Store, name: str) -> pa.ipc.RecordBatchFileReader:
    source = pa.memory_map(store.where(name)) if store.is_local else pa.BufferReader(store.read_bytes(name))
    return pa.ipc.open_file(source)


def _read_table(store: Store, name: str) -> pa.Table:
    return _open_table(store, name).read_all()


def _read_batch(store: Store, name: str, index: int) -> pa.Table:
    return pa.Table.from_batches([_open_table(store, name).get_batch(index)])
