"""Layers override each other in order, and an error has the origin, the key, the problem and the remedy."""

import pytest
from corpusmill.configs.layers import ConfigError, Layer
from corpusmill.configs.resolve import load, resolve

MINIMAL = {"corpus": {"url": "somewhere"}}


def failing(*settings, environment=None, files=("quickstart",)):
    with pytest.raises(ConfigError) as caught:
        load(files, settings, environment or {})
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


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


def test_another_kind_of_model_drops_the_parameters_for_retraining_the_old_one():
    retrain = load(["retrain"], ["model.kind=random-indexing"], {}).retrain
    assert (retrain.model, retrain.url) == (None, "models/articles")
    settings = ["retrain.model.alpha=0.01", "model.kind=word2vec"]
    assert load(["retrain"], settings, {}).retrain.model == {"alpha": 0.01}
    assert load(["retrain"], ["model.kind=lda"], {}).retrain.model == {"max_iter": 50}
    assert load(["retrain"], ["retrain.model=null"], {}).retrain.model is None


def test_a_later_file_overrides_an_earlier_one(tmp_path):
    (tmp_path / "a.yaml").write_text("corpus: {url: a}\nmodel: {n_components: 5}\n")
    (tmp_path / "b.yaml").write_text("corpus: {url: b}\n")
    config = load([tmp_path / "a.yaml", tmp_path / "b.yaml"], environment={})
    assert (config.corpus.url, config.model.n_components) == ("b", 5)


def test_another_kind_resets_its_section_in_any_order_of_settings():
    settings = ["cluster.address=tcp://there:8786", "cluster.kind=address"]
    assert load(["quickstart"], settings, {}).cluster.arguments() == {"kind": "address", "address": "tcp://there:8786"}


def test_a_setting_may_have_any_yaml_value():
    settings = ["model.n_components=2", "model.doc_topic_prior=[0.1, 0.2]", "report=null", "source.max_features=10_000"]
    config = load(["quickstart"], settings, {})
    assert config.model.doc_topic_prior == [0.1, 0.2]
    assert config.report is None
    assert config.report_path == ""
    assert config.source.max_features == 10_000


@pytest.mark.parametrize(("text", "url"), [("runs/a #1", "runs/a #1"), ("'a b' # quoted", "a b"), (" a ", "a")])
def test_a_hash_in_a_setting_begins_no_comment_unless_the_value_is_quoted(text, url):
    assert load(["quickstart"], [f"run.url={text}"], {}).run.url == url


def test_options_are_passed_to_the_cluster_and_nulls_are_not():
    settings = ["cluster.options={protocol: tcp}", "cluster.n_workers=null"]
    arguments = load(["quickstart"], settings, {}).cluster.arguments()
    assert arguments["protocol"] == "tcp"
    assert "n_workers" not in arguments
    assert "options" not in arguments


def test_model_and_report_are_in_the_run_by_default():
    config = resolve([Layer("here", MINIMAL | {"run": {"url": "runs/a/"}})])
    assert (config.model_url, config.report_path) == ("runs/a/model", "runs/a/report.html")


