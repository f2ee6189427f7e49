"""Reader of LDA-C files, the format of the data sets of Blei's programs."""

from ..errors import DataError
from ..messages import line_start
from .svmlight import SVMLightReader


class LDACReader(SVMLightReader):
    """One document per line, as ``N word:count word:count ...`` with N pairs. Words are numbered from 0."""

    kind = "LDAC"
    _first_field = "N"
    _first_column = 0

    def _check_first_field(self, field: bytes, n_columns: int, where: str) -> None:
        if field != str(n_columns).encode():
            raise DataError(
                f"{where}: the line has {n_columns} different words, but begins with {line_start(field)!r}; an LDA-C "
                f"line begins with the number of its word:count pairs"
            )
