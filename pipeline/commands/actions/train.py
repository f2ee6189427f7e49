"""Train the model of a configuration."""

from collections.abc import Sequence
from typing import Any

from ....configs.resolve import public
from ....configs.schema import Config
from ....io.stores.store import Store
from ...engine.events import Callback, Event
from ...engine.run import RunStore
from ...views.history import ENGINE_METRICS, last_value
from .report import report

Facts = dict[str, Any]


def train(config: Config, client: Any | None, callbacks: Sequence[Callback] = (), overwrite: bool = False) -> Facts:
    """Train, or go on with, the model of a configuration; leave model and report; return the results."""
    estimator = estimator_of(config)
    if overwrite:
        _forget(config.run.url)
    began = _Began()
    estimator.fit(
        config.corpus.url,
        client=client,
        run=config.run.url,
        callbacks=[began, *callbacks],
        evaluate_every=config.run.evaluate_every,
        config=public(config),
    )
    estimator.save(config.model_url)
    facts = results(estimator) | {"run": config.run.url, "model": config.model_url, "trained_epochs": began.trained}
    if config.report:
        facts["report"] = report(config.run.url, config.report_path, estimator, config.report.n_words)
    return facts


def estimator_of(config: Config) -> Any:
    """Return the estimator that a configuration's model section describes, not fitted."""
    from ...models.registry import MODEL_KINDS, estimator_class

    kind = config.model.kind
    if kind not in MODEL_KINDS:
        raise ValueError(f"model.kind: this version has no {kind}; choose one of {', '.join(MODEL_KINDS)}")
    return estimator_class(kind)(**config.model.model_dump(exclude={"kind"}))


class _Began:
    """Counts the epochs that a call of fit trained."""

    def __init__(self) -> None:
        self.trained = 0

    def __call__(self, event: Event) -> None:
        self.trained += type(event).__name__ == "EpochFinished"


def _forget(url: str) -> None:
    """Delete a run's files, and nothing else that lies beside them."""
    store = Store(url)
    if store.exists("run.json"):
        with RunStore(url).locked():
            for name in ("run.json", "HEAD", "metrics.jsonl", "epochs", "base"):
                store.delete(name)


def results(estimator: Any) -> Facts:
    """Return what a trained estimator's rows of metrics say at the end."""
    rows = estimator.history_
    rates = sorted(row["tokens_per_second"] for row in rows)
    facts: Facts = {
        "kind": estimator.kind,
        "epochs": estimator.n_iter_,
        "training_seconds": rows[-1]["training_seconds"] if rows else 0.0,
        "tokens_per_second": rates[len(rates) // 2] if rates else None,
    }
    for name in ("log_likelihood", "held_out_log_likelihood"):
        if last_value(rows, name) is not None:
            facts[name] = last_value(rows, name)
    own = rows[-1].items() if rows else ()
    facts["measures"] = {
        k: v for k, v in own if k not in ENGINE_METRICS and k not in facts and not k.startswith("seconds")
    }
    return facts
