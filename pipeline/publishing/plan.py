"""Plan a retraining: compare the input files and the settings with those of the version in use."""

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

from pydantic import ValidationError

from ...configs.resolve import without_secrets
from ...configs.schema import Config
from ...io.errors import DataError
from ...io.messages import pluralize
from ...io.readers.open import open_source
from ...io.readers.reader import Reader
from ...io.readers.source import SourceFile, find_files
from ...io.stores.store import DATA_KINDS, Store
from ..ingest.job import ingest_options
from ..models.base.text import SupportsForget
from ..models.own import OwnModel
from ..models.registry import estimator_class, new_estimator
from .gate import MEASURES
from .manifest import Changes, FileVersion, Manifest, compare_manifests, describe_files, files_up_to, follow_moves
from .versions import Settings, VersionRecord, Versions, VersionsHead

#: The sections of the configuration that decide what a model is.
SECTIONS = ("model", "source", "corpus")
#: Settings that decide what happens to bad lines. They may be changed to get a job going again.
ABOUT_BAD_LINES = ("on_bad_line", "max_bad_lines")
#: A file that was not changed for so long is complete, unless retrain.least_age says otherwise.
QUIET_SECONDS = 600


@dataclass(frozen=True)
class RetrainRequest:
    """The options of one call of ``corpusmill retrain``.

    Attributes
    ----------
    as_of : date, optional
        Use only files whose dates are not after this day.
    fresh : bool, default=False
        Train from scratch on all files.
    dry_run : bool, default=False
        Write nothing.
    verify_digests : bool, default=False
        Read every file to find out whether it has changed.
    """

    as_of: date | None = None
    fresh: bool = False
    dry_run: bool = False
    verify_digests: bool = False


