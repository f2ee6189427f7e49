"""Small matrix products in registers: tiles of 4 rows by a few vectors, as wide as the processor has them.

A tile is a tuple of 4 * n vectors, row by row; its arrays are C-contiguous, their indices flat and unchecked. Four rows
by three vectors fill the 16 registers of AVX2: 12 sums, 3 operands, 1 broadcast.
"""

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

ROWS = 4
I32 = ir.IntType(32)


def register_bits() -> int:
    """Return the width of this processor's vector registers."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 512
    if features.get("avx2"):
        return 256
    return 128


BITS = register_bits()


def lanes(dtype) -> int:
    """Return how many numbers of a NumPy type one register holds."""
    return BITS // 8 // np.dtype(dtype).itemsize


class Tile(types.Type):
    """The numba type of a tile: ``n`` vectors in each of 4 rows."""

    def __init__(self, element, n):
        self.element, self.n = element, n
        super().__init__(f"Tile({element}, {n}, {BITS})")


@register_model(Tile)
class _TileModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        vector = ir.VectorType(manager.lookup(kind.element).get_value_type(), BITS // kind.element.bitwidth)
        super().__init__(manager, kind, ir.ArrayType(vector, ROWS * kind.n))


class _Memory:
    """One array as generated code reads and writes it: numbers and vectors at flat indices."""

    def __init__(self, context, builder, kind, value):
        self.builder, self.bytes = builder, kind.dtype.bitwidth // 8
        self.data = context.make_array(kind)(context, builder, value).data
        self.vector = ir.VectorType(context.get_value_type(kind.dtype), BITS // kind.dtype.bitwidth)

    def _at(self, index):
        return self.builder.bitcast(self.builder.gep(self.data, [index]), ir.PointerType(self.vector))

    def load(self, index):
        return self.builder.load(self._at(index), align=self.bytes)

    def store(self, index, vector):
        self.builder.store(vector, self._at(index), align=self.bytes)

    def broadcast(self, index):
        return splat(self.builder, self.builder.load(self.builder.gep(self.data, [index])))

    def index(self, base, *parts):
        """Return base + the sum of parts, integers being constants of the compiler."""
        for part in parts:
            part = ir.Constant(base.type, part) if isinstance(part, int) else part
            base = self.builder.add(base, part)
        return base


def splat(builder, value):
    """Return a vector of one value."""
    vector = ir.VectorType(value.type, BITS // (64 if isinstance(value.type, ir.DoubleType) else 32))
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, vector.count), [0] * vector.count))


def _fma(builder, a, b, c):
    kind = ir.FunctionType(a.type, [a.type] * 3)
    suffix = f"v{a.type.count}f{64 if isinstance(a.type.element, ir.DoubleType) else 32}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.{suffix}"), [a, b, c])


def _max(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _arguments(context, builder, signature, values):
    """Return memories for arrays, native integers for indices, other values as they are."""
    found = []
    for kind, value in zip(signature.args, values, strict=True):
        if isinstance(kind, types.Array):
            found.append(_Memory(context, builder, kind, value))
        elif isinstance(kind, types.Integer):
            found.append(context.cast(builder, value, kind, types.intp))
        else:
            found.append(value)
    return found


def _index(kind):
    """Indices travel as intp, so that a literal and a variable compile to the same code."""
    return types.intp if isinstance(kind, types.Integer) else kind


@intrinsic
def zeros(typingctx, array, n):
    """Return a tile of zeros of the array's type, ``n`` (a literal) vectors wide."""
    if not isinstance(n, types.IntegerLiteral):
        return None
    tile = Tile(array.dtype, n.literal_value)

    def codegen(context, builder, signature, values):
        return ir.Constant(context.get_value_type(tile), None)

    return tile(array, n), codegen


