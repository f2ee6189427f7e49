"""Recognise formats by the beginning of a file, and check that files of text hold no numbers or binary data.

A model of numbers or of binary data trains without an error, and its words are numbers. So the format of such files is
not guessed.
"""

import codecs
import json
import re
import warnings
from collections.abc import Mapping, Sequence

from ..errors import DataError, DataWarning
from ..messages import line_start, pluralize
from .source import SourceFile, open_file, read_some

#: The check reads the beginning of a few files only, because a source may have a million files.
CHECKED_FILES = 5
_CHECKED_BYTES = 1 << 16

#: A line of LDA-C or svmlight: a number, then pairs such as 17:2. There may be none.
_PAIRS = re.compile(rb"\s*[+-]?[\d.]+(\s+\d+:\d+)*\s*")
#: A line of numbers only.
_NUMBERS = re.compile(rb"[\s\d.,;:eE+-]+")

_ADVICE = "choose the format with the option format"
#: How files of markup begin; XML needs no declaration, but it mostly has a namespace then.
_MARKUP = re.compile(
    rb"(\xef\xbb\xbf)?\s*<(!doctype\b|html\b|\?xml\b|rss\b|[a-z][\w:.-]*\s[^<>]*\bxmlns\b)", re.IGNORECASE
)

#: Formats of tables and matrices by the extensions of their files.
TABLE_EXTENSIONS = {
    ".npz": "npz",
    ".mtx": "matrixmarket",
    ".mm": "matrixmarket",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
#: How files of some formats begin.
_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",  # a stream
    b"%%MatrixMarket": "matrixmarket",
}
#: How files begin that are of no format, and what to do with them.
_REFUSED = {
    b"%PDF-": "a PDF file; extract its text first, for example with pdftotext",
    b"{\\rtf": "a file of RTF; save it as plain text",
    b"FEA1": "Feather of version 1; write it again with pyarrow.feather.write_feather",
    b"\x1f\x8b": "compressed by gzip; let its name end in .gz",
    b"BZh9": "compressed by bzip2; let its name end in .bz2",
    b"\xfd7zXZ\0": "compressed by xz; let its name end in .xz",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard; let its name end in .zst",
    b"\x04\x22\x4d\x18": "compressed by LZ4; unpack it, or compress it by Zstandard",
    b"\xd0\xcf\x11\xe0": "a document of Office; save it as text, or as CSV",
    b"\x93NUMPY": "an array of NumPy; save it with scipy.sparse.save_npz, or load it and pass it in Python",
    b"SQLite format 3\0": "a database of SQLite; write its table as CSV",
    b"Obj\1": "a file of Avro; convert it to Parquet",
    b"%!PS": "a file of PostScript; extract its text first, for example with ps2ascii",
}
#: Extensions of files of text in which words of the format are among those of the documents.
_STRUCTURED = (".xml", ".yaml", ".yml", ".toml", ".ipynb")
_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK\x03\x04"
#: Marks of encodings. That of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def format_by_content(file: SourceFile, by_name: str) -> str:
    """Return the format that the beginning of a file means, or else the one that its name means.

    Raises DataError for files that no format has, such as PDF.
    """
    if file.encoding is not None:
        return by_name
    beginning = read_beginning(file)
    for magic, reason in _REFUSED.items():
        if beginning.startswith(magic):
            if file.compression and reason.startswith("compressed"):
                reason = f"compressed twice, first {reason.partition(';')[0].partition(' ')[2]}; unpack it once"
            raise DataError(f"{file.url}: {reason}")
    for magic, name in _MAGIC.items():
        if beginning.startswith(magic):
            return name
    if _MARKUP.match(beginning) or file.extension in _STRUCTURED:
        what = "HTML or XML" if _MARKUP.match(beginning) else f"its name ends in {file.extension}"
        raise DataError(f"{file.url}: {what}; convert it to text, CSV or JSONL, or {_ADVICE}")
    if beginning.startswith(_HDF5) and by_name not in ("h5ad", "10x-h5"):
        raise DataError(f"{file.url}: a file of HDF5; choose format=h5ad or format=10x-h5")
    if beginning.startswith(_ZIP):
        # The first name in the archive is after the first 30 bytes.
        if b".npy" not in beginning[30:100]:
            raise DataError(f"{file.url}: a zip archive or a document of Office; unpack it, or save it as CSV")
        return "npz"
    return by_name


