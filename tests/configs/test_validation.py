"""Parameters of estimators are checked against the schema, and the error message lists the allowed values."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from corpusmill.configs.model_schema import MODEL_SECTIONS
from corpusmill.configs.validation import describe_values, validate_model
from corpusmill.pipeline.models.registry import MODEL_KINDS, estimator_class


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_the_defaults_of_every_estimator_are_valid(kind):
    validate_model(kind, estimator_class(kind)().get_params())


@pytest.mark.parametrize(
    ("kind", "parameters", "sentence"),
    [
        ("lda", {"n_components": 0}, "n_components is 0: choose an integer from 1 to 32768"),
        ("lda", {"n_components": "5"}, "n_components is '5': choose an integer from 1 to 32768"),
        ("lda", {"n_components": True}, "n_components is True: choose an integer from 1 to 32768"),
        ("lda", {"n_components": 5.0}, "n_components is 5.0: choose an integer from 1 to 32768"),
        ("lda", {"leave_out": "no"}, "leave_out is 'no': choose True or False"),
        ("lda", {"topic_word_prior": float("nan")}, "topic_word_prior is nan: choose a number above 0 or None"),
        (
            "lda",
            {"doc_topic_prior": [0.1, -1.0]},
            "doc_topic_prior is [0.1, -1.0]: choose a number above 0, a list of numbers above 0, or None",
        ),
        ("lda", {"seeds": ["a", "b"]}, "seeds is ['a', 'b']: choose a list of lists of strings or None"),
        ("nmf", {"solver": "cd"}, "solver is 'cd': choose one of hals, mu"),
        ("nmf", {"alpha_H": -1}, "alpha_H is -1: choose a number of 0 or more, or 'same'"),
        ("nmf", {"l1_ratio": 1.5}, "l1_ratio is 1.5: choose a number from 0 to 1"),
        ("nmf", {"tol": float("inf")}, "tol is inf: choose a number of 0 or more"),
        ("nmf", {"random_state": -1}, "random_state is -1: choose an integer of 0 or more, or None"),
        ("word2vec", {"alpha": 2.0}, "alpha is 2.0: choose a number above 0 and below 1"),
        ("word2vec", {"sample": 1}, "sample is 1: choose a number of 0 or more and below 1"),
        ("word2vec", {"ns_exponent": float("inf")}, "ns_exponent is inf: choose a finite number"),
        ("node2vec", {"p": 0}, "p is 0: choose a number above 0"),
        ("node2vec", {"walks": 7}, "walks is 7: choose a string or None"),
        ("random-indexing", {"seed_length": 5}, "seed_length is 5: choose an even integer of 2 or more"),
        (
            "word2vec",
            {"minibatch_words": 6},
            "minibatch_words is 6: choose an integer that is a multiple of 4 from 4 to 4096",
        ),
        (
            "random-indexing",
            {"vector_size": "big"},
            "vector_size is 'big': choose an integer from 4 to 65536 or 'auto'",
        ),
        ("random-indexing", {"stop_words": "x"}, "stop_words is 'x': choose 'english', a list of strings, or None"),
    ],
)
def test_an_invalid_value_is_an_error_with_the_allowed_values(kind, parameters, sentence):
    with pytest.raises(ValueError) as caught:
        validate_model(kind, estimator_class(kind)().get_params() | parameters)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("kind", "parameters", "words"),
    [
        ("lda", {"n_components": 3, "doc_topic_prior": [0.1, 0.2]}, "2 values: give one number, or one for each of 3"),
        ("lda", {"n_components": 2, "seeds": [["a"]] * 3}, "seeds has 3 lists: give 2"),
        ("lda", {"seeds": [["a"]], "learn_priors": "symmetric"}, "set learn_priors='none'"),
        ("nmf", {"beta_loss": "kullback-leibler"}, "needs solver='mu'"),
        ("nmf", {"solver": "mu", "alpha_W": 0.1}, "need solver='hals'"),
        ("nmf", {"solver": "mu", "extrapolate": True}, "need solver='hals'"),
        ("nmf", {"alpha_W": 0.1, "extrapolate": True}, "set alpha_W and alpha_H to 0"),
        ("word2vec", {"min_alpha": 0.5}, "min_alpha is 0.5, above alpha (0.025)"),
        ("random-indexing", {"vector_size": 16}, "choose 'auto' or 20 (twice seed_length) to 65536"),
        ("random-indexing", {"min_count": 5, "max_count": 3}, "max_count is 3: choose 5 (min_count) or more"),
        ("random-indexing", {"contexts": "documents"}, "set order='none' and retrain=0"),
    ],
)
def test_parameters_that_exclude_each_other_are_named(kind, parameters, words):
    with pytest.raises(ValueError) as caught:
        validate_model(kind, estimator_class(kind)().get_params() | parameters)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("lda", {"n_components": np.int64(4), "doc_topic_prior": np.full(4, 0.1, np.float32), "leave_out": np.True_}),
        ("lda", {"seeds": (("sea", "ship"), {"king"}), "random_state": None, "topic_word_prior": 1}),
        ("nmf", {"alpha_W": np.float32(0.1), "alpha_H": 0, "tol": 0}),
        ("random-indexing", {"stop_words": frozenset(["the"]), "vector_size": np.int32(64)}),
        ("node2vec", {"walks": Path("walks")}),
    ],
)
def test_numpy_values_tuples_sets_and_paths_are_allowed(kind, parameters):
    validate_model(kind, estimator_class(kind)().get_params() | parameters)


def test_kinds_and_parameters_of_users_are_not_checked():
    validate_model("mine", {"anything": -1})
    validate_model("lda", {"n_components": 5, "of_a_subclass": -1})


def test_every_parameter_describes_its_values():
    for kind, section in MODEL_SECTIONS.items():
        for name, field in section.model_fields.items():
            assert "section of keys" not in describe_values(field), f"{kind}.{name}"


def test_a_check_takes_less_than_a_millisecond():
    parameters = estimator_class("lda")().get_params()
    validate_model("lda", parameters)
    started = time.process_time()
    for _ in range(100):
        validate_model("lda", parameters)
    assert time.process_time() - started < 0.1


def test_the_module_does_not_import_pydantic():
    code = "import sys, corpusmill.configs.validation; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
