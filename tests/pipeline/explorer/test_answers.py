"""What the explorer answers about topics and documents, compared with the model itself."""

import json
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpusmill import LDA, NMF, Corpus, RandomIndexing, ingest
from corpusmill.io.errors import DataError
from corpusmill.pipeline.commands.actions.explore import open_page
from corpusmill.pipeline.explorer import table
from corpusmill.pipeline.explorer.documents import DocumentTable
from corpusmill.pipeline.explorer.layout import fit_into_square, map_points, reduce_dimensions, spread_circles
from corpusmill.pipeline.explorer.model import ExploredModel, _distributions_of_lda, _distributions_of_nmf
from corpusmill.pipeline.explorer.open import open_explorer, standalone_page
from corpusmill.pipeline.models.base.saved import TrainedModel
from corpusmill.pipeline.models.lda import word_topics
from corpusmill.pipeline.models.nmf import factorization

SEA = "Ship sea sailor harbour wave storm anchor"
BREAD = "Bread oven flour baker dough crust yeast"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A source of two subjects, its corpus in several chunks, and an LDA model."""
    folder = tmp_path_factory.mktemp("answers")
    texts = [((SEA, BREAD)[number % 2] + ". ") * (1 + number % 5) for number in range(1200)]
    lines = [json.dumps({"id": f"d{number}", "text": text}) for number, text in enumerate(texts)]
    (folder / "texts.jsonl").write_text("\n".join(lines))
    ingest(str(folder / "texts.jsonl"), str(folder / "corpus"), key="id", chunk_tokens=9000)
    corpus = Corpus(str(folder / "corpus"))
    assert len(corpus.chunks) > 2
    LDA(3, max_iter=20, random_state=1, doc_topic_prior=0.1).fit(corpus).save(str(folder / "lda"))
    return folder


def large_model(kind):
    """Return a model of 10 or 12 MB without a zero."""
    rng = np.random.default_rng(0)
    V, K = 40_000, 50
    words = pa.table({"word": [f"w{v}" for v in range(V)], "term_frequency": np.ones(V, np.int64)})
    if kind == "nmf":
        W = rng.random((V, 2 * K), np.float32)[:, :K].copy()
        model, blocks, shared = NMF(K), {"W": W}, {"Q": np.eye(K), "S": W.T @ W}
    else:
        counts = rng.integers(1, 100, V * K, np.int32)
        topics = np.tile(np.arange(K, dtype=np.uint16), V)
        totals = counts.reshape(V, K).sum(axis=0)
        model, blocks = LDA(K), {"row_ptr": K * np.arange(V + 1), "topics": topics, "counts": counts}
        shared = {"totals": totals, "alpha": np.ones(K), "beta": np.float64(0.1), "seeded": np.zeros(K)}
    model.model_ = TrainedModel([blocks], shared, words, {})
    return model


@pytest.mark.parametrize("kind", ["nmf", "lda"])
def test_the_table_of_a_model_takes_much_less_memory_than_the_model(kind, monkeypatch):
    model = large_model(kind)
    monkeypatch.setattr(table, "TABLE_WORDS", 20)
    monkeypatch.setattr(factorization, "PART_BYTES", 1 << 18)
    monkeypatch.setattr(word_topics, "LISTED_ENTRIES", 1 << 14)
    distributions = {"nmf": _distributions_of_nmf, "lda": _distributions_of_lda}[kind]
    tracemalloc.start()
    found = table.build_table(distributions(model))
    list(model.topics(100))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6e6
    dense = model.components_ if kind == "nmf" else model.model_.blocks[0]["counts"].reshape(-1, 50).T
    for topic in range(50):
        ids = found.words[found.word_ptr[topic] : found.word_ptr[topic + 1]]
        np.testing.assert_array_equal(ids, np.argsort(-dense[topic], kind="stable")[: len(ids)])
        assert len(ids) == 20


def finished(explorer):
    """Return an explorer that has looked at its documents."""
    explorer.scan.start()
    explorer.scan.wait()
    assert explorer.scan.failure == ""
    return explorer


def test_words_and_their_topics_are_those_of_the_model(folder):
    explorer = open_explorer(str(folder / "lda"))
    model = LDA.load(str(folder / "lda"))
    phi = model.components_ / model.components_.sum(axis=1, keepdims=True)
    for topic in model.topics(10):
        shown = explorer.answer_topic(topic["topic"])
        assert shown["words"][0] == topic["words"][0]["word"]
        # Only words with at least one token are listed.
        assert shown["probability"] == pytest.approx(phi[topic["topic"], shown["ids"]], abs=1e-6)
        assert shown["size"] == pytest.approx(topic["size"])
    word = model.words_.index("harbour")
    joint = phi[:, word] * model.topic_sizes_
    found = {entry["topic"]: entry["share"] for entry in explorer.answer_word(word)["topics"]}
    assert found == pytest.approx({k: p for k, p in enumerate(joint / joint.sum()) if p > 1e-4}, abs=1e-5)


def test_documents_are_ranked_by_their_share_of_a_topic_and_show_their_text(folder):
    explorer = finished(open_explorer(str(folder / "lda")))
    weights = LDA.load(str(folder / "lda")).transform(Corpus(str(folder / "corpus")))
    largest = int(weights.sum(axis=0).argmax())
    listed = explorer.answer_documents(largest)
    assert listed["seen"] == 1200
    for entry in listed["documents"]:
        assert entry["share"] == pytest.approx(weights[entry["document"], largest], abs=1e-4)
        assert entry["key"] == f"d{entry['document']}"
    for number in (0, 651, 1199):
        shown = explorer.answer_document(number)
        text = "".join(segment[0] for segment in shown["segments"])
        assert shown["is_text"]
        assert text == ((SEA, BREAD)[number % 2] + ". ") * (1 + number % 5)
        shares = {entry["topic"]: entry["share"] for entry in shown["topics"]}
        assert shares == pytest.approx({k: w for k, w in enumerate(weights[number]) if w >= 0.01}, abs=1e-4)
        # Both subjects have words of their own, so each word belongs to the document's main topic.
        topics = {segment[1] for segment in shown["segments"]} - {-1}
        assert topics <= set(shares)


def test_a_sample_of_documents_and_a_source_that_is_gone_are_no_error(folder, tmp_path):
    explorer = finished(open_explorer(str(folder / "lda"), limit=600))
    assert 600 <= explorer.answer_documents(0)["seen"] <= 1100
    (folder / "texts.jsonl").rename(tmp_path / "moved.jsonl")
    try:
        shown = open_explorer(str(folder / "lda")).answer_document(3)
    finally:
        (tmp_path / "moved.jsonl").rename(folder / "texts.jsonl")
    assert not shown["is_text"]
    assert "".join(segment[0] for segment in shown["segments"]).split() == BREAD.lower().split() * 4


def test_nmf_and_matrices_without_words_have_a_page(tmp_path):
    counts = np.random.default_rng(0).poisson(1, (40, 9))
    NMF(3, max_iter=5).fit(counts).save(str(tmp_path / "nmf"))
    explorer = open_explorer(str(tmp_path / "nmf"))
    assert explorer.answer_model()["documents"] == 0
    assert explorer.answer_topic(0)["words"]
    page = standalone_page(explorer)
    assert "{{" not in page
    assert len(page) < 1_000_000


def test_search_finds_words_topics_and_documents(folder):
    explorer = open_explorer(str(folder / "lda"))
    found = explorer.answer_search("SA")
    assert [entry["word"] for entry in found["words"]] == ["sailor"]
    assert explorer.answer_search("2")["topics"] == [2]
    assert explorer.answer_search("d1199")["documents"] == [{"document": 1199, "key": "d1199"}]
    assert explorer.answer_search(" ") == {"words": [], "topics": [], "documents": []}


def test_names_stay_with_a_model_that_is_trained_further_and_not_with_a_new_one(folder, tmp_path):
    explorer = open_explorer(str(folder / "lda"))
    explorer.store_name(1, "Second\tone")
    try:
        model = LDA.load(str(folder / "lda"))
        model.partial_fit(Corpus(str(folder / "corpus"))).save(str(tmp_path / "next"))
        assert LDA.load(str(tmp_path / "next")).topics()[1]["name"] == "Second one"
        LDA(3, max_iter=1).fit(Corpus(str(folder / "corpus"))).save(str(tmp_path / "next"))
        assert "name" not in LDA.load(str(tmp_path / "next")).topics()[1]
        assert json.loads(Path(tmp_path / "next" / "names.json").read_text())["names"] == {"1": "Second one"}
    finally:
        explorer.store_name(1, "")
    assert "name" not in LDA.load(str(folder / "lda")).topics()[1]


def test_random_indexing_has_a_map_of_words(folder):
    RandomIndexing(vector_size=64).fit(Corpus(str(folder / "corpus"))).save(str(folder / "ri"))
    explorer = open_explorer(str(folder / "ri"))
    model = explorer.answer_model()
    assert sorted(model["labels"]) == sorted((SEA + " " + BREAD).lower().split())
    assert explorer.answer_neighbours(model["ids"][0])["near"]
    assert len(standalone_page(explorer)) < 1_000_000


def test_labels_that_would_not_be_shown_are_refused(folder, tmp_path):
    RandomIndexing(vector_size=64).fit(Corpus(str(folder / "corpus"))).save(str(tmp_path / "ri"))
    model = open_explorer(str(tmp_path / "ri"), labels={"ship": "sea", "elsewhere": "x"}).answer_model()
    assert set(model["groups"]) == {"sea", "no label"}
    with pytest.raises(DataError, match=r"none of its .* words has one of the 1 labels"):
        open_explorer(str(tmp_path / "ri"), labels={"elsewhere": "x"})
    with pytest.raises(ValueError, match="--labels applies to words or nodes on a map"):
        open_explorer(str(folder / "lda"), labels={"ship": "sea"})


def test_columns_of_metadata_give_the_mean_share_of_a_topic_by_group(folder, tmp_path):
    shutil.copytree(folder / "corpus", tmp_path / "corpus")
    path = Path(Corpus(str(tmp_path / "corpus")).content.path, "documents-train.parquet")
    table = pq.read_table(path)
    years = [2000 + number % 4 for number in range(table.num_rows)]
    pq.write_table(table.append_column("year", pa.array(years)), path)
    explorer = finished(open_explorer(str(folder / "lda"), str(tmp_path / "corpus")))
    assert explorer.answer_model()["columns"] == ["year"]
    weights = LDA.load(str(folder / "lda")).transform(Corpus(str(folder / "corpus")))
    groups = {group["name"]: group for group in explorer.answer_groups(1, "year")["groups"]}
    assert sorted(groups) == ["2000", "2001", "2002", "2003"]
    for year in range(4):
        shares = weights[year::4, 1]
        group = groups[str(2000 + year)]
        assert group["mean"] == pytest.approx(shares.mean(), abs=1e-5)
        assert group["error"] == pytest.approx(shares.std() / (len(shares) - 1) ** 0.5, abs=1e-5)
    assert explorer.answer_document(2)["metadata"] == {"year": "2002"}
    with pytest.raises(DataError, match="no column 'file'"):
        explorer.answer_groups(1, "file")


def test_two_models_are_compared(folder, tmp_path):
    LDA(3, max_iter=2, random_state=7).fit(Corpus(str(folder / "corpus"))).save(str(tmp_path / "other"))
    explorer = open_page(str(folder / "lda"), compare=str(tmp_path / "other"))
    found = explorer.answer_comparison()
    assert {change["topic"] for change in found["topics"]} == {0, 1, 2}
    assert json.loads(json.dumps(found)) == found
    with pytest.raises(DataError, match="start with --compare"):
        open_explorer(str(folder / "lda")).answer_comparison()


# --- the map ---


def test_a_cache_that_cannot_be_used_is_no_error(folder, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert open_explorer(str(folder / "lda")).n_topics == 3


def test_threads_that_ask_for_documents_of_one_group_read_it_once(folder, monkeypatch):
    table = DocumentTable(Corpus(str(folder / "corpus")))
    read = []

    def read_row_group(file, index, *arguments, **options):
        read.append(index)
        return original(file, index, *arguments, **options)

    original = pq.ParquetFile.read_row_group
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", read_row_group)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(table.row, range(len(table))))
    assert sorted(read) == list(range(table.n_groups))


@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_a_damaged_table_of_documents_is_named(folder, tmp_path, damage):
    shutil.copytree(folder / "corpus", tmp_path / "corpus")
    (path,) = tmp_path.rglob("documents-train.parquet")
    content = bytearray(path.read_bytes())
    content[40] ^= 255
    if damage == "changed":
        path.write_bytes(content)
    elif damage == "cut":
        path.write_bytes(content[:60])
    table = DocumentTable(Corpus(str(tmp_path / "corpus")))
    if damage == "missing":
        path.unlink()
    with pytest.raises(DataError, match=r"documents-train\.parquet: (missing|damaged \(.*\)); restore it or write"):
        table.row(0)


def test_a_map_keeps_groups_together_and_is_the_same_in_every_call():
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(4), 30)
    features = rng.normal(size=(4, 20))[groups] * 3 + rng.normal(size=(120, 20)) * 0.3
    points = map_points(features, np.ones(120))
    np.testing.assert_array_equal(points, map_points(features, np.ones(120)))
    assert points.min() >= 0
    assert points.max() <= 1
    centres = np.array([points[groups == group].mean(axis=0) for group in range(4)])
    nearest = np.linalg.norm(points[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == groups).all()
    reduced = reduce_dimensions(features, 5)
    distances = np.linalg.norm(features[0] - features[1:], axis=1)
    assert np.corrcoef(distances, np.linalg.norm(reduced[0] - reduced[1:], axis=1))[0, 1] > 0.95


def test_circles_are_moved_apart():
    radii = np.array([0.1, 0.2, 0.05])
    moved = spread_circles(np.full((3, 2), 0.5), radii)
    for a in range(3):
        for b in range(a):
            assert np.linalg.norm(moved[a] - moved[b]) >= 0.99 * (radii[a] + radii[b])
    assert fit_into_square(np.zeros((1, 2))).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("place, title", [("demo/run", "demo"), ("runs/news", "news"), ("news/model/", "news")])
def test_the_title_is_the_part_of_the_path_that_says_something(folder, tmp_path, place, title):
    shutil.copytree(folder / "lda", tmp_path / place)
    assert ExploredModel(str(tmp_path / place)).title == title
