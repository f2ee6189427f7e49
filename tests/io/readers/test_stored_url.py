"""URLs are stored without the parts of their queries that may grant access."""

import pytest
from corpusmill.io.readers.source import SourceFile, stored_url


@pytest.mark.parametrize(
    "url, stored",
    [
        ("articles/what?.jsonl", "articles/what?.jsonl"),
        ("https://host/a.jsonl", "https://host/a.jsonl"),
        ("https://host/a.jsonl?X-Amz-Signature=1&X-Amz-Expires=60&x-amz-credential=k", "https://host/a.jsonl"),
        ("https://host/a.jsonl?sv=2020&sp=r&se=2026-11-22&sig=abc%3D", "https://host/a.jsonl"),
        ("https://host/a.jsonl?GoogleAccessId=a&Expires=1&Signature=b", "https://host/a.jsonl"),
    ],
)
def test_signatures_are_dropped(url, stored):
    assert stored_url(url) == stored


def test_other_parameters_distinguish_files_but_cannot_be_read():
    first = stored_url("https://host/get?id=17&sig=a")
    assert first == stored_url("https://host/get?sig=b&id=17")
    assert first != stored_url("https://host/get?id=18&sig=a")
    assert first.startswith("https://host/get?hidden=")
    assert "17" not in first.removesuffix(first[-8:])


@pytest.mark.parametrize(
    "url, extension, compression",
    [
        ("https://host/a.jsonl.gz?sig=a.csv", ".jsonl", "gzip"),
        ("https://host/a.csv?sig=x", ".csv", None),
        ("what?.csv", ".csv", None),
    ],
)
def test_the_query_of_a_url_does_not_hide_its_format(url, extension, compression):
    file = SourceFile(url, "a", 0, "")
    assert (file.extension, file.compression) == (extension, compression)
