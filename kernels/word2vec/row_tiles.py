"""Products of several rows of a matrix with four rows of another one, for batches.py. See simd/lowering.py.

Each of the products has a vector of sums of its own. The rows stay where they are, and no transpose is needed. In the
end, a tree of additions reduces all vectors of sums to one vector.

All arrays are C-contiguous float32.

Tests: tests/kernels/word2vec/test_strips.py compares the functions with NumPy.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..simd.lowering import BaseContext, Lowering, Signature, TypingContext, Values, lane_constants
from ..simd.tiles import ROWS, Tile, fma, index_type, memories
from .strips import WIDTH, start_of_strip

#: Rows of a tile. It has as many vectors of sums as a vector has numbers, so these can be reduced to one vector. They
#: fill half of the registers.
TILE_ROWS = WIDTH // 4


@intrinsic
def add_products_of_tile(
    typingctx: TypingContext,
    tile: Tile,
    a: types.Array,
    rows: types.Array,
    r: types.Integer,
    b: types.Array,
    others: types.Array,
    o: types.Integer,
    columns: types.Integer,
    d: types.Integer,
) -> Lowering:
    """Return a tile plus the products of TILE_ROWS rows of a with four rows of b, of one vector of each.

    The rows are ``rows[r]``, ``rows[r + 1]``, ... of ``a`` and ``others[o:o + 4]`` of ``b``. Both matrices have
    ``columns`` columns, and the vectors begin at column d. Vector 4 r + o of the tile has the products of rows r and o.
    """

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        sums, a, rows, r, b, others, o, columns, d = memories(context, builder, signature, values)
        right = [b.load(start_of_strip(builder, others, others.index(o, column), columns, d)) for column in range(ROWS)]
        for row in range(TILE_ROWS):
            left = a.load(start_of_strip(builder, rows, rows.index(r, row), columns, d))
            for column in range(ROWS):
                which = row * ROWS + column
                total = fma(builder, left, right[column], builder.extract_value(sums, which))
                sums = builder.insert_value(sums, total, which)
        return sums

    kinds = (tile, a, rows, index_type(r), b, others, index_type(o), index_type(columns), index_type(d))
    return tile(*kinds), codegen


@intrinsic
def store_sums_of_tile(
    typingctx: TypingContext, tile: Tile, out: types.Array, at: types.Integer, stride: types.Integer
) -> Lowering:
    """Write the sums of the vectors of a tile to ``out``: four per row, each row ``stride`` numbers after the last."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        tile_value, out, at, stride = memories(context, builder, signature, values)
        vectors = [builder.extract_value(tile_value, v) for v in range(TILE_ROWS * ROWS)]
        total = _sums_of_vectors(builder, vectors)
        for row in range(TILE_ROWS):
            four = builder.shuffle_vector(total, total, lane_constants([4 * row + column for column in range(4)]))
            pointer = builder.bitcast(builder.gep(out.data, [at]), ir.PointerType(four.type))
            builder.store(four, pointer, align=4)
            at = builder.add(at, stride)
        return context.get_dummy_value()

    return types.void(tile, out, index_type(at), index_type(stride)), codegen


def _sums_of_vectors(builder: ir.IRBuilder, vectors: list[ir.Value]) -> ir.Value:
    """Return a vector of the sums of WIDTH vectors.

    Each round adds pairs of vectors, and halves the number of terms of a sum. The first two rounds move numbers within
    quarters of 128 bits only, which is cheap. The others move whole quarters.
    """
    quarters = range(0, WIDTH, 4)
    in_quarter = [([0, WIDTH, 1, WIDTH + 1], [2, WIDTH + 2, 3, WIDTH + 3])]
    in_quarter.append(([0, 1, WIDTH, WIDTH + 1], [2, 3, WIDTH + 2, WIDTH + 3]))
    for low, high in in_quarter:
        masks = [[first + lane for first in quarters for lane in lanes] for lanes in (low, high)]
        vectors = _sums_of_pairs(builder, vectors, masks)
    size = WIDTH
    while size > 4:
        size //= 2
        starts = range(0, 2 * WIDTH, 2 * size)
        low = [first + lane for first in starts for lane in range(size)]
        vectors = _sums_of_pairs(builder, vectors, [low, [lane + size for lane in low]])
    return vectors[0]


def _sums_of_pairs(builder: ir.IRBuilder, vectors: list[ir.Value], masks: list[list[int]]) -> list[ir.Value]:
    """Return the sum of two shuffles of each pair of neighbouring vectors."""
    sums = []
    for first, second in zip(vectors[::2], vectors[1::2], strict=True):
        parts = [builder.shuffle_vector(first, second, lane_constants(lanes)) for lanes in masks]
        sums.append(builder.fadd(*parts))
    return sums
