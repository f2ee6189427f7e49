"""Compare the models of two versions of the sources byte by byte: ``make same-bits BASE=COMMIT``.

All cases of `recorded.cases` are trained on this machine by the commit and by the working tree: in one process, and on
three workers. The working tree also resumes runs that the commit stopped after an epoch. All must have the same bytes,
and the same fingerprint. The program prints a line per case, and ends with 1 if anything differs.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import numpy as np

from .arrays import same_bytes
from .cases import CASES

ROOT = Path(__file__).parents[2]
FOLDERS = ("configs", "io", "kernels", "pipeline")
#: Columns of the table, and the outputs that must be equal to the base in one process.
COLUMNS = {"1 worker": ("now",), "3 workers": ("base-3", "now-3"), "resumed": ("resumed",)}


def checkout(commit: str) -> Path:
    """Return a folder with the sources of a commit. It stays for the next call, with its compiled kernels.

    Its folder ``packages`` is one in which ``import corpusmill`` finds these sources.
    """
    name = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    folder = ROOT / ".venv" / "bases" / name
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        # An interrupted call must not leave a part of the sources under this name.
        unpacked = Path(tempfile.mkdtemp(dir=folder.parent))
        subprocess.run(["tar", "-x", "-C", str(unpacked)], input=_git("archive", name), check=True)
        package = unpacked / "packages" / "corpusmill"
        package.mkdir(parents=True)
        for part in FOLDERS:
            (package / part).symlink_to(Path("..", "..", part))
        (package / "__init__.py").symlink_to(Path("..", "..", "pipeline", "package", "__init__.py"))
        unpacked.rename(folder)
    return folder


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def run(sources: Path, work: Path, names: list[str], output: str, *options: str) -> None:
    """Train the cases by a version, in a process of its own."""
    _python(sources, work, "-m", "recorded.train", "--sources", sources, "--output", output, *options, work, *names)


def _python(sources: Path, work: Path, *arguments: str | Path) -> None:
    # The working tree is installed in this environment, and has no folder "packages".
    paths = [sources / "packages", ROOT / "tests", sources]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, *arguments], cwd=work, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


@click.command()
@click.option("--base", required=True, help="The commit whose models are right.")
@click.option(
    "--cases", default="", help="Names of cases, or their beginnings, with commas between them; default: all."
)
@click.option("--skip-cluster", is_flag=True, help="Train in one process only.")
def main(base: str, cases: str, skip_cluster: bool) -> None:
    """Train the cases with both versions, and print the comparison."""
    names = [name for name in CASES if name.startswith(tuple(cases.split(",")))]
    if not names:
        raise click.BadParameter(f"no case begins with {cases}; there are {', '.join(CASES)}", param_hint="--cases")
    before, now = checkout(base), ROOT
    with tempfile.TemporaryDirectory(prefix="corpusmill-bits-") as folder, ThreadPoolExecutor(2) as pool:
        work = Path(folder)
        write = "from pathlib import Path; from recorded.cases import write_data; write_data(Path('data'))"
        _python(before, work, "-c", write)

        def train_before() -> None:
            run(before, work, names, "stopped", "--stops")
            run(before, work, names, "base")

        def train_now() -> None:
            run(now, work, names, "now")

        # Each version compiles the kernels that are missing in its first process.
        for done in [pool.submit(train_before), pool.submit(train_now)]:
            done.result()
        run(now, work, names, "resumed", "--runs", "stopped")
        if not skip_cluster:
            run(before, work, names, "base-3", "--workers", "3")
            run(now, work, names, "now-3", "--workers", "3")
        sys.exit(1 if compare(work, names, skip_cluster) else 0)


def compare(work: Path, names: list[str], skip_cluster: bool) -> int:
    """Print a line per case, then the reasons, and return the number of differences."""
    columns = {title: outputs for title, outputs in COLUMNS.items() if not (skip_cluster and title == "3 workers")}
    found = {path.stem: dict(np.load(path)) for path in work.glob("*.npz")}
    errors = {path.stem: json.loads(path.read_text()) for path in work.glob("*.json")}
    click.echo("".join([f"{'case':28}", *(f"{title:12}" for title in columns), "fingerprint"]))
    reasons = []
    for case in names:
        expected = _of_case(case, found["base"])
        marks = []
        for title, outputs in columns.items():
            reason = _difference(case, expected, outputs, found, errors)
            marks.append(f"{'differs' if reason else 'equal':12}")
            if reason:
                reasons.append(f"{case}, {title}: {reason}")
        click.echo("".join([f"{case:28}", *marks, str(expected.get("fingerprint", "none"))]))
    click.echo("\n".join([*reasons, f"{len(names)} cases, {len(reasons)} differences from the base"]))
    return len(reasons)


def _difference(case: str, expected: dict[str, np.ndarray], outputs: tuple[str, ...], found: dict, errors: dict) -> str:
    """Say what differs first in these outputs; return "" if nothing does."""
    for output in ("base", "stopped", *outputs):
        if case in errors[output]:
            return f"{output}: {errors[output][case]}"
    for output in outputs:
        arrays = _of_case(case, found[output])
        if arrays.keys() != expected.keys():
            return f"{output}: other names of arrays"
        for name, array in expected.items():
            if not same_bytes(array, arrays[name]):
                return f"{output}: other {name}"
    return ""


def _of_case(case: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {key.split("/")[1]: array for key, array in arrays.items() if key.split("/")[0] == case}


if __name__ == "__main__":
    main()
