"""The command group config."""

import json


def test_config_show_prints_the_configuration_of_a_command(call, monkeypatch, tmp_path):
    monkeypatch.setenv("CORPUSMILL_MODEL__MAX_ITER", "9")
    code, out, _ = call("config", "show", "quickstart", "--set", "model.n_components=5", "--json")
    model = json.loads(out)["model"]
    assert (code, model["max_iter"], model["n_components"]) == (0, 9, 5)
    shown = tmp_path / "shown.yaml"
    shown.write_text(call("config", "show", "quickstart")[1])
    assert call("config", "show", shown, "--json")[1] == call("config", "show", "quickstart", "--json")[1]


def test_config_example_prints_comments_too(call):
    code, out, _ = call("config", "example", "lda")
    assert code == 0
    assert out.startswith("# Latent Dirichlet allocation")


def test_config_schema_is_json(call):
    assert "LDAConfig" in json.loads(call("config", "schema")[1])["$defs"]


def test_every_listed_configuration_can_be_printed(call):
    names = call("config", "list")[1].split()
    assert "quickstart" in names
    assert all(call("config", "example", name)[0] == 0 for name in names)
