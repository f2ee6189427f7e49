"""Reader of LDA-C files, the format of the data sets of Blei's programs."""

from ..errors import DataError
from ..messages import line_start
from .svmlight import SVMLightReader


class LDACReader(SVMLightReader):
    """One document per line, as ``N word:count word:count ...`` with N pairs. Words are numbered from 0."""

    kind = "LDAC"
    _first_field = "N"
    _first_column = 0

    def _check_number(self, found: dict[int, int], n_pairs: int, text: bytes, where: str) -> None:
        promised = text.split()[0]
        if promised != str(len(found)).encode():
            raise DataError(
                f"{where}: the line has {len(found)} different words, but begins with {line_start(promised)!r}; an "
                f"LDA-C line begins with the number of its word:count pairs"
            )
        super()._check_number(found, n_pairs, text, where)
