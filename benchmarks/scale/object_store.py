"""Corpora of many chunks, and runs of many states, on a local S3 server: requests to open, resume and prune.

python -m benchmarks.scale.object_store --help

The objects are put into the memory of moto's server directly. Its own time is part of the seconds. It would look at all
objects for each page of a listing. `SortedKeys` replaces this by an index, as S3 has one. The numbers of requests do
not depend on the server.
"""

import os
import time
from collections import Counter

import click
import numpy as np
import pyarrow as pa
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.io.stores.corpus import Corpus, commit_corpus, write_chunk
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.run import RunStore
from moto.s3.models import S3Backend, s3_backends
from moto.s3.utils import _VersionedKeyStore
from moto.server import ThreadedMotoServer
from sortedcontainers import SortedSet
from werkzeug.serving import WSGIRequestHandler

from benchmarks.common import JSON, QUICK, print_row, write_json
from benchmarks.scale.sleeper import TOKENS

#: The account of requests without one.
ACCOUNT = "123456789012"
REQUESTS: Counter[str] = Counter()
#: Steps of the run before it is taken over.
LAST_STEP = 3
#: States of the small step that is deleted beside large ones.
FEW = 1000


class SortedKeys(_VersionedKeyStore):
    """The objects of a bucket by name, with an index of the names."""

    def __init__(self):
        super().__init__()
        self.names = SortedSet()

    def setlist(self, name, versions):
        """Store the versions of an object. All writes of objects call this."""
        super().setlist(name, versions)
        self.names.add(name)

    def pop(self, name):
        """Forget an object."""
        super().pop(name)
        self.names.remove(name)

    def page(self, prefix, delimiter, after, most):
        """Return up to ``most`` objects and folders with a prefix, and the name after which the next page begins."""
        found = []
        position = self.names.bisect_right(after) if after else self.names.bisect_left(prefix)
        while position < len(self.names) and self.names[position].startswith(prefix):
            name = self.names[position]
            if len(found) == most:
                return found, after
            folder, is_folder, _ = name.removeprefix(prefix).partition(delimiter or "\0")
            if is_folder:
                found.append(f"{prefix}{folder}{delimiter}")
                # The first name after all names in this folder.
                after = f"{found[-1]}\U0010ffff"
                position = self.names.bisect_right(after)
            else:
                found.append(self[name])
                after = name
                position += 1
        return found, None


def list_page(backend, bucket, prefix, delimiter, continuation_token, start_after, max_keys):
    """Take the place of `S3Backend.list_objects_v2`."""
    found, after = bucket.keys.page(prefix or "", delimiter, continuation_token or start_after, max_keys)
    return found, after is not None, after


def count_request(handler, code="-", size="-"):
    """Count a request by its method."""
    REQUESTS[handler.command] += 1


@click.command(help=__doc__.split("\n")[0])
@click.option("--chunks", multiple=True, type=int, default=[1000, 100_000], show_default=True)
@click.option("--prune/--no-prune", default=True, help="Delete a large step too, not only a small one.")
@JSON
@QUICK
def main(chunks, prune, target, quick):
    if quick:
        chunks = [10, 100]
    WSGIRequestHandler.log_request = count_request
    S3Backend.list_objects_v2 = list_page
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
    rows = []
    print_row("chunks", "what", "requests", "seconds")
    try:
        for count in chunks:
            rows += measure(count, prune)
    finally:
        server.stop()
    if target is not None:
        write_json(target, rows)


def measure(count, has_prune):
    """Print and return the requests and seconds of each operation for a number of chunks."""
    backend = s3_backends[ACCOUNT]["global"]
    bucket = f"scale-{count}"
    backend.create_bucket(bucket, "us-east-1").keys = SortedKeys()
    url = f"s3://{bucket}"
    rows = []

    def timed(what, action):
        REQUESTS.clear()
        started = time.perf_counter()
        found = action()
        row = {"chunks": count, "what": what, "requests": dict(REQUESTS), "seconds": time.perf_counter() - started}
        rows.append(row)
        print_row(float(count), what, str(sum(REQUESTS.values())), row["seconds"])
        return found

    put_corpus(backend, bucket, count)
    put_run(backend, bucket, count)
    # The first request of a process makes clients and finds credentials.
    Store(url).exists("nothing")
    corpus = timed("open corpus", lambda: Corpus(f"{url}/corpus"))
    timed("chunk table", lambda: corpus.chunks)
    timed("read chunk", lambda: corpus.read_chunk(0))
    reader = RunStore(f"{url}/run")
    timed("open run", lambda: (reader.step, reader.metrics, reader.shared(LAST_STEP)))
    run = RunStore(f"{url}/run")
    with run.locked():
        owned = timed("take over", run.take_over)
        timed("read state", lambda: owned.state(LAST_STEP, count - 1))
        timed("commit", lambda: commit(owned, LAST_STEP + 1))
        timed(f"prune {min(FEW, count)}", owned.prune)
        if has_prune:
            commit(owned, LAST_STEP + 2)
            timed(f"prune {count}", owned.prune)
    return rows


def put_corpus(backend, bucket, count):
    """Put a corpus whose chunks are copies of one."""
    store = Store(f"s3://{bucket}/corpus")
    words = np.arange(TOKENS, dtype=np.uint32)
    info = write_chunk(store, "train", make_chunk(0, np.array([0, TOKENS]), words))
    frequency = np.full(TOKENS, count)
    vocabulary = pa.table({"word": words.astype(str), "term_frequency": frequency, "document_frequency": frequency})
    commit_corpus(store, vocabulary, {"train": [info] * count, "held_out": []}, True, "many chunks", {})
    # Nothing lists the objects of chunks, so one of each is enough.
    copy_objects(backend, bucket, "corpus/train", count, "zarr.json")


def put_run(backend, bucket, count):
    """Put a run, whose states are copies of one. Its first step has few states, and the other two have ``count``."""
    url = f"s3://{bucket}/run"
    with RunStore(url).locked():
        owned = RunStore(url).take_over(is_new=True)
        for step in range(1, LAST_STEP + 1):
            owned.write_shared(step, {"total": np.int64(step)})
            owned.write_state(step, 0, {"z": np.zeros(10, np.uint8)})
            commit(owned, step)
    for step in range(1, LAST_STEP + 1):
        copy_objects(backend, bucket, f"run/{owned.folder(step)}/state", min(FEW, count) if step == 1 else count)


def commit(owned, step):
    """Commit a step. The two steps before it stay valid."""
    owned.commit(step, [{"step": done} for done in range(1, step + 1)], keep=LAST_STEP)


def copy_objects(backend, bucket, folder, count, prefix=""):
    """Copy the objects of chunk 0 in a folder whose names begin with ``prefix``, so that there are ``count`` chunks."""
    first = f"{folder}/000000/{prefix}"
    names = [name for name in backend.buckets[bucket].keys if name.startswith(first)]
    for name in names:
        content = backend.get_object(bucket, name).value
        for chunk in range(1, count):
            backend.put_object(bucket, f"{folder}/{chunk:06d}/{prefix}{name.removeprefix(first)}", content)


if __name__ == "__main__":
    main()