@dataclass(frozen=True)
class RetrainPlan:
    """What one call of ``corpusmill retrain`` has to do."""

    head: VersionsHead
    #: The version in use.
    published: VersionRecord | None
    settings: dict[str, Settings]
    #: Parameters that differ when training continues from a version: retrain.model.
    overrides: dict[str, object]
    #: Reader of the source. None if the data is a store that something else writes.
    reader: Reader | None
    changes: Changes
    #: The files that the next version covers. Files to be ingested have no batch yet.
    manifest: Manifest
    #: The files whose documents are to be subtracted from the model.
    forgotten: Manifest
    #: The version to continue from; 0 to train from scratch.
    start: int
    #: Whether a new model was asked for.
    fresh: bool
    #: Files that are left for the next call, because a program may still be writing them.
    too_young: int

    @cached_property
    def name(self) -> str:
        """Digest of everything that decides the result. A repeated call has the same plan and so the same name."""
        decisive = {
            "settings": self.settings,
            "overrides": self.overrides,
            "fresh": self.fresh,
            "from": "" if self.published is None else self.published["name"],
            "ingest": [(url, self.manifest[url].digest) for url in self.files_to_read],
            "forget": sorted((file.read_as or url, file.digest) for url, file in self.forgotten.items()),
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        if self.published is None or self.changes.to_ingest or self.forgotten:
            return True
        # Fresh training on the same files gives the same model again, unless the version in use was trained otherwise.
        return self.fresh and not (self.published["fresh"] and self.published["settings"] == self.settings)

    @property
    def files_to_read(self) -> list[str]:
        """URLs of the files to be ingested."""
        return [url for url, file in self.manifest.items() if not file.batch]

    @property
    def keeps_word_ids(self) -> bool:
        """Whether words get the same ids as in the version in use. They do if the source is read in the same way."""
        if self.published is None:
            return False
        return not _differing(self.published["settings"]["source"] or {}, self.settings["source"] or {})


def make_plan(config: Config, versions: Versions, request: RetrainRequest) -> RetrainPlan:
    """Return the plan of a call: which files are new, and which version is built from them.

    Raises DataError if there is nothing to read, ValueError if the settings contradict those of the version in use.
    """
    _check_model(config)
    head = versions.head
    published = versions.read(head.version) if head.version else None
    known = _known_files(published)
    reader = open_source(config.source.path, ingest_options(config)) if config.source else None
    files = reader.files if reader else _files_of_store(config.corpus.url)
    young = _young_files(files, config.retrain.least_age)
    waiting = _kept_until_read(files, young, known)
    found = describe_files((file for file in files if file not in young), known, request.verify_digests) | waiting
    known = follow_moves(known, found)
    known_then = known
    if request.as_of is not None and (found or known):
        found, known_then = _up_to_date(config, request.as_of, found, known)
    settings = settings_of(config)
    overrides = overrides_of(config)
    changes = compare_manifests(known_then, found)
    # Data without a source is one indivisible whole: the model is trained from scratch whenever the data changes.
    if request.fresh or published is None or reader is None:
        start = 0
        overrides = {}
        forgotten: Manifest = {}
        manifest = {url: _unread(file) for url, file in sorted(found.items()) if url not in waiting}
    else:
        _check_settings(config.retrain.url, published, settings)
        start = published["version"]
        forgotten = _forgotten(config, known, changes)
        manifest = _continued(known, found, changes, forgotten)
    plan = RetrainPlan(
        head=head,
        published=published,
        settings=settings,
        overrides=overrides,
        reader=reader,
        changes=changes,
        manifest=manifest,
        forgotten=forgotten,
        start=start,
        fresh=request.fresh,
        too_young=len(young),
    )
    if (plan.is_due or request.fresh) and not plan.start and not plan.manifest:
        reason = ""
        if young:
            reason = (
                f": {pluralize(len(young), 'file')} changed in the last {config.retrain.least_age:g} s may still be "
                f"written; run the same command later, or lower retrain.least_age"
            )
        raise DataError(f"{config.retrain.url}: no file is left to train a new model on{reason}")
    if reader is not None and not config.retrain.least_age:
        _check_complete(reader, plan.files_to_read)
    return plan


def _forgotten(config: Config, known: Manifest, changes: Changes) -> Manifest:
    """Return the files whose documents a model subtracts, if it can: those that were changed or removed."""
    if not isinstance(new_estimator(config), SupportsForget):
        return {}
    return {url: known[url] for url in sorted([*changes.changed, *changes.removed])}


def _continued(known: Manifest, found: Manifest, changes: Changes, forgotten: Manifest) -> Manifest:
    """Return the files that the version in use and the new and changed files make together."""
    gone = {*changes.removed, *(url for url, file in known.items() if file.is_gone and url not in found)}
    # With the times and URLs of now: after the next version, files that were only touched or moved are not read again
    # for their digests. Until then they are, because calls that change nothing store nothing.
    manifest = {
        url: replace(found.get(url, file), batch=file.batch, read_as=file.read_as, is_gone=url in gone)
        for url, file in known.items()
        if url not in forgotten
    }
    manifest |= {url: _unread(found[url]) for url in changes.to_ingest}
    return dict(sorted(manifest.items()))


def _unread(file: FileVersion) -> FileVersion:
    """Return a file whose documents are in no batch."""
    return replace(file, batch="", read_as="", is_gone=False)


# --- files ---


def _known_files(published: VersionRecord | None) -> Manifest:
    if published is None:
        return {}
    return {url: FileVersion(**record) for url, record in published["partitions"].items()}


def _files_of_store(url: str) -> list[SourceFile]:
    """Return the file that stands for the store at a URL, or the files at the URL if there is no store."""
    store = Store(url)
    for kind in DATA_KINDS:
        if store.exists(f"{kind}.json"):
            return find_files(store.child(f"{kind}.json").url)
    return find_files(url)


def _young_files(files: Sequence[SourceFile], least_age: float) -> set[SourceFile]:
    """Return the files that were changed in the last ``least_age`` seconds.

    Only local files have a time that no program can set. An object store shows an object when it is complete.
    """
    if not least_age:
        return set()
    now = time.time()
    return {file for file in files if file.changed and now - float(file.changed) < least_age}


def _kept_until_read(files: Sequence[SourceFile], young: Set[SourceFile], known: Manifest) -> Manifest:
    """Return the known files that stay as they were in this call, because a young file has their URL or their content.

    Of a file that was moved, only the new URL is there, and it is young. Until it is read, size and time show that it
    is the same file.
    """
    urls = {file.stored_url for file in files}
    young_urls = {file.stored_url for file in young}
    moved = {(file.size, file.modified) for file in young if file.stored_url not in known}
    return {
        url: file
        for url, file in known.items()
        if url in young_urls or (url not in urls and (file.size, file.modified) in moved)
    }


def _check_complete(reader: Reader, urls: Sequence[str]) -> None:
    """Raise DataError if a CSV file that was changed a moment ago ends within a line: it may still be written.

    Half a row looks like a row. Other formats show that they were cut.
    """
    if reader.kind != "CSV":
        return
    for file in _young_files(reader.files, QUIET_SECONDS):
        # In UTF-16, a line break is no single byte.
        if file.stored_url not in urls or file.compression or file.encoding or not file.size:
            continue
        with open(file.url, "rb") as stream:
            stream.seek(-1, os.SEEK_END)
            if stream.read(1) not in b"\r\n":
                raise DataError(
                    f"{file.url}: was changed in the last {QUIET_SECONDS // 60} minutes and ends within a line, so a "
                    f"program may still be writing it; after that time, it counts as complete: run the same command "
                    f"then (retrain.least_age leaves young files for the next call), or end the file with a line break"
                )


def _check_model(config: Config) -> None:
    """Raise DataError for a model of graphs, and for an algorithm of a user's own that has no score, before reading."""
    estimator = new_estimator(config)
    estimator._check_takes_documents()
    if not config.corpus.held_out or not isinstance(estimator, OwnModel):
        return
    measures = estimator.measures()
    if measures is not None and measures.isdisjoint(MEASURES):
        raise DataError(
            f"{config.model.kind}: versions are compared by held-out documents, and an algorithm cannot be applied to "
            f"them: let its scores have one of the metrics {', '.join(MEASURES)}, write an estimator "
            f"(docs/how-to/adding-a-model.md), or set corpus.held_out to 0"
        )


def _up_to_date(config: Config, last: date, found: Manifest, known: Manifest) -> tuple[Manifest, Manifest]:
    """Drop the files that are dated after ``last``; raise DataError if none is left, found or of the version in use."""
    urls = files_up_to(found.keys() | known.keys(), last, config.retrain.dates)
    found = {url: file for url, file in found.items() if url in urls}
    known = {url: file for url, file in known.items() if url in urls}
    if not found and not known:
        raise DataError(f"{config.retrain.url}: no file is dated {last} or earlier; choose a later --as-of")
    return found, known


# --- settings ---


def settings_of(config: Config) -> dict[str, Settings]:
    """Return the settings that determine a model together with its documents."""
    shown = without_secrets(config)
    settings = {section: shown[section] for section in SECTIONS}
    # Where the documents come from does not matter, only how they are read.
    if settings["source"]:
        ignored = ("path", *ABOUT_BAD_LINES)
        settings["source"] = {key: value for key, value in settings["source"].items() if key not in ignored}
    settings["corpus"] = {key: value for key, value in settings["corpus"].items() if key != "url"}
    return settings


def overrides_of(config: Config) -> dict[str, object]:
    """Return the parameters in retrain.model; raise ValueError for one that the model does not have."""
    section = config.model
    overrides = config.retrain.model or {}
    try:
        checked = type(section).model_validate(section.model_dump() | overrides)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in ("retrain", "model", *first["loc"]))
        if first["type"] == "extra_forbidden":
            known = ", ".join(name for name in type(section).model_fields if name != "kind")
            raise ValueError(
                f"{key}: {section.kind} models have no such parameter; remove it from retrain.model, or choose one of "
                f"{known}"
            ) from None
        raise ValueError(f"{key}: {first['msg']}; retrain.model takes the parameters of the section model") from None
    for name in estimator_class(section.kind)._fixed_parameters:
        if getattr(checked, name) != getattr(section, name):
            raise ValueError(
                f"retrain.model.{name} is {getattr(checked, name)!r}, but model.{name} is {getattr(section, name)!r}, "
                f"and versions that continue one another must agree in it: remove retrain.model.{name}"
            )
    return {name: getattr(checked, name) for name in overrides if name != "kind"}


def _check_settings(url: str, published: VersionRecord, settings: dict[str, Settings]) -> None:
    """Raise ValueError if the version in use was made with other settings: training cannot continue from it."""
    differing = []
    for section in SECTIONS:
        old = published["settings"][section] or {}
        new = settings[section] or {}
        differing += [f"{section}.{key} is {new[key]!r} and was {old[key]!r}" for key in _differing(old, new)]
    if differing:
        # All files of a source are read with the same settings.
        is_source = any(setting.startswith("source.") for setting in differing)
        raise ValueError(
            f"{url}: the version in use was made with other settings: {', '.join(differing)}; set them back"
            f"{' and convert the new files' if is_source else ''}, choose another retrain.url, or train a new model on "
            f"all files with --fresh"
        )


def _differing(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Return the keys with different values. Keys that only one mapping has do not count; another version has them."""
    return [key for key in new if key in old and old[key] != new[key]]
