"""What object stores need: their library, their errors as one sentence, and a count of the requests to them."""

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Iterator

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ..errors import AccessDenied, DataError, StoreFailed
from ..extras import missing

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


@contextlib.contextmanager
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


@contextlib.contextmanager
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
