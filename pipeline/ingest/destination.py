"""What the folder of a new corpus holds already: the same corpus, another one, an unfinished one, or other files."""

from ...io.readers.reader import Reader
from ...io.stores.corpus import Corpus
from ...io.stores.store import DataError, check_free
from .identity import Identity, describe_difference
from .job import BAD_LINES, PARTS, Job

#: While this file exists below ``.work``, all files of the names in CONTENT were written by an ingest.
BEGUN = "begun.json"
#: The files and folders of a corpus, without corpus.json.
CONTENT = (
    *PARTS,
    *(f"{table}-{part}.parquet" for table in ("documents", "chunks") for part in PARTS),
    "vocabulary.parquet",
    "columns.parquet",
    BAD_LINES,
)


def has_corpus(job: Job, reader: Reader, identity: Identity) -> bool:
    """Return whether the corpus is complete already.

    Raises DataError if the folder holds another corpus, unless the options allow to overwrite it.
    """
    if not job.store.exists("corpus.json"):
        return False
    found: Identity | None = Corpus(job.corpus).meta["about"].get("identity")
    # The content of data in memory is not compared, so such a corpus is never taken for the same.
    is_same = found == identity and reader.is_repeatable
    if not is_same and not job.options.overwrite:
        raise DataError(
            f"{job.corpus}: already holds a corpus {describe_difference(found, identity)}; choose another folder, or "
            f"replace the corpus with --overwrite (in Python: IngestOptions(overwrite=True))"
        )
    return is_same


def prepare(job: Job, reader: Reader) -> None:
    """Delete an older corpus and the work of other ingests. Keep the work of this one, if it can be continued.

    Raises DataError if the folder holds a store of another kind, or files that an ingest would overwrite although no
    ingest wrote them.
    """
    check_free(job.store, "run", "model", "matrix", "graph")
    work_names = job.store.names(".work")
    content = [name for name in CONTENT if job.store.exists(name)]
    if content and not work_names and not job.store.exists("corpus.json"):
        raise DataError(
            f"{job.corpus}: {', '.join(content)} would be overwritten, and no ingest wrote that; choose another folder"
        )
    # The mark comes before the first deletion. If this process is killed in between, the next ingest finds files
    # without corpus.json, and must recognise them as its own.
    job.store.write_json(f".work/{BEGUN}", {})
    job.store.delete("corpus.json")
    own_work = job.work.rpartition("/")[2]
    if reader.is_repeatable and set(work_names) == {BEGUN, own_work}:
        return
    for name in content:
        job.store.delete(name)
    for name in work_names:
        if name != BEGUN:
            job.store.delete(f".work/{name}")
