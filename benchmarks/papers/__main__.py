"""Every figure and table of the five papers: list them, run some, or run all and collect them on one page.

    python -m benchmarks.papers
    python -m benchmarks.papers dissertation-figure-2.5 saberlda-table-2
    python -m benchmarks.papers --all

A run writes its record NAME.json to docs/measurements/papers, from which the page of all figures is made. Runs on tiny
input, or with other parameters, are written to benchmarks/results/papers instead.
"""

import os

# One thread each, for BLAS as well. It reads these variables when NumPy is imported.
os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from benchmarks.common import DATA, EMULATOR, QUICK, Session, emulated, install_emulator
from benchmarks.papers import page
from benchmarks.papers.catalogue import FIGURES, NOT_MEASURED
from benchmarks.papers.claims import Ruling
from benchmarks.papers.registry import Figure, Parameter, converted

#: Folder of runs on tiny input, or with other parameters.
OTHER_RUNS = Path("benchmarks/results/papers")
PAGE = Path("benchmarks/results/papers.html")


@click.command(help=__doc__.replace("\n    python", "\n\b\n    python", 1))
@click.argument("names", nargs=-1, metavar="[FIGURE]...")
@DATA
@QUICK
@click.option("--all", "every", is_flag=True, help="Run all figures, each in a process of its own.")
@click.option("--gpu", is_flag=True, help="Run the figures that need a CUDA device.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Change a parameter; lists as 8,16.")
@click.option("--page", "only_page", is_flag=True, help="Run nothing; write the page of the records that exist.")
@click.option("--results", type=click.Path(path_type=Path), help="Folder of the records.")
def main(names, data, quick, every, gpu, settings, only_page, results):
    if not (names or every or gpu or only_page):
        if quick:
            with tempfile.TemporaryDirectory() as folder:
                failed = run_each(list(FIGURES), data, True, Path(folder))
                write_page(Path(folder), Path(folder) / "index.html")
            report(failed)
            return
        print_list()
        return
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise click.UsageError(explain_unknown(unknown[0]))
    if sum(map(bool, (names, every, gpu))) > 1:
        raise click.UsageError("name figures, or use --all, or use --gpu")
    chosen = [name for name, figure in FIGURES.items() if every or (gpu and figure.needs_device)]
    results = results or (OTHER_RUNS if quick or settings else page.RECORDS)
    failed = run_each(chosen, data, quick, results)
    for name in names:
        run_here(FIGURES[name], Session(data, quick), settings, results)
    if not names:
        write_page(results)
    report(failed)


def write_page(results: Path, path: Path = PAGE) -> None:
    """Write the page of the records in a folder."""
    page.write_page(path, page.read_results(results), FIGURES, NOT_MEASURED)
    print(f"page: {path}")


def report(failed: list[str]) -> None:
    """End with an error if figures failed."""
    if failed:
        raise click.ClickException(f"{len(failed)} figures failed: {', '.join(failed)}")


def explain_unknown(name: str) -> str:
    """Return why a figure cannot be run."""
    if name in NOT_MEASURED:
        return f"{name} is not measured: {NOT_MEASURED[name]}"
    return f"no figure {name!r}; without arguments, the program lists all"


def print_list() -> None:
    """Print one line for each figure, with its parameters, and those that are not measured."""
    for figure in FIGURES.values():
        note = ", needs a GPU, without one: on the CPU" if figure.needs_device else ""
        print(f"{figure.name}: {figure.title}")
        print(f"    {figure.our_setting} ({figure.minutes:g} min of CPU time{note})")
        print(f"    {', '.join(f'{name}={shown(value)}' for name, value in figure.parameters.items())}")
    print("\nNot measured:")
    for name, reason in NOT_MEASURED.items():
        print(f"{name}: {reason}")


def shown(value: Parameter) -> str:
    """Return a parameter as `--set` takes it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def run_each(names: list[str], data: Path, quick: bool, results: Path) -> list[str]:
    """Run figures in processes of their own, so that none affects the memory of another; return those that failed.

    First come those that are timed, one after the other. The load changes no value of the others: each core runs one.
    """

    def fails(name: str) -> bool:
        print(f"== {name}", flush=True)
        return run_in_process(name, data, quick, results, [], dict(os.environ)) != 0

    timed = [name for name in names if FIGURES[name].is_timed]
    others = [name for name in names if not FIGURES[name].is_timed]
    failed = [name for name in timed if fails(name)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed += [name for name, failing in zip(others, pool.map(fails, others), strict=True) if failing]
    return failed


def run_in_process(name, data, quick, results, settings, environment) -> int:
    """Run one figure in a process of its own and return its exit code."""
    command = [sys.executable, "-m", "benchmarks.papers", name, "--data", data, "--results", results]
    if quick:
        command.append("--quick")
    for setting in settings:
        command += ["--set", setting]
    return subprocess.run(list(map(str, command)), env=environment, check=False).returncode


def run_here(figure: Figure, session: Session, settings: tuple[str, ...], results: Path) -> None:
    """Measure one figure, write its record and print its table."""
    if figure.needs_device and not emulated() and not has_device():
        environment = dict(os.environ) | {EMULATOR: "9.0"}
        code = run_in_process(figure.name, session.data, True, results, settings, environment)
        if code:
            raise click.ClickException(f"{figure.name} failed on the CPU")
        return
    install_emulator()
    changed = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in figure.parameters:
            raise click.UsageError(f"{figure.name} has no parameter {name!r}")
        changed[name] = converted(text, figure.parameters[name])
    load = os.getloadavg()[0]
    wall = time.perf_counter()
    cpu = time.process_time()
    parameters, measured = figure.measure(session, changed)
    found = page.Result(
        parameters={name: shown(value) for name, value in parameters.items()},
        seconds=time.perf_counter() - wall,
        cpu_seconds=time.process_time() - cpu,
        simulated=emulated(),
        quick=session.quick,
        load=[round(load, 2), round(os.getloadavg()[0], 2)],
        turns=1 if session.quick else figure.turns,
        measured=measured,
    )
    missing = set(figure.paper) - set(measured.values)
    missing |= {one.claim.says for one in figure.verdicts(measured.values, {}) if one.ruling is Ruling.MISSING}
    # Other parameters give other labels.
    if missing and not (session.quick or settings):
        raise click.ClickException(f"{figure.name}: no value of ours for {', '.join(sorted(missing))}")
    command = f"python -m benchmarks.papers {figure.name}"
    page.write_figure(results, figure, found, " ".join([command, *(f"--set {one}" for one in settings)]))
    print(page.table_of(figure, found), flush=True)


def has_device() -> bool:
    """Return whether numba finds a CUDA device."""
    from corpusmill.pipeline.engine.device import has_cuda

    return has_cuda()


if __name__ == "__main__":
    main()
