"""Tables 2 and 3 and Figures 9 to 12 of SaberLDA (Li et al., ASPLOS 2017), on a CPU."""

from functools import partial

import numpy as np
from corpusmill.kernels.lda import inference
from corpusmill.kernels.lda.counts import count_documents

from benchmarks.common import Clock, Session
from benchmarks.lda.data import read, split, tokens_of
from benchmarks.lda.quality import curve_of
from benchmarks.lda.systems import SYSTEMS, Corpusmill, Warp
from benchmarks.papers import saberlda
from benchmarks.papers.registry import Chart, Curve, Measured, Run

GIGA = 1e9
#: PubMed, the corpus of Table 2: documents, tokens and words.
PUBMED_DOCUMENTS = 8_200_000
PUBMED_TOKENS = 738_000_000
PUBMED_WORDS = 141_000


def memory_by_item(
    session: Session,
    topics: tuple[int, ...] = (100, 1000, 10_000),
    passes: int = 8,
    corpus: str = "wikipedia",
    tokens: int = 700_000,
) -> Measured:
    """Table 2: bytes of the model, of the tokens and of the documents' counts, for a corpus of PubMed's size.

    Bytes per token of A, and of z and the chunk, are counted after some passes over our corpus, and multiplied by the
    tokens of PubMed. B has an entry for each topic of a word; a corpus of PubMed's size fills its rows, so that B is
    dense at most.
    """
    matrix = read(session, corpus, tokens)
    values = {}
    for K in topics:
        system = Corpusmill(matrix, K, 1)
        for _ in range(passes):
            system.run()
        (chunk,), (z,) = system.chunks, system.states
        rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
        token_bytes = (sum(array.nbytes for array in chunk if isinstance(array, np.ndarray)) + z.nbytes) / len(z)
        row_bytes = (rows.entries.nbytes + rows.row_ptr.nbytes) / len(z)
        model_bytes = system.model.topics.itemsize + system.model.counts.itemsize
        label = f"K = {K:,}"
        values[f"{label}: B and its probabilities"] = PUBMED_WORDS * K * model_bytes / GIGA
        values[f"{label}: tokens"] = PUBMED_TOKENS * token_bytes / GIGA
        values[f"{label}: A, dense"] = 4 * PUBMED_DOCUMENTS * K / GIGA
        values[f"{label}: A, sparse"] = PUBMED_TOKENS * row_bytes / GIGA
    return Measured(values)


def sizes_of_corpora(session: Session, corpora: tuple[str, ...] = ("kos", "nips", "wikipedia")) -> Measured:
    """Table 3: documents, tokens and words of the corpora."""
    values = {}
    sizes = {}
    for corpus in corpora:
        matrix = read(session, corpus)
        sizes[corpus] = int(matrix.sum())
        values[f"{corpus}: documents"] = matrix.shape[0]
        values[f"{corpus}: tokens"] = sizes[corpus]
        values[f"{corpus}: words"] = matrix.shape[1]
        values[f"{corpus}: tokens per document"] = sizes[corpus] / matrix.shape[0]
    paper = {"NYTimes": 100e6, "PubMed": 738e6, "ClueWeb12 subset": 7.1e9}
    names = [*sizes, *paper]
    curves = [
        Curve("ours", names, [sizes.get(name, 0) for name in names]),
        Curve("paper", names, [paper.get(name, 0) for name in names], from_paper=True),
    ]
    return Measured(values, [Chart("tokens", "", "tokens", curves, bars=True, y_log=True)])


def optimisations(
    session: Session, topics: int = 1000, passes: int = 10, corpus: str = "nips", tokens: int = 700_000
) -> Measured:
    """Figure 9: nanoseconds per token as the ideas of SaberLDA are added, G0 to G4."""
    found = saberlda.run(Corpusmill(read(session, corpus, tokens), topics, 1, seed=session.seed), passes)
    values = {"G4 over G0, speed-up": found["G0: document order, alias, sort"] / found["G4: prefetch"]}
    values |= {f"{name}, ns per token": nanoseconds for name, nanoseconds in found.items()}
    names = [name.split(":")[0] for name in found]
    curve = Curve("", names, list(found.values()))
    return Measured(values, [Chart(f"{corpus}, K = {topics}", "", "CPU ns per token", [curve], bars=True)])


def tuning(
    session: Session,
    topics: tuple[int, ...] = (1000, 3000, 5000),
    chunks: tuple[int, ...] = (1, 2, 4, 8, 16),
    workers: tuple[int, ...] = (1, 2),
    passes: int = 1,
    corpus: str = "nips",
    tokens: int = 500_000,
) -> Measured:
    """Figure 10: seconds per pass by the number of chunks, on one thread, and by the number of threads."""
    matrix = read(session, corpus, tokens)
    values = {}
    by_chunks = []
    by_workers = []
    for K in topics:
        seconds = [seconds_per_pass(matrix, K, 1, number, passes)[1] for number in chunks]
        by_chunks.append(Curve(f"K = {K:,}", chunks, seconds))
        values[f"K = {K:,}: time with {chunks[-1]} chunks over one"] = seconds[-1] / seconds[0]
        walls = [seconds_per_pass(matrix, K, number, 10, passes)[0] for number in workers]
        by_workers.append(Curve(f"K = {K:,}", workers, walls))
        values[f"K = {K:,}: speed-up of {workers[-1]} threads"] = walls[0] / walls[-1]
    return Measured(
        values,
        [
            Chart("one thread", "chunks", "CPU-seconds per pass", by_chunks),
            Chart("10 chunks", "threads", "seconds per pass, by the clock", by_workers),
        ],
    )