@intrinsic
def multiply_add(typingctx, tile, a, i, b, j):
    """Return the tile plus the outer product of ``a[i:i + 4]`` and the vectors from ``b[j]``."""
    if not isinstance(tile, Tile):
        return None

    def codegen(context, builder, signature, values):
        sums, a, i, b, j = _arguments(context, builder, signature, values)
        width = BITS // tile.element.bitwidth
        vectors = [b.load(b.index(j, v * width)) for v in range(tile.n)]
        for row in range(ROWS):
            factor = a.broadcast(a.index(i, row))
            for v in range(tile.n):
                at = row * tile.n + v
                total = _fma(builder, factor, vectors[v], builder.extract_value(sums, at))
                sums = builder.insert_value(sums, total, at)
        return sums

    return tile(tile, a, _index(i), b, _index(j)), codegen


@intrinsic
def add_to(typingctx, tile, out, at, stride):
    """Add the tile to ``out``: its first number stands at ``at``, its rows ``stride`` apart."""

    def codegen(context, builder, signature, values):
        sums, out, at, stride = _arguments(context, builder, signature, values)
        width = BITS // tile.element.bitwidth
        for row in range(ROWS):
            for v in range(tile.n):
                where = out.index(at, v * width)
                total = builder.fadd(out.load(where), builder.extract_value(sums, row * tile.n + v))
                out.store(where, total)
            at = builder.add(at, stride)
        return context.get_dummy_value()

    return types.void(tile, out, _index(at), _index(stride)), codegen


@intrinsic
def descend(typingctx, tile, x, p, at, s, i, keep, step, k, epsilon):
    """Set four rows of x, one after the other, to max(ε, keep·x + step·(p − s·x)), each seeing those before it.

    ``tile`` holds s·x over all of x as it was; rows k to k + 3 of ``x`` and ``p`` stand at ``at``, a strip's width
    apart; the 4 by 4 diagonal block of the symmetric matrix stands at ``s[i]``; ``keep`` and ``step`` have K numbers.
    """
    stride = tile.n

    def codegen(context, builder, signature, values):
        sums, x, p, at, s, i0, keep, step, k, epsilon = _arguments(context, builder, signature, values)
        width = BITS // tile.element.bitwidth
        floor = splat(builder, epsilon)
        sums = [builder.extract_value(sums, i) for i in range(ROWS * tile.n)]
        for row in range(ROWS):
            kept, moved = keep.broadcast(keep.index(k, row)), step.broadcast(step.index(k, row))
            changes = []
            for v in range(tile.n):
                where = x.index(at, (row * stride + v) * width)
                old = x.load(where)
                slope = builder.fsub(p.load(where), sums[row * tile.n + v])
                new = _max(builder, _fma(builder, slope, moved, builder.fmul(old, kept)), floor)
                x.store(where, new)
                changes.append(builder.fsub(new, old))
            for later in range(row + 1, ROWS):
                factor = s.broadcast(s.index(i0, row * ROWS + later))
                for v in range(tile.n):
                    i = later * tile.n + v
                    sums[i] = _fma(builder, factor, changes[v], sums[i])
        return context.get_dummy_value()

    return types.void(tile, x, p, _index(at), s, _index(i), keep, step, _index(k), epsilon), codegen


@intrinsic
def transpose(typingctx, source, i, source_stride, target, j, target_stride):
    """Write the transpose of the square of one register's width at ``source[i]`` to ``target[j]``."""

    def codegen(context, builder, signature, values):
        source, i, source_stride, target, j, target_stride = _arguments(context, builder, signature, values)
        width = source.vector.count
        rows = []
        for _ in range(width):
            rows.append(source.load(i))
            i = builder.add(i, source_stride)
        for row in _transposed(builder, rows, width):
            target.store(j, row)
            j = builder.add(j, target_stride)
        return context.get_dummy_value()

    kinds = (source, _index(i), _index(source_stride), target, _index(j), _index(target_stride))
    return types.void(*kinds), codegen


def _transposed(builder, rows, width):
    """Interleave row r with row r + width/2, log2(width) times over: each round turns one bit of the two indices."""
    low = [x for i in range(width // 2) for x in (i, width + i)]
    high = [x + width // 2 for x in low]
    masks = [ir.Constant(ir.VectorType(I32, width), m) for m in (low, high)]
    for _ in range(width.bit_length() - 1):
        half = len(rows) // 2
        rows = [builder.shuffle_vector(rows[r], rows[r + half], mask) for r in range(half) for mask in masks]
    return rows
