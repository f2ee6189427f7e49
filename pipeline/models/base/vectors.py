"""Word vectors as users know them from gensim: look up, compare, save in the common formats, load again."""

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ....io.stores.parquet import read_parquet
from ....io.stores.store import DataError, Store, check_format
from .similarity import row_lengths, top_indices, unit_vector

#: Rows compared at a time: scores of a block, no normalised copy of all vectors.
BLOCK = 1 << 15
#: Lines of text formatted at a time.
TEXT_BLOCK = 1 << 12
ZARR_FORMAT = 1
#: Names of little-endian types in a safetensors header.
SAFETENSORS_TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


class WordVectors:
    """Vectors by word: ``vectors`` (V, D) float32, ``index_to_key`` their words, ``key_to_index`` back."""

    def __init__(self, words: Sequence[str], vectors: np.ndarray):
        self.index_to_key = [str(word) for word in words]
        self.key_to_index = {word: i for i, word in enumerate(self.index_to_key)}
        self.vectors = np.ascontiguousarray(vectors, np.float32)
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.index_to_key):
            raise ValueError(f"{len(self.index_to_key)} words, but vectors of shape {self.vectors.shape}")
        if len(self.key_to_index) != len(self.index_to_key):
            raise ValueError(f"{len(self.index_to_key) - len(self.key_to_index)} words are there more than once")
        self._lengths: np.ndarray | None = None

    @property
    def vector_size(self) -> int:
        """D."""
        return self.vectors.shape[1]

    def __len__(self) -> int:
        return len(self.index_to_key)

    def __contains__(self, word: object) -> bool:
        return word in self.key_to_index

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.vector_size} dimensions)"

    def __getitem__(self, words: str | Sequence[str]) -> np.ndarray:
        """Return the vector of a word, (D,) float32, or of several, (n, D); raise KeyError for an unknown one."""
        if isinstance(words, str):
            return self.vectors[self._index(words)]
        return self.vectors[[self._index(word) for word in words]]

    def _index(self, word: str) -> int:
        try:
            return self.key_to_index[word]
        except KeyError:
            raise KeyError(f"{word!r} is not among the {len(self)} words of this model") from None

    # --- comparing ---

    def _norms(self) -> np.ndarray:
        if self._lengths is None:
            self._lengths = row_lengths(self.vectors)
        return self._lengths

    def similarity(self, a: str, b: str) -> float:
        """Return the cosine of two words' vectors."""
        x, y = self._index(a), self._index(b)
        return float(self.vectors[x] @ self.vectors[y] / (self._norms()[x] * self._norms()[y]))

    def most_similar(
        self,
        positive: Any = (),
        negative: Any = (),
        topn: int = 10,
        restrict_vocab: int | None = None,
    ) -> list[tuple[str, float]]:
        """Return the ``topn`` words nearest to the mean of unit vectors, those of ``negative`` subtracted.

        ``positive`` and ``negative``: a word, a vector (D,), a (word, weight) pair, or lists of them; words given are
        left out of the answer. ``restrict_vocab``: look among the first so many words only. Raises KeyError for an
        unknown word, ValueError when nothing is given.
        """
        query, given = self._query(_as_list(positive), _as_list(negative))
        n = len(self) if restrict_vocab is None else min(restrict_vocab, len(self))
        scores = self.scores(query, n)
        scores[[i for i in given if i < n]] = -np.inf
        return [(self.index_to_key[i], float(scores[i])) for i in top_indices(scores, topn) if scores[i] > -np.inf]

    def scores(self, query: np.ndarray, n: int | None = None) -> np.ndarray:
        """Return the cosines of the first ``n`` words' vectors with a vector (D,): (n,) float32."""
        out = np.empty(len(self) if n is None else n, np.float32)
        direction = unit_vector(np.asarray(query, np.float32))
        for rows in _blocks(len(out), BLOCK):
            out[rows] = self.vectors[rows] @ direction
        return out / self._norms()[: len(out)]

    def _query(self, positive: list[Any], negative: list[Any]) -> tuple[np.ndarray, list[int]]:
        if not positive and not negative:
            raise ValueError("most_similar needs at least one word or vector")
        total, given = np.zeros(self.vector_size, np.float32), []
        for sign, keys in ((1.0, positive), (-1.0, negative)):
            for key in keys:
                key, weight = key if isinstance(key, tuple) else (key, 1.0)
                if isinstance(key, str):
                    given.append(self._index(key))
                    key = self.vectors[given[-1]]
                total += np.float32(sign * weight) * unit_vector(np.asarray(key, np.float32))
        return total, given

    def doesnt_match(self, words: Sequence[str]) -> str:
        """Return the word whose vector is farthest from the mean of all; unknown words are left out.

        Raises ValueError when none is known.
        """
        known = [word for word in words if word in self]
        if not known:
            raise ValueError(f"none of the {len(words)} words is known")
        units = self[known] / self._norms()[[self.key_to_index[word] for word in known]][:, None]
        return known[int(np.argmin(units @ unit_vector(units.mean(axis=0))))]

    # --- formats ---

    def save_word2vec_format(self, path: str, binary: bool = False) -> None:
        """Write the format of word2vec.c, text or binary. Raises ValueError for words that it cannot hold."""
        bad = next((word for word in self.index_to_key if word.split() != [word]), None)
        if bad is not None:
            raise ValueError(f"the word2vec format cannot hold {bad!r}, which is empty or has white space")
        lines = _binary_lines if binary else _text_lines
        self._write(path, [f"{len(self)} {self.vector_size}\n".encode(), *lines(self.index_to_key, self.vectors)])

    def save_safetensors(self, path: str) -> None:
        """Write a safetensors file: the tensor ``vectors`` (V, D), the words as JSON in its metadata."""
        tensor = {"dtype": "F32", "shape": list(self.vectors.shape), "data_offsets": [0, self.vectors.nbytes]}
        metadata = {"format": "np", "words": json.dumps(self.index_to_key, ensure_ascii=False)}
        header = json.dumps({"__metadata__": metadata, "vectors": tensor}, ensure_ascii=False).encode()
        header += b" " * (-len(header) % 8)
        self._write(path, [struct.pack("<Q", len(header)), header, self.vectors.astype("<f4").tobytes()])

    def save_parquet(self, path: str) -> None:
        """Write a Parquet file with the columns ``word`` and ``vector`` (a list of D floats)."""
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(self.vectors.ravel()), self.vector_size)
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"word": pa.array(self.index_to_key, pa.string()), "vector": vectors}), sink)
        self._write(path, [sink.getvalue().to_pybytes()])

    def save_zarr(self, url: str) -> None:
        """Write a Zarr group with the array ``vectors`` (V, D) and ``words.json``; the JSON comes last."""
        store = Store(url)
        store.write_arrays("vectors", {"vectors": self.vectors})
        store.write_json("words.json", {"kind": "vectors", "format": ZARR_FORMAT, "words": self.index_to_key})

    def save(self, path: str) -> None:
        """Write the format that the name ends in: .txt, .bin, .safetensors, .parquet or .zarr."""
        writers = {
            ".txt": self.save_word2vec_format,
            ".bin": lambda where: self.save_word2vec_format(where, binary=True),
            ".safetensors": self.save_safetensors,
            ".parquet": self.save_parquet,
            ".zarr": self.save_zarr,
        }
        writers[_ending(path, writers)](path)

    def _write(self, path: str, parts: Iterable[bytes]) -> None:
        folder, name = _split(path)
        folder.write_bytes(name, b"".join(parts))

    @classmethod
    def load(cls, path: str) -> Self:
        """Read what ``save`` wrote, by the ending of the name. Raises DataError for what cannot be read."""
        readers = {
            ".txt": cls.load_word2vec_format,
            ".bin": lambda where: cls.load_word2vec_format(where, binary=True),
            ".safetensors": cls.load_safetensors,
            ".parquet": cls.load_parquet,
            ".zarr": cls.load_zarr,
        }
        return readers[_ending(path, readers)](path)

    @classmethod
    def load_word2vec_format(cls, path: str, binary: bool = False) -> Self:
        """Read the format of word2vec.c, text or binary. Raises DataError when the file is cut short or is none."""
        content = _read(path)
        head, _, body = content.partition(b"\n")
        try:
            n, dimension = (int(x) for x in head.split())
            words, vectors = (_read_binary if binary else _read_text)(body, n, dimension)
        except (ValueError, IndexError, UnicodeDecodeError):
            kind = "binary" if binary else "text"
            raise DataError(f"{path}: no complete word2vec file ({kind}); write it anew") from None
        return cls(words, vectors)

    @classmethod
    def load_safetensors(cls, path: str) -> Self:
        """Read a file of ``save_safetensors``. Raises DataError when it is damaged or has no words."""
        content = _read(path)
        try:
            size = struct.unpack("<Q", content[:8])[0]
            header = json.loads(content[8 : 8 + size])
            tensor = header["vectors"]
            words = json.loads(header["__metadata__"]["words"])
            first, last = tensor["data_offsets"]
            body = content[8 + size + first : 8 + size + last]
            vectors = np.frombuffer(body, SAFETENSORS_TYPES[tensor["dtype"]]).reshape(tensor["shape"])
        except (ValueError, KeyError, TypeError, struct.error) as error:
            raise DataError(f"{path}: no safetensors file of word vectors ({error})") from None
        return cls(words, vectors)

    @classmethod
    def load_parquet(cls, path: str) -> Self:
        """Read a file of ``save_parquet``. Raises DataError for another file."""
        try:
            table = read_parquet(pa.BufferReader(_read(path)))
            vectors = table["vector"].combine_chunks()
            return cls(table["word"].to_pylist(), vectors.flatten().to_numpy().reshape(len(vectors), -1))
        except (KeyError, pa.ArrowInvalid) as error:
            raise DataError(f"{path}: no Parquet file of word vectors ({error})") from None

    @classmethod
    def load_zarr(cls, url: str) -> Self:
        """Read a group of ``save_zarr``. Raises DataError for another store."""
        store = Store(url)
        if not store.exists("words.json"):
            raise DataError(f"{url}: no word vectors here (no words.json)")
        meta = store.read_json("words.json")
        check_format(meta, "vectors", ZARR_FORMAT, url)
        return cls(meta["words"], store.read_arrays("vectors")["vectors"])


