"""Restarts: factorisations of the same data that differ in their seeds, and perhaps in their numbers of components.

A restart is a number of components and a seed. This module has the side of the estimator NMF: which restarts to train,
and the models that they become. `side_by_side` has the side of the engine: the algorithm that trains all of them.
"""

import operator
import os
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import JsonObject
from ...engine.data import TrainingData
from ...engine.device import resolve_device
from ...engine.events import Callback
from ...engine.run import RunStore
from ..base.inputs import DataLike
from ..base.saved import SavedModel, TrainedModel
from ..base.text import TextEstimator
from .factorization import Factorization
from .frobenius import Hals
from .known import KnownEntries
from .side_by_side import (
    MAX_COLUMNS,
    SideBySide,
    columns_of_one,
    consecutive,
    last_errors,
    most_epochs,
    restart_history,
)
from .speckled import Speckled

if TYPE_CHECKING:
    from distributed import Client

#: Number of components and seed of a restart.
Restart = tuple[int, int]
#: Parameters of a single factorisation.
ONE: dict[str, object] = {"restarts": 1, "restart_components": None, "validation_fraction": 0.0}


class RestartedEstimator(TextEstimator):
    """Base class of an estimator that trains several factorisations and keeps the one with the lowest error."""

    n_components: int
    max_iter: int
    restarts: int
    restart_components: Sequence[int] | None
    validation_fraction: float
    device: str

    #: Restarts that replace those of the parameter ``restarts``.
    _chosen_restarts: Sequence[Restart] | None = None
    _max_columns: int = MAX_COLUMNS
    #: The arrays of all restarts, after training.
    _all_restarts: TrainedModel | None = None

    @abstractmethod
    def _single_algorithm(self, data: Corpus | Matrix, previous: SavedModel | None = None) -> Factorization:
        """Return the algorithm of one new factorisation."""

    def fit_restarts(
        self,
        X: DataLike,
        restarts: Sequence[Restart],
        *,
        client: "Client | None" = None,
        run: str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callback] = (),
        config: JsonObject | None = None,
        dashboard: bool = True,
        max_columns: int = MAX_COLUMNS,
    ) -> list[Self]:
        """Train many factorisations in one pass over the data per epoch, such as for consensus NMF.

        Each result equals that of a separate ``fit`` with the same number of components and seed, up to rounding. All
        other parameters are those of this estimator, which itself does not change. A restart that has converged leaves,
        and the next one begins. All of them share one run, which is resumed as a whole. If ``max_iter`` is raised for a
        run that has ended, restarts that left it early go on with new weights of the rows, and differ from a separate
        ``fit``.

        Parameters
        ----------
        X : store, URL or data in memory
            The training data, as for `fit`.
        restarts : sequence of (int, int)
            Number of components and seed of each factorisation.
        client : distributed.Client, optional
            Where to train. By default the current Dask client, or this process if there is none.
        run : str, optional
            Folder or URL that keeps the last epoch. The same call continues an interrupted run. By default the run is
            kept in a temporary folder and removed afterwards.
        callbacks : sequence of callables
            Each is called with every event of the run. Training stops after an epoch for which one returns True.
        config : dict, optional
            Written to the run's run.json in place of the parameters.
        dashboard : bool, default=True
            Whether to add the page ``/training`` to the dashboard of the client's scheduler.
        max_columns : int, default=1024
            Maximum number of components of all factorisations that are trained at the same time. A worker holds this
            number of columns of H for each chunk.

        Returns
        -------
        list of NMF
            One fitted model for each entry of ``restarts``, in this order. Its ``history_`` has its own errors.

        Raises
        ------
        ValueError
            If ``restarts`` is empty or has a pair twice, or for parameters other than ``solver="hals"``,
            ``init="random"`` and ``extrapolate=False``.
        DataError
            If the data cannot be trained on or does not fit into memory, or if ``run`` holds another run.

        Examples
        --------
        >>> import numpy as np
        >>> from corpusmill import NMF
        >>> A = np.random.default_rng(0).random((60, 20))
        >>> models = NMF(max_iter=20).fit_restarts(A, [(2, 0), (2, 1), (3, 0)])
        >>> [model.components_.shape for model in models]
        [(2, 20), (2, 20), (3, 20)]
        """
        pairs = _checked_pairs(restarts)
        trainer = type(self)(**self.get_params() | {"restarts": len(pairs), "restart_components": None})
        trainer._chosen_restarts = pairs
        trainer._max_columns = max_columns
        trainer.fit(X, client=client, run=run, callbacks=callbacks, config=config, dashboard=dashboard)
        return trainer.restarts_

    @property
    def restarts_(self) -> list[Self]:
        """One fitted model per restart of the last training, in order; empty if there was a single restart."""
        everything = self._all_restarts
        if everything is None:
            return []
        columns = everything.shared["restart_components"].tolist()
        squares = consecutive([K * K for K in columns])
        found = []
        for restart, seed in enumerate(everything.shared["restart_seeds"].tolist()):
            parameters = {"n_components": columns[restart], "random_state": seed} | ONE
            model = type(self)(**self.get_params() | parameters)
            model.model_ = _one_of(everything, columns, restart, squares[restart])
            model.history_ = restart_history(everything.shared, restart)
            model.n_iter_ = len(model.history_)
            model.model_.metadata = everything.metadata | {"metrics": model.history_[-1:]}
            model._trained_with = model.get_params()
            found.append(model)
        return found

    @property
    def validation_errors_(self) -> dict[int, float]:
        """The lowest root mean squared error of the left-out entries by number of components, ascending."""
        errors: dict[int, float] = {}
        for model in self.restarts_ if self.validation_fraction else []:
            error = model.history_[-1]["validation_error"]
            errors[model.n_components] = min(error, errors.get(model.n_components, error))
        return dict(sorted(errors.items()))

    def _describe_restarts(self) -> list[tuple[Self, JsonObject]]:
        found = []
        for model in self.restarts_:
            description: JsonObject = {
                "name": f"k{model.n_components}-seed{model._seed_number()}",
                "n_components": model.n_components,
                "random_state": model._seed_number(),
                "epochs": model.n_iter_,
                "error": model.history_[-1]["error"],  # of the reconstruction
            }
            if self.validation_fraction:
                description["validation_error"] = model.history_[-1]["validation_error"]
            found.append((model, description))
        return found

    def _planned_epochs(self) -> int:
        """Return the number of epochs to train."""
        restarts = self._restarts()
        if not restarts:
            return self.max_iter
        return most_epochs([components for components, _ in restarts], self._max_columns, self.max_iter)

    def _restarts(self) -> Sequence[Restart]:
        """Return the restarts to train; empty for a single factorisation."""
        if self._chosen_restarts is not None:
            return self._chosen_restarts
        numbers = [self.n_components] if self.restart_components is None else list(self.restart_components)
        if self.n_components not in numbers or len(set(numbers)) < len(numbers):
            raise ValueError(
                f"restart_components is {numbers}: give different numbers, with n_components, {self.n_components}"
            )
        if self.restarts == 1 and len(numbers) == 1 and not self.validation_fraction:
            return []
        first = self._seed_number()
        return [(number, seed) for number in numbers for seed in range(first, first + self.restarts)]

    def _side_by_side(self, data: Corpus | Matrix, restarts: Sequence[Restart]) -> SideBySide:
        """Return the algorithm that trains several restarts."""
        resolve_device(self.device, False, "training of several restarts")
        factorizations: list[Hals | KnownEntries] = []
        for components, seed in restarts:
            parameters = {"n_components": components, "random_state": seed} | ONE
            factorization = type(self)(**self.get_params() | parameters)._single_algorithm(data)
            # Other solvers need more than a product and a sweep.
            is_plain = type(factorization) is Hals and factorization.init == "random" and not factorization.extrapolate
            if not is_plain and not isinstance(factorization, KnownEntries):
                needed = {"solver": "hals", "init": "random", "extrapolate": False}
                given = self.get_params()
                wrong = [f"{name} is {given[name]!r}" for name, value in needed.items() if given[name] != value]
                wanted = ", ".join(f"{name}={value!r}" for name, value in needed.items())
                raise ValueError(f"{' and '.join(wrong)}, but several restarts need {wanted}")
            assert isinstance(factorization, Hals | KnownEntries)
            factorizations.append(replace(factorization, device="cpu"))
        algorithm = SideBySide(
            bounds=factorizations[0].bounds,
            factorizations=tuple(factorizations),
            max_iter=self.max_iter,
            max_columns=self._max_columns,
        )
        if self.validation_fraction or isinstance(factorizations[0], KnownEntries):
            return Speckled(**vars(algorithm), share=self.validation_fraction, seed=self._seed_number())
        return algorithm

    def _take(self, run: RunStore, step: int, data: TrainingData) -> None:
        """Set the attributes of a trained model from one step of a run; of several restarts, take the best."""
        super()._take(run, step, data)
        model = self._fitted()
        self._all_restarts = None
        if "restart_epochs" not in model.shared:
            return
        self._all_restarts = model
        errors = last_errors(model.shared)
        if self._chosen_restarts is None:
            # The error falls with the number of components, so it compares restarts with the same number only.
            errors = np.where(model.shared["restart_components"] == self.n_components, errors, np.inf)
        best = self.restarts_[int(np.argmin(errors))]
        self.model_ = best.model_
        if self.restart_components is not None:
            # The history of the run has the lowest error of any number of components.
            self.history_ = best.history_
        # One dictionary, so that what ``fit`` adds to it holds for all restarts.
        self.model_.metadata = model.metadata


