"""The folder of a new corpus: whether it has the corpus already, and what is deleted before the corpus is written.

A corpus is identified by its source, the options, and the vocabulary that was given.

An ingest deletes only what earlier ones wrote, even if they were killed. It knows that from three kinds of names:

- ``corpus.json`` is a complete corpus, and names its folder of content.
- ``.work/<digest>`` has the work files of one ingest, and ``content-<digest>`` the content that it wrote.
- ``.work/begun.json`` names the loose files, which are neither work files nor in a folder of content. It is written
  before the first deletion, and deleted with ``.work`` when the corpus is complete.
"""

import codecs
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import TypedDict

import pyarrow as pa

from ...io.errors import DataError
from ...io.readers.reader import Reader
from ...io.readers.source import stored_url
from ...io.stores.corpus import FORMAT, Corpus, vocabulary_hash
from ...io.stores.store import JsonObject, check_free
from .job import BAD_LINES, PARTS, IngestJob, IngestOptions, content_folder

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


# --- what identifies a corpus ---


#: Options that were added after the first corpora were made.
LATER_OPTIONS = (
    "keys_file",
    "layer",
    "names",
    "feature_type",
    "transpose",
    "delimiter",
    "quote",
    "escape",
    "columns",
    "encoding",
    "binarize",
    "on_bad_line",
    "max_bad_lines",
    "keep",
)
#: Options that name a file, which may be a URL with a secret.
FILE_OPTIONS = ("vocabulary_file", "keys_file")
#: Format of the work files and of the results of tasks.
WORK_FORMAT = 3


class Identity(TypedDict):
    """Everything that decides which corpus is made. It is stored in corpus.json, and never has other keys."""

    source: list[list[str | int]]  # name, size and version of each file
    reader: str
    options: dict[str, object]
    vocabulary: str | None  # digest of the words, followed by "+" if further words are added to them


def identity_of(reader: Reader, options: IngestOptions, vocabulary: pa.Table | None, grow: bool = False) -> Identity:
    """Return the identity of the corpus that these arguments of `ingest` give."""
    words = None
    if vocabulary is not None:
        words = vocabulary_hash(vocabulary["word"].to_pylist())
        if grow:
            words += "+"
    identity = Identity(
        source=reader.describe(),
        reader=reader.kind,
        options=_recorded(options),
        vocabulary=words,
    )
    # JSON turns tuples into lists. The identity must equal the one that is read from corpus.json.
    as_stored: Identity = json.loads(json.dumps(identity))
    return as_stored


def _recorded(options: IngestOptions) -> dict[str, object]:
    """Return the options that decide which corpus is made.

    Options that were added later are included only if they are used. So a corpus of an earlier version is recognised.
    """
    defaults = IngestOptions()
    # Whether a corpus may be overwritten, or when an ingest gives up, does not change the corpus.
    recorded = asdict(replace(options, overwrite=False, max_bad_lines=defaults.max_bad_lines))
    for name in LATER_OPTIONS:
        if not recorded[name] or recorded[name] == getattr(defaults, name):
            del recorded[name]
    for name in FILE_OPTIONS:
        if name in recorded and recorded[name] is not None:
            recorded[name] = stored_url(recorded[name])
    return recorded


def meaning_of(identity: Identity) -> Identity:
    """Return an identity in which options that mean the same are the same."""
    options = dict(identity["options"])
    # The reader says which format was found.
    options.pop("format", None)
    usual = {"layer": "X", "names": "id"}
    for name, value in usual.items():
        if options.get(name) == value:
            del options[name]
    if options.get("delimiter") == "\\t":
        options["delimiter"] = "\t"
    words = options.get("stop_words")
    if isinstance(words, list):
        options["stop_words"] = sorted(set(words))
    if options.get("encoding"):
        options["encoding"] = codecs.lookup(str(options["encoding"])).name
        if options["encoding"] == "utf-8":
            del options["encoding"]
    if options.get("tokens"):
        options.pop("text", None)
    meaning: Identity = {**identity, "options": options}
    return meaning


def digest_of(identity: Identity) -> str:
    """Return the name of the folder of work files. It differs between versions of corpusmill and formats of corpora."""
    values = dict(meaning_of(identity)) | {"version": version("corpusmill"), "format": FORMAT, "work": WORK_FORMAT}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def describe_difference(found: Identity | None, wanted: Identity) -> str:
    """Say how the corpus that was found differs from the one that is wanted.

    ``found`` is None if nothing tells what the corpus was made from.
    """
    if found is None or found["source"] != wanted["source"]:
        return "from another source, or from files that changed since"
    found, wanted = meaning_of(found), meaning_of(wanted)
    if changed := _changed_options(found, wanted):
        return f"from this source with other options ({', '.join(changed)})"
    return "from this source with another vocabulary"


def _changed_options(found: Identity, wanted: Identity) -> list[str]:
    """Return the names of the options that differ. 1 and 1.0 are equal, but not as limits: a count and a share."""
    changed = []
    for name in found["options"] | wanted["options"]:
        one, other = found["options"].get(name), wanted["options"].get(name)
        if one != other or (name in ("min_df", "max_df") and type(one) is not type(other)):
            changed.append(name)
    return changed


def _is_same(found: Identity, wanted: Identity) -> bool:
    return found == wanted and not _changed_options(found, wanted)


# --- the folder ---


def has_corpus(job: IngestJob, reader: Reader, identity: Identity) -> bool:
    """Return whether the corpus is complete already.

    Raises DataError if the folder holds another corpus, unless the options allow to overwrite it.
    """
    if not job.store.exists("corpus.json"):
        return False
    found: Identity | None = Corpus(job.corpus).meta["about"].get("identity")
    # All data in memory has the same identity, so a corpus of such data is never taken for the same.
    is_same = reader.is_repeatable and found is not None and _is_same(meaning_of(found), meaning_of(identity))
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
