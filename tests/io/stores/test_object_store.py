"""Corpora, runs and models on s3:// against a real S3 server (moto's, on this machine)."""

import logging
import os
import re
import shutil
import subprocess
import uuid

import aiohttp
import fsspec
import numpy as np
import pytest
from botocore import exceptions
from botocore.exceptions import ClientError
from corpusmill import LDA, Corpus
from corpusmill.io.errors import AccessDenied, DataError, StoreFailed
from corpusmill.io.readers.batches import ReadOptions
from corpusmill.io.readers.open import open_source
from corpusmill.io.readers.source import Partition, SourceFile, line_blocks
from corpusmill.io.stores.conditional import read_with_tag, write_if_unchanged
from corpusmill.io.stores.filesystems import explained_errors
from corpusmill.io.stores.locks import acquire_lock
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.ingest.ingest import ingest
from corpusmill.pipeline.models.vectors.evaluation import read_lines
from corpusmill.pipeline.models.vectors.files import read_word2vec
from corpusmill.pipeline.publishing.versions import Versions
from helpers.s3_proxy import (
    ALWAYS,
    ignore_conditions,
    refuse_conditions,
    refuse_signature,
    refuse_token,
    want_payer,
)

DOCUMENTS = [["apple", "pear", "plum"] * 4, ["car", "road", "wheel"] * 4] * 10


@pytest.fixture(scope="module")
def corpus(bucket):
    return ingest(DOCUMENTS, f"{bucket}/corpus", chunk_tokens=80)


def fitted(corpus, **options):
    return LDA(2, doc_topic_prior=0.1, max_iter=3, random_state=1).fit(corpus, **options)


def test_a_corpus_on_s3_is_read_back(corpus, bucket):
    again = Corpus(f"{bucket}/corpus")
    assert again.n_tokens == 240
    assert sorted(again.vocabulary["word"].to_pylist()) == ["apple", "car", "pear", "plum", "road", "wheel"]


def test_an_interrupted_run_on_s3_is_resumed_to_the_same_bits(corpus, bucket):
    def stop_after_two_epochs(event):
        if isinstance(event, EpochFinished) and event.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(corpus, run=f"{bucket}/run", callbacks=[stop_after_two_epochs])
    resumed = fitted(corpus, run=f"{bucket}/run")
    np.testing.assert_array_equal(resumed.components_, fitted(corpus).components_)
    assert Store(f"{bucket}/run/epochs").names() == ["000002-0001", "000003-0002"]


@pytest.fixture
def workers_of(bucket, cluster_of):
    """Return a function that returns a client of workers that have the credentials of this process."""

    def client_of(workers):
        client = cluster_of(workers)
        client.run(_set_variables, {name: value for name, value in os.environ.items() if name.startswith("AWS_")})
        return client

    return client_of


def _set_variables(variables):
    os.environ.update(variables)


@pytest.mark.slow
def test_workers_read_and_write_s3(corpus, bucket, workers_of):
    spread = fitted(corpus, client=workers_of(2), run=f"{bucket}/spread")
    np.testing.assert_array_equal(spread.components_, fitted(corpus).components_)


def test_a_model_on_s3_is_saved_and_loaded(corpus, bucket):
    model = fitted(corpus)
    model.save(f"{bucket}/model")
    np.testing.assert_array_equal(LDA.load(f"{bucket}/model").components_, model.components_)


def test_a_missing_corpus_on_s3_is_an_error(bucket):
    with pytest.raises(DataError, match="no corpus here"):
        Corpus(f"{bucket}/nothing")


# --- a store that fails ---


@pytest.fixture
def failing(bucket, s3_with):
    """Return a proxy of the server that can inject faults, and a store that is reached through it."""
    proxy = s3_with()
    store = Store(f"{bucket}/failing-{uuid.uuid4().hex}")
    store.write_json("a.json", {"a": 1})
    store.write_arrays("group", {"v": np.arange(100), "w": np.arange(5)})
    return proxy, store


CALLS = {
    "read": ("GET", "a.json", lambda s: s.read_json("a.json")),
    "read arrays": ("GET", "group/v/c", lambda s: s.read_arrays("group")["v"].sum()),
    "write": ("PUT", "a.json", lambda s: s.write_json("a.json", {"a": 2})),
    "write arrays": ("PUT", "group/v/c", lambda s: s.write_arrays("group", {"v": np.arange(9)})),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("what", ["500", "503", "cut", "slow"])
def test_a_temporary_failure_is_retried(failing, call, what):
    proxy, store = failing
    method, path, do = CALLS[call]
    usual = do(store)
    store.fs.invalidate_cache()
    proxy.faults = [(method, path, 1, what)]
    assert do(store) == usual
    assert proxy.seen == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "what", "message"),
    [
        ("read", "403", r"s3://.*a\.json: access denied.*check the credentials"),
        ("read arrays", "403", r"s3://.*group.*(access denied|is missing)"),
        ("write", "403", r"s3://.*a\.json: access denied"),
        ("read", "404", r"a\.json: no such file"),
        ("write", "404", r"cannot be written, because its bucket does not exist"),
        ("read", "cut", r"s3://.*a\.json: the store failed repeatedly.*safe"),
        ("write", "500", r"s3://.*a\.json: the store failed repeatedly.*safe"),
    ],
)
def test_a_permanent_failure_is_reported_after_some_retries(failing, call, what, message):
    proxy, store = failing
    method, path, do = CALLS[call]
    proxy.faults = [(method, path, ALWAYS, what)]
    with pytest.raises(DataError, match=message):
        do(store)
    assert 1 <= proxy.seen <= 10


