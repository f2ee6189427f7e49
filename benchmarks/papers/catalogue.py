"""All figures and tables of the five papers by name, in the order of the papers."""

from pathlib import Path

from benchmarks.papers import dissertation_lda
from benchmarks.papers.registry import Figure, read_figures

FOLDER = Path(__file__).parent / "figures"
#: By file of texts: the functions that measure.
RUNS = {
    "dissertation-2.yaml": dissertation_lda.RUNS,
}

FIGURES: dict[str, Figure] = {}
#: Figures and tables that nothing here reproduces, and why.
NOT_MEASURED: dict[str, str] = {}
for file, runs in RUNS.items():
    own, missing = read_figures(FOLDER / file, runs)
    FIGURES |= own
    NOT_MEASURED |= missing
