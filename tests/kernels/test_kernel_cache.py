"""The cache of compiled kernels: which changes of the sources it notices."""

import importlib
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest
from corpusmill.kernels import jit
from helpers.source_tree import ROOT, files_below, imports_of, module_of, name_of

KERNEL_FILES = [path for path in files_below(ROOT / "kernels", pattern="*.py") if path.name != "interfaces.py"]


class Package:
    """A small copy of the package ``kernels``, in which ``lda.outer`` calls ``lda.inner``."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("lda", "nmf", "simd"):
            (folder / name).mkdir(parents=True)
            (folder / name / "__init__.py").touch()
        (folder / "__init__.py").touch()
        shutil.copy(jit.__file__, folder / "jit.py")
        self.write("lda/outer", "from .inner import inner", "inner(x) * 10")
        self.write("nmf/other", "", "x")

    def write(self, path, line, value):
        """Write a module with one kernel, which has the same name and returns ``value``."""
        name = path.rpartition("/")[2]
        code = f"from ..jit import kernel\n{line}\n@kernel\ndef {name}(x):\n    return {value}\n"
        (self.folder / f"{path}.py").write_text(code)

    def load(self, path="lda.outer"):
        """Return a kernel as a new process finds it."""
        for name in [name for name in sys.modules if name.partition(".")[0] == self.folder.name]:
            del sys.modules[name]
        importlib.invalidate_caches()
        return getattr(importlib.import_module(f"{self.folder.name}.{path}"), path.rpartition(".")[2])

    def caches(self, group="lda"):
        return {path.name for path in (self.folder / "__pycache__").glob(f"corpusmill-{group}-*")}


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", "")
    return Package(tmp_path / "kernels_of_a_test")


def test_a_change_of_a_called_function_in_another_file_is_noticed(package):
    package.write("lda/inner", "", "x + 1")
    assert package.load()(1) == 20
    package.write("lda/inner", "", "x + 2")
    assert package.load()(1) == 30


def test_compiled_kernels_are_loaded_unless_their_sources_have_changed(package):
    package.write("lda/inner", "", "x + 1")
    package.load()(1)
    package.write("nmf/other", "", "x + 5")
    found = package.load()
    assert found(1) == 20
    assert sum(found.stats.cache_hits.values()) == 1
    assert len(package.caches()) == 1


def test_versions_that_are_in_use_keep_their_kernels_and_others_lose_them_after_a_month(package):
    folders = package.folder / "__pycache__"
    for number in range(8):
        package.write("lda/inner", "", f"x + {number}")
        package.load()
    versions = package.caches()
    assert len(versions) == 8
    unused, used_last_month = sorted(versions)[:2]
    for name, seconds in ((unused, 1.1 * jit.KEPT_SECONDS), (used_last_month, 0.9 * jit.KEPT_SECONDS)):
        then = time.time() - seconds
        os.utime(folders / name, (then, then))
    package.write("lda/inner", "", "x + 8")
    newest = Path(package.load()._cache.cache_path).parent.name
    assert package.caches() == versions - {unused} | {newest}


def test_functions_of_the_user_keep_their_own_cache(package, monkeypatch, tmp_path):
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path / "mine"))
    package.write("lda/inner", "", "x + 1")
    found = package.load()
    assert Path(found._cache.cache_path).parent.parent == tmp_path / "mine"
    assert str(tmp_path / "mine") == jit.numba.config.CACHE_DIR


def test_threads_that_import_kernels_at_the_same_time_have_their_caches_beside_each_other(package):
    package.write("lda/inner", "", "x + 1")
    package.load()
    jit_of_package = sys.modules[f"{package.folder.name}.jit"]
    jit_of_package.cache_folder.cache_clear()
    found = []
    other = threading.Thread(target=lambda: found.append(jit_of_package.cache_folder("nmf")))
    with jit_of_package._cached_in(jit_of_package.cache_folder("lda")):
        other.start()
        other.join(0.1)
    other.join()
    assert found[0].parent == package.folder / "__pycache__"


def test_a_user_without_a_home_has_a_cache_folder(package, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(jit.os, "access", lambda path, mode: False)
    monkeypatch.setattr(jit.os.path, "expanduser", lambda path: path)
    assert jit._root_of_caches() == Path("~/.cache/corpusmill")


def imported_from(path):
    """Return the modules below ``kernels`` that a file imports, also by way of others."""
    missing = [path]
    reached = set()
    while missing:
        for module in imports_of(missing.pop()) - reached:
            file = ROOT / f"{module.replace('.', '/')}.py"
            if module.startswith("kernels.") and file.exists():
                reached.add(module)
                missing.append(file)
    return reached


def test_the_digest_of_a_kernel_covers_every_file_that_it_imports(subtests):
    for path in KERNEL_FILES:
        folders = path.relative_to(ROOT / "kernels").parts[:-1]
        covered = jit.sources(folders[0] if folders else "")
        with subtests.test(name_of(path)):
            assert imported_from(path) <= {module_of(ROOT / "kernels" / f.relative_to(jit.KERNELS)) for f in covered}


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(ImportError, match=r"/cache/corpusmill-nmf-\w+: this user cannot write .* set NUMBA_CACHE_DIR"):
        jit.cache_folder.__wrapped__("nmf")
