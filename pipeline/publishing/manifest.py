"""Manifests: which files of a source are new, changed or removed since the last ingest."""

import hashlib
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date

from ...io.errors import DataError
from ...io.readers.source import SourceFile, open_file

#: The clock of a file system advances at least this often.
_TICK_SECONDS = 0.01
#: As above, for file systems that store no fractions of a second, such as FAT.
_COARSE_TICK_SECONDS = 2.0
#: Bytes of a file that are read at a time.
_DIGEST_BYTES = 1 << 20


@dataclass(frozen=True)
class FileVersion:
    """One file as it was when it was ingested."""

    size: int
    modified: str  # time of change, or the object store's tag of the content
    digest: str  # of the content, or the object store's tag
    batch: str = ""  # the corpus that holds its documents
    changed: str = ""  # see SourceFile
    read_as: str = ""  # the URL that its documents have in that corpus, if the file has moved since
    is_gone: bool = False  # removed since; an earlier call has reported that


Manifest = dict[str, FileVersion]


@dataclass(frozen=True)
class Changes:
    """How the files of a source differ from those of the version in use, as sorted lists of URLs."""

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

    A file that has the same size and times as in ``known`` is not read again, unless ``verify_digests`` is set.
    Programs such as ``cp -p``, ``rsync -t`` and ``tar`` replace a file without a change of size and time of
    modification. A local file system also records when it last changed the file, which they cannot set. Object stores
    have a tag.
    """
    found: Manifest = {}
    for file in files:
        before = known.get(file.stored_url)
        if before is not None and not verify_digests and _is_same(before, file):
            found[file.stored_url] = before
        else:
            _wait_for_clock(file)
            found[file.stored_url] = FileVersion(file.size, file.modified, _digest(file), changed=file.changed)
    return found


def _is_same(before: FileVersion, file: SourceFile) -> bool:
    if (before.size, before.modified) != (file.size, file.modified):
        return False
    # Manifests of early releases have no time of the last change.
    return not before.changed or before.changed == file.changed


def _wait_for_clock(file: SourceFile) -> None:
    """Wait until a further change of a local file would give it another time.

    A file may be rewritten within the same tick of the clock after it was read. It would then keep its times, and the
    next call would not notice.
    """
    if not file.changed:
        return
    changed = float(file.changed)
    # Some file systems store whole seconds, or every second one.
    tick = _COARSE_TICK_SECONDS if changed == int(changed) else _TICK_SECONDS
    elapsed = time.time() - changed
    if 0 <= elapsed < tick:
        time.sleep(tick - elapsed)


def _digest(file: SourceFile) -> str:
    """Return a digest of a file's content: the tag of the content if an object store has one, else a hash."""
    if file.tag:
        return file.tag
    digest = hashlib.sha256()
    with open_file(file, unpack=False) as stream:
        while block := stream.read(_DIGEST_BYTES):
            digest.update(block)
    return digest.hexdigest()[:32]


def compare_manifests(known: Mapping[str, FileVersion], found: Mapping[str, FileVersion]) -> Changes:
    """Return which files were added, changed and removed. The time of a file alone does not matter."""
    return Changes(
        added=sorted(found.keys() - known.keys()),
        changed=sorted(url for url in found.keys() & known.keys() if found[url].digest != known[url].digest),
        removed=sorted(url for url in known.keys() - found.keys() if not known[url].is_gone),
    )


def follow_moves(known: Mapping[str, FileVersion], found: Mapping[str, FileVersion]) -> Manifest:
    """Return ``known`` with the present URLs of files that were moved or renamed.

    A file has moved if its content is no longer where it was, and is now where it was not. So the documents of a folder
    that was moved, or of logs that were rotated, are not read again.

    A moved file may have replaced another one, whose content is nowhere any more. That one gets the URL where the chain
    of moves began: of a, a.1 and a.2, rotation drops the old a.2, and the new a counts as the file that replaced it.
    """
    gone: dict[tuple[int, str], list[str]] = {}
    for url in sorted(known, reverse=True):
        if _differs(url, known, found):
            gone.setdefault(_content(known[url]), []).append(url)
    moves: dict[str, str] = {}
    for url in sorted(found):
        if _differs(url, found, known) and (candidates := gone.get(_content(found[url]))):
            moves[candidates.pop()] = url
    for first in moves.keys() - moves.values():
        last = first
        while last in moves:
            last = moves[last]
        if last in known:
            moves[last] = first
    return {
        moves.get(url, url): replace(file, read_as=file.read_as or url) if url in moves else file
        for url, file in known.items()
    }


def _differs(url: str, one: Mapping[str, FileVersion], other: Mapping[str, FileVersion]) -> bool:
    """Return whether the content that ``one`` has at a URL is not there in ``other``."""
    return url not in other or _content(one[url]) != _content(other[url])


def _content(file: FileVersion) -> tuple[int, str]:
    return file.size, file.digest


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
