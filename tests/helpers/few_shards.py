"""Small data that is merged like large data: few shards of several chunks, and several rounds per epoch.

It works with the sources of any commit since ca8215b0, because `recorded` also trains with an earlier one.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest import mock

from corpusmill.pipeline.engine import algorithm
from corpusmill.pipeline.models.skip_gram import grid_size

#: Maximum number of shards: 13 chunks are shards of 5, 5 and 3 chunks.
SHARDS = 3
#: Maximum number of pairs of a round of Word2Vec: the cases of `recorded.cases` have one to three rounds per epoch.
STEP_PAIRS = 14_000


@contextmanager
def few_shards() -> Iterator[None]:
    """Context manager: train with at most three shards. Only the process that calls ``fit`` needs it."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(grid_size, "STEP_PAIRS", STEP_PAIRS))
        if hasattr(algorithm, "Needs"):
            stack.enter_context(mock.patch.object(algorithm.Needs, "__init__", _limited(algorithm.Needs.__init__)))
        else:  # an earlier commit, whose algorithms have a property in place of `Needs`
            most = algorithm.Algorithm.most_shards.fget
            limited = property(lambda self: min(SHARDS, most(self)))
            stack.enter_context(mock.patch.object(algorithm.Algorithm, "most_shards", limited))
        yield


def _limited(init: Any) -> Any:
    @wraps(init)
    def limited(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        # `Needs` is frozen.
        object.__setattr__(self, "shards", min(SHARDS, self.shards))

    return limited
