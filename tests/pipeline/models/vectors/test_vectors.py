"""Word vectors in files, and to and from gensim."""

import gzip
import json
import struct
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pytest
import safetensors.numpy
import zarr
from corpusmill.io.errors import DataError
from corpusmill.pipeline.models.vectors import files as vector_files
from corpusmill.pipeline.models.vectors.vectors import WordVectors
from gensim.models import KeyedVectors, Word2Vec
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = ["king", "queen", "man", "woman", "ärger", "naïve", "日本", "x" * 40]
COUNTS = [900, 700, 500, 400, 30, 20, 20, 1]
ENDINGS = (".txt", ".bin", ".safetensors", ".parquet", ".zarr")


@pytest.fixture
def wv():
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 12)).astype(np.float32)
    return WordVectors(WORDS, vectors)


@pytest.fixture
def counted(wv):
    return WordVectors(WORDS, wv.vectors, COUNTS)


def assert_equal_vectors(found, expected):
    """Compare words, counts and the bits of vectors."""
    assert found.index_to_key == expected.index_to_key
    np.testing.assert_array_equal(found.vectors.view(np.uint32), expected.vectors.view(np.uint32))
    assert found.vectors.dtype == np.float32
    assert (found.counts is None) == (expected.counts is None)
    if expected.counts is not None:
        np.testing.assert_array_equal(found.counts, expected.counts)


# --- all formats ---


@pytest.mark.parametrize("ending", ENDINGS)
def test_saved_vectors_are_loaded_with_the_same_bits(wv, tmp_path, ending):
    wv.vectors[0, :4] = [1e-38, -0.0, 3.4e38, 1 / 3]
    wv.save(f"{tmp_path}/v{ending}")
    assert_equal_vectors(WordVectors.load(f"{tmp_path}/v{ending}"), wv)
    assert [p.name for p in tmp_path.iterdir()] == [f"v{ending}"]


@pytest.mark.parametrize("ending", [".safetensors", ".parquet", ".zarr"])
def test_counts_are_saved_with_the_vectors(counted, tmp_path, ending):
    counted.save(f"{tmp_path}/v{ending}")
    assert_equal_vectors(WordVectors.load(f"{tmp_path}/v{ending}"), counted)


@pytest.mark.parametrize("ending", [e for e in ENDINGS if e != ".zarr"])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.6])
def test_a_truncated_file_is_refused(wv, tmp_path, ending, share):
    path = tmp_path / f"v{ending}"
    wv.save(str(path))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=f"v{ending}: not a"):
        WordVectors.load(str(path))


def test_missing_files_and_unknown_endings_are_refused(wv, tmp_path):
    for ending in ENDINGS:
        with pytest.raises(DataError, match="none"):
            WordVectors.load(f"{tmp_path}/none{ending}")
    with pytest.raises(ValueError, match=r"ends in one of \.txt"):
        WordVectors.load(f"{tmp_path}/v.npy")
    with pytest.raises(ValueError, match=r"ends in one of \.txt"):
        wv.save(f"{tmp_path}/v.npy")


def test_a_name_without_a_folder_is_in_the_working_directory(wv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for ending in ENDINGS:
        wv.save(f"v{ending}")
        assert_equal_vectors(WordVectors.load(f"v{ending}"), wv)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"v{ending}" for ending in ENDINGS)


def test_urls_of_other_storage_work_like_paths(counted):
    for ending in ENDINGS:
        counted.save(f"memory://vectors/v{ending}")
        assert WordVectors.load(f"memory://vectors/v{ending}").index_to_key == WORDS


# --- gensim ---


@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_and_writes_the_same_files(wv, tmp_path, binary):
    ours = f"{tmp_path}/ours{'.bin' if binary else '.vec'}"
    wv.save(ours)
    theirs = KeyedVectors.load_word2vec_format(ours, binary=binary)
    assert theirs.index_to_key == WORDS
    np.testing.assert_array_equal(theirs.vectors, wv.vectors)
    wv.to_gensim().save_word2vec_format(f"{tmp_path}/theirs", binary=binary)
    ours = WordVectors.load_word2vec_format(f"{tmp_path}/theirs", binary=binary)
    assert_equal_vectors(ours, wv)


