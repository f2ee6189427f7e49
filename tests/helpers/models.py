"""Helpers of the tests that train estimators."""

import numpy as np
from corpusmill.pipeline.engine.algorithm import Algorithm
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.registry import MODEL_KINDS, estimator_class


def kernel_modules():
    """Return the modules of kernels that the algorithms of all models name."""
    for kind in MODEL_KINDS:
        estimator_class(kind)
    modules = {getattr(algorithm, "kernel_module", "") for algorithm in _algorithms(Algorithm)}
    return modules - {""} | {"word2vec.cells", "random_indexing.accumulate"}


def _algorithms(base):
    """Yield all algorithms of the models that ship."""
    for algorithm in base.__subclasses__():
        if algorithm.__module__.startswith("corpusmill.pipeline.models."):
            yield algorithm
        yield from _algorithms(algorithm)


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


def fitted_rows(model, data, run):
    """Fit an NMF in a run folder and return the rows' factor as training left it: (D, K)."""
    model.fit(data, run=str(run))
    trained = RunStore(str(run))
    chunks = [chunk for shard in trained.meta["shards"] for chunk in shard]
    return np.concatenate([trained.state(trained.step, chunk)["H"] for chunk in chunks])
