"""Vector code of Word2Vec: strips of a row, tiles of small products, gradients. See simd/lowering.py before changes.

A strip is four vectors of one row of a matrix, in registers as wide as the processor has them. A row of W_in or W_out
is a whole number of strips. The functions are the inner loops of skip_gram.py:

- dot products of one row with two others at a time (`add_products`, `sum_strips`);
- moving two rows towards each other in one pass over both (`pull_strip`);
- dot products of one row with four others at a time, or of four pairs of rows (`add_products_of_four`,
  `add_products_of_pairs`, `store_sums_of_rows`);
- the last two matrix products of a mini-batch (`multiply_add_strips`, `add_strips_to_rows`);
- the gradient of eight or sixteen pairs at once (`repulsions`).

All arrays are C-contiguous float32.

Tests: tests/kernels/word2vec/test_strips.py compares each function with NumPy, and test_skip_gram.py the training with
tests/helpers/naive.py.
"""

import math
from collections.abc import Sequence

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..simd.aligned import CACHE_LINE_BYTES
from ..simd.lowering import I32, BaseContext, Lowering, Signature, TypingContext, Values, call, lane_constants
from ..simd.prefetch import KEEP_IN_LARGER, prefetch_pointer
from ..simd.tiles import BITS, ROWS, Memory, Tile, fma, index_type, memories, splat

#: Numbers in a vector.
WIDTH = BITS // 32
#: Vectors in a strip, and numbers in a strip. A strip is stored as a tile of one vector per row.
VECTORS_PER_STRIP = ROWS
STRIP = VECTORS_PER_STRIP * WIDTH
STRIP_TYPE = Tile(types.float32, 1)
FLOATS_PER_LINE = CACHE_LINE_BYTES // 4
#: Coefficients log(2)^k / k! of the series of 2^f. Its error is 1e-7 for |f| <= 1/2.
SERIES = [math.log(2) ** k / math.factorial(k) for k in range(7)]
#: Beyond this product the sigmoid is 0 or 1 in float32.
SATURATED = 40.0


# --- loading and storing ---


def _vectors_of(builder: ir.IRBuilder, strip: ir.Value) -> list[ir.Value]:
    """Return the four vectors of a strip."""
    return [builder.extract_value(strip, v) for v in range(VECTORS_PER_STRIP)]


def _strip_of(builder: ir.IRBuilder, context: BaseContext, vectors: Sequence[ir.Value]) -> ir.Value:
    """Return a strip of four vectors."""
    strip = ir.Constant(context.get_value_type(STRIP_TYPE), ir.Undefined)
    for v, vector in enumerate(vectors):
        strip = builder.insert_value(strip, vector, v)
    return strip


def _load_vectors(memory: Memory, i: ir.Value) -> list[ir.Value]:
    """Load the four vectors of the strip at index i."""
    return [memory.load(memory.index(i, v * WIDTH)) for v in range(VECTORS_PER_STRIP)]


@intrinsic
def load_strip(typingctx: TypingContext, array: types.Array, i: types.Integer) -> Lowering:
    """Return ``array[i:i + STRIP]``."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        array, i = memories(context, builder, signature, values)
        return _strip_of(builder, context, _load_vectors(array, i))

    return STRIP_TYPE(array, index_type(i)), codegen


@intrinsic
def store_strip(typingctx: TypingContext, strip: Tile, array: types.Array, i: types.Integer) -> Lowering:
    """Write a strip to ``array[i:i + STRIP]``."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        strip, array, i = memories(context, builder, signature, values)
        for v, vector in enumerate(_vectors_of(builder, strip)):
            array.store(array.index(i, v * WIDTH), vector)
        return context.get_dummy_value()

    return types.void(strip, array, index_type(i)), codegen


