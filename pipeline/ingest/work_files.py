"""Work files of an ingest: tables in Arrow's file format, which are mapped into memory if they are local files."""

import itertools

import numpy as np
import pyarrow as pa

from ...io.stores.store import Store


def write_table(store: Store, name: str, table: pa.Table, bounds: np.ndarray | None = None) -> None:
    """Write a table as one record batch.

    With ``bounds`` (B + 1,), write B record batches: batch b has the rows ``bounds[b]:bounds[b + 1]``.
    """
    table = table.combine_chunks()
    ends = [0, table.num_rows] if bounds is None else bounds.tolist()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        for first, stop in itertools.pairwise(ends):
            batches = table.slice(first, stop - first).to_batches()
            # An empty table has no batches, but readers count on one batch per pair of bounds.
            writer.write_batch(batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema))
    store.write_bytes(name, sink.getvalue())


def read_table(store: Store, name: str) -> pa.Table:
    """Read a whole table."""
    return _open_table(store, name).read_all()


def read_batch(store: Store, name: str, index: int) -> pa.Table:
    """Read the record batch ``index`` of a table, without the others."""
    return pa.Table.from_batches([_open_table(store, name).get_batch(index)])


def _open_table(store: Store, name: str) -> pa.ipc.RecordBatchFileReader:
    if store.is_local:
        source = pa.memory_map(store.where(name))
    else:
        source = pa.BufferReader(store.read_bytes(name))
    return pa.ipc.open_file(source)
