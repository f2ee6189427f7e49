"""Eight numbers in one vector, for kernels that run eight sums at the same time. See lowering.py before changes.

A vector always has eight lanes, whatever registers the processor has: LLVM splits it into two or four registers, or
uses half a register. So results are the same on all processors. Each operation is that of the scalars, lane by lane,
and no sum is reordered.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

from .lowering import (
    I32,
    BaseContext,
    Lowering,
    Signature,
    TypingContext,
    Values,
    broadcast,
    call,
    element_pointer,
    lane_constants,
)

LANES = 8
#: Copies that `fill` writes: two registers of AVX2 for 16-bit numbers, one of AVX-512.
COPIES = 32


class Lanes(types.Type):
    """The numba type of eight numbers of one kind."""

    def __init__(self, element: types.Type):
        self.element = element
        super().__init__(f"Lanes({element})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    """How LLVM stores it: a vector of eight elements."""

    def __init__(self, manager: Any, kind: Lanes):
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.element).get_value_type(), LANES))


def _is_float(kind: Lanes) -> bool:
    return isinstance(kind.element, types.Float)


# --- memory ---


def _vector_pointer(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values, vector: ir.VectorType
) -> ir.Value:
    """Return a pointer to the eight elements at ``array[index]``, the first two arguments of an intrinsic."""
    index = context.cast(builder, arguments[1], signature.args[1], types.intp)
    pointer = element_pointer(context, builder, signature.args[0], arguments[0], index)
    return builder.bitcast(pointer, ir.PointerType(vector))


@intrinsic
def load(typingctx: TypingContext, array: types.Array, index: types.Integer) -> Lowering:
    """Return ``array[index:index + 8]``."""
    if not isinstance(array, types.Array):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        vector = ir.VectorType(context.get_value_type(array.dtype), LANES)
        pointer = _vector_pointer(context, builder, signature, arguments, vector)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, index), codegen


@intrinsic
def store(typingctx: TypingContext, array: types.Array, index: types.Integer, lanes: Lanes) -> Lowering:
    """Write eight numbers to ``array[index:index + 8]``."""
    # None tells Numba that these types do not fit, and it reports a typing error.
    if not isinstance(lanes, Lanes):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        pointer = _vector_pointer(context, builder, signature, arguments, arguments[2].type)
        # The index is arbitrary, so the address is aligned to one number only.
        builder.store(arguments[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, lanes), codegen


@intrinsic
def fill(typingctx: TypingContext, array: types.Array, index: types.Integer, x: types.Number) -> Lowering:
    """Write COPIES copies of ``x`` to ``array[index:index + COPIES]``.

    LLVM splits the vector into as few stores as the processor has wide enough registers for.
    """
    if not isinstance(array, types.Array):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        vector = ir.VectorType(context.get_value_type(array.dtype), COPIES)
        pointer = _vector_pointer(context, builder, signature, arguments, vector)
        value = context.cast(builder, arguments[2], signature.args[2], array.dtype)
        builder.store(broadcast(builder, value, COPIES), pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, x), codegen


@intrinsic
def gather(typingctx: TypingContext, array: types.Array, index: Lanes) -> Lowering:
    """Return ``array[k]`` for the eight k of ``index`` (uint32)."""
    if not (isinstance(array, types.Array) and isinstance(index, Lanes)):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        # Eight scalar loads: on most processors they are as fast as a gather instruction.
        result = ir.Constant(ir.VectorType(context.get_value_type(array.dtype), LANES), ir.Undefined)
        for lane in range(LANES):
            k = builder.zext(builder.extract_element(arguments[1], I32(lane)), ir.IntType(64))
            element = builder.load(element_pointer(context, builder, array, arguments[0], k))
            result = builder.insert_element(result, element, I32(lane))
        return result

    return Lanes(array.dtype)(array, index), codegen


@intrinsic
def gather_by_high_half(
    typingctx: TypingContext, array: types.Array, packed: types.Array, index: types.Integer
) -> Lowering:
    """Return ``array[k]`` for the upper 16 bits k of each of ``packed[index:index + 8]`` (uint32).

    The same as `gather`, `high_half` and `load`, but the eight k are loaded one by one. To extract numbers from a
    vector takes twice as many instructions, and only one unit of the processor executes them.
    """
    if not (isinstance(array, types.Array) and isinstance(packed, types.Array)):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        start = context.cast(builder, arguments[2], signature.args[2], types.intp)
        first = element_pointer(context, builder, packed, arguments[1], start)
        halves = builder.bitcast(first, ir.PointerType(ir.IntType(16)))
        result = ir.Constant(ir.VectorType(context.get_value_type(array.dtype), LANES), ir.Undefined)
        for lane in range(LANES):
            # On little-endian processors, the upper half comes second. LLVM would join plain loads of neighbours to
            # the load of a vector. It leaves atomic loads as they are, and these are ordinary instructions.
            high = builder.load_atomic(builder.gep(halves, [I32(2 * lane + 1)]), "unordered", 2)
            k = builder.zext(high, ir.IntType(64))
            element = builder.load(element_pointer(context, builder, array, arguments[0], k))
            result = builder.insert_element(result, element, I32(lane))
        return result

    return Lanes(array.dtype)(array, packed, index), codegen


@intrinsic
def splat(typingctx: TypingContext, x: types.Number) -> Lowering:
    """Return eight copies of ``x``."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        return broadcast(builder, arguments[0], LANES)

    return Lanes(x)(x), codegen


