"""A slow, readable reference implementation of packed rows of counts (kernels/count_rows.py)."""


def varint(number):
    """Return the bytes of a variable-length integer (LEB128)."""
    digits = []
    while True:
        number, digit = divmod(number, 128)
        if not number:
            return bytes([*digits, digit])
        digits.append(digit + 128)


def pack_rows(rows):
    """Return the bytes of rows of counts, given as a list of dictionaries from columns to counts."""
    n_entries = sum(len(row) for row in rows)
    packed = len(rows).to_bytes(8, "little") + n_entries.to_bytes(8, "little")
    for row in rows:
        packed += varint(len(row))
        expected = 0
        for column, count in sorted(row.items()):
            packed += varint(4 * (column - expected) + min(count - 1, 3))
            if count > 3:
                packed += varint(count - 4)
            expected = column + 1
    return packed
