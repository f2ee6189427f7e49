"""What is installed: every file of the packages, and marks for type checkers."""

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
import yaml
from corpusmill.pipeline import version
from helpers.source_tree import PACKAGES, ROOT, files_below

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETTINGS = PYPROJECT["tool"]["setuptools"]
#: Addresses of files of the repository, for readers outside a checkout.
ADDRESS = re.compile(
    r"https://(?:github\.com/corpusmill/corpusmill/blob|raw\.githubusercontent\.com/corpusmill/corpusmill)/main/"
)


def package_of(path):
    """Return the name of the installed package that has a file."""
    if path.parent == ROOT / "pipeline" / "package":
        return "corpusmill"
    return ".".join(("corpusmill", *path.parent.relative_to(ROOT).parts))


def test_every_file_of_the_packages_is_installed():
    for path in files_below(*(ROOT / package for package in PACKAGES)):
        package = package_of(path)
        patterns = SETTINGS["package-data"].get(package, [])
        assert package in SETTINGS["packages"], path
        assert path.suffix == ".py" or any(path.match(pattern) for pattern in patterns), path


def test_every_package_has_a_py_typed_file():
    for package in PACKAGES:
        assert (ROOT / package / "py.typed").exists()
        assert "py.typed" in SETTINGS["package-data"][f"corpusmill.{package}"]


def test_links_of_the_readme_work_outside_a_checkout():
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert [link for link in links if not link.startswith("https://")] == []
    files = [ADDRESS.sub("", link) for link in links if ADDRESS.match(link)]
    assert len(files) > 10
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_recipe_of_conda_needs_what_the_package_needs():
    recipe = yaml.safe_load((ROOT / ".ci" / "recipe.yaml").read_text())
    names = {"dask": "dask-core"}
    wanted = [re.fullmatch(r"([\w-]+)(>=[\d.]+)", line).groups() for line in PYPROJECT["project"]["dependencies"]]
    assert recipe["requirements"]["run"][1:] == [f"{names.get(name, name)} {bound}" for name, bound in wanted]
    (command,) = PYPROJECT["project"]["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(command)]
    assert PYPROJECT["build-system"]["requires"][0] == recipe["requirements"]["host"][-1].replace(" ", "")


#: Trains with whatever is installed; the views of strings killed earlier versions of pyarrow.
SMOKE = """
import pyarrow as pa
from corpusmill import LDA, NMF, RandomIndexing, ingest
texts = pa.array(["one fish", "two fish"] * 5)
for kind in (pa.string(), pa.string_view()):
    corpus = ingest(pa.table({"text": texts.cast(kind)}), str(kind))
    print([model.fit(corpus).n_iter_ for model in (LDA(2, max_iter=2), NMF(2, max_iter=2), RandomIndexing(64))])
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_lowest_versions_that_are_allowed_train(tmp_path):
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the PATH: install it into an environment of its own")
    shutil.copytree(ROOT, tmp_path / "source", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    python = tmp_path / "lowest" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, python.parents[1]], check=True)
    install = [uv, "pip", "install", "-q", "--python", python, "--resolution", "lowest-direct", tmp_path / "source"]
    installed = subprocess.run(install, capture_output=True, text=True)
    if "error sending request" in installed.stderr or "dns error" in installed.stderr:
        pytest.skip("no package index answers")
    assert installed.returncode == 0, installed.stderr
    done = subprocess.run([python, "-c", SMOKE], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[2, 2, 1]"] * 2, done.stderr


def test_no_other_file_repeats_the_version():
    named = [ROOT / "CITATION.cff", ROOT / ".ci" / "recipe.yaml", *(ROOT / ".github").rglob("*.yml")]
    assert [path for path in named if PYPROJECT["project"]["version"] in path.read_text()] == []


def test_a_checkout_names_its_commit_and_an_installation_does_not(tmp_path, monkeypatch):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(tmp_path)]
    monkeypatch.setattr(version, "_ROOT", tmp_path)
    plain = metadata.version("corpusmill")
    assert version.version_with_commit() == plain
    (tmp_path / "file").write_text("one")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    assert re.fullmatch(rf"{plain} \(commit [0-9a-f]{{8}}\)", version.version_with_commit())
    (tmp_path / "file").write_text("two")
    assert version.version_with_commit().endswith(", changed)")
    monkeypatch.setenv("PATH", "")
    assert version.version_with_commit() == f"{plain} (commit unknown)"


def test_the_paper_has_the_form_of_joss():
    text = (ROOT / "docs" / "paper" / "paper.md").read_text()
    _, header, body = text.split("---\n", 2)
    described = yaml.safe_load(header)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} == set(described)
    places = {place["index"] for place in described["affiliations"]}
    assert all(author["name"] and author["affiliation"] in places for author in described["authors"])
    assert re.fullmatch(r"\d{1,2} [A-Z][a-z]+ \d{4}", described["date"])
    sections = "Summary|Statement of need|State of the field|Software design|Research impact statement"
    wanted = [*sections.split("|"), "AI usage disclosure", "Acknowledgements", "References"]
    assert re.findall(r"^# (.+)$", body, re.MULTILINE) == wanted
    assert 750 <= len(body.split()) <= 1750
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "paper" / "paper.bib").read_text(), re.MULTILINE)
    assert sorted(set(re.findall(r"\[@(\w+)\]", body))) == sorted(entries)
