"""The tests that docs/explanation/security.md names exist, and so do the commands and settings."""

import re
from pathlib import Path

from corpusmill.configs.schema import AddressConfig, LocalConfig, SourceConfig

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text()
DEFINED = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.M)
}


def test_tests_that_the_page_names_are_defined():
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named
    assert not named - DEFINED


def test_files_of_tests_that_the_page_names_exist():
    named = set(re.findall(r"`(tests/[\w/.]+)`", PAGE))
    assert named
    assert not [path for path in named if not (ROOT / path).is_file()]


def test_settings_and_commands_that_the_page_names_exist():
    assert "on_bad_line" in SourceConfig.model_fields
    assert "memory_limit" in LocalConfig.model_fields
    assert {"tls_ca_file", "tls_client_cert", "tls_client_key"} <= AddressConfig.model_fields.keys()
    assert "\naudit:" in (ROOT / "Makefile").read_text()
    assert "make audit" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
