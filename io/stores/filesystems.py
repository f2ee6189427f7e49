"""What stores need of a file system.

Files on a local disk are replaced in one step, deleted and flushed, with what each system has for it. Object stores
need a library; their errors become one sentence, and their requests are counted.
"""

import ctypes
import errno
import os
import re
import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ..errors import AccessDenied, DataError, StoreFailed
from ..extras import missing

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

#: Errors of a disk without free space, of a user without quota, and of a limit of the size of files (ulimit -f).
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Linux' flag of renameat2 for exchanging two paths, and the file descriptor that stands for the working directory.
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
#: The packages of libraries that send requests. The errors that they define come from a store or from the network.
_LIBRARIES = {
    "adlfs",
    "aiobotocore",
    "aiohttp",
    "azure",
    "botocore",
    "fsspec",
    "gcsfs",
    "google",
    "requests",
    "s3fs",
    "urllib3",
}
#: Names of the errors for missing, wrong or insufficient credentials: of Python, botocore, Google and Azure.
_DENIED = {
    "PermissionError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "TokenRetrievalError",
    "ProfileNotFound",
    "DefaultCredentialsError",
    "RefreshError",
    "ClientAuthenticationError",
}
#: Codes by which stores say the same.
_DENIED_CODES = {"401", "403", "AccessDenied", "AuthenticationFailed", "AuthorizationFailure", "InvalidAccessKeyId"}
_DENIED_CODES |= {"AuthorizationPermissionMismatch", "ExpiredToken", "SignatureDoesNotMatch", "InvalidToken"}
#: Classes of errors of a server that cannot be reached or does not answer: of Python, botocore, aiohttp and Azure.
_UNREACHABLE = {
    "ConnectionError",
    "TimeoutError",
    "HTTPClientError",
    "ClientConnectionError",
    "ClientPayloadError",
    "ClientOSError",
    "RequestException",
    "HTTPError",
    "IncompleteReadError",
    "ServiceRequestError",
    "ServiceResponseError",
    "TransportError",
}
#: Codes of a server that fails, or is too busy.
_FAILURE_CODES = {"InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "ServerBusy"}
_FAILURE_CODES |= {"408", "429", "500", "502", "503", "504"}
#: The query of a URL in quotes.
_QUERY = re.compile(r"(?<=[\w/])\?[^\s\"]*(?=\")")
#: Most characters of the error of an object store that are shown.
_SHOWN_CHARACTERS = 300


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Add the path and the way out to the error of a full disk or quota, which has neither."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise OSError(error.errno, _describe_full_disk(error.errno, path), str(path)) from None


def _describe_full_disk(number: int, path: Path) -> str:
    if number == errno.EDQUOT:
        # The disk may have free space, which the user may not use.
        return "Your disk quota is exhausted; delete files, or choose a folder on another disk"
    if number == errno.EFBIG:
        return _describe_large_file()
    folder = path
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return f"No space left on this disk ({free:,} bytes free); free some, or choose a folder on another disk"


def _describe_large_file() -> str:
    import resource  # Windows has no such module, and no such limit

    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = "this file system allows" if most == resource.RLIM_INFINITY else f"this process may write ({most:,} bytes)"
    return f"The file is larger than {limit}; raise the limit (ulimit -f), or choose a folder on another disk"


def temporary_path(target: Path) -> Path:
    """Return a new path beside ``target``. If the process is killed, its name shows that the file is left over."""
    return target.with_name(f".tmp-{uuid.uuid4().hex}-{target.name}")


def temporary_pattern(name: str = "*") -> str:
    """Return a glob pattern of the names that `temporary_path` gives for targets of this name, or pattern of names."""
    return f".tmp-{'[0-9a-f]' * 32}-{name}"


@contextmanager
def replacing(target: Path, is_flushed: bool = True) -> Iterator[Path]:
    """Context manager: write the content of ``target`` to the temporary file whose path this yields.

    At the end, the file takes the place of ``target`` in one step. After an error, ``target`` is unchanged. The folder
    is made if it is missing. A file that is not flushed may be empty after a power cut.
    """
    temporary = temporary_path(target)
    with naming_full_disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            # After a power cut, the new name must not lead to a file without content.
            if is_flushed:
                flush_path(temporary)
            # Renaming is atomic, so a reader finds either the old content or the new one.
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def replace_folder(source: Path, target: Path) -> None:
    """Rename a folder to the name of another one, which is deleted if it exists.

    Several processes may do this at the same time. If the system can exchange names, there is a folder at ``target`` at
    every moment; otherwise, a reader may find none for a moment.
    """
    while not _renamed(source, target):
        if exchange_paths(source, target):
            remove_path(source)
            return
        old = temporary_path(target)
        # Another process may have moved the folder away first.
        with suppress(FileNotFoundError):
            target.rename(old)
        remove_path(old)


def _renamed(source: Path, target: Path) -> bool:
    """Rename a folder to ``target``, and return whether that worked: not if a folder with files in it is there."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def exchange_paths(first: Path, second: Path) -> bool:
    """Exchange two paths in one step; return False if the system or the filesystem cannot."""
    rename = c_function("renameat2")
    if rename is None:
        return False
    return rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0


def remove_path(path: Path) -> None:
    """Delete a file or a folder with its content, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def flush_path(path: Path) -> None:
    """Write a file or the entries of a folder from the system's cache to the disk."""
    try:
        # Windows flushes only files that are open for writing, and writes entries of folders by itself.
        descriptor = os.open(path, os.O_RDONLY if fcntl else os.O_RDWR)
    except PermissionError:
        if fcntl is None and path.is_dir():
            return
        raise
    try:
        if hasattr(fcntl, "F_FULLFSYNC"):  # fsync of macOS leaves the data in the cache of the disk
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def c_function(name: str) -> Callable[..., int] | None:
    """Return a function of the C library of this process, or None if the system has none of this name."""
    try:
        library = ctypes.CDLL(None)
    except TypeError:  # Windows has no library without a name
        return None
    return getattr(library, name, None)


# --- object stores ---


def comes_from_store(error: Exception) -> bool:
    """Return whether an error comes from an object store or the network, and not from the data that was read.

    Libraries for decompression raise OSError without a number for damaged data.
    """
    if isinstance(error, DataError | FileNotFoundError):
        return False
    if isinstance(error, OSError) and error.errno is not None:
        return True
    if isinstance(error, PermissionError | ConnectionError | TimeoutError) or str(error).startswith("Forbidden: "):
        return True  # gcsfs says the latter with a plain OSError
    return type(error).__module__.partition(".")[0] in _LIBRARIES


@contextmanager
def explained_errors(filesystem: fsspec.AbstractFileSystem, url: str) -> Iterator[None]:
    """Context manager: raise DataError in place of an object store's error, which its library raises after retries.

    FileNotFoundError passes, because callers know what should be there. So do all errors of local files.
    """
    try:
        yield
    except Exception as error:
        if isinstance(filesystem, LocalFileSystem) or not comes_from_store(error):
            raise
        raise _explained(url.rstrip("/"), _with_reason(filesystem, url, error)) from error


def _explained(where: str, error: Exception) -> DataError:
    """Return the error to show. It advises only what the class and the code of the error say."""
    cause, code, names = _shown(error), code_of(error), {found.__name__ for found in type(error).__mro__}
    if names & _DENIED or code in _DENIED_CODES or cause.startswith("Forbidden"):
        hint = ""
        if "NoCredentialsError" in names:
            hint = "; a public bucket of S3 needs none with FSSPEC_S3_ANON=true"
        return AccessDenied(f"{where}: access denied ({cause}); check the credentials and their permissions{hint}")
    if "CERTIFICATE_VERIFY_FAILED" in cause:
        return DataError(
            f"{where}: the certificate of the store is not trusted ({cause}); name the file of your authority's "
            f"certificates in AWS_CA_BUNDLE for S3, or in SSL_CERT_FILE for other stores"
        )
    kind = f"{type(error).__name__}: {cause}"
    safe = "committed results are safe, and the same command continues from them"
    if names & _UNREACHABLE:
        advice = "if it fails again, check the address and the network"
        return StoreFailed(f"{where}: the store failed repeatedly ({kind}); {safe}; {advice}")
    if code is None or code in _FAILURE_CODES:
        return StoreFailed(f"{where}: the store failed repeatedly ({kind}); {safe}")
    return DataError(f"{where}: the store refused the request ({code}: {cause})")


def _with_reason(filesystem: fsspec.AbstractFileSystem, url: str, error: Exception) -> Exception:
    """Return S3's error with its reason: the answer to a HEAD request has none, so another request asks for it."""
    if code_of(error) != "400" or not hasattr(filesystem, "call_s3"):
        return error
    bucket, _, _ = filesystem.split_path(url)
    try:
        filesystem.call_s3("list_objects_v2", Bucket=bucket, MaxKeys=1)
    except Exception as found:
        return found
    return error


def code_of(error: BaseException) -> str | None:
    """Return the code that an object store gave with its error, such as "NoSuchBucket" or "412"; None without one."""
    # s3fs raises errors of Python because of those of botocore, and gcsfs and Azure's library raise their own.
    for found in (error, error.__cause__):
        response = getattr(found, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code"))
        code = getattr(found, "error_code", None) or getattr(found, "code", None) or getattr(found, "status_code", None)
        if code is not None:
            return str(getattr(code, "value", code))
    return None


def _shown(error: Exception) -> str:
    """Return the text of an error without the queries of URLs."""
    text = _QUERY.sub("", " ".join(str(error).split()))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


# --- libraries ---


#: Libraries that fsspec imports for URLs of object stores, and the extras that install them.
FILESYSTEMS = {"s3fs": "corpusmill[s3]", "gcsfs": "corpusmill[gcs]", "adlfs": "corpusmill[azure]"}


@contextmanager
def needing_filesystem(url: str) -> Iterator[None]:
    """Raise ImportError with the command that installs the library for a URL if fsspec cannot import it."""
    try:
        yield
    except ImportError as error:
        # fsspec raises an error of its own, with a sentence that names the library.
        for library, package in FILESYSTEMS.items():
            if library in str(error):
                raise missing(library, package, url) from None
        if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name:
            library = error.__cause__.name.partition(".")[0]
            raise missing(library, library, url) from None
        raise


# --- requests ---


class RequestCounter:
    """Counts requests by kind: read, write, list and delete. Several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, kind: str, number: int = 1) -> None:
        """Count requests."""
        with self._lock:
            self._counts[kind] += number

    def take(self) -> dict[str, int]:
        """Return the counts since the last call, as ``requests_<kind>``. So each request is reported once."""
        with self._lock:
            counts = self._counts
            self._counts = Counter()
        return {f"requests_{kind}": number for kind, number in sorted(counts.items())}


#: The counter of this process.
REQUESTS = RequestCounter()
