"""Vector code of Word2Vec: strips of a row, tiles of small products, gradients. As wide as the processor.

A strip is four vectors of one row. Arrays are C-contiguous float32, indices are flat and not checked.
"""

import math

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..simd.tiles import BITS, I32, ROWS, Tile, _arguments, _fma, _index, splat

WIDTH = BITS // 32
#: Numbers in a strip.
STRIP = ROWS * WIDTH
STRIP_TYPE = Tile(types.float32, 1)
#: Powers of log 2 over factorials: the series of 2^f, whose error is 1e-7 for |f| <= 1/2.
SERIES = [math.log(2) ** k / math.factorial(k) for k in range(7)]
#: Where the sigmoid is 0 or 1 to float32.
FAR = 40.0


def _parts(builder, strip):
    return [builder.extract_value(strip, v) for v in range(ROWS)]


def _strip(builder, context, vectors):
    strip = ir.Constant(context.get_value_type(STRIP_TYPE), ir.Undefined)
    for v, vector in enumerate(vectors):
        strip = builder.insert_value(strip, vector, v)
    return strip


def _loads(memory, i):
    return [memory.load(memory.index(i, v * WIDTH)) for v in range(ROWS)]


@intrinsic
def load_strip(typingctx, array, i):
    """Return ``array[i:i + STRIP]``."""

    def codegen(context, builder, signature, values):
        array, i = _arguments(context, builder, signature, values)
        return _strip(builder, context, _loads(array, i))

    return STRIP_TYPE(array, _index(i)), codegen


@intrinsic
def store_strip(typingctx, strip, array, i):
    """Write a strip to ``array[i:i + STRIP]``."""

    def codegen(context, builder, signature, values):
        strip, array, i = _arguments(context, builder, signature, values)
        for v, vector in enumerate(_parts(builder, strip)):
            array.store(array.index(i, v * WIDTH), vector)
        return context.get_dummy_value()

    return types.void(strip, array, _index(i)), codegen


@intrinsic
def add_products(typingctx, tile, a, i, b, j, k):
    """Return a tile of two strips plus the products of the numbers from ``a[i]`` with those from ``b[j]`` and b[k]."""

    def codegen(context, builder, signature, values):
        sums, a, i, b, j, k = _arguments(context, builder, signature, values)
        shared = _loads(a, i)
        for s, at in enumerate((j, k)):
            for v, (x, y) in enumerate(zip(shared, _loads(b, at), strict=True)):
                total = _fma(builder, x, y, builder.extract_value(sums, s * ROWS + v))
                sums = builder.insert_value(sums, total, s * ROWS + v)
        return sums

    return tile(tile, a, _index(i), b, _index(j), _index(k)), codegen


@intrinsic
def pull_strip(typingctx, total, held, g, array, i):
    """Return ``total`` + g * x, where x is the strip at ``array[i]``, which becomes x + g * ``held``."""

    def codegen(context, builder, signature, values):
        total, held, g, array, i = _arguments(context, builder, signature, values)
        g, old = splat(builder, g), _loads(array, i)
        for v, vector in enumerate(_parts(builder, held)):
            array.store(array.index(i, v * WIDTH), _fma(builder, g, vector, old[v]))
        sums = zip(old, _parts(builder, total), strict=True)
        return _strip(builder, context, [_fma(builder, g, x, y) for x, y in sums])

    return total(total, held, types.float32, array, _index(i)), codegen


