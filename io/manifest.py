"""Manifests: which files of a source are new, changed or removed since the last ingest."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from .readers.source import SourceFile
from .stores.store import DataError


@dataclass(frozen=True)
class FileVersion:
    """One file as it was when it was ingested."""

    size: int
    modified: str  # time of change, or the object store's tag of the content
    digest: str  # of the content, or the object store's tag
    batch: str = ""  # the corpus that holds its documents


Manifest = dict[str, FileVersion]


@dataclass(frozen=True)
class Changes:
    """URLs of files, each list sorted."""

    added: list[str]
    changed: list[str]
    removed: list[str]

    @property
    def to_ingest(self) -> list[str]:
        """The files whose documents have to be read: added and changed ones."""
        return sorted([*self.added, *self.changed])


def describe_files(
    files: Iterable[SourceFile], known: Mapping[str, FileVersion], verify_digests: bool = False
) -> Manifest:
    """Return the manifest of files.

    A file with the same size and time of change as in ``known`` is not read again, unless ``verify_digests`` is set.
    Programs such as ``cp -p`` and ``rsync -t`` can replace a file without a change of either.
    """
    found: Manifest = {}
    for file in files:
        before = known.get(file.url)
        if before is not None and not verify_digests and (before.size, before.modified) == (file.size, file.modified):
            found[file.url] = before
        else:
            found[file.url] = FileVersion(file.size, file.modified, _digest(file))
    return found


def _digest(file: SourceFile) -> str:
    """Return a digest of a local file's content; an object store's tag of the content serves as one."""
    if not Path(file.url).is_file():
        return file.modified
    with open(file.url, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]


def compare_manifests(known: Mapping[str, FileVersion], found: Mapping[str, FileVersion]) -> Changes:
    """Return which files were added, changed and removed. A file whose time of change alone differs is not changed."""
    return Changes(
        added=sorted(found.keys() - known.keys()),
        changed=sorted(url for url in found.keys() & known.keys() if found[url].digest != known[url].digest),
        removed=sorted(known.keys() - found.keys()),
    )


def date_in_url(url: str, pattern: str) -> date | None:
    """Return the last date in a URL, or None. ``pattern`` has three groups: year, month and day."""
    for match in reversed(list(re.finditer(pattern, url))):
        try:
            year, month, day = (int(group) for group in match.groups())
            return date(year, month, day)
        except (TypeError, ValueError):
            continue  # not a date, such as 2026-13-01
    return None


def files_up_to(urls: Collection[str], last: date, pattern: str) -> set[str]:
    """Return the URLs whose date is ``last`` or earlier, and all URLs without a date.

    Raises DataError if no URL has a date.
    """
    dates = {url: date_in_url(url, pattern) for url in urls}
    if urls and not any(dates.values()):
        raise DataError(
            f"{min(urls)}: no date is in this path, nor in the paths of the {len(urls) - 1} other files, so --as-of "
            f"cannot select files: set retrain.dates to a pattern with a group each for year, month and day"
        )
    return {url for url, found in dates.items() if found is None or found <= last}
