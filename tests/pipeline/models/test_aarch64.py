r"""Models that an emulated aarch64 processor trains are those that were recorded.

The variable CORPUSMILL_AARCH64 has the command of a Python for aarch64 that has corpusmill's extra "test", such as
``qemu-aarch64 -L /aarch64 /aarch64/usr/bin/python3``. A model takes up to 15 minutes there. On Debian, the package
qemu-user-static and these commands make one. It needs ``PYTHONPATH=/site``, and the wheel of corpusmill in /site::

    debootstrap --arch=arm64 --variant=minbase --foreign --include=python3,libpython3.11-stdlib bookworm /aarch64
    for package in /aarch64/var/cache/apt/archives/*.deb; do dpkg-deb -x $package /aarch64; done
    pip install --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 --python-version 3.11 \
        --only-binary=:all: --target /site pytest pytest-timeout hypothesis DEPENDENCIES
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

PYTHON = shlex.split(os.environ.get("CORPUSMILL_AARCH64", ""))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not PYTHON or not shutil.which(PYTHON[0]), reason="CORPUSMILL_AARCH64 names no Python for aarch64")
def test_an_emulated_processor_trains_the_recorded_models():
    called = subprocess.run(
        [*PYTHON, "-c", "import platform; print(platform.machine())"], capture_output=True, text=True
    )
    assert called.stdout.strip() == "aarch64", called.stderr
    tests = str(Path(__file__).with_name("test_recorded_models.py"))
    cases = "random-indexing or lda-blocks or nmf-dense or word2vec-strata or node2vec"
    done = subprocess.run(
        [*PYTHON, "-m", "pytest", tests, "-k", cases, "--timeout", "7000"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
