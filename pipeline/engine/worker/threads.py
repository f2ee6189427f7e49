"""Threads of a worker."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from typing import TypeVar

Result = TypeVar("Result")


def start(pool: Executor, function: Callable[..., Result], *arguments: object) -> "Future[Result]":
    """Call a function in a thread of the pool. The context tells Dask in which worker the thread runs."""
    return pool.submit(copy_context().run, function, *arguments)
