"""The ledger of what happens on a device."""

import threading

from corpusmill.kernels.cuda.ledger import Entry, Ledger, Operation, Total, by_operation

UPLOAD_W = Entry(Operation.UPLOAD, "W")
LAUNCH = Entry(Operation.LAUNCH, "draw")


def test_calls_and_bytes_add_up_by_operation_and_cause():
    ledger = Ledger()
    with ledger.recording() as found:
        ledger.record(Operation.UPLOAD, "W", 8)
        ledger.record(Operation.UPLOAD, "W", 16)
        ledger.record(Operation.LAUNCH, "draw")
    assert found == {UPLOAD_W: Total(2, 24), LAUNCH: Total(1, 0)}


def test_a_recording_has_what_its_own_thread_did_inside():
    ledger = Ledger()
    ledger.record(Operation.UPLOAD, "W", 8)
    with ledger.recording() as outer:
        with ledger.recording() as inner:
            ledger.record(Operation.LAUNCH, "draw")
            other = threading.Thread(target=ledger.record, args=(Operation.UPLOAD, "W", 8))
            other.start()
            other.join()
        ledger.record(Operation.LAUNCH, "draw")
    ledger.record(Operation.LAUNCH, "draw")
    assert inner == {LAUNCH: Total(1, 0)}
    assert outer == {LAUNCH: Total(2, 0)}


def test_causes_add_up_by_operation():
    totals = {UPLOAD_W: Total(3, 25), Entry(Operation.UPLOAD, "H"): Total(1, 5), LAUNCH: Total(2, 0)}
    assert by_operation(totals) == {"device_launch_calls": 2, "device_upload_bytes": 30, "device_upload_calls": 4}