@intrinsic
def prefetch_strip(typingctx: TypingContext, array: types.Array, i: types.Integer) -> Lowering:
    """Prefetch the cache lines of ``array[i:i + STRIP]``: not into the smallest cache, which the rows in use fill."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        array, i = memories(context, builder, signature, values)
        for number in range(0, STRIP, FLOATS_PER_LINE):
            prefetch_pointer(builder, builder.gep(array.data, [array.index(i, number)]), KEEP_IN_LARGER)
        return context.get_dummy_value()

    return types.void(array, index_type(i)), codegen


# --- rows with rows ---


@intrinsic
def add_products(
    typingctx: TypingContext,
    tile: Tile,
    a: types.Array,
    i: types.Integer,
    b: types.Array,
    j: types.Integer,
    k: types.Integer,
) -> Lowering:
    """Return a tile of two strips plus the products of the strip at ``a[i]`` with those at ``b[j]`` and ``b[k]``."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        sums, a, i, b, j, k = memories(context, builder, signature, values)
        shared = _load_vectors(a, i)
        for s, at in enumerate((j, k)):
            for v, (x, y) in enumerate(zip(shared, _load_vectors(b, at), strict=True)):
                which = s * VECTORS_PER_STRIP + v
                total = fma(builder, x, y, builder.extract_value(sums, which))
                sums = builder.insert_value(sums, total, which)
        return sums

    return tile(tile, a, index_type(i), b, index_type(j), index_type(k)), codegen


