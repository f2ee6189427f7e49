"""Word vectors: comparisons as gensim makes them, and formats that gensim and others read."""

import json
import struct

import numpy as np
import pytest
from corpusmill.io.stores.store import DataError
from corpusmill.pipeline.models.base import vectors as module
from corpusmill.pipeline.models.base.similarity import top_indices
from corpusmill.pipeline.models.base.vectors import WordVectors
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

WORDS = ["king", "queen", "man", "woman", "ärger", "naïve", "日本", "x" * 40]
ENDINGS = (".txt", ".bin", ".safetensors", ".parquet", ".zarr")


@pytest.fixture
def wv():
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 12)).astype(np.float32)
    return WordVectors(WORDS, vectors)


@pytest.fixture
def in_gensim(wv):
    gensim = pytest.importorskip("gensim.models")
    keyed = gensim.KeyedVectors(12)
    keyed.add_vectors(WORDS, wv.vectors)
    return keyed


def test_looks_up_words(wv):
    np.testing.assert_array_equal(wv["queen"], wv.vectors[1])
    np.testing.assert_array_equal(wv[["man", "king"]], wv.vectors[[2, 0]])
    assert "king" in wv
    assert "King" not in wv
    assert wv.index_to_key[wv.key_to_index["日本"]] == "日本"
    assert (len(wv), wv.vector_size) == (8, 12)
    with pytest.raises(KeyError, match="'prince' is not among the 8 words"):
        wv["prince"]


def test_refuses_what_is_no_set_of_vectors():
    with pytest.raises(ValueError, match="2 words"):
        WordVectors(["a", "b"], np.zeros((3, 2)))
    with pytest.raises(ValueError, match="more than once"):
        WordVectors(["a", "a"], np.zeros((2, 2)))


@pytest.mark.parametrize(
    "positive, negative",
    [("king", []), (["king", "woman"], ["man"]), ([("king", 0.5), "日本"], "queen"), (["man"], ["ärger", "naïve"])],
)
@pytest.mark.parametrize("block", [1, 3, 100])
def test_most_similar_is_that_of_gensim(wv, in_gensim, monkeypatch, positive, negative, block):
    monkeypatch.setattr(module, "BLOCK", block)
    found = wv.most_similar(positive, negative, topn=4)
    expected = in_gensim.most_similar(positive, negative, topn=4)
    assert [w for w, _ in found] == [w for w, _ in expected]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], atol=1e-5)


def test_most_similar_to_a_vector(wv):
    assert wv.most_similar(wv["man"] * 3, topn=1)[0] == ("man", pytest.approx(1, abs=1e-6))
    assert {w for w, _ in wv.most_similar("king", restrict_vocab=3)} == {"queen", "man"}
    assert len(wv.most_similar("king", topn=100)) == 7
    with pytest.raises(ValueError, match="at least one"):
        wv.most_similar([])


def test_similarity_and_doesnt_match_are_those_of_gensim(wv, in_gensim):
    assert wv.similarity("king", "naïve") == pytest.approx(in_gensim.similarity("king", "naïve"), abs=1e-6)
    for words in (WORDS[:4], WORDS[2:7], [*WORDS[:3], "unknown"]):
        assert wv.doesnt_match(words) == in_gensim.doesnt_match([w for w in words if w in wv])
    with pytest.raises(ValueError, match="none of the 1 words"):
        wv.doesnt_match(["unknown"])


def test_a_vector_of_zeros_is_like_nothing():
    wv = WordVectors(["a", "b"], np.array([[0, 0], [1, 2]]))
    assert wv.similarity("a", "b") == 0
    assert wv.most_similar("b") == [("a", 0)]


@given(arrays(np.float32, st.integers(0, 30), elements=st.integers(-3, 3)), st.integers(0, 40))
def test_top_indices_are_a_stable_sort(scores, n):
    np.testing.assert_array_equal(top_indices(scores, n), np.argsort(-scores, kind="stable")[:n])


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_saved_is_loaded_to_the_bit(wv, tmp_path, ending):
    wv.vectors[0, :4] = [1e-38, -0.0, 3.4e38, 1 / 3]
    wv.save(f"{tmp_path}/v{ending}")
    back = WordVectors.load(f"{tmp_path}/v{ending}")
    assert back.index_to_key == WORDS
    np.testing.assert_array_equal(back.vectors.view(np.uint32), wv.vectors.view(np.uint32))
    assert [p.name for p in tmp_path.iterdir()] == [f"v{ending}"]


@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_and_writes_the_same_files(wv, in_gensim, tmp_path, binary):
    from gensim.models import KeyedVectors

    wv.save_word2vec_format(f"{tmp_path}/ours", binary=binary)
    theirs = KeyedVectors.load_word2vec_format(f"{tmp_path}/ours", binary=binary)
    assert theirs.index_to_key == WORDS
    np.testing.assert_array_equal(theirs.vectors, wv.vectors)
    in_gensim.save_word2vec_format(f"{tmp_path}/theirs", binary=binary)
    ours = WordVectors.load_word2vec_format(f"{tmp_path}/theirs", binary=binary)
    np.testing.assert_allclose(ours.vectors, wv.vectors, atol=1e-6)


def test_safetensors_is_laid_out_as_its_readers_expect(wv, tmp_path):
    wv.save_safetensors(f"{tmp_path}/v.safetensors")
    content = (tmp_path / "v.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    first, last = header["vectors"]["data_offsets"]
    assert size % 8 == 0
    assert (first, 8 + size + last) == (0, len(content))
    assert all(isinstance(v, str) for v in header["__metadata__"].values())
    body = np.frombuffer(content, "<f4", offset=8 + size).reshape(header["vectors"]["shape"])
    np.testing.assert_array_equal(body, wv.vectors)


@pytest.mark.parametrize("ending", [e for e in ENDINGS if e != ".zarr"])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.6])
def test_half_a_file_is_refused(wv, tmp_path, ending, share):
    path = tmp_path / f"v{ending}"
    wv.save(str(path))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=f"v{ending}"):
        WordVectors.load(str(path))


def test_words_that_a_format_cannot_hold(tmp_path):
    for word in ("New York", "", "a\n"):
        wv = WordVectors(["b", word], np.ones((2, 3)))
        with pytest.raises(ValueError, match="cannot hold"):
            wv.save(f"{tmp_path}/v.txt")
        wv.save(f"{tmp_path}/v.parquet")
        assert WordVectors.load(f"{tmp_path}/v.parquet").index_to_key == ["b", word]


def test_files_that_are_not_there_or_not_known(tmp_path):
    for ending in ENDINGS:
        with pytest.raises(DataError, match="none"):
            WordVectors.load(f"{tmp_path}/none{ending}")
    with pytest.raises(ValueError, match=r"ends in one of \.txt"):
        WordVectors.load(f"{tmp_path}/v.npy")
