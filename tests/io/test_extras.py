"""Without an optional library, an error says what to install."""

import os
import re
import subprocess
import sys

import pytest
from corpusmill.io.extras import needing

#: Programs that need a library, and the sentence that says so.
PROGRAMS = [
    (
        "gensim",
        "from corpusmill import LDA; LDA(2, max_iter=1).fit([['sea', 'ship']]).to_gensim()",
        "to_gensim: needs gensim; pip install gensim",
    ),
    (
        "h5py",
        "from corpusmill.io.matrices.hierarchies import open_hdf5; open_hdf5('cells.h5ad').__enter__()",
        "cells.h5ad: needs h5py; pip install 'corpusmill[h5ad]'",
    ),
    ("s3fs", "from corpusmill import Corpus; Corpus('s3://a/b')", "s3://a/b: needs s3fs; pip install 'corpusmill[s3]'"),
    (
        "huggingface_hub",
        "from corpusmill import ingest; ingest('hf://datasets/a/b.csv', 'unused')",
        "hf://datasets/a/b.csv: needs huggingface_hub; pip install huggingface_hub",
    ),
    (
        "paramiko",
        "from corpusmill import ingest; ingest('sftp://host/b.csv', 'unused')",
        "sftp://host/b.csv: needs paramiko; pip install paramiko",
    ),
    (
        "matplotlib",
        "from pathlib import Path; from corpusmill.pipeline.cells.cnmf.plots import plot_selection; "
        "plot_selection({}, Path('k.png'))",
        "k.png: needs matplotlib; pip install 'corpusmill[cnmf]'",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("library", "program", "sentence"), PROGRAMS, ids=[library for library, *_ in PROGRAMS])
def test_an_error_says_what_to_install(library, program, sentence):
    # None in place of a module makes its import fail, as if it were not installed.
    hidden = f"import sys; sys.modules[{library!r}] = None; {program}"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == f"ImportError: {sentence}"


def test_an_error_inside_an_installed_library_is_left_as_it_is():
    with pytest.raises(ModuleNotFoundError, match="No module named 'part'"), needing("library", "library", "plot"):
        raise ModuleNotFoundError("No module named 'part'", name="part")


@pytest.mark.parametrize("package, old", [("numpy", "1.26.4"), ("pyarrow", "14.0.1"), ("fsspec", "2023.1.0")])
def test_an_older_library_that_another_package_brought_is_named_instead_of_a_traceback(package, old, tmp_path):
    # As installed before the environment's own: the version of the metadata, and a module that does not work with us.
    (tmp_path / f"{package}-{old}.dist-info").mkdir()
    (tmp_path / f"{package}-{old}.dist-info" / "METADATA").write_text(f"Name: {package}\nVersion: {old}\n")
    (tmp_path / f"{package}.py").write_text("raise ImportError('an older interface')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    options = {"env": environment, "capture_output": True, "text": True, "cwd": tmp_path}
    for arguments in (["-m", "corpusmill", "run", "quickstart"], ["-c", "from corpusmill import ingest"]):
        last = subprocess.run([sys.executable, *arguments], **options).stderr.strip().splitlines()[-1]
        assert re.search(rf"corpusmill needs .*{package} \S+ or newer, not {re.escape(old)}, which another", last)
