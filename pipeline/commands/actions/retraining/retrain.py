"""Retraining on a schedule: ingest what is new, go on from the published model, judge the result, publish it.

Everything is named by what it is made of, and HEAD is switched last: a call that is killed anywhere is finished by the
next one, with the same bytes. Nothing of the result depends on the time of day.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from .....configs.resolve import public
from .....configs.schema import Config
from .....io.manifest import select_documents
from .....io.readers.open import open_source
from .....io.stores.corpus import Corpus
from .....io.stores.store import Arrays, DataError
from ....engine.events import Callback
from ....engine.run import versions as software
from ....ingest.ingest import Listener, ingest
from ....models.registry import load_model
from ....models.versions import Facts, Versions
from ....views.history import ENGINE_METRICS
from ..ingest import ingest_options
from ..train import estimator_of
from .plan import Plan, Request, make_plan

#: What a held-out set tells of models, the most telling first: 1 where more is better, -1 where less is.
MEASURES = {"held_out_log_likelihood": 1, "held_out_loss": -1, "held_out_relative_error": -1}
WITHDRAWN = "version {} is of these partitions and was withdrawn; roll back to it if it is wanted after all"


@dataclass(frozen=True)
class Watchers:
    """Who is told of the progress."""

    ingest: Listener | None = None
    train: Sequence[Callback] = ()


def retrain(
    config: Config,
    client: Any | None = None,
    request: Request | None = None,
    watchers: Watchers | None = None,
) -> Facts:
    """Bring the published model of a configuration up to date; return what was done.

    ``status``: "published"; "unchanged"; "refused" by the gate, the version being kept; "planned" for a dry run.
    Raises ValueError, DataError, io.exclusive.Locked.
    """
    request, versions = request or Request(), Versions(config.retrain.url)
    if request.dry_run:
        plan = make_plan(config, versions, request)
        facts = _facts(config, plan, "planned" if plan.is_due else "unchanged")
        return facts | {"as_of": request.as_of and str(request.as_of)}
    with versions.locked() as check:
        plan = make_plan(config, versions, request)
        versions.tidy(config.retrain.keep, plan.name)
        facts = _update(_Making(config, plan, versions, client, watchers or Watchers()), check)
        versions.tidy(config.retrain.keep)
    return facts | {"as_of": request.as_of and str(request.as_of)}


def _update(making: "_Making", check: Callable[[], None]) -> Facts:
    config, plan, versions = making.config, making.plan, making.versions
    if not plan.is_due:
        return _facts(config, plan, "unchanged")
    number = _made_before(plan, versions)
    if number in plan.head.withdrawn:
        return _facts(config, plan, "unchanged", {"reason": WITHDRAWN.format(number)})
    if not number:
        number = max(versions.numbers, default=0) + 1
        making.make(number)
    made = versions.read(number)
    refused = refusal(made, plan.published, config.retrain.tolerance)  # which may have been changed since it was made
    if refused:
        return _facts(config, plan, "refused", made | {"reason": refused})
    check()
    versions.publish(number, plan.head, plan.head.withdrawn)
    return _facts(config, plan, "published", made)


def refusal(made: Facts, published: Facts | None, tolerance: float) -> str:
    """Say why a version may not be published by itself; an empty string where it may."""
    if not made["finite"]:
        return "the model has numbers that are not finite"
    score, before = made["score"], made["score_before"]
    if published is None or not made["measure"] or before is None:
        return ""
    worse = MEASURES[made["measure"]] * (before - score) / max(abs(before), 1e-12)
    if worse <= tolerance:
        return ""
    return (
        f"{made['measure']} is {score:.6g}, {worse:.2%} worse than the {before:.6g} of version {published['version']}: "
        f"more than the retrain.tolerance of {tolerance:.2%}; raise it, or put the version in use by a rollback to it"
    )


def _made_before(plan: Plan, versions: Versions) -> int:
    """Return the number of the version that a broken call made of the same, or that was refused or withdrawn."""
    return next((n for n in reversed(versions.numbers) if versions.read(n)["name"] == plan.name), 0)


def _facts(config: Config, plan: Plan, status: str, made: Facts | None = None) -> Facts:
    """Return what a call did, as plain data."""
    made, published = made or {}, plan.published or {}
    names = ("documents", "tokens", "words", "new_words", "epochs", "measure", "score", "score_before", "reason")
    facts = {
        "status": status,
        "url": config.retrain.url,
        "kind": config.model.kind,
        "version": made.get("version") or published.get("version"),
        "previous": published.get("version"),
        "partitions": len(plan.manifest),
        **asdict(plan.changes),
        "forgotten": plan.forgotten,
        **{name: made.get(name) for name in names},
    }
    facts["model"] = Versions(config.retrain.url).model(facts["version"]) if facts["version"] else None
    return facts


@dataclass(frozen=True)
class _Making:
    """The making of one version."""

    config: Config
    plan: Plan
    versions: Versions
    client: Any | None
    watchers: Watchers

    def make(self, number: int) -> None:
        """Ingest, train, judge, and write the version."""
        corpus = self._ingest()
        held_out = self._held_out(corpus)
        estimator = self._train(corpus, held_out)
        facts = self._judge(estimator, held_out) | self._describe(estimator, corpus, held_out)
        facts["refused"] = refusal(facts, self.plan.published, self.config.retrain.tolerance)
        estimator.history_ = [_timeless(row) for row in estimator.history_]
        estimator.model_.about |= {"metrics": estimator.history_[-1:]}
        self.versions.begin(number)
        estimator.save(self.versions.model(number))
        self.versions.finish(number, facts)

    # --- documents ---

    def _batch(self, name: str, part: str = "train") -> Corpus:
        return Corpus(self.versions.store.child(f"batches/{name}").url, part)

    def _ingest(self) -> Corpus | None:
        """Return the corpus of the new and changed partitions; None where there is none."""
        plan = self.plan
        wanted = {url: entry for url, entry in plan.manifest.items() if not entry.batch}
        if plan.reader is None or not wanted:
            return None
        url = self.versions.store.child(f"batches/{plan.name}").url
        reader = plan.reader.only(file for file in plan.reader.files if file.url in wanted)
        options = ingest_options(self.config)
        words = self._batch(plan.published["corpus"]).vocabulary if plan.published and plan.keeps_ids else None
        corpus = ingest(reader, url, options, self.client, self.watchers.ingest, words, grow=words is not None)
        for file in open_source(self.config.source.path, options).files:  # type: ignore[union-attr]
            before = wanted.get(file.url)
            if before is not None and (before.size, before.modified) != (file.size, file.modified):
                self.versions.store.delete(f"batches/{plan.name}")
                raise DataError(f"{file.url}: it changed while it was read; run the same command again")
        return corpus

    def _held_out(self, corpus: Corpus | None) -> str:
        """Return the name of the batch whose held-out documents judge all versions: the first one that has some."""
        published = self.plan.published
        if published and published["held_out"] and self.plan.keeps_ids:
            return published["held_out"]
        return self.plan.name if corpus is not None and corpus.held_out.n_tokens else ""

    # --- the model ---

    def _train(self, corpus: Corpus | None, held_out: str) -> Any:
        plan, config = self.plan, self.config
        run = self.versions.store.child(f"runs/{plan.name}").url
        estimator = load_model(self.versions.model(plan.start)) if plan.start else estimator_of(config)
        for name, files in self._forgotten().items():
            gone = select_documents(self._batch(name), files, f"{run}/forget-{name}-documents")
            if gone.n_tokens:
                estimator.forget(gone, client=self.client, run=f"{run}/forget-{name}")
        if plan.reader is not None and (corpus is None or not corpus.n_tokens):
            return estimator
        usual = estimator.get_params()
        estimator.set_params(**plan.overrides)
        learn = estimator.partial_fit if plan.start else estimator.fit
        learn(
            config.corpus.url if plan.reader is None else corpus,
            client=self.client,
            run=f"{run}/run",
            callbacks=self.watchers.train,
            held_out=self._batch(held_out, "held_out") if held_out else None,
            evaluate_every=config.run.evaluate_every,
            config=public(config),
        )
        return estimator.set_params(**usual)

    def _forgotten(self) -> dict[str, list[str]]:
        """Return the files to be taken out by the batch that holds them."""
        batches: dict[str, list[str]] = {}
        for url in self.plan.forgotten:
            batches.setdefault(self.plan.published["partitions"][url]["batch"], []).append(url)  # type: ignore[index]
        return batches

    # --- judgement ---

    def _judge(self, estimator: Any, held_out: str) -> Facts:
        """Return the scores of the version and of the one in use, if they are of the same documents."""
        published = self.plan.published or {}
        measure, score = _score(estimator.history_)
        same = held_out and (held_out, measure) == (published.get("held_out"), published.get("measure"))
        scores = {"measure": measure, "score": score, "score_before": published["score"] if same else None}
        return scores | {"finite": _is_finite(estimator)}

    def _describe(self, estimator: Any, corpus: Corpus | None, held_out: str) -> Facts:
        plan, published = self.plan, self.plan.published or {}
        partitions = {url: replace(p, batch=p.batch or plan.name) for url, p in plan.manifest.items()}
        words = self._batch(published["corpus"]).n_words if published.get("corpus") else 0
        latest = plan.name if corpus is not None else published.get("corpus", "")
        used = {entry.batch for entry in partitions.values()} if hasattr(estimator, "forget") else set()
        return {
            "name": plan.name,
            "previous": plan.head.version,
            "fresh": not plan.start,
            "model": estimator.kind,
            "settings": plan.settings,
            "partitions": {url: asdict(entry) for url, entry in partitions.items()},
            **asdict(plan.changes),
            "forgotten": plan.forgotten,
            "corpus": latest,
            "held_out": held_out,
            "batches": sorted({latest, held_out, *used} - {""}) if plan.reader else [],
            "documents": corpus.n_documents if corpus is not None else 0,
            "tokens": corpus.n_tokens if corpus is not None else 0,
            "words": corpus.n_words if corpus is not None else words,
            "new_words": max(0, corpus.n_words - words) if corpus is not None else 0,
            "epochs": estimator.n_iter_,
            "software": software(),
        }


def _timeless(row: dict[str, float]) -> dict[str, float]:
    """Leave out what was measured of this machine: the same call makes the same bytes."""
    timed = ENGINE_METRICS - {"step", "epoch", "tokens"}
    return {name: value for name, value in row.items() if name not in timed and not name.startswith("seconds")}


def _score(history: list[dict[str, float]]) -> tuple[str, float | None]:
    """Return the most telling measure that the last evaluation has, and its value."""
    for row in reversed(history):
        for name in MEASURES:
            if name in row:
                return name, float(row[name])
    return "", None


def _is_finite(estimator: Any) -> bool:
    parts: list[Arrays] = [estimator.model_.shared, *estimator.model_.blocks]
    arrays = (np.asarray(array) for part in parts for array in part.values())
    finite = all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")
    score = _score(estimator.history_)[1]
    return finite and (score is None or math.isfinite(score))