def check_one_format(source: object, formats: Mapping[str, SourceFile]) -> None:
    """Raise DataError if the files of a source have several formats, given with one file of each."""
    if len(formats) > 1:
        shown = ", ".join(f"{name} such as {formats[name].name}" for name in sorted(formats))
        raise DataError(f"{source}: files of several formats ({shown}); name the files of one format with a pattern")


def check_encoding_name(name: str) -> None:
    """Raise ValueError unless this is an encoding of text; Python has others, such as hex and rot13."""
    try:
        "".encode(name)
        codecs.getincrementaldecoder(name)
    except (LookupError, UnicodeError):
        raise ValueError(f"encoding={name!r} is no encoding of text: choose one such as utf-16, cp1252") from None


def check_encoding(files: Sequence[SourceFile], advice: str = "ingest it with encoding={}") -> None:
    """Raise DataError if a file of text is in UTF-16 or UTF-32."""
    for file in files[:CHECKED_FILES]:
        beginning = b"" if file.encoding else read_beginning(file)
        encoding = next((name for mark, name in _MARKS.items() if beginning.startswith(mark)), None)
        encoding = encoding or _encoding_by_zeros(beginning)
        if encoding is not None:
            raise DataError(f"{file.url}: text in {encoding.upper()}; {advice.format(encoding)}")


#: Bytes of text in ASCII.
_PRINTED = frozenset(b"\t\n\r" + bytes(range(0x20, 0x7F)))


def _encoding_by_zeros(beginning: bytes) -> str | None:
    """Return the form of UTF-16 without a mark if every other byte of some ASCII is 0; else None."""
    start = beginning[: 2 * (min(len(beginning), 64) // 2)]
    for encoding, zeros, others in (("utf-16-le", start[1::2], start[::2]), ("utf-16-be", start[::2], start[1::2])):
        if start and not any(zeros) and all(byte in _PRINTED for byte in others):
            return encoding
    return None


def check_is_text(files: Sequence[SourceFile]) -> None:
    """Raise DataError if a file is binary, or if the first lines of all checked files consist of numbers.

    Says if these lines may be those of a table.
    """
    check_encoding(files)
    lines: list[bytes] = []
    for file in files[:CHECKED_FILES]:
        beginning = read_beginning(file)
        if b"\0" in beginning:
            raise DataError(
                f"{file.url}: binary data, not text in UTF-8; {_ADVICE}, or name the files of text with a pattern"
            )
        lines += [line for line in beginning.splitlines() if line.strip()]
    if not lines:
        return
    first = line_start(lines[0])
    if all(_is_json_object(line) for line in lines):
        raise DataError(
            f"{files[0].url}: the lines are JSON objects ({first!r}); {_ADVICE}: jsonl, or lines if this is text"
        )
    if any(b":" in line for line in lines) and all(_PAIRS.fullmatch(line) for line in lines):
        raise DataError(
            f"{files[0].url}: the lines look like LDA-C or svmlight, not text ({first!r}); {_ADVICE}: lda-c if "
            f"each line begins with its number of pairs, svmlight if it begins with a label, or lines if this is text"
        )
    if all(_NUMBERS.fullmatch(line) and re.search(rb"\d", line) for line in lines):
        raise DataError(
            f"{files[0].url}: the first lines consist of numbers only ({first!r}); {_ADVICE}: lda-c, docword, "
            f"svmlight or matrixmarket for counts, lines or text if these numbers are the words"
        )
    n_tabs = lines[0].count(b"\t")
    if n_tabs and len(lines) > 1 and all(line.count(b"\t") == n_tabs for line in lines):
        warnings.warn(
            f"{files[0].url}: the first lines have {pluralize(n_tabs, 'tab')} each ({first!r}), and are read as text; "
            f"if this is a table, choose format=csv with delimiter='\\t', otherwise format=lines or text",
            DataWarning,
            stacklevel=3,
        )


def _is_json_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_beginning(file: SourceFile) -> bytes:
    """Return the first bytes of a file, up to the end of its last complete line if it is longer."""
    with open_file(file) as stream:
        beginning = read_some(stream, _CHECKED_BYTES, file)
    if len(beginning) == _CHECKED_BYTES and b"\n" in beginning:
        return beginning[: beginning.rindex(b"\n")]
    return beginning
