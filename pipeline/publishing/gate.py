"""Decide whether a new version may be published."""

import math
from collections.abc import Sequence

import numpy as np

from ...configs.schema import RetrainConfig
from ...io.stores.store import Arrays
from ..models.base.estimator import Estimator
from ..views.early_stopping import HELD_OUT_MEASURES
from .versions import VersionFacts, VersionRecord

#: How well the halves of held-out documents find each other, for models that report no score.
MATCHING = "held_out_matching"
#: Scores on held-out documents, the preferred one first: 1 if a larger value is better, -1 if a smaller one is.
MEASURES = HELD_OUT_MEASURES | {MATCHING: 1}
#: Default of ``best_tolerance``, in multiples of ``tolerance``.
BEST_TOLERANCE = 3

_WAY_OUT = "or publish this version with `corpusmill rollback` and its number"


def reason_to_refuse(new: VersionFacts, published: VersionRecord | None, limits: RetrainConfig) -> str:
    """Return why a version must not be published, or an empty string if it may be."""
    if not new["finite"]:
        return "the model contains numbers that are not finite"
    if published is None:
        return ""
    return (
        _worse_than_before(new, published, limits) or _worse_than_best(new, limits) or _too_new(new, published, limits)
    )


def _worse_than_before(new: VersionFacts, published: VersionRecord, limits: RetrainConfig) -> str:
    worse = _share_worse(new, new["score_before"])
    if worse <= limits.tolerance:
        return ""
    advice = ""
    if new["measure"] == "held_out_loss":
        # Word vectors: one night alone, with the learning rate of a first training, moves them too far.
        advice = "continue with a smaller learning rate (retrain.model.alpha), "
    return (
        f"{new['measure']} is {new['score']:.6g}, which is {worse:.2%} worse than the {new['score_before']:.6g} of "
        f"version {published['version']} and exceeds the retrain.tolerance of {limits.tolerance:.2%}; "
        f"{advice}raise the tolerance, {_WAY_OUT}"
    )


def _worse_than_best(new: VersionFacts, limits: RetrainConfig) -> str:
    best = new.get("best_before")
    tolerance = limits.best_tolerance
    if tolerance is None:
        tolerance = BEST_TOLERANCE * limits.tolerance
    worse = _share_worse(new, best)
    if worse <= tolerance:
        return ""
    return (
        f"{new['measure']} is {new['score']:.6g}, which is {worse:.2%} worse than the best earlier version's "
        f"{best:.6g} and exceeds the retrain.best_tolerance of {tolerance:.2%}; train anew with --fresh, raise the "
        f"tolerance, {_WAY_OUT}"
    )


def _too_new(new: VersionFacts, published: VersionRecord, limits: RetrainConfig) -> str:
    share = new.get("new_tokens", 0.0)
    if share <= limits.max_new_words:
        return ""
    return (
        f"{share:.1%} of the tokens of the new documents are words that version {published['version']} does not have, "
        f"which exceeds the retrain.max_new_words of {limits.max_new_words:.1%}; check the new files, raise the limit, "
        f"{_WAY_OUT}"
    )


def _share_worse(new: VersionFacts, reference: float | None) -> float:
    """Return by which share of ``reference`` the score is worse; 0 if one of them is unknown."""
    score = new["score"]
    if score is None or reference is None:
        return 0.0
    return MEASURES[new["measure"]] * (reference - score) / max(abs(reference), 1e-12)


def better_score(measure: str, scores: Sequence[float | None]) -> float | None:
    """Return the best of these scores; None if all of them are unknown."""
    known = [score for score in scores if score is not None]
    return max(known, key=lambda score: MEASURES[measure] * score, default=None)


def last_score(history: Sequence[dict[str, float]]) -> tuple[str, float | None]:
    """Return the name and the value of the preferred score of the last evaluation; ("", None) if there was none."""
    for row in reversed(history):
        for name in MEASURES:
            if name in row:
                return name, float(row[name])
    return "", None


def is_finite(estimator: Estimator) -> bool:
    """Return whether all numbers of a trained model and its score are finite."""
    parts_of_model: list[Arrays] = [estimator.model_.shared, *estimator.model_.blocks]
    for arrays in parts_of_model:
        for array in arrays.values():
            numbers = np.asarray(array)
            if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
                return False
    score = last_score(estimator.history_)[1]
    return score is None or math.isfinite(score)
