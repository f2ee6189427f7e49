"""Parameters of estimators: the arguments of their constructors."""

import hashlib
import inspect
import json
from collections.abc import Set
from typing import Any, ClassVar, Self

import numpy as np

from ....io.stores.store import JsonObject, to_json
from ...engine.algorithm import EXECUTION_PARAMETERS
from ..other_names import PARAMETERS, ExplainsOtherNames, hint_about

Generator = np.random.RandomState | np.random.Generator
#: What ``random_state`` may be. None stands for 0.
RandomState = int | Generator | None

#: Seeds that are drawn are below this number, as in scikit-learn.
SEED_LIMIT = 2**31 - 1


class Parameterised(ExplainsOtherNames):
    """Mixin for classes whose constructor stores each argument in an attribute of the same name.

    The methods are those of scikit-learn's BaseEstimator, which this is not, because corpusmill does not require
    scikit-learn.
    """

    #: Parameters that decide the shape or the meaning of the trained arrays, so that they must stay as they are.
    _fixed_parameters: ClassVar[tuple[str, ...]] = ()

    #: The parameters that the model was trained with. Without a model, there are none.
    _trained_with: JsonObject
    #: The seed that the last training drew, if ``random_state`` is a generator.
    _drawn_seed: int

    @classmethod
    def _parameter_names(cls) -> list[str]:
        """Return the names of the constructor's parameters."""
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> JsonObject:
        """Return the constructor's parameters.

        Parameters
        ----------
        deep : ignored
            Present for scikit-learn's pipelines.

        Returns
        -------
        dict
            The parameters by name.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> LDA(n_components=20).get_params()["n_components"]
        20
        """
        return {name: getattr(self, name) for name in self._parameter_names()}

    def _stored_params(self) -> JsonObject:
        """Return the parameters as files have them: the seed that was drawn in place of a generator, sets as lists."""
        stored = {}
        for name, value in self.get_params().items():
            if isinstance(value, Generator):
                value = self._drawn_seed
            elif isinstance(value, Set):
                value = sorted(value)
            stored[name] = value
        return stored

    def _parameters_digest(self) -> str:
        """Return a digest of the parameters that decide results: 8 hexadecimal digits."""
        decisive = {name: value for name, value in self._stored_params().items() if name not in EXECUTION_PARAMETERS}
        return hashlib.sha256(json.dumps(decisive, default=to_json, sort_keys=True).encode()).hexdigest()[:8]

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters of the constructor.

        Parameters
        ----------
        **parameters : values by name
            New values. The other parameters stay as they are.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no parameter of this name.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> LDA(n_components=20).set_params(max_iter=50)
        LDA(n_components=20, max_iter=50)
        """
        for name, value in parameters.items():
            if name not in self._parameter_names():
                hint = hint_about(name, type(self), PARAMETERS) or f"it has {', '.join(self._parameter_names())}"
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}: {hint}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        given = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if repr(v) != repr(defaults[k].default))
        return f"{type(self).__name__}({given})"

    def _check_fixed_parameters(self) -> None:
        """Raise ValueError if a parameter was changed after training that the trained arrays depend on."""
        trained_with = getattr(self, "_trained_with", {})
        for name in self._fixed_parameters:
            now = self._stored_params()[name]
            if name in trained_with and trained_with[name] != now:
                raise ValueError(
                    f"{name} is {now!r}, but the model was trained with {trained_with[name]!r}: set it back with "
                    f"set_params, or call fit to train a new model"
                )

    def _draw_seed(self) -> None:
        """Draw a seed if ``random_state`` is a generator."""
        generator = getattr(self, "random_state", None)
        if isinstance(generator, np.random.Generator):
            self._drawn_seed = int(generator.integers(SEED_LIMIT))
        elif isinstance(generator, np.random.RandomState):
            self._drawn_seed = generator.randint(SEED_LIMIT)

    def _seed_number(self) -> int:
        """Return the seed of all random draws: ``random_state``, or what the last training drew from it."""
        random_state: RandomState = getattr(self, "random_state", None)
        return self._drawn_seed if isinstance(random_state, Generator) else int(random_state or 0)
