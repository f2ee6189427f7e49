"""Configurations: what ships loads, layers override each other in order, and errors say where and what."""

import dataclasses
from pathlib import Path

import pytest
import yaml
from corpusmill.configs.layers import ConfigError, Layer, shipped
from corpusmill.configs.redact import HIDDEN
from corpusmill.configs.resolve import load, public, resolve
from corpusmill.configs.schema import Config, SourceConfig
from corpusmill.io.readers.open import FORMATS
from corpusmill.pipeline.engine.clusters import KINDS, dask_settings
from corpusmill.pipeline.ingest.tasks import IngestOptions
from corpusmill.pipeline.models.registry import MODEL_KINDS, estimator_class

CONFIGS = Path(__file__).parents[2] / "configs"
MINIMAL = {"corpus": {"url": "somewhere"}}


def failing(*settings, environment=None, files=("quickstart",)):
    with pytest.raises(ConfigError) as caught:
        load(files, settings, environment or {})
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


# --- what ships ---


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_configuration_loads_and_uses_every_key_that_it_says(name):
    config = load(["quickstart", name], environment={})
    said = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    for section, keys in said.items():
        assert set(keys) <= set(getattr(config, section).model_dump())


def test_each_kind_of_cluster_has_a_file():
    kinds = {load(["quickstart", name], environment={}).cluster.kind for name in shipped() if "clusters/" in name}
    assert kinds == set(KINDS)


def test_dask_settings_are_what_the_file_says():
    said = yaml.safe_load((CONFIGS / "dask.yaml").read_text())
    settings = dask_settings()
    assert settings["distributed"]["scheduler"]["no-workers-timeout"] == "5 minutes"
    for section, values in said["distributed"].items():
        for key, value in values.items():
            found = settings["distributed"][section][key]
            assert found == value or found.items() >= value.items()


# --- the schema and what it configures ---


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_a_model_section_has_the_names_and_defaults_of_its_estimator(kind):
    section = resolve([Layer("here", MINIMAL | {"model": {"kind": kind}})]).model
    assert section.model_dump(exclude={"kind"}) == estimator_class(kind)().get_params()


def test_the_source_section_has_the_names_and_defaults_of_ingest():
    options = {f.name: f.default for f in dataclasses.fields(IngestOptions)}
    of_corpus = {"held_out", "chunk_tokens", "overwrite"}
    section = SourceConfig(path="x").model_dump(exclude={"path"})
    assert section == {name: value for name, value in options.items() if name not in of_corpus}


def test_the_formats_are_those_that_can_be_read():
    formats = Config.model_json_schema()["$defs"]["SourceConfig"]["properties"]["format"]["enum"]
    assert set(formats) == {"auto", *FORMATS}


def test_the_json_schema_explains_every_key():
    for name, section in Config.model_json_schema()["$defs"].items():
        for key, about in section["properties"].items():
            assert "description" in about or key in ("kind", "scheduler"), f"{name}.{key}"


# --- layers ---


