"""Random walks against pecanpy and fastnode2vec: steps per CPU-second on one thread, medians of several rounds.

    python -m benchmarks.node2vec              PPI and BlogCatalog
    python -m benchmarks.node2vec GRAPH.tsv    a list of edges
    python -m benchmarks.node2vec --quality    F1 of labels that are predicted from vectors of PPI and BlogCatalog

The systems take turns. Those that are not installed are left out (pip install pecanpy fastnode2vec).
"""

import json
import statistics
import tempfile
import time
from pathlib import Path

import click
import numpy as np
import scipy.sparse
from corpusmill import Node2Vec
from corpusmill.kernels import random
from corpusmill.kernels.node2vec import walks
from corpusmill.pipeline.ingest.graph import ingest_graph

from benchmarks.common import DATA, JSON, QUICK, data_file, write_json
from benchmarks.node2vec.evaluation import evaluate

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


def judge(data, seeds):
    """Yield one row per training: F1 of node labels, F1 and AUC of edges.

    The settings are those of the dissertation, except that walks have 80 nodes instead of 81, and that vectors are
    trained in strata. The paper's F1 is that of PAR-Word2Vec.
    """
    for name, (p, q, paper) in PAPER.items():
        edges, labels = (str(data_file(data, f"graphs/{name}.{what}.tsv")) for what in ("edges", "labels"))
        for seed in seeds:
            model = Node2Vec(p=p, q=q, epochs=10, seed=seed).fit(edges, evaluate_every=0)
            found = evaluate(model, labels=labels, graph=edges)
            scores = {f"{task} {measure}": value for task, part in found.items() for measure, value in part.items()}
            yield {"graph": name, "seed": seed, "paper_micro_f1": paper} | scores


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
@click.option("--seed", "seeds", multiple=True, default=[1], help="One training for each.")
@click.option("--rounds", default=3)
@click.option("--length", default=80, help="Steps of a walk.")
def main(graphs, data, target, quick, quality, seeds, rounds, length):
    rows = []
    if quality:
        for row in judge(data, seeds):
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
