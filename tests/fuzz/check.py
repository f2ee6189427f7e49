"""Checks that a target answers any bytes with data or with one sentence, soon, and without much memory."""

import contextlib
import resource
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from corpusmill.configs.layers import ConfigError
from corpusmill.pipeline.commands.cli.errors import ExitCode, explain

from .targets import REFUSALS, Target

#: Bytes that reading a small file may take in addition to what the process has.
MEMORY = 1 << 30
#: Seconds of processor time after which reading a small file counts as hanging.
SECONDS = 20
#: Characters of a message.
LONGEST_MESSAGE = 1000


class Hangs(Exception):
    """Reading takes too long."""


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Limit the memory and the time of this process."""

    def stop(*_: object) -> None:
        raise Hangs(f"still reading after {SECONDS} s")

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    # Of processor time, because other processes may use the machine.
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def check(target: Target, content: bytes) -> None:
    """Read the content as a file; raise whatever is not a refusal with one sentence."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, target.file)
        path.write_bytes(content)
        try:
            with limits():
                target.read(str(path))
        except (*REFUSALS, ConfigError) as error:
            failure = explain(error)
            is_sentence = failure.message.strip() and len(failure.message) < LONGEST_MESSAGE
            if not is_sentence or failure.code not in (ExitCode.DATA, ExitCode.USAGE):
                raise AssertionError(f"not one sentence: {failure}") from error
