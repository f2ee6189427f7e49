"""Conditional writes replace a file only if nobody else has changed it, and so decide who owns a store.

S3, GCS and Azure check the condition together with the write, in one step. The requests go through the fsspec
filesystem of the store, so they have its address, region, certificates and credentials. Elsewhere the condition is
checked just before the write, so the writer must hold a lock as well. The operating system never frees a lock on a
local path while its owner lives.

Every process that begins to write a store takes over its commit file: it raises the fencing token in it by one. From
then on, the file can be replaced only by this process, because each replacement is a conditional write. All other files
have the token in their names, or in the name of their folder. So a process that was paused, and continues after another
one has taken over, writes only files that nobody reads.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, NoReturn

from fsspec.asyn import sync

from ..errors import DataError, Locked
from .filesystems import code_of
from .store import JsonObject, Store, encode_json

#: The attribute of a filesystem that has its `ConditionalObjects`.
_ATTRIBUTE = "corpusmill_conditional"


class ConditionFailed(Exception):
    """A conditional write whose condition did not hold."""


class ConditionRefused(Exception):
    """A store that does not know the condition of a write."""


class Version(NamedTuple):
    """One version of an object, and the tag by which the store compares it."""

    content: bytes
    tag: str


def read_with_tag(store: Store, name: str) -> tuple[bytes | None, str]:
    """Return a file's content and a tag of this version of it; (None, "") if there is no such file."""
    objects = _objects(store)
    try:
        with store.explained_errors(name):
            if objects is not None:
                return objects.read(store.where(name))
            content = store.fs.cat_file(store.where(name))
        return content, hashlib.sha256(content).hexdigest()
    except FileNotFoundError:
        return None, ""


def write_if_unchanged(store: Store, name: str, content: bytes, tag: str, is_unique: bool = True) -> str:
    """Write a file if its current version has the tag ``tag``, or if it does not exist and ``tag`` is empty.

    Return the tag of the new version; an empty string if the condition did not hold.

    ``is_unique`` says that no other process would write the same content. The client repeats a write whose answer was
    lost, and the repetition fails the condition. If the file then has this content, the first attempt succeeded.
    """
    objects = _objects(store)
    if objects is None:
        return _compare_and_write(store, name, content, tag)
    path = store.where(name)
    try:
        with store.explained_errors(name):
            try:
                if not objects.are_refused:
                    return objects.write(path, content, tag)
            except ConditionRefused:
                objects.are_refused = True
            except ConditionFailed:
                if not is_unique:
                    return ""
            finally:
                store.fs.invalidate_cache(path)
            if objects.are_refused:
                # As good as can be. The lock warns of it.
                return objects.write(path, content, None) if read_with_tag(store, name)[1] == tag else ""
    except FileNotFoundError as error:
        if not tag or code_of(error) in ("NoSuchBucket", "ContainerNotFound"):
            bucket = path.partition("/")[0]
            raise DataError(
                f"{store.url}: the bucket {bucket!r} does not exist; create it, or correct the URL"
            ) from error
        return ""
    found, new_tag = read_with_tag(store, name)
    return new_tag if found == content else ""


def honours_conditions(store: Store, name: str) -> bool:
    """Return whether a store refuses writes whose condition does not hold. ``name`` is a file that exists.

    Some servers accept the conditions of a request and ignore them. The file is replaced in this case. Others refuse
    requests that have conditions.
    """
    objects = _objects(store)
    if objects is None:
        return True
    if objects.are_refused:
        return False
    with store.explained_errors(name):
        for tag in ("", objects.unlikely_tag):
            try:
                objects.write(store.where(name), b"{}", tag)
                return False
            except ConditionRefused:
                return False
            except ConditionFailed:
                pass
            except Exception as error:
                # Some servers refuse a tag of the wrong form.
                if code_of(error) is None:
                    raise
    return True


