"""Read the state of a run that another process trains, from its files or from the dashboard of its cluster."""

import base64
import contextlib
import http.client
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
from collections.abc import Iterator

from ....io.errors import DataError
from ....io.stores.store import JsonObject, Store
from ...engine.run import RunStore, model_kind
from ...models.base.advice import TrainingWarning
from ...models.registry import estimator_of_run, model_of_run
from ...topics import WordGroup
from ...views.status import RunStatus

#: Seconds between two reads of the state of a run.
PAUSE_SECONDS = 1.0
#: A description of the model may take at most one part in this many of the time: reading a large model takes long.
DESCRIPTION_SHARE = 10
DASHBOARD_TIMEOUT_SECONDS = 30


class Watcher:
    """Reads the state of one run repeatedly.

    ``url`` is the folder or URL of a run or of a retrained model, or the address of a Dask dashboard (http or https).
    """

    def __init__(self, url: str):
        self.url = url
        self._is_dashboard = url.startswith(("http://", "https://"))
        self._description: list[WordGroup] = []
        self._described_epoch = 0
        self._next_description = 0.0

    def look(self) -> RunStatus:
        """Return the current state; raise DataError or OSError if there is no run."""
        if self._is_dashboard:
            return _read_dashboard(self.url)
        run = RunStore(_run_of(self.url))
        meta = run.meta
        rows = run.metrics
        status = RunStatus(run=run.url, algorithm=model_kind(meta), rows=list(rows))
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
        status.groups = self._describe(run, status.epoch)
        return status

    def follow(self) -> Iterator[RunStatus]:
        """Yield the state every second, until the run ends or is deleted."""
        status = self.look()
        yield status
        while status.state in ("running", "waiting"):
            time.sleep(PAUSE_SECONDS)
            try:
                status = self.look()
            except (DataError, FileNotFoundError):
                # A call of retrain deletes the run that it has trained, maybe just now.
                time.sleep(PAUSE_SECONDS)
                if self._is_dashboard or Store(status.run).exists("run.json"):
                    raise
                return
            yield status

    def _describe(self, run: RunStore, epoch: int) -> list[WordGroup]:
        """Return words of the model of the last epoch, or those of an earlier one if reading it would take long."""
        if epoch == self._described_epoch or time.monotonic() < self._next_description:
            return self._description
        began = time.monotonic()
        # The run may delete this epoch while it is read. The next look tries again.
        with contextlib.suppress(DataError), warnings.catch_warnings():
            # The command that trains shows them.
            warnings.simplefilter("ignore", TrainingWarning)
            # Words that only the previous model has are not in the data.
            estimator = model_of_run(run.url, with_previous=False)
            self._description = estimator._describe(run.open_data())
            self._described_epoch = epoch
        now = time.monotonic()
        self._next_description = now + DESCRIPTION_SHARE * (now - began)
        return self._description


def _run_of(url: str) -> str:
    """Return the URL of the run of the current night if ``url`` is that of a retrained model, else ``url``."""
    store = Store(url)
    if store.exists("run.json") or not store.exists("created.json"):
        return url
    for name in store.names("runs"):
        if store.exists(f"runs/{name}/run/run.json"):
            return store.child(f"runs/{name}/run").url
    raise DataError(f"{url}: no call of retrain trains now; `corpusmill versions {url}` lists what was trained")


def _read_dashboard(url: str) -> RunStatus:
    # Errors show the URL, so it must not have the password.
    user, shown = _split_user(url)
    headers = {}
    if user:
        name_and_password = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
        headers["Authorization"] = f"Basic {name_and_password}"
    try:
        parts = urllib.parse.urlsplit(shown)
        # Users copy the address of whichever page they see. A proxy may want the query.
        root = parts.path.removesuffix("/").removesuffix(".json").removesuffix("/training").removesuffix("/status")
        address = parts._replace(path=f"{root}/training.json", fragment="").geturl()
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request, timeout=DASHBOARD_TIMEOUT_SECONDS) as response:
            found = json.load(response)
        return RunStatus.from_json(found)
    except urllib.error.HTTPError as error:
        reason = f"it answers {error.code} {error.reason}"
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        reason = "its answer is not the state of a run"
    except http.client.BadStatusLine:
        reason = "no web server answers; the port of the scheduler is another one than that of its dashboard"
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = f"{getattr(error, 'reason', error)}; check the address, and whether the run still goes on"
    raise DataError(f"{shown}: no dashboard of a run can be read here: {reason}")


def _split_user(url: str) -> tuple[str, str]:
    """Return the user of an address, maybe with a password, and the address without them."""
    scheme, _, rest = url.partition("://")
    place = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, _ = place.rpartition("@")
    return user, f"{scheme}://{rest.removeprefix(user + at)}"


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