#: Words with white space of other kinds than between the fields of a line.
ODD_WORDS = st.text(st.sampled_from("ab\v\f\x1c\x85\xa0\u2028\u30001."), min_size=1, max_size=4)


@pytest.mark.parametrize("binary", [False, True])
@settings(deadline=None, max_examples=50)
@given(words=st.lists(ODD_WORDS, min_size=1, max_size=6, unique=True))
def test_words_with_other_white_space_are_the_same_in_gensims_files_and_ours(tmp_path_factory, words, binary):
    folder = tmp_path_factory.mktemp("vectors")
    wv = WordVectors(words, np.random.default_rng(0).normal(size=(len(words), 3)).astype(np.float32))
    wv.save(f"{folder}/ours{'.bin' if binary else '.vec'}")
    assert_equal_vectors(WordVectors.load(f"{folder}/ours{'.bin' if binary else '.vec'}"), wv)
    keyed = KeyedVectors(3)
    keyed.add_vectors(words, wv.vectors)
    keyed.save_word2vec_format(f"{folder}/theirs", binary=binary)
    assert_equal_vectors(WordVectors.load_word2vec_format(f"{folder}/theirs", binary=binary), wv)
    if not binary:
        lines = (folder / "theirs").read_bytes().partition(b"\n")[2]
        (folder / "glove").write_bytes(lines)
        assert_equal_vectors(WordVectors.load_word2vec_format(f"{folder}/glove", no_header=True), wv)


def test_gensims_own_files_are_read_and_written_by_conversion(counted, tmp_path):
    counted.to_gensim().save(f"{tmp_path}/kv")
    keyed = KeyedVectors.load(f"{tmp_path}/kv")
    assert keyed.get_vecattr("queen", "count") == 700
    assert keyed.most_similar("king", topn=2)[0][0] == counted.most_similar("king", topn=2)[0][0]
    assert_equal_vectors(WordVectors.from_gensim(keyed), counted)


def test_vectors_trained_by_gensim_are_copied(tmp_path):
    model = Word2Vec([["a", "b", "a"], ["a", "c"]] * 3, vector_size=4, min_count=1, seed=1, workers=1)
    found = WordVectors.from_gensim(model.wv)
    assert found.counts[[found.get_index(word) for word in "abc"]].tolist() == [9, 3, 3]
    np.testing.assert_array_equal(found["a"], model.wv["a"])
    with pytest.raises(
        TypeError, match=r"a Word2Vec cannot be converted: pass a gensim KeyedVectors, such as model.wv"
    ):
        WordVectors.from_gensim(model)
    model.wv.vectors[:] = 0
    assert found.vectors.any()


def test_a_converted_model_takes_further_words_in_gensim(counted):
    keyed = counted.to_gensim()
    keyed.add_vectors(["prince"], [counted["king"]])
    assert keyed.most_similar("prince", topn=1)[0][0] == "king"
    assert "prince" not in counted


# --- word2vec's formats ---


def test_words_that_a_format_cannot_hold_are_refused(tmp_path):
    for word in ("New York", "", "a\n"):
        wv = WordVectors(["b", word], np.ones((2, 3)))
        with pytest.raises(ValueError, match="cannot hold"):
            wv.save(f"{tmp_path}/v.txt")
        wv.save(f"{tmp_path}/v.parquet")
        assert WordVectors.load(f"{tmp_path}/v.parquet").index_to_key == ["b", word]


