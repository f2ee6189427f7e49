"""A callback that ends training when the held-out score no longer improves."""

import warnings

from ..engine.algorithm import Metrics
from ..engine.events import EpochFinished, Event, RunFinished, RunStarted

#: The name of each score in the metrics: 1 if a larger value is better, -1 if a smaller one is.
HELD_OUT_MEASURES = {
    "held_out_log_likelihood": 1,
    "held_out_loss": -1,
    "held_out_relative_error": -1,
    "held_out_divergence": -1,
}


class EarlyStopping:
    """Ends training when the held-out score no longer improves.

    An object is a callback for `fit` and `partial_fit`. A run that is resumed counts the scores from before, too.

    Parameters
    ----------
    patience : int, default=2
        Number of scores in a row without an improvement after which training ends. A score is measured every
        ``evaluate_every`` epochs.
    min_improvement : float, default=0.0
        A score is an improvement if it is better than the best one by more than this, in the unit of the score: nats
        per token for LDA.

    Raises
    ------
    ValueError
        If ``patience`` is below 1, or ``min_improvement`` is negative.

    Warns
    -----
    UserWarning
        If a run ends without a held-out score.

    See Also
    --------
    corpusmill.ProgressLines : Write the progress of a training.

    Examples
    --------
    >>> from corpusmill import LDA, EarlyStopping
    >>> documents = [["boat", "sea"], ["bread", "oven"]] * 10
    >>> stop = EarlyStopping(patience=2, min_improvement=0.001)
    >>> lda = LDA(2, max_iter=500, random_state=1)
    >>> lda.fit(documents, held_out=documents[:4], evaluate_every=5, callbacks=[stop]).n_iter_ < 500
    True
    """

    def __init__(self, patience: int = 2, min_improvement: float = 0.0) -> None:
        if patience < 1:
            raise ValueError(f"patience={patience} must be at least 1")
        if min_improvement < 0:
            raise ValueError(f"min_improvement={min_improvement} must be at least 0")
        self.patience = patience
        self.min_improvement = min_improvement
        self._forget()

    def _forget(self) -> None:
        self._best: float | None = None
        #: Number of scores since the best one.
        self._since_best = 0

    def __call__(self, event: Event) -> bool:
        """Take an event of a run, and return whether to end training."""
        match event:
            case RunStarted(history=history):
                self._forget()
                for metrics in history:
                    self._compare(metrics)
            case EpochFinished(metrics=metrics):
                self._compare(metrics)
                return self._since_best >= self.patience
            case RunFinished() if self._best is None:
                warnings.warn(
                    "EarlyStopping had no held-out score to compare: pass held_out to fit, and an evaluate_every below "
                    "the number of epochs",
                    stacklevel=2,
                )
        return False

    def _compare(self, metrics: Metrics) -> None:
        """Compare the held-out score of an epoch, if it has one, with the best score so far."""
        name = next((name for name in HELD_OUT_MEASURES if name in metrics), None)
        if name is None:
            return
        score = HELD_OUT_MEASURES[name] * metrics[name]
        if self._best is None or score > self._best + self.min_improvement:
            self._best = score
            self._since_best = 0
        else:
            self._since_best += 1