def _as_list(keys: Any) -> list[Any]:
    is_pair = isinstance(keys, tuple) and len(keys) == 2 and isinstance(keys[1], int | float)
    is_vector = isinstance(keys, np.ndarray) and keys.ndim == 1
    return [keys] if isinstance(keys, str) or is_pair or is_vector else list(keys)


def _blocks(n: int, size: int) -> Iterable[slice]:
    return (slice(first, min(first + size, n)) for first in range(0, n, size))


def _text_lines(words: list[str], vectors: np.ndarray) -> Iterable[bytes]:
    width = vectors.shape[1]
    for rows in _blocks(len(words), TEXT_BLOCK):
        # Arrow writes the shortest digits that read back as the same float32.
        numbers = pa.array(vectors[rows].ravel()).cast(pa.string())
        starts = pa.array(np.arange(0, len(numbers) + 1, width, dtype=np.int32))
        joined = pc.binary_join(pa.ListArray.from_arrays(starts, numbers), " ")
        yield "".join(f"{w} {v}\n" for w, v in zip(words[rows], joined.to_pylist(), strict=True)).encode()


def _binary_lines(words: list[str], vectors: np.ndarray) -> Iterable[bytes]:
    return (
        word.encode() + b" " + row.astype("<f4").tobytes() + b"\n" for word, row in zip(words, vectors, strict=True)
    )


