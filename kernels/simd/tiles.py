"""Small matrix products in registers: tiles of 4 rows by a few vectors. See lowering.py before changes.

A tile holds sums. A loop over the inner dimension adds to all of them with one load per vector and one broadcast per
row, so the arithmetic units, not memory, set the speed. Four rows by three vectors fill the 16 registers of AVX2: 12
sums, 3 operands, 1 broadcast.

Layout: a tile is an array of 4 * n vectors, row by row. A vector is as wide as the processor's registers, so other
processors round sums over vectors differently in the last bit. Tests run the NMF kernels with other widths as well.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic, models, register_model

from .lowering import (
    BaseContext,
    Lowering,
    Signature,
    TypingContext,
    Values,
    broadcast,
    call,
    lane_constants,
)

#: Rows of a tile.
ROWS = 4


def register_bits() -> int:
    """Return the width of the vector registers that kernels are compiled for.

    It is that of this processor, unless numba's setting NUMBA_CPU_FEATURES names other registers. The setting is part
    of the key of numba's cache on disk, so a process never loads kernels of another width than its own.
    """
    features = numba.config.CPU_FEATURES
    if features is None:
        features = get_host_cpu_features()
    names = features.split(",")
    if "+avx512f" in names:
        return 512
    return 256 if "+avx2" in names else 128


BITS = register_bits()


def lanes(dtype: Any) -> int:
    """Return how many numbers of a NumPy type one register holds."""
    return BITS // 8 // np.dtype(dtype).itemsize


class Tile(types.Type):
    """The numba type of a tile: 4 rows of ``n`` vectors."""

    def __init__(self, element: types.Type, n: int):
        self.element = element
        self.n = n
        super().__init__(f"Tile({element}, {n}, {BITS})")

    @property
    def width(self) -> int:
        """Numbers in one vector."""
        return BITS // self.element.bitwidth


@register_model(Tile)
class _TileModel(models.PrimitiveModel):
    """How LLVM stores it: an array of vectors, which stays in registers as long as they suffice."""

    def __init__(self, manager: Any, kind: Tile):
        vector = ir.VectorType(manager.lookup(kind.element).get_value_type(), kind.width)
        super().__init__(manager, kind, ir.ArrayType(vector, ROWS * kind.n))


# --- helpers of generated code, also for strips.py ---


class Memory:
    """An array as generated code reads and writes it: single numbers, and vectors, at flat indices."""

    def __init__(self, context: BaseContext, builder: ir.IRBuilder, kind: types.Array, value: ir.Value):
        self.builder = builder
        self.data = context.make_array(kind)(context, builder, value).data
        self.bytes = kind.dtype.bitwidth // 8
        self.vector = ir.VectorType(context.get_value_type(kind.dtype), BITS // kind.dtype.bitwidth)

    def _element(self, index: ir.Value) -> ir.Value:
        return self.builder.gep(self.data, [index])

    def _vector(self, index: ir.Value) -> ir.Value:
        return self.builder.bitcast(self._element(index), ir.PointerType(self.vector))

    def load(self, index: ir.Value) -> ir.Value:
        """Return the vector at an index, aligned only to its elements."""
        return self.builder.load(self._vector(index), align=self.bytes)

    def store(self, index: ir.Value, vector: ir.Value) -> None:
        """Write a vector."""
        self.builder.store(vector, self._vector(index), align=self.bytes)

    def broadcast(self, index: ir.Value) -> ir.Value:
        """Return a vector of copies of one number."""
        return splat(self.builder, self.builder.load(self._element(index)))

    def index(self, base: ir.Value, *parts: int | ir.Value) -> ir.Value:
        """Return base plus all parts; a Python integer becomes a constant of the compiler."""
        for part in parts:
            part = ir.Constant(base.type, part) if isinstance(part, int) else part
            base = self.builder.add(base, part)
        return base


def splat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a vector of copies of one float."""
    bits = 64 if isinstance(value.type, ir.DoubleType) else 32
    return broadcast(builder, value, BITS // bits)


def fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Return a * b + c, rounded once."""
    bits = 64 if isinstance(a.type.element, ir.DoubleType) else 32
    return call(builder, f"llvm.fma.v{a.type.count}f{bits}", a.type, [a, b, c])


def memories(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> list[Any]:
    """Return the arguments of an intrinsic: arrays as Memory, indices as native integers, others as they are."""
    found: list[Any] = []
    for kind, value in zip(signature.args, values, strict=True):
        if isinstance(kind, types.Array):
            found.append(Memory(context, builder, kind, value))
        elif isinstance(kind, types.Integer):
            found.append(context.cast(builder, value, kind, types.intp))
        else:
            found.append(value)
    return found


def index_type(kind: types.Type) -> types.Type:
    """Return intp for an integer type, so that a literal index and a variable compile to the same code."""
    return types.intp if isinstance(kind, types.Integer) else kind


def _maximum(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


# --- products ---


@intrinsic
def zeros(typingctx: TypingContext, array: types.Array, n: types.IntegerLiteral) -> Lowering:
    """Return a tile of zeros of the array's type; ``n``, the vectors in a row, must be a literal."""
    if not isinstance(n, types.IntegerLiteral):
        return None
    tile = Tile(array.dtype, n.literal_value)

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        return ir.Constant(context.get_value_type(tile), None)

    return tile(array, n), codegen


@intrinsic
def multiply_add(
    typingctx: TypingContext, tile: Tile, a: types.Array, i: types.Integer, b: types.Array, j: types.Integer
) -> Lowering:
    """Return the tile plus the outer product of ``a[i:i + 4]`` and the vectors that begin at ``b[j]``."""
    if not isinstance(tile, Tile):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        sums, a, i, b, j = memories(context, builder, signature, values)
        vectors = [b.load(b.index(j, v * tile.width)) for v in range(tile.n)]
        for row in range(ROWS):
            factor = a.broadcast(a.index(i, row))
            for v in range(tile.n):
                at = row * tile.n + v
                total = fma(builder, factor, vectors[v], builder.extract_value(sums, at))
                sums = builder.insert_value(sums, total, at)
        return sums

    return tile(tile, a, index_type(i), b, index_type(j)), codegen


@intrinsic
def add_to(
    typingctx: TypingContext, tile: Tile, out: types.Array, at: types.Integer, stride: types.Integer
) -> Lowering:
    """Add the tile to ``out``: its first number at index ``at``, each row ``stride`` numbers after the one before."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        sums, out, at, stride = memories(context, builder, signature, values)
        for row in range(ROWS):
            for v in range(tile.n):
                where = out.index(at, v * tile.width)
                total = builder.fadd(out.load(where), builder.extract_value(sums, row * tile.n + v))
                out.store(where, total)
            at = builder.add(at, stride)
        return context.get_dummy_value()

    return types.void(tile, out, index_type(at), index_type(stride)), codegen


# --- coordinate descent ---


@intrinsic
def descend(
    typingctx: TypingContext,
    tile: Tile,
    x: types.Array,
    p: types.Array,
    at: types.Integer,
    s: types.Array,
    i: types.Integer,
    keep: types.Array,
    step: types.Array,
    k: types.Integer,
    epsilon: types.Float,
    gradients: types.Array,
) -> Lowering:
    """Set four rows of x, one after the other, to max(ε, keep·x + step·(p − s·x)), each with the new rows before it.

    On entry, ``tile`` holds s·x of the old x. The rows k to k + 3 of ``x`` and ``p`` begin at index ``at``, one strip
    after the other. The 4 by 4 diagonal block of the symmetric matrix begins at ``s[i]``. ``keep`` and ``step`` have K
    numbers. ``gradients`` has one number per column of a strip. It gets the sums of the absolute projected gradients
    before each change: |p − s·x|, or where x is 0, only its positive part, since x cannot fall.
    """
    stride = tile.n

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        tile_value, x, p, at, s, i, keep, step, k, epsilon, gradients = memories(context, builder, signature, values)
        floor = splat(builder, epsilon)
        start = ir.Constant(at.type, 0)
        totals = [gradients.load(gradients.index(start, v * tile.width)) for v in range(tile.n)]
        sums = [builder.extract_value(tile_value, v) for v in range(ROWS * tile.n)]
        for row in range(ROWS):
            kept = keep.broadcast(keep.index(k, row))
            moved = step.broadcast(step.index(k, row))
            changes = []
            for v in range(tile.n):
                where = x.index(at, (row * stride + v) * tile.width)
                old = x.load(where)
                slope = builder.fsub(p.load(where), sums[row * tile.n + v])
                totals[v] = builder.fadd(totals[v], _projected(builder, slope, old))
                new = _maximum(builder, fma(builder, slope, moved, builder.fmul(old, kept)), floor)
                x.store(where, new)
                changes.append(builder.fsub(new, old))
            # The sums of later rows include the old values of this row. Correct them by its change.
            for later in range(row + 1, ROWS):
                factor = s.broadcast(s.index(i, row * ROWS + later))
                for v in range(tile.n):
                    which = later * tile.n + v
                    sums[which] = fma(builder, factor, changes[v], sums[which])
        for v, total in enumerate(totals):
            gradients.store(gradients.index(start, v * tile.width), total)
        return context.get_dummy_value()

    kinds = (tile, x, p, index_type(at), s, index_type(i), keep, step, index_type(k), epsilon, gradients)
    return types.void(*kinds), codegen


def _projected(builder: ir.IRBuilder, slope: ir.Value, x: ir.Value) -> ir.Value:
    """Return the absolute projected gradient of x >= 0."""
    zero = ir.Constant(x.type, None)
    rise = _maximum(builder, slope, zero)
    size = _maximum(builder, slope, builder.fneg(slope))
    return builder.select(builder.fcmp_ordered("==", x, zero), rise, size)


# --- transposition ---


@intrinsic
def transpose(
    typingctx: TypingContext,
    source: types.Array,
    i: types.Integer,
    source_stride: types.Integer,
    target: types.Array,
    j: types.Integer,
    target_stride: types.Integer,
) -> Lowering:
    """Write the transpose of a square at ``source[i]`` to ``target[j]``; its side is one register.

    The strides are the distances between the rows of each square.
    """

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        source, i, source_stride, target, j, target_stride = memories(context, builder, signature, values)
        width = source.vector.count
        rows = []
        for _ in range(width):
            rows.append(source.load(i))
            i = builder.add(i, source_stride)
        for row in _transposed(builder, rows, width):
            target.store(j, row)
            j = builder.add(j, target_stride)
        return context.get_dummy_value()

    kinds = (source, index_type(i), index_type(source_stride), target, index_type(j), index_type(target_stride))
    return types.void(*kinds), codegen


def _transposed(builder: ir.IRBuilder, rows: list[ir.Value], width: int) -> list[ir.Value]:
    """Return the columns of a square of vectors.

    A round interleaves row r with row r + width/2. It moves one bit of the row's index to the column's index, so that
    log2(width) rounds exchange the two.
    """
    low, high = [], []
    for lane in range(width // 2):
        low += [lane, width + lane]
        high += [lane + width // 2, width + lane + width // 2]
    for _ in range(width.bit_length() - 1):
        half = len(rows) // 2
        interleaved = []
        for r in range(half):
            for mask in (low, high):
                interleaved.append(builder.shuffle_vector(rows[r], rows[r + half], lane_constants(mask)))
        rows = interleaved
    return rows