def _compare_and_write(store: Store, name: str, content: bytes, tag: str) -> str:
    _, found_tag = read_with_tag(store, name)
    if found_tag != tag:
        return ""
    # A filesystem that is neither local nor one of those below may still know how to create a file exclusively.
    if tag or store.is_local:
        store.write_bytes(name, content)
    else:
        try:
            store.fs.pipe_file(store.where(name), content, mode="create")
        except FileExistsError:
            return ""
    return hashlib.sha256(content).hexdigest()


# --- one class per kind of object store ---


class ConditionalObjects(ABC):
    """Reads and writes objects of one fsspec filesystem with the tags of their versions."""

    #: A tag of the right form that no object has.
    unlikely_tag: ClassVar[str] = '"0123456789abcdef0123456789abcdef"'
    #: Codes of errors that say that the store has no conditions.
    refusals: ClassVar[frozenset[str]] = frozenset({"NotImplemented", "501", "MethodNotAllowed", "405"})
    #: Codes of errors that say that the condition does not hold.
    failures: ClassVar[frozenset[str]] = frozenset({"PreconditionFailed", "412"})

    def __init__(self, fs: Any):
        self.fs = fs
        #: Whether the store has refused a condition.
        self.are_refused = False
        #: Whether the store has looked at a condition. If so, a later refusal comes from something between, such as a
        #: proxy, and must not end the protection.
        self.are_known = False

    def read(self, path: str) -> Version:
        """Return an object; raise FileNotFoundError if there is none."""
        return sync(self.fs.loop, self._read, path)

    def write(self, path: str, content: bytes, tag: str | None) -> str:
        """Write an object if it has the tag ``tag``, or does not exist if that is empty; in any case if it is None.

        Return the new tag. Raises ConditionFailed and ConditionRefused.
        """
        try:
            new_tag = sync(self.fs.loop, self._write, path, content, tag)
        except Exception as error:
            code = code_of(error)
            if code in self.failures or isinstance(error, FileExistsError):
                self.are_known = True
                raise ConditionFailed(path) from error
            if tag is not None and code in self.refusals and not self.are_known:
                raise ConditionRefused(path) from error
            raise
        self.are_known |= tag is not None
        return new_tag

    @abstractmethod
    async def _read(self, path: str) -> Version: ...

    @abstractmethod
    async def _write(self, path: str, content: bytes, tag: str | None) -> str: ...


class _S3Objects(ConditionalObjects):
    #: Of two writes at the same moment, S3 refuses one as a conflict.
    failures = ConditionalObjects.failures | {"ConditionalRequestConflict"}

    async def _read(self, path: str) -> Version:
        bucket, key, _ = self.fs.split_path(path)
        found = await self.fs._call_s3("get_object", Bucket=bucket, Key=key)
        async with found["Body"] as body:
            return Version(await body.read(), found["ETag"])

    async def _write(self, path: str, content: bytes, tag: str | None) -> str:
        bucket, key, _ = self.fs.split_path(path)
        condition = {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}
        wanted = {} if tag is None else condition
        return str((await self.fs._call_s3("put_object", Bucket=bucket, Key=key, Body=content, **wanted))["ETag"])


class _GCSObjects(ConditionalObjects):
    unlikely_tag = "1"

    async def _read(self, path: str) -> Version:
        bucket, key, _ = self.fs.split_path(path)
        # Before the content: if another process writes in between, the tag is out of date, and a write with it fails.
        found = await self.fs._call("GET", "b/{}/o/{}", bucket, key, json_out=True)
        _, content = await self.fs._call("GET", self.fs.url(path))
        return Version(content, str(found["generation"]))

    async def _write(self, path: str, content: bytes, tag: str | None) -> str:
        bucket, key, _ = self.fs.split_path(path)
        condition = {} if tag is None else {"ifGenerationMatch": tag or "0"}
        url = f"{self.fs._location}/upload/storage/v1/b/{{}}/o"
        headers = {"Content-Type": "application/octet-stream"}
        options = {"name": key, "uploadType": "media", "headers": headers, "data": content, "json_out": True}
        return str((await self.fs._call("POST", url, bucket, **options, **condition))["generation"])


