"""Decide whether a new version may be published."""

import math
from collections.abc import Sequence

import numpy as np

from .....io.stores.store import Arrays
from ....models.base.estimator import Estimator
from ....models.versions import VersionFacts, VersionRecord

#: Scores on held-out documents, the preferred one first: 1 if a larger value is better, -1 if a smaller one is.
MEASURES = {"held_out_log_likelihood": 1, "held_out_loss": -1, "held_out_relative_error": -1}


def reason_to_refuse(new: VersionFacts, published: VersionRecord | None, tolerance: float) -> str:
    """Return why a version must not be published, or an empty string if it may be.

    ``tolerance`` is the share by which its score may be worse than that of the version in use.
    """
    if not new["finite"]:
        return "the model contains numbers that are not finite"
    score, before = new["score"], new["score_before"]
    if published is None or score is None or before is None:
        return ""
    worse = MEASURES[new["measure"]] * (before - score) / max(abs(before), 1e-12)
    if worse <= tolerance:
        return ""
    return (
        f"{new['measure']} is {score:.6g}, which is {worse:.2%} worse than the {before:.6g} of version "
        f"{published['version']} and exceeds the retrain.tolerance of {tolerance:.2%}; raise the tolerance, or publish "
        f"this version with `corpusmill rollback`"
    )


def last_score(history: Sequence[dict[str, float]]) -> tuple[str, float | None]:
    """Return the name and the value of the preferred score of the last evaluation; ("", None) if there was none."""
    for row in reversed(history):
        for name in MEASURES:
            if name in row:
                return name, float(row[name])
    return "", None


def is_finite(estimator: Estimator) -> bool:
    """Return whether all numbers of a trained model and its score are finite."""
    groups: list[Arrays] = [estimator.model_.shared, *estimator.model_.blocks]
    for group in groups:
        for array in group.values():
            numbers = np.asarray(array)
            if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
                return False
    score = last_score(estimator.history_)[1]
    return score is None or math.isfinite(score)