def test_a_refused_conditional_write_is_explained_in_one_sentence(failing):
    proxy, store = failing
    proxy.faults = [("PUT", "b.json", ALWAYS, "403")]
    with pytest.raises(DataError, match=r"s3://.*b\.json: access denied.*check the credentials") as raised:
        write_if_unchanged(store, "b.json", b"{}", "")
    assert len(str(raised.value)) < 500


def test_a_missing_array_is_reported_as_damage(failing):
    _, store = failing
    store.delete("group/w")
    with pytest.raises(DataError, match=r"group: .*missing"):
        store.read_arrays("group")


@pytest.mark.slow
def test_occasional_failures_of_the_store_do_not_change_a_run(failing, corpus):
    proxy, store = failing
    proxy.faults = [(method, "epochs", 2, what) for method in ("PUT", "GET") for what in ("500", "cut")]
    trained = fitted(corpus, run=f"{store.url}/run")
    np.testing.assert_array_equal(trained.components_, fitted(corpus).components_)
    assert proxy.seen >= 4


# --- traits of other servers ---


@pytest.mark.parametrize("trait", [ignore_conditions, refuse_conditions(501)])
def test_a_store_without_conditional_writes_works_with_a_warning(bucket, s3_with, trait, corpus, caplog, monkeypatch):
    # A library that another test of this process has imported may have silenced loggers.
    caplog.set_level(logging.WARNING, logger="corpusmill")
    monkeypatch.setattr(logging.getLogger("corpusmill"), "disabled", False)
    expected = fitted(corpus).components_
    proxy = s3_with(trait)
    folder = f"{bucket}/{uuid.uuid4().hex}"
    trained = fitted(ingest(DOCUMENTS, f"{folder}/corpus", chunk_tokens=80), run=f"{folder}/run")
    np.testing.assert_array_equal(trained.components_, expected)
    store = Store(folder)
    tag = write_if_unchanged(store, "HEAD", b"1", "")
    assert write_if_unchanged(store, "HEAD", b"2", tag)
    if trait is not ignore_conditions:
        assert not write_if_unchanged(store, "HEAD", b"3", tag)
        assert not write_if_unchanged(store, "HEAD", b"3", "")
    assert {record.getMessage().partition(": ")[2][:43] for record in caplog.records} == {
        "this object store ignores or refuses the co"
    }
    assert proxy.seen == 0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Return the paths of the certificate of an authority, and of a key and certificate for localhost by it."""
    folder = tmp_path_factory.mktemp("certificates")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    key = ("-newkey", "rsa:2048", "-nodes")
    authority = ("-keyout", "ca.key", "-out", "ca.pem", "-addext", "basicConstraints=critical,CA:TRUE")
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=Test", *authority)
    openssl("req", *key, "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "request.csr")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-out", "server.pem")
    openssl("x509", "-req", "-in", "request.csr", "-days", "2", *signed)
    (folder / "both.pem").write_text((folder / "key.pem").read_text() + (folder / "server.pem").read_text())
    return folder / "ca.pem", folder / "both.pem"


def read_and_write(bucket):
    store = Store(f"{bucket}/{uuid.uuid4().hex}")
    store.write_arrays("group", {"v": np.arange(4)})
    with acquire_lock(store, "lock", "someone writes"):
        return store.read_arrays("group")["v"].sum()


def test_the_certificate_of_an_own_authority_is_that_of_all_aws_tools(bucket, s3_with, certificates, monkeypatch):
    authority, certificate = certificates
    s3_with(certificate=certificate)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    assert read_and_write(bucket) == 6


def test_a_bucket_whose_requests_the_user_pays_is_read_and_written(bucket, s3_with, monkeypatch):
    s3_with(want_payer)
    with pytest.raises(AccessDenied):
        read_and_write(bucket)
    monkeypatch.setitem(fsspec.config.conf, "s3", {"requester_pays": True})
    assert read_and_write(bucket) == 6


def test_a_public_bucket_is_read_without_credentials(bucket, s3_with, monkeypatch):
    store = Store(f"{bucket}/public")
    store.fs.call_s3(
        "put_object", Bucket=store.path.partition("/")[0], Key="public/a.txt", ACL="public-read", Body=b"one fish"
    )
    s3_with(refuse_signature)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setitem(fsspec.config.conf, "s3", {"anon": True})
    source = open_source(f"{bucket}/public/*.txt", ReadOptions())
    assert source.describe()


def test_a_token_that_has_expired_is_named_as_refused_credentials(bucket, s3_with, monkeypatch):
    s3_with(refuse_token)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OLD")
    for access in ("names", "conditional read", "written in parts", "a pattern", "versions"):
        with pytest.raises(AccessDenied, match=r"s3://.*credentials"):
            ACCESSES[access](bucket)


@pytest.mark.parametrize("url", ["{}//corpus", "{}/team///corpus//"])
def test_several_slashes_are_one(bucket, url, corpus):
    url = url.format(f"{bucket}/{uuid.uuid4().hex}")
    assert ingest(DOCUMENTS, url, chunk_tokens=80).hash == corpus.hash
    assert Corpus(url).hash == corpus.hash
    assert Store(url).url == re.sub("(?<!:)/+", "/", url)


def test_objects_that_mark_folders_are_no_files(bucket):
    store = Store(f"{bucket}/{uuid.uuid4().hex}")
    store.write_bytes("source/a.txt", b"one fish")
    store.write_bytes("source/deeper/b.txt", b"red fish")
    for folder in ("source/", "source/deeper/", "source/empty/"):
        store.fs.call_s3(
            "put_object", Bucket=bucket.removeprefix("s3://"), Key=f"{store.path.partition('/')[2]}/{folder}"
        )
    store.fs.invalidate_cache()
    assert store.names("source") == ["a.txt", "deeper", "empty"]
    assert store.names("source/empty") == []
    for pattern, files in {"source": 2, "source/": 2, "source/*": 1, "source/**": 2}.items():
        found = open_source(f"{store.url}/{pattern}", ReadOptions(format="text")).describe()
        assert len(found) == files, (pattern, found)


# --- errors of any access name the place and the way out ---


@pytest.fixture
def unreachable(monkeypatch):
    """Return the URL of a bucket whose endpoint does not answer."""
    yield from _elsewhere(monkeypatch, AWS_ENDPOINT_URL="http://127.0.0.1:1")


@pytest.fixture
def without_credentials(bucket, monkeypatch):
    """Return the URL of a bucket, in a process that has no credentials."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    yield from _elsewhere(monkeypatch, AWS_EC2_METADATA_DISABLED="true", AWS_SHARED_CREDENTIALS_FILE="/nowhere")


