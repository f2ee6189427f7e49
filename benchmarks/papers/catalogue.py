"""All figures and tables of the five papers by name, in the order of the papers."""

from pathlib import Path

from benchmarks.papers import (
    device_figures,
    dissertation_lda,
    full_w2v,
    nmf_figures,
    random_indexing_figures,
    saberlda_figures,
    word2vec_figures,
    word2vec_tasks,
)
from benchmarks.papers.registry import Figure, read_figures

FOLDER = Path(__file__).parent / "figures"
#: By file of texts: the functions that measure.
RUNS = {
    "dissertation-2.yaml": dissertation_lda.RUNS,
    "dissertation-3.yaml": nmf_figures.DISSERTATION_RUNS,
    "dissertation-4.yaml": word2vec_figures.DISSERTATION_RUNS | word2vec_tasks.RUNS,
    "saberlda.yaml": saberlda_figures.RUNS | device_figures.SABERLDA_RUNS,
    "alo.yaml": nmf_figures.ALO_RUNS,
    "fullw2v.yaml": word2vec_figures.FULL_W2V_RUNS | full_w2v.RUNS | device_figures.FULL_W2V_RUNS,
    "ri.yaml": random_indexing_figures.RUNS | device_figures.RANDOM_INDEXING_RUNS,
}

FIGURES: dict[str, Figure] = {}
#: Figures and tables that nothing here reproduces, and why.
NOT_MEASURED: dict[str, str] = {}
for file, runs in RUNS.items():
    own, missing = read_figures(FOLDER / file, runs)
    FIGURES |= own
    NOT_MEASURED |= missing
