"""Reading and writing word2vec's text and binary formats, which gensim and fastText use too, and GloVe's."""

import contextlib
from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....io.errors import DataError
from ....io.messages import shortened
from ....io.readers.source import unpacked
from ....io.stores.object_stores import explained_errors
from ....io.stores.store import filesystem_of
from .files import VectorTable, write_file

#: Rows of text formatted at once.
TEXT_ROWS_PER_BLOCK = 1 << 12
#: Bytes of a binary file read at once; also the longest word accepted there.
BINARY_BYTES_PER_READ = 1 << 20


def write_word2vec(
    path: str, table: VectorTable, binary: bool = False, write_header: bool = True, vocabulary_path: str | None = None
) -> None:
    """Write word2vec's text or binary format, compressed if the name ends in .gz, .bz2 or .xz.

    ``write_header=False`` leaves out the first line, as in GloVe's files. ``vocabulary_path`` also writes a file of
    lines "word count". Raises ValueError for words that the format cannot hold, and for missing counts.
    """
    # Fields are separated by blanks, and vectors by line ends.
    unusable = next((word for word in table.words if word.split() != [word]), None)
    if unusable is not None:
        raise ValueError(
            f"the word2vec format cannot hold {unusable!r}: words must have no white space, and not be empty"
        )
    if vocabulary_path is not None:
        if table.counts is None:
            raise ValueError(f"{vocabulary_path}: these vectors have no word counts to write")
        pairs = zip(table.words, table.counts.tolist(), strict=True)
        write_file(vocabulary_path, "".join(f"{word} {count}\n" for word, count in pairs).encode())
    parts = []
    if write_header:
        parts.append(f"{len(table.words)} {table.vectors.shape[1]}\n".encode())
    parts.extend(_binary_rows(table) if binary else _text_rows(table))
    write_file(path, b"".join(parts))


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
    vocabulary_path: str | None = None,
) -> VectorTable:
    """Read word2vec's text or binary format, decompressed if the name ends in .gz, .bz2, .xz or .zst.

    At most ``limit`` words are read and held in memory. With ``no_header``, the text has no first line with the sizes;
    GloVe writes such files. ``vocabulary_path`` is a file of lines "word count". Raises DataError.
    """
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
        words = [word.decode(encoding, unicode_errors) for word in encoded]
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except DataError:
        raise
    except (ValueError, EOFError, OSError, MemoryError) as error:
        raise DataError(
            f"{path}: not a complete file of word vectors in word2vec's {name} format ({shortened(error)}); check the "
            f"argument binary, or write the file again"
        ) from None
    counts = None
    if vocabulary_path is not None:
        counts = _read_counts(vocabulary_path, words)
    return VectorTable(words, vectors, counts)


def _read_header(file: IO[bytes], binary: bool) -> tuple[int, int]:
    """Return the numbers of words and of dimensions in the first line."""
    try:
        n_words, width = (int(number) for number in file.readline(100).split())
    except ValueError:
        advice = "" if binary else "; for a file without it, such as GloVe's, pass no_header=True"
        raise ValueError(f"the first line is not a header with two numbers{advice}") from None
    return n_words, width


def _read_text(file: IO[bytes], n_words: int, width: int) -> tuple[list[bytes], np.ndarray, bytes]:
    """Return words, vectors, and the line after them."""
    words: list[bytes] = []
    vectors = np.empty((n_words, width), np.float32)
    for row in range(n_words):
        word, *numbers = file.readline().rstrip().split(b" ")
        if len(numbers) != width:
            raise ValueError(f"row {row + 1} of {n_words} has {len(numbers)} numbers, not {width}")
        words.append(word)
        vectors[row] = np.array(numbers, "S").astype(np.float32)
    return words, vectors, file.readline()


def _read_text_without_header(file: IO[bytes], limit: int | None) -> tuple[list[bytes], np.ndarray]:
    words: list[bytes] = []
    rows: list[np.ndarray] = []
    for line in file:
        if limit is not None and len(words) == limit:
            break
        # Without a header, neither the number of words nor their dimension is known in advance.
        word, *numbers = line.rstrip().split(b" ")
        words.append(word)
        rows.append(np.array(numbers, "S").astype(np.float32))
        if len(rows[-1]) != len(rows[0]):
            raise ValueError(f"row {len(rows)} has {len(rows[-1])} numbers, not {len(rows[0])} as the first row")
    if not rows:
        raise ValueError("it is empty")
    return words, np.stack(rows)


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


def _read_counts(path: str, words: list[str]) -> np.ndarray:
    count_of: dict[str, int] = {}
    try:
        with _opened(path) as file:
            for line in file:
                word, count = line.decode().split()
                count_of[word] = int(count)
        return np.array([count_of[word] for word in words], np.int64)
    except KeyError as error:
        raise DataError(f"{path}: has no count for the word {error}") from None
    except DataError:
        raise
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path}: not a file of lines 'word count' ({error})") from None


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file as a stream, decompressed by the ending of its name."""
    filesystem, where = filesystem_of(str(path))
    with explained_errors(filesystem, str(path)), unpacked(filesystem, where, "infer") as stream:
        yield stream
