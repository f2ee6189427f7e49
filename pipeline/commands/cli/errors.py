"""Turn an error into one sentence and an exit code."""

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

import click

from ....configs.redact import redact_urls
from ....io.extras import outdated
from ...formatting import without_controls
from .signals import Terminated

#: Commands that skip what an earlier call has done.
CONTINUING = frozenset({"run", "ingest", "train", "resume", "retrain", "cistopic", "cnmf"})


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    DATA = 4
    LOCKED = 75  # EX_TEMPFAIL of sysexits.h: try again later
    INTERRUPTED = 130  # 128 + SIGINT, as shells do
    TERMINATED = 143  # 128 + SIGTERM


#: What messages show of users' data: the file at the start, what is in quotes, and other paths.
_OF_USERS = r"""^\S+(?=: |, (?:line|row) )|(?<!\w)'[^']*'(?!\w)|(?<!\w)"[^"]*"(?!\w)|[^\s'"]*[/\\][^\s'"]*"""


@dataclass(frozen=True)
class Failure:
    """Why a command failed: one sentence for people, and the exit code for programs."""

    message: str
    code: ExitCode

    @property
    def is_stop(self) -> bool:
        """Whether a signal stopped the command."""
        return self.code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED)

    def as_json(self) -> dict[str, str | int]:
        """Return what ``--json`` prints."""
        status = "failed"
        if self.code is ExitCode.LOCKED:
            status = "locked"
        elif self.is_stop:
            status = "terminated"
        return {"status": status, "error": self.message, "exit_code": int(self.code)}


def explain(error: BaseException, command: str = "") -> Failure:
    """Return the sentence and the exit code for an error of a command.

    An error that occurs while a stopped command closes its cluster counts as that stop.
    """
    advice = ""
    if command in CONTINUING:
        advice = "; the same command continues where this one stopped"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Terminated):
            return Failure(f"terminated{advice}", ExitCode.TERMINATED)
        if isinstance(cause, KeyboardInterrupt | click.Abort):
            return Failure(f"interrupted{advice}", ExitCode.INTERRUPTED)
        cause = cause.__context__
    if isinstance(error, click.ClickException):
        return Failure(_one_line(error.format_message()), ExitCode.USAGE)
    return _explain_failure(error, command)


def _explain_failure(error: BaseException, command: str) -> Failure:
    from ....configs.layers import ConfigError

    if isinstance(error, ImportError | AttributeError | TypeError | SystemError) and (sentence := outdated()):
        return Failure(sentence, ExitCode.USAGE)
    message = _message_of(error)
    if isinstance(error, ConfigError):
        return Failure(message, ExitCode.USAGE)
    message = with_keys(message, has_source=command != "graph")
    if _may_pass(error):
        return Failure(message, ExitCode.FAILED)
    for kind, code in _exit_codes().items():
        if isinstance(error, kind):
            return Failure(message, code)
    if isinstance(error, MemoryError):
        advice = "use fewer workers, a smaller model or a smaller corpus.chunk_tokens"
        return Failure(f"out of memory ({message}); {advice}", ExitCode.FAILED)
    return Failure(f"{type(error).__name__}: {message} (--debug shows where)", ExitCode.FAILED)


def _may_pass(error: BaseException) -> bool:
    """Return whether the disk, the network or a store failed, and not the data: the same command may succeed later."""
    from ....io.errors import StoreFailed
    from ....io.stores.filesystems import NO_SPACE
    from ...engine.cluster.open import ClusterUnreachable

    if isinstance(error, StoreFailed | ClusterUnreachable | TimeoutError | ConnectionError):
        return True
    return isinstance(error, OSError) and error.errno in NO_SPACE


def _exit_codes() -> dict[type[BaseException], ExitCode]:
    # Imported here, because these modules load Dask, which takes most of a second.
    from ....io.errors import DataError, Locked
    from ....kernels.errors import DeviceError
    from ...engine.cluster.open import ClusterError
    from ...engine.cluster.watch import TaskLost

    # The first class that matches decides, so subclasses come before their bases.
    return {
        ClusterError: ExitCode.USAGE,
        DataError: ExitCode.DATA,
        ValueError: ExitCode.USAGE,
        ImportError: ExitCode.USAGE,
        OSError: ExitCode.DATA,
        Locked: ExitCode.LOCKED,
        TaskLost: ExitCode.FAILED,
        DeviceError: ExitCode.FAILED,
    }


def _message_of(error: BaseException) -> str:
    if isinstance(error, OSError):
        message = _system_message(error)
    else:
        message = str(error)
    return redact_urls(_one_line(message)) or type(error).__name__


def with_keys(message: str, has_source: bool = True) -> str:
    """Return a message with the configuration's keys in place of parameters of Python: model.max_iter for max_iter.

    ``has_source``: whether the command takes options of sources from the configuration.
    """
    keys = {name: key for name, key in _keys().items() if has_source or not key.startswith("source.")}
    # Other names are ordinary words, unless a value follows them.
    names = [f"{key}(?==)|^{key}(?= applies to)" if "_" not in key else key for key in keys]
    name = rf"(?<![\w.='\"-])(?<!\.\.\., )(?P<key>{'|'.join(names)})(?![\w'\"-]|\.\w)"
    return re.sub(f"{_OF_USERS}|{name}", lambda found: keys[found["key"]] if found["key"] else found[0], message)


@cache
def _keys() -> dict[str, str]:
    """Return the full key by its last part, where only one section has it."""
    from ....configs.model_schema import MODEL_SECTIONS, Section
    from ....configs.schema import CorpusConfig, LocalConfig, RunConfig, SourceConfig

    sections: list[tuple[str, type[Section]]]
    sections = [("cluster", LocalConfig), ("run", RunConfig), ("corpus", CorpusConfig), ("source", SourceConfig)]
    sections += [("model", section) for section in MODEL_SECTIONS.values()]
    found: dict[str, set[str]] = {}
    for title, section in sections:
        for name in section.model_fields:
            found.setdefault(name, set()).add(f"{title}.{name}")
    return {name: keys.pop() for name, keys in found.items() if len(keys) == 1}


def _one_line(text: str) -> str:
    # The message may quote a file or the name of one.
    return without_controls(" ".join(text.split()))


def _system_message(error: OSError) -> str:
    if not error.strerror or not error.filename:
        return str(error)
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename}: this is a file, and a folder is needed here; choose another path"
    return f"{error.filename2 or error.filename}: {error.strerror.lower()}"
