"""Random walks over a graph, written as a corpus: a walk is a document, a node a word.

Every walk is a function of (seed, round, first node). So the walks are drawn twice, once to count the nodes, which
decides the words' ids, and once to write them: nothing is kept in between, and any number of workers writes the same.
"""

import hashlib
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ....io.stores.chunk import make_chunk
from ....io.stores.corpus import ChunkInfo, Corpus, commit_corpus, vocabulary_hash, write_chunk
from ....io.stores.graph import Graph
from ....io.stores.store import Arrays, DataError, Store
from ....io.text.vocabulary import count_table, rank
from ....kernels import random
from ....kernels.node2vec import walks as kernels
from ...engine.cache import CACHE
from ...engine.device import DEVICES
from ...engine.device import kernels as kernels_on
from ...engine.executors import Executor, executor_for
from ...engine.plan import PLANNED_SHARE, PROCESS_BYTES
from ...ingest.ingest import default_chunk_tokens

#: Bytes that a task holds for each token of its chunk: nodes, ids, both orders and what sorts them.
TOKEN_BYTES = 40
#: Counts of so many chunks are added up by one task.
FAN_IN = 8


@dataclass(frozen=True)
class WalkOptions:
    """How a graph is walked: ``num_walks`` times from every node, over ``walk_length`` nodes."""

    p: float = 1.0
    q: float = 1.0
    num_walks: int = 10
    walk_length: int = 80
    method: str = "rejection"  # or "tables": an alias table an edge
    table_memory: int = 1 << 30  # most bytes of such tables
    seed: int = 0
    chunk_tokens: int | None = None  # most tokens of a chunk; None: see ingest.default_chunk_tokens

    def check(self) -> None:
        """Raise ValueError for numbers out of range."""
        for name in ("p", "q"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}: choose a number above 0")
        for name in ("num_walks", "walk_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: choose 1 or more")
        if self.method not in ("rejection", "tables"):
            raise ValueError(f"method={self.method!r} is not known: choose rejection or tables")


class Job(NamedTuple):
    """What every task is told."""

    #: Names this call and the walker that its workers cache.
    call: str
    graph: str
    corpus: str
    options: WalkOptions
    device: str


