"""The folder of a new corpus: whether it has the corpus already, and what is deleted before the corpus is written.

An ingest deletes only what earlier ones wrote, even if they were killed. It knows that from three kinds of names:

- ``corpus.json`` is a complete corpus, and names its folder of content.
- ``.work/<digest>`` has the work files of one ingest, and ``content-<digest>`` the content that it wrote.
- ``.work/begun.json`` names the loose files, which are neither work files nor in a folder of content. It is written
  before the first deletion, and deleted with ``.work`` when the corpus is complete.
"""

from collections.abc import Callable, Iterable, Sequence

from ...io.errors import DataError
from ...io.readers.reader import Reader
from ...io.stores.corpus import Corpus
from ...io.stores.store import JsonObject, check_free
from .identity import Identity, describe_difference
from .job import BAD_LINES, PARTS, IngestJob, content_folder

BEGUN = "begun.json"
#: Kinds of stores that must not be in the folder of a corpus.
OTHER_STORES = ("run", "model", "matrix", "graph")
#: Loose files and folders of a corpus that an ingest wrote.
LOOSE_NAMES = (BAD_LINES,)
#: Loose files and folders of a corpus without a folder of content: walks, or a selection of another corpus.
ALL_LOOSE_NAMES = (
    *PARTS,
    *(f"{table}-{part}.parquet" for table in ("documents", "chunks") for part in PARTS),
    "vocabulary.parquet",
    "columns.parquet",
    BAD_LINES,
)


def has_corpus(job: IngestJob, reader: Reader, identity: Identity) -> bool:
    """Return whether the corpus is complete already.

    Raises DataError if the folder holds another corpus, unless the options allow to overwrite it.
    """
    if not job.store.exists("corpus.json"):
        return False
    found: Identity | None = Corpus(job.corpus).meta["about"].get("identity")
    # All data in memory has the same identity, so a corpus of such data is never taken for the same.
    is_same = found == identity and reader.is_repeatable
    if not reader.is_repeatable and not job.options.overwrite:
        raise DataError(
            f"{job.corpus}: already holds a corpus, and ingest does not compare it with data in memory; open it with "
            f"Corpus({job.corpus!r}), replace it with overwrite=True, or choose another folder"
        )
    if not is_same and not job.options.overwrite:
        raise DataError(
            f"{job.corpus}: already holds a corpus {describe_difference(found, identity)}; choose another folder "
            f"(corpus.url), or replace the corpus with --overwrite (in Python: overwrite=True)"
        )
    return is_same


def prepare(job: IngestJob, reader: Reader) -> None:
    """Delete an older corpus and the work of other ingests. Keep the work of this one, if it can be continued.

    Raises DataError if the folder holds a store of another kind, or files that an ingest would overwrite although no
    ingest wrote them.
    """
    check_free(job.store, *OTHER_STORES)
    work_names = job.store.names(".work")
    replaced = None
    if job.store.exists("corpus.json"):
        replaced = job.store.read_json("corpus.json")
    loose_names = _loose_names(job, replaced)
    present = [name for name in loose_names if job.store.exists(name)]
    if present and not work_names and replaced is None:
        raise DataError(
            f"{job.corpus}: {', '.join(present)} would be overwritten, and no ingest wrote that; choose another folder"
        )
    # If this process is killed after the next deletion, nothing else shows who wrote the loose files.
    _write_begun(job, loose_names)
    if replaced is not None:
        work_names = _mark_replaced(job, replaced, work_names)
    job.store.delete("corpus.json")
    own_work = job.work.rpartition("/")[2]
    if reader.is_repeatable and set(work_names) == {BEGUN, own_work}:
        # All files are those of an earlier attempt at this ingest, which continues from them.
        return
    for name in present:
        job.store.delete(name)
    _delete_work(job.store.delete, work_names)
    _write_begun(job, LOOSE_NAMES)


def clean(job: IngestJob) -> None:
    """Delete all work files of a finished corpus, and what ingests wrote that did not become this corpus."""
    corpus = job.store.read_json("corpus.json")
    _delete_work(job.store.delete_unneeded, job.store.names(".work"), kept=corpus.get("content", ""))
    job.store.delete_unneeded(".work")


def _loose_names(job: IngestJob, replaced: JsonObject | None) -> Sequence[str]:
    """Return the names of the loose files that an earlier ingest, or the corpus ``replaced``, may have."""
    if replaced is not None:
        return LOOSE_NAMES if "content" in replaced else ALL_LOOSE_NAMES
    if job.store.exists(f".work/{BEGUN}"):
        names: list[str] = job.store.read_json(f".work/{BEGUN}")["loose"]
        return names
    return LOOSE_NAMES


def _write_begun(job: IngestJob, loose_names: Sequence[str]) -> None:
    job.store.write_json(f".work/{BEGUN}", {"loose": list(loose_names)})


def _mark_replaced(job: IngestJob, replaced: JsonObject, work_names: list[str]) -> list[str]:
    """Return the names of work files, with one for the content of the corpus that will be replaced.

    While work files of this name exist, the content has to be deleted.
    """
    prefix = content_folder("")
    folder = str(replaced.get("content", ""))
    if not folder.startswith(prefix):
        return work_names
    name = folder.removeprefix(prefix)
    job.store.write_json(f".work/{name}/replaced.json", {})
    return sorted({*work_names, name})


def _delete_work(delete: Callable[[str], object], names: Iterable[str], kept: str = "") -> None:
    """Delete the work files of these names, and the content that belongs to each, except the folder ``kept``."""
    for name in names:
        if name == BEGUN:
            continue
        if content_folder(name) != kept:
            delete(content_folder(name))
        delete(f".work/{name}")
