"""Stores in memory do what stores in folders do, as far as runs need it."""

import numpy as np
import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.stores.in_memory import StoreInMemory, open_store, url_in_memory
from corpusmill.io.stores.store import Store


def test_files_and_arrays_are_found_below_their_folder_until_it_is_deleted():
    with url_in_memory() as url:
        store = open_store(url)
        assert isinstance(store, StoreInMemory)
        store.write_arrays("epochs/1/blocks/0000", {"W": np.arange(3)})
        store.write_arrays("epochs/1/blocks/0001", {"W": np.arange(4)})
        store.write_json("epochs/1/rows.json", [1])
        store.write_arrays("epochs/2/blocks/0000", {"W": np.arange(5)})
        # Another object for the same URL has the same content.
        other = open_store(url)
        assert other.names("epochs") == ["1", "2"]
        assert other.names("epochs/1") == ["blocks", "rows.json"]
        assert other.numbers("epochs/1/blocks") == [0, 1]
        assert other.read_arrays("epochs/1/blocks/0001")["W"].tolist() == [0, 1, 2, 3]
        other.delete("epochs/1")
        assert store.names("epochs") == ["2"]
        assert not store.exists("epochs/1")
        with pytest.raises(DataError, match="missing from its store"):
            store.read_arrays("epochs/1/blocks/0000")
    assert not open_store(url).exists("epochs")


def test_constant_arrays_are_copied_only_when_they_are_read():
    with url_in_memory() as url:
        store = open_store(url)
        given = np.zeros(3)
        store.write_constant_arrays("a", {"x": given, "transposed": np.arange(6).reshape(2, 3).T})
        store.read_arrays("a")["x"][:] = 2
        assert given.tolist() == [0, 0, 0]
        # Nobody may do this. It shows that no copy was made.
        given += 1
        assert store.read_arrays("a")["x"].tolist() == [1, 1, 1]
        assert store.read_arrays("a")["transposed"].flags.c_contiguous


def test_arrays_are_copied_when_they_are_written_and_read():
    with url_in_memory() as url:
        store = open_store(url)
        given = np.zeros(3)
        store.write_arrays("a", {"x": given, "y": given})
        given += 1
        store.read_arrays("a")["x"][:] = 2
        assert store.read_arrays("a", only=["x"]).keys() == {"x"}
        assert store.read_arrays("a")["x"].tolist() == [0, 0, 0]


def test_other_urls_have_stores_of_their_own_kind(tmp_path):
    assert type(open_store(str(tmp_path))) is Store
    assert type(open_store("memory://elsewhere")) is Store
