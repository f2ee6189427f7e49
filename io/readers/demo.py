"""A text that comes with this package, for a quick start without network access or downloaded data."""

from collections.abc import Iterator
from importlib import resources

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError
from .batches import Batch, ReadOptions
from .reader import Reader
from .source import Partition, SourceFile

PREFIX = "demo:"


class KingJamesReader(Reader):
    """The King James Bible, which is in the public domain: 1,189 chapters, each a document."""

    kind = "KingJames"

    def __init__(self, options: ReadOptions):
        super().__init__((SourceFile(f"{PREFIX}kjv", "kjv", 0, ""),), options)

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield all chapters."""
        content = resources.files("corpusmill.configs").joinpath("kjv.parquet").read_bytes()
        chapters = pq.read_table(pa.BufferReader(content)).combine_chunks()
        yield Batch(chapters["key"].chunk(0), chapters["text"].cast(pa.large_string()).chunk(0))


def open_demo(source: str, options: ReadOptions) -> Reader:
    """Return the reader of ``demo:kjv``, the only demo; raise DataError for another name."""
    if source != f"{PREFIX}kjv":
        raise DataError(f"{source}: no such demo; choose {PREFIX}kjv")
    return KingJamesReader(options)
