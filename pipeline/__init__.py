"""Estimators, the epoch engine, clusters and the command line: the only room that imports dask."""

from ..io.corpus import Corpus
from .lda import LDA

#: Estimators by the name that configs and saved models use.
ESTIMATORS = {estimator.kind: estimator for estimator in (LDA,)}

__all__ = ["ESTIMATORS", "LDA", "Corpus"]
