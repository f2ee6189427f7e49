"""The options of ``fit`` and ``partial_fit``: their checks, and the folder of a run."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....configs.validation import plain_number
from ....io.stores.in_memory import url_in_memory
from ....io.stores.store import JsonObject
from ...engine.events import Callback
from ...engine.executors import Executor, OnDask
from .inputs import DataLike, is_count

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class FitOptions:
    """The options of ``fit``, which `Estimator.fit` documents."""

    client: "Client | None" = None
    run: str | os.PathLike[str] | None = None
    callbacks: Sequence[Callback] = ()
    held_out: DataLike | None = None
    evaluate_every: int | None = None
    config: JsonObject | None = None
    dashboard: bool = True
    vocabulary: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Raise TypeError for an option of the wrong type, and ValueError for one out of range."""
        if self.run is not None and not isinstance(self.run, str | os.PathLike):
            raise TypeError(f"run is {_shown(self.run)}: pass the path or URL of a folder")
        every = plain_number(self.evaluate_every)
        object.__setattr__(self, "evaluate_every", every)
        if every is not None and not is_count(every):
            raise ValueError(f"evaluate_every is {_shown(every)}: choose an integer of 0 or more, or None")
        if not isinstance(self.callbacks, Sequence) or isinstance(self.callbacks, str):
            raise TypeError(
                f"callbacks is {_shown(self.callbacks)}: pass a list of functions, such as callbacks=[ProgressLines()]"
            )
        for callback in self.callbacks:
            if not callable(callback):
                raise TypeError(f"callbacks contains {_shown(callback)}, which is not a function: pass functions only")

    def all_callbacks(self, executor: Executor) -> list[Callback]:
        """Return the callbacks, and that of the dashboard if it is wanted and the executor has one."""
        callbacks = list(self.callbacks)
        if self.dashboard and isinstance(executor, OnDask):
            # This module imports distributed, which takes a third of a second.
            from ...views.dashboard import publish

            callbacks.append(publish(executor.client))
        return callbacks


def _shown(value: object) -> str:
    """Return the name of a function or of its class, or the start of any other value's representation."""
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return repr(value)[:40]


@contextmanager
def run_folder(url: str | os.PathLike[str] | None, is_small: bool = False) -> Iterator[str]:
    """Yield ``url``, or a temporary folder that is removed afterwards. A small run has a store in memory instead."""
    if url is not None:
        yield os.fspath(url)
        return
    if is_small:
        with url_in_memory() as url:
            yield url
        return
    with tempfile.TemporaryDirectory(prefix="corpusmill-run-", ignore_cleanup_errors=True) as folder:
        yield folder
