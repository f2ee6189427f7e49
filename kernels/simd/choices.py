"""Rows of at most 64 numbers in registers, and random choices among them. See lowering.py before changes.

A row is a `rows.Row` of vectors with eight lanes: entry i is in lane i % 8 of vector i // 8. A mask has a bit for each
entry of a row. A choice is a mask with one bit. A kernel that adds to the chosen entry, or replaces it, needs only the
mask. The index of the entry takes longer, and is ready while the kernel already prepares the next choice.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

from .aligned import CACHE_LINE_BYTES
from .lanes import LANES
from .lowering import (
    BaseContext,
    Lowering,
    Signature,
    TypingContext,
    Values,
    broadcast,
    call,
    element_pointer,
    joined,
    lane_constants,
    vectors_of,
)
from .prefetch import prefetch_pointer
from .rows import Row, RowShape, RowShapeType
from .tiles import index_type

#: The last lane.
LAST = LANES - 1
#: The longest row. Half of the registers of AVX-512 hold two of them.
MOST = 64


def row_shape(n: int) -> RowShape:
    """Return the shape of rows with at least n entries, at most `MOST`."""
    return RowShape(-(-n // LANES) * LANES, LANES)


class Mask(types.Type):
    """The numba type of a mask: a bit for each entry of a row of ``n`` vectors."""

    def __init__(self, n: int):
        self.n = n
        super().__init__(f"Mask({n})")


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    """How LLVM stores it: an array of vectors of bits."""

    def __init__(self, manager: Any, kind: Mask):
        super().__init__(manager, kind, ir.ArrayType(ir.VectorType(ir.IntType(1), LANES), kind.n))


@intrinsic
def prefetch_entries(typingctx: TypingContext, array: types.Array, at: types.Integer, shape: RowShapeType) -> Lowering:
    """Begin to load the cache lines of the row at ``array[at]``."""
    if not isinstance(shape, RowShapeType):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        first = context.cast(builder, values[1], signature.args[1], types.intp)
        last = shape.n * LANES - 1
        # A row may begin inside a cache line, so its last entry may be in one more.
        for entry in [*range(0, last, CACHE_LINE_BYTES * 8 // array.dtype.bitwidth), last]:
            index = builder.add(first, first.type(entry))
            prefetch_pointer(builder, element_pointer(context, builder, array, values[0], index))
        return context.get_dummy_value()

    return types.void(array, index_type(at), shape), codegen


# --- entry by entry ---


@intrinsic
def spread(typingctx: TypingContext, x: types.Number, shape: RowShapeType) -> Lowering:
    """Return a row of copies of ``x``."""
    if not isinstance(shape, RowShapeType):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        return joined(builder, [broadcast(builder, values[0], LANES)] * shape.n)

    return Row(x, LANES, shape.n)(x, shape), codegen


@intrinsic
def one_hot(typingctx: TypingContext, index: types.Integer, shape: RowShapeType) -> Lowering:
    """Return a mask with the bit at ``index``."""
    if not isinstance(shape, RowShapeType):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        copies = broadcast(builder, context.cast(builder, values[0], signature.args[0], types.int32), LANES)
        found = []
        for v in range(shape.n):
            indices = lane_constants(range(v * LANES, (v + 1) * LANES))
            found.append(builder.icmp_unsigned("==", indices, copies))
        return joined(builder, found)

    return Mask(shape.n)(index, shape), codegen


@intrinsic
def where(typingctx: TypingContext, mask: Mask, a: Row, b: Row) -> Lowering:
    """Return the entries of ``a`` at the bits of the mask, and those of ``b`` elsewhere."""
    if not isinstance(mask, Mask):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        triples = zip(*(vectors_of(builder, value) for value in values), strict=True)
        return joined(builder, [builder.select(*triple) for triple in triples])

    return b(mask, a, b), codegen


@intrinsic
def to_floats(typingctx: TypingContext, row: Row) -> Lowering:
    """Convert a row of int32 to float32."""
    if not isinstance(row, Row):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        kind = ir.VectorType(ir.FloatType(), LANES)
        return joined(builder, [builder.sitofp(vector, kind) for vector in vectors_of(builder, values[0])])

    return Row(types.float32, row.width, row.n)(row), codegen


@intrinsic
def to_integers(typingctx: TypingContext, row: Row) -> Lowering:
    """Convert a row of float32, which are integers, to int32."""
    if not isinstance(row, Row):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        kind = ir.VectorType(ir.IntType(32), LANES)
        return joined(builder, [builder.fptosi(vector, kind) for vector in vectors_of(builder, values[0])])

    return Row(types.int32, row.width, row.n)(row), codegen


def _overload_operator(symbol: Callable[..., Any], of_floats: Callable[..., Any], of_integers: Any = None) -> None:
    """Let compiled code write an operator between two rows of one type: it applies to each pair of entries."""

    @intrinsic
    def apply(typingctx: TypingContext, a: Row, b: Row) -> Lowering:
        operation = of_floats if isinstance(a.element, types.Float) else of_integers

        def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
            pairs = zip(*(vectors_of(builder, value) for value in values), strict=True)
            return joined(builder, [operation(builder, *pair) for pair in pairs])

        return a(a, b), codegen

    def implementation(a: Any, b: Any) -> Any:
        return apply(a, b)

    # Numba demands that both functions have equal parameters, annotations included.
    def typed(a: Any, b: Any) -> Any:
        return implementation if isinstance(a, Row) and a == b else None

    overload(symbol, inline="always")(typed)


_overload_operator(operator.add, ir.IRBuilder.fadd, ir.IRBuilder.add)
_overload_operator(operator.sub, ir.IRBuilder.fsub, ir.IRBuilder.sub)
_overload_operator(operator.mul, ir.IRBuilder.fmul)
_overload_operator(operator.truediv, ir.IRBuilder.fdiv)


# --- choices ---


@intrinsic
def choose(typingctx: TypingContext, weights: Row, u: types.Float) -> Lowering:
    """Return the mask of one entry, chosen with a probability in proportion to its weight, by 0 <= ``u`` < 1.

    The weights are float32 and not negative. The intervals are in the order of the lanes: those of lane 0 come first,
    then those of lane 1, and so on. Rounding may choose the last entry of a lane even if it has no weight.
    """
    if not isinstance(weights, Row):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        vectors = vectors_of(builder, values[0])
        lane_totals = _sum_of_pairs(builder, vectors)
        ends = _increasing_sums(builder, lane_totals)
        kind = ends.type
        zero = ir.Constant(kind, [0.0] * LANES)
        infinity = ir.Constant(kind, [float("inf")] * LANES)
        starts = builder.shuffle_vector(zero, ends, lane_constants([0, *range(LANES, LANES + LAST)]))
        # An entry ends where the next one begins, so that exactly one entry holds x. Sums that were added in another
        # order may end beyond the lane by a rounding error. The last entry has no end.
        entry_ends = []
        running = zero
        for vector in vectors[:-1]:
            running = builder.fadd(running, vector)
            end = builder.fadd(starts, running)
            entry_ends.append(builder.select(builder.fcmp_ordered("<", end, ends), end, ends))
        entry_ends.append(builder.shuffle_vector(ends, infinity, lane_constants([*range(LAST), LANES])))
        x = builder.fmul(broadcast(builder, values[1], LANES), _total(builder, lane_totals))
        # The entries that end after x, in each lane, include those of the vector before. The difference is the choice.
        before = builder.fcmp_ordered("<", x, starts)
        found = []
        for end in entry_ends:
            after = builder.fcmp_ordered("<", x, end)
            found.append(builder.xor(before, after))
            before = after
        return joined(builder, found)

    return Mask(weights.n)(weights, u), codegen


def _sum_of_pairs(builder: ir.IRBuilder, vectors: list[ir.Value]) -> ir.Value:
    """Return the sum of vectors, in pairs, because an addition that waits for the one before it takes longer."""
    while len(vectors) > 1:
        pairs = [builder.fadd(*vectors[i : i + 2]) for i in range(0, len(vectors) - 1, 2)]
        vectors = pairs + vectors[2 * len(pairs) :]
    return vectors[0]


def _increasing_sums(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return x0, x0 + x1, ..., x0 + ... + x7 of a vector whose numbers are not negative.

    Each round joins pairs of blocks: the sum of the left block is added to all sums of the right one. So rounding never
    lets a sum be less than the one before it. Sums of shifted vectors, as those of `lanes.prefix_sums`, can be less.
    """
    zero = ir.Constant(x.type, [0.0] * LANES)
    for size in (1, 2, 4):
        left_ends = [LANES + i // size * size - 1 if i & size else 0 for i in range(LANES)]
        x = builder.fadd(x, builder.shuffle_vector(zero, x, lane_constants(left_ends)))
    return x


def _total(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the sum of all lanes, in all lanes. The last of `_increasing_sums` would still have to be copied."""
    for size in (1, 2, 4):
        x = builder.fadd(x, builder.shuffle_vector(x, x, lane_constants([i ^ size for i in range(LANES)])))
    return x


@intrinsic
def index_of(typingctx: TypingContext, mask: Mask) -> Lowering:
    """Return the index of the only bit of a mask."""
    if not isinstance(mask, Mask):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        word = ir.IntType(64)
        bits = word(0)
        for v, vector in enumerate(vectors_of(builder, values[0])):
            eight = builder.zext(builder.bitcast(vector, ir.IntType(LANES)), word)
            bits = builder.or_(bits, builder.shl(eight, word(v * LANES)))
        return call(builder, "llvm.cttz.i64", word, [bits, ir.IntType(1)(1)])

    return types.uint64(mask), codegen
