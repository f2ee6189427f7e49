"""What messages show of names, of lines of files, and of the errors of libraries, which may be long or damaged."""

from collections.abc import Collection, Container
from itertools import islice

#: Names that a message lists, and the characters that it shows of each and of a line.
MOST_NAMES = 20
MOST_CHARACTERS = 40
#: Characters that a message shows of an error of a library, which may quote the file.
MOST_OF_AN_ERROR = 200


def listed(names: Collection[str], without: str = "none") -> str:
    """Return the first names of a file, each shortened and in quotes, and how many others there are.

    Returns ``without`` if there is none.
    """
    if not names:
        return without
    shown = []
    for name in islice(names, MOST_NAMES):
        shown.append(repr(name if len(name) <= MOST_CHARACTERS else f"{name[:MOST_CHARACTERS]}..."))
    others = len(names) - len(shown)
    if others:
        shown.append(f"and {others:,} more")
    return ", ".join(shown)


def pluralize(number: int, noun: str) -> str:
    """Write a count with its noun: 1 chunk, 1,234 chunks."""
    ending = "" if number == 1 else "s"
    return f"{number:,} {noun}{ending}"


def other_case(word: object, vocabulary: Container[str]) -> str:
    """Return the end of an error about an unknown word: the word in another case, if the vocabulary has that."""
    if isinstance(word, str):
        for other in (word.lower(), word.capitalize(), word.upper()):
            if other in vocabulary:
                return f"; did you mean {other!r}?"
    return ""


def line_start(line: bytes) -> str:
    """Return the start of a line of a file, which may be long or no text."""
    return line[:MOST_CHARACTERS].decode("utf-8", "replace")


def shortened(error: Exception) -> str:
    """Return the start of the message of a library's error."""
    text = str(error)
    return text if len(text) <= MOST_OF_AN_ERROR else f"{text[:MOST_OF_AN_ERROR]}..."
