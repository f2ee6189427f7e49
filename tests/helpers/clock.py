"""Replaces the clock that the package reads."""

import sys
import time
from types import SimpleNamespace


def replace_clock(monkeypatch, **functions):
    """Let all modules of the package call these in place of functions of the module ``time``, until the test ends.

    Python's module stays as it is. The event loop of the cluster that tests share runs in this process. If it saw
    another time for a moment, it would wait for years before it sends the next task.
    """
    clock = SimpleNamespace(**{**vars(time), **functions})
    for name, module in list(sys.modules.items()):
        if name.startswith("corpusmill.") and getattr(module, "time", None) is time:
            monkeypatch.setattr(module, "time", clock)
