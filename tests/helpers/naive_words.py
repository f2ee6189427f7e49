"""Reference implementation of splitting texts into words, and of numbering and counting them. See naive.py."""

import re


def words_of_texts(texts, pattern, lowercase, is_counted):
    """Return the numbers of each text's words, the words, and their term and document frequencies.

    Words are numbered in the order of their first occurrence, and counted in the texts where ``is_counted`` is true.
    """
    numbers = {}
    documents = []
    term_frequency = []
    document_frequency = []
    for text, counted in zip(texts, is_counted, strict=True):
        found = re.findall(pattern, text.lower() if lowercase else text)
        for word in found:
            if word not in numbers:
                numbers[word] = len(numbers)
                term_frequency.append(0)
                document_frequency.append(0)
            term_frequency[numbers[word]] += counted
        for word in set(found):
            document_frequency[numbers[word]] += counted
        documents.append([numbers[word] for word in found])
    return documents, list(numbers), term_frequency, document_frequency
