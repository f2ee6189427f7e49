"""What is installed: every file of the packages, and marks for type checkers."""

import tomllib

from helpers.source_tree import PACKAGES, ROOT, files_below

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


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
