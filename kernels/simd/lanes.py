"""Eight numbers in one vector register, for kernels that compute in lanes.

LLVM maps the eight lanes to whatever registers the processor has, so that results are the same everywhere. Arithmetic
is that of the scalar operations, lane by lane: no sum is reordered.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

LANES = 8
I32 = ir.IntType(32)


class Lanes(types.Type):
    """The numba type of eight numbers of one kind."""

    def __init__(self, element):
        self.element = element
        super().__init__(f"Lanes({element})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.element).get_value_type(), LANES))


def _pointer(context, builder, kind, array, index, element):
    struct = context.make_array(kind)(context, builder, array)
    return builder.bitcast(builder.gep(struct.data, [index]), ir.PointerType(element))


def _constant(values, bits=32):
    return ir.Constant(ir.VectorType(ir.IntType(bits), LANES), values)


def _splat(builder, value):
    vector = ir.VectorType(value.type, LANES)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, I32(0))
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), _constant([0] * LANES))


@intrinsic
def load(typingctx, array, index):
    """Return ``array[index:index + 8]`` of a C-contiguous array; the index is flat and not checked."""
    if not isinstance(array, types.Array):
        return None

    def codegen(context, builder, signature, arguments):
        element = context.get_value_type(array.dtype)
        index64 = context.cast(builder, arguments[1], signature.args[1], types.intp)
        pointer = _pointer(context, builder, array, arguments[0], index64, ir.VectorType(element, LANES))
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, index), codegen


@intrinsic
def store(typingctx, array, index, lanes):
    """Write eight numbers to ``array[index:index + 8]``, unchecked."""
    if not isinstance(lanes, Lanes):
        return None

    def codegen(context, builder, signature, arguments):
        index64 = context.cast(builder, arguments[1], signature.args[1], types.intp)
        pointer = _pointer(context, builder, array, arguments[0], index64, arguments[2].type)
        builder.store(arguments[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, lanes), codegen


@intrinsic
def splat(typingctx, x):
    """Return eight times ``x``."""

    def codegen(context, builder, signature, arguments):
        return _splat(builder, arguments[0])

    return Lanes(x)(x), codegen


@intrinsic
def gather(typingctx, array, index):
    """Return ``array[k]`` for the eight k of ``index`` (uint32), unchecked."""
    if not (isinstance(array, types.Array) and isinstance(index, Lanes)):
        return None

    def codegen(context, builder, signature, arguments):
        struct = context.make_array(array)(context, builder, arguments[0])
        element = context.get_value_type(array.dtype)
        result = ir.Constant(ir.VectorType(element, LANES), ir.Undefined)
        for lane in range(LANES):
            k = builder.zext(builder.extract_element(arguments[1], I32(lane)), ir.IntType(64))
            result = builder.insert_element(result, builder.load(builder.gep(struct.data, [k])), I32(lane))
        return result

    return Lanes(array.dtype)(array, index), codegen


@intrinsic
def high_half(typingctx, x):
    """Return the upper 16 bits of each uint32."""

    def codegen(context, builder, signature, arguments):
        return builder.lshr(arguments[0], _constant([16] * LANES))

    return x(x), codegen


@intrinsic
def low_half(typingctx, x):
    """Return the lower 16 bits of each uint32."""

    def codegen(context, builder, signature, arguments):
        return builder.and_(arguments[0], _constant([0xFFFF] * LANES))

    return x(x), codegen


@intrinsic
def to_float(typingctx, x):
    """Turn uint32 below 2^31 into float32."""

    def codegen(context, builder, signature, arguments):
        return builder.sitofp(arguments[0], ir.VectorType(ir.FloatType(), LANES))

    return Lanes(types.float32)(x), codegen


@intrinsic
def where_equal(typingctx, a, b, x, y):
    """Return x where a == b (integers), else y."""

    def codegen(context, builder, signature, arguments):
        a, b, x, y = arguments
        return builder.select(builder.icmp_unsigned("==", a, b), x, y)

    return x(a, b, x, y), codegen


@intrinsic
def add(typingctx, a, b):
    """Return a + b."""

    def codegen(context, builder, signature, arguments):
        operation = builder.fadd if isinstance(a.element, types.Float) else builder.add
        return operation(*arguments)

    return a(a, b), codegen


@intrinsic
def subtract(typingctx, a, b):
    """Return a - b."""

    def codegen(context, builder, signature, arguments):
        operation = builder.fsub if isinstance(a.element, types.Float) else builder.sub
        return operation(*arguments)

    return a(a, b), codegen


@intrinsic
def multiply(typingctx, a, b):
    """Return a * b (floats)."""

    def codegen(context, builder, signature, arguments):
        return builder.fmul(*arguments)

    return a(a, b), codegen


@intrinsic
def to_double(typingctx, x):
    """Turn float32 into float64."""

    def codegen(context, builder, signature, arguments):
        return builder.fpext(arguments[0], ir.VectorType(ir.DoubleType(), LANES))

    return Lanes(types.float64)(x), codegen


@intrinsic
def prefix_sums(typingctx, x):
    """Return x0, x0 + x1, ... by three rounds of shifted additions."""

    def codegen(context, builder, signature, arguments):
        total = arguments[0]
        zero = ir.Constant(total.type, [0.0] * LANES)
        for step in (1, 2, 4):
            shift = [LANES + i - step if i >= step else 0 for i in range(LANES)]
            total = builder.fadd(total, builder.shuffle_vector(zero, total, _constant(shift)))
        return total

    return x(x), codegen


@intrinsic
def count_at_most(typingctx, lanes, x):
    """Return how many of eight floats are at most ``x``."""

    def codegen(context, builder, signature, arguments):
        mask = builder.fcmp_ordered("<=", arguments[0], _splat(builder, arguments[1]))
        bits = builder.bitcast(mask, ir.IntType(LANES))
        kind = ir.FunctionType(ir.IntType(LANES), [ir.IntType(LANES)])
        count = cgutils.get_or_insert_function(builder.module, kind, f"llvm.ctpop.i{LANES}")
        return builder.zext(builder.call(count, [bits]), ir.IntType(64))

    return types.int64(lanes, x), codegen


@intrinsic
def add_one_where_at_most(typingctx, counts, lanes, x):
    """Return ``counts`` (uint32), one more in each lane whose number is at most that of ``x``."""

    def codegen(context, builder, signature, arguments):
        counts, lanes, x = arguments
        return builder.sub(counts, builder.sext(builder.fcmp_ordered("<=", lanes, x), counts.type))

    return counts(counts, lanes, x), codegen


@intrinsic
def shift_up(typingctx, lanes):
    """Return 0 and the first seven numbers."""

    def codegen(context, builder, signature, arguments):
        zero = ir.Constant(arguments[0].type, [0.0] * LANES)
        return builder.shuffle_vector(zero, arguments[0], _constant([0] + [LANES + i for i in range(LANES - 1)]))

    return lanes(lanes), codegen


@intrinsic
def pick(typingctx, lanes, lane):
    """Return the number in a lane, 0 to 7."""

    def codegen(context, builder, signature, arguments):
        return builder.extract_element(arguments[0], builder.trunc(arguments[1], I32))

    return lanes.element(lanes, lane), codegen


def _operator(symbol, function):
    def typed(a, b):
        return (lambda a, b: function(a, b)) if isinstance(a, Lanes) and a == b else None

    overload(symbol, inline="always")(typed)


_operator(operator.add, add)
_operator(operator.sub, subtract)
_operator(operator.mul, multiply)
