"""Reading and writing word vectors: word2vec's formats, which gensim and fastText use too, safetensors, Parquet, Zarr.

Paths are local paths or URLs of any storage that fsspec supports. Every file is written whole or not at all.
"""

import bz2
import codecs
import contextlib
import gzip
import itertools
import json
import lzma
import re
import tempfile
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import safetensors
import safetensors.numpy

from ....io.errors import DataError, DataWarning
from ....io.messages import MOST_CHARACTERS, listed, pluralize, shortened
from ....io.readers.content import check_encoding_name
from ....io.readers.source import check_is_compressed, unpacked
from ....io.stores.filesystems import explained_errors, replacing
from ....io.stores.formats import DAMAGED, parquet_bytes, read_parquet
from ....io.stores.store import Store, check_format, filesystem_of, split_path

#: Files that compress what is written, by the ending of a file's name.
COMPRESSORS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
#: Version of the Zarr layout.
ZARR_FORMAT = 1
#: The safetensors library reads no header longer than this, and the words are in the header.
MAX_SAFETENSORS_HEADER_BYTES = 100_000_000
#: Types of tensors, as safetensors names them, that convert to float32.
SAFETENSORS_TYPES = ("F16", "F32", "F64")


class VectorTable(NamedTuple):
    """The content of a file of word vectors: V words, vectors (V, D), and the count of each word (V,), if known."""

    words: list[str]
    vectors: np.ndarray
    counts: np.ndarray | None = None


# --- files ---


def write_file(path: str, parts: Iterable[bytes]) -> None:
    """Write or replace a file in one step, compressed if the name ends in .gz, .bz2 or .xz.

    Only a file in another store has to fit into memory.
    """
    compressed = COMPRESSORS.get(Path(path).suffix, open)
    store, name = split_path(str(path))
    with contextlib.ExitStack() as stack:
        if store.is_local:
            target = stack.enter_context(replacing(Path(store.where(name))))
        else:
            target = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="corpusmill-vectors-")), "vectors")
        with compressed(target, "wb") as file:
            file.writelines(parts)
        if not store.is_local:
            store.write_bytes(name, target.read_bytes())


# --- safetensors ---


def write_safetensors(path: str, table: VectorTable) -> None:
    """Write the tensors ``vectors`` (V, D) and, if known, ``counts`` (V,); the words are JSON in the metadata.

    Raises ValueError when the words take more space than the format allows for metadata.
    """
    words = json.dumps(table.words, ensure_ascii=False)
    # The metadata is JSON itself, so that quotes within it are escaped.
    if len(json.dumps(words, ensure_ascii=False).encode()) > MAX_SAFETENSORS_HEADER_BYTES - 1000:
        raise ValueError(
            f"{path}: {len(table.words):,} words exceed the {MAX_SAFETENSORS_HEADER_BYTES:,} bytes that a safetensors "
            f"header may have; save them as .parquet or .zarr"
        )
    tensors = {"vectors": np.ascontiguousarray(table.vectors)}
    if table.counts is not None:
        tensors["counts"] = np.ascontiguousarray(table.counts)
    write_file(path, [safetensors.numpy.save(tensors, {"format": "np", "words": words})])


def read_safetensors(path: str) -> VectorTable:
    """Read a file of `write_safetensors`. Raises DataError if it is damaged, or has other tensors or types."""
    try:
        with _local_file(path) as local, safetensors.safe_open(local, framework="np") as file:
            names = sorted(file.keys())
            metadata = file.metadata() or {}
            if "vectors" not in names or "words" not in metadata:
                raise DataError(
                    f"{path}: has the tensors {listed(names, '(none)')} and the metadata "
                    f"{listed(sorted(metadata), '(none)')}; word vectors need the tensor 'vectors' and the "
                    f"metadata 'words'"
                )
            # A slice is lazy. The type is checked before any data is read, because NumPy has no bfloat16.
            dtype = file.get_slice("vectors").get_dtype()
            if dtype not in SAFETENSORS_TYPES:
                raise DataError(f"{path}: vectors of type {dtype}: convert them to {', '.join(SAFETENSORS_TYPES)}")
            words = json.loads(metadata["words"])
            if not isinstance(words, list):
                raise DataError(f"{path}: the words in its metadata are not a list")
            counts = file.get_tensor("counts") if "counts" in names else None
            return VectorTable(words, file.get_tensor("vectors"), counts)
    except (safetensors.SafetensorError, ValueError) as error:
        raise DataError(f"{path}: not a safetensors file of word vectors ({error})") from None