@pytest.mark.parametrize("kind", [".txt", ".bin"])
def test_the_name_says_whether_a_file_is_compressed(wv, tmp_path, kind):
    binary = kind == ".bin"
    for ending in (".gz", ".bz2", ".xz"):
        wv.save(f"{tmp_path}/v{kind}{ending}")
        assert_equal_vectors(WordVectors.load(f"{tmp_path}/v{kind}{ending}"), wv)
    packed_file = tmp_path / f"v{kind}.gz"
    theirs = KeyedVectors.load_word2vec_format(str(packed_file), binary=binary)
    np.testing.assert_array_equal(theirs.vectors, wv.vectors)
    content = packed_file.read_bytes()
    assert gzip.decompress(content).startswith(b"8 12\n")
    packed_file.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"\.gz: not a complete file"):
        WordVectors.load(str(packed_file))
    for ending in (".parquet.gz", ".gz"):
        with pytest.raises(ValueError, match=r"ends in one of \.txt"):
            wv.save(f"{tmp_path}/v{ending}")
    # Programs that compress with several threads write several frames.
    plain, packed = gzip.decompress(content), pa.Codec("zstd")
    frames = [packed.compress(part, asbytes=True) for part in (plain[:20], plain[20:])]
    (tmp_path / "v.zst").write_bytes(b"".join(frames))
    assert_equal_vectors(WordVectors.load_word2vec_format(f"{tmp_path}/v.zst", binary=binary), wv)
    (tmp_path / "v.zst").write_bytes(frames[0])
    with pytest.raises(DataError, match=r"v\.zst: "):
        WordVectors.load_word2vec_format(f"{tmp_path}/v.zst", binary=binary)


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst", ".zip"])
def test_a_file_that_is_not_compressed_as_its_name_says_is_refused(wv, tmp_path, ending):
    path = tmp_path / f"v{ending}"
    path.write_bytes(b"1 2\na 1 2\n")
    match = (
        rf"v\{ending}: its name ends in \{ending}, but it begins with b'1 2\\na ', .* let its name end in another way"
    )
    with pytest.raises(DataError, match=match):
        WordVectors.load_word2vec_format(str(path))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zip"])
