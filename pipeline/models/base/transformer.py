"""scikit-learn's contract for transformers. Only methods that scikit-learn itself calls import it."""

import sys
from typing import TYPE_CHECKING, Self

import numpy as np

from .columns import columns_of
from .inputs import DataLike, TransformOutput, in_container
from .saved import TrainedModel

if TYPE_CHECKING:
    from sklearn.utils import Tags

#: What `Transformer.set_output` accepts.
CONTAINERS = ("default", "pandas", "polars")


class NotFittedError(ValueError, AttributeError):
    """The estimator is not fitted yet. Where scikit-learn is loaded, its own error is raised instead."""


class Transformer:
    """Mixin for estimators whose ``transform`` returns one row per document.

    With it, estimators work in scikit-learn's pipelines, grid searches, ``clone`` and ``check_estimator``.
    """

    #: scikit-learn's ``clone`` copies this attribute.
    _sklearn_output_config: dict[str, str]

    model_: TrainedModel

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

    # --- what scikit-learn calls ---

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "model_", None) is not None

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(sparse=True, positive_only=True),
        )


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