@contextmanager
def _local_file(path: str) -> Iterator[str]:
    """Yield a local path with the content of ``path``: the library reads local files only."""
    store, name = split_path(str(path))
    if store.is_local and store.exists(name):
        yield store.where(name)
        return
    with tempfile.TemporaryDirectory(prefix="corpusmill-vectors-") as folder:
        copy = Path(folder) / "vectors.safetensors"
        copy.write_bytes(store.read_bytes(name))
        yield str(copy)


# --- Parquet ---


def write_parquet(path: str, table: VectorTable) -> None:
    """Write the columns ``word``, ``vector`` (a list of D floats) and, if known, ``count``."""
    flat = pa.array(table.vectors.ravel())
    columns = {
        "word": pa.array(table.words, pa.string()),
        "vector": pa.FixedSizeListArray.from_arrays(flat, table.vectors.shape[1]),
    }
    if table.counts is not None:
        columns["count"] = pa.array(table.counts)
    write_file(path, [parquet_bytes(pa.table(columns))])


def read_parquet_vectors(path: str) -> VectorTable:
    """Read a file written by `write_parquet`. Raises DataError for any other file."""
    store, name = split_path(str(path))
    content = store.read_bytes(name)
    try:
        found = read_parquet(pa.BufferReader(content))
        vectors = found["vector"].combine_chunks()
        counts = found["count"].to_numpy() if "count" in found.column_names else None
        rows = vectors.flatten().to_numpy().reshape(len(vectors), -1)
        return VectorTable(found["word"].to_pylist(), rows, counts)
    except (KeyError, AttributeError, ValueError, *DAMAGED) as error:
        raise DataError(f"{path}: not a Parquet file of word vectors ({shortened(error)})") from None


# --- Zarr ---


def write_zarr(url: str, table: VectorTable) -> None:
    """Write a Zarr group with the arrays ``vectors`` (V, D) and, if known, ``counts`` (V,), and ``words.json``."""
    store = Store(url)
    arrays = {"vectors": table.vectors}
    if table.counts is not None:
        arrays["counts"] = table.counts
    # A reader needs words.json. It is deleted first and written last, so that words and vectors always match.
    store.delete("words.json")
    store.write_arrays("vectors", arrays)
    store.write_json("words.json", {"kind": "vectors", "format": ZARR_FORMAT, "words": table.words})


def read_zarr(url: str) -> VectorTable:
    """Read a group written by `write_zarr`. Raises DataError for any other store."""
    store = Store(url)
    if not store.exists("words.json"):
        raise DataError(f"{url}: no word vectors here (words.json is missing)")
    metadata = store.read_json("words.json")
    check_format(metadata, "vectors", ZARR_FORMAT, url)
    arrays = store.read_arrays("vectors")
    return VectorTable(metadata["words"], arrays["vectors"], arrays.get("counts"))


# --- word2vec ---

#: Rows of text formatted at once.
TEXT_ROWS_PER_BLOCK = 1 << 12
#: Bytes of a binary file read at once; also the longest word accepted there.
BINARY_BYTES_PER_READ = 1 << 20
#: Lines of a text without header that show how many numbers a vector has.
LINES_FOR_WIDTH = 100
#: How models of fastText begin.
FASTTEXT = b"\xba\x16\x4f\x2f"


def write_word2vec(path: str, table: VectorTable, binary: bool = False) -> None:
    """Write word2vec's text or binary format, compressed if the name ends in .gz, .bz2 or .xz.

    Raises ValueError for words that the format cannot hold.
    """
    # Fields are separated by blanks, and vectors by line ends.
    unusable = next((word for word in table.words if not word or not {" ", "\t", "\n", "\r"}.isdisjoint(word)), None)
    if unusable is not None:
        raise ValueError(
            f"the word2vec format cannot hold {unusable!r}: words must have no blanks, tabs or line ends, and not be "
            f"empty"
        )
    first = f"{len(table.words)} {table.vectors.shape[1]}\n".encode()
    write_file(path, itertools.chain([first], _binary_rows(table) if binary else _text_rows(table)))


def _text_rows(table: VectorTable) -> Iterator[bytes]:
    width = table.vectors.shape[1]
    for first in range(0, len(table.words), TEXT_ROWS_PER_BLOCK):
        block = slice(first, first + TEXT_ROWS_PER_BLOCK)
        # Arrow writes the fewest digits that read back as the same float32.
        numbers = pa.array(table.vectors[block].ravel()).cast(pa.string())
        row_starts = pa.array(np.arange(0, len(numbers) + 1, width, dtype=np.int32))
        rows = pc.binary_join(pa.ListArray.from_arrays(row_starts, numbers), " ").to_pylist()
        yield "".join(f"{word} {row}\n" for word, row in zip(table.words[block], rows, strict=True)).encode()