def test_vectors_of_damaged_compressed_files_are_refused(wv, tmp_path, ending):
    plain = tmp_path / "v.txt"
    wv.save(str(plain))
    if ending == ".zip":
        with zipfile.ZipFile(tmp_path / "v.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(plain, "v.txt")
    else:
        wv.save(f"{plain}{ending}")
        (tmp_path / f"v.txt{ending}").rename(tmp_path / f"v{ending}")
    path = tmp_path / f"v{ending}"
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a complete file of word vectors"):
        WordVectors.load_word2vec_format(str(path))


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("limit", [0, 3, 100])
def test_a_limit_reads_the_first_words(wv, tmp_path, binary, limit):
    wv.to_gensim().save_word2vec_format(f"{tmp_path}/v", binary=binary)
    found = WordVectors.load_word2vec_format(f"{tmp_path}/v", binary=binary, limit=limit)
    assert_equal_vectors(found, WordVectors(WORDS[:limit], wv.vectors[:limit]))


def test_text_without_a_header_is_read(wv, tmp_path):
    path = f"{tmp_path}/glove.txt"
    wv.to_gensim().save_word2vec_format(path, write_header=False)
    assert_equal_vectors(WordVectors.load_word2vec_format(path, no_header=True), wv)
    assert len(WordVectors.load_word2vec_format(path, no_header=True, limit=2)) == 2
    with pytest.raises(
        DataError, match=r"not a header with two numbers; .*load_word2vec_format\(\.\.\., no_header=True\)"
    ):
        WordVectors.load_word2vec_format(path)
    with pytest.raises(ValueError, match="no_header is for text"):
        WordVectors.load_word2vec_format(path, binary=True, no_header=True)
    for content, reason in (("", "it is empty"), ("a 1 2\nb 3\n", "row 2 has 1 numbers, not 2")):
        (tmp_path / "glove.txt").write_text(content)
        with pytest.raises(DataError, match=reason):
            WordVectors.load_word2vec_format(path, no_header=True)


def test_words_cut_within_a_character_are_repaired_on_request(tmp_path):
    (tmp_path / "v").write_bytes(b"1 2\n\xc3 1 2\n")
    with pytest.raises(DataError, match=r"row 1 is not utf-8; word2vec\.c cuts .*: pass unicode_errors='replace'"):
        WordVectors.load_word2vec_format(f"{tmp_path}/v")
    with pytest.warns(UserWarning, match="1 word of 1 had bytes that are not utf-8"):
        found = WordVectors.load_word2vec_format(f"{tmp_path}/v", unicode_errors="replace")
    assert found.index_to_key == ["\ufffd"]
    assert WordVectors.load_word2vec_format(f"{tmp_path}/v", encoding="latin-1").index_to_key == ["Ã"]


def binary_row(word, *numbers):
    return word + b" " + np.array(numbers, "<f4").tobytes() + b"\n"


CUT = "中文".encode()[:-1], "中斈".encode()[:-1]
#: Files as other programs write them: content, name, options, the words that are read, and what is said of them.
OTHERS = {
    "names with blanks": (b"the 0.1 0.2\n. . . 0.3 0.4\nend 1 1\n", {"no_header": True}, ["the", ". . .", "end"], None),
    "a first name with blanks": (b". . 0.3 0.4\nend 1 1\n", {"no_header": True}, [". .", "end"], None),
    "names with blanks, header": (b"2 2\nnew york 1 2\nend 1 1\n", {}, ["new york", "end"], None),
    "blanks at the end": (b"2 2\na 1 2 \nb 3 4 \n", {}, ["a", "b"], None),
    "an empty name, no header": (b" 1 2\nb 3 4\n", {"no_header": True}, ["", "b"], None),
    "an empty name": (b"2 2\n 1 2\nb 3 4\n", {}, ["", "b"], None),
    "tabs": (b"a\t1\t2\nb\t3\t4\n", {"no_header": True}, ["a", "b"], None),
    "tabs and a header": (b"2 2\na\t1\t2\nb\t3\t4\n", {}, ["a", "b"], None),
    "a blank that does not break": ("2 1\na\xa0b 1\n\u3000 2\n".encode(), {}, ["a\xa0b", "\u3000"], None),
    "a byte order mark": (b"\xef\xbb\xbf2 2\na 1 2\nb 3 4\n", {}, ["a", "b"], None),
    "a byte order mark, no header": (b"\xef\xbb\xbfa 1 2\nb 3 4\n", {"no_header": True}, ["a", "b"], None),
    "a name twice": (
        b"4 2\na 1 2\nb 3 4\na 5 6\nc 7 8\n",
        {},
        ["a", "b", "c"],
        "1 of 4 words occurred before, such as 'a'",
    ),
    "cut names": (
        b"3 2\n" + b"".join(binary_row(word, 1, 2) for word in (b"</s>", *CUT)),
        {"binary": True, "unicode_errors": "ignore"},
        ["</s>", "中"],
        "1 of 3 words occurred before",
    ),
}


@pytest.mark.parametrize("content, options, words, said", OTHERS.values(), ids=OTHERS)
def test_files_of_other_programs_are_read_and_what_changed_is_said(tmp_path, content, options, words, said):
    (tmp_path / "v.vec").write_bytes(content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = WordVectors.load_word2vec_format(f"{tmp_path}/v.vec", **options)
    assert found.index_to_key == words
    assert any(said in str(one.message) for one in caught) if said else not caught
    if "\n" in content.decode("latin-1") and not options.get("binary"):
        numbers = [line.split()[-found.vector_size :] for line in content.decode().splitlines()[not options :]]
        rows = {tuple(map(float, row)) for row in numbers}
        assert {tuple(row) for row in found.vectors.astype(float).round(6).tolist()} <= rows


def test_vectors_of_the_ending_of_fasttext_are_loaded(wv, tmp_path):
    wv.save(f"{tmp_path}/v.vec")
    assert_equal_vectors(WordVectors.load(f"{tmp_path}/v.vec"), wv)


@pytest.mark.parametrize(
    "content, options, match",
    [
        (b"\xba\x16\x4f\x2f\x0c" + bytes(200), {"binary": True}, "fastText's own format; load the file .vec"),
        (b"a\nb\n", {"no_header": True}, "most lines have no numbers"),
        (b"2 0\na\nb\n", {}, "its header says 0 dimensions"),
        (b"2 2\na 1 x\nb 1 2\n", {}, "could not convert string to float"),
        (b"2 2\na 1\nb 1 2\n", {}, "row 1 of 2 has 1 numbers, not 2"),
        (b"a 1 2\rb 3 4\r", {"no_header": True}, "row 1 has a carriage return within it; convert the line ends"),
    ],
)
def test_files_that_are_no_vectors_are_refused(tmp_path, content, options, match):
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(DataError, match=match):
        WordVectors.load_word2vec_format(f"{tmp_path}/v", **options)


def test_vectors_with_nan_are_counted_and_similar_to_nothing(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    vectors[3, 1] = np.nan
    WordVectors([f"w{i}" for i in range(12)], vectors).save(f"{tmp_path}/v.parquet")
    with pytest.warns(UserWarning, match="1 vector of 12 have NaN or infinity, such as that of 'w3'"):
        found = WordVectors.load(f"{tmp_path}/v.parquet")
    ranking = found.most_similar("w0")
    assert len(ranking) == 10
    assert "w3" not in dict(ranking)


@pytest.mark.parametrize("size", [50, 61, 1 << 20])
def test_a_binary_file_is_read_in_blocks_of_any_size(wv, tmp_path, monkeypatch, size):
    monkeypatch.setattr(vector_files, "BINARY_BYTES_PER_READ", size)
    wv.save(f"{tmp_path}/v.bin")
    assert_equal_vectors(WordVectors.load(f"{tmp_path}/v.bin"), wv)


def test_text_and_binary_files_are_not_confused(wv, tmp_path):
    wv.save(f"{tmp_path}/v.txt")
    wv.save(f"{tmp_path}/v.bin")
    with pytest.raises(DataError, match="check the argument binary"):
        WordVectors.load_word2vec_format(f"{tmp_path}/v.bin")
    with pytest.raises(DataError, match="check the argument binary"):
        WordVectors.load_word2vec_format(f"{tmp_path}/v.txt", binary=True)


def test_a_header_that_promises_more_than_memory_holds_is_refused(tmp_path):
    for header in (b"1000000000000000 300\n", b"99999999999999999999999 300\n", b"-1 300\n"):
        (tmp_path / "v.bin").write_bytes(header + b"word " + bytes(1200))
        with pytest.raises(DataError, match=r"v\.bin: not a complete file"):
            WordVectors.load(f"{tmp_path}/v.bin")


# --- safetensors ---


def write_by_hand(path, words, vectors):
    """Write the bytes that corpusmill 0.1 wrote without the library."""
    tensor = {"dtype": "F32", "shape": list(vectors.shape), "data_offsets": [0, vectors.nbytes]}
    metadata = {"format": "np", "words": json.dumps(words, ensure_ascii=False)}
    header = json.dumps({"__metadata__": metadata, "vectors": tensor}, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + vectors.astype("<f4").tobytes())


def test_safetensors_files_of_earlier_versions_are_read(wv, tmp_path):
    write_by_hand(tmp_path / "v.safetensors", WORDS, wv.vectors)
    assert_equal_vectors(WordVectors.load(f"{tmp_path}/v.safetensors"), wv)


def test_the_safetensors_library_reads_what_is_written(counted, tmp_path):
    counted.save(f"{tmp_path}/v.safetensors")
    found = safetensors.numpy.load_file(f"{tmp_path}/v.safetensors")
    assert sorted(found) == ["counts", "vectors"]
    np.testing.assert_array_equal(found["vectors"], counted.vectors)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_safetensors_of_other_floats_are_converted(wv, tmp_path, dtype):
    content = safetensors.numpy.save({"vectors": wv.vectors.astype(dtype)}, {"words": json.dumps(WORDS)})
    (tmp_path / "v.safetensors").write_bytes(content)
    found = WordVectors.load(f"{tmp_path}/v.safetensors")
    np.testing.assert_array_equal(found.vectors, wv.vectors.astype(dtype).astype(np.float32))


@pytest.mark.parametrize(
    "tensors, metadata, reason",
    [
        ({"weight": np.ones((2, 2))}, {"words": '["a", "b"]'}, "has the tensors 'weight' and the metadata 'words'"),
        ({"vectors": np.ones((2, 2))}, {"format": "pt"}, "need the tensor 'vectors' and the metadata 'words'"),
        ({"vectors": np.ones((2, 2), int)}, {"words": '["a", "b"]'}, "vectors of type I64: convert them to F16, F32"),
        ({"vectors": np.ones((2, 2))}, {"words": '["a", '}, "not a safetensors file of word vectors"),
        ({"vectors": np.ones((2, 2))}, {"words": "3"}, "words in its metadata are not a list"),
        ({"vectors": np.ones((2, 2))}, {"words": '["a"]'}, "damaged: 1 words, but vectors of shape"),
        ({"vectors": np.ones((2, 2))}, {"words": '["a", "a"]'}, "damaged: 1 of 2 words occur more than once"),
    ],
)
def test_other_safetensors_files_are_refused(tmp_path, tensors, metadata, reason):
    (tmp_path / "v.safetensors").write_bytes(safetensors.numpy.save(tensors, metadata))
    with pytest.raises(DataError, match=reason):
        WordVectors.load(f"{tmp_path}/v.safetensors")


def test_bfloat16_is_refused_with_the_types_that_are_read(tmp_path):
    header = {"vectors": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]}, "__metadata__": {"words": '["a"]'}}
    encoded = json.dumps(header).encode()
    (tmp_path / "v.safetensors").write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(4))
    with pytest.raises(DataError, match="vectors of type BF16: convert them to F16, F32, F64"):
        WordVectors.load(f"{tmp_path}/v.safetensors")