def test_later_layers_win(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("corpus: {url: file}\nmodel: {n_components: 7, max_iter: 3}\nrun: {evaluate_every: 1}\n")
    environment = {"CORPUSMILL_MODEL__MAX_ITER": "4", "CORPUSMILL_RUN__EVALUATE_EVERY": "2", "CORPUSMILL_DATA": "x"}
    config = load([file], ["run.evaluate_every=5"], environment)
    assert (config.model.n_components, config.model.max_iter, config.run.evaluate_every) == (7, 4, 5)
    assert config.model.topic_word_prior is None


def test_naming_the_default_kind_keeps_the_keys_of_a_section_without_kind(tmp_path):
    (tmp_path / "a.yaml").write_text("corpus: {url: a}\nmodel: {n_components: 5}\n")
    assert load([tmp_path / "a.yaml"], ["model.kind=lda"], {}).model.n_components == 5
    assert load([tmp_path / "a.yaml"], ["model.kind=nmf"], {}).model.n_components == 100


def test_several_files_lie_over_each_other(tmp_path):
    (tmp_path / "a.yaml").write_text("corpus: {url: a}\nmodel: {n_components: 5}\n")
    (tmp_path / "b.yaml").write_text("corpus: {url: b}\n")
    config = load([tmp_path / "a.yaml", tmp_path / "b.yaml"], environment={})
    assert (config.corpus.url, config.model.n_components) == ("b", 5)


def test_another_kind_starts_its_section_anew_in_whatever_order_it_is_said():
    settings = ["cluster.address=tcp://there:8786", "cluster.kind=address"]
    assert load(["quickstart"], settings, {}).cluster.arguments() == {"kind": "address", "address": "tcp://there:8786"}


def test_a_value_may_be_anything_that_yaml_says():
    settings = ["model.n_components=2", "model.doc_topic_prior=[0.1, 0.2]", "report=null", "source.max_features=10_000"]
    config = load(["quickstart"], settings, {})
    assert config.model.doc_topic_prior == [0.1, 0.2]
    assert config.report is None
    assert config.report_path == ""
    assert config.source.max_features == 10_000


def test_options_go_to_the_cluster_and_nulls_do_not():
    settings = ["cluster.options={protocol: tcp}", "cluster.n_workers=null"]
    arguments = load(["quickstart"], settings, {}).cluster.arguments()
    assert arguments["protocol"] == "tcp"
    assert "n_workers" not in arguments
    assert "options" not in arguments


def test_model_and_report_lie_in_the_run_unless_said_otherwise():
    config = resolve([Layer("here", MINIMAL | {"run": {"url": "runs/a/"}})])
    assert (config.model_url, config.report_path) == ("runs/a/model", "runs/a/report.html")


# --- errors ---


def test_a_misspelt_key_names_file_line_and_neighbour(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("corpus:\n  url: x\n\nmodel:\n  kind: lda\n  n_component: 5\n")
    sentence = failing(files=[file])
    assert sentence == f"{file}, line 6: model.n_component: no such key; did you mean n_components?"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["n_components=5"], ["--set n_components", "did you mean model.n_components?"]),
        (["model.kind=ldaa"], ["model.kind", "no kind ldaa; choose one of lda, nmf"]),
        (["model.n_components=0"], ["model.n_components", "0 is not allowed; choose an integer from 1 to 32768"]),
        (
            ["corpus.held_out=1.5"],
            ["corpus.held_out", "1.5 is not allowed; choose a number of 0 or more and below 1"],
        ),
        (["model.max_iter=soon"], ["model.max_iter", '"soon"', "an integer of 1 or more"]),
        (["source.stop_words=french"], ["source.stop_words", '"french"', "'english'", "list"]),
        (
            ["model.kind=random-indexing", "model.seed_length=5"],
            ["model.seed_length", "5 is not allowed; choose an even integer"],
        ),
        (
            ["model.kind=random-indexing", "model.window=0"],
            ["model.window", "0 is not allowed; choose an integer of 1 or more"],
        ),
        (["model=5"], ["model", "section of keys"]),
        (["model"], ["--set model", "section.key=value"]),
        (["corpus.url=null"], ["corpus.url", "null is not allowed; choose a string"]),
        (["model.learn_priors=all"], ["choose one of none, symmetric, asymmetric"]),
        (["model.doc_topic_prior=x"], ["choose a number above 0, a list of numbers above 0, or null"]),
        (["report=5"], ["--set report: report: 5 is not allowed; choose a section of keys and values or null"]),
        (["cluster.adapt={maximum: 0}"], ["cluster.adapt.maximum: 0 is not allowed; choose an integer of 1 or more"]),
        (["cluster.adapt={maximum: 2, minumum: 1}"], ["cluster.adapt.minumum: no such key; did you mean minimum?"]),
        (["cluster.kind=address"], ["cluster.address: is needed"]),
    ],
)
def test_a_bad_setting_says_where_which_and_what(settings, words):
    sentence = failing(*settings)
    assert all(word in sentence for word in words), sentence


def test_parameters_that_exclude_each_other_name_the_section_and_its_line(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("corpus: {url: x}\nmodel:\n  kind: nmf\n  beta_loss: kullback-leibler\n")
    assert failing(files=[file]) == f"{file}, line 2: model: beta_loss='kullback-leibler' needs solver='mu'"


def test_a_bad_variable_is_named():
    sentence = failing(environment={"CORPUSMILL_MODEL__MAX_ITER": "0"})
    assert sentence.startswith("environment variable CORPUSMILL_MODEL__MAX_ITER: model.max_iter: 0 is not allowed")


def test_a_missing_file_suggests_what_ships():
    assert "did you mean quickstart?" in failing(files=["quikstart"])
    assert "configurations in the package" in failing(files=["zzz"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("model: [1", "not valid YAML"),
        ("just words", "holds no sections"),
        ("", "holds no sections"),
        ("a: !!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path, content, words):
    file = tmp_path / "my.yaml"
    file.write_text(content)
    assert words in failing(files=[file])


def test_a_file_that_is_no_text(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as text" in failing(files=[file])


# --- secrets ---


def test_secrets_are_hidden_and_nothing_else_is():
    options = {
        "password": "hunter2",
        "aws_secret_access_key": "hunter2",
        "token": "hunter2",
        "job_script_prologue": ["export API_TOKEN=hunter2", "module load python"],
    }
    tree = {
        "source": {"path": "s3://user:hunter2@host/x"},
        "cluster": {"kind": "jobqueue", "options": options},
    }
    shown = public(resolve([Layer("here", MINIMAL | tree)]))
    assert "hunter2" not in str(shown)
    assert shown["source"]["path"] == f"s3://{HIDDEN}@host/x"
    assert shown["source"]["token_pattern"] == SourceConfig(path="x").token_pattern
    assert shown["cluster"]["options"]["job_script_prologue"][1] == "module load python"


def test_an_error_does_not_tell_a_secret():
    assert "hunter2" not in failing("source.path={password: hunter2}")
