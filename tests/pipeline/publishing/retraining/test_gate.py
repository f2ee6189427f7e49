"""The gate refuses versions that are worse than the one in use or the best one, or that learned from noise."""

import random

import numpy as np
import pytest
from corpusmill import LDA, RandomIndexing, TrainingWarning, Word2Vec
from corpusmill.configs.layers import Layer
from corpusmill.configs.resolve import resolve
from corpusmill.configs.schema import RetrainConfig
from corpusmill.pipeline.models.base.saved import TrainedModel
from corpusmill.pipeline.publishing.gate import (
    MATCHING,
    better_score,
    is_finite,
    reason_to_refuse,
)
from corpusmill.pipeline.publishing.retrain import retrain
from corpusmill.pipeline.publishing.versions import Versions
from helpers.nightly import BOATS, BREAD, configuration, tree_of, write_day

PUBLISHED = {"version": 4}
SUBJECTS = (BOATS.split(), BREAD.split())


def facts(score, before=None, best=None, measure="held_out_log_likelihood", **others):
    return {
        "finite": True,
        "measure": measure,
        "score": score,
        "score_before": before,
        "best_before": best,
    } | others


def documents(n, seed, words=None):
    """Return texts of 30 words, each from one of two subjects, or from ``words``."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(words or SUBJECTS[i % 2], k=30)) for i in range(n)]


def numbered(text):
    """Return a text whose words have one of twenty numbers at their ends."""
    draw = random.Random(text)
    return " ".join(f"{word}{draw.randrange(20)}" for word in text.split())


# --- the rules ---


@pytest.mark.parametrize(
    "new, limits, reason",
    [
        (facts(-7.0, -7.0, -7.0), {}, ""),
        (facts(-7.06, -7.0), {}, ""),
        (facts(-7.08, -7.0), {}, "worse than the -7 of version 4 and exceeds the retrain.tolerance of 1.00%"),
        (facts(1.02, 1.0, measure="held_out_loss"), {}, "held_out_loss is 1.02, which is 2.00% worse"),
        (facts(1.02, 1.0, measure="held_out_loss"), {}, "a smaller learning rate (retrain.model.alpha), raise the tol"),
        (facts(-7.06, -7.0, -6.9), {}, ""),
        (facts(-7.06, -7.0, -6.8), {}, "worse than the best earlier version's -6.8 and exceeds the retrain.best_toler"),
        (facts(-7.06, -7.0, -6.8), {"best_tolerance": 0.1}, ""),
        (facts(-7.06, -7.0, -6.8), {"tolerance": 0.02}, ""),
        (facts(0.9, 0.95, measure=MATCHING), {}, "held_out_matching is 0.9, which is 5.26% worse"),
        (facts(None), {}, ""),
        (facts(None, new_tokens=0.5), {}, ""),
        (facts(None, new_tokens=0.9), {}, "90.0% of the tokens of the new documents are words that version 4 does not"),
        (facts(None, new_tokens=0.9), {"max_new_words": 1.0}, ""),
        (facts(-7.0, finite=False), {}, "not finite"),
    ],
)
def test_a_version_is_refused_with_the_numbers_and_the_limit(new, limits, reason):
    found = reason_to_refuse(new, PUBLISHED, RetrainConfig(**limits))
    assert reason in found
    assert bool(reason) == bool(found)


def test_the_first_version_is_published_whatever_its_score():
    assert reason_to_refuse(facts(-99.0, -7.0, -7.0), None, RetrainConfig()) == ""


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_number_that_is_not_finite_is_found_in_every_part_of_a_model(bad):
    def model(block=1.0, shared=1.0, score=-7.0):
        estimator = LDA()
        blocks = [{"counts": np.arange(3)}, {"weights": np.array([1.0, block])}]
        estimator.model_ = TrainedModel(blocks, {"prior": np.array([shared])}, None, None)
        estimator.history_ = [{"held_out_log_likelihood": score}]
        return estimator

    assert is_finite(model())
    assert not is_finite(model(block=bad))
    assert not is_finite(model(shared=bad))
    assert not is_finite(model(score=bad))


def test_the_best_score_depends_on_the_measure():
    assert better_score("held_out_log_likelihood", [-7.0, None, -6.0]) == -6.0
    assert better_score("held_out_loss", [2.0, 1.0]) == 1.0
    assert better_score("held_out_loss", [None]) is None


# --- whole nights ---


def test_quality_cannot_decline_a_little_every_night():
    def night(day, texts):
        write_day(day, texts)
        return retrain(configuration("random-indexing", tolerance=0.5, best_tolerance=0.05))

    first = night(1, documents(60, 1))
    noise = random.Random(2)
    for day in range(2, 8):
        found = night(day, [" ".join(noise.choices(SUBJECTS[0] + SUBJECTS[1], k=60_000))])
        if found["status"] == "refused":
            break
    assert "worse than the best earlier version's" in found["reason"]
    assert found["score"] < first["score"]
    versions = Versions("models")
    published = [versions.read(number) for number in versions.numbers[:-1]]
    assert published[-1]["best_score"] == max(record["score"] for record in published)
    # A refused version starts a new count, in case a user publishes it in spite of its score.
    assert versions.read(found["version"])["best_score"] == found["score"]


@pytest.mark.parametrize("kind", ["random-indexing", "lda", "nmf", "word2vec"])
def test_every_kind_of_model_has_a_score_and_refuses_random_letters(kind):
    write_day(1, documents(60, 1))
    write_day(2, documents(10, 2))
    first = retrain(configuration(kind))
    assert first["score"] is not None
    assert (first["measure"] == MATCHING) == (kind == "random-indexing")
    draw = random.Random(3)
    write_day(3, [" ".join("".join(draw.choices("abcdefgh", k=6)) for _ in range(30)) for _ in range(40)])
    found = retrain(configuration(kind))
    assert (found["status"], found["version"]) == ("refused", 2)
    assert "of the tokens of the new documents are words that version 1 does not have" in found["reason"]


def test_random_indexing_refuses_one_huge_document_that_mixes_everything():
    write_day(1, documents(60, 1))
    write_day(2, documents(10, 2))
    limits = {"tolerance": 0.01}
    first = retrain(configuration("random-indexing", **limits))
    draw = random.Random(3)
    write_day(3, [" ".join(draw.choices(SUBJECTS[0] + SUBJECTS[1], k=300_000))])
    found = retrain(configuration("random-indexing", **limits))
    assert found["status"] == "refused"
    assert found["score"] < first["score"]
    assert "held_out_matching" in found["reason"]
    # The next night with good documents starts from the version in use.
    write_day(3, documents(10, 4))
    assert retrain(configuration("random-indexing", **limits))["status"] == "published"


def test_a_night_without_held_out_documents_says_that_nothing_is_compared():
    write_day(1, documents(20, 1))
    settings = tree_of("lda", corpus={"held_out": 0.0})
    with pytest.warns(TrainingWarning, match=r"not compared by their scores: set corpus\.held_out above 0"):
        found = retrain(resolve([Layer("here", settings)]))
    assert (found["status"], found["score"]) == ("published", None)


# --- the score of models without a likelihood ---


@pytest.mark.parametrize(
    "model",
    [RandomIndexing(256, seed_length=8), LDA(2, max_iter=20), Word2Vec(vector_size=16, min_count=1, sample=0)],
    ids=lambda model: model._kind,
)
def test_halves_of_documents_find_each_other_better_than_by_chance(model):
    model.fit(documents(200, 1))
    score = model.match_halves(documents(40, 2))
    assert 0.6 < score <= 1
    assert model.match_halves(documents(40, 2)) == score
    mixed = documents(40, 2, SUBJECTS[0] + SUBJECTS[1])
    assert model.match_halves(mixed) < score


def test_too_few_documents_have_no_halves_to_compare():
    model = RandomIndexing(64, seed_length=4).fit(documents(10, 1))
    assert model.match_halves(documents(1, 2)) is None
    assert model.match_halves(["unknown words only", "and others"]) is None


@pytest.mark.parametrize("kind", ["lda", "nmf"])
def test_words_that_are_added_do_not_make_the_score_of_a_version_worse(kind):
    write_day(1, documents(40, 1))
    write_day(2, documents(10, 2))
    limits = {"tolerance": 0.01, "max_new_words": 1.0}
    first = retrain(configuration(kind, **limits))
    # The added words belong to the same subjects, so the words of the first days keep their topics.
    write_day(3, [f"{text} {numbered(text)}" for text in documents(400, 3)])
    second = retrain(configuration(kind, **limits))
    assert second["words"] > 10 * first["words"]
    assert second["status"] == "published"