def _binary_rows(table: VectorTable) -> Iterator[bytes]:
    for word, vector in zip(table.words, table.vectors.astype("<f4", copy=False), strict=True):
        yield word.encode() + b" " + vector.tobytes() + b"\n"


def read_word2vec(
    path: str,
    binary: bool = False,
    encoding: str = "utf-8",
    unicode_errors: str = "strict",
    limit: int | None = None,
    no_header: bool = False,
) -> VectorTable:
    """Read word2vec's text or binary format, decompressed if the name ends in .gz, .bz2, .xz or .zst.

    At most ``limit`` words are read and held in memory. With ``no_header``, the text has no first line with the sizes;
    GloVe writes such files. Raises DataError.
    """
    check_encoding_name(encoding)
    name = "binary" if binary else "text"
    if binary and no_header:
        raise ValueError("no_header is for text files: a binary file cannot be read without its header")
    try:
        with _opened(path) as file:
            if no_header:
                encoded, vectors = _read_text_without_header(file, limit)
            else:
                n_words, width = _read_header(file, binary)
                n_read = n_words if limit is None else min(n_words, limit)
                read = _read_binary if binary else _read_text
                encoded, vectors, rest = read(file, n_read, width)
                # Without this check, text read as binary would pass: its digits would be taken for floats.
                if n_read == n_words and rest.strip():
                    raise ValueError(f"there is more data after {n_words} rows")
        words = _decoded(path, encoded, encoding, unicode_errors)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except DataError:
        raise
    except (ValueError, EOFError, OSError, MemoryError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        check_is_compressed(str(path))
        raise DataError(
            f"{path}: not a complete file of word vectors in word2vec's {name} format ({shortened(error)}); check the "
            f"argument binary, or write the file again"
        ) from None
    return _without_repetitions(path, words, vectors)


def _without_repetitions(path: str, words: list[str], vectors: np.ndarray) -> VectorTable:
    """Return the first vector of each word, as gensim does, and warn of words that occur more than once."""
    first_row: dict[str, int] = {}
    for row, word in enumerate(words):
        first_row.setdefault(word, row)
    n_words = len(words)
    if len(first_row) == n_words or len(vectors) != n_words:
        return VectorTable(words, vectors)
    rows = np.fromiter(first_row.values(), np.int64)
    example = next(word for row, word in enumerate(words) if first_row[word] != row)
    warnings.warn(
        f"{path}: {n_words - len(rows):,} of {pluralize(n_words, 'word')} occurred before, such as {example!r:.40}; "
        f"the first vector of each is kept",
        DataWarning,
        stacklevel=4,
    )
    return VectorTable(list(first_row), vectors[rows])


def _decoded(path: str, encoded: list[bytes], encoding: str, unicode_errors: str) -> list[str]:
    """Return words as text. Raises DataError for one that is not in this encoding, if the errors are strict."""
    try:
        return [word.decode(encoding) for word in encoded]
    except UnicodeDecodeError as error:
        row = encoded.index(error.object)
        if unicode_errors == "strict":
            raise DataError(
                f"{path}: the word {error.object[:MOST_CHARACTERS]!r} in row {row + 1} is not {encoding}; word2vec.c "
                f"cuts long words within a character: pass unicode_errors='replace' or 'ignore', or the encoding of "
                f"the file, or check the argument binary"
            ) from None
    words = [word.decode(encoding, unicode_errors) for word in encoded]
    n_changed = sum(word.encode(encoding, "replace") != given for word, given in zip(words, encoded, strict=True))
    warnings.warn(
        f"{path}: {pluralize(n_changed, 'word')} of {len(words):,} had bytes that are not {encoding}, such as "
        f"{words[row]!r:.40}",
        DataWarning,
        stacklevel=4,
    )
    return words


def _read_header(file: IO[bytes], binary: bool) -> tuple[int, int]:
    """Return the numbers of words and of dimensions in the first line."""
    try:
        first = file.readline(100).removeprefix(codecs.BOM_UTF8)
        n_words, width = (int(number) for number in first.split())
    except ValueError:
        if first.startswith(FASTTEXT):
            raise ValueError("it is a model in fastText's own format; load the file .vec that belongs to it") from None
        advice = "" if binary else "; load GloVe's with load_word2vec_format(..., no_header=True)"
        raise ValueError(f"the first line is not a header with two numbers{advice}") from None
    if width < 1:
        raise ValueError(f"its header says {width} dimensions")
    return n_words, width


def _read_text(file: IO[bytes], n_words: int, width: int) -> tuple[list[bytes], np.ndarray, bytes]:
    """Return words, vectors, and the line after them."""
    words: list[bytes] = []
    vectors = np.empty((n_words, width), np.float32)
    for row in range(n_words):
        words.append(_read_row(file.readline(), vectors[row], f"row {row + 1} of {n_words}"))
    return words, vectors, file.readline()


def _read_row(line: bytes, vector: np.ndarray, where: str) -> bytes:
    """Read the vector (D,) of a line, the last D fields, and return the word before them, which may have blanks."""
    fields = _last_fields(line, len(vector))
    # Where no word is before the numbers, the line begins with the blank after it.
    if len(fields) < len(vector) + (line[:1] not in (b" ", b"\t")):
        raise ValueError(f"{where} has {max(0, len(fields) - 1)} numbers, not {len(vector)}")
    if b"\r" in fields[0]:
        raise ValueError(f"{where} has a carriage return within it; convert the line ends: tr '\\r' '\\n'")
    numbers = fields[-len(vector) :] if len(vector) else []
    vector[:] = np.fromiter(map(float, numbers), np.float32, len(vector))
    return fields[0].lstrip(b" \t") if len(fields) > len(vector) else b""


def _last_fields(line: bytes, most: int) -> list[bytes]:
    """Return what is before the last fields of a line, if anything is, and up to ``most`` fields.

    Blanks and tabs are between fields. Other white space, such as a vertical tab, may be part of a word.
    """
    line = line.rstrip(b" \t\r\n")
    fields = line.rsplit(b" ", most)
    if b"" in fields or b"\t" in line:
        between = list(re.finditer(rb"[ \t]+", line))[-most:] if most else []
        stops = [found.start() for found in between]
        fields = [
            line[start:stop] for start, stop in zip([0, *(one.end() for one in between)], [*stops, None], strict=True)
        ]
    return fields if fields[0] else fields[1:]


def _read_text_without_header(file: IO[bytes], limit: int | None) -> tuple[list[bytes], np.ndarray]:
    first_lines = list(itertools.islice(file, LINES_FOR_WIDTH))
    if not first_lines:
        raise ValueError("it is empty")
    first_lines[0] = first_lines[0].removeprefix(codecs.BOM_UTF8)
    width = max(Counter(map(_trailing_numbers, first_lines)).items(), key=lambda found: found[::-1])[0]
    if width < 1:
        raise ValueError("most lines have no numbers")
    words: list[bytes] = []
    rows: list[np.ndarray] = []
    for line in itertools.islice(itertools.chain(first_lines, file), limit):
        rows.append(np.empty(width, np.float32))
        words.append(_read_row(line, rows[-1], f"row {len(rows)}"))
    return words, np.stack(rows)


def _trailing_numbers(line: bytes) -> int:
    """Return how many numbers are at the end of a line, after the word, which may be a number, or empty."""
    fields = _last_fields(line, len(line))
    most = len(fields) - (line[:1] not in (b" ", b"\t"))
    n_numbers = 0
    while n_numbers < most:
        try:
            float(fields[-1 - n_numbers])
        except ValueError:
            break
        n_numbers += 1
    return n_numbers


def _read_binary(file: IO[bytes], n_words: int, width: int) -> tuple[list[bytes], np.ndarray, bytes]:
    """Return words, vectors, and some of the bytes after them."""
    words: list[bytes] = []
    vectors = np.empty((n_words, width), np.float32)
    buffer = b""
    start = 0
    for row in range(n_words):
        # Extend the buffer until it holds the word, the space after it, and the whole vector.
        space = buffer.find(b" ", start)
        while space < 0 or len(buffer) < space + 1 + 4 * width:
            if space < 0 and len(buffer) - start > BINARY_BYTES_PER_READ:
                raise ValueError(f"row {row + 1} of {n_words} has no word")
            more = file.read(BINARY_BYTES_PER_READ)
            if not more:
                raise EOFError(f"the file ends in row {row + 1} of {n_words}")
            buffer = buffer[start:] + more
            start = 0
            space = buffer.find(b" ")
        # word2vec.c ends each row with a line feed; gensim does not.
        words.append(buffer[start:space].lstrip(b"\n"))
        vectors[row] = np.frombuffer(buffer, "<f4", width, space + 1)
        start = space + 1 + 4 * width
    return words, vectors, buffer[start:] + file.read(BINARY_BYTES_PER_READ)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file as a stream, decompressed by the ending of its name."""
    filesystem, where = filesystem_of(str(path))
    with explained_errors(filesystem, str(path)), unpacked(filesystem, where, "infer") as stream:
        yield stream
