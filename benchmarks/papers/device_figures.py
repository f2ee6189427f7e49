"""Figures of CUDA kernels. Without a device their PTX runs on the CPU, and gives counts instead of speeds."""

from collections.abc import Callable

from corpusmill.kernels.cuda.ledger import LEDGER, Operation

from benchmarks.common import Session, emulated
from benchmarks.gpu.data import QUICK_TOKENS
from benchmarks.gpu.word2vec import QUICK_TEXT, measure_methods
from benchmarks.papers.registry import Chart, Curve, Measured, Run
from benchmarks.papers.saberlda_cuda import lda_bandwidth, lda_parts, lda_tuning
from benchmarks.papers.vector_lengths import QUICK_NUMBERS, normalise


def counted(session: Session, measure: Callable[[Session], None]) -> Measured:
    """Run, and return launches by kernel and bytes that were copied; on a device also what the run measured."""
    with LEDGER.recording() as found:
        measure(session)
    launches: dict[str, int] = {}
    values: dict[str, float] = {}
    for entry, total in found.items():
        if entry.operation == Operation.LAUNCH:
            launches[entry.cause] = launches.get(entry.cause, 0) + total.calls
        elif entry.operation in (Operation.UPLOAD, Operation.DOWNLOAD):
            label = f"bytes of each {entry.operation.value}, sum"
            values[label] = values.get(label, 0) + total.nbytes
    values |= {f"launches of {name}": number for name, number in launches.items()}
    if not emulated():
        values |= flattened(session.figures)
    bars = Curve("", list(launches), list(launches.values()))
    return Measured(values, [Chart("kernels", "", "launches", [bars], bars=True)])


def flattened(figures: dict) -> dict[str, float]:
    """Return numbers and lists of numbers as one number per label."""
    values = {}
    for label, found in figures.items():
        numbers = found if isinstance(found, list) else [found]
        for place, number in enumerate(numbers):
            values[f"{label}, {place + 1}" if len(numbers) > 1 else label] = number
    return values


def optimisations(session: Session, tokens: int = 50_000_000, topics: int = 1000) -> Measured:
    """SaberLDA, Figure 9: milliseconds of each part as the optimisations are added."""
    return counted(session, lambda session: lda_parts(session, tokens, topics))


def tuning(session: Session, tokens: int = 50_000_000, topics: tuple[int, ...] = (1000, 3000, 5000)) -> Measured:
    """SaberLDA, Figure 10: seconds by chunks, streams and threads."""
    return counted(session, lambda session: lda_tuning(session, tokens, topics))


def bandwidth(session: Session, tokens: int = 50_000_000, topics: int = 1000) -> Measured:
    """SaberLDA, Table 4: bytes per second by counted bytes."""
    return counted(session, lambda session: lda_bandwidth(session, tokens, topics))


def word2vec(session: Session, words: int = 17_005_207) -> Measured:
    """FULL-W2V, Figure 6: words per second."""
    return counted(session, lambda session: measure_methods(session, words))


def lengths(session: Session, numbers: int = 1 << 26) -> Measured:
    """Random indexing, Figures 6.1 and 6.2: GB per second of lengths and of scaling."""
    return counted(session, lambda session: normalise(session, numbers))


SABERLDA_RUNS = {
    # With fewer topics, the rows of so few documents would be dense, and G0 draws from sparse rows only.
    "saberlda-figure-9b": Run(optimisations, {"tokens": QUICK_TOKENS, "topics": 128}, needs_device=True),
    "saberlda-figure-10b": Run(tuning, {"tokens": QUICK_TOKENS, "topics": (16,)}, needs_device=True),
    "saberlda-table-4": Run(bandwidth, {"tokens": QUICK_TOKENS, "topics": 16}, needs_device=True),
}
FULL_W2V_RUNS = {"fullw2v-figure-6b": Run(word2vec, {"words": QUICK_TEXT}, needs_device=True)}
RANDOM_INDEXING_RUNS = {"ri-figure-6.1": Run(lengths, {"numbers": QUICK_NUMBERS}, needs_device=True)}
