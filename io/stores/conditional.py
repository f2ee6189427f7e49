"""Conditional writes: replace a file only if nobody else has changed it.

S3, GCS and Azure check the condition together with the write, in one step. obstore sends these requests. It takes
address, region and credentials from the fsspec filesystem that sends all others, so there is nothing to configure.
Elsewhere the condition is checked just before the write, so the writer must hold a lock as well. The operating system
never frees a lock on a local path while its owner lives.
"""

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from fsspec.asyn import sync

from ..errors import DataError
from .store import Store

#: Temporary credentials are fetched again after this time.
_CREDENTIALS_LIFE = timedelta(minutes=10)
#: The attribute of a filesystem that has its clients by bucket.
_CLIENTS = "conditional_clients"


def read_with_tag(store: Store, name: str) -> tuple[bytes | None, str]:
    """Return a file's content and a tag of this version of it; (None, "") if there is no such file."""
    client, key = _object(store, name)
    try:
        if client is None:
            with store.explained_errors(name):
                content = store.fs.cat_file(store.where(name))
            return content, hashlib.sha256(content).hexdigest()
        with store.explained_errors(name):
            found = client.get(key)
            return bytes(found.bytes()), _tag(found.meta)
    except FileNotFoundError:
        return None, ""


def write_if_unchanged(store: Store, name: str, content: bytes, tag: str, is_unique: bool = True) -> str:
    """Write a file if its current version has the tag ``tag``, or if it does not exist and ``tag`` is empty.

    Return the tag of the new version; an empty string if the condition did not hold.

    ``is_unique`` says that no other process would write the same content. The client repeats a write whose answer was
    lost, and the repetition fails the condition. If the file then has this content, the first attempt succeeded.
    """
    client, key = _object(store, name)
    if client is None:
        return _compare_and_write(store, name, content, tag)
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    mode: Any = "create"
    if tag:
        mode = {part: value for part, value in json.loads(tag).items() if value is not None}
    try:
        with store.explained_errors(name):
            try:
                return _tag(client.put(key, content, mode=mode))
            except (AlreadyExistsError, PreconditionError):
                pass
            finally:
                store.fs.invalidate_cache(store.where(name))
    except FileNotFoundError as error:
        if not tag or "NoSuchBucket" in str(error):
            bucket = store.where(name).partition("/")[0]
            raise DataError(
                f"{store.url}: the bucket {bucket!r} does not exist; create it, or correct the URL"
            ) from error
        return ""
    if not is_unique:
        return ""
    found, new_tag = read_with_tag(store, name)
    return new_tag if found == content else ""


def honours_conditions(store: Store, name: str) -> bool:
    """Return whether a store refuses writes whose condition does not hold. ``name`` is a file that exists.

    Some servers accept the conditions of a request and ignore them. The file is replaced in this case.
    """
    client, key = _object(store, name)
    if client is None:
        return True
    from obstore.exceptions import AlreadyExistsError, BaseError

    refused = 0
    with store.explained_errors(name):
        for mode in ("create", {"e_tag": '"0123456789abcdef0123456789abcdef"', "version": "1"}):
            try:
                client.put(key, b"{}", mode=mode)
            except AlreadyExistsError:
                refused += 1
            except BaseError:
                # The errors differ by server: a failed precondition, or an ETag or version of the wrong form.
                refused += 1
    return refused == 2


def _compare_and_write(store: Store, name: str, content: bytes, tag: str) -> str:
    _, found_tag = read_with_tag(store, name)
    if found_tag != tag:
        return ""
    # A filesystem that is neither local nor one of those above may still know how to create a file exclusively.
    if tag or store.is_local:
        store.write_bytes(name, content)
    else:
        try:
            store.fs.pipe_file(store.where(name), content, mode="create")
        except FileExistsError:
            return ""
    return hashlib.sha256(content).hexdigest()


def _tag(meta: Any) -> str:
    """Return the tag of a version: the ETag, which S3 and Azure compare, and the version, which GCS compares."""
    return json.dumps({"e_tag": meta["e_tag"], "version": meta["version"]})


