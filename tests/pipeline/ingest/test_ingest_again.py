"""Workers, interruptions and repetitions do not change a corpus, and no other corpus is overwritten."""

import gzip
import json
import multiprocessing
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from corpusmill.io.errors import DataError, Locked
from corpusmill.io.readers import open as formats
from corpusmill.io.readers.lines import LinesReader
from corpusmill.io.stores.corpus import Corpus
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.ingest.ingest import ingest
from fsspec.implementations.memory import MemoryFileSystem
from helpers.documents import corpus_files, source_words, words_of, write_source


@pytest.fixture(scope="class")
def alone(tmp_path_factory):
    """A corpus made in this process."""
    folder = tmp_path_factory.mktemp("alone")
    options = {"chunk_tokens": 2_000, "held_out": 0.1}
    return (
        write_source(folder / "source"),
        options,
        ingest(str(folder / "source" / "*.txt"), str(folder / "c"), **options),
    )


@pytest.fixture
def cluster(cluster_of):
    return cluster_of(2)


def test_data_in_memory_that_is_ingested_again_has_three_ways_out(tmp_path):
    url = str(tmp_path / "corpus")
    texts = pa.table({"text": ["one fish", "two fish"]})
    ingest(texts, url)
    message = (
        r"does not compare it with data in memory; open it with Corpus\('.*corpus'\), replace it with overwrite=True"
    )
    for again in (texts, ["red fish"]):
        with pytest.raises(DataError, match=message):
            ingest(again, url)
    assert words_of(ingest(["red fish"], url, overwrite=True)) == [["red", "fish"]]


# --- workers ---


class TestOnACluster:
    def test_the_same_bits(self, tmp_path, alone, cluster):
        pattern, options, here = alone
        others = cluster.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.tasks))
        there = ingest(pattern, str(tmp_path / "there"), **options, client=cluster)
        assert here.hash == there.hash
        assert corpus_files(here) == corpus_files(there)
        assert cluster.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.tasks)) <= others

    def test_data_in_memory(self, tmp_path, cluster):
        corpus = ingest((d for d in [["a", "b"], ["b"]]), str(tmp_path / "corpus"), client=cluster)
        assert words_of(corpus) == [["a", "b"], ["b"]]

    def test_an_error_on_a_worker_names_the_file(self, tmp_path, cluster):
        (tmp_path / "x.jsonl").write_text("{}")
        with pytest.raises(DataError, match=r"x\.jsonl, line 1: no text"):
            ingest(tmp_path / "x.jsonl", str(tmp_path / "corpus"), client=cluster)


class Tracked(LinesReader):
    """Counts how often each file is read, and kills its process on the first reading of the file named fatal."""

    def read(self, part):
        folder = Path(part.file.url).parent
        tally = folder / f"{part.file.name}.tally"
        tally.write_bytes((tally.read_bytes() if tally.exists() else b"") + b"x")
        fatal = folder / "fatal"
        if fatal.exists() and fatal.read_text() == part.file.name:
            fatal.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(part)


class Stop(Exception):
    """Interrupts an ingest."""


def _stop_at(stage):
    def look(progress):
        if progress.stage == stage and progress.done >= min(2, progress.total):
            raise Stop

    return look


def _die_at(stage):
    def look(progress):
        if progress.stage == stage and progress.done >= min(2, progress.total):
            os.kill(os.getpid(), signal.SIGKILL)

    return look


def _ingest_and_die(pattern, url, stage):
    formats.FORMATS["lines"] = Tracked
    ingest(pattern, url, chunk_tokens=2_000, progress=_die_at(stage))


