"""One writer at a time on an object store: conditional writes, and locks whose owners may die."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from corpusmill.io.errors import DataError, Locked
from corpusmill.io.stores.conditional import read_with_tag, write_if_unchanged
from corpusmill.io.stores.locks import EXPIRY_VARIABLE, ObjectLock, acquire_lock, expiry_seconds, is_locked
from corpusmill.io.stores.store import Store
from helpers.clock import replace_clock

#: The server's clock counts whole seconds.
EXPIRY = 2.0


@pytest.fixture(params=["local", "memory", "s3"])
def store(request, tmp_path):
    if request.param == "local":
        return Store(tmp_path)
    if request.param == "memory":
        return Store(f"memory://{tmp_path.name}")
    return Store(f"{request.getfixturevalue('bucket')}/{tmp_path.name}")


@pytest.fixture
def remote(bucket, tmp_path):
    return Store(f"{bucket}/{tmp_path.name}")


def test_only_the_first_creates_and_only_the_last_state_is_replaced(store):
    assert read_with_tag(store, "HEAD") == (None, "")
    assert write_if_unchanged(store, "HEAD", b"one", "")
    assert not write_if_unchanged(store, "HEAD", b"two", "")
    content, tag = read_with_tag(store, "HEAD")
    assert content == b"one"
    assert write_if_unchanged(store, "HEAD", b"three", tag)
    assert not write_if_unchanged(store, "HEAD", b"four", tag)
    assert read_with_tag(store, "HEAD")[0] == b"three"


def test_one_of_many_concurrent_writers_wins(remote):
    assert write_if_unchanged(remote, "HEAD", b"start", "")
    _, tag = read_with_tag(remote, "HEAD")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: write_if_unchanged(remote, "HEAD", f"{i}".encode(), tag), range(8)))
    winners = [i for i, tag in enumerate(won) if tag]
    assert len(winners) == 1
    assert read_with_tag(remote, "HEAD")[0] == str(winners[0]).encode()


def test_a_write_counts_even_if_its_response_was_lost(remote):
    assert write_if_unchanged(remote, "HEAD", b"mine", "")
    assert write_if_unchanged(remote, "HEAD", b"mine", "")
    assert not write_if_unchanged(remote, "HEAD", b"mine", "", is_unique=False)


def test_a_lock_is_held_and_released(remote):
    with acquire_lock(remote, "lock", "someone trains") as check:
        check()
        with pytest.raises(Locked, match=r"someone trains \(process \d+ on .* the lock is free in \d+ s\)"):
            with acquire_lock(remote, "lock", "someone trains"):
                pass
    with acquire_lock(remote, "lock", "someone trains"):
        pass
    assert not is_locked(remote, "lock")


def test_only_the_lock_of_a_dead_owner_is_taken_over(remote):
    dead = ObjectLock(remote, "lock", EXPIRY)
    assert dead.try_acquire() == ""
    time.sleep(EXPIRY + 1.1)
    assert "holds the lock" in ObjectLock(remote, "lock", EXPIRY).try_acquire()
    dead._released.set()  # no further sign of life
    time.sleep(EXPIRY + 1.1)
    with acquire_lock(remote, "lock", "someone trains", EXPIRY):
        with pytest.raises(Locked, match="lost its lock"):
            dead.check("someone trains")
        dead.release()
        assert is_locked(remote, "lock")


def test_clocks_that_jump_do_not_free_a_lock(remote, monkeypatch):
    with acquire_lock(remote, "lock", "someone trains", EXPIRY) as check:
        replace_clock(monkeypatch, time=lambda: time.time() + 1e6)
        assert "holds the lock" in ObjectLock(remote, "lock", EXPIRY).try_acquire()
        check()


def test_whether_a_lock_is_held_can_be_read_without_taking_it(store):
    assert not is_locked(store, "lock")
    with acquire_lock(store, "lock", "someone trains"):
        assert is_locked(store, "lock")
        assert is_locked(store, "lock")
    assert not is_locked(store, "lock")
    with acquire_lock(store, "lock", "someone trains"):
        pass


def test_a_local_lock_that_is_held_is_refused_with_the_message(tmp_path):
    with acquire_lock(Store(tmp_path), "lock", "someone trains"):
        with pytest.raises(Locked, match="someone trains"):
            with acquire_lock(Store(tmp_path), "lock", "someone trains"):
                pass


def test_a_file_in_place_of_the_folder_of_a_lock_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file: this is a file, and a folder is needed here"):
        with acquire_lock(Store(tmp_path / "file"), "lock", "someone trains"):
            pass


def test_stores_that_honour_conditions_are_not_warned_about(remote, caplog):
    with acquire_lock(remote, "lock", "someone trains"):
        pass
    assert caplog.records == []


def test_a_missing_bucket_is_not_reported_as_a_lock(bucket, tmp_path):
    store = Store(f"{bucket}-which-nobody-created/{tmp_path.name}")
    with pytest.raises(DataError, match=r"the bucket '.*-which-nobody-created' does not exist"):
        with acquire_lock(store, "lock", "someone trains"):
            pass


def test_an_error_after_the_lock_was_lost_is_reported_as_the_lost_lock(remote):
    with pytest.raises(Locked, match="lost its lock: someone trains") as caught:
        with acquire_lock(remote, "lock", "someone trains", EXPIRY):
            remote.write_bytes("lock", b"the lock of another process")
            time.sleep(EXPIRY / 4 + 1)  # until the next heartbeat detects the loss
            remote.read_bytes("a file that the other process deleted")
    assert isinstance(caught.value.__cause__, DataError)
    assert remote.read_bytes("lock") == b"the lock of another process"


def test_an_error_of_the_owner_of_a_lock_stays_as_it_is(remote):
    with pytest.raises(DataError, match="no such file"):
        with acquire_lock(remote, "lock", "someone trains"):
            remote.read_bytes("a file that is missing")


@pytest.mark.parametrize("value", ["a minute", "-5", "0.5", "nan", "inf", ""])
def test_a_bad_time_of_locks_is_one_sentence(remote, monkeypatch, value):
    monkeypatch.setenv(EXPIRY_VARIABLE, value)
    with pytest.raises(
        ValueError, match=f"^CORPUSMILL_LOCK_SECONDS='{value}' must be a number of seconds of at least 1"
    ):
        with acquire_lock(remote, "lock", "someone trains"):
            pass


def test_the_time_of_locks_is_that_of_the_environment(monkeypatch):
    assert expiry_seconds() == 60
    monkeypatch.setenv(EXPIRY_VARIABLE, "2.5")
    assert expiry_seconds() == 2.5