def test_more_words_than_a_safetensors_header_holds_are_refused(wv, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_files, "MAX_SAFETENSORS_HEADER_BYTES", 1100)
    with pytest.raises(ValueError, match=r"8 words exceed the 1,100 bytes .* \.parquet or \.zarr"):
        wv.save(f"{tmp_path}/v.safetensors")
    assert not list(tmp_path.iterdir())


# --- Zarr and Parquet ---


def test_zarr_opens_what_is_written(counted, tmp_path):
    counted.save(f"{tmp_path}/v.zarr")
    group = zarr.open(f"{tmp_path}/v.zarr/vectors", mode="r")
    np.testing.assert_array_equal(group["vectors"][...], counted.vectors)
    np.testing.assert_array_equal(group["counts"][...], COUNTS)


def test_half_replaced_vectors_are_not_read_with_the_words_of_others(wv, tmp_path, monkeypatch):
    wv.save(f"{tmp_path}/v.zarr")
    other = WordVectors(WORDS[::-1], -wv.vectors)
    monkeypatch.setattr(vector_files.Store, "write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        other.save(f"{tmp_path}/v.zarr")
    with pytest.raises(DataError, match=r"words\.json is missing"):
        WordVectors.load(f"{tmp_path}/v.zarr")


def test_other_parquet_files_are_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"word": ["a"], "weight": [1.0]}), tmp_path / "v.parquet")
    with pytest.raises(DataError, match="not a Parquet file of word vectors"):
        WordVectors.load(f"{tmp_path}/v.parquet")


@pytest.mark.parametrize("encoding", ["hex", "rot13", "utf-99"])
def test_an_encoding_that_is_none_of_text_is_refused(tmp_path, encoding):
    (tmp_path / "v").write_bytes(b"1 1\na 1\n")
    with pytest.raises(ValueError, match=f"encoding='{encoding}' is no encoding of text: choose one such as"):
        WordVectors.load_word2vec_format(f"{tmp_path}/v", encoding=encoding)
