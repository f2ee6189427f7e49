"""Azure and Google Cloud Storage against their emulators on this machine, where these and the libraries are installed.

azurite comes from npm, and gcp-storage-emulator from PyPI. The latter ignores the conditions of writes, so it runs
as it is and with the condition that Google documents (ifGenerationMatch).
"""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import fsspec
import pytest
from corpusmill import LDA, Corpus
from corpusmill.io.errors import DataError
from corpusmill.io.stores.conditional import honours_conditions, read_with_tag, write_if_unchanged
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.ingest.ingest import ingest

pytestmark = pytest.mark.slow
#: The account that every azurite has.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
EMULATOR = """
import sys, threading, time
from http import HTTPStatus
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects

insert, lock = objects.insert, threading.Lock()

def insert_if_unchanged(request, response, storage, *args, **kwargs):
    wanted = request.query.get("ifGenerationMatch")
    with lock:
        try:
            name = request.query["name"][0] if wanted else ""
            found = storage.get_file_obj(request.params["bucket_name"], name)["generation"]
        except NotFound:
            found = "0"
        if not wanted or wanted == [found]:
            return insert(request, response, storage, *args, **kwargs)
        response.status = HTTPStatus.PRECONDITION_FAILED
        message = "At least one of the pre-conditions you specified did not hold."
        errors = [{"message": message, "domain": "global", "reason": "conditionNotMet"}]
        response.json({"error": {"code": 412, "message": message, "errors": errors}})

if sys.argv[1] == "conditions":
    objects.insert = insert_if_unchanged

from gcp_storage_emulator.server import create_server
create_server("127.0.0.1", int(sys.argv[2]), in_memory=True).start()
time.sleep(600)
"""


@contextlib.contextmanager
def server(command, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, str(port)], cwd=folder, **quiet) as process:
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.fixture
def azure(tmp_path, monkeypatch):
    adlfs = pytest.importorskip("adlfs")
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite-blob is not on the PATH (npm install azurite)")
    with server([program, "--silent", "--skipApiVersionCheck", "--blobPort"], tmp_path) as address:
        settings = f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={address}/{ACCOUNT};"
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"DefaultEndpointsProtocol=http;{settings}")
        adlfs.AzureBlobFileSystem.clear_instance_cache()
        adlfs.AzureBlobFileSystem(connection_string=f"DefaultEndpointsProtocol=http;{settings}").mkdir("work")
        yield "az://work"


@contextlib.contextmanager
def google_cloud(tmp_path, monkeypatch, conditions):
    # gcsfs reads this when it is imported. It would ask a server of Google's for the kind of the bucket.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    gcsfs = pytest.importorskip("gcsfs")
    pytest.importorskip("gcp_storage_emulator")
    with server([sys.executable, "-c", EMULATOR, conditions], tmp_path) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        monkeypatch.setitem(fsspec.config.conf, "gs", {"token": "anon"})
        gcsfs.GCSFileSystem.clear_instance_cache()
        body = json.dumps({"name": "work"}).encode()
        request = urllib.request.Request(
            f"{address}/storage/v1/b?project=p", body, {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request).close()
        yield "gs://work"


@pytest.fixture
def google(tmp_path, monkeypatch):
    with google_cloud(tmp_path, monkeypatch, "conditions") as url:
        yield url


@pytest.fixture
def google_without_conditions(tmp_path, monkeypatch):
    with google_cloud(tmp_path, monkeypatch, "none") as url:
        yield url


@pytest.mark.parametrize(
    "name, has_conditions", [("azure", True), ("google", True), ("google_without_conditions", False)]
)
def test_corpora_runs_and_locks_are_at_the_configured_address(name, has_conditions, request):
    url = request.getfixturevalue(name)
    store = Store(f"{url}/a")
    first = write_if_unchanged(store, "HEAD", b"1", "")
    second = write_if_unchanged(store, "HEAD", b"2", first)
    assert first and second and read_with_tag(store, "HEAD") == (b"2", second)
    if has_conditions:
        assert not write_if_unchanged(store, "HEAD", b"3", first)
        assert not write_if_unchanged(store, "HEAD", b"3", "")
    assert honours_conditions(store, "HEAD") is has_conditions
    ingest([["sea", "boat"], ["oven", "bread"]] * 5, f"{url}//corpus")
    model = LDA(2, max_iter=2).fit(f"{url}/corpus", run=f"{url}/run")
    assert (model.n_iter_, Corpus(f"{url}/corpus").n_documents) == (2, 10)
    with pytest.raises(DataError, match="the bucket 'missing' does not exist"):
        write_if_unchanged(Store(f"{url.partition(':')[0]}://missing/a"), "HEAD", b"1", "")
