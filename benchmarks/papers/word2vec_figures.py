"""Chapter 4 of Moon's dissertation, and the quality and throughput of FULL-W2V (Randall et al., ICS 2021)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from corpusmill.pipeline.models.vectors.vectors import WordVectors

from benchmarks.common import Session, data_file
from benchmarks.papers import word2vec_data_movement as movement
from benchmarks.papers.registry import Chart, Curve, Measured, Run
from benchmarks.papers.word2vec_in_order import Parameters, Sentences, count_words, train_in_order

PAIRS = {"WordSim-353": "eval/wordsim353.tsv", "SimLex-999": "eval/simlex999.txt"}
#: Candidate words of an analogy.
ANSWERS = 30_000
DIMENSION = 128
#: Words of a sentence of our text, as is usual for Text8.
SENTENCE = 1000
#: Tokens per epoch of the dissertation's texts (Table 4.3).
TEXT8 = 16_718_843


def text_of(session: Session, words: int, sentence: int = SENTENCE) -> Sentences:
    """Read the first words of Wikipedia, in sentences of ``sentence`` words; a random text if the session is quick."""
    if session.quick:
        found = [f"w{i * i * 7919 % 211 % (1 + i % 97)}" for i in range(4000)]
    else:
        found = data_file(session.data, "wiki8.txt").read_text()[: 8 * words].split()[:words]
    return count_words([found[i : i + sentence] for i in range(0, len(found), sentence)])


def vectors(text: Sentences, W_in: np.ndarray) -> WordVectors:
    """Return the vectors for queries."""
    return WordVectors(text.vocabulary, W_in[:, :DIMENSION])


def pair_scores(session: Session, wv: WordVectors) -> dict[str, float]:
    """Return rank correlations with human judgements; zeros for random text."""
    if session.quick:
        return dict.fromkeys(PAIRS, 0.0)
    paths = {name: str(data_file(session.data, file)) for name, file in PAIRS.items()}
    return {name: wv.evaluate_word_pairs(path)[1].statistic for name, path in paths.items()}


def analogy_scores(session: Session, wv: WordVectors) -> dict[str, float]:
    """Return the accuracy of analogies by addition and by multiplication; zeros for random text."""
    if session.quick:
        return {"COS-ADD": 0.0, "COS-MUL": 0.0}
    questions = str(data_file(session.data, "eval/questions-words.txt"))
    functions = {"COS-ADD": "most_similar", "COS-MUL": "most_similar_cosmul"}
    return {
        name: wv.evaluate_word_analogies(questions, ANSWERS, similarity_function=function)[0]
        for name, function in functions.items()
    }


def warm_up(session: Session, method: str, parameters: Parameters) -> None:
    """Compile the kernel of a method."""
    small = text_of(Session(session.data, True), 0)
    train_in_order(small, Parameters(dimension=parameters.dimension, window=parameters.window), method)


# --- words per mini-batch ---


def words_per_batch(
    session: Session,
    batches: tuple[int, ...] = (4, 16, 24, 48),
    window: int = 8,
    epochs: int = 2,
    alpha: float = 0.05,
    sentence: int = 25,
    words: int = 1_500_000,
) -> Measured:
    """Figure 4.4: quality and time by the number of words that share negative samples."""
    text = text_of(session, words, sentence)
    parameters = Parameters(dimension=DIMENSION, window=window, alpha=alpha, epochs=epochs, seed=session.seed)
    warm_up(session, "par", parameters)
    values = {}
    scores = {name: [] for name in PAIRS}
    seconds = []
    for size in batches:
        found = train_in_order(text, replace(parameters, minibatch=size), "par")
        seconds.append(found.cpu_seconds / epochs)
        values[f"B = {size}: CPU-seconds per epoch"] = seconds[-1]
        for name, score in pair_scores(session, vectors(text, found.W_in)).items():
            values[f"B = {size}: {name}"] = score
            scores[name].append(score)
    values["time with the smallest B over that with the largest"] = seconds[0] / seconds[-1]
    quality = [Curve(name, batches, found) for name, found in scores.items()]
    time_curve = Curve("", batches, seconds)
    return Measured(
        values,
        [
            Chart("quality", "words B of a mini-batch", "rank correlation", quality, x_log=True),
            Chart("time", "words B of a mini-batch", "CPU-seconds per epoch", [time_curve], x_log=True),
        ],
    )


# --- quality over epochs and time ---


def quality_over_epochs(
    session: Session,
    methods: tuple[str, ...] = ("par", "full", "sgns"),
    window: int = 8,
    epochs: int = 4,
    alpha: float = 0.05,
    words: int = 1_500_000,
) -> Measured:
    """Figures 4.6 and 4.8: scores over epochs and over time."""
    text = text_of(session, words)
    parameters = Parameters(dimension=DIMENSION, window=window, alpha=alpha, epochs=epochs, seed=session.seed)
    values = {}
    panels: dict[str, dict[str, list[Curve]]] = {name: {"epochs": [], "CPU-seconds": []} for name in PAIRS}
    for method in methods:
        warm_up(session, method, parameters)
        points = []

        def note(W_in: np.ndarray, seconds: float, points=points) -> None:
            points.append((seconds, pair_scores(session, vectors(text, W_in))))

        train_in_order(text, parameters, method, after_epoch=note)
        seconds = [point[0] for point in points]
        values[f"{method}: CPU-seconds per epoch"] = seconds[-1] / epochs
        for name in PAIRS:
            scores = [point[1][name] for point in points]
            values[f"{method}: {name} after {epochs} epochs"] = scores[-1]
            panels[name]["epochs"].append(Curve(method, list(range(1, epochs + 1)), scores))
            panels[name]["CPU-seconds"].append(Curve(method, seconds, scores))
    charts = []
    for name, both in panels.items():
        for label, curves in both.items():
            charts.append(Chart(name, label, "rank correlation", curves, x_log=label != "epochs"))
    return Measured(values, charts)


def final_quality(
    session: Session,
    methods: tuple[str, ...] = ("par", "sgns", "full"),
    window: int = 8,
    epochs: int = 2,
    alpha: float = 0.05,
    words: int = 2_000_000,
    analogies: bool = False,
) -> Measured:
    """Table 4.6, and Table 7 of FULL-W2V: scores after training."""
    text = text_of(session, words)
    parameters = Parameters(dimension=DIMENSION, window=window, alpha=alpha, epochs=epochs, seed=session.seed)
    values = {}
    for method in methods:
        wv = vectors(text, train_in_order(text, parameters, method).W_in)
        scores = pair_scores(session, wv)
        if analogies:
            scores |= analogy_scores(session, wv)
        values |= {f"{method}: {name}": score for name, score in scores.items()}
    return Measured(values)


def seconds_per_epoch(
    session: Session,
    methods: tuple[str, ...] = ("sgns", "par", "full"),
    window: int = 8,
    sentence: int = SENTENCE,
    words: int = 1_000_000,
) -> Measured:
    """Table 4.9: seconds of an epoch of Text8, from words per second on a part of our text."""
    text = text_of(session, words, sentence)
    parameters = Parameters(dimension=DIMENSION, window=window)
    seconds = {}
    for method in methods:
        warm_up(session, method, parameters)
        seconds[method] = train_in_order(text, parameters, method).cpu_seconds * TEXT8 / len(text.tokens)
    values = {f"{method}: seconds per epoch of Text8": value for method, value in seconds.items()}
    values |= {f"sgns over {method}": seconds["sgns"] / seconds[method] for method in methods if method != "sgns"}
    values |= {f"{method}: M words per CPU-second": TEXT8 / value / 1e6 for method, value in seconds.items()}
    return Measured(values)


# --- formulas, and sizes of the texts ---


def numbers_moved(session: Session, window: int = 8, negative: int = 5, batch: int = 24) -> Measured:
    """Section 4.5.5: elements moved on One Billion Word, in millions, by equations 4.4 to 4.7."""
    words, sentences = 804_269_958, 30_607_741
    case = movement.Case(sentences, words / sentences, DIMENSION, window, negative, 35 * 2**20, batch)
    values = {
        "SG-NS, all (M)": movement.sgns_total(case) / 1e6,
        "SG-NS, repulsion (M)": movement.sgns_repulsion(case) / 1e6,
        "PAR-Word2Vec, all (M)": movement.par_total(case) / 1e6,
        "PAR-Word2Vec, repulsion (M)": movement.par_repulsion(case) / 1e6,
        "SG-NS over PAR-Word2Vec, all": movement.sgns_total(case) / movement.par_total(case),
    }
    sizes = [4, 8, 16, 24, 48, 96, 192]
    moved = [movement.par_total(case._replace(batch=size)) / 1e6 for size in sizes]
    chart = Chart("PAR-Word2Vec", "words B of a mini-batch", "M elements moved", [Curve("", sizes, moved)], x_log=True)
    return Measured(values, [chart])


def sizes_of_texts(session: Session, words: int = 20_000_000) -> Measured:
    """Tables 4.3 of the dissertation and 3 of FULL-W2V: words of the vocabulary, and tokens."""
    text = text_of(session, words)
    known = int((text.tokens < len(text.vocabulary)).sum())
    values = {
        "text: vocabulary (count of 5 or more)": len(text.vocabulary),
        "text: tokens of these words": known,
        "text: sentences": len(text.ptr) - 1,
    }
    return Measured(values)


TINY = {"words": 0, "epochs": 1}
Runs = dict[str, Run]
DISSERTATION_RUNS: Runs = {
    "dissertation-table-4.3": Run(sizes_of_texts, {}, turns=1),
    "dissertation-figure-4.4": Run(words_per_batch, TINY | {"batches": (24,)}),
    "dissertation-section-4.5": Run(numbers_moved, {}, turns=1),
    "dissertation-figure-4.6": Run(quality_over_epochs, TINY | {"methods": ("par",)}),
    "dissertation-table-4.6": Run(final_quality, TINY | {"methods": ("par",)}),
    "dissertation-table-4.9": Run(seconds_per_epoch, {"words": 0, "methods": ("sgns", "par")}),
}
table_7: Callable[..., Measured] = partial(final_quality, methods=("full", "par"), window=5, analogies=True)
FULL_W2V_RUNS: Runs = {
    "fullw2v-table-3": Run(sizes_of_texts, {}, turns=1),
    "fullw2v-table-7": Run(table_7, TINY | {"methods": ("full",)}),
    "fullw2v-figure-6": Run(partial(seconds_per_epoch, window=5), {"words": 0, "methods": ("sgns", "par")}),
    "fullw2v-figure-7": Run(
        partial(seconds_per_epoch, window=5, sentence=25), {"words": 0, "methods": ("sgns", "par")}
    ),
}
