"""Corpora of many chunks, and runs of many states, on a local S3 server: requests to open, resume and prune.

python -m benchmarks.scale.object_store --help

The objects are put into the memory of moto's server directly. Its own time is part of the seconds: listing all objects
of a bucket takes it long, where S3 has an index. The numbers of requests do not depend on the server.
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
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer
from werkzeug.serving import WSGIRequestHandler

from benchmarks.common import JSON, QUICK, print_row, write_json
from benchmarks.scale.sleeper import TOKENS

#: The account of requests without one.
ACCOUNT = "123456789012"
REQUESTS: Counter[str] = Counter()


def count_request(handler, code="-", size="-"):
    """Count a request by its method."""
    REQUESTS[handler.command] += 1


@click.command(help=__doc__.split("\n")[0])
@click.option("--chunks", multiple=True, type=int, default=[1000, 100_000], show_default=True)
@click.option("--prune/--no-prune", default=True, help="Delete an old step too, which takes moto's server long.")
@JSON
@QUICK
def main(chunks, prune, target, quick):
    if quick:
        chunks = [10, 100]
    WSGIRequestHandler.log_request = count_request
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
    backend.create_bucket(bucket, "us-east-1")
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
    timed("open run", lambda: (reader.step, reader.metrics, reader.shared(2)))
    run = RunStore(f"{url}/run")
    with run.locked():
        owned = timed("take over", run.take_over)
        timed("read state", lambda: owned.state(2, count - 1))
        timed("commit", lambda: owned.commit(3, [{"step": step} for step in (1, 2, 3)], keep=2))
        if has_prune:
            timed("prune a step", owned.prune)
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
    """Put a run of two steps, whose states are copies of one."""
    url = f"s3://{bucket}/run"
    with RunStore(url).locked():
        owned = RunStore(url).take_over(is_new=True)
        for step in (1, 2):
            owned.write_shared(step, {"total": np.int64(step)})
            owned.write_state(step, 0, {"z": np.zeros(10, np.uint8)})
            owned.commit(step, [{"step": done} for done in range(1, step + 1)], keep=3)
    for step in (1, 2):
        copy_objects(backend, bucket, f"run/{owned.folder(step)}/state", count)


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
