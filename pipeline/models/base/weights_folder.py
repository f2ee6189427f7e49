"""The folder that ``transform_to`` writes: one Parquet file per chunk, and ``_transform.json``.

The latter names the model and the documents, so that a folder never mixes the weights of two models.
Readers of folders of Parquet files skip names that begin with an underscore.
"""

import re
from typing import TypedDict

from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ....io.stores.store import Store

DESCRIPTION = "_transform.json"
#: Files with weights of documents.
PART = re.compile(r"part-\d{6}\.parquet")


class Origin(TypedDict):
    """What the weights in a folder were computed from."""

    model: str  # digest of the arrays and the parameters
    corpus: str  # digest of the documents
    part: str
    columns: list[str]
    top: int | None


def origin_of(model_digest: str, corpus: Corpus, top: int | None) -> Origin:
    """Return what the weights of a corpus by a model are computed from."""
    return Origin(
        model=model_digest,
        corpus=corpus.hash,
        part=corpus.part,
        columns=corpus.kept_columns,
        top=top,
    )


def claim(folder: Store, origin: Origin, replace: bool) -> None:
    """Record what a folder is going to have, before the first file is written.

    Raises DataError if the folder has other files, or weights of another origin, unless ``replace`` is True.
    """
    if not replace:
        _check_free(folder, origin)
    folder.write_json(DESCRIPTION, origin)


def _check_free(folder: Store, origin: Origin) -> None:
    # File managers leave hidden files in any folder.
    names = [name for name in folder.names() if not name.startswith(".") and name != DESCRIPTION]
    way_out = "choose another folder, or replace them with --replace (in Python, replace=True)"
    others = [name for name in names if not PART.fullmatch(name)]
    if others:
        shown = ", ".join(others[:3])
        raise DataError(
            f"{folder.url}: has files that transform did not write ({shown}); choose another folder, or write beside "
            f"them with --replace (in Python, replace=True)"
        )
    if not folder.exists(DESCRIPTION):
        if names:
            raise DataError(f"{folder.url}: has weights of an unknown model; {way_out}")
        return
    # Folders of earlier versions do not say how many topics they have: all.
    found = {"top": None} | folder.read_json(DESCRIPTION)
    if found == origin:
        return
    if found.get("model") != origin["model"]:
        what = "another model"
    elif found.get("corpus") != origin["corpus"] or found.get("part") != origin["part"]:
        what = "other documents"
    else:
        what = "these documents with other columns"
    raise DataError(f"{folder.url}: has weights of {what}; {way_out}")


def delete_others(folder: Store, n_chunks: int) -> None:
    """Delete the files of an earlier corpus with more chunks."""
    written = {f"part-{chunk:06d}.parquet" for chunk in range(n_chunks)}
    for name in folder.names():
        if PART.fullmatch(name) and name not in written:
            folder.delete(name)