def write_walks(
    graph: Graph, url: str, options: WalkOptions | None = None, client: Any | None = None, device: str = "cpu"
) -> Corpus:
    """Walk over a graph and write the walks as a corpus, or return the one that is there already.

    ``device``: "cuda", "auto" or "cpu", the same walks to the bit.
    Raises ValueError for options out of range; DataError where the graph does not fit a worker's memory, its alias
    tables exceed ``table_memory``, or another corpus is at ``url``.
    """
    options = options or WalkOptions()
    options.check()
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}: choose one of {', '.join(DEVICES)}")
    identity = {"graph": graph.hash, "walks": asdict(options), "version": version("corpusmill")}
    store = Store(url)
    if store.exists("corpus.json"):
        found = Corpus(url)
        if found.meta["about"].get("identity") == identity:
            return found
        raise DataError(f"{url}: another corpus is here; choose another folder for the walks or remove this one")
    executor = executor_for(client)
    size = options.chunk_tokens or _chunk_tokens(graph, options, executor)
    _check_memory(graph, options, executor, size)
    key = f"walks-{os.urandom(4).hex()}"
    job = Job(key, Store(graph.url).absolute, Store(url).absolute, options, device)
    ranges = _ranges(graph.n_nodes * options.num_walks, max(1, size // options.walk_length))
    visits = _count(executor, job, ranges, key)
    vocabulary = _write_ranks(store, graph, visits)
    written = list(executor.run(_write, [(job, c, *r) for c, r in enumerate(ranges)], key=f"{key}-write"))
    results = [result for _, result in sorted(written, key=lambda pair: pair[0])]
    _write_documents(store, graph, options, ranges)
    digest = hashlib.sha256(vocabulary_hash(vocabulary["word"].to_pylist()).encode())
    for result in results:
        digest.update(result["digest"].encode())
    parts = {"train": [ChunkInfo(**r["info"]) for r in results], "held_out": []}
    about = {"source": graph.url, "identity": identity, "version": version("corpusmill")}
    commit_corpus(store, vocabulary, parts, True, digest.hexdigest()[:32], about)
    store.delete(".work")
    return Corpus(url)


def _ranges(walks: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(first + size, walks)) for first in range(0, walks, size)]


# --- memory ---


def _fixed_bytes(graph: Graph, options: WalkOptions) -> int:
    """Bytes that a worker holds of the graph, however many tasks it runs."""
    return graph.nbytes + 8 * graph.n_nodes + (8 * graph.n_edges if graph.is_weighted else 0)


def _chunk_tokens(graph: Graph, options: WalkOptions, executor: Executor) -> int:
    rooms = [_room(c.memory) // c.threads for c in executor.capacities() if c.memory]
    tokens = graph.n_nodes * options.num_walks * options.walk_length
    return default_chunk_tokens(tokens, options.walk_length, min(rooms, default=0))


def _room(memory: int) -> int:
    return max(1, int(memory * PLANNED_SHARE) - PROCESS_BYTES)


def _check_memory(graph: Graph, options: WalkOptions, executor: Executor, size: int) -> None:
    for worker in executor.capacities():
        needed = _fixed_bytes(graph, options) + worker.threads * (TOKEN_BYTES * size + 16 * graph.n_nodes)
        if worker.memory and needed > _room(worker.memory):
            raise DataError(
                f"{graph.url}: walking needs {needed:,} bytes on worker {worker.name}, which has "
                f"{_room(worker.memory):,} to spare; give workers more memory or fewer threads"
            )


# --- tasks ---


def _walker(job: Job) -> kernels.Walker:
    """Return the walker of this process, made once however many threads ask."""
    return CACHE.load((job.call, "walker"), lambda: _new_walker(job))


def _new_walker(job: Job) -> kernels.Walker:
    graph, options = Graph(job.graph), job.options
    adjacency = kernels.Adjacency(**graph.adjacency(), symmetric=not graph.is_directed)
    if options.method == "tables":
        needed = kernels.table_bytes(adjacency)
        if needed > options.table_memory:
            raise DataError(
                f"{graph.url}: alias tables of all edges take {needed:,} bytes, table_memory allows "
                f"{options.table_memory:,}; raise it or choose method rejection"
            )
    return kernels.make_walker(adjacency, options.p, options.q, options.method == "tables")


def _walks(job: Job, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the walks ``first:last``: doc_ptr (D + 1,) int64 and nodes (T,) uint32."""
    walker, options = _walker(job), job.options
    lengths, nodes = [np.zeros(1, np.int64)], []
    for turn, starts in _starts(options.seed, len(walker.mass), first, last):
        here = kernels_on("node2vec.walks", job.device)
        doc_ptr, found = here.walk(walker, starts, options.walk_length, random.key(options.seed, turn))
        lengths.append(np.diff(doc_ptr))
        nodes.append(found)
    return np.cumsum(np.concatenate(lengths)), np.concatenate(nodes)


def _starts(seed: int, n_nodes: int, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each round that the walks ``first:last`` belong to, and their first nodes (D,) uint32.

    A round begins once in every node, in an order of its own: i becomes (a i + b) mod V, where a and V share no factor.
    """
    for turn in range(first // n_nodes, -(-last // n_nodes)):
        places = np.arange(max(first - turn * n_nodes, 0), min(last - turn * n_nodes, n_nodes))
        step, shift = (int(r) % n_nodes for r in random.stream(random.key(seed, turn, -1), 2))
        while math.gcd(step, n_nodes) != 1:
            step += 1
        yield turn, ((places * step + shift) % n_nodes).astype(np.uint32)


def _count(executor: Executor, job: Job, ranges: list[tuple[int, int]], key: str) -> Arrays:
    """Count visits and visiting walks of each node over all walks; sums are exact, whatever their order."""
    level = [executor.submit(_visits, job, *r, key=f"{key}-count-{i}") for i, r in enumerate(ranges)]
    depth = 0
    while len(level) > 1:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [executor.submit(_add, *g, key=f"{key}-add-{depth}-{i}") for i, g in enumerate(groups)]
        depth += 1
    return executor.gather(level)[0]


def _visits(job: Job, first: int, last: int) -> Arrays:
    doc_ptr, nodes = _walks(job, first, last)
    term, document = kernels.count_visits(doc_ptr, nodes, len(_walker(job).mass))
    return {"term": term, "document": document}


def _add(*counts: Arrays) -> Arrays:
    return {name: sum(c[name] for c in counts) for name in counts[0]}


def _write(job: Job, index: int, first: int, last: int) -> dict[str, Any]:
    doc_ptr, nodes = _walks(job, first, last)
    words = Store(job.corpus).read_arrays(".work/ranks")["ids"][nodes]
    digest = hashlib.sha256(doc_ptr.tobytes())
    digest.update(words)
    info = write_chunk(Store(job.corpus), "train", make_chunk(index, doc_ptr, words))
    return {"info": asdict(info), "digest": digest.hexdigest()}


# --- tables ---


def _write_ranks(store: Store, graph: Graph, visits: Arrays) -> pa.Table:
    """Rank nodes by falling number of visits; write each node's id for the tasks, return the vocabulary."""
    counted = count_table(graph.nodes.cast(pa.large_string()), visits["term"], visits["document"])
    ranked = rank(counted.append_column("node", pa.array(np.arange(graph.n_nodes))))
    ids = np.empty(graph.n_nodes, np.uint32)
    ids[ranked["node"].to_numpy()] = np.arange(graph.n_nodes, dtype=np.uint32)
    store.write_arrays(".work/ranks", {"ids": ids})
    return ranked.drop_columns("node")


def _write_documents(store: Store, graph: Graph, options: WalkOptions, ranges: list[tuple[int, int]]) -> None:
    """Name each walk by its first node and its round."""
    schema = pa.schema([("key", pa.string()), ("chunk", pa.int32()), ("row", pa.int32())])
    for part, chunks in (("train", ranges), ("held_out", [])):
        with (
            store.fs.open(store.where(f"documents-{part}.parquet"), "wb") as file,
            pq.ParquetWriter(file, schema) as writer,
        ):
            for chunk, (first, last) in enumerate(chunks):
                keys = [
                    pc.binary_join_element_wise(graph.nodes.take(pa.array(starts)), str(turn), ":")
                    for turn, starts in _starts(options.seed, graph.n_nodes, first, last)
                ]
                rows = np.arange(last - first, dtype=np.int32)
                columns = [pa.chunked_array(keys), np.full(last - first, chunk, np.int32), rows]
                writer.write_table(pa.table(columns, schema=schema))