@pytest.mark.slow
def test_an_interrupted_ingest_continues_after_the_last_finished_task(tmp_path, monkeypatch):
    pattern, url, options = (
        write_source(tmp_path / "source"),
        str(tmp_path / "corpus"),
        {"chunk_tokens": 2_000},
    )
    expected = corpus_files(ingest(pattern, str(tmp_path / "whole"), **options))
    (tmp_path / "source" / "fatal").write_text("2.txt")
    monkeypatch.setitem(formats.FORMATS, "lines", Tracked)
    for killed_at in ("none", "chunks"):
        process = multiprocessing.get_context("spawn").Process(target=_ingest_and_die, args=(pattern, url, killed_at))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        with pytest.raises(DataError, match="no corpus here"):
            Corpus(url)
        for stopped_at in ("words", "ids") if killed_at == "none" else ():
            with pytest.raises(Stop):
                ingest(pattern, url, **options, progress=_stop_at(stopped_at))
    reported = []
    found = corpus_files(ingest(pattern, url, **options, progress=reported.append))
    assert next(t.done for t in reported if t.stage == "chunks") == 2
    assert [(tmp_path / "source" / f"{f}.txt.tally").read_text() for f in range(3)] == ["x", "x", "xx"]
    assert found.keys() == expected.keys()
    assert all(found[k] == expected[k] for k in found if k != "corpus.json")
    meta, other = json.loads(found["corpus.json"]), json.loads(expected["corpus.json"])
    assert meta["hash"] == other["hash"]
    assert meta["parts"] == other["parts"]


def test_a_repeated_ingest_does_nothing_and_says_so(tmp_path):
    pattern, url = write_source(tmp_path / "source"), str(tmp_path / "corpus")
    ingest(pattern, url)
    before = {p: p.stat().st_mtime_ns for p in Path(url).rglob("*") if p.is_file()}
    reported = []
    ingest(pattern, url, progress=reported.append)
    assert [t.stage for t in reported] == ["unchanged"]
    assert {p: p.stat().st_mtime_ns for p in Path(url).rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    "name, first, second",
    [
        ("x.jsonl", {}, {"format": "jsonl"}),
        ("x.jsonl", {"format": "jsonl"}, {"format": "auto"}),
        ("x.tsv", {"delimiter": "\t"}, {"delimiter": "\\t"}),
        ("x.tsv", {"encoding": "utf-8"}, {"encoding": "UTF8", "quote": '"'}),
        ("x.tsv", {"stop_words": ["a", "b"]}, {"stop_words": {"b", "a"}}),
        ("x.tsv", {"tokens": "text"}, {"tokens": "text", "text": "unused"}),
    ],
)
def test_options_that_mean_the_same_are_the_same(tmp_path, name, first, second):
    (tmp_path / name).write_text('{"text": "one two"}\n' if name == "x.jsonl" else "text\none two\n")
    made = ingest(tmp_path / name, tmp_path / "corpus", **first)
    assert ingest(tmp_path / name, tmp_path / "corpus", **second).hash == made.hash
    with pytest.raises(DataError, match="with other options"):
        ingest(tmp_path / name, tmp_path / "corpus", min_df=2)


def test_progress_is_reported_after_each_task(tmp_path):
    reported = []
    ingest(write_source(tmp_path / "source"), str(tmp_path / "corpus"), progress=reported.append)
    assert [(t.done, t.total) for t in reported if t.stage == "tokens"] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert list(dict.fromkeys(t.stage for t in reported)) == ["tokens", "words", "ids", "chunks", "finished"]


@pytest.mark.parametrize("limit", ["min_df", "max_df"])
def test_a_count_and_an_equal_share_are_two_options_and_types_of_numbers_are_not(tmp_path, limit):
    (tmp_path / "texts.txt").write_text("one fish\nred fish\n")
    given = {"format": "lines", "held_out": 0, "chunk_tokens": 100}
    first = ingest(str(tmp_path / "texts.txt"), str(tmp_path / "corpus"), **given | {limit: 1})
    again = given | {limit: np.uint8(1), "held_out": np.float32(0), "chunk_tokens": np.int16(100)}
    assert ingest(str(tmp_path / "texts.txt"), str(tmp_path / "corpus"), **again).hash == first.hash
    with pytest.raises(DataError, match=limit):
        ingest(str(tmp_path / "texts.txt"), str(tmp_path / "corpus"), **given | {limit: np.float32(1)})