@intrinsic
def sum_strips(typingctx: TypingContext, tile: Tile) -> Lowering:
    """Return the two sums of the numbers of a tile's two strips.

    The four vectors of a strip are added first. Then the lower half of a vector holds numbers of the first strip and
    the upper half those of the second, and both halves are added up together, by halves.
    """

    def shuffle(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, lanes: list[int]) -> ir.Value:
        return builder.shuffle_vector(x, y, lane_constants(lanes))

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        first = _sum_of_vectors(builder, values[0], 0)
        second = _sum_of_vectors(builder, values[0], VECTORS_PER_STRIP)
        half = WIDTH // 2
        low = [*range(half), *range(WIDTH, WIDTH + half)]
        high = [lane + half for lane in low]
        total = builder.fadd(shuffle(builder, first, second, low), shuffle(builder, first, second, high))
        while half > 1:
            half //= 2
            partners = [lane ^ half for lane in range(WIDTH)]
            total = builder.fadd(total, shuffle(builder, total, total, partners))
        sums = [builder.extract_element(total, I32(lane)) for lane in (0, WIDTH // 2)]
        return context.make_tuple(builder, signature.return_type, sums)

    return types.UniTuple(types.float32, 2)(tile), codegen


def _sum_of_vectors(builder: ir.IRBuilder, tile: ir.Value, first: int) -> ir.Value:
    """Return the sum of four vectors of a tile."""
    a, b, c, d = (builder.extract_value(tile, first + v) for v in range(VECTORS_PER_STRIP))
    return builder.fadd(builder.fadd(a, b), builder.fadd(c, d))


@intrinsic
def pull_strip(
    typingctx: TypingContext, total: Tile, held: Tile, g: types.Float, array: types.Array, i: types.Integer
) -> Lowering:
    """Return ``total`` + g * x for the strip x at ``array[i]``, and change x to x + g * ``held``."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        total, held, g, array, i = memories(context, builder, signature, values)
        factor = splat(builder, g)
        old = _load_vectors(array, i)
        for v, vector in enumerate(_vectors_of(builder, held)):
            array.store(array.index(i, v * WIDTH), fma(builder, factor, vector, old[v]))
        sums = zip(old, _vectors_of(builder, total), strict=True)
        return _strip_of(builder, context, [fma(builder, factor, x, y) for x, y in sums])

    return total(total, held, types.float32, array, index_type(i)), codegen


# --- matrix products of a mini-batch ---


@intrinsic
def multiply_add_strips(
    typingctx: TypingContext,
    tile: Tile,
    a: types.Array,
    i: types.Integer,
    stride: types.Integer,
    b: types.Array,
    j: types.Integer,
) -> Lowering:
    """Return a tile plus the outer product of some numbers and a strip of ``b``.

    Its strip s gets ``a[i + s * stride]`` times the strip that begins at ``b[j]``.
    """

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        sums, a, i, stride, b, j = memories(context, builder, signature, values)
        factors = []
        for _ in range(tile.n):
            factors.append(a.broadcast(i))
            i = builder.add(i, stride)
        # One vector at a time: it, the sums of three strips and their factors fill the 16 registers of AVX2.
        for v in range(VECTORS_PER_STRIP):
            vector = b.load(b.index(j, v * WIDTH))
            for s, factor in enumerate(factors):
                which = s * VECTORS_PER_STRIP + v
                total = fma(builder, factor, vector, builder.extract_value(sums, which))
                sums = builder.insert_value(sums, total, which)
        return sums

    return tile(tile, a, index_type(i), index_type(stride), b, index_type(j)), codegen


@intrinsic
def add_products_of_pairs(
    typingctx: TypingContext,
    tile: Tile,
    a: types.Array,
    rows: types.Array,
    b: types.Array,
    others: types.Array,
    r: types.Integer,
    columns: types.Integer,
    d: types.Integer,
) -> Lowering:
    """Return a tile of two vectors per row plus the products of the strips of four pairs of rows.

    A pair is the row ``rows[r]`` of ``a`` and the row ``others[r]`` of ``b``. Both matrices have ``columns`` columns,
    and the strips begin at column d. Vectors of the tile are as in `add_products_of_four`.
    """

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        sums, a, rows, b, others, r, columns, d = memories(context, builder, signature, values)
        for row in range(ROWS):
            left = _load_vectors(a, start_of_strip(builder, rows, rows.index(r, row), columns, d))
            right = _load_vectors(b, start_of_strip(builder, others, others.index(r, row), columns, d))
            sums = _add_strip_of_products(builder, sums, tile, row, left, right)
        return sums

    kinds = (tile, a, rows, b, others, index_type(r), index_type(columns), index_type(d))
    return tile(*kinds), codegen


def _add_strip_of_products(
    builder: ir.IRBuilder, sums: ir.Value, tile: Tile, row: int, left: list[ir.Value], right: list[ir.Value]
) -> ir.Value:
    """Add the products of two strips to a row of a tile: those of the first vectors to its first vector, and so on."""
    for v, (x, y) in enumerate(zip(left, right, strict=True)):
        which = row * tile.n + v % tile.n
        total = fma(builder, x, y, builder.extract_value(sums, which))
        sums = builder.insert_value(sums, total, which)
    return sums


@intrinsic
def add_products_of_four(
    typingctx: TypingContext,
    tile: Tile,
    a: types.Array,
    i: types.Integer,
    b: types.Array,
    rows: types.Array,
    r: types.Integer,
    columns: types.Integer,
    d: types.Integer,
) -> Lowering:
    """Return a tile of two vectors per row plus the products of the strip at ``a[i]`` with strips of four rows of b.

    The rows are ``rows[r:r + 4]`` of a matrix with ``columns`` columns, and their strips begin at column d. The first
    vector of a tile's row sums the first and third vector of a strip, the second the others.
    """

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        sums, a, i, b, rows, r, columns, d = memories(context, builder, signature, values)
        shared = _load_vectors(a, i)
        for row in range(ROWS):
            strip = _load_vectors(b, start_of_strip(builder, rows, rows.index(r, row), columns, d))
            sums = _add_strip_of_products(builder, sums, tile, row, shared, strip)
        return sums

    kinds = (tile, a, index_type(i), b, rows, index_type(r), index_type(columns), index_type(d))
    return tile(*kinds), codegen


def start_of_strip(builder: ir.IRBuilder, rows: Memory, r: ir.Value, columns: ir.Value, d: ir.Value) -> ir.Value:
    """Return the index of column d of row ``rows[r]`` in a matrix with ``columns`` columns."""
    row = builder.zext(builder.load(builder.gep(rows.data, [r])), columns.type)
    return builder.add(builder.mul(row, columns), d)


@intrinsic
def store_sums_of_rows(typingctx: TypingContext, tile: Tile, out: types.Array, at: types.Integer) -> Lowering:
    """Write the sums of the numbers of the four rows of a tile to ``out[at:at + 4]``.

    Halves of two vectors are added, which leaves two vectors with the sums of two rows each, and then one vector with
    four. Its quarters are added up at last.
    """

    def folded(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, block: int) -> ir.Value:
        """Add the halves of each block of x and of y; blocks of x are followed by those of y."""
        half = block // 2
        low, high = [], []
        for first in range(0, WIDTH, block):
            for base in (first, WIDTH + first):
                low += [base + lane for lane in range(half)]
                high += [base + half + lane for lane in range(half)]
        parts = [builder.shuffle_vector(x, y, lane_constants(lanes)) for lanes in (low, high)]
        return builder.fadd(*parts)

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        tile_value, out, at = memories(context, builder, signature, values)
        rows = []
        for row in range(ROWS):
            total = builder.extract_value(tile_value, row * tile.n)
            for v in range(1, tile.n):
                total = builder.fadd(total, builder.extract_value(tile_value, row * tile.n + v))
            rows.append(total)
        # The order of rows in the folded vector is 0, 1, 2, 3.
        total = folded(
            builder, folded(builder, rows[0], rows[2], WIDTH), folded(builder, rows[1], rows[3], WIDTH), WIDTH // 2
        )
        part = WIDTH // ROWS
        while part > 1:
            part //= 2
            partners = [lane ^ part for lane in range(WIDTH)]
            total = builder.fadd(total, builder.shuffle_vector(total, total, lane_constants(partners)))
        lanes = lane_constants([row * (WIDTH // ROWS) for row in range(ROWS)])
        four = builder.shuffle_vector(total, total, lanes)
        pointer = builder.bitcast(builder.gep(out.data, [at]), ir.PointerType(four.type))
        builder.store(four, pointer, align=4)
        return context.get_dummy_value()

    return types.void(tile, out, index_type(at)), codegen


@intrinsic
def add_strips_to_rows(
    typingctx: TypingContext,
    tile: Tile,
    out: types.Array,
    rows: types.Array,
    r: types.Integer,
    columns: types.Integer,
    d: types.Integer,
) -> Lowering:
    """Add the strips of a tile to the rows ``rows[r]``, ``rows[r + 1]``, ... of a matrix, from column d on.

    The matrix has ``columns`` columns. A row that is listed twice gets both strips.
    """

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        tile_value, out, rows, r, columns, d = memories(context, builder, signature, values)
        for s in range(tile.n):
            at = start_of_strip(builder, rows, rows.index(r, s), columns, d)
            for v, old in enumerate(_load_vectors(out, at)):
                total = builder.fadd(old, builder.extract_value(tile_value, s * VECTORS_PER_STRIP + v))
                out.store(out.index(at, v * WIDTH), total)
        return context.get_dummy_value()

    kinds = (tile, out, rows, index_type(r), index_type(columns), index_type(d))
    return types.void(*kinds), codegen


# --- gradients ---


def _power_of_two(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return 2^x: the series for the fraction, and the whole part written into the exponent's bits.

    LLVM's own exponential would call a scalar function for each number.
    """
    whole = call(builder, f"llvm.nearbyint.v{WIDTH}f32", x.type, [x])
    fraction = builder.fsub(x, whole)
    total = ir.Constant(x.type, [SERIES[-1]] * WIDTH)
    for coefficient in SERIES[-2::-1]:
        total = fma(builder, total, fraction, ir.Constant(x.type, [coefficient] * WIDTH))
    # A float32 has its exponent, increased by 127, from bit 23 on.
    integers = ir.VectorType(I32, WIDTH)
    exponent = builder.add(builder.fptosi(whole, integers), lane_constants([127] * WIDTH))
    scale = builder.bitcast(builder.shl(exponent, lane_constants([23] * WIDTH)), x.type)
    return builder.fmul(total, scale)


@intrinsic
def repulsions(typingctx: TypingContext, array: types.Array, i: types.Integer, alpha: types.Float) -> Lowering:
    """Replace one vector of products x at ``array[i]`` by -alpha * sigmoid(x): the gradient of label 0."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        array, i, alpha = memories(context, builder, signature, values)
        x = array.load(i)
        # Limit x, so that the exponent of 2^x stays valid.
        for sign, limit in (("<", -SATURATED), (">", SATURATED)):
            bound = ir.Constant(x.type, [limit] * WIDTH)
            x = builder.select(builder.fcmp_ordered(sign, x, bound), bound, x)
        power = _power_of_two(builder, builder.fmul(x, ir.Constant(x.type, [-1 / math.log(2)] * WIDTH)))
        below = builder.fadd(power, ir.Constant(x.type, [1.0] * WIDTH))
        array.store(i, builder.fdiv(splat(builder, builder.fneg(alpha)), below))
        return context.get_dummy_value()

    return types.void(array, index_type(i), types.float32), codegen
