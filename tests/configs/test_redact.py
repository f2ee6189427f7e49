"""A configuration that is printed or stored contains no secret."""

import pytest
from corpusmill.configs.layers import Layer
from corpusmill.configs.redact import HIDDEN, hidden_keys, redact
from corpusmill.configs.resolve import resolve, without_secrets
from corpusmill.configs.schema import SourceConfig

MINIMAL = {"corpus": {"url": "somewhere"}}


def test_only_secrets_are_hidden():
    options = {
        "password": "hunter2",
        "aws_secret_access_key": "hunter2",
        "token": "hunter2",
        "job_script_prologue": ["export API_TOKEN=hunter2", "module load python"],
    }
    tree = {
        "source": {"path": "s3://user:hunter2@host/x"},
        "cluster": {"kind": "dask_jobqueue:SLURMCluster", "options": options},
    }
    shown = without_secrets(resolve([Layer("here", MINIMAL | tree)]))
    assert "hunter2" not in str(shown)
    assert shown["source"]["path"] == f"s3://{HIDDEN}@host/x"
    assert shown["source"]["token_pattern"] == SourceConfig(path="x").token_pattern
    assert shown["cluster"]["options"]["job_script_prologue"][1] == "module load python"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"env": {"DB": "hunter2", "AUTH": "Bearer hunter2"}}, {"env": {"DB": HIDDEN, "AUTH": HIDDEN}}),
        ({"env": {"name": "hunter2"}}, {"env": {"name": HIDDEN}}),
        ({"env": [{"name": "DB", "value": "hunter2"}]}, {"env": [{"name": "DB", "value": HIDDEN}]}),
        ({"env_extra": ["DB=hunter2", "hunter2"]}, {"env_extra": [f"DB={HIDDEN}", HIDDEN]}),
        ({"env": None, "token": None}, {"env": None, "token": None}),
        ({"credentials": {"user": "me", "pin": "hunter2"}}, {"credentials": HIDDEN}),
    ],
)
def test_values_of_environment_variables_and_of_secret_keys_are_hidden(options, shown):
    assert redact(options) == shown


def test_variables_of_a_kubernetes_cluster_keep_their_names_only():
    options = {"image": "corpusmill:1", "env": {"MY_PAT": "hunter2"}}
    cluster = {"kind": "dask_kubernetes.operator:KubeCluster", "options": options}
    shown = without_secrets(resolve([Layer("here", MINIMAL | {"cluster": cluster})]))
    assert shown["cluster"]["options"]["env"] == {"MY_PAT": HIDDEN}
    assert shown["cluster"]["options"]["image"] == "corpusmill:1"
    assert list(hidden_keys(shown["cluster"], "cluster")) == ["cluster.options.env.MY_PAT"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://a.blob.net/c/x.jsonl?sv=2022&sig=hunter2", f"https://a.blob.net/c/x.jsonl?{HIDDEN}"),
        ("s3://b/x.jsonl?X-Amz-Signature=hunter2", f"s3://b/x.jsonl?{HIDDEN}"),
        ("https://a.net/x?hunter2", f"https://a.net/x?{HIDDEN}"),
        ("AccountName=me;AccountKey=hunter2==;Endpoint=x", f"AccountName=me;AccountKey={HIDDEN};Endpoint=x"),
        ("SharedAccessSignature=sv=1&sig=hunter2", f"SharedAccessSignature={HIDDEN}"),
        ("Authorization: Basic hunter2", f"Authorization: Basic {HIDDEN}"),
        ("export MY_PAT='hunter2 and more'", f"export MY_PAT={HIDDEN}"),
        ("--token hunter2 --nodes 3", f"--token {HIDDEN} --nodes 3"),
    ],
)
def test_secrets_inside_a_text_are_hidden(text, shown):
    assert redact([text], "path") == [shown]


@pytest.mark.parametrize(
    "text", ["s3://b/part-?.jsonl", "s3://b/????-??/day=1/x.jsonl", r"(?u)\b\w\w+\b", r"(?P<year>\d{4})", "demo:kjv"]
)
def test_wildcards_and_patterns_stay_as_they_are(text):
    assert redact(text, "path") == text