def seconds_per_pass(matrix, topics: int, threads: int, chunks: int, passes: int) -> tuple[float, float]:
    """Return seconds and CPU-seconds per pass, after the first two."""
    system = Corpusmill(matrix, topics, threads, chunks=chunks)
    system.run()
    system.run()
    clock = Clock()
    for _ in range(passes):
        clock.time(system.run)
    return clock.wall / passes, clock.cpu / passes


def race(
    session: Session,
    topics: int = 1000,
    seconds: float = 4.0,
    peer_seconds: float = 10.0,
    systems: tuple[str, ...] = ("esca", "esca as published", "warp", "warp then esca", "gibbs", "tomotopy"),
    corpora: tuple[str, ...] = ("nips",),
    tokens: int = 350_000,
    test_documents: int = 15,
) -> Measured:
    """Figure 11: held-out likelihood over time."""
    makers = {
        "esca": Corpusmill,
        "esca as published": partial(Corpusmill, leave_out=False),
        "warp": Warp,
        "warp then esca": SYSTEMS["auto"],
        "gibbs": SYSTEMS["gibbs"],
        "tomotopy": SYSTEMS["tomotopy"],
    }
    values = {}
    charts = []
    for corpus in corpora:
        train, first, second = split(read(session, corpus, tokens), most=test_documents)
        curves = {}
        for name in systems:
            limit = peer_seconds if name == "tomotopy" else seconds
            curves[name] = curve_of(makers[name](train, topics, 1, seed=session.seed), first, second, limit)
            values[f"{corpus}: {name}, last likelihood"] = curves[name][-1][2]
        *ours, peer = systems
        goal = curves[peer][-1][2]
        for name in ours:
            ratio = seconds_to(curves[peer], goal) / seconds_to(curves[name], goal)
            values[f"{corpus}: time of {peer} over that of {name}"] = ratio
        for name, other in [*DIFFERENCES, *((name, peer) for name in ours)]:
            if name in curves and other in curves:
                difference = curves[name][-1][2] - curves[other][-1][2]
                values[f"{corpus}: last likelihood of {name} minus {other}"] = difference
        panel = [Curve(name, [c[1] for c in one], [c[2] for c in one]) for name, one in curves.items()]
        ends = [find(c[1] for one in curves.values() for c in one) for find in (min, max)]
        panel.append(Curve(f"goal: last likelihood of {peer}", ends, [goal, goal]))
        charts.append(Chart(corpus, "CPU-seconds of training", "held-out log-likelihood per token", panel, x_log=True))
    return Measured(values, charts)


#: Pairs of systems whose last likelihoods are compared.
DIFFERENCES = (("esca", "esca as published"), ("warp", "esca as published"), ("warp", "esca"))


def seconds_to(curve: list[tuple[float, float, float]], goal: float) -> float:
    """Return the CPU-seconds until a likelihood was first reached; NaN if it was not."""
    _, seconds, likelihoods = zip(*curve, strict=True)
    best = np.maximum.accumulate(likelihoods)
    return float("nan") if best[-1] < goal else float(np.interp(goal, best, seconds))


def many_topics(
    session: Session,
    topics: tuple[int, ...] = (1000, 3000, 5000, 10_000),
    passes: int = 8,
    corpus: str = "wikipedia",
    tokens: int = 700_000,
) -> Measured:
    """Figure 12 at the size of one core: convergence, and tokens per second, with up to 10,000 topics."""
    train, first, second = split(read(session, corpus, tokens), most=50)
    values = {}
    curves = []
    rates = {}
    Corpusmill(train, min(topics), 1).run()  # compiles or loads the kernels
    for K in topics:
        system = Corpusmill(train, K, 1, seed=session.seed)
        clock = Clock()
        points = {}
        for number in range(1, passes + 1):
            clock.time(system.run)
            if number in (1, 2, 4, 8, passes // 2, passes):
                points[number] = (clock.cpu, likelihood(system, first, second))
        rates[K] = passes * int(train.sum()) / clock.cpu / 1e6
        values[f"K = {K:,}: M tokens per CPU-second"] = rates[K]
        values[f"K = {K:,}: held-out log-likelihood after {passes} passes"] = points[passes][1]
        rise = points[passes][1] - points[passes // 2][1]
        values[f"K = {K:,}: rise of the likelihood from pass {passes // 2} to {passes}"] = rise
        curves.append(Curve(f"K = {K:,}", *map(list, zip(*points.values(), strict=True))))
    for K in topics[:-1]:
        values[f"throughput with K = {topics[-1]:,} over K = {K:,}"] = rates[topics[-1]] / rates[K]
    rate = Curve("", [f"K = {K:,}" for K in rates], list(rates.values()))
    return Measured(
        values,
        [
            Chart(corpus, "CPU-seconds of training", "held-out log-likelihood per token", curves, x_log=True),
            Chart("speed", "", "M tokens per CPU-second", [rate], bars=True),
        ],
    )


def likelihood(system, first, second) -> float:
    """Return the held-out log-likelihood per token by document completion, with the function that ships."""
    weights = inference.word_weights(system.model)
    return inference.score_completion(tokens_of(first), tokens_of(second), weights) / int(second.sum())


RUNS = {
    "saberlda-table-2": Run(memory_by_item, {"topics": (100,), "passes": 1}, turns=1),
    "saberlda-table-3": Run(sizes_of_corpora, {"corpora": ("kos",)}, turns=1),
    "saberlda-figure-9": Run(optimisations, {"topics": 16, "passes": 1}),
    "saberlda-figure-10": Run(tuning, {"topics": (8,), "chunks": (1, 2), "passes": 1}),
    "saberlda-figure-11": Run(race, {"topics": 8, "seconds": 0.02, "peer_seconds": 0.02, "corpora": ("kos",)}),
    "saberlda-figure-12": Run(many_topics, {"topics": (4, 8), "passes": 2}),
}
