"""Caches for host arrays: copies on the device, and derived values."""

import threading
import time
import weakref

import numpy as np
import pytest
from corpusmill.kernels.cuda import caches, memory, residents
from helpers.on_device import on_device


def test_values_are_found_by_the_arrays_themselves_in_order_of_last_use():
    first, second = np.zeros(3), np.zeros(3)
    found = residents.ArrayMap()
    found.put((first,), "first")
    found.put((second,), "second")
    found.put((first, second), "both")
    assert [found.get(arrays) for arrays in ((first,), (second,), (first, second))] == ["first", "second", "both"]
    assert found.get((second, first)) is None
    assert found.get((first.copy(),)) is None
    found.get((first,))
    assert [found.pop_oldest() for _ in range(3)] == ["second", "both", "first"]
    assert len(found) == 0


def test_an_entry_ends_with_the_first_of_its_arrays():
    arrays = [np.zeros(1), np.zeros(1)]
    found = residents.ArrayMap()
    found.put(tuple(arrays), "both")
    assert list(found.pop_dead()) == []
    arrays.pop()
    assert list(found.pop_dead()) == ["both"]
    assert len(found) == 0


def test_a_new_array_with_the_id_of_a_dead_one_has_no_value(monkeypatch):
    old, new = np.zeros(1), np.ones(1)
    monkeypatch.setattr(residents, "_key", lambda arrays: (7,) * len(arrays))
    found = residents.ArrayMap()
    found.put((old,), "old")
    assert found.get((new,)) is None
    del old
    found.pop((new,))
    found.put((new,), "new")
    # The death of the old array must not remove the new one's entry.
    assert list(found.pop_dead()) == []
    assert found.get((new,)) == "new"


@on_device
def test_a_copy_is_freed_by_a_thread_that_uses_the_device():
    host = [np.arange(10)]
    copy = weakref.ref(memory.cached_copy(host[0], "host"))
    assert memory.cached_copy(host[0], "host") is copy()
    ending = threading.Thread(target=host.clear)
    ending.start()
    ending.join()
    assert copy() is not None
    memory.allocate(1, np.int8, "one byte")
    assert copy() is None


@on_device
def test_all_copies_are_dropped_if_memory_is_short():
    host = np.arange(10)
    copy = weakref.ref(memory.cached_copy(host, "host"))
    caches.COPIES.clear()
    assert (copy(), caches.COPIES.nbytes) == (None, 0)
    np.testing.assert_array_equal(memory.download(memory.cached_copy(host, "host"), "host"), host)


@on_device
def test_the_least_recently_used_copies_are_dropped_first(monkeypatch):
    copies = caches.CopyCache()
    monkeypatch.setattr(copies, "_limit", 200)
    hosts = [np.zeros(10) for _ in range(3)]
    for host in hosts[:2]:
        copies.put(host, memory.upload(host, "host"))
    assert copies.get(hosts[0]) is not None
    copies.put(hosts[2], memory.upload(hosts[2], "host"))
    assert copies.nbytes == 160
    assert [copies.get(host) is None for host in hosts] == [False, True, False]


@on_device
def test_arrays_deleted_during_a_lookup_lose_no_entry():
    copies, living = caches.CopyCache(), np.zeros(4)
    copies.put(living, memory.upload(living, "host"))
    failures = []

    def use():
        try:
            for _ in range(300):
                dying = np.zeros(4)
                copies.put(dying, memory.upload(dying, "host"))
                del dying
                assert copies.get(living) is not None
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert copies.nbytes == living.nbytes


def test_derived_values_are_computed_once_and_end_with_their_sources():
    sources = [np.arange(5), np.arange(5)]
    calls = []

    def compute():
        calls.append(1)
        time.sleep(0.05)
        return np.arange(5)

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(memory.derived(tuple(sources), "name", compute))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert all(value is found[0] for value in found)
    value = weakref.ref(found[0])
    found.clear()
    sources.pop()
    memory.derived(sources[0], "another", lambda: 0)
    assert value() is None


@pytest.mark.parametrize("name", ["another", ("reversed", 2)])
def test_derived_values_depend_on_their_name_and_their_source(name):
    words, other = np.arange(5), np.arange(5)
    assert memory.derived(words, "reversed", lambda: 1) == 1
    assert memory.derived(words, name, lambda: 2) == 2
    assert memory.derived(other, "reversed", lambda: 3) == 3
    assert memory.derived((words, other), "reversed", lambda: 4) == 4
    assert memory.derived(words, "reversed", lambda: 5) == 1
