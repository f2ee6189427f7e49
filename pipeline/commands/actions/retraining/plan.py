"""What a retraining has to do: the source's partitions and the settings, compared with the published version's."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from pydantic import ValidationError

from .....configs.resolve import public
from .....configs.schema import Config
from .....io.manifest import Changes, FileVersion, Manifest, compare_manifests, describe_files, files_up_to
from .....io.readers.lines import Reader
from .....io.readers.open import open_source
from .....io.readers.source import SourceFile, find_files
from .....io.stores.store import DataError, Store
from ....models.versions import Facts, Head, Versions
from ..ingest import ingest_options
from ..train import estimator_of

#: The file that stands for a whole store of data.
TABLES = ("corpus.json", "matrix.json", "graph.json")


@dataclass(frozen=True)
class Request:
    """What a call asks for. ``as_of``: only partitions up to that day; ``fresh``: train anew on all partitions."""

    as_of: date | None = None
    fresh: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Plan:
    """What there is to do; ``name`` is a digest of all that decides the result."""

    name: str
    head: Head
    published: Facts | None  # version.json of the version in use
    settings: Facts
    overrides: Facts  # parameters of the estimator that differ where it goes on from a version
    reader: Reader | None  # of what is to be ingested; None where the data are a store of their own
    changes: Changes
    manifest: Manifest  # the partitions that the next version stands for; those to be ingested have no batch yet
    forgotten: list[str]  # partitions whose documents are to be taken out
    start: int  # the version to go on from; 0: from nothing
    is_due: bool

    @property
    def keeps_ids(self) -> bool:
        """Whether words have the ids that they have in the published version."""
        return self.published is not None and not _differing(
            self.published["settings"]["source"] or {}, self.settings["source"] or {}
        )


def make_plan(config: Config, versions: Versions, request: Request) -> Plan:
    """Compare; raise DataError where there is nothing to read, ValueError for settings that do not go together."""
    head = versions.head
    published = versions.read(head.version) if head.version else None
    known = {url: FileVersion(**entry) for url, entry in published["partitions"].items()} if published else {}
    reader = open_source(config.source.path, ingest_options(config)) if config.source else None
    found = describe_files(reader.files if reader else _files_of(config.corpus.url), known)
    found, seen = _up_to_date(config, request, found, known)
    changes = compare_manifests(seen, found)
    settings, overrides = settings_of(config), overrides_of(config)
    # Data without a source are one whole, which is learned anew whenever it changes.
    anew = request.fresh or published is None or reader is None
    forgotten: list[str] = []
    manifest = {url: replace(entry, batch="") for url, entry in found.items()}
    if not anew:
        _check_settings(config.retrain.url, published or {}, settings)
        if hasattr(estimator_of(config), "forget"):
            forgotten = sorted([*changes.changed, *changes.removed])
        manifest = {url: entry for url, entry in known.items() if url not in forgotten}
        manifest |= {url: found[url] for url in changes.to_ingest}
    plan = Plan(
        name="",
        head=head,
        published=published,
        settings=settings,
        overrides={} if anew else overrides,
        reader=reader,
        changes=changes,
        manifest=dict(sorted(manifest.items())),
        forgotten=forgotten,
        start=0 if anew else head.version,
        is_due=published is None or bool(changes.to_ingest or forgotten) or _is_stale(request, published, settings),
    )
    return replace(plan, name=_name_of(plan, request))


def settings_of(config: Config) -> Facts:
    """Return what decides a model besides its documents."""
    shown = public(config)
    source = shown["source"] and {k: v for k, v in shown["source"].items() if k != "path"}
    corpus = {k: v for k, v in shown["corpus"].items() if k != "url"}
    return {"model": shown["model"], "source": source, "corpus": corpus}


def overrides_of(config: Config) -> Facts:
    """Return the parameters that differ where a model goes on; raise ValueError for some that it does not have."""
    try:
        model = type(config.model).model_validate(config.model.model_dump() | config.retrain.model)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in ("retrain", "model", *first["loc"]))
        raise ValueError(f"{where}: {first['msg']}; it may say what the model section of this kind may") from None
    return {name: getattr(model, name) for name in config.retrain.model if name != "kind"}


def _files_of(url: str) -> list[SourceFile]:
    store = Store(url)
    table = next((name for name in TABLES if store.exists(name)), None)
    return find_files(store.child(table).url if table else url)


def _up_to_date(config: Config, request: Request, found: Manifest, known: Manifest) -> tuple[Manifest, Manifest]:
    if request.as_of is None:
        return found, known
    days = files_up_to(found.keys() | known.keys(), request.as_of, config.retrain.dates)
    found, seen = ({url: entry for url, entry in some.items() if url in days} for some in (found, known))
    if not found and not known:
        raise DataError(f"{config.retrain.url}: no partition is as old as {request.as_of}, and there is no version yet")
    return found, seen


def _check_settings(url: str, published: Facts, settings: Facts) -> None:
    differing = [
        f"{section}.{key} is {settings[section][key]!r} and was {published['settings'][section][key]!r}"
        for section in ("model", "source", "corpus")
        for key in _differing(published["settings"][section] or {}, settings[section] or {})
    ]
    if differing:
        raise ValueError(
            f"{url}: the published model was made with other settings: {', '.join(differing)}; set them back, choose "
            f"another retrain.url, or train anew on all partitions with --fresh"
        )


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Names of settings that differ; one that only one of them knows is another version's of this software."""
    return [key for key in new if key in old and old[key] != new[key]]


def _is_stale(request: Request, published: Facts, settings: Facts) -> bool:
    """Whether training anew would make another model of the same partitions."""
    return request.fresh and not (published["fresh"] and published["settings"] == settings)


def _name_of(plan: Plan, request: Request) -> str:
    before = plan.published or {"name": "", "partitions": {}}
    decisive = {
        "settings": plan.settings,
        "overrides": plan.overrides,
        "fresh": request.fresh,
        "from": before["name"],
        "ingest": [(url, entry.digest) for url, entry in plan.manifest.items() if not entry.batch],
        "forget": [(url, before["partitions"][url]["digest"]) for url in plan.forgotten],
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]