def _read_text(body: bytes, n: int, dimension: int) -> tuple[list[str], np.ndarray]:
    lines = body.split(b"\n", n)
    vectors, words = np.empty((n, dimension), np.float32), []
    for i in range(n):
        word, *numbers = lines[i].rstrip().split(b" ")
        words.append(word.decode())
        vectors[i] = np.array(numbers, "S").astype(np.float32)
    return words, vectors


def _read_binary(body: bytes, n: int, dimension: int) -> tuple[list[str], np.ndarray]:
    vectors, words, at = np.empty((n, dimension), np.float32), [], 0
    for i in range(n):
        end = body.index(b" ", at)
        words.append(body[at:end].lstrip(b"\n").decode())
        vectors[i] = np.frombuffer(body, "<f4", dimension, end + 1)
        at = end + 1 + 4 * dimension
    return words, vectors


def _split(path: str) -> tuple[Store, str]:
    folder, _, name = str(path).rpartition("/")
    return Store(folder or "."), name


def _read(path: str) -> bytes:
    folder, name = _split(path)
    return folder.read_bytes(name)


def _ending(path: str, known: Iterable[str]) -> str:
    ending = next((e for e in known if str(path).endswith(e)), None)
    if ending is None:
        raise ValueError(f"{path}: the name of word vectors ends in one of {', '.join(known)}")
    return ending