def _object(store: Store, name: str) -> tuple[Any, str]:
    """Return the client of the store's bucket, and the object's key; None and "" if obstore has no client for it."""
    protocols = {store.fs.protocol} if isinstance(store.fs.protocol, str) else set(store.fs.protocol)
    makers = [make for protocol, make in MAKERS.items() if protocol in protocols]
    if not makers:
        return None, ""
    bucket, _, key = store.where(name).partition("/")
    clients = vars(store.fs).setdefault(_CLIENTS, {})
    if bucket not in clients:
        try:
            with store.explained_errors(name):
                clients[bucket] = makers[0](store.fs, bucket)
        except ImportError as error:
            raise DataError(
                f"{store.url}: writing here needs obstore ({error}); install it with pip install obstore, or with one "
                f"of the extras s3, gcs and azure of corpusmill"
            ) from None
    return clients[bucket], key


# --- one client per kind of object store, configured like its fsspec filesystem ---


def _s3_client(fs: Any, bucket: str) -> Any:
    from obstore.store import S3Store

    fs.connect()
    # Here botocore has evaluated environment variables, profiles and the options of the filesystem.
    endpoint = fs.s3.meta.endpoint_url
    region = fs.s3.meta.region_name
    if endpoint.endswith(".amazonaws.com"):
        # botocore follows redirects to the region of a bucket; obstore does not.
        region = fs.call_s3("head_bucket", Bucket=bucket).get("BucketRegion", region)
        endpoint = None
    options: dict[str, Any] = {"skip_signature": True} if fs.anon else {"credential_provider": _S3Credentials(fs)}
    return S3Store(
        bucket,
        endpoint=endpoint,
        region=region,
        client_options={"allow_http": (endpoint or "").startswith("http://")},
        **options,
    )


class _S3Credentials:
    """Gives obstore the credentials of an s3fs filesystem: its own, or those that botocore finds."""

    def __init__(self, fs: Any):
        self._fs = fs

    def __call__(self) -> dict[str, Any]:
        fs = self._fs
        expires = datetime.now(UTC) + _CREDENTIALS_LIFE
        if fs.key:
            found = {"access_key_id": fs.key, "secret_access_key": fs.secret, "token": fs.token}
            return {**found, "expires_at": expires}
        held = sync(fs.loop, fs.session.get_credentials)
        if held is None:
            raise PermissionError("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
        frozen = sync(fs.loop, held.get_frozen_credentials)
        found = {"access_key_id": frozen.access_key, "secret_access_key": frozen.secret_key, "token": frozen.token}
        return {**found, "expires_at": expires}


def _gcs_client(fs: Any, bucket: str) -> Any:
    from obstore.auth.google import GoogleCredentialProvider
    from obstore.store import GCSStore

    credentials = fs.credentials.credentials
    if credentials is None:
        return GCSStore(bucket, skip_signature=True)
    return GCSStore(bucket, credential_provider=GoogleCredentialProvider(credentials=credentials))


def _azure_client(fs: Any, container: str) -> Any:
    from obstore.store import AzureStore

    # A connection string is a list of settings such as AccountName=...;AccountKey=...
    settings = dict(part.split("=", 1) for part in (fs.connection_string or "").split(";") if "=" in part)
    options: dict[str, Any] = {"account_name": fs.account_name or settings.get("AccountName")}
    key = fs.account_key or settings.get("AccountKey")
    signature = fs.sas_token or settings.get("SharedAccessSignature")
    endpoint = settings.get("BlobEndpoint")
    if key:
        options["account_key"] = key
    elif signature:
        options["sas_key"] = signature
    elif fs.sync_credential is not None:
        from obstore.auth.azure import AzureCredentialProvider

        options["credential_provider"] = AzureCredentialProvider(credential=fs.sync_credential)
    else:
        options["skip_signature"] = True
    if endpoint:
        options["endpoint"] = endpoint
        options["client_options"] = {"allow_http": endpoint.startswith("http://")}
    return AzureStore(container, **options)


#: The functions that make a client for a filesystem and a bucket, by protocol.
MAKERS: dict[str, Callable[[Any, str], Any]] = {"s3": _s3_client, "gs": _gcs_client, "abfs": _azure_client}
