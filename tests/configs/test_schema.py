"""The schema has the parameters of estimators and ingest, and every example configuration is valid."""

import dataclasses
import re
from pathlib import Path

import pytest
import yaml
from corpusmill.configs.layers import Layer, shipped
from corpusmill.configs.resolve import load, resolve
from corpusmill.configs.schema import Config, SourceConfig
from corpusmill.io.readers.open import FORMATS
from corpusmill.pipeline.engine.cluster.open import EXTRAS, KINDS, dask_settings
from corpusmill.pipeline.ingest.job import IngestOptions
from corpusmill.pipeline.models.registry import MODEL_KINDS, estimator_class

CONFIGS = Path(__file__).parents[2] / "configs"
MINIMAL = {"corpus": {"url": "somewhere"}}


@pytest.mark.parametrize("name", shipped())
def test_every_example_configuration_loads_and_its_keys_are_used(name):
    config = load(["quickstart", name], environment={})
    written = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    for section, keys in written.items():
        assert set(keys) <= set(getattr(config, section).model_dump())


def test_each_kind_of_cluster_and_each_package_of_clusters_has_a_file():
    kinds = {load(["quickstart", name], environment={}).cluster.kind for name in shipped() if "clusters/" in name}
    assert {re.split("[.:]", kind)[0] for kind in kinds} == {*KINDS, *EXTRAS}


def test_dask_settings_are_those_of_the_file():
    written = yaml.safe_load((CONFIGS / "dask.yaml").read_text())
    settings = dask_settings()
    assert settings["distributed"]["scheduler"]["no-workers-timeout"] == "5 minutes"
    for section, values in written["distributed"].items():
        for key, value in values.items():
            found = settings["distributed"][section][key]
            assert found == value or found.items() >= value.items()


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_a_model_section_has_the_names_and_defaults_of_its_estimator(kind):
    section = resolve([Layer("here", MINIMAL | {"model": {"kind": kind}})]).model
    assert section.model_dump(exclude={"kind"}) == estimator_class(kind)().get_params()


def test_the_source_section_has_the_names_and_defaults_of_ingest():
    options = {f.name: f.default for f in dataclasses.fields(IngestOptions)}
    of_corpus = {"held_out", "chunk_tokens", "overwrite"}
    section = SourceConfig(path="x").model_dump(exclude={"path"})
    section |= {name: tuple(section[name]) for name in ("keep", "columns")}  # YAML has lists
    assert section == {name: value for name, value in options.items() if name not in of_corpus}


def test_the_formats_are_those_that_can_be_read():
    formats = Config.model_json_schema()["$defs"]["SourceConfig"]["properties"]["format"]["enum"]
    assert set(formats) == {"auto", *FORMATS}


def test_the_json_schema_describes_every_key():
    for name, section in Config.model_json_schema()["$defs"].items():
        for key, about in section["properties"].items():
            assert "description" in about or key == "kind", f"{name}.{key}"
