"""Helpers of the tests that train estimators."""

from corpusmill.pipeline.engine.events import EpochFinished


def bits(estimator):
    """Return the bytes of every array of a model's blocks."""
    return [block[name].tobytes() for block in estimator.model_.blocks for name in sorted(block)]


def interrupt_after(epoch):
    """Return a callback that raises KeyboardInterrupt once this epoch is committed."""

    def callback(event):
        if isinstance(event, EpochFinished) and event.epoch == epoch:
            raise KeyboardInterrupt

    return callback


def stop_after(epoch):
    """Return a callback that stops training after this epoch."""
    return lambda event: isinstance(event, EpochFinished) and event.epoch == epoch
