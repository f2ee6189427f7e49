"""Prediction of missing edges from the vectors of nodes: corpusmill's methods, and gensim on the same walks.

    python -m benchmarks.node2vec.links facebook_combined.txt
    python -m benchmarks.node2vec.links
    python -m benchmarks.node2vec.links blogcatalog.edges.tsv --system strata --system fastrp --system pycleora

GRAPH is a file of edges, two nodes on each line. The usual one is ego-Facebook of the Stanford collection, of 4,039
nodes and 88,234 edges. Without a file, a graph of the same size is made of overlapping circles of friends. The circles
themselves are then one more system, which no other can expect to beat: the score of a pair of nodes is the number of
circles that they share.

A fifth of the edges is held out. Walks of the rest train vectors, with p = 1, q = 0.5, window 10 and five epochs. The
score is the area under the ROC curve of the cosine similarity, of held-out edges against as many pairs without an edge.
"""

import itertools
import tempfile
import time
from collections import defaultdict

import click
import numpy as np
import scipy.sparse
import scipy.stats
from corpusmill import FastRP
from corpusmill.pipeline.ingest.graph import ingest_graph
from corpusmill.pipeline.models.base.sparse_rows import row_of_each_entry
from corpusmill.pipeline.models.node2vec.walks import WalkOptions, write_walks
from corpusmill.pipeline.models.vectors.vectors import WordVectors

from benchmarks.papers.algorithms.word2vec import PaperNode2Vec

#: Share of the edges that is held out.
HELD_OUT = 0.2
Q = 0.5
WINDOW = 10
EPOCHS = 5
DIMENSION = 128
#: The made-up graph: nodes, circles, circles of a node, probability of an edge in a circle, and other edges.
NODES = 4039
CIRCLES = 120
CIRCLES_OF_NODE = 2
IN_CIRCLE = 0.25
OTHER_EDGES = 3000


