"""A file system like an object store: each request takes a while, and requests at the same time do not wait in line."""

import asyncio
import contextlib
import os
import shutil
from pathlib import Path
from typing import ClassVar

import fsspec
from fsspec.asyn import AsyncFileSystem

PROTOCOL = "delayed"
#: Environment variable with the milliseconds of a request. Processes of workers inherit it.
LATENCY = "CORPUSMILL_BENCHMARK_LATENCY_MS"


class DelayedFileSystem(AsyncFileSystem):
    """Files of this machine. A URL is ``delayed://`` and an absolute path."""

    protocol = PROTOCOL
    cachable = True
    requests: ClassVar[dict[str, int]] = {}

    async def _request(self, kind):
        self.requests[kind] = self.requests.get(kind, 0) + 1
        await asyncio.sleep(float(os.environ.get(LATENCY, "0")) / 1000)

    async def _cat_file(self, path, start=None, end=None, **_):
        await self._request("read")
        return Path(self._strip_protocol(path)).read_bytes()[start:end]

    async def _pipe_file(self, path, value, mode="overwrite", **_):
        await self._request("write")
        target = Path(self._strip_protocol(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode == "create" and target.exists():
            raise FileExistsError(path)
        temporary = target.with_name(f".{target.name}-{id(value)}")
        temporary.write_bytes(value)
        temporary.replace(target)

    async def _info(self, path, **_):
        await self._request("list")
        return self._info_of(Path(self._strip_protocol(path)))

    def _info_of(self, path):
        found = path.stat()
        kind = "directory" if path.is_dir() else "file"
        return {"name": str(path), "size": found.st_size, "type": kind, "mtime": found.st_mtime}

    async def _ls(self, path, detail=True, **_):
        await self._request("list")
        # Others may delete files meanwhile.
        found = []
        for child in Path(self._strip_protocol(path)).iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(self._info_of(child))
        return found if detail else [info["name"] for info in found]

    async def _rm(self, path, recursive=False, **_):
        await self._request("list")
        await self._request("delete")
        target = Path(self._strip_protocol(path))
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()

    async def _modified(self, path):
        return (await self._info(path))["mtime"]

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + str(path).removeprefix(f"{PROTOCOL}://").lstrip("/").rstrip("/")


fsspec.register_implementation(PROTOCOL, DelayedFileSystem, clobber=True)
