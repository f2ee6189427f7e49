"""Fixtures that every test may use."""

import lzma
import os
from pathlib import Path

import pytest
from numcodecs.zstd import Zstd

CANDIDATES = (os.environ.get("CORPUSMILL_DATA", ""), Path(__file__).parents[2] / "shared" / "data")


@pytest.fixture(scope="session")
def real_data(tmp_path_factory):
    """Return a function from a file's name to its unpacked path; skips the test where the corpora are not at hand."""
    unpacked = tmp_path_factory.mktemp("data")

    def find(name: str) -> Path:
        for folder in filter(None, CANDIDATES):
            for path in (Path(folder, name), Path(folder, name + ".zst"), Path(folder, name + ".xz")):
                if path.exists():
                    return path if path.name == Path(name).name else _unpack(path, unpacked / name)
        pytest.skip(f"{name} is not in CORPUSMILL_DATA nor in ../shared/data")

    return find


def _unpack(packed: Path, target: Path) -> Path:
    if not target.exists():
        content = packed.read_bytes()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(lzma.decompress(content) if packed.suffix == ".xz" else bytes(Zstd().decode(content)))
    return target
