"""Train the model of a configuration."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from ....configs.layers import ConfigError, Layer
from ....configs.redact import hidden_keys
from ....configs.resolve import without_secrets
from ....configs.schema import Config
from ....io.errors import DataError
from ....io.stores.store import DATA_KINDS, Store, check_free
from ...engine.data import unit_of
from ...engine.events import Callback, EpochFinished, Event
from ...engine.run import RunStore, config_section
from ...models.base.text import TextEstimator
from ...models.registry import estimator_class, new_estimator
from ...publishing.report import write_report
from ...topics import Topic
from ...views.history import LIKELIHOODS, is_engine_metric, last_value, median_speed
from .models import topics_by_size

if TYPE_CHECKING:
    from distributed import Client


class TrainingResult(TypedDict):
    """A trained model. Scores are per token."""

    kind: str
    epochs: int
    training_seconds: float
    #: The median over the epochs. None if no epoch was trained.
    tokens_per_second: float | None
    #: What these tokens are: "edges" of a graph, otherwise "tokens".
    unit: str
    log_likelihood: NotRequired[float]
    held_out_log_likelihood: NotRequired[float]
    #: Other measures of the last epoch, by name.
    measures: dict[str, float]
    run: str
    model: str
    #: Epochs that this call trained; 0 if the run was complete before.
    trained_epochs: int
    report: NotRequired[str]
    #: All restarts, if the configuration has more than one.
    restarts: NotRequired[list[dict[str, Any]]]
    #: The topics, largest first. Empty for models without topics.
    topics: list[Topic]


def train(
    config: Config, client: "Client | None" = None, callbacks: Sequence[Callback] = (), overwrite: bool = False
) -> TrainingResult:
    """Train the model of a configuration, or continue its run; write the model and the report, and describe them."""
    estimator = new_estimator(config)
    if overwrite:
        RunStore(config.run.url).delete(but=config.corpus.url)
    counter = _EpochCounter()
    estimator.fit(
        config.corpus.url,
        client=client,
        run=config.run.url,
        callbacks=[counter, *callbacks],
        evaluate_every=config.run.evaluate_every,
        config=without_secrets(config),
    )
    estimator.save(config.model_url)
    result = _describe(estimator, config, counter.epochs)
    restarts = estimator._describe_restarts()
    for model, description in restarts:
        description["model"] = f"{config.run.url.rstrip('/')}/restarts/{description['name']}"
        model.save(description["model"])
    if restarts:
        result["restarts"] = [description for _, description in restarts]
    if config.report:
        result["report"] = write_report(config.run.url, config.report_path, estimator, config.report.n_words)
    return result


def check_training(config: Config, makes_corpus: bool = False) -> None:
    """Raise errors of parameters, data and the folder of the run. This needs no cluster, which takes seconds to start.

    ``makes_corpus`` says that the same command makes the corpus first.
    """
    estimator = new_estimator(config)
    for url in (config.run.url, config.model_url):
        check_free(Store(url), *DATA_KINDS)
    if makes_corpus:
        estimator._check_takes_documents()
    else:
        estimator._check_data(config.corpus.url)


def stored_config(run_url: str) -> Layer:
    """Return the configuration that a run was last trained with; raise DataError if there is no run."""
    meta = RunStore(run_url).meta
    # A run that was started from Python stores its model and data only. The corpus is then the data's.
    config = {"corpus": {"url": meta["data"]["url"]}} | meta["config"]
    model = config_section(meta, "model")
    if "kind" in model:
        config["model"] = estimator_class(model["kind"])._without_former(model)
    return Layer(f"{run_url}/run.json", config)


def check_nothing_is_hidden(config: Config, run_url: str) -> None:
    """Raise ConfigError if the cluster needs a secret, because a stored configuration contains none."""
    hidden = list(hidden_keys(config.cluster.model_dump(mode="json"), "cluster"))
    if hidden:
        raise ConfigError(
            f"{run_url}/run.json: {', '.join(hidden)}: secrets and values of environment variables are not stored; "
            f"set them again with --set {hidden[0]}=..., or choose another cluster with --set cluster.kind=local"
        )


def check_data_exists(config: Config, run_url: str) -> None:
    """Raise DataError, with the way out, if the data of a run is not at its place any more."""
    if Store(config.corpus.url).exists():
        return
    RunStore(run_url).check_stored()
    raise DataError(
        f"{run_url}: nothing is stored at {config.corpus.url}, from where this run read its data; if the data was "
        f"moved, name its new place with --set corpus.url=..."
    )


class _EpochCounter:
    """Counts the epochs that one call of ``fit`` trains."""

    def __init__(self) -> None:
        self.epochs = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, EpochFinished):
            self.epochs += 1


def _describe(estimator: TextEstimator, config: Config, trained_epochs: int) -> TrainingResult:
    rows = estimator.history_
    result: TrainingResult = {
        "kind": estimator._kind,
        "epochs": estimator.n_iter_,
        "training_seconds": 0.0,
        "tokens_per_second": None,
        "unit": unit_of(RunStore(config.run.url).meta["data"]["kind"]),
        "measures": {},
        "run": config.run.url,
        "model": config.model_url,
        "trained_epochs": trained_epochs,
        "topics": topics_by_size(estimator),
    }
    if not rows:
        return result
    # The history of one of several restarts has no times, because all of them are trained together.
    timed = RunStore(config.run.url).metrics
    result["training_seconds"] = timed[-1]["training_seconds"]
    # The median ignores the first epoch, which may compile kernels and fill caches.
    result["tokens_per_second"] = median_speed(timed)
    for name in LIKELIHOODS:
        score = last_value(rows, name)
        if score is not None:
            result[name] = score  # type: ignore[literal-required]
    for name, value in rows[-1].items():
        if name not in LIKELIHOODS and not is_engine_metric(name):
            result["measures"][name] = value
    return result
