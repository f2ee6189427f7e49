"""Two solvers of NMF for comparison: FAST-HALS in the order of ALO-NMF (Moon et al. 2020), and ANLS."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from corpusmill import NMF
from corpusmill.io.stores.corpus import Corpus
from corpusmill.io.stores.matrix import Matrix
from corpusmill.io.stores.store import Arrays
from corpusmill.kernels.nmf.hals import UpdateRule
from corpusmill.pipeline.engine.algorithm import AnyAlgorithm, PreviousModel
from corpusmill.pipeline.engine.device import runs_on_cuda
from corpusmill.pipeline.engine.run import ADDED
from corpusmill.pipeline.models.base.saved import SavedModel
from corpusmill.pipeline.models.nmf.frobenius import SOLVERS, FactorSolver, FrobeniusFactorization, Hals

from ..kernels import pivoting, tiled


@dataclass(frozen=True, kw_only=True)
class PaperHals(Hals):
    """FAST-HALS in the order of Algorithm 1 of ALO-NMF, which normalises each column of W right after its update.

    The normalisation needs all rows of W, so W has one block. ``tile`` is the width T of a tile of columns. 0 takes the
    width that moves the fewest numbers (equation 11).
    """

    tile: int = field(default=0, metadata=ADDED)

    def first_block(self, data: Corpus | Matrix, block: int, previous: PreviousModel | None) -> Arrays:
        """Return the first W with columns of length 1, which Algorithm 1 only has after its first epoch."""
        begun = super().first_block(data, block, previous)
        if previous is None:
            begun["W"] = begun["W"] / np.linalg.norm(begun["W"], axis=0)
        return begun

    def update_columns(
        self, W: np.ndarray, P: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Update W tile by tile (ALO-NMF, section 4)."""
        sweep_columns = tiled.sweep_columns
        if runs_on_cuda(self.device):
            from ..kernels import tiled_cuda

            sweep_columns = tiled_cuda.sweep_columns
        tile = self.tile or tiled.tile_size(self.n_components)
        swept, S, inner = sweep_columns(W, P, Q.astype(self.dtype), tile, self.sweeps)
        return swept, S, inner, 0.0

    def rule(self, S: np.ndarray, factor: Literal["W", "H"]) -> UpdateRule:
        """Return the rule of Algorithm 1 for H."""
        return tiled.rule_of_documents(S, self.dtype)


@dataclass(frozen=True, kw_only=True)
class Anls(FactorSolver):
    """Alternating non-negative least squares by block principal pivoting (Kim and Park 2011)."""

    def update(self, R: np.ndarray, S: np.ndarray, X: np.ndarray) -> None:
        """Solve the least squares problem of each row exactly."""
        X[:] = pivoting.block_principal_pivoting(R, S)


class PaperNMF(NMF):
    """NMF with the solvers of this module in addition: ``solver="paper"`` and ``solver="anls"``."""

    #: Width of a tile of the solver "paper": see `PaperHals`.
    tile: ClassVar[int] = 0

    _kind = f"{__name__}:PaperNMF"
    _solvers: ClassVar[Mapping[str, type[FrobeniusFactorization]]] = SOLVERS | {"paper": PaperHals, "anls": Anls}

    def _algorithm(self, data: Corpus | Matrix, previous: SavedModel | None = None) -> AnyAlgorithm:
        algorithm = super()._algorithm(data, previous)
        return replace(algorithm, tile=self.tile) if isinstance(algorithm, PaperHals) else algorithm

    def _check(self, data: Corpus | Matrix, previous: SavedModel | None) -> None:
        super()._check(data, previous)
        is_plain = self.alpha_W == 0 and self.alpha_H in ("same", 0) and not self.extrapolate
        if self.solver in ("paper", "anls") and not (is_plain and self.convergence == "error"):
            raise ValueError("alpha_W, alpha_H, extrapolate and convergence='gradient' need solver='hals'")
        if self.solver == "paper" and self._first_blocks > 1:
            raise ValueError("solver='paper' updates all rows of W together: set n_blocks to 1")
