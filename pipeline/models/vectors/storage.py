"""Saving and loading word vectors in common formats."""

from abc import ABC, abstractmethod
from typing import Self

from . import files as vector_files
from . import word2vec_format
from .files import VectorTable

#: Format by ending of a file's name.
ENDINGS = {
    ".txt": "word2vec text",
    ".bin": "word2vec binary",
    ".safetensors": "safetensors",
    ".parquet": "Parquet",
    ".zarr": "Zarr",
}


class VectorStorage(ABC):
    """Mixin for vectors by key that are saved and loaded."""

    @classmethod
    @abstractmethod
    def _from_table(cls, path: str, table: VectorTable) -> Self:
        """Return the vectors that were read from ``path``; raise DataError if words, vectors and counts do not fit."""

    @property
    @abstractmethod
    def _table(self) -> VectorTable:
        """The words, vectors and counts."""

    def save(self, path: str) -> None:
        """Save in the format given by the ending of the name.

        .txt and .bin are word2vec's text and binary formats, which store no counts. Every format stores the exact
        float32 values. For gensim's own format, use ``wv.to_gensim().save(path)``.

        Parameters
        ----------
        path : str
            Path or URL that ends in .txt, .bin, .safetensors, .parquet or .zarr.

        Raises
        ------
        ValueError
            If the ending is another one, or the format cannot store the words.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save("animals.parquet")
        >>> WordVectors.load("animals.parquet")
        WordVectors(3 words, 2 dimensions)
        """
        match _ending(path):
            case ".txt":
                self.save_word2vec_format(path)
            case ".bin":
                self.save_word2vec_format(path, binary=True)
            case ".safetensors":
                self.save_safetensors(path)
            case ".parquet":
                self.save_parquet(path)
            case _:
                self.save_zarr(path)

    @classmethod
    def load(cls, path: str) -> Self:
        """Read what `save` has written, in the format given by the ending of the name.

        For gensim's own format, use ``WordVectors.from_gensim(KeyedVectors.load(path))``.

        Parameters
        ----------
        path : str
            Path or URL that ends in .txt, .bin, .safetensors, .parquet or .zarr.

        Returns
        -------
        WordVectors
            The vectors, in memory.

        Raises
        ------
        ValueError
            If the ending is another one.
        DataError
            If the file is missing, damaged or of another format.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save("animals.txt")
        >>> WordVectors.load("animals.txt")["dog"]
        array([4., 3.], dtype=float32)
        """
        match _ending(path):
            case ".txt":
                return cls.load_word2vec_format(path)
            case ".bin":
                return cls.load_word2vec_format(path, binary=True)
            case ".safetensors":
                return cls.load_safetensors(path)
            case ".parquet":
                return cls.load_parquet(path)
            case _:
                return cls.load_zarr(path)

    def save_word2vec_format(
        self, fname: str, fvocab: str | None = None, binary: bool = False, *, write_header: bool = True
    ) -> None:
        """Write word2vec's text or binary format; compressed if the name ends in .gz, .bz2 or .xz.

        Parameters
        ----------
        fname : str
            Path or URL.
        fvocab : str, optional
            Path of a second file for the counts, with lines "word count".
        binary : bool, default=False
            Write the binary format.
        write_header : bool, default=True
            Write the first line, with the numbers of words and dimensions. GloVe's format has none.

        Raises
        ------
        ValueError
            If a word is empty or has white space, or if ``fvocab`` is given but no counts are known.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_word2vec_format("animals.txt.gz")
        """
        word2vec_format.write_word2vec(fname, self._table, binary, write_header, fvocab)

    @classmethod
    def load_word2vec_format(
        cls,
        fname: str,
        fvocab: str | None = None,
        binary: bool = False,
        encoding: str = "utf-8",
        unicode_errors: str = "strict",
        limit: int | None = None,
        *,
        no_header: bool = False,
    ) -> Self:
        """Read word2vec's text or binary format, as word2vec.c, gensim and fastText write it, or GloVe's.

        Parameters
        ----------
        fname : str
            Path or URL. Decompressed if the name ends in .gz, .bz2 or .xz.
        fvocab : str, optional
            Path of a file with lines "word count", to read the counts from.
        binary : bool, default=False
            Read the binary format.
        encoding : str, default="utf-8"
            Encoding of the words.
        unicode_errors : {"strict", "ignore", "replace"}, default="strict"
            What to do with words that are not valid in this encoding. word2vec.c may cut words within a character.
        limit : int, optional
            Read this number of words at most. Default: all.
        no_header : bool, default=False
            The text begins with the first vector, as in GloVe's files.

        Returns
        -------
        WordVectors
            The vectors, in memory.

        Raises
        ------
        DataError
            If the file is missing, incomplete or of another format.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_word2vec_format("animals.txt.gz")
        >>> WordVectors.load_word2vec_format("animals.txt.gz", limit=2)
        WordVectors(2 words, 2 dimensions)
        """
        table = word2vec_format.read_word2vec(fname, binary, encoding, unicode_errors, limit, no_header, fvocab)
        return cls._from_table(fname, table)

    def save_safetensors(self, path: str) -> None:
        """Write a safetensors file: tensors ``vectors`` and ``counts`` (if known), words as JSON in the metadata.

        Parameters
        ----------
        path : str
            Path or URL. Something that exists there is replaced.

        Raises
        ------
        ValueError
            If the words exceed the format's limit for metadata (several million words).

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_safetensors("animals.safetensors")
        """
        vector_files.write_safetensors(path, self._table)

    @classmethod
    def load_safetensors(cls, path: str) -> Self:
        """Read what `save_safetensors` has written.

        Parameters
        ----------
        path : str
            Path or URL.

        Returns
        -------
        WordVectors
            The vectors, in memory.

        Raises
        ------
        DataError
            If the file is missing, damaged or of another form.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_safetensors("animals.safetensors")
        >>> WordVectors.load_safetensors("animals.safetensors")
        WordVectors(3 words, 2 dimensions)
        """
        return cls._from_table(path, vector_files.read_safetensors(path))

    def save_parquet(self, path: str) -> None:
        """Write a Parquet file with the columns ``word``, ``vector`` (a list of D floats) and, if known, ``count``.

        Parameters
        ----------
        path : str
            Path or URL. Something that exists there is replaced.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_parquet("animals.parquet")
        """
        vector_files.write_parquet(path, self._table)

    @classmethod
    def load_parquet(cls, path: str) -> Self:
        """Read what `save_parquet` has written.

        Parameters
        ----------
        path : str
            Path or URL.

        Returns
        -------
        WordVectors
            The vectors, in memory.

        Raises
        ------
        DataError
            If the file is missing, damaged or of another form.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_parquet("animals.parquet")
        >>> WordVectors.load_parquet("animals.parquet")
        WordVectors(3 words, 2 dimensions)
        """
        return cls._from_table(path, vector_files.read_parquet_vectors(path))

    def save_zarr(self, url: str) -> None:
        """Write a Zarr group with the array ``vectors`` and, if known, ``counts``; the words are in ``words.json``.

        Parameters
        ----------
        url : str
            Path or URL. Something that exists there is replaced.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_zarr("animals.zarr")
        """
        vector_files.write_zarr(url, self._table)

    @classmethod
    def load_zarr(cls, url: str) -> Self:
        """Read what `save_zarr` has written.

        Parameters
        ----------
        url : str
            Path or URL.

        Returns
        -------
        WordVectors
            The vectors, in memory.

        Raises
        ------
        DataError
            If the group is missing, damaged or of another form.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_zarr("animals.zarr")
        >>> WordVectors.load_zarr("animals.zarr")
        WordVectors(3 words, 2 dimensions)
        """
        return cls._from_table(url, vector_files.read_zarr(url))


def _ending(path: str) -> str:
    for ending in ENDINGS:
        if str(path).endswith(ending):
            return ending
    raise ValueError(f"{path}: the name of a file of word vectors ends in one of {', '.join(ENDINGS)}")
