"""Read the state of a run that another process trains from its files."""

import time
from collections.abc import Iterator

from ....io.errors import DataError
from ....io.stores.store import JsonObject, Store
from ...engine.data import unit_of
from ...engine.run import RunStore, model_kind
from ...formatting import format_duration
from ...models.registry import estimator_of_run
from ...views.progress import LINE_SECONDS, describe_metrics, describe_rest
from ...views.status import RunStatus

#: Seconds between two reads of the state of a run.
PAUSE_SECONDS = 1.0


def look(url: str) -> RunStatus:
    """Return the state of a run, given its folder or that of a retrained model; raise DataError if there is no run."""
    run = RunStore(_run_of(url))
    meta = run.meta
    rows = run.metrics
    status = RunStatus(run=run.url, algorithm=model_kind(meta), rows=list(rows), unit=unit_of(meta["data"]["kind"]))
    status.epochs = estimator_of_run(run)._planned_epochs()
    if rows:
        status.epoch = int(rows[-1]["epoch"])
        status.tokens = int(rows[-1]["tokens"])
    # A training process holds the lock. Its files alone would not distinguish an interrupted run from a slow one.
    if run.is_held:
        status.state = "running"
    elif _is_complete(run, status):
        status.state = "finished"
    else:
        status.state = "stopped"
    status.shards = _shard_states(run, meta)
    status.updated = _last_change(run)
    return status


def follow(url: str) -> Iterator[RunStatus]:
    """Yield the state every second, until the run ends or is deleted."""
    status = look(url)
    yield status
    while status.state == "running":
        time.sleep(PAUSE_SECONDS)
        try:
            status = look(url)
        except (DataError, FileNotFoundError):
            # A call of retrain deletes the run that it has trained, maybe just now.
            time.sleep(PAUSE_SECONDS)
            if Store(status.run).exists("run.json"):
                raise
            return
        yield status


def lines(url: str) -> Iterator[str]:
    """Yield a line for a new epoch, but at most one every few seconds, and one for the end of the run."""
    last_line = -LINE_SECONDS
    last_epoch = -1
    for status in follow(url):
        is_new = status.epoch != last_epoch and time.monotonic() - last_line >= LINE_SECONDS
        if is_new or status.state != "running":
            last_line = time.monotonic()
            last_epoch = status.epoch
            yield describe(status)


def describe(status: RunStatus) -> str:
    """Describe the state of a run in one line."""
    parts = [f"{status.algorithm} {status.run}: {status.state}, {status.describe_epoch()}"]
    metrics = ""
    for row in status.rows:
        metrics = describe_metrics(row, metrics, status.unit)
    parts.append(metrics)
    if status.eta:
        parts.append(f"about {describe_rest(status.eta)}")
    if status.state == "running" and status.updated:
        parts.append(f"last epoch {format_duration(max(0.0, time.time() - status.updated))} ago")
    return ", ".join(part for part in parts if part)


def _run_of(url: str) -> str:
    """Return the URL of the run of the current night if ``url`` is that of a retrained model, else ``url``."""
    if url.startswith(("http://", "https://")):
        raise DataError(
            f"{url}: a page, where the folder or URL of a run is needed: open the page of a dashboard in a browser, "
            f"and pass to this command what the training was given as its run"
        )
    store = Store(url)
    if store.exists("run.json") or not store.exists("created.json"):
        return url
    for name in store.names("runs"):
        if store.exists(f"runs/{name}/run/run.json"):
            return store.child(f"runs/{name}/run").url
    raise DataError(f"{url}: no call of retrain trains now; `corpusmill versions {url}` lists what was trained")


def _is_complete(run: RunStore, status: RunStatus) -> bool:
    """Return whether all epochs are trained, or a model of the last one was saved because training converged."""
    if status.epoch >= status.epochs:
        return True
    model = run.store.child("model")
    if not model.exists("model.json"):
        return False
    return 0 < status.epoch == model.read_json("model.json")["n_iter"]


def _shard_states(run: RunStore, meta: JsonObject) -> list[str]:
    """Return whether each shard of the current epoch is done; an empty list for models that store no state per chunk.

    A shard is done when the states of all its chunks are on disk.
    """
    step = run.step
    done = set(run.store.numbers(f"{run.folder(step + 1)}/state"))
    if not done and not run.store.exists(f"{run.folder(step)}/state"):
        return []
    return ["done" if done.issuperset(chunks) else "waiting" for chunks in meta["shards"]]


def _last_change(run: RunStore) -> float:
    """Return when the last epoch was committed, in seconds since 1970; 0.0 if none was."""
    try:
        return run.store.modified("HEAD").timestamp()
    except FileNotFoundError:
        return 0.0
