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
    operation,
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


@operation(Lanes)
def splat(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return eight copies of ``x``."""
    return broadcast(builder, x, LANES)


# --- bits and types ---


@operation(lambda x: x)
def high_half(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the upper 16 bits of each uint32."""
    return builder.lshr(x, lane_constants([16] * LANES))


@operation(lambda x: x)
def low_half(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the lower 16 bits of each uint32."""
    return builder.and_(x, lane_constants([0xFFFF] * LANES))


@operation(lambda x: Lanes(types.float32))
def to_float(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Convert uint32 below 2^31 to float32."""
    # From signed integers, since a conversion from unsigned ones takes several instructions before AVX-512.
    return builder.sitofp(x, ir.VectorType(ir.FloatType(), LANES))


@operation(lambda x: Lanes(types.float64))
def to_double(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Convert float32 to float64."""
    return builder.fpext(x, ir.VectorType(ir.DoubleType(), LANES))


# --- arithmetic and comparisons, lane by lane ---


@operation(lambda a, b: a)
def add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return a + b."""
    return builder.fadd(a, b) if _is_float(a) else builder.add(a, b)


@operation(lambda a, b: a)
def subtract(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return a - b."""
    return builder.fsub(a, b) if _is_float(a) else builder.sub(a, b)


@operation(lambda a, b: a)
def multiply(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return a * b, of floats."""
    return builder.fmul(a, b)


def _is_float(value: ir.Value) -> bool:
    return isinstance(value.type.element, ir.FloatType | ir.DoubleType)


@operation(lambda a, b, x, y: x)
def where_equal(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x where a == b (integers), else y."""
    return builder.select(builder.icmp_unsigned("==", a, b), x, y)


@operation(lambda mask, x, y: x)
def where_bits(builder: ir.IRBuilder, mask: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x in the lanes where ``mask`` (int32) has all bits, and y where it has none.

    If a vector is loaded, changed by `where_equal` and stored again, LLVM makes a masked store of that. A load from the
    same place would have to wait until that store is in the cache. It cannot do that here.
    """
    kept = builder.and_(builder.bitcast(y, mask.type), builder.not_(mask))
    taken = builder.and_(builder.bitcast(x, mask.type), mask)
    return builder.bitcast(builder.or_(kept, taken), x.type)


@operation(lambda counts, lanes, x: counts)
def add_one_where_at_most(builder: ir.IRBuilder, counts: ir.Value, lanes: ir.Value, x: ir.Value) -> ir.Value:
    """Return ``counts`` (uint32), increased by one in each lane where ``lanes`` <= x."""
    # A comparison that holds is -1 when its one bit is extended with its sign.
    return builder.sub(counts, builder.sext(builder.fcmp_ordered("<=", lanes, x), counts.type))


# --- across lanes ---


@operation(lambda x: x)
def prefix_sums(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return x0, x0 + x1, ..., x0 + ... + x7, by three rounds of additions of shifted vectors."""
    total = x
    zero = ir.Constant(total.type, [0.0] * LANES)
    for step in (1, 2, 4):
        # Lanes below LANES come from ``zero``, others from ``total``.
        shift = [LANES + i - step if i >= step else 0 for i in range(LANES)]
        total = builder.fadd(total, builder.shuffle_vector(zero, total, lane_constants(shift)))
    return total


@operation(lambda lanes: lanes)
def shift_up(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return 0, x0, ..., x6."""
    zero = ir.Constant(lanes.type, [0.0] * LANES)
    order = [0] + [LANES + i for i in range(LANES - 1)]
    return builder.shuffle_vector(zero, lanes, lane_constants(order))


@operation(lambda lanes, x: types.int64)
def count_at_most(builder: ir.IRBuilder, lanes: ir.Value, x: ir.Value) -> ir.Value:
    """Return how many of eight floats are at most ``x``."""
    mask = builder.fcmp_ordered("<=", lanes, broadcast(builder, x, LANES))
    byte = ir.IntType(LANES)
    count = call(builder, f"llvm.ctpop.i{LANES}", byte, [builder.bitcast(mask, byte)])
    return builder.zext(count, ir.IntType(64))


@operation(lambda a, b: types.int64)
def first_equal(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the first lane in which two vectors of integers are equal, LANES if there is none."""
    word = ir.IntType(64)
    mask = builder.icmp_unsigned("==", a, b)
    bits = builder.zext(builder.bitcast(mask, ir.IntType(LANES)), word)
    return call(builder, "llvm.cttz.i64", word, [builder.or_(bits, word(1 << LANES)), ir.IntType(1)(1)])


@operation(lambda lanes, lane: lanes.element)
def pick(builder: ir.IRBuilder, lanes: ir.Value, lane: ir.Value) -> ir.Value:
    """Return the number in one lane, 0 to 7."""
    return builder.extract_element(lanes, builder.trunc(lane, I32))


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
