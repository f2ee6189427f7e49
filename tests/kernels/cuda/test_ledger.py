"""The ledger of what happens on a device."""

import threading

from corpusmill.kernels.cuda.ledger import Entry, Ledger, Operation, Total, by_operation, difference

UPLOAD_W = Entry(Operation.UPLOAD, "W")
LAUNCH = Entry(Operation.LAUNCH, "draw")
FREE_W = Entry(Operation.FREE, "W")


def test_calls_and_bytes_add_up_by_operation_and_cause():
    ledger = Ledger()
    ledger.record(Operation.UPLOAD, "W", 8)
    ledger.record(Operation.UPLOAD, "W", 16)
    before = ledger.totals()
    ledger.record(Operation.UPLOAD, "W", 1)
    ledger.record(Operation.LAUNCH, "draw")
    assert ledger.totals() == {UPLOAD_W: Total(3, 25), LAUNCH: Total(1, 0)}
    assert difference(ledger.totals(), before) == {UPLOAD_W: Total(1, 1), LAUNCH: Total(1, 0)}


def test_a_recording_has_what_its_own_thread_did_inside():
    ledger = Ledger()
    ledger.record(Operation.UPLOAD, "W", 8)
    with ledger.recording() as outer:
        with ledger.recording() as inner:
            ledger.record(Operation.LAUNCH, "draw")
            other = threading.Thread(target=ledger.record, args=(Operation.UPLOAD, "W", 8))
            other.start()
            other.join()
            ledger.record_free("W", 8)
        ledger.record(Operation.LAUNCH, "draw")
    ledger.record(Operation.LAUNCH, "draw")
    assert inner == {LAUNCH: Total(1, 0)}
    assert outer == {LAUNCH: Total(2, 0)}
    assert ledger.totals() == {UPLOAD_W: Total(2, 16), LAUNCH: Total(3, 0), FREE_W: Total(1, 8)}


def test_causes_add_up_by_operation():
    totals = {UPLOAD_W: Total(3, 25), Entry(Operation.UPLOAD, "H"): Total(1, 5), LAUNCH: Total(2, 0)}
    assert by_operation(totals) == {"device_launch_calls": 2, "device_upload_bytes": 30, "device_upload_calls": 4}


def test_a_free_can_be_recorded_while_the_ledger_is_locked():
    """A finalizer can run inside the ledger's methods. If it waited for the lock then, it would wait forever."""
    ledger = Ledger()
    with ledger._lock:
        freeing = threading.Thread(target=ledger.record_free, args=("W", 8))
        freeing.start()
        freeing.join(5)
        assert not freeing.is_alive()
    assert ledger.totals() == {FREE_W: Total(1, 8)}
