"""Mutations of bytes that find errors in readers: flipped bits, cut ends, huge numbers, repeated and moved pieces."""

import random
import re

#: Numbers that overflow, or that make a reader allocate memory.
NUMBERS = (b"0", b"-1", b"1", b"2147483648", b"4294967296", b"9999999999999", b"1e308", b"nan", b"0x10", b"")
#: Bytes that have a meaning in some format.
TOKENS = (
    b"\0",
    b"\n",
    b"\r",
    b'"',
    b"'",
    b"{",
    b"[",
    b"]",
    b"}",
    b":",
    b",",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\x1a",
    b"%",
)
_DIGITS = re.compile(rb"\d+")


def mutate(content: bytes, seed: int) -> bytes:
    """Return the content with a few changes, which the seed determines."""
    draw = random.Random(seed)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 8))):
        content = draw.choice(MUTATIONS)(content, draw)
    return content


def _flip(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return content
    at = draw.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]


def _overwrite(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    value = draw.choice((b"\xff", b"\x00", b"\x7f", b"\x80")) * draw.choice((1, 2, 4, 8))
    return content[:at] + value + content[at + len(value) :]


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _remove(content: bytes, draw: random.Random) -> bytes:
    first = draw.randrange(len(content) + 1)
    return content[:first] + content[first + draw.randrange(1, 64) :]


def _repeat(content: bytes, draw: random.Random) -> bytes:
    first = draw.randrange(len(content) + 1)
    piece = content[first : first + draw.randrange(1, 64)]
    return content[:first] + piece * draw.choice((1, 2, 100)) + content[first:]


def _replace_number(content: bytes, draw: random.Random) -> bytes:
    found = list(_DIGITS.finditer(content))
    if not found:
        return _overwrite(content, draw)
    match = draw.choice(found)
    return content[: match.start()] + draw.choice(NUMBERS) + content[match.end() :]


def _insert_token(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(TOKENS) + content[at:]


MUTATIONS = (_flip, _flip, _overwrite, _cut, _remove, _repeat, _replace_number, _replace_number, _insert_token)
