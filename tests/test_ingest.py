"""A corpus is its source's, whatever the workers, interruptions and cuts; what cannot be is refused in one sentence."""

import gc
import gzip
import itertools
import json
import multiprocessing
import os
import re
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from corpusmill.io import formats
from corpusmill.io import vocabulary as voc
from corpusmill.io.corpus import Corpus
from corpusmill.io.exclusive import Locked
from corpusmill.io.readers import Lines
from corpusmill.io.store import DataError
from corpusmill.pipeline.clusters import open_cluster
from corpusmill.pipeline.ingest import (
    BALANCED,
    LEAST_TOKENS,
    MOST_TOKENS,
    TOKEN_BYTES,
    Cutter,
    IngestOptions,
    corpus_from,
    default_chunk_tokens,
    ingest,
)
from corpusmill.pipeline.ingest_tasks import is_held_out
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="class")
def alone(tmp_path_factory):
    """A corpus made in this process, before there is a cluster."""
    folder = tmp_path_factory.mktemp("alone")
    options = IngestOptions(chunk_tokens=2_000, held_out=0.1)
    return (
        write_source(folder / "source"),
        options,
        ingest(str(folder / "source" / "*.txt"), str(folder / "c"), options),
    )


@pytest.fixture(scope="class")
def cluster(alone):
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local, Client(local) as client:
        yield client


def write_source(folder, files=3, lines=400, seed=0):
    """Write files of random lines, some empty, and return the folder's pattern."""
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    for f in range(files):
        lengths = rng.integers(0, 30, lines)
        rows = [" ".join(f"w{n:03d}" for n in np.minimum(rng.geometric(0.02, k), 400)) for k in lengths]
        (folder / f"{f}.txt").write_text("\n".join(rows) + "\n")
    return str(folder / "*.txt")


def words_of(corpus):
    """Return each document's words, read back from the chunks."""
    names = np.array(corpus.vocabulary["word"].to_pylist())
    found = []
    for c, info in enumerate(corpus.chunks):
        chunk = corpus.read_chunk(c)
        assert (chunk.n_documents, chunk.n_tokens) == (info.documents, info.tokens)
        found += [names[chunk.words[a:b]].tolist() for a, b in zip(chunk.doc_ptr[:-1], chunk.doc_ptr[1:], strict=True)]
    return found


def source_words(pattern):
    files = sorted(Path(pattern).parent.glob(Path(pattern).name))
    return [line.split() for f in files for line in f.read_text().splitlines()]


def bits(corpus):
    """Return every byte that a corpus consists of, save where it is."""
    root = Path(corpus.url)
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file() and p.name != "ingest.lock"
    }


# --- what a corpus holds ---


def test_documents_come_back_in_the_order_of_the_source(tmp_path):
    pattern = write_source(tmp_path / "source")
    corpus = ingest(pattern, str(tmp_path / "corpus"), IngestOptions(chunk_tokens=2_000))
    assert words_of(corpus) == source_words(pattern)
    assert len(corpus.chunks) >= 8
    assert max(c.tokens for c in corpus.chunks) <= 2_000
    assert corpus.is_ordered
    documents = corpus.documents.to_pylist()
    assert [d["key"] for d in documents[:2]] == ["0.txt:1", "0.txt:2"]
    assert [d["key"] for d in documents[-1:]] == ["2.txt:400"]
    rows = [(c, r) for c, info in enumerate(corpus.chunks) for r in range(info.documents)]
    assert [(d["chunk"], d["row"]) for d in documents] == rows
    assert corpus.chunks[3].first_document == rows.index((3, 0))
    assert not (tmp_path / "corpus" / ".work").exists()


def test_ids_are_ranks_by_falling_frequency_ties_by_word():
    corpus = corpus_from(["bb aa cc", "cc dd cc", "éé zz"])
    table = corpus.vocabulary.to_pydict()
    assert table["word"] == ["cc", "aa", "bb", "dd", "zz", "éé"]
    assert table["term_frequency"] == [3, 1, 1, 1, 1, 1]
    assert table["document_frequency"] == [2, 1, 1, 1, 1, 1]


