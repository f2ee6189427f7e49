"""Models of a user's own module: an algorithm, such as "my_module:MyModel", in place of a kind of model.

The module must be importable where training starts: its file may lie in the current folder. It is sent to the workers
of a cluster, unless it is installed. A configuration, or a program in Python, names the module. A stored file, such as
model.json, names it too, but is no reason to import it, see `check_trusted`.
"""

import inspect
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ...configs.validation import plain_number
from ...io.errors import DataError
from ...io.stores.corpus import Corpus
from ..engine.algorithm import Algorithm, AnyAlgorithm
from ..engine.data import equal_blocks
from ..engine.executors import OnDask, executor_for
from .base.inputs import DataLike, FitOptions
from .base.saved import SavedModel
from .base.scikit_learn import RandomState
from .base.text import TextEstimator

#: The environment variable with the modules, separated by commas, that stored runs and models may name.
MODULES_VARIABLE = "CORPUSMILL_MODULES"


class OwnModel(TextEstimator):
    """Trains an algorithm of a user's own module. ``parameters`` are the fields of the algorithm, except ``bounds``."""

    _algorithm_class: ClassVar[type[AnyAlgorithm]]

    def __init__(
        self,
        parameters: Mapping[str, Any] | None = None,
        max_iter: int = 10,
        n_blocks: int | str = 1,
        random_state: RandomState = 0,
    ):
        self.parameters = parameters
        self.max_iter = max_iter
        self.n_blocks = n_blocks
        self.random_state = random_state

    def _train(self, X: DataLike, options: FitOptions, previous: SavedModel | None) -> Self:
        executor = executor_for(options.client)
        file = inspect.getsourcefile(self._algorithm_class)
        is_in_package = "." in self._algorithm_class.__module__
        if isinstance(executor, OnDask) and file is not None and not is_in_package and "site-packages" not in file:
            # Scheduler and workers import the module too, and may be on other machines. A package must be installed.
            executor.client.upload_file(file)
        return super()._train(X, options, previous)

    def measures(self) -> set[str] | None:
        """Return the names of the metrics of held-out documents; None if they depend on the documents."""
        try:
            return set(self._made((0, 1)).scores.metrics(defaultdict(lambda: np.ones(1)), True))
        except (TypeError, ValueError, LookupError, ArithmeticError):
            return None

    def _planned_epochs(self) -> int:
        return self.max_iter

    def _algorithm(self, data: Corpus, previous: SavedModel | None = None) -> AnyAlgorithm:
        return self._made(equal_blocks(data.n_words, self._first_blocks))

    def _made(self, bounds: tuple[int, ...]) -> AnyAlgorithm:
        """Return the algorithm with the user's parameters; raise ValueError for one that is unknown or missing."""
        given = dict(self.parameters or {})
        known = {field.name: field for field in fields(self._algorithm_class) if field.name != "bounds"}
        if unknown := sorted(given.keys() - known.keys()):
            raise ValueError(f"{self._kind} has no parameter {unknown[0]!r}: it has {', '.join(sorted(known))}")
        for name, field in known.items():
            if name not in given and field.default is MISSING and field.default_factory is MISSING:
                raise ValueError(f"{self._kind} needs a value for {name}: give it in parameters")
        # As they come from a configuration or from run.json: lists stand for tuples.
        values = {
            name: tuple(map(plain_number, value)) if isinstance(value, list | tuple) else plain_number(value)
            for name, value in given.items()
        }
        return self._algorithm_class(bounds=bounds, **values)

    def _transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray) -> np.ndarray:
        raise DataError(f"{self._kind} is an algorithm, which trains only: write an estimator to apply it to documents")


def check_trusted(kind: str, url: str) -> None:
    """Raise DataError unless this program has imported the module of a kind, or the user names it in a variable.

    The kind is from a file at ``url``, which may come from a stranger.
    """
    module = kind.partition(":")[0]
    if module not in sys.modules and module not in os.environ.get(MODULES_VARIABLE, "").split(","):
        raise DataError(
            f"{url}: made by {kind}, and a stored file is no reason to run code: if you trust this module, set "
            f"the environment variable {MODULES_VARIABLE}={module}, or import it first in Python"
        )


@cache
def own_estimator(kind: str) -> type[TextEstimator]:
    """Return the estimator that "module:class" names: the class itself, or `OwnModel` of an algorithm.

    Raises DataError if there is none.
    """
    module, _, name = kind.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        # A command of an installed package does not look into the current folder by itself.
        sys.path.append(here)
    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise DataError(
            f"{kind}: {error}; start where {module.partition('.')[0]}.py is, or install its package"
        ) from error
    if isinstance(found, type) and issubclass(found, TextEstimator):
        return found
    if isinstance(found, type) and issubclass(found, Algorithm):
        return type(name, (OwnModel,), {"_kind": kind, "_algorithm_class": found, "__module__": __name__})
    raise DataError(f"{kind}: {name} is neither an estimator nor an algorithm; see docs/how-to/adding-a-model.md")
