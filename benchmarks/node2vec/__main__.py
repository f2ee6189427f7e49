"""Random walks against pecanpy and fastnode2vec: steps per CPU-second on one thread, medians of several rounds.

    python -m benchmarks.node2vec              PPI and BlogCatalog
    python -m benchmarks.node2vec GRAPH.tsv    a list of edges
    python -m benchmarks.node2vec --quality    F1 of labels that are predicted from vectors of PPI and BlogCatalog
    python -m benchmarks.node2vec --quality --system node2vec --system fastrp --system pycleora

The systems take turns. Those that are not installed are left out (pip install pecanpy fastnode2vec pycleora).
"""

import itertools
import json
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import click
import numpy as np
import scipy.sparse
from corpusmill import FastRP, Node2Vec
from corpusmill.kernels import random
from corpusmill.kernels.node2vec import walks
from corpusmill.pipeline.ingest.graph import ingest_graph

from benchmarks.common import DATA, JSON, QUICK, data_file, write_json
from benchmarks.node2vec.evaluation import classify, predict_links, read_labels

#: Names of NumPy 1 that pecanpy's dependencies still use, and their names in NumPy 2.
OLD_NAMES = {
    "float_": "float64", "complex_": "complex128", "unicode_": "str_", "string_": "bytes_", "cfloat": "complex128",
    "singlecomplex": "complex64", "longfloat": "longdouble", "longcomplex": "clongdouble", "bool8": "bool_",
    "clongfloat": "clongdouble", "object0": "object_", "int0": "intp", "uint0": "uintp", "void0": "void",
    "str0": "str_", "bytes0": "bytes_",
}  # fmt: skip
#: p, q and the micro F1 of PAR-Word2Vec after ten epochs, from tables 4.5 and 4.8 of Moon's dissertation.
PAPER = {"ppi": (4.0, 1.0, 0.223), "blogcatalog": (0.25, 0.25, 0.425)}
PARAMETERS = ((1.0, 1.0), (0.25, 0.25), (0.5, 2.0), (4.0, 1.0))


def ours(graph, p, q, length, by_tables=False):
    """Return a function that walks once from every node and returns the number of steps; its argument is the round."""
    adjacency = walks.Adjacency(**graph.adjacency(), symmetric=True)
    if by_tables and walks.table_bytes(adjacency) > 1 << 30:
        return None
    walker = walks.make_walker(adjacency, p, q, by_tables)
    starts = np.arange(graph.n_nodes, dtype=np.uint32)
    return lambda turn: len(walks.walk(walker, starts, length, random.key(0, turn))[1])


def fastnode2vec(graph, p, q, length):
    """Return such a function for fastnode2vec: its compiled walk, without the conversion of ids into names."""
    try:
        from fastnode2vec.graph import _random_walk
    except ImportError:
        return None
    arrays = graph.adjacency()
    row_ptr, neighbours = arrays["row_ptr"].astype(np.int32), arrays["neighbours"].astype(np.int32)

    def walk(turn):
        return sum(len(_random_walk(row_ptr, neighbours, length, p, q, v)) for v in range(graph.n_nodes))

    return walk


def pecanpy(graph, p, q, length):
    """Return such a function for pecanpy: SparseOTF, which its documentation recommends for such graphs."""
    for old, new in OLD_NAMES.items():
        setattr(np, old, getattr(np, new))
    try:
        from numba_progress import ProgressBar
        from pecanpy.pecanpy import SparseOTF
    except ImportError:
        return None
    arrays = graph.adjacency()
    peer = SparseOTF(p=p, q=q, workers=1, verbose=False)
    peer.indptr, peer.indices = arrays["row_ptr"].astype(np.uint32), arrays["neighbours"].astype(np.uint32)
    peer.data = np.ones(graph.n_edges, np.float32)
    peer.set_node_ids(graph.nodes.to_pylist())
    # simulate_walks compiles these two again in every call. That is not measured here.
    step, may_step = peer.get_move_forward(), peer.get_has_nbrs()
    starts = np.arange(graph.n_nodes, dtype=np.uint32)

    def walk(turn):
        with ProgressBar(total=len(starts), disable=True) as bar:
            found = peer._random_walks(len(starts), length - 1, turn, starts, may_step, step, bar)
        return int(found[:, -1].sum())

    return walk


def measure(graph, p, q, length, rounds):
    """Return the median steps per CPU-second of each system; the systems take turns."""
    systems = {
        "corpusmill": ours(graph, p, q, length),
        "corpusmill, tables": ours(graph, p, q, length, by_tables=True),
        "fastnode2vec": fastnode2vec(graph, p, q, length),
        "pecanpy": pecanpy(graph, p, q, length),
    }
    systems = {name: walk for name, walk in systems.items() if walk}
    for walk in systems.values():
        walk(0)
    rates = {name: [] for name in systems}
    for turn in range(rounds):
        for name, walk in systems.items():
            start = time.process_time()
            steps = walk(turn)
            rates[name].append(steps / (time.process_time() - start))
    return {name: statistics.median(found) for name, found in rates.items()}