OPTIONS = [
    {},
    {"min_df": 3},
    {"min_df": 0.01, "max_df": 0.2},
    {"max_df": 50},
    {"stop_words": "english", "max_features": 100},
    {"stop_words": ["the", "of"], "lowercase": False, "token_pattern": "[a-zA-Z]+"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_counts_are_those_of_count_vectorizer(real_data, options):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    with real_data("20news-bydate.jsonl").open() as lines:
        documents = [json.loads(line)["text"] for line, _ in zip(lines, range(300), strict=False)]
    vectorizer = text.CountVectorizer(**options)
    expected = vectorizer.fit_transform(documents)
    names = vectorizer.get_feature_names_out()
    corpus = corpus_from(documents, **options)
    words = corpus.vocabulary["word"].to_pylist()
    if "max_features" in options:
        # Which of several equally frequent words is cut off is anyone's choice.
        common = sorted(set(words) & set(names))
        assert len(words) == len(names)
        assert len(common) > 90
        expected = expected[:, np.searchsorted(names, common)]
        order = [words.index(w) for w in common]
    else:
        assert sorted(words) == names.tolist()
        order = [words.index(w) for w in names]
    found = scipy.sparse.vstack([corpus.read_chunk(c).counts(corpus.n_words) for c in range(len(corpus.chunks))])
    assert (found[:, order] != expected).nnz == 0
    table = corpus.vocabulary.take(order)
    assert table["term_frequency"].to_pylist() == expected.sum(axis=0).A1.tolist()
    assert table["document_frequency"].to_pylist() == np.diff(expected.tocsc().indptr).tolist()


def test_a_matrix_comes_back(real_data):
    matrix = scipy.sparse.load_npz(real_data("nips_bow_1740x12419.npz")).tocsr()
    corpus = corpus_from(matrix)
    assert not corpus.is_ordered
    found = scipy.sparse.vstack([corpus.read_chunk(c).counts(corpus.n_words) for c in range(len(corpus.chunks))])
    columns = [int(w) for w in corpus.vocabulary["word"].to_pylist()]
    assert (found != matrix[:, columns].astype(np.int32)).nnz == 0
    assert len(columns) == np.count_nonzero(matrix.sum(axis=0))


def test_kos(real_data, tmp_path):
    options = IngestOptions(vocabulary_file=str(real_data("uci-kos/vocab.kos.txt")))
    corpus = ingest(real_data("uci-kos/docword.kos.txt"), str(tmp_path / "kos"), options)
    assert (corpus.n_documents, corpus.n_words, corpus.n_tokens) == (3430, 6906, 467_714)


def test_a_temporary_corpus_goes_with_its_object():
    corpus = corpus_from([["a", "b"], []], vocabulary=None)
    folder = Path(corpus.url)
    assert folder.exists()
    del corpus
    gc.collect()
    assert not folder.exists()


def test_names_of_columns():
    corpus = corpus_from(np.array([[0, 2], [1, 1]]), vocabulary=["cat", "dog"])
    assert corpus.vocabulary["word"].to_pylist() == ["dog", "cat"]
    with pytest.raises(DataError, match="2 columns, the vocabulary 3 words"):
        corpus_from(np.array([[0, 2], [1, 1]]), vocabulary=["cat", "dog", "elk"])


def test_a_given_vocabulary_keeps_its_ids_and_unseen_words_are_counted(tmp_path):
    given_words = pa.table({"word": ["never", "bb", "aa"]})
    corpus = corpus_from([["aa", "bb", "new"], ["new"], ["aa"]], vocabulary=given_words)
    assert [corpus.read_chunk(0).doc_ptr.tolist(), corpus.read_chunk(0).words.tolist()] == [[0, 2, 2, 3], [2, 1, 2]]
    assert corpus.vocabulary.to_pydict() == {
        "word": ["never", "bb", "aa"],
        "term_frequency": [0, 1, 2],
        "document_frequency": [0, 1, 2],
    }
    assert corpus.meta["about"]["tokens_skipped"] == 2


def test_a_vocabulary_grows_without_renumbering(tmp_path):
    (tmp_path / "a.txt").write_text("aa bb aa\nbb cc\n")
    first = ingest(str(tmp_path / "a.txt"), str(tmp_path / "first"))
    (tmp_path / "b.txt").write_text("new cc new\nnew dd aa\nrare dd\n")
    options = IngestOptions(min_df=2, max_df=0.7)
    second = ingest(str(tmp_path / "b.txt"), str(tmp_path / "second"), options, None, None, first.vocabulary, True)
    assert first.vocabulary["word"].to_pylist() == ["aa", "bb", "cc"]
    assert second.vocabulary.to_pydict() == {
        "word": ["aa", "bb", "cc", "new", "dd"],
        "term_frequency": [1, 0, 1, 3, 2],
        "document_frequency": [1, 0, 1, 2, 2],
    }
    assert words_of(second) == [["new", "cc", "new"], ["new", "dd", "aa"], ["dd"]]
    few = IngestOptions(min_df=5, max_df=0.7)
    same = ingest(str(tmp_path / "b.txt"), str(tmp_path / "same"), few, None, None, first.vocabulary, True)
    assert same.vocabulary["word"].to_pylist() == ["aa", "bb", "cc"]
    full = IngestOptions(max_features=4)
    third = ingest(str(tmp_path / "b.txt"), str(tmp_path / "third"), full, None, None, first.vocabulary, True)
    assert third.vocabulary["word"].to_pylist() == ["aa", "bb", "cc", "new"]


def test_documents_know_their_files(tmp_path):
    for folder in ("lines", "texts"):
        (tmp_path / folder).mkdir()
        for name in "ab":
            (tmp_path / folder / f"{name}.txt").write_text(f"{name}{name} word\nother\n")
    lines = ingest(str(tmp_path / "lines" / "*.txt"), str(tmp_path / "1"))
    assert [Path(f).name for f in lines.documents["file"].to_pylist()] == ["a.txt", "a.txt", "b.txt", "b.txt"]
    texts = ingest(str(tmp_path / "texts"), str(tmp_path / "2"))
    assert [Path(f).name for f in texts.documents["file"].to_pylist()] == ["a.txt", "b.txt"]


# --- held-out documents ---


def test_held_out_documents_are_chosen_by_their_keys_alone(tmp_path):
    pattern = write_source(tmp_path / "source")
    options = IngestOptions(held_out=0.25, chunk_tokens=3_000)
    corpus = ingest(pattern, str(tmp_path / "corpus"), options)
    chosen = corpus.held_out.documents["key"].to_pylist()
    assert 230 < len(chosen) < 370
    everything = corpus.documents["key"].to_pylist() + chosen
    assert sorted(everything) == sorted(f"{f}.txt:{i}" for f in range(3) for i in range(1, 401))
    by_key = dict(zip([f"{f}.txt:{i}" for f in range(3) for i in range(1, 401)], source_words(pattern), strict=True))
    known = set(corpus.vocabulary["word"].to_pylist())
    assert words_of(corpus) == [by_key[k] for k in corpus.documents["key"].to_pylist()]
    assert words_of(corpus.held_out) == [[w for w in by_key[k] if w in known] for k in chosen]
    assert sum(corpus.vocabulary["term_frequency"].to_pylist()) == corpus.n_tokens
    more = ingest(str(tmp_path / "source" / "[01].txt"), str(tmp_path / "fewer"), options)
    assert more.held_out.documents["key"].to_pylist() == [k for k in chosen if not k.startswith("2")]


@given(share=st.floats(0, 0.999), more=st.floats(0, 0.999))
@settings(max_examples=30, deadline=None)
def test_a_larger_share_holds_out_the_same_documents_and_more(share, more):
    keys = pa.array([f"d{i}" for i in range(300)])
    fewer, larger = is_held_out(keys, min(share, more)), is_held_out(keys, max(share, more))
    assert (larger | ~fewer).all()
    assert abs(larger.mean() - max(share, more)) < 0.15


# --- workers, interruptions, repetition ---


class TestOnACluster:
    def test_the_same_bits(self, tmp_path, alone, cluster):
        pattern, options, here = alone
        there = ingest(pattern, str(tmp_path / "there"), options, client=cluster)
        assert here.hash == there.hash
        assert bits(here) == bits(there)
        assert cluster.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0

    def test_data_in_memory(self, tmp_path, cluster):
        corpus = ingest((d for d in [["a", "b"], ["b"]]), str(tmp_path / "corpus"), client=cluster)
        assert words_of(corpus) == [["a", "b"], ["b"]]

    def test_an_error_on_a_worker_names_the_file(self, tmp_path, cluster):
        (tmp_path / "x.jsonl").write_text("{}")
        with pytest.raises(DataError, match=r"x\.jsonl, line 1: no text"):
            ingest(tmp_path / "x.jsonl", str(tmp_path / "corpus"), client=cluster)


class Tracked(Lines):
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
    """Breaks an ingest off."""


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
    ingest(pattern, url, IngestOptions(chunk_tokens=2_000), progress=_die_at(stage))


def test_an_interrupted_ingest_goes_on_where_it_stopped(tmp_path, monkeypatch):
    pattern, url, options = (
        write_source(tmp_path / "source"),
        str(tmp_path / "corpus"),
        IngestOptions(chunk_tokens=2_000),
    )
    expected = bits(ingest(pattern, str(tmp_path / "whole"), options))
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
                ingest(pattern, url, options, progress=_stop_at(stopped_at))
    told = []
    found = bits(ingest(pattern, url, options, progress=told.append))
    assert next(t.done for t in told if t.stage == "chunks") == 2
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
    told = []
    ingest(pattern, url, progress=told.append)
    assert [t.stage for t in told] == ["unchanged"]
    assert {p: p.stat().st_mtime_ns for p in Path(url).rglob("*") if p.is_file()} == before


def test_progress_is_told(tmp_path):
    told = []
    ingest(write_source(tmp_path / "source"), str(tmp_path / "corpus"), progress=told.append)
    assert [(t.done, t.total) for t in told if t.stage == "tokens"] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert list(dict.fromkeys(t.stage for t in told)) == ["tokens", "words", "ids", "chunks", "finished"]


def test_another_corpus_is_refused_or_overwritten(tmp_path):
    pattern, url = write_source(tmp_path / "source"), str(tmp_path / "corpus")
    ingest(pattern, url, IngestOptions(chunk_tokens=1_000))
    with pytest.raises(DataError, match=r"other options \(min_df\).*--overwrite"):
        ingest(pattern, url, IngestOptions(chunk_tokens=1_000, min_df=3))
    with pytest.raises(DataError, match=r"another source.*--overwrite"):
        ingest(str(tmp_path / "source" / "1.txt"), url, IngestOptions(chunk_tokens=1_000))
    with pytest.raises(DataError, match=r"another source.*--overwrite"):
        ingest([["in"], ["memory"]], url)
    replaced = ingest(pattern, url, IngestOptions(min_df=3, overwrite=True))
    assert bits(replaced) == bits(ingest(pattern, str(tmp_path / "fresh"), IngestOptions(min_df=3)))


def test_a_changed_file_is_another_source(tmp_path):
    pattern, url = write_source(tmp_path / "source"), str(tmp_path / "corpus")
    ingest(pattern, url)
    with (tmp_path / "source" / "1.txt").open("a") as file:
        file.write("more\n")
    with pytest.raises(DataError, match="files that changed"):
        ingest(pattern, url)


def test_work_of_an_ingest_begun_otherwise_is_not_taken(tmp_path):
    pattern, url = write_source(tmp_path / "source"), str(tmp_path / "corpus")
    with pytest.raises(Stop):
        ingest(pattern, url, IngestOptions(chunk_tokens=2_000), progress=_stop_at("chunks"))
    corpus = ingest(pattern, url, IngestOptions(chunk_tokens=5_000))
    assert bits(corpus) == bits(ingest(pattern, str(tmp_path / "fresh"), IngestOptions(chunk_tokens=5_000)))


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


def test_an_error_leaves_no_corpus_and_the_way_is_free_once_it_is_mended(tmp_path):
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
    here = ingest(pattern, str(tmp_path / "corpus"), IngestOptions(chunk_tokens=5_000))
    there = ingest(pattern, "memory://bucket/corpus", IngestOptions(chunk_tokens=5_000))
    assert there.hash == here.hash
    assert words_of(there) == words_of(here)
    assert not there.store.exists(".work")


# --- memory ---


def peak_memory():
    """Return the most bytes of memory that this process has held."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) << 10


def write_packed(folder, size):
    """Write packed lines of ``size`` bytes in all: mostly one very long stop word, which is quick to read."""
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


@pytest.mark.timeout(900)
def test_memory_stays_below_the_limit_for_a_source_ten_times_larger(tmp_path):
    limit = 240 << 20
    pattern, stop = write_packed(tmp_path, 10 * limit)
    options = IngestOptions(stop_words=(stop,), chunk_tokens=200_000)
    with open_cluster("local", n_workers=2, memory_limit=limit) as client:
        before = set(client.run(os.getpid).values())
        corpus = ingest(pattern, str(tmp_path / "corpus"), options, client=client)
        peaks = client.run(peak_memory).values()
        assert set(client.run(os.getpid).values()) == before
    assert corpus.meta["about"]["tokens_read"] > 7_000_000
    assert len(corpus.chunks) > 1
    assert max(peaks) < limit


# --- chunks ---


def test_a_document_longer_than_a_chunk_grows_it(tmp_path):
    documents = [["a"] * 30, ["b"] * 500, ["c"] * 30, ["d"] * 30]
    corpus = corpus_from(documents, chunk_tokens=100)
    assert [c.tokens for c in corpus.chunks] == [30, 500, 60]
    assert "500 tokens, more than a chunk's 100" in corpus.meta["about"]["note"]
    assert words_of(corpus) == documents


def test_nothing_is_cut_off_at_ten_thousand_tokens():
    words = [f"w{i % 99}" for i in range(50_000)]
    corpus = corpus_from([words, ["w1"]])
    assert words_of(corpus)[0] == words


@given(pieces=st.lists(st.lists(st.integers(0, 50), max_size=20), max_size=5), size=st.integers(1, 120))
def test_chunks_hold_whole_documents_in_order(pieces, size):
    cutter = Cutter(size)
    for number, lengths in enumerate(pieces):
        cutter.add(0, number, np.array(lengths, np.int64))
    runs = [run for chunk in cutter.chunks for run in chunk]
    documents = [(run.piece, d) for run in runs for d in range(run.first, run.last)]
    assert documents == [(n, d) for n, lengths in enumerate(pieces) for d in range(len(lengths))]
    held = [[length for r in chunk for length in pieces[r.piece][r.first : r.last]] for chunk in cutter.chunks]
    assert all(sum(chunk) <= max(size, max(chunk)) for chunk in held)
    assert all(sum(left) + right[0] > size for left, right in itertools.pairwise(held))


@given(tokens=st.integers(0, 10**11), longest=st.integers(0, 10**4), memory=st.integers(0, 1 << 36))
def test_default_chunks_fit_the_memory_and_are_even(tokens, longest, memory):
    size = default_chunk_tokens(tokens, longest, memory)
    limit = max(1 << 16, memory // TOKEN_BYTES) if memory else MOST_TOKENS
    assert 1 <= size <= min(limit, MOST_TOKENS) * 9 // 8 + 1
    chunks = -(-tokens // size)
    if limit >= LEAST_TOKENS:
        assert chunks <= max(BALANCED, -(-tokens // min(limit, MOST_TOKENS)))
    if tokens >= BALANCED * LEAST_TOKENS:
        assert chunks >= BALANCED * 8 // 9


def test_the_default_is_stated(tmp_path):
    corpus = corpus_from([["a", "b"], ["c"]])
    assert corpus.meta["about"]["chunk_tokens_by"] == "default"
    assert corpus.meta["about"]["chunk_tokens"] >= 3
    assert (
        corpus_from([["a"]], chunk_tokens=7).meta["about"] | {"chunk_tokens": 7, "chunk_tokens_by": "option"}
        == (corpus_from([["a"]], chunk_tokens=7).meta["about"])
    )


# --- words ---


@given(words=st.lists(st.text(max_size=6), min_size=1, max_size=60, unique=True), buckets=st.integers(2, 7))
@settings(max_examples=40, deadline=None)
def test_a_word_has_the_same_bucket_everywhere(words, buckets):
    together = voc.bucket_of(pa.array(words, pa.large_string()), buckets)
    alone = [int(voc.bucket_of(pa.array([w], pa.large_string()), buckets)[0]) for w in words]
    sliced = voc.bucket_of(pa.array(["x", *words], pa.large_string()).slice(1), buckets)
    assert together.tolist() == alone == sliced.tolist()
    assert together.max() < buckets


def test_buckets_are_even():
    sizes = np.bincount(voc.bucket_of(pa.array([f"w{i}" for i in range(70_000)], pa.large_string()), 7))
    assert sizes.min() > 9_000


@given(
    tables=st.lists(st.dictionaries(st.text("abc", max_size=3), st.integers(1, 9), max_size=20), max_size=8),
    bound=st.integers(1, 500),
)
@settings(max_examples=40, deadline=None)
def test_counts_add_up_within_any_bound(tables, bound):
    total = {}
    for table in tables:
        for word, count in table.items():
            total[word] = total.get(word, 0) + count
    columns = [(list(t), np.array(list(t.values()), np.int64)) for t in tables]
    arrow = [voc.count_table(pa.array(w, pa.large_string()), n, n) for w, n in columns]
    merged = voc.merge_counts(iter(arrow), bound).to_pydict()
    assert dict(zip(merged["word"], merged["term_frequency"], strict=True)) == total
    assert merged["document_frequency"] == merged["term_frequency"]


def test_a_vocabulary_too_large_for_ids_is_refused():
    voc.check_size(1 << 32)
    with pytest.raises(DataError, match="4,294,967,297 words are more than the 4,294,967,296 ids"):
        voc.check_size((1 << 32) + 1)


# --- what cannot be ---


@pytest.mark.parametrize(
    "name, content, options, match",
    [
        ("x.txt", "", {}, r"x\.txt: there is no document in it"),
        ("x.jsonl", "", {}, r"x\.jsonl: there is no document in it"),
        ("x.txt", "a b\n\n", {}, r"x\.txt: none of 2 documents has a word"),
        ("x.txt", "one two\nthree\n", {"min_df": 2}, r"x\.txt: no word of 3 tokens is left; lower min_df"),
        ("x.txt", "the of\n", {"stop_words": "english"}, r"x\.txt: no word of 2 tokens is left"),
    ],
)
def test_nothing_is_left(tmp_path, name, content, options, match):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=match):
        ingest(tmp_path / name, str(tmp_path / "corpus"), IngestOptions(**options))
    assert not (tmp_path / "corpus" / "corpus.json").exists()


def test_one_word(tmp_path):
    (tmp_path / "x.txt").write_text("word\n")
    corpus = ingest(tmp_path / "x.txt", str(tmp_path / "corpus"))
    assert (corpus.n_words, corpus.n_documents, corpus.n_tokens) == (1, 1, 1)
    assert corpus.read_chunk(0).word_ids.tolist() == [0]


def test_empty_documents_alone_make_a_corpus_in_memory():
    corpus = corpus_from([[], []])
    assert (corpus.n_words, corpus.n_documents, corpus.n_tokens) == (0, 2, 0)


@pytest.mark.parametrize(
    "options, match",
    [
        ({"held_out": 1.0}, "held_out=1.0 must be"),
        ({"chunk_tokens": 0}, "chunk_tokens=0 must be"),
        ({"stop_words": "german"}, "stop_words 'german' is not known"),
        ({"min_df": 5, "max_df": 2}, "max_df=2 means fewer documents than min_df=5"),
        ({"token_pattern": "("}, "no regular expression"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        corpus_from(["one two", "three"], **options)
