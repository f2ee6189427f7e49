"""A configuration that is printed or stored contains no secret."""

from corpusmill.configs.layers import Layer
from corpusmill.configs.redact import HIDDEN
from corpusmill.configs.resolve import public, resolve
from corpusmill.configs.schema import SourceConfig

MINIMAL = {"corpus": {"url": "somewhere"}}


def test_secrets_are_hidden_and_nothing_else():
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