def _elsewhere(monkeypatch, **environment):
    s3fs = pytest.importorskip("s3fs")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    yield "s3://bucket"
    s3fs.S3FileSystem.clear_instance_cache()


ACCESSES = {
    "names": lambda url: Store(url).names("folder"),
    "size": lambda url: Store(url).size("folder"),
    "modified": lambda url: Store(url).modified("folder"),
    "conditional read": lambda url: read_with_tag(Store(url), "folder"),
    "written in parts": lambda url: _write_in_parts(url),
    "versions": lambda url: Versions(f"{url}/folder").rows(),
    "a file": lambda url: open_source(f"{url}/folder", ReadOptions()),
    "a pattern": lambda url: open_source(f"{url}/folder/*.jsonl", ReadOptions()),
    "a Zarr store": lambda url: open_source(f"{url}/folder.zarr", ReadOptions()),
    "an open file": lambda url: list(line_blocks(SourceFile(f"{url}/folder.gz", "folder.gz", 9, ""), Partition(None))),
    "word vectors": lambda url: read_word2vec(f"{url}/folder.txt"),
    "pairs of words": lambda url: list(read_lines(f"{url}/folder", "utf-8")),
}


def _write_in_parts(url):
    with Store(url).open_for_writing("folder") as file:
        file.write(b"part")


# The library repeats each request for some seconds.
@pytest.mark.slow
@pytest.mark.parametrize("access", ["names", "a file"])
def test_a_store_without_answer_is_named(unreachable, access):
    with pytest.raises(StoreFailed, match=r"^s3://bucket/folder.*failed repeatedly.*check the address and the network"):
        ACCESSES[access](unreachable)


@pytest.mark.parametrize("access", ACCESSES)
def test_a_store_that_denies_access_is_named(without_credentials, access):
    with pytest.raises(AccessDenied, match=r"^s3://bucket/folder.*access denied.*check the credentials"):
        ACCESSES[access](without_credentials)


