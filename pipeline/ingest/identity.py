"""What identifies a corpus: its source, the options, and the vocabulary that was given."""

import hashlib
import json
from dataclasses import asdict, replace
from typing import TypedDict

import pyarrow as pa

from ...io.readers.reader import Reader
from ...io.readers.stored_url import stored_url
from ...io.stores.corpus import FORMAT, vocabulary_hash
from ..version import corpusmill_version
from .options import IngestOptions

#: Options that were added after the first corpora were made.
LATER_OPTIONS = (
    "keys_file",
    "layer",
    "names",
    "feature_type",
    "transpose",
    "delimiter",
    "binarize",
    "on_bad_line",
    "max_bad_lines",
    "keep",
)
#: Options that name a file, which may be a URL with a secret.
FILE_OPTIONS = ("vocabulary_file", "keys_file")
#: Format of the work files and of the results of tasks.
WORK_FORMAT = 2


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


def digest_of(identity: Identity) -> str:
    """Return the name of the folder of work files. It differs between versions of corpusmill and formats of corpora."""
    values = dict(identity) | {"version": corpusmill_version(), "format": FORMAT, "work": WORK_FORMAT}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def describe_difference(found: Identity | None, wanted: Identity) -> str:
    """Say how the corpus that was found differs from the one that is wanted. None: its identity is unknown."""
    if found is None or found["source"] != wanted["source"]:
        return "from another source, or from files that changed since"
    names = found["options"] | wanted["options"]
    changed = [name for name in names if found["options"].get(name) != wanted["options"].get(name)]
    if changed:
        return f"from this source with other options ({', '.join(changed)})"
    return "from this source with another vocabulary"