def test_another_corpus_is_refused_or_overwritten(tmp_path):
    pattern, url = write_source(tmp_path / "source"), str(tmp_path / "corpus")
    ingest(pattern, url, chunk_tokens=1_000)
    with pytest.raises(DataError, match=r"other options \(min_df\).*--overwrite"):
        ingest(pattern, url, chunk_tokens=1_000, min_df=3)
    with pytest.raises(DataError, match=r"another source.*--overwrite"):
        ingest(str(tmp_path / "source" / "1.txt"), url, chunk_tokens=1_000)
    with pytest.raises(DataError, match=r"data in memory; .* overwrite=True"):
        ingest([["in"], ["memory"]], url)
    replaced = ingest(pattern, url, min_df=3, overwrite=True)
    assert corpus_files(replaced) == corpus_files(ingest(pattern, str(tmp_path / "fresh"), min_df=3))


def test_files_that_no_ingest_wrote_are_kept(tmp_path):
    pattern = write_source(tmp_path / "train")
    (tmp_path / "bad-lines.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=r"bad-lines\.jsonl would be overwritten, and no ingest wrote that"):
        ingest(pattern, str(tmp_path))
    (tmp_path / "bad-lines.jsonl").unlink()
    ingest(pattern, str(tmp_path))
    ingest(pattern, str(tmp_path), min_df=3, overwrite=True)
    for url in (tmp_path / "train", tmp_path / "train" / "corpus"):
        with pytest.raises(DataError, match=r"is inside the folder of documents .*; choose a folder outside"):
            ingest(tmp_path / "train", str(url))
    assert len(source_words(pattern)) == 1200


def test_a_changed_file_is_another_source(tmp_path):
    pattern, url = write_source(tmp_path / "source"), str(tmp_path / "corpus")
    ingest(pattern, url)
    with (tmp_path / "source" / "1.txt").open("a") as file:
        file.write("more\n")
    with pytest.raises(DataError, match="files that changed"):
        ingest(pattern, url)


def test_work_files_of_another_ingest_are_not_used(tmp_path):
    pattern, url = write_source(tmp_path / "source"), str(tmp_path / "corpus")
    with pytest.raises(Stop):
        ingest(pattern, url, chunk_tokens=2_000, progress=_stop_at("chunks"))
    with pytest.raises(Stop):
        ingest([["in"], ["memory"]], url, chunk_tokens=2_000, progress=_stop_at("ids"))
    corpus = ingest(pattern, url, chunk_tokens=5_000)
    assert corpus_files(corpus) == corpus_files(ingest(pattern, str(tmp_path / "fresh"), chunk_tokens=5_000))


def test_an_ingest_that_lost_its_lock_commits_nothing(tmp_path):
    store = Store(f"memory://{tmp_path.name}")

    def be_paused(progress):
        if progress.stage == "chunks":
            store.write_bytes("ingest.lock", b"the lock of another process")

    with pytest.raises(Locked, match="lost its lock: another process is ingesting into this corpus"):
        ingest(write_source(tmp_path / "source"), store.url, progress=be_paused)
    assert not store.exists("corpus.json")
    assert store.exists(".work")


class Pausing(MemoryFileSystem):
    """A file system in memory. Just before chunk 1 is written for the first time, another process does something."""

    protocol = "pausing"
    meanwhile: ClassVar[list[Callable[[], None]]] = []

    def pipe(self, path, value=None, **options):
        if isinstance(path, dict) and any("/train/000001/" in name for name in path):
            while self.meanwhile:
                self.meanwhile.pop()()
        super().pipe(path, value, **options)


@pytest.mark.parametrize("same", [True, False], ids=["the same source", "another source"])
def test_an_ingest_that_is_paused_while_it_writes_a_chunk_harms_nobody(tmp_path, same):
    fsspec.register_implementation("pausing", Pausing, clobber=True)
    patterns = [write_source(tmp_path / "mine"), write_source(tmp_path / "other", seed=1)]
    store = Store(f"pausing://{tmp_path.name}-{same}")
    options = {"chunk_tokens": 2_000, "overwrite": True}
    theirs = patterns[0 if same else 1]
    expected = ingest(theirs, str(tmp_path / "expected"), **options)

    def take_over():
        store.write_bytes("ingest.lock", b'{"released": true}')  # it has expired
        ingest(theirs, store.url, **options)

    Pausing.meanwhile.append(take_over)
    with pytest.raises(Locked, match="lost its lock"):
        ingest(patterns[0], store.url, **options)
    found = Corpus(store.url)
    assert found.hash == expected.hash
    assert words_of(found) == words_of(expected)
    # The next ingest removes what the paused one wrote after it had lost its lock.
    ingest(theirs, store.url, **options)
    assert store.names() == [found.content.path.rpartition("/")[2], "corpus.json", "ingest.lock"]


def test_a_corpus_without_a_folder_of_content_is_read_and_replaced(tmp_path):
    pattern, url = write_source(tmp_path / "source"), str(tmp_path / "corpus")
    corpus = ingest(pattern, url, min_df=2)
    for path in Path(corpus.content.path).iterdir():
        path.rename(Path(url, path.name))
    Path(corpus.content.path).rmdir()
    meta = json.loads(Path(url, "corpus.json").read_text())
    Path(url, "corpus.json").write_text(json.dumps({name: meta[name] for name in meta if name != "content"}))
    assert words_of(Corpus(url)) == words_of(ingest(pattern, str(tmp_path / "fresh"), min_df=2))
    replaced = ingest(pattern, url, overwrite=True)
    names = sorted(path.name for path in Path(url).iterdir())
    assert names == sorted([Path(replaced.content.path).name, "corpus.json", "ingest.lock"])


def test_two_ingests_at_once_are_refused(tmp_path):
    pattern, url = write_source(tmp_path / "source"), str(tmp_path / "corpus")
    refused = []

    def again(progress):
        if progress.stage == "ids" and not refused:
            with pytest.raises(Locked, match="another process is ingesting") as error:
                ingest(pattern, url)
            refused.append(error)

    ingest(pattern, url, progress=again)
    assert refused


def test_a_source_can_be_ingested_after_its_error_is_repaired(tmp_path):
    source, url = tmp_path / "source", str(tmp_path / "corpus")
    pattern = write_source(source)
    good = (source / "1.txt").read_bytes()
    (source / "1.txt").write_bytes(b"ab\xff\n" + good)
    with pytest.raises(DataError, match=r"1\.txt, line 1: invalid UTF-8"):
        ingest(pattern, url)
    with pytest.raises(DataError, match="no corpus here"):
        Corpus(url)
    (source / "1.txt").write_bytes(good)
    assert words_of(ingest(pattern, url)) == source_words(pattern)


def test_an_object_store(tmp_path):
    pattern = write_source(tmp_path / "source")
    here = ingest(pattern, str(tmp_path / "corpus"), chunk_tokens=5_000)
    there = ingest(pattern, "memory://bucket/corpus", chunk_tokens=5_000)
    assert there.hash == here.hash
    assert words_of(there) == words_of(here)
    assert not there.store.exists(".work")


# --- memory ---


def peak_memory():
    """Return the most bytes of memory that this process has held."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) << 10


def write_packed(folder, size):
    """Write compressed lines of ``size`` bytes in total. Most are one very long stop word, which is quick to read."""
    rng = np.random.default_rng(0)
    stop = "the" * 100
    words = np.array([stop] * 19 + [f"w{n:03d}" for n in range(999)])
    odds = np.r_[np.full(19, 1 / 20), np.full(999, 1 / 20 / 999)]
    lines = [" ".join(rng.choice(words, 100, p=odds / odds.sum())) for _ in range(100)]
    block = ("\n".join(lines) + "\n").encode()
    packed = gzip.compress(block)
    for f in range(4):
        (folder / f"{f}.txt.gz").write_bytes(packed * (size // len(block) // 4 + 1))
    return str(folder / "*.gz"), stop


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_memory_stays_below_the_limit_for_a_source_three_times_larger(tmp_path):
    limit = 480 << 20  # Python, its libraries and compiled code take half of it
    pattern, stop = write_packed(tmp_path, 3 * limit)
    options = {"stop_words": (stop,), "chunk_tokens": 200_000}
    with open_cluster("local", n_workers=2, memory_limit=limit) as client:
        before = set(client.run(os.getpid).values())
        corpus = ingest(pattern, str(tmp_path / "corpus"), **options, client=client)
        peaks = client.run(peak_memory).values()
        assert set(client.run(os.getpid).values()) == before
    assert corpus.meta["about"]["tokens_read"] > 3_000_000
    assert len(corpus.chunks) > 1
    assert max(peaks) < limit