def test_damaged_data_is_not_a_failure_of_the_store(bucket):
    store = Store(f"{bucket}/damaged")
    for name, content in {"a.bz2": b"BZh9 no data", "a.gz": b"\x1f\x8b no data"}.items():
        store.write_bytes(name, content)
        with pytest.raises(DataError, match="cut off or damaged"):
            list(line_blocks(SourceFile(f"{store.url}/{name}", name, 9, ""), Partition(None)))


def _forget_credentials():
    import s3fs

    os.environ |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del os.environ[name]
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.slow
def test_workers_without_credentials_are_named(bucket, workers_of):
    client = workers_of(1)
    (address,) = client.run(_forget_credentials)
    with pytest.raises(AccessDenied, match=rf"access denied.* on the workers \(such as {address}\)"):
        ingest(DOCUMENTS, f"{bucket}/by-others", chunk_tokens=80, client=client)


def answered(code):
    """Return the error that s3fs makes of an answer with this code."""
    from s3fs.errors import translate_boto_error

    return translate_boto_error(ClientError({"Error": {"Code": code, "Message": "scripted"}}, "PutObject"))


#: Errors of each class that libraries raise, and what is said of them.
NETWORK = "failed repeatedly.*check the address and the network"
SAID = {
    "no connection": (lambda: exceptions.EndpointConnectionError(endpoint_url="http://x"), StoreFailed, NETWORK),
    "no answer": (lambda: exceptions.ReadTimeoutError(endpoint_url="http://x"), StoreFailed, NETWORK),
    "cut connection": (lambda: aiohttp.ServerDisconnectedError(), StoreFailed, NETWORK),
    "reset": (lambda: ConnectionResetError(104, "reset"), StoreFailed, NETWORK),
    "failure": (lambda: answered("InternalError"), StoreFailed, r"failed repeatedly[^;]*; [^;]*continues from them$"),
    "busy": (lambda: answered("503"), StoreFailed, r"failed repeatedly[^;]*; [^;]*continues from them$"),
    "full disk": (lambda: OSError(28, "No space left"), StoreFailed, r"No space left[^;]*; [^;]*continues from them$"),
    "other refusal": (
        lambda: answered("InvalidBucketName"),
        DataError,
        r"refused the request \(InvalidBucketName: .*\)$",
    ),
    "not implemented": (lambda: answered("NotImplemented"), DataError, r"refused the request \(NotImplemented: .*\)$"),
    "token": (lambda: answered("ExpiredToken"), AccessDenied, r"access denied \(scripted\); check the credentials"),
    "none": (lambda: exceptions.NoCredentialsError(), AccessDenied, "a public bucket .*FSSPEC_S3_ANON=true$"),
    "google": (lambda: OSError("Forbidden: http://x\nno"), AccessDenied, r"denied \(Forbidden: http://x no\)"),
    "certificate": (
        lambda: exceptions.SSLError(endpoint_url="x", error="CERTIFICATE_VERIFY_FAILED"),
        DataError,
        "certificate of the store is not trusted.*AWS_CA_BUNDLE",
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_an_error_says_what_is_known_and_no_more(case):
    make, kind, message = SAID[case]
    with pytest.raises(DataError, match=f"^s3://bucket/key: .*{message}") as raised:
        with explained_errors(fsspec.filesystem("memory"), "s3://bucket/key/"):
            raise make()
    assert type(raised.value) is kind


# --- without the right to delete ---


def test_a_refused_deletion_is_an_error(undeletable):
    store = Store(f"{undeletable}/a")
    for name in ("folder/one", "folder/two"):
        store.write_bytes(name, b"1")
    with pytest.raises(AccessDenied, match=r"^s3://kept-.*/a/folder: cannot be deleted.*s3:DeleteObject.*grant it"):
        store.delete("folder")
    assert store.names("folder") == ["one", "two"]
    assert not store.delete_unneeded("folder")


@pytest.mark.slow
def test_corpora_and_runs_go_on_without_deletions_and_say_so_once(undeletable, corpus, caplog):
    kept = ingest(DOCUMENTS, f"{undeletable}/corpus", chunk_tokens=80)
    trained = fitted(kept, run=f"{undeletable}/run")
    np.testing.assert_array_equal(trained.components_, fitted(corpus).components_)
    assert Store(f"{undeletable}/corpus").names(".work")
    assert len(Store(f"{undeletable}/run/epochs").names()) == 4
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "corpusmill"]
    assert warning.startswith(f"{undeletable}: old epochs, versions and work files stay there")


def test_a_corpus_that_cannot_be_deleted_is_not_replaced(undeletable):
    ingest(DOCUMENTS, f"{undeletable}/corpus", chunk_tokens=80)
    with pytest.raises(AccessDenied, match=r"corpus\.json: cannot be deleted"):
        ingest(DOCUMENTS[:4], f"{undeletable}/corpus", overwrite=True)
    assert Corpus(f"{undeletable}/corpus").n_documents == len(DOCUMENTS)
