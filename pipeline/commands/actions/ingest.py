"""Make the corpus of a configuration."""

from typing import TYPE_CHECKING

from ....configs.schema import Config
from ....io.readers.reader import Reader
from ...engine.events import IngestListener, IngestProgress
from ...ingest.ingest import check_destination, open_files
from ...ingest.ingest import ingest as ingest_source
from ...ingest.job import ingest_options
from .inspect import CorpusResult, describe_corpus

if TYPE_CHECKING:
    from distributed import Client


def open_documents(config: Config, overwrite: bool = False) -> Reader:
    """Open the source of a configuration; raise DataError if it is missing, or if the corpus cannot be made there.

    This needs no cluster, which takes seconds to start.
    """
    options = ingest_options(config, overwrite)
    assert config.source is not None  # checked by ingest_options
    reader = open_files(config.source.path, config.corpus.url, options)
    check_destination(config.corpus.url, reader, options)
    return reader


def ingest(
    config: Config,
    documents: Reader,
    client: "Client | None" = None,
    progress: IngestListener | None = None,
    overwrite: bool = False,
) -> CorpusResult:
    """Make the corpus of a configuration, unless it is complete already, and describe it."""
    options = ingest_options(config, overwrite)
    stages: list[str] = []

    def listen(step: IngestProgress) -> None:
        stages.append(step.stage)
        if progress is not None:
            progress(step)

    ingest_source(documents, config.corpus.url, client=client, progress=listen, **vars(options))
    return {**describe_corpus(config.corpus.url), "changed": stages[-1] != "unchanged"}
