"""A source of documents in, a corpus store out, in two passes that hold no more than a batch or a chunk at once.

Pass 1 tokenises each partition once and writes its tokens as numbers of the partition's own words; the words' counts
are merged by hash buckets, pruned and ranked. Pass 2 turns numbers into ids, cuts documents into chunks by the tokens
that were kept, and writes the chunks. Finished tasks are marked in work files, so that an interrupted ingest goes on
where it stopped; corpus.json comes last, so that nothing half-written is taken for a corpus.
"""

import hashlib
import json
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...io.readers.open import from_memory, open_source
from ...io.readers.reader import Reader
from ...io.readers.source import is_folder
from ...io.stores.corpus import ChunkInfo, Corpus, commit_corpus, vocabulary_hash
from ...io.stores.locks import acquire_lock
from ...io.stores.store import DataError, Store, check_free
from ...io.text import vocabulary as voc
from ..engine.executors import Executor, Synchronous, executor_for
from ..engine.plan import PLANNED_SHARE, PROCESS_BYTES
from . import tasks
from .tasks import PARTS, IngestOptions, Job, Run

#: Bytes that training holds for one token: both orders, topics old and new, scratch, and as much for the model.
TOKEN_BYTES = 80
#: Default chunks hold no more tokens than this: beyond it nothing is gained, and there are fewer chunks to share out.
MOST_TOKENS = 1 << 24
#: Default chunks hold no fewer tokens than this for the sake of balance: below it a task is too short to be worth it.
LEAST_TOKENS = 1 << 19
#: Default chunks for the sake of balance between workers.
BALANCED = 16
#: Tokens that fit any worker.
SMALL = 1 << 16
#: Mark of a folder whose content is an ingest's, as long as there is no corpus.json.
BEGUN = "begun.json"
#: What an ingest writes beside corpus.json and its work files.
CONTENT = (*PARTS, *(f"documents-{part}.parquet" for part in PARTS), "vocabulary.parquet")


@dataclass(frozen=True)
class IngestProgress:
    """How far an ingest is. ``stage``: "tokens", "words", "ids", "chunks"; at the end "finished" or "unchanged"."""

    stage: str
    done: int
    total: int


Listener = Callable[[IngestProgress], None]


def ingest(
    source: Any,
    corpus_url: str,
    options: IngestOptions | None = None,
    client: Any | None = None,
    progress: Listener | None = None,
    vocabulary: pa.Table | None = None,
    grow: bool = False,
) -> Corpus:
    """Turn documents into a corpus store, and return it.

    The same call continues an ingest that was interrupted. It does nothing if the corpus was already made from the same
    files with the same options.

    Parameters
    ----------
    source : str, os.PathLike, list or data in memory
        Where the documents are: a file, folder, glob or URL in a format that corpusmill reads, or a list of these. Or
        the documents themselves: lists of words, a sparse matrix of counts (documents, words), or an open reader.
    corpus_url : str
        Folder or URL for the corpus.
    options : IngestOptions, optional
        How to read and tokenise documents, which words to keep, the size of chunks in tokens, and the share of
        documents to set aside for evaluation. The default is ``IngestOptions()``.
    client : distributed.Client, optional
        Where to run. By default the current Dask client, or this process if there is none.
    progress : callable, optional
        Called with an `IngestProgress` after every task.
    vocabulary : pyarrow.Table, optional
        Words in its column ``word``, whose row numbers become the ids. Other words are skipped and counted.
    grow : bool, default=False
        Whether to append words that are not in ``vocabulary``, if the options admit them.

    Returns
    -------
    Corpus
        The finished corpus.

    Raises
    ------
    DataError
        If the source cannot be read, or if the folder holds something else.
    ValueError
        If an option is invalid.
    Locked
        If another process ingests into the same corpus.

    See Also
    --------
    Corpus : Open a corpus store.

    Examples
    --------
    >>> from corpusmill import ingest
    >>> from corpusmill.pipeline.ingest.ingest import IngestOptions
    >>> with open("fish.txt", "w") as file:
    ...     _ = file.write("One fish\\nTwo fish\\nRed fish\\n")
    >>> corpus = ingest("fish.txt", "fish-corpus", IngestOptions(stop_words=("red",)))
    >>> corpus.n_documents, corpus.n_tokens
    (3, 5)
    >>> corpus.vocabulary["word"].to_pylist()
    ['fish', 'one', 'two']
    """
    options = options or IngestOptions()
    reader = source if isinstance(source, Reader) else _reader_of(source, corpus_url, options)
    job = _job(reader, corpus_url, options, vocabulary, grow)
    executor = executor_for(client)
    waiting = "another process is ingesting into this corpus; wait for it"
    with acquire_lock(job.store, "ingest.lock", waiting), executor.guarded():
        return _Ingest(reader, job, executor, progress or (lambda _: None), vocabulary).run()


