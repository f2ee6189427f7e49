"""What scikit-learn expects of estimators: parameters, names of columns, data frames as results.

Only methods that scikit-learn itself calls import it, because corpusmill does not require it.
"""

import hashlib
import inspect
import json
import re
import sys
from collections.abc import Mapping, Set
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from ....configs.validation import plain_number
from ....io.stores.store import JsonObject, to_json
from ...engine.algorithm import EXECUTION_PARAMETERS
from ..other_names import PARAMETERS, explain_attribute, hint_about
from .inputs import DataLike, TransformOutput, columns_of, in_container
from .saved import TrainedModel

if TYPE_CHECKING:
    from sklearn.utils import Tags

Generator = np.random.RandomState | np.random.Generator
#: What ``random_state`` may be. None stands for 0.
RandomState = int | Generator | None

#: Seeds that are drawn are below this number, as in scikit-learn.
SEED_LIMIT = 2**31 - 1
ChoiceT = TypeVar("ChoiceT")
#: What `set_output` accepts.
CONTAINERS = ("default", "pandas", "polars")


class NotFittedError(ValueError, AttributeError):
    """The estimator is not fitted yet. Where scikit-learn is loaded, its own error is raised instead."""


class ScikitLearnEstimator:
    """An estimator as scikit-learn's pipelines, grid searches, ``clone`` and ``check_estimator`` expect it.

    Its constructor stores each argument in an attribute of the same name. Its ``transform`` returns one row per
    document.
    """

    #: Parameters that decide the shape or the meaning of the trained arrays, so that they must stay as they are.
    _fixed_parameters: ClassVar[tuple[str, ...]] = ()
    #: Parameters that earlier versions had, with the value that means what this version does. Files may have them.
    _former_parameters: ClassVar[Mapping[str, object]] = MappingProxyType({})

    #: The parameters that the model was trained with. Without a model, there are none.
    _trained_with: JsonObject
    #: The seed that the last training drew, if ``random_state`` is a generator.
    _drawn_seed: int
    #: scikit-learn's ``clone`` copies this attribute.
    _sklearn_output_config: dict[str, str]

    model_: TrainedModel

    if not TYPE_CHECKING:
        __getattr__ = explain_attribute

    # --- parameters ---

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. A number of NumPy becomes Python's, because sums of NumPy's short integers overflow."""
        if name in (are_real := _parameters_of(type(self))):  # type: ignore[arg-type]  # a class is hashable
            value = plain_number(value, are_real[name])
        super().__setattr__(name, value)

    @classmethod
    def _parameter_names(cls) -> list[str]:
        """Return the names of the constructor's parameters."""
        return list(_parameters_of(cls))  # type: ignore[arg-type]  # a class is hashable

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
        parameters = {**self._former_parameters, **self._stored_params()}
        decisive = {name: value for name, value in parameters.items() if name not in EXECUTION_PARAMETERS}
        return hashlib.sha256(json.dumps(decisive, default=to_json, sort_keys=True).encode()).hexdigest()[:8]

    def _chosen(self, parameter: str, choices: Mapping[str, ChoiceT]) -> ChoiceT:
        """Return what the value of a parameter stands for; raise ValueError with the choices for any other value."""
        value = getattr(self, parameter)
        if value not in choices:
            raise ValueError(f"{parameter} is {value!r}: choose one of {', '.join(choices)}")
        return choices[value]

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

    # --- the trained model ---

    @property
    def _n_features_out(self) -> int:
        """Columns of what ``transform`` returns."""
        raise NotImplementedError

    def _fitted(self) -> TrainedModel:
        model = getattr(self, "model_", None)
        if model is None:
            raise _not_fitted(f"this {type(self).__name__} is not fitted: call fit first")
        return model

    # --- columns of the input ---

    @property
    def n_features_in_(self) -> int:
        """Columns of the matrix that ``fit`` received, or words of the corpus."""
        model = self._fitted()
        columns = columns_of(model)
        return model.vocabulary.num_rows if columns is None else columns.n_columns

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Column names of the data frame that ``fit`` received: (V,) object. Other inputs have none."""
        columns = columns_of(self._fitted())
        if columns is None or columns.names is None:
            raise AttributeError(f"this {type(self).__name__} was not fitted on a data frame with column names")
        return np.array(columns.names, dtype=object)

    # --- columns of the output ---

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return the names of the columns of `transform`.

        Parameters
        ----------
        input_features : ignored
            Present for scikit-learn's pipelines.

        Returns
        -------
        numpy.ndarray
            (K,) object: the name of the class in lower case, and the number of the column.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.get_feature_names_out()
        array(['lda0', 'lda1'], dtype=object)
        """
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}{k}" for k in range(self._n_features_out)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` and `fit_transform` return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            "default" is a NumPy array. None leaves the setting as it is.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If ``transform`` is another one.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> list(lda.set_output(transform="pandas").transform(["a storm at sea"]).columns)
        ['lda0', 'lda1']
        """
        if transform is None:
            return self
        if transform not in CONTAINERS:
            raise ValueError(f"transform is {transform!r}: choose one of {', '.join(CONTAINERS)}")
        self._sklearn_output_config = {"transform": transform}
        return self

    def _as_output(self, rows: np.ndarray, X: DataLike) -> TransformOutput:
        """Return rows (D, K) in the container that `set_output`, or scikit-learn's global setting, chose."""
        container = getattr(self, "_sklearn_output_config", {}).get("transform")
        if container is None:
            container = _global_container()
        if container == "default":
            return rows
        return in_container(rows, self.get_feature_names_out().tolist(), container, X)

    @property
    def _takes_nan(self) -> bool:
        """Whether entries of a matrix may be NaN. The matrix is then stored in sparse form, without them."""
        return False

    # --- what scikit-learn calls ---

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "model_", None) is not None

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(sparse=True, positive_only=True, allow_nan=self._takes_nan),
        )


@cache
def _parameters_of(estimator: type) -> dict[str, bool]:
    """Return the names of the constructor's parameters, and whether each is a real number and no integer."""
    annotations = {name: item.annotation for name, item in inspect.signature(estimator).parameters.items()}
    words = {name: set(re.findall(r"\w+", str(annotation))) for name, annotation in annotations.items()}
    return {name: "float" in found and "int" not in found for name, found in words.items()}


def _not_fitted(message: str) -> Exception:
    """Return the error for an estimator that is not fitted: scikit-learn's own, if scikit-learn is loaded."""
    if "sklearn" not in sys.modules:
        return NotFittedError(message)
    from sklearn import exceptions

    return exceptions.NotFittedError(message)


def _global_container() -> str:
    """Return the container that ``sklearn.set_config(transform_output=...)`` chose, if scikit-learn is loaded."""
    if "sklearn" not in sys.modules:
        return "default"
    from sklearn import get_config

    return get_config()["transform_output"]