@click.command(help=__doc__.split("\n")[0])
@click.argument("graph", type=click.Path(exists=True), required=False)
@click.option("--system", "systems", multiple=True, default=["strata", "par", "sgns", "gensim"])
@click.option("--alpha", "rates", type=float, multiple=True, default=[0.025])
@click.option("--seed", "seeds", multiple=True, default=[1, 2, 3])
@click.option("--quick", is_flag=True, help="Tiny input, to see that the program runs.")
def main(graph, systems, rates, seeds, quick):
    members = None
    if graph:
        edges = read_edges(graph)
    else:
        edges, members = circles(300 if quick else NODES)
    n_nodes = int(edges.max()) + 1
    print(f"{n_nodes:,} nodes, {len(edges):,} edges, q = {Q}, window {WINDOW}, {EPOCHS} epochs")
    found = defaultdict(list)
    for seed in seeds:
        kept, held_out, others = split(edges, n_nodes, seed)
        if members is not None:
            auc = area(common_circles(members, held_out), common_circles(members, others))
            found["", "circles"].append(auc)
            print(f"seed {seed} circles: AUC {auc:.4f}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            ones = np.ones(len(kept), np.int8)
            matrix = scipy.sparse.coo_array((ones, kept.T), shape=(n_nodes, n_nodes)).tocsr()
            kept_graph = ingest_graph(matrix, f"{folder}/graph")
            began = time.process_time()
            walks = write_walks(kept_graph, f"{folder}/walks", WalkOptions(q=Q, seed=seed))
            print(f"seed {seed} walks: {time.process_time() - began:.1f} CPU-s")
            for alpha, system in itertools.product(rates, systems):
                began = time.process_time()
                wv = train(system, kept_graph, walks, alpha, seed)
                seconds = time.process_time() - began
                auc = area_of_vectors(wv, held_out, others)
                found[alpha, system].append(auc)
                print(f"seed {seed} rate {alpha} {system:>6}: AUC {auc:.4f}, {seconds:.1f} CPU-s", flush=True)
    print(f"{'rate':>6} {'system':>8}  AUC")
    for (alpha, system), values in found.items():
        print(f"{alpha:6} {system:>8}  {np.mean(values):.4f} ± {np.std(values, ddof=min(1, len(values) - 1)):.4f}")


# --- graphs ---


def read_edges(path):
    """Return the undirected edges of a file, each once, with nodes numbered from 0: (n, 2) int64."""
    pairs = np.loadtxt(path, usecols=(0, 1), dtype=str)
    _, numbers = np.unique(pairs, return_inverse=True)
    return without_copies(numbers.reshape(pairs.shape))


def without_copies(edges):
    """Return the edges between different nodes, the smaller node first, each once."""
    edges = np.sort(edges, axis=1)
    return np.unique(edges[edges[:, 0] < edges[:, 1]], axis=0)


def circles(n_nodes, seed=0):
    """Return the edges of a graph of overlapping circles, with some edges at random, and the circles of each node."""
    rng = np.random.default_rng(seed)
    sizes = rng.lognormal(0, 0.7, max(4, CIRCLES * n_nodes // NODES))
    members = [rng.choice(len(sizes), CIRCLES_OF_NODE, p=sizes / sizes.sum()) for _ in range(n_nodes)]
    parts = [rng.integers(0, n_nodes, (OTHER_EDGES * n_nodes // NODES, 2))]
    for circle in range(len(sizes)):
        own = np.array([node for node in range(n_nodes) if circle in members[node]], np.int64)
        is_edge = np.triu(rng.random((len(own), len(own))) < IN_CIRCLE, 1)
        parts.append(own[np.argwhere(is_edge)])
    return without_copies(np.concatenate(parts)), [set(own.tolist()) for own in members]


def common_circles(members, pairs):
    """Return the number of circles that have both nodes of each pair: (n,) int64."""
    return np.array([len(members[a] & members[b]) for a, b in pairs.tolist()])


def split(edges, n_nodes, seed):
    """Return the edges to train, the held-out edges, and as many pairs without an edge."""
    rng = np.random.default_rng(seed)
    is_held_out = rng.random(len(edges)) < HELD_OUT
    held_out = edges[is_held_out]
    drawn = np.sort(rng.integers(0, n_nodes, (4 * len(held_out), 2)), axis=1)
    is_edge = np.isin(drawn[:, 0] * n_nodes + drawn[:, 1], edges[:, 0] * n_nodes + edges[:, 1])
    others = drawn[~is_edge & (drawn[:, 0] != drawn[:, 1])][: len(held_out)]
    return edges[~is_held_out], held_out, others


# --- systems ---


def train(system, graph, walks, alpha, seed):
    """Return the vectors of nodes that one system has learned from the walks, or from the graph."""
    if system == "fastrp":
        return FastRP(random_state=seed).fit(graph).wv
    if system == "pycleora":
        import pycleora

        names, starts = graph.nodes.to_pylist(), row_of_each_entry(graph.adjacency()["row_ptr"])
        pairs = zip(starts.tolist(), graph.adjacency()["neighbours"].tolist(), strict=True)
        lines = (f"{names[a]} {names[b]}" for a, b in pairs if a < b)
        peer = pycleora.SparseMatrix.from_iterator(lines, "complex::reflexive::node")
        return WordVectors(peer.entity_ids, pycleora.embed(peer, seed=seed, num_workers=1))
    if system == "gensim":
        return train_gensim(walks, alpha, seed)
    model = PaperNode2Vec(
        q=Q,
        vector_size=DIMENSION,
        window=WINDOW,
        epochs=EPOCHS,
        alpha=alpha,
        seed=seed,
        method=system,
        device="cpu",
    )
    return model.fit(walks, evaluate_every=0).wv


def train_gensim(walks, alpha, seed):
    """Train gensim with one worker."""
    from gensim.models import Word2Vec

    names = walks.vocabulary["word"].to_pylist()
    sentences = []
    for number in range(len(walks.chunks)):
        chunk = walks.read_document_order(number)
        for first, last in zip(chunk.doc_ptr[:-1], chunk.doc_ptr[1:], strict=True):
            sentences.append([names[word] for word in chunk.words[first:last]])
    peer = Word2Vec(
        sentences,
        vector_size=DIMENSION,
        window=WINDOW,
        epochs=EPOCHS,
        alpha=alpha,
        min_alpha=0.0001,
        seed=seed,
        sg=1,
        negative=5,
        sample=0,
        min_count=1,
        workers=1,
    )
    return WordVectors(peer.wv.index_to_key, peer.wv.vectors)


def area_of_vectors(wv, edges, others):
    """Return the area for cosine similarities. Pairs of a node without vector are left out."""
    row_of = {int(name): row for row, name in enumerate(wv.index_to_key)}
    # Nodes whose edges are all held out have no direction.
    unit = wv.vectors / np.maximum(np.linalg.norm(wv.vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    scores = []
    for pairs in (edges, others):
        known = [pair for pair in pairs.tolist() if pair[0] in row_of and pair[1] in row_of]
        rows = np.array([(row_of[a], row_of[b]) for a, b in known])
        scores.append(np.einsum("nd,nd->n", unit[rows[:, 0]], unit[rows[:, 1]]))
    return area(*scores)


def area(of_edges, of_others):
    """Return the area under the ROC curve of the scores of edges (n,) against those of other pairs (m,)."""
    statistic = scipy.stats.mannwhitneyu(of_edges, of_others).statistic
    return float(statistic) / (len(of_edges) * len(of_others))


if __name__ == "__main__":
    main()