class _AzureObjects(ConditionalObjects):
    unlikely_tag = '"0x8D4BCC2E4835CD0"'
    refusals = ConditionalObjects.refusals | {"UnsupportedHeader"}
    failures = ConditionalObjects.failures | {"ConditionNotMet", "BlobAlreadyExists", "TargetConditionNotMet"}

    def _client(self, path: str) -> Any:
        container, key, _ = self.fs.split_path(path)
        return self.fs.service_client.get_blob_client(container, key)

    async def _read(self, path: str) -> Version:
        from azure.core.exceptions import ResourceNotFoundError

        async with self._client(path) as client:
            try:
                stream = await client.download_blob()
                return Version(await stream.readall(), stream.properties.etag)
            except ResourceNotFoundError as error:
                raise FileNotFoundError(path) from error

    async def _write(self, path: str, content: bytes, tag: str | None) -> str:
        from azure.core import MatchConditions
        from azure.core.exceptions import ResourceNotFoundError

        condition = {"etag": tag, "match_condition": MatchConditions.IfNotModified} if tag else {}
        async with self._client(path) as client:
            try:
                return str((await client.upload_blob(content, overwrite=tag != "", **condition))["etag"])
            except ResourceNotFoundError as error:
                raise FileNotFoundError(path) from error


#: The class for a filesystem, by protocol.
KINDS: dict[str, type[ConditionalObjects]] = {"s3": _S3Objects, "gs": _GCSObjects, "abfs": _AzureObjects}


def _objects(store: Store) -> ConditionalObjects | None:
    """Return the conditional objects of a store's filesystem; None if it has no conditional writes."""
    protocols = {store.fs.protocol} if isinstance(store.fs.protocol, str) else set(store.fs.protocol)
    kinds = [kind for protocol, kind in KINDS.items() if protocol in protocols]
    return vars(store.fs).setdefault(_ATTRIBUTE, kinds[0](store.fs)) if kinds else None


# --- commit files ---


@dataclass
class CommitFile:
    """A commit file as its owner last wrote it. ``message`` says what another owner does."""

    store: Store
    name: str
    message: str
    content: JsonObject
    tag: str

    @property
    def owner(self) -> int:
        """The fencing token of the owner: 1 for the first one."""
        return int(self.content["owner"])

    def replace(self, content: JsonObject, is_first: bool = False) -> None:
        """Write the file again, with the fencing token; raise Locked if another process has taken over.

        ``is_first`` marks the first write of an owner. Another process may write the same content at that moment.
        """
        new = content | {"owner": self.owner}
        tag = write_if_unchanged(self.store, self.name, encode_json(new), self.tag, is_unique=not is_first)
        if not tag:
            self.refuse()
        self.content = new
        self.tag = tag

    def refuse(self) -> NoReturn:
        """Raise Locked: another process has taken over."""
        raise Locked(
            f"{self.store.url}: this process was paused and lost its lock, and another one has taken over: "
            f"{self.message}"
        )


def take_over(store: Store, name: str, message: str, begin: Callable[[JsonObject | None], JsonObject]) -> CommitFile:
    """Become the owner of a store. ``begin`` returns the new content of the commit file for the one found, or None.

    Raises Locked if another process does the same at this moment, and DataError if the file is damaged.
    """
    found, tag = read_commit(store, name)
    number = 0 if found is None else int(found.get("owner", 0))
    file = CommitFile(store, name, message, {"owner": number + 1}, tag)
    file.replace(begin(found), is_first=True)
    return file


def read_commit(store: Store, name: str) -> tuple[JsonObject | None, str]:
    """Return the content of a commit file and the tag of this state; (None, "") if there is none."""
    content, tag = read_with_tag(store, name)
    if content is None:
        return None, ""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DataError(f"{store.url}/{name}: damaged; restore it, or delete the store and write it again")
    return found, tag
