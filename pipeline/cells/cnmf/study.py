"""The files of an analysis by cNMF: what its steps read and write.

Files of results are in ``{output_dir}/{name}``, all others in ``{output_dir}/{name}/cnmf_tmp``. Their names begin
with ``{name}.``. A file ``*.df.npz`` is a table: data (rows, columns), index (rows,) and columns (columns,).
"""

import csv
import glob
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from ....io.errors import DataError
from ....io.matrices.anndata import MatrixFile
from ....io.stores.filesystems import replacing

#: Seeds of restarts are drawn from 1 to this number, without it.
SEED_LIMIT = 2**31 - 1


class Restart(NamedTuple):
    """One factorisation: its number of components, its number among those, and its seed."""

    n_components: int
    iteration: int
    seed: int


class Table(NamedTuple):
    """A matrix with names of its rows and columns."""

    data: np.ndarray
    rows: Sequence[str] | np.ndarray
    columns: Sequence[str] | np.ndarray


@dataclass(frozen=True)
class Study:
    """The files of one analysis."""

    output_dir: str
    name: str

    @property
    def folder(self) -> Path:
        """The folder of this analysis, which cNMF and corpusmill write to."""
        return Path(self.output_dir) / self.name

    def path(self, rest: str) -> Path:
        """Return the path of a temporary file of cNMF."""
        return self.folder / "cnmf_tmp" / f"{self.name}.{rest}"

    def result(self, rest: str) -> Path:
        """Return the path of a file of results."""
        return self.folder / f"{self.name}.{rest}"

    def existing(self, path: Path) -> Path:
        """Return a path that ``prepare`` wrote; raise DataError if it is not there."""
        if not path.exists():
            raise DataError(f"{path}: no such file; run `cnmf prepare` first")
        return path

    def matrix(self, rest: str) -> MatrixFile:
        """Open a matrix of cells that ``prepare`` wrote."""
        return MatrixFile(str(self.existing(self.path(rest))))

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that all restarts share."""
        return yaml.safe_load(self.existing(self.path("nmf_idvrun_params.yaml")).read_text())

    # --- restarts ---

    def spectra(self, restart: Restart) -> Path:
        """Return the path of the result of a restart."""
        return self.path(f"spectra.k_{restart.n_components}.iter_{restart.iteration}.df.npz")

    def n_planned(self) -> int:
        """Return the number of restarts that ``prepare`` planned.

        The file has pickled objects, which are code. Its array of row numbers has none, and only that is read.
        """
        with np.load(self.existing(self.path("nmf_params.df.npz")), allow_pickle=False) as arrays:
            return len(arrays["index"])

    def check_number(self, n_restarts: int) -> None:
        """Raise DataError if the command ``cnmf prepare`` planned another number of restarts."""
        planned = self.n_planned()
        if planned != n_restarts:
            raise DataError(
                f"{self.path('nmf_params.df.npz')}: prepare planned {planned} restarts, and the options give "
                f"{n_restarts}; pass the values of --components and --n-iter that prepare was given"
            )

    def trained(self) -> dict[int, list[int]]:
        """Return the numbers of the restarts whose spectra exist, for each number of components, ascending."""
        found: dict[int, list[int]] = {}
        for path in self.folder.glob(f"cnmf_tmp/{glob.escape(self.name)}.spectra.k_*.iter_*.df.npz"):
            components, iteration = path.name.removesuffix(".df.npz").split(".k_")[-1].split(".iter_")
            found.setdefault(int(components), []).append(int(iteration))
        return {components: sorted(found[components]) for components in sorted(found)}

    def merged_spectra(self, n_components: int, genes: Sequence[str]) -> Table:
        """Return the spectra of all restarts with this number of components, one below the other: (restarts * K, V).

        Writes the file that ``combine`` writes.
        """
        spectra = []
        names = []
        for iteration in self.trained()[n_components]:
            spectra.append(read_data(self.spectra(Restart(n_components, iteration, 0)), (n_components, len(genes))))
            names += [f"iter{iteration}_topic{component + 1}" for component in range(n_components)]
        merged = Table(np.concatenate(spectra), names, genes)
        write_table(self.path(f"spectra.k_{n_components}.merged.df.npz"), merged)
        return merged


def plan_restarts(numbers: Sequence[int], n_iter: int, seed: int | None) -> list[Restart]:
    """Return the restarts that ``prepare`` plans for these options, with the same seeds."""
    pairs = list(product(sorted(set(numbers)), range(n_iter)))
    # Without a seed, prepare draws different seeds each time; any will do.
    seeds = np.random.RandomState(seed or 0).randint(low=1, high=SEED_LIMIT, size=len(numbers) * n_iter)
    return [Restart(k, i, int(seeds[position])) for position, (k, i) in enumerate(pairs)]


# --- tables ---


def read_data(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """Return the numbers of a table; raise DataError unless they have this shape.

    Names are not read, because those that cNMF writes are pickled objects, which are code.
    """
    with np.load(path, allow_pickle=False) as arrays:
        data = arrays["data"]
    if data.shape != shape:
        raise DataError(f"{path}: has the shape {data.shape}, not {shape}; train it again with this analysis's files")
    return data


def write_table(path: Path, table: Table) -> None:
    """Write a table for cNMF, in one step."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, data=table.data, index=np.array(table.rows), columns=np.array(table.columns))


def write_text(path: Path, table: Table) -> None:
    """Write a table as text with tabs, in one step. The first column has the names of the rows."""
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(["", *np.array(table.columns).tolist()])
        for name, row in zip(table.rows, table.data, strict=True):
            writer.writerow([name, *row.tolist()])