# --- bits and types ---


@intrinsic
def high_half(typingctx: TypingContext, x: Lanes) -> Lowering:
    """Return the upper 16 bits of each uint32."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        return builder.lshr(arguments[0], lane_constants([16] * LANES))

    return x(x), codegen


@intrinsic
def low_half(typingctx: TypingContext, x: Lanes) -> Lowering:
    """Return the lower 16 bits of each uint32."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        return builder.and_(arguments[0], lane_constants([0xFFFF] * LANES))

    return x(x), codegen


@intrinsic
def to_float(typingctx: TypingContext, x: Lanes) -> Lowering:
    """Convert uint32 below 2^31 to float32."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        # From signed integers, since a conversion from unsigned ones takes several instructions before AVX-512.
        return builder.sitofp(arguments[0], ir.VectorType(ir.FloatType(), LANES))

    return Lanes(types.float32)(x), codegen


@intrinsic
def to_double(typingctx: TypingContext, x: Lanes) -> Lowering:
    """Convert float32 to float64."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        return builder.fpext(arguments[0], ir.VectorType(ir.DoubleType(), LANES))

    return Lanes(types.float64)(x), codegen


# --- arithmetic and comparisons, lane by lane ---


@intrinsic
def add(typingctx: TypingContext, a: Lanes, b: Lanes) -> Lowering:
    """Return a + b."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        operation = builder.fadd if _is_float(a) else builder.add
        return operation(*arguments)

    return a(a, b), codegen


@intrinsic
def subtract(typingctx: TypingContext, a: Lanes, b: Lanes) -> Lowering:
    """Return a - b."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        operation = builder.fsub if _is_float(a) else builder.sub
        return operation(*arguments)

    return a(a, b), codegen


@intrinsic
def multiply(typingctx: TypingContext, a: Lanes, b: Lanes) -> Lowering:
    """Return a * b, of floats."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        return builder.fmul(*arguments)

    return a(a, b), codegen


@intrinsic
def where_equal(typingctx: TypingContext, a: Lanes, b: Lanes, x: Lanes, y: Lanes) -> Lowering:
    """Return x where a == b (integers), else y."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        a, b, x, y = arguments
        return builder.select(builder.icmp_unsigned("==", a, b), x, y)

    return x(a, b, x, y), codegen


@intrinsic
def add_one_where_at_most(typingctx: TypingContext, counts: Lanes, lanes: Lanes, x: Lanes) -> Lowering:
    """Return ``counts`` (uint32), increased by one in each lane where ``lanes`` <= x."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        counts, lanes, x = arguments
        # A comparison that holds is -1 when its one bit is extended with its sign.
        return builder.sub(counts, builder.sext(builder.fcmp_ordered("<=", lanes, x), counts.type))

    return counts(counts, lanes, x), codegen


# --- across lanes ---


@intrinsic
def prefix_sums(typingctx: TypingContext, x: Lanes) -> Lowering:
    """Return x0, x0 + x1, ..., x0 + ... + x7, by three rounds of additions of shifted vectors."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        total = arguments[0]
        zero = ir.Constant(total.type, [0.0] * LANES)
        for step in (1, 2, 4):
            # Lanes below LANES come from ``zero``, others from ``total``.
            shift = [LANES + i - step if i >= step else 0 for i in range(LANES)]
            total = builder.fadd(total, builder.shuffle_vector(zero, total, lane_constants(shift)))
        return total

    return x(x), codegen


@intrinsic
def shift_up(typingctx: TypingContext, lanes: Lanes) -> Lowering:
    """Return 0, x0, ..., x6."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        zero = ir.Constant(arguments[0].type, [0.0] * LANES)
        order = [0] + [LANES + i for i in range(LANES - 1)]
        return builder.shuffle_vector(zero, arguments[0], lane_constants(order))

    return lanes(lanes), codegen


@intrinsic
def count_at_most(typingctx: TypingContext, lanes: Lanes, x: types.Float) -> Lowering:
    """Return how many of eight floats are at most ``x``."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        mask = builder.fcmp_ordered("<=", arguments[0], broadcast(builder, arguments[1], LANES))
        byte = ir.IntType(LANES)
        count = call(builder, f"llvm.ctpop.i{LANES}", byte, [builder.bitcast(mask, byte)])
        return builder.zext(count, ir.IntType(64))

    return types.int64(lanes, x), codegen


@intrinsic
def pick(typingctx: TypingContext, lanes: Lanes, lane: types.Integer) -> Lowering:
    """Return the number in one lane, 0 to 7."""

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        return builder.extract_element(arguments[0], builder.trunc(arguments[1], I32))

    return lanes.element(lanes, lane), codegen


# --- operators ---


def _overload_operator(symbol: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Let compiled code write an operator between two vectors of one type."""

    def implementation(a: Any, b: Any) -> Any:
        return function(a, b)

    # Numba demands that both functions have equal parameters, annotations included.
    def typed(a: Any, b: Any) -> Any:
        return implementation if isinstance(a, Lanes) and a == b else None

    overload(symbol, inline="always")(typed)


_overload_operator(operator.add, add)
_overload_operator(operator.sub, subtract)
_overload_operator(operator.mul, multiply)