@intrinsic
def sum_strips(typingctx, tile):
    """Return the sums of the numbers of a tile's two strips, by halves."""

    def shuffle(builder, x, y, lanes):
        return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, WIDTH), lanes))

    def codegen(context, builder, signature, values):
        first, second = (_sum_of(builder, values[0], s * ROWS) for s in range(2))
        half = WIDTH // 2
        low = [*range(half), *range(WIDTH, WIDTH + half)]
        high = [lane + half for lane in low]
        total = builder.fadd(shuffle(builder, first, second, low), shuffle(builder, first, second, high))
        while half > 1:
            half //= 2
            total = builder.fadd(total, shuffle(builder, total, total, [lane ^ half for lane in range(WIDTH)]))
        sums = [builder.extract_element(total, I32(lane)) for lane in (0, WIDTH // 2)]
        return context.make_tuple(builder, signature.return_type, sums)

    return types.UniTuple(types.float32, 2)(tile), codegen


def _sum_of(builder, tile, first):
    a, b, c, d = (builder.extract_value(tile, first + v) for v in range(ROWS))
    return builder.fadd(builder.fadd(a, b), builder.fadd(c, d))


@intrinsic
def multiply_add_rows(typingctx, tile, a, i, stride, b, j):
    """Return the tile plus the outer product of four numbers of ``a``, ``stride`` apart, and the vectors from b[j]."""

    def codegen(context, builder, signature, values):
        sums, a, i, stride, b, j = _arguments(context, builder, signature, values)
        vectors = [b.load(b.index(j, v * WIDTH)) for v in range(tile.n)]
        for row in range(ROWS):
            factor = a.broadcast(i)
            for v in range(tile.n):
                at = row * tile.n + v
                total = _fma(builder, factor, vectors[v], builder.extract_value(sums, at))
                sums = builder.insert_value(sums, total, at)
            i = builder.add(i, stride)
        return sums

    return tile(tile, a, _index(i), _index(stride), b, _index(j)), codegen


@intrinsic
def multiply_add_strips(typingctx, tile, a, i, stride, b, j):
    """Return a tile of strips plus the outer product of numbers of ``a``, ``stride`` apart, and the strip at b[j]."""

    def codegen(context, builder, signature, values):
        sums, a, i, stride, b, j = _arguments(context, builder, signature, values)
        factors = []
        for _ in range(tile.n):
            factors.append(a.broadcast(i))
            i = builder.add(i, stride)
        # One vector at a time: three strips, their factors and it fill the 16 registers of AVX2.
        for v in range(ROWS):
            vector = b.load(b.index(j, v * WIDTH))
            for s, factor in enumerate(factors):
                total = _fma(builder, factor, vector, builder.extract_value(sums, s * ROWS + v))
                sums = builder.insert_value(sums, total, s * ROWS + v)
        return sums

    return tile(tile, a, _index(i), _index(stride), b, _index(j)), codegen


@intrinsic
def store_tile(typingctx, tile, out, at, stride):
    """Write the tile to ``out``: its first number stands at ``at``, its rows ``stride`` apart."""

    def codegen(context, builder, signature, values):
        sums, out, at, stride = _arguments(context, builder, signature, values)
        for row in range(ROWS):
            for v in range(tile.n):
                out.store(out.index(at, v * WIDTH), builder.extract_value(sums, row * tile.n + v))
            at = builder.add(at, stride)
        return context.get_dummy_value()

    return types.void(tile, out, _index(at), _index(stride)), codegen


@intrinsic
def add_strip_to(typingctx, tile, number, out, at):
    """Add strip ``number`` (a literal) of the tile to ``out[at]`` and what follows."""
    if not isinstance(number, types.IntegerLiteral):
        return None
    first = number.literal_value * ROWS

    def codegen(context, builder, signature, values):
        sums, _, out, at = _arguments(context, builder, signature, values)
        for v, old in enumerate(_loads(out, at)):
            out.store(out.index(at, v * WIDTH), builder.fadd(old, builder.extract_value(sums, first + v)))
        return context.get_dummy_value()

    return types.void(tile, number, out, _index(at)), codegen


def _call(builder, name, x):
    kind = ir.FunctionType(x.type, [x.type])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"{name}.v{WIDTH}f32"), [x])


def _power_of_two(builder, x):
    """2^x by the series of the fraction, the whole part going into the exponent's bits."""
    whole = _call(builder, "llvm.nearbyint", x)
    fraction = builder.fsub(x, whole)
    total = ir.Constant(x.type, [SERIES[-1]] * WIDTH)
    for coefficient in SERIES[-2::-1]:
        total = _fma(builder, total, fraction, ir.Constant(x.type, [coefficient] * WIDTH))
    integers = ir.VectorType(ir.IntType(32), WIDTH)
    exponent = builder.add(builder.fptosi(whole, integers), ir.Constant(integers, [127] * WIDTH))
    scale = builder.bitcast(builder.shl(exponent, ir.Constant(integers, [23] * WIDTH)), x.type)
    return builder.fmul(total, scale)


@intrinsic
def repulsions(typingctx, array, i, alpha):
    """Replace one vector of products x at ``array[i]`` by -alpha * sigmoid(x): the gradient of label 0."""

    def codegen(context, builder, signature, values):
        array, i, alpha = _arguments(context, builder, signature, values)
        x = array.load(i)
        for sign, limit in (("<", -FAR), (">", FAR)):
            bound = ir.Constant(x.type, [limit] * WIDTH)
            x = builder.select(builder.fcmp_ordered(sign, x, bound), bound, x)
        power = _power_of_two(builder, builder.fmul(x, ir.Constant(x.type, [-1 / math.log(2)] * WIDTH)))
        below = builder.fadd(power, ir.Constant(x.type, [1.0] * WIDTH))
        array.store(i, builder.fdiv(splat(builder, builder.fneg(alpha)), below))
        return context.get_dummy_value()

    return types.void(array, _index(i), types.float32), codegen
