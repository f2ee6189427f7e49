"""Stop a command on SIGTERM and on Ctrl-C, and always close its cluster and release its locks first.

Ctrl-C raises KeyboardInterrupt, as in every Python program. SIGTERM raises Terminated. Both run the ``finally``
blocks on their way out, so that the run can be resumed.

A command that a shell without a terminal starts in the background (``corpusmill train my.yaml &``) ignores Ctrl-C, as
all programs do there: the shell starts them so. SIGTERM stops it.

One case needs help. Python calls a signal handler between two instructions of the main thread, and these may belong to
a ``__del__`` method. An exception that is raised there does not propagate: Python reports it to ``sys.unraisablehook``
and continues, and the program would never stop. The hook that ``install_handlers`` sets sends the signal again.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: Seconds until a lost signal is sent again. By then the ``__del__`` method that swallowed it has ended.
RESEND_AFTER_SECONDS = 0.05


class Terminated(SystemExit):
    """Raised in the main thread on SIGTERM."""


def install_handlers() -> None:
    """Raise Terminated on SIGTERM, and send a stop signal again if Python discarded its exception."""
    signal.signal(signal.SIGTERM, _raise_terminated)
    sys.unraisablehook = _resend_lost_stop


def _raise_terminated(signum: int, frame: FrameType | None) -> NoReturn:
    # A second SIGTERM must not interrupt the cleanup. SIG_IGN would do that too, but child processes inherit it, and
    # then nothing could terminate a worker that starts now.
    signal.signal(signal.SIGTERM, lambda signum, frame: None)
    raise Terminated(128 + signal.SIGTERM)


def _resend_lost_stop(lost: "UnraisableHookArgs") -> None:
    """Send a stop signal again whose exception was raised inside a finalizer, where Python can only print it."""
    if isinstance(lost.exc_value, Terminated):
        signal.signal(signal.SIGTERM, _raise_terminated)
        signum = signal.SIGTERM
    elif isinstance(lost.exc_value, KeyboardInterrupt):
        signum = signal.SIGINT
    else:
        sys.__unraisablehook__(lost)
        return
    # A signal also interrupts a blocking call of the main thread; setting a flag would not.
    threading.Timer(RESEND_AFTER_SECONDS, _send_to_main_thread, (signum,)).start()


def _send_to_main_thread(signum: int) -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signum)
    else:
        signal.raise_signal(signum)  # on Windows, after the call that blocks the main thread


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of this block, and hide it from all processes that start inside it.

    A terminal sends Ctrl-C to every process of the command. Workers that die of it would fail the tasks that this
    process still wants to end in an orderly way. Threads and processes that start inside the block inherit that the
    signal is blocked, and so do workers that such a thread starts later.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows, where Ctrl-C reaches the workers, too
        yield
        return
    # Python starts its resource tracker with the first process, and then no longer blocks the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        # A signal that came meanwhile raises KeyboardInterrupt here.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