def _one_of(everything: TrainedModel, columns: Sequence[int], restart: int, square: slice) -> TrainedModel:
    """Return the model of one restart, given K of each restart and its numbers in S and Q."""
    blocks = []
    for block in everything.blocks:
        blocks.append({"W": np.ascontiguousarray(columns_of_one(block, columns, restart))})
    K = columns[restart]
    shared = {name: everything.shared[name][square].reshape(K, K) for name in ("S", "Q")}
    if "idf" in everything.shared:
        shared["idf"] = everything.shared["idf"]
    return TrainedModel(blocks, shared, everything.vocabulary, everything.metadata)


def _checked_pairs(restarts: Sequence[Restart]) -> list[Restart]:
    """Return ``restarts`` as pairs of integers; raise ValueError for anything else."""
    pairs: list[Restart] = []
    if not isinstance(restarts, Iterable):
        raise ValueError(
            f"restarts is {restarts!r}: give pairs (n_components, random_state), such as [(10, 0), (9, 1)]"
        )
    for restart in restarts:
        try:
            components, seed = map(operator.index, restart)
        except (TypeError, ValueError):
            raise ValueError(f"restarts has {restart!r}: give pairs of whole numbers, n_components and seed") from None
        if components < 1:
            raise ValueError(f"restarts has {restart!r}: a factorisation has at least 1 component")
        pairs.append((components, seed))
    if not pairs:
        raise ValueError("restarts is empty: give at least one pair (n_components, random_state)")
    if len(set(pairs)) < len(pairs):
        raise ValueError(f"restarts has {len(pairs)} pairs, {len(set(pairs))} of them different: give each pair once")
    return pairs