def corpus_from(data: Any, vocabulary: Any | None = None, **options: Any) -> Corpus:
    """Make a temporary corpus of data in memory; it is deleted together with the returned object.

    ``data``: a sparse or dense matrix of counts (a row is a document; columns are named by the list ``vocabulary``,
    else by their numbers), or an iterable of strings or lists of tokens (``vocabulary``: a table, as for ``ingest``).
    ``options`` are those of IngestOptions. Raises DataError, ValueError.
    """
    chosen = IngestOptions(**options)
    table = vocabulary if isinstance(vocabulary, pa.Table) else None
    reader = from_memory(data, chosen, None if table is not None else vocabulary)
    folder = tempfile.mkdtemp(prefix="corpusmill-corpus-")
    try:
        job = _job(reader, folder, chosen, table)
        corpus = _Ingest(reader, job, Synchronous(), lambda _: None, table, may_be_empty=True).run()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(corpus, shutil.rmtree, folder, ignore_errors=True)
    return corpus


def default_chunk_tokens(tokens: int, longest: int, memory: int) -> int:
    """Return the most tokens of a chunk when no option says so; ``memory``: bytes for one worker thread (0: no limit).

    The fewest chunks that fit the memory (SaberLDA section 4.2.1), but BALANCED of them if each has LEAST_TOKENS, and
    none above MOST_TOKENS, so that several workers can share them evenly. The number of workers does not count, so the
    same source gives the same chunks on any cluster with this memory.
    """
    fits = max(SMALL, memory // TOKEN_BYTES) if memory else MOST_TOKENS
    most = min(fits, MOST_TOKENS, max(LEAST_TOKENS, -(-tokens // BALANCED)))
    even = -(-tokens // max(1, -(-tokens // most)))
    # Documents do not fill a chunk exactly: some room for the last one, or a small chunk would be left over.
    return max(1, even + min(longest, even // 8))


def _reader_of(source: Any, corpus_url: str, options: IngestOptions) -> Reader:
    if not _are_paths(source):
        return from_memory(source, options)
    if is_folder(source) and f"{Store(corpus_url).absolute}/".startswith(f"{Store(source).absolute.rstrip('/')}/"):
        raise DataError(
            f"{corpus_url}: lies in the folder of documents {source}, where the next ingest would read it; choose a "
            f"folder outside, or name the documents with a pattern such as '{source}/*.txt'"
        )
    return open_source(source, options)


def _are_paths(source: Any) -> bool:
    return (
        isinstance(source, str)
        or hasattr(source, "__fspath__")
        or (isinstance(source, list | tuple) and all(isinstance(s, str) or hasattr(s, "__fspath__") for s in source))
    )


def _job(reader: Reader, url: str, options: IngestOptions, vocabulary: pa.Table | None, grow: bool = False) -> Job:
    if not 0 <= options.held_out < 1:
        raise ValueError(f"held_out={options.held_out} must be at least 0 and below 1")
    if options.chunk_tokens is not None and options.chunk_tokens < 1:
        raise ValueError(f"chunk_tokens={options.chunk_tokens} must be at least 1")
    voc.stop_list(options.stop_words)
    identity = _identity(reader, options, vocabulary, grow) | {"version": version("corpusmill")}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    # A sixteenth of the bytes of a text are distinct words, at most.
    buckets = sum(f.size for f in reader.files) // (16 * tasks.BUCKET_BYTES)
    return Job(
        Store(url).absolute, f".work/{digest[:16]}", options, min(max(1, buckets), 256), vocabulary is not None, grow
    )


def _identity(reader: Reader, options: IngestOptions, vocabulary: pa.Table | None, grow: bool) -> dict[str, Any]:
    """Return all that decides the corpus, as JSON would give it back."""
    words = None if vocabulary is None else vocabulary_hash(vocabulary["word"].to_pylist()) + "+" * grow
    decisive = asdict(replace(options, overwrite=False))
    found = {"source": reader.describe(), "reader": reader.kind, "options": decisive, "vocabulary": words}
    return json.loads(json.dumps(found))


class _Ingest:
    """One call of ``ingest``, in the client."""

    def __init__(
        self,
        reader: Reader,
        job: Job,
        executor: Executor,
        progress: Listener,
        vocabulary: pa.Table | None,
        may_be_empty: bool = False,
    ):
        self.reader, self.job, self.executor, self.progress = reader, job, executor, progress
        self.given, self.may_be_empty = vocabulary, may_be_empty or vocabulary is not None
        self.identity = _identity(reader, job.options, vocabulary, job.grows)
        self.store, self.files = job.store, job.files

    def run(self) -> Corpus:
        """Do what is not done yet."""
        if self._is_there():
            self.progress(IngestProgress("unchanged", 1, 1))
        else:
            self._clear()
            self._make()
            self.progress(IngestProgress("finished", 1, 1))
        self.store.delete(".work")
        return Corpus(self.job.corpus)

    def _is_there(self) -> bool:
        """Whether this very corpus stands already; raise DataError when another one does."""
        if not self.store.exists("corpus.json"):
            return False
        found = Corpus(self.job.corpus).meta["about"].get("identity", {})
        same = found == self.identity and self.reader.is_repeatable
        if not same and not self.job.options.overwrite:
            raise DataError(
                f"{self.job.corpus}: a corpus of {_difference(found, self.identity)} is here; choose another "
                f"folder, or replace it with --overwrite"
            )
        return same

    def _clear(self) -> None:
        """Remove an older corpus, and what ingests left behind that were begun otherwise; never what others put there.

        Raises DataError where files lie in the way that no ingest wrote.
        """
        check_free(self.store, "run", "model", "matrix", "graph")
        begun = self.store.names(".work")
        older = [name for name in CONTENT if self.store.exists(name)]
        if older and not begun and not self.store.exists("corpus.json"):
            raise DataError(
                f"{self.job.corpus}: {', '.join(older)} would be overwritten, and no ingest wrote that; choose another "
                f"folder"
            )
        # Whatever happens from here on, the next ingest knows the folder for one of ours.
        self.store.write_json(f".work/{BEGUN}", {})
        self.store.delete("corpus.json")
        mine = self.job.work.rpartition("/")[2]
        if self.reader.is_repeatable and set(begun) == {BEGUN, mine}:
            return
        for name in (*older, *(f".work/{name}" for name in begun if name != BEGUN)):
            self.store.delete(name)

    def _make(self) -> None:
        parts = [(p, self.reader.for_tasks(), part) for p, part in enumerate(self.reader.partitions())]
        # What stands in memory stays in this process.
        here = None if self.reader.is_repeatable else Synchronous()
        counted = self._run("tokens", tasks.count_partition, parts, here)
        vocabulary = self._vocabulary(counted)
        encoded = self._run("ids", tasks.encode_partition, [(p, c["pieces"]) for p, c in enumerate(counted)])
        size = self._chunk_tokens(encoded)
        cut = cut_chunks(self.job, len(encoded), size)
        flat = [(part, c, runs) for part in PARTS for c, runs in enumerate(cut[part])]
        written = self._run("chunks", tasks.write_one_chunk, flat)
        results = {part: [r for r, (p, _, _) in zip(written, flat, strict=True) if p == part] for part in PARTS}
        self._finish(vocabulary, results, _about(self.job, counted, encoded, size))

    def _run(
        self, stage: str, function: Callable[..., Any], wanted: list[tuple[Any, ...]], executor: Executor | None = None
    ) -> list[Any]:
        """Run the task for each tuple of arguments that has no result on file yet; return all results in order."""
        done = set(self.files.names(stage))
        marks = [f"{i:06d}.json" for i in range(len(wanted))]
        results = {i: self.files.read_json(f"{stage}/{m}") for i, m in enumerate(marks) if m in done}
        missing = [i for i in range(len(wanted)) if i not in results]
        self.progress(IngestProgress(stage, len(results), len(wanted)))
        arguments = [(function, self.job, stage, i, *wanted[i]) for i in missing]
        key = f"ingest-{stage}-{self.job.work}-{time.time_ns()}"
        for position, result in (executor or self.executor).run(tasks.marked, arguments, key=key):
            results[missing[position]] = result
            self.progress(IngestProgress(stage, len(results), len(wanted)))
        return [results[i] for i in range(len(wanted))]

    def _vocabulary(self, counted: list[dict[str, int]]) -> pa.Table:
        if self.given is not None:
            tasks.write_table(self.files, "given.arrow", self.given.select(["word"]))
        documents = sum(c["counted"] for c in counted)
        buckets = [(b, len(counted), documents) for b in range(self.job.buckets)]
        self._run("words", tasks.merge_bucket, buckets)
        merged = pa.concat_tables(tasks.read_table(self.files, f"merged/{b:04d}.arrow") for b, _, _ in buckets)
        if self.given is None:
            vocabulary = voc.rank(merged, self.job.options.max_features)
        elif self.job.grows:
            vocabulary = voc.extend(self.given, merged, self.job.options.max_features)
        else:
            vocabulary = voc.count_given(self.given, merged)
        if not vocabulary.num_rows and not self.may_be_empty:
            raise DataError(_nothing_left(self.reader, counted))
        tasks.write_table(self.files, "vocabulary.arrow", vocabulary)
        return vocabulary

    def _chunk_tokens(self, encoded: list[dict[str, int]]) -> int:
        """Decide once, so that an ingest that goes on with other workers cuts the same chunks."""
        if not self.files.exists("chunk_tokens.json"):
            tokens, longest = sum(e["tokens"] for e in encoded), max((e["longest"] for e in encoded), default=0)
            default = default_chunk_tokens(tokens, longest, self._memory())
            self.files.write_json("chunk_tokens.json", self.job.options.chunk_tokens or default)
        return self.files.read_json("chunk_tokens.json")

    def _memory(self) -> int:
        """Bytes that a thread of the smallest worker may hold; 0 where there is no limit."""
        limited = (c for c in self.executor.capacities() if c.memory)
        return min((max(1, int(c.memory * PLANNED_SHARE) - PROCESS_BYTES) // c.threads for c in limited), default=0)

    def _finish(self, vocabulary: pa.Table, results: dict[str, list[dict[str, Any]]], about: dict[str, Any]) -> None:
        digest = hashlib.sha256(vocabulary_hash(vocabulary["word"].to_pylist()).encode())
        for part in PARTS:
            _write_documents(self.job, part, len(results[part]))
            for result in results[part]:
                digest.update(f"{part} {result['digest']}\n".encode())
        infos = {part: [ChunkInfo(**r["info"]) for r in results[part]] for part in PARTS}
        about |= {"identity": self.identity}
        commit_corpus(self.store, vocabulary, infos, self.reader.is_ordered, digest.hexdigest()[:32], about)


def _about(job: Job, counted: list[dict[str, int]], encoded: list[dict[str, int]], size: int) -> dict[str, Any]:
    """Return what ``inspect`` shows besides."""
    longest = max((e["longest"] for e in encoded), default=0)
    grown = f"the longest document has {longest:,} tokens, more than a chunk's {size:,}: its chunk grew to hold it"
    return {
        "version": version("corpusmill"),
        "documents": sum(c["documents"] for c in counted),
        "tokens_read": sum(c["tokens"] for c in counted),
        "tokens_kept": sum(e["tokens"] for e in encoded),
        "tokens_skipped": sum(e["unseen"] for e in encoded),
        "chunk_tokens": size,
        "chunk_tokens_by": "option" if job.options.chunk_tokens else "default",
        "note": grown if longest > size else "",
    }


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    if old.get("source") != new["source"]:
        return "another source, or of files that changed since,"
    changed = [k for k, v in new["options"].items() if old.get("options", {}).get(k) != v]
    if changed:
        return f"this source with other options ({', '.join(changed)})"
    return "data in memory" if old == new else "this source with another vocabulary"


def _nothing_left(reader: Reader, counted: list[dict[str, int]]) -> str:
    where = reader.files[0].url if reader.files else "documents in memory"
    documents, tokens = (sum(c[k] for c in counted) for k in ("documents", "tokens"))
    if not documents:
        return f"{where}: there is no document in it"
    if not tokens:
        return f"{where}: none of {documents:,} documents has a word; check the options text, tokens and token_pattern"
    return f"{where}: no word of {tokens:,} tokens is left; lower min_df, raise max_df or shorten stop_words"


class Cutter:
    """Fills chunks with documents: one begins a new chunk when it does not fit any more, and is never split."""

    def __init__(self, size: int):
        self.size, self.used = size, 0
        self.chunks: list[list[Run]] = []

    def add(self, partition: int, piece: int, lengths: np.ndarray) -> None:
        """Place consecutive documents of these lengths."""
        sums, first = np.r_[0, np.cumsum(lengths)], 0
        while first < len(lengths):
            last = int(np.searchsorted(sums, sums[first] + self.size - self.used, side="right")) - 1
            if not self.chunks or (last <= first and self.used):
                self.chunks.append([])
                self.used = 0
                continue
            last = max(last, first + 1)
            self.chunks[-1].append(Run(partition, piece, first, last))
            self.used += int(sums[last] - sums[first])
            first = last


def cut_chunks(job: Job, partitions: int, size: int) -> dict[str, list[list[Run]]]:
    """Cut each part into chunks of at most ``size`` tokens, one longer document apart."""
    cutters = {part: Cutter(size) for part in PARTS}
    for partition in range(partitions):
        lengths = tasks.read_table(job.files, f"lengths/{partition:06d}.arrow")
        held_out, length, piece = (lengths[k].to_numpy() for k in ("held_out", "length", "piece"))
        for part, mine in zip(PARTS, (~held_out, held_out), strict=True):
            for number in np.unique(piece[mine]):
                cutters[part].add(partition, int(number), length[mine & (piece == number)])
    return {part: cutter.chunks for part, cutter in cutters.items()}


def _write_documents(job: Job, part: str, chunks: int) -> None:
    """Write documents-<part>.parquet, chunk by chunk."""
    schema = pa.schema([("key", pa.string()), ("file", pa.string()), ("chunk", pa.int32()), ("row", pa.int32())])
    store = job.store
    store.fs.makedirs(store.path, exist_ok=True)
    with (
        store.fs.open(store.where(f"documents-{part}.parquet"), "wb") as file,
        pq.ParquetWriter(file, schema) as writer,
    ):
        for chunk in range(chunks):
            names = tasks.read_table(job.files, f"keys/{part}-{chunk:06d}.arrow")
            n = names.num_rows
            columns = [names["key"], names["file"], np.full(n, chunk, np.int32), np.arange(n, dtype=np.int32)]
            writer.write_table(pa.table(columns, schema=schema))