def test_an_error_about_a_misspelt_key_has_file_line_and_a_suggestion(tmp_path):
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
        (
            ["source.max_df=1.5"],
            ["source.max_df: 1.5 is not allowed; choose an integer of 1 or more, or a number above 0"],
        ),
        (["source.stop_words=french"], ["source.stop_words", '"french"', "'english'", "list"]),
        (
            ["model.kind=random-indexing", "model.seed_length=5"],
            ["model.seed_length", "5 is not allowed; choose an even integer"],
        ),
        (
            ["model.kind=random-indexing", "model.window=0"],
            ["model.window", "0 is not allowed; choose an integer of 1 or more"],
        ),
        (["model=5"], ["model: 5 is not allowed; choose a section of keys and values"]),
        (["cluster.kind=synchronous", "cluster.n_workers=2"], ["cluster of kind synchronous has kind, options"]),
        (["retrain.dates=["], ["retrain.dates: '[' is not a regular expression"]),
        (["retrain.dates=x"], ["retrain.dates: 'x' needs three groups, for year, month and day, but the number is 0"]),
        (["model"], ["--set model", "section.key=value"]),
        (["corpus.url=null"], ["corpus.url", "null is not allowed; choose a string"]),
        (["model.learn_priors=all"], ["choose one of auto, none, symmetric, asymmetric"]),
        (["model.doc_topic_prior=x"], ["choose a number above 0, a list of numbers above 0, or null"]),
        (["report=5"], ["--set report: report: 5 is not allowed; choose a section of keys and values or null"]),
        (["cluster.adapt={maximum: 0}"], ["cluster.adapt.maximum: 0 is not allowed; choose an integer of 1 or more"]),
        # n_blocks, the most similar key, is not similar enough to be what was meant.
        (["model={kind: lda, n_topics: 2}"], ["model.n_topics: no such key; model of kind lda has", "n_components"]),
        (["cluster.adapt={maximum: 2, minumum: 1}"], ["cluster.adapt.minumum: no such key; did you mean minimum?"]),
        (
            ["cluster.kind=address"],
            ["cluster: the scheduler's address is needed: set either address or scheduler_file"],
        ),
        (["source.zzz=1"], ["source.zzz: no such key; source has", "path"]),
        (["zzz.zzz=1"], ["zzz: no such key; a configuration has", "source"]),
        (
            ["cluster.adapt={maximum: 2, zzz: 1}"],
            ["cluster.adapt.zzz: no such key; cluster.adapt has maximum, minimum"],
        ),
    ],
)
def test_an_error_has_origin_key_and_problem(settings, words):
    sentence = failing(*settings)
    assert all(word in sentence for word in words), sentence


def test_an_error_about_several_parameters_has_the_line_of_their_section(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("corpus: {url: x}\nmodel:\n  kind: nmf\n  beta_loss: kullback-leibler\n")
    assert failing(files=[file]) == f"{file}, line 2: model: beta_loss='kullback-leibler' needs solver='mu'"


def test_an_error_in_the_environment_has_the_name_of_the_variable():
    sentence = failing(environment={"CORPUSMILL_MODEL__MAX_ITER": "0"})
    assert sentence.startswith("environment variable CORPUSMILL_MODEL__MAX_ITER: model.max_iter: 0 is not allowed")


def test_an_error_about_a_missing_file_suggests_an_example():
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
def test_a_file_without_sections_is_refused(tmp_path, content, words):
    file = tmp_path / "my.yaml"
    file.write_text(content)
    assert words in failing(files=[file])


def test_a_key_that_occurs_twice_is_refused_with_its_line(tmp_path):
    (tmp_path / "my.yaml").write_text("corpus:\n  url: a\nmodel: {n_components: 3}\ncorpus:\n  held_out: 0.1\n")
    message = "my.yaml, line 4: not valid YAML: the key 'corpus' occurs twice in one section; remove one of them"
    assert message in failing(files=[tmp_path / "my.yaml"])
    (tmp_path / "my.yaml").write_text("model:\n  max_iter: 3\n  max_iter: 4\n")
    assert "line 3: not valid YAML: the key 'max_iter' occurs twice" in failing(files=[tmp_path / "my.yaml"])


def test_an_environment_variable_about_the_source_is_ignored_where_there_is_none():
    environment = {"CORPUSMILL_SOURCE__MIN_DF": "2"}
    assert resolve([Layer("a", MINIMAL)]).source is None
    assert load([], (), environment).source is None
    assert load([], ["source.path=x.txt"], environment).source.min_df == 2
    assert load([], (), environment | {"CORPUSMILL_SOURCE__PATH": "x.txt"}).source.min_df == 2
    assert "source.path: is needed" in failing("source.min_df=3", files=(), environment=environment)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as text" in failing(files=[file])


def test_an_error_message_contains_no_secret():
    assert "hunter2" not in failing("source.path={password: hunter2}")
