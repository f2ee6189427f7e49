"""Comparing vectors by key, in memory, with the methods and results of gensim's KeyedVectors."""

from collections.abc import Sequence

import numpy as np

from .similarity import unit_vector
from .vector_lookup import Key, VectorLookup


class VectorComparison(VectorLookup):
    """Vectors by key: look up and compare. `VectorSearch` adds search."""

    def similarity(self, w1: Key, w2: Key) -> float:
        """Return the cosine similarity of two words.

        Parameters
        ----------
        w1, w2 : str or int
            Two words, or indices of their rows.

        Returns
        -------
        float
            From -1 to 1. A vector of zeros has similarity 0 with every vector.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> round(wv.similarity("cat", "dog"), 2)
        0.96
        """
        return float(self.get_vector(w1, norm=True) @ self.get_vector(w2, norm=True))

    def distance(self, w1: Key, w2: Key) -> float:
        """Return the cosine distance of two words: 1 minus their similarity.

        Parameters
        ----------
        w1, w2 : str or int
            Two words, or indices of their rows.

        Returns
        -------
        float
            From 0 to 2.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> round(wv.distance("cat", "dog"), 2)
        0.04
        """
        return 1.0 - self.similarity(w1, w2)

    def distances(self, word_or_vector: Key | np.ndarray, other_words: Sequence[Key] = ()) -> np.ndarray:
        """Return the cosine distances of a word or vector to other words.

        Parameters
        ----------
        word_or_vector : str, int or numpy.ndarray
            A word, the index of a row, or a vector (D,).
        other_words : sequence of str or int, default=()
            The n words to compare with. By default all V words.

        Returns
        -------
        numpy.ndarray
            (n,) float32, from 0 to 2.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> [round(distance, 2) for distance in wv.distances("cat", ["dog", "car"]).tolist()]
        [0.04, 1.0]
        """
        vector = word_or_vector if isinstance(word_or_vector, np.ndarray) else self.get_vector(word_or_vector)
        if len(other_words) == 0:
            return 1 - self._cosines(vector, slice(None))
        return 1 - self._cosines(vector, [self.get_index(word) for word in other_words])

    def n_similarity(self, ws1: Sequence[Key], ws2: Sequence[Key]) -> float:
        """Return the cosine similarity of the mean vectors of two lists of words.

        Parameters
        ----------
        ws1, ws2 : sequence of str or int
            Two lists of words. Unknown words are skipped.

        Returns
        -------
        float
            From -1 to 1.

        Raises
        ------
        ValueError
            If a list is empty.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> round(wv.n_similarity(["cat", "dog"], ["car"]), 2)
        -0.14
        """
        if len(ws1) == 0 or len(ws2) == 0:
            raise ValueError(f"lists of {len(ws1)} and {len(ws2)} words: give at least one word in each")
        mean1 = self.get_mean_vector(ws1, pre_normalize=False, post_normalize=True)
        mean2 = self.get_mean_vector(ws2, pre_normalize=False, post_normalize=True)
        return float(mean1 @ mean2)

    def closer_than(self, key1: Key, key2: Key) -> list[str]:
        """Return all words that are closer to one word than another word is.

        Parameters
        ----------
        key1 : str or int
            The word that distances are measured from.
        key2 : str or int
            The word that the result must be closer than.

        Returns
        -------
        list of str
            In the order of the rows.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.closer_than("cat", "car")
        ['dog']
        """
        distances = self.distances(key1)
        closer = np.flatnonzero(distances < distances[self.get_index(key2)])
        own = self.get_index(key1)
        return [self.index_to_key[index] for index in closer if index != own]

    def rank(self, key1: Key, key2: Key) -> int:
        """Return the rank of a word among all words, by distance from another word.

        Parameters
        ----------
        key1 : str or int
            The word that distances are measured from.
        key2 : str or int
            The word whose rank is returned.

        Returns
        -------
        int
            1 for the nearest word.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.rank("cat", "car")
        2
        """
        return len(self.closer_than(key1, key2)) + 1

    def rank_by_centrality(self, words: Sequence[Key], use_norm: bool = True) -> list[tuple[float, Key]]:
        """Sort words by their similarity to the mean of all of them.

        Parameters
        ----------
        words : sequence of str or int
            The words. Unknown ones are left out.
        use_norm : bool, default=True
            Scale each vector to length 1 first.

        Returns
        -------
        list of (float, str or int)
            Similarity and word, most similar first.

        Raises
        ------
        ValueError
            If no word is known.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> [word for similarity, word in wv.rank_by_centrality(["cat", "dog", "car"])]
        ['cat', 'dog', 'car']
        """
        known = [word for word in words if word in self]
        if not known:
            raise ValueError(f"none of the {len(words)} words is known")
        vectors = np.stack([self.get_vector(word, norm=use_norm) for word in known])
        similarities = vectors @ unit_vector(vectors.mean(axis=0))
        return sorted(zip(similarities.tolist(), known, strict=True), reverse=True)

    def doesnt_match(self, words: Sequence[Key]) -> Key:
        """Return the word that is least similar to the mean of some words.

        Parameters
        ----------
        words : sequence of str or int
            The words. Unknown ones are left out.

        Returns
        -------
        str or int
            One of the words.

        Raises
        ------
        ValueError
            If no word is known.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.doesnt_match(["cat", "dog", "car"])
        'car'
        """
        return self.rank_by_centrality(words)[-1][1]

    def most_similar_to_given(self, key1: Key, keys_list: Sequence[Key]) -> Key:
        """Return which of some words is most similar to another word.

        Parameters
        ----------
        key1 : str or int
            The word to compare with.
        keys_list : sequence of str or int
            The words to choose from.

        Returns
        -------
        str or int
            One of ``keys_list``.

        Raises
        ------
        KeyError
            If a word is unknown.
        ValueError
            If ``keys_list`` is empty.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.most_similar_to_given("cat", ["car", "dog"])
        'dog'
        """
        similarities = [self.similarity(key1, key) for key in keys_list]
        return keys_list[int(np.argmax(similarities))]