def node2vec_vectors(edges, p, q, seed):
    """Return the nodes and vectors of Node2Vec, with the settings of the dissertation, except for the two below.

    Walks have 80 nodes instead of 81, and vectors are trained in strata. The paper's F1 is that of PAR-Word2Vec.
    """
    model = Node2Vec(p=p, q=q, epochs=10, seed=seed).fit(edges, evaluate_every=0)
    return model.words_, model.wv.vectors


def fastrp_vectors(edges, p, q, seed, dimension=None):
    """Return those of FastRP, which has the dimension of Node2Vec or that of its default."""
    parameters = {} if dimension is None else {"vector_size": dimension}
    model = FastRP(random_state=seed, **parameters).fit(edges)
    return model.words_, model.wv.vectors


def pycleora_vectors(edges, p, q, seed, whiten=True):
    """Return those of pycleora with its defaults, or the faster ones that are not whitened after each of 4 steps."""
    import pycleora

    lines = Path(edges).read_text().replace("\t", " ").splitlines()
    graph = pycleora.SparseMatrix.from_iterator(iter(lines), "complex::reflexive::node")
    more = {} if whiten else {"whiten": False, "num_iterations": 4}
    return graph.entity_ids, pycleora.embed(graph, seed=seed, num_workers=1, **more)


SYSTEMS = {
    "node2vec": node2vec_vectors,
    "fastrp": fastrp_vectors,
    "fastrp 128": partial(fastrp_vectors, dimension=128),
    "pycleora": pycleora_vectors,
    "pycleora fast": partial(pycleora_vectors, whiten=False),
}


def judge(data, seeds, systems):
    """Yield one row per training: CPU-seconds and F1 of node labels; for Node2Vec, also F1 and AUC of edges."""
    for name, (p, q, paper) in PAPER.items():
        edges, labels = (str(data_file(data, f"graphs/{name}.{what}.tsv")) for what in ("edges", "labels"))
        for system, seed in itertools.product(systems, seeds):
            if seed == seeds[0]:
                with tempfile.TemporaryDirectory() as folder:  # compiles
                    (Path(folder) / "small.tsv").write_text("".join(f"{v} {(v + 1) % 50}\n" for v in range(50)))
                    SYSTEMS[system](f"{folder}/small.tsv", p, q, seed)
            start = time.process_time()
            nodes, vectors = SYSTEMS[system](edges, p, q, seed)
            row = {"graph": name, "seed": seed, "system": system, "cpu_seconds": time.process_time() - start}
            row |= classify(nodes, vectors, read_labels(labels), seed)
            if system == "node2vec":
                row["paper_micro_f1"] = paper
                with tempfile.TemporaryDirectory() as folder:
                    links = predict_links(nodes, vectors, ingest_graph(edges, folder), seed)
                row |= {f"links {measure}": value for measure, value in links.items()}
            yield row


def small_graph(folder):
    """Write a random graph of 300 nodes."""
    rng = np.random.default_rng(0)
    return ingest_graph(scipy.sparse.triu(rng.random((300, 300)) < 0.05, 1).tocsr(), f"{folder}/quick")


def read_graphs(folder, data, paths, quick):
    """Return the graphs to walk by name. Their stores are written into ``folder``."""
    if quick:
        return {"quick": small_graph(folder)}
    paths = paths or [str(data_file(data, f"graphs/{name}.edges.tsv")) for name in PAPER]
    return {Path(path).name: ingest_graph(path, f"{folder}/{number}") for number, path in enumerate(paths)}


@click.command(help=__doc__.split("\n")[0])
@click.argument("graphs", nargs=-1, type=click.Path(exists=True))
@DATA
@JSON
@QUICK
@click.option("--quality", is_flag=True, help="Train and evaluate vectors instead.")
@click.option("--system", "systems", multiple=True, type=click.Choice(list(SYSTEMS)), default=["node2vec"])
@click.option("--seed", "seeds", multiple=True, default=[1], help="One training for each.")
@click.option("--rounds", default=3)
@click.option("--length", default=80, help="Steps of a walk.")
def main(graphs, data, target, quick, quality, systems, seeds, rounds, length):
    rows = []
    if quality:
        for row in judge(data, seeds, systems):
            print(json.dumps(row), flush=True)
            rows.append(row)
    else:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{'graph':24} {'p':>5} {'q':>5}  M steps per CPU-second (corpusmill over this system)")
            for name, graph in read_graphs(folder, data, graphs, quick).items():
                for p, q in PARAMETERS[: 1 if quick else None]:
                    found = measure(graph, p, q, length, rounds)
                    rows.append({"graph": name, "p": p, "q": q, "steps_per_second": found})
                    shown = (f"{s} {r / 1e6:.2f} ({found['corpusmill'] / r:.1f})" for s, r in found.items())
                    print(f"{name:24} {p:5} {q:5}  " + "   ".join(shown), flush=True)
    if target:
        write_json(target, rows)


if __name__ == "__main__":
    main()
