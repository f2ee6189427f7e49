"""Fuzzes one target with Atheris, which chooses inputs by the code that they reach: python -m fuzz.guided NAME SECONDS.

Needs pip install atheris. Run it in the folder tests.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["corpusmill"]):
    from .check import check
    from .targets import TARGETS


def main(name: str, seconds: str) -> None:
    """Fuzz until the time is over or an input fails, which is then kept in the working directory."""
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        for number, content in enumerate(target.seeds(Path(folder))):
            (corpus / str(number)).write_bytes(content)
        options = [f"-max_total_time={seconds}", "-max_len=65536", "-rss_limit_mb=4096"]
        atheris.Setup([sys.argv[0], *options, str(corpus)], lambda content: check(target, content))
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
