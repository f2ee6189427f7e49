"""Make a new version of a model: ingest the new documents, train, score, save.

All files are named by the plan, whose name is a digest of the input. A call that was killed is therefore completed by
the next one, with the same bytes. Nothing in the result depends on the time of day or on the speed of the machine.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ...configs.resolve import without_secrets
from ...configs.schema import Config
from ...io.errors import DataError
from ...io.readers.open import open_source
from ...io.stores.corpus import Corpus
from ...io.stores.selection import select_documents
from ..engine.events import Callback, IngestListener
from ..engine.run import versions as software_versions
from ..ingest.ingest import ingest
from ..ingest.job import ingest_options
from ..models.base.advice import TrainingWarning
from ..models.base.text import SupportsForget, TextEstimator
from ..models.registry import load_model, new_estimator
from ..views.history import is_engine_metric
from .gate import MATCHING, better_score, is_finite, last_score, reason_to_refuse
from .manifest import describe_files
from .plan import RetrainPlan
from .versions import VersionFacts, Versions

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Listeners:
    """What receives the progress of ingest and of training."""

    ingest: IngestListener | None = None
    train: Sequence[Callback] = field(default_factory=tuple)


class _Words(NamedTuple):
    """The vocabulary of a version."""

    batch: str  # the batch that has it
    number: int
    new: int  # words that the version in use does not have
    new_tokens: float  # share of the tokens of the new documents that are such words


@dataclass(frozen=True)
class VersionBuilder:
    """Makes the version of a model that a plan of retraining describes."""

    config: Config
    plan: RetrainPlan
    versions: Versions
    client: "Client | None"
    listeners: Listeners
    check_lock: Callable[[], None]

    def build(self, number: int) -> bool:
        """Make the version and save it as ``number``; return False if it would equal the version that it continues."""
        model_url = self.versions.begin(number, self.plan.name)
        corpus = self._ingest()
        if self.plan.start and not self.plan.forgotten and corpus is not None and not corpus.n_tokens:
            return False
        held_out = self._held_out_batch(corpus)
        estimator = self._train(corpus, held_out)
        facts = self._facts(estimator, corpus, held_out)
        # Timings would make the saved model differ from call to call.
        estimator.history_ = [_without_timings(row) for row in estimator.history_]
        estimator.model_.metadata |= {"metrics": estimator.history_[-1:]}
        estimator.save(model_url)
        self.versions.finish(number, facts)
        return True

    # --- documents ---

    def _batch(self, name: str, part: str = "train") -> Corpus:
        return Corpus(self.versions.store.child(f"batches/{name}").url, part)

    def _ingest(self) -> Corpus | None:
        """Return the corpus of the new and changed files; None if there are none."""
        plan = self.plan
        wanted = set(plan.files_to_read)
        if plan.reader is None or not wanted:
            return None
        reader = plan.reader.only(file for file in plan.reader.files if file.stored_url in wanted)
        # Words keep their ids, so that training can continue: new words come after the known ones.
        vocabulary = None
        if plan.published is not None and plan.keeps_word_ids:
            vocabulary = self._batch(plan.published["corpus"]).vocabulary
        corpus = ingest(
            reader,
            self.versions.store.child(f"batches/{plan.name}").url,
            client=self.client,
            progress=self.listeners.ingest,
            vocabulary=vocabulary,
            grow=vocabulary is not None,
            **vars(ingest_options(self.config)),
        )
        self._check_files_unchanged()
        return corpus

    def _check_files_unchanged(self) -> None:
        """Raise DataError if a file changed while it was read, because the batch may mix its old and new content."""
        assert self.config.source is not None  # there is a reader
        for file in open_source(self.config.source.path, ingest_options(self.config)).files:
            planned = self.plan.manifest.get(file.stored_url)
            if planned is None or planned.batch:
                continue
            if describe_files([file], {file.stored_url: planned})[file.stored_url].digest != planned.digest:
                self.check_lock()
                self.versions.store.delete(f"batches/{self.plan.name}")
                raise DataError(f"{file.url}: this file changed while it was read; run the same command again")

    def _held_out_batch(self, corpus: Corpus | None) -> str:
        """Return the name of the first batch with held-out documents. These judge all versions."""
        published = self.plan.published
        if published and published["held_out"] and self.plan.keeps_word_ids:
            return published["held_out"]
        if corpus is not None and corpus.held_out.n_tokens:
            return self.plan.name
        warnings.warn(
            "no documents are held out, so versions are not compared by their scores: set corpus.held_out above 0"
            + (", and train a new model with --fresh" if published else ""),
            TrainingWarning,
            stacklevel=2,
        )
        return ""

    # --- the model ---

    def _train(self, corpus: Corpus | None, held_out: str) -> TextEstimator:
        plan = self.plan
        if plan.start:
            estimator = load_model(self.versions.model(plan.start))
        else:
            estimator = new_estimator(self.config)
        if isinstance(estimator, SupportsForget):
            self._forget(estimator)
        if plan.reader is None:
            data: Corpus | str = self.config.corpus.url
        elif corpus is None or not corpus.n_tokens:
            return estimator
        else:
            data = corpus
        fit = estimator.partial_fit if plan.start else estimator.fit
        parameters = estimator.get_params()
        estimator.set_params(**plan.overrides)
        fit(
            data,
            client=self.client,
            run=f"{self._run_url}/run",
            callbacks=self.listeners.train,
            held_out=self._batch(held_out, "held_out") if held_out else None,
            evaluate_every=self.config.run.evaluate_every,
            config=without_secrets(self.config),
        )
        return estimator.set_params(**parameters)

    @property
    def _run_url(self) -> str:
        return self.versions.store.child(f"runs/{self.plan.name}").url

    def _forget(self, estimator: SupportsForget) -> None:
        """Subtract the documents of files that were changed or removed from the model."""
        batches: dict[str, list[str]] = {}
        for url, file in self.plan.forgotten.items():
            batches.setdefault(file.batch, []).append(file.read_as or url)
        for name, files in batches.items():
            folder = f"{self._run_url}/forget-{name}"
            documents = select_documents(self._batch(name), files, f"{folder}-documents")
            if documents.n_tokens:
                estimator.forget(documents, client=self.client, run=folder)

    # --- facts ---

    def _facts(self, estimator: TextEstimator, corpus: Corpus | None, held_out: str) -> VersionFacts:
        plan = self.plan
        published = plan.published
        files = {url: replace(file, batch=file.batch or plan.name) for url, file in plan.manifest.items()}
        words = self._words(corpus)
        needed = {words.batch, held_out}
        if isinstance(estimator, SupportsForget):
            # Forgetting a file later needs its documents.
            needed |= {file.batch for file in files.values()}
        measure, score = self._score(estimator, held_out)
        facts: VersionFacts = {
            "name": plan.name,
            "previous": plan.head.version,
            "fresh": not plan.start,
            "model": estimator._kind,
            "settings": plan.settings,
            "partitions": {url: asdict(file) for url, file in files.items()},
            "added": plan.changes.added,
            "changed": plan.changes.changed,
            "removed": plan.changes.removed,
            "forgotten": sorted(plan.forgotten),
            "corpus": words.batch,
            "held_out": held_out,
            "batches": sorted(needed - {""}) if plan.reader else [],
            "documents": corpus.n_documents if corpus is not None else 0,
            "tokens": corpus.n_tokens if corpus is not None else 0,
            "words": words.number,
            "new_words": words.new,
            "new_tokens": words.new_tokens,
            "bad_lines": corpus.meta["about"].get("bad_lines", 0) if corpus is not None else 0,
            "epochs": estimator.n_iter_,
            "software": dict(software_versions()),
            "measure": measure,
            "score": score,
            "score_before": None,
            "best_before": None,
            "finite": is_finite(estimator),
            "refused": "",
        }
        # Scores can be compared only if they are of the same documents.
        if published and held_out and (held_out, measure) == (published["held_out"], published["measure"]):
            facts["score_before"] = published["score"]
            facts["best_before"] = better_score(measure, [published["score"], published.get("best_score")])
        facts["refused"] = reason_to_refuse(facts, published, self.config.retrain)
        # Who publishes a refused version in spite of its score accepts that score for the versions after it.
        facts["best_score"] = score
        if score is not None and not facts["refused"]:
            facts["best_score"] = better_score(measure, [score, facts["best_before"]])
        return facts

    def _score(self, estimator: TextEstimator, held_out: str) -> tuple[str, float | None]:
        """Return the name and the value of the version's score on the held-out documents; ("", None) without any."""
        measure, score = last_score(estimator.history_)
        if score is None and held_out:
            score = estimator.match_halves(self._batch(held_out, "held_out"), client=self.client)
            measure = MATCHING
        if score is None:
            return "", None
        return measure, score

    def _words(self, corpus: Corpus | None) -> _Words:
        """Return how the vocabulary grew by the new documents."""
        published = self.plan.published
        batch = ""
        n_before = 0
        if published is not None and published["corpus"]:
            batch = published["corpus"]
            n_before = self._batch(batch).n_words
        if corpus is None:
            return _Words(batch, n_before, 0, 0.0)
        new_tokens = 0.0
        if published is not None and self.plan.keeps_word_ids and corpus.n_tokens:
            # New words follow those of the version in use.
            frequencies = corpus.vocabulary["term_frequency"].to_numpy()
            new_tokens = float(frequencies[n_before:].sum() / max(1, frequencies.sum()))
        return _Words(self.plan.name, corpus.n_words, max(0, corpus.n_words - n_before), new_tokens)


def _without_timings(row: dict[str, float]) -> dict[str, float]:
    """Return a row of metrics without what was measured on this machine."""
    kept = {"step", "epoch", "tokens"}
    return {name: value for name, value in row.items() if name in kept or not is_engine_metric(name)}
