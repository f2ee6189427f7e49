"""Random walks over a graph, written as a corpus: a walk is a document, and a node is a word.

A walk depends only on the seed, its round and its first node. This has two uses. Any number of workers writes the same
walks. And no walk has to be kept until the vocabulary is known: a first pass draws all walks and counts the nodes,
which determines the ids of the words, and a second pass draws the same walks again and writes them.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ....io.errors import DataError
from ....io.stores.chunk import make_chunk
from ....io.stores.corpus import LOCK, ChunkInfo, Corpus, commit_corpus, vocabulary_hash, write_chunk
from ....io.stores.graph import Graph
from ....io.stores.locks import acquire_lock
from ....io.stores.store import Arrays, Store, check_free
from ....io.words import count_table, rank
from ....kernels import random
from ....kernels.node2vec import walks as kernels
from ...engine.device import kernels as kernels_on
from ...engine.executors import Executor, executor_for
from ...engine.memory import limit_for, usable_bytes
from ...engine.worker.buffers import CACHE
from ...formatting import format_bytes
from ...ingest.destination import OTHER_STORES
from ...ingest.steps import default_chunk_tokens

if TYPE_CHECKING:
    from distributed import Client

#: Bytes that a task holds per token of its chunk: nodes, ids, both orders of the chunk and the buffers of the sort.
TOKEN_BYTES = 40
#: Number of chunks whose counts one task adds up.
FAN_IN = 8
#: A range of walks: the first one, and the one after the last. Walk i belongs to round i // V.
WalkRange = tuple[int, int]


@dataclass(frozen=True)
class WalkOptions:
    """How a graph is walked. `Node2Vec` documents the options and checks them."""

    p: float = 1.0
    q: float = 1.0
    num_walks: int = 10
    walk_length: int = 80
    method: str = "rejection"
    table_memory: int = 1 << 30
    seed: int = 0
    chunk_tokens: int | None = None  # maximum number of tokens per chunk; None: see `default_chunk_tokens`


class WalkJob(NamedTuple):
    """What every task needs that writes walks of one graph into one corpus."""

    key: str  # unique to the call: begins the names of its tasks, and of the walker in the cache of a worker
    graph: str
    corpus: str
    options: WalkOptions
    device: str


class WrittenWalks(NamedTuple):
    """What a task returns about the chunk that it wrote."""

    info: ChunkInfo
    digest: str


def write_walks(
    graph: Graph,
    url: str,
    options: WalkOptions | None = None,
    client: "Client | None" = None,
    device: str = "cpu",
) -> Corpus:
    """Walk over a graph and write the walks as a corpus, or return the corpus if it already has these walks.

    ``device`` is "cpu", "cuda" or "auto"; the walks are the same on both. The corpus records the title of the graph
    as its source.

    Raises DataError if the graph does not fit into a worker's memory, if its alias tables would exceed
    ``table_memory``, or if another corpus is at ``url``, and Locked if another process writes one there.
    """
    options = options or WalkOptions()
    identity = {"graph": graph.hash, "walks": asdict(options), "version": version("corpusmill")}
    store = Store(url)
    if store.exists("corpus.json"):
        return _existing_walks(url, identity)
    check_free(store, *OTHER_STORES)
    about = {"source": graph.title, "identity": identity, "version": version("corpusmill")}
    job = WalkJob(f"walks-{os.urandom(4).hex()}", Store(graph.url).absolute, store.absolute, options, device)
    executor = executor_for(client)
    message = "another process is writing a corpus here; wait for it"
    with acquire_lock(store, LOCK, message) as check, executor.guarded():
        # Another process may have written walks, and released the lock, since the first look.
        if store.exists("corpus.json"):
            return _existing_walks(url, identity)
        return _write_corpus(graph, store, executor, job, about, check)


def _write_corpus(
    graph: Graph,
    store: Store,
    executor: Executor,
    job: WalkJob,
    about: dict[str, Any],
    check_lock: Callable[[], None],
) -> Corpus:
    """Draw walks in tasks, and write them as a corpus.

    ``about`` is what `commit_corpus` writes to corpus.json; ``check_lock`` raises Locked once the lock is lost.
    """
    options = job.options
    n_walks = graph.n_nodes * options.num_walks
    chunk_tokens = options.chunk_tokens or default_chunk_tokens(n_walks * options.walk_length, options.walk_length)
    _check_memory(graph, executor, chunk_tokens)
    # Walks are drawn twice: once to count visits, which decide the ids, and once to write the chunks. Drawing is
    # cheaper than storing them in between.
    size = max(1, chunk_tokens // options.walk_length)
    ranges = [(first, min(first + size, n_walks)) for first in range(0, n_walks, size)]
    vocabulary = _write_ids(store, graph, _count_visits(executor, job, ranges))
    tasks = [(job, chunk, walks) for chunk, walks in enumerate(ranges)]
    written = executor.map(_write_chunk, tasks, f"{job.key}-write")
    _write_documents(store, graph, options, ranges)
    parts = {"train": [chunk.info for chunk in written], "held_out": []}
    commit_corpus(store, vocabulary, parts, True, _digest(vocabulary, written), about, check_lock)
    store.delete_unneeded(".work")
    return Corpus(store.url)


def _existing_walks(url: str, identity: Mapping[str, object]) -> Corpus:
    corpus = Corpus(url)
    if corpus.meta["about"].get("identity") != identity:
        raise DataError(f"{url}: another corpus is here; choose another folder for the walks or remove this one")
    return corpus


def _digest(vocabulary: pa.Table, written: list[WrittenWalks]) -> str:
    digest = hashlib.sha256(vocabulary_hash(vocabulary["word"].to_pylist()).encode())
    for chunk in written:
        digest.update(chunk.digest.encode())
    return digest.hexdigest()[:32]


# --- memory ---


def _check_memory(graph: Graph, executor: Executor, chunk_tokens: int) -> None:
    """Raise DataError if a worker has too little memory for the graph and one chunk per thread."""
    # All tasks of a worker share the graph, the sums of its rows and, for weighted graphs, one alias table per node.
    shared = graph.nbytes + 8 * graph.n_nodes
    if graph.is_weighted:
        shared += 8 * graph.n_edges
    per_task = TOKEN_BYTES * chunk_tokens + 16 * graph.n_nodes
    for worker in executor.capacities():
        needed = shared + worker.threads * per_task
        if needed > usable_bytes(worker.memory):
            raise DataError(
                f"{graph.title}: the graph must fit into each worker: walks need {format_bytes(needed)} on worker "
                f"{worker.name}, which has {format_bytes(usable_bytes(worker.memory))} for them "
                f"({format_bytes(worker.memory)} memory limit): raise memory_limit to {limit_for(needed) >> 20}MiB or "
                f"more, use fewer threads per worker, or choose FastRP, which reads the graph in chunks"
            )


# --- drawing walks, in tasks ---


def _walker(job: WalkJob) -> kernels.Walker:
    """Return the walker of this process, which all its threads share."""
    return CACHE.load((job.key, "walker"), lambda: _new_walker(job))


def _new_walker(job: WalkJob) -> kernels.Walker:
    graph = Graph(job.graph)
    options = job.options
    adjacency = kernels.Adjacency(**graph.adjacency(), symmetric=not graph.is_directed)
    by_tables = options.method == "tables"
    if by_tables:
        # One table per edge: their total size grows with the square of the degrees.
        needed = kernels.table_bytes(adjacency)
        if needed > options.table_memory:
            raise DataError(
                f"{graph.url}: alias tables of all edges take {needed:,} bytes, but table_memory allows "
                f"{options.table_memory:,}; raise it or choose method rejection"
            )
    return kernels.make_walker(adjacency, options.p, options.q, by_tables)


def _draw_walks(job: WalkJob, walks: WalkRange) -> tuple[np.ndarray, np.ndarray]:
    """Draw a range of walks: doc_ptr (D + 1,) int64 and nodes (T,) uint32."""
    walker = _walker(job)
    compiled = kernels_on("node2vec.walks", job.device)
    lengths = [np.zeros(1, np.int64)]
    nodes = []
    for round_number, starts in _starts(job.options.seed, len(walker.mass), walks):
        key = random.key(job.options.seed, round_number)
        doc_ptr, drawn = compiled.walk(walker, starts, job.options.walk_length, key)
        lengths.append(np.diff(doc_ptr))
        nodes.append(drawn)
    return np.cumsum(np.concatenate(lengths)), np.concatenate(nodes)


def _starts(seed: int, n_nodes: int, walks: WalkRange) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of each round that has some of the walks, and their first nodes (D,) uint32.

    A round starts once at every node. Its order is a permutation that needs no memory: position i has the node
    (i * step + shift) mod V, where ``step`` and V have no common factor.
    """
    first, stop = walks
    for round_number in range(first // n_nodes, -(-stop // n_nodes)):
        walks_before = round_number * n_nodes
        positions = np.arange(max(first - walks_before, 0), min(stop - walks_before, n_nodes))
        step, shift = (int(draw) % n_nodes for draw in random.stream(random.key(seed, round_number, -1), 2))
        while math.gcd(step, n_nodes) != 1:
            step += 1
        yield round_number, ((positions * step + shift) % n_nodes).astype(np.uint32)


# --- first pass: counting ---


def _count_visits(executor: Executor, job: WalkJob, ranges: list[WalkRange]) -> Arrays:
    """Count the visits of each node, and the walks that visit it. The sums are exact in any order."""
    level = []
    for index, walks in enumerate(ranges):
        level.append(executor.submit(_visits, job, walks, key=f"{job.key}-count-{index}"))
    depth = 0
    # A tree of tasks, so that no worker receives the counts of all chunks at once.
    while len(level) > 1:
        parts = [level[first : first + FAN_IN] for first in range(0, len(level), FAN_IN)]
        level = []
        for index, part in enumerate(parts):
            level.append(executor.submit(_add, *part, key=f"{job.key}-add-{depth}-{index}"))
        depth += 1
    ((_, counts),) = executor.completed(level)
    return counts


def _visits(job: WalkJob, walks: WalkRange) -> Arrays:
    doc_ptr, nodes = _draw_walks(job, walks)
    visits, visiting_walks = kernels.count_visits(doc_ptr, nodes, len(_walker(job).mass))
    return {"term": visits, "document": visiting_walks}


def _add(*counts: Arrays) -> Arrays:
    return {name: sum(count[name] for count in counts) for name in counts[0]}


def _write_ids(store: Store, graph: Graph, visits: Arrays) -> pa.Table:
    """Rank nodes by falling number of visits. Write the id of each node for the tasks, and return the vocabulary."""
    counts = count_table(graph.nodes.cast(pa.large_string()), visits["term"], visits["document"])
    ranked = rank(counts.append_column("node", pa.array(np.arange(graph.n_nodes))))
    ids = np.empty(graph.n_nodes, np.uint32)
    ids[ranked["node"].to_numpy()] = np.arange(graph.n_nodes, dtype=np.uint32)
    store.write_arrays(".work/ranks", {"ids": ids})
    return ranked.drop_columns("node")


# --- second pass: writing ---


def _write_chunk(job: WalkJob, index: int, walks: WalkRange) -> WrittenWalks:
    """Draw a range of walks and write them as one chunk."""
    doc_ptr, nodes = _draw_walks(job, walks)
    store = Store(job.corpus)
    words = store.read_arrays(".work/ranks")["ids"][nodes]
    digest = hashlib.sha256(doc_ptr.tobytes())
    digest.update(words)
    info = write_chunk(store, "train", make_chunk(index, doc_ptr, words))
    return WrittenWalks(info, digest.hexdigest())


def _write_documents(store: Store, graph: Graph, options: WalkOptions, ranges: list[WalkRange]) -> None:
    """Write the key of each walk, "node:round"."""
    schema = pa.schema([("key", pa.string()), ("chunk", pa.int32()), ("row", pa.int32())])
    with (
        store.open_for_writing("documents-train.parquet") as file,
        pq.ParquetWriter(file, schema) as writer,
    ):
        for chunk, walks in enumerate(ranges):
            keys = []
            for round_number, starts in _starts(options.seed, graph.n_nodes, walks):
                keys.append(pc.binary_join_element_wise(graph.nodes.take(pa.array(starts)), str(round_number), ":"))
            n_walks = walks[1] - walks[0]
            rows = np.arange(n_walks, dtype=np.int32)
            columns = [pa.chunked_array(keys), np.full(n_walks, chunk, np.int32), rows]
            writer.write_table(pa.table(columns, schema=schema))
    # Walks have no held-out part, but every corpus has this file.
    store.write_parquet("documents-held_out.parquet", schema.empty_table())
