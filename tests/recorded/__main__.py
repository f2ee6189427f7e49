"""Compare the models of two versions of the sources byte by byte: ``make same-bits BASE=COMMIT``.

All cases of `recorded.cases` are trained on this machine by the commit and by the working tree: in one process, and on
three workers. The working tree also resumes runs that the commit stopped after an epoch. All must have the same bytes.
The program prints a line per case, and ends with 1 if anything differs.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[2]
FOLDERS = ("configs", "io", "kernels", "pipeline")


def checkout(commit: str) -> Path:
    """Return a folder with the sources of a commit. It stays for the next call, with its compiled kernels."""
    name = subprocess.run(["git", "rev-parse", commit], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    folder = ROOT / ".venv" / "commits" / name.strip()
    if not folder.exists():
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        folder.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def package(tree: Path, folder: Path) -> Path:
    """Make a folder in which ``import corpusmill`` finds the sources of a tree."""
    inside = folder / "corpusmill"
    inside.mkdir(parents=True)
    for name in FOLDERS:
        (inside / name).symlink_to(tree / name)
    (inside / "__init__.py").symlink_to(tree / "pipeline" / "package" / "__init__.py")
    return folder


def run(tree: Path, packages: Path, work: Path, *options: str) -> None:
    """Train the cases by the sources of a tree, in a process of its own."""
    paths = [str(packages), str(ROOT / "tests"), str(tree)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "recorded.train", str(work), *options]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-4000:]}")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--base", required=True, help="The commit whose models are right.")
@click.option("--skip-cluster", is_flag=True, help="Train in one process only.")
def main(names: tuple[str, ...], base: str, skip_cluster: bool) -> None:
    """Train the cases of these names, or all, with both versions, and print the comparison."""
    with tempfile.TemporaryDirectory(prefix="corpusmill-bits-") as folder:
        work = Path(folder)
        old = checkout(base)
        before, now = package(old, work / "before"), package(ROOT, work / "now")
        steps = [
            (old, before, "base", []),
            (old, before, "stopped", ["--stops"]),
            (ROOT, now, "now", []),
            (ROOT, now, "resumed", ["--runs", "stopped"]),
        ]
        if not skip_cluster:
            steps.append((old, before, "base-3", ["--workers", "3"]))
            steps.append((ROOT, now, "now-3", ["--workers", "3"]))
        for tree, packages, output, options in steps:
            run(tree, packages, work, "--output", output, *options, *names)
        compared = [output for _, _, output, _ in steps if output not in ("base", "stopped")]
        sys.exit(compare(work, compared))


def compare(work: Path, names: list[str]) -> int:
    """Print a line per case, and return the number of cases that differ."""
    expected = dict(np.load(work / "base.npz"))
    found = {name: dict(np.load(work / f"{name}.npz")) for name in names}
    errors = {name: json.loads((work / f"{name}.json").read_text()) for name in ["base", *names]}
    cases = sorted({key.split("/")[0] for key in expected} | {case for each in errors.values() for case in each})
    click.echo(" ".join(["case".ljust(28), *(name.ljust(10) for name in names)]))
    bad = 0
    for case in cases:
        marks = []
        for name in names:
            marks.append(_difference(case, expected, found[name], errors["base"].get(case) or errors[name].get(case)))
        click.echo(" ".join([case.ljust(28), *(mark.ljust(10) for mark in marks)]))
        bad += any(mark != "equal" for mark in marks)
    click.echo(f"{len(cases)} cases, {bad} of them differ from the base")
    return bad


def _difference(case: str, expected: dict, found: dict, error: str | None) -> str:
    """Say "equal", or what differs first."""
    if error:
        return error
    for key in expected:
        if not key.startswith(f"{case}/"):
            continue
        if key not in found or not _same_bytes(expected[key], found[key]):
            return f"other {key.split('/')[1]}"
    return "equal"


def _same_bytes(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


if __name__ == "__main__":
    main()
