"""Rows of a matrix in registers, for sums of many rows. See lowering.py before changes.

The numbers of a row are cut into n vectors of one width: the widest power of two that is at most the length of the row
and at most a register. The last vector ends with the row. So it overlaps the one before it, if the length is no
multiple of the width. Numbers in the overlap are computed twice, with the same result. Thus no operation needs a mask,
and matrices need no padding. A row that takes too many registers is cut into panels, and kernels run once per panel.

Both the width and n are part of the type of a `RowShape`. So numba compiles each kernel once per shape, and a row of
sums stays in registers.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox

from . import tiles
from .aligned import CACHE_LINE_BYTES
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
    vectors_of,
)
from .prefetch import prefetch_pointer
from .tiles import index_type, lanes

#: Vectors in a panel, at most. Of the registers of AVX-512, half. More would fit, but wider panels of a large matrix
#: leave the last cache sooner. Of the registers of other processors, three quarters.
MAX_VECTORS_512 = 16
MAX_VECTORS = 12
#: Rows of more bytes than this are prefetched. For shorter ones, the processor reads far enough ahead on its own.
PREFETCHED_BYTES = 128

I64 = ir.IntType(64)


class RowShape:
    """How ``columns`` numbers are cut: into ``n`` vectors of ``width`` numbers."""

    def __init__(self, columns: int, width: int):
        self.columns = columns
        self.width = width
        self.n = -(-columns // width)


class Panel(NamedTuple):
    """Consecutive columns of all rows of a matrix."""

    start: int
    shape: RowShape


def panels(K: int, dtype: Any, most: int | None = None) -> list[Panel]:
    """Cut rows of K numbers into as few panels as possible, of about the same number of vectors.

    ``most`` is the greatest number of vectors in a panel. By default, a row of sums leaves some registers free.
    """
    width = 1
    while 2 * width <= min(K, lanes(dtype)):
        width *= 2
    vectors = -(-K // width)
    if most is None:
        most = MAX_VECTORS_512 if tiles.BITS == 512 else MAX_VECTORS
    n = -(-vectors // most)
    cuts = [width * (vectors * panel // n) for panel in range(n)] + [K]
    return [Panel(start, RowShape(stop - start, width)) for start, stop in pairwise(cuts)]


class RowShapeType(types.Type):
    """The numba type of a `RowShape`. Its value is the number of columns."""

    def __init__(self, width: int, n: int):
        self.width = width
        self.n = n
        super().__init__(f"RowShape({width}, {n})")


@register_model(RowShapeType)
class _RowShapeModel(models.PrimitiveModel):
    """How LLVM stores it: the number of columns."""

    def __init__(self, manager: Any, kind: RowShapeType):
        super().__init__(manager, kind, I64)


@typeof_impl.register(RowShape)
def _type_of_shape(shape: RowShape, _: Any) -> RowShapeType:
    return RowShapeType(shape.width, shape.n)


@unbox(RowShapeType)
def _unbox_shape(kind: RowShapeType, shape: ir.Value, unboxing: Any) -> NativeValue:
    attribute = unboxing.pyapi.object_getattr_string(shape, "columns")
    columns = unboxing.pyapi.long_as_longlong(attribute)
    unboxing.pyapi.decref(attribute)
    return NativeValue(columns)


class Row(types.Type):
    """The numba type of a panel of a row: ``n`` vectors."""

    def __init__(self, element: types.Type, width: int, n: int):
        self.element = element
        self.width = width
        self.n = n
        super().__init__(f"Row({element}, {width}, {n})")


@register_model(Row)
class _RowModel(models.PrimitiveModel):
    """How LLVM stores it: an array of vectors."""

    def __init__(self, manager: Any, kind: Row):
        vector = ir.VectorType(manager.lookup(kind.element).get_value_type(), kind.width)
        super().__init__(manager, kind, ir.ArrayType(vector, kind.n))


class _PanelMemory:
    """One panel in memory, as generated code reads and writes it."""

    def __init__(
        self, context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values, array: int
    ) -> None:
        """``array`` is the position of the array among the arguments; its index and a shape follow it."""
        kind, index, self.shape = signature.args[array : array + 3]
        self.builder = builder
        self.columns = values[array + 2]
        self.first = context.cast(builder, values[array + 1], index, types.intp)
        self.data = context.make_array(kind)(context, builder, values[array]).data
        self.vector = ir.VectorType(context.get_value_type(kind.dtype), self.shape.width)
        self.bytes = kind.dtype.bitwidth // 8

    def pointers(self) -> list[ir.Value]:
        """Return pointers to the vectors. The last one does not go beyond the row."""
        builder = self.builder
        offsets: list[ir.Value] = [I64(v * self.shape.width) for v in range(self.shape.n)]
        last = builder.sub(self.columns, I64(self.shape.width))
        offsets[-1] = builder.select(builder.icmp_signed("<", last, offsets[-1]), last, offsets[-1])
        found = []
        for offset in offsets:
            element = builder.gep(self.data, [builder.add(self.first, offset)])
            found.append(builder.bitcast(element, ir.PointerType(self.vector)))
        return found

    def load(self) -> list[ir.Value]:
        """Return the vectors."""
        return [self.builder.load(pointer, align=self.bytes) for pointer in self.pointers()]

    def store(self, vectors: Iterable[ir.Value]) -> None:
        """Write the vectors."""
        for pointer, vector in zip(self.pointers(), vectors, strict=True):
            self.builder.store(vector, pointer, align=self.bytes)

    def multiply_add(self, factor: ir.Value, vectors: list[ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
        """Return the sums plus a number times the vectors, each entry rounded once."""
        copies = broadcast(self.builder, factor, self.vector.count)
        name = f"llvm.fma.v{self.vector.count}f{8 * self.bytes}"
        pairs = zip(vectors, sums, strict=True)
        return [call(self.builder, name, self.vector, [copies, vector, total]) for vector, total in pairs]


@intrinsic
def load_row(typingctx: TypingContext, array: types.Array, at: types.Integer, shape: RowShapeType) -> Lowering:
    """Load a panel, which is a part of a row that fits into registers, from index ``at`` on."""
    if not isinstance(shape, RowShapeType):
        return None
    row = Row(array.dtype, shape.width, shape.n)

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        return joined(builder, _PanelMemory(context, builder, signature, values, 0).load())

    return row(array, index_type(at), shape), codegen


@intrinsic
def store_row(
    typingctx: TypingContext, row: Row, array: types.Array, at: types.Integer, shape: RowShapeType
) -> Lowering:
    """Write a panel to ``array``, from index ``at`` on."""
    if not isinstance(row, Row):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        _PanelMemory(context, builder, signature, values, 1).store(vectors_of(builder, values[0]))
        return context.get_dummy_value()

    return types.void(row, array, index_type(at), shape), codegen


@intrinsic
def add_multiple(
    typingctx: TypingContext, row: Row, a: types.Float, array: types.Array, at: types.Integer, shape: RowShapeType
) -> Lowering:
    """Return ``row`` plus ``a`` times the panel of ``array`` from index ``at`` on."""
    if not isinstance(row, Row):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        panel = _PanelMemory(context, builder, signature, values, 2)
        return joined(builder, panel.multiply_add(values[1], panel.load(), vectors_of(builder, values[0])))

    return row(row, array.dtype, array, index_type(at), shape), codegen


@intrinsic
def add_multiple_to(
    typingctx: TypingContext, array: types.Array, at: types.Integer, shape: RowShapeType, a: types.Float, row: Row
) -> Lowering:
    """Add ``a`` times ``row`` to the panel of ``array`` from index ``at`` on, in place."""
    if not isinstance(row, Row):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        panel = _PanelMemory(context, builder, signature, values, 0)
        # All vectors are loaded before the first is stored, because the last two may overlap.
        panel.store(panel.multiply_add(values[3], vectors_of(builder, values[4]), panel.load()))
        return context.get_dummy_value()

    return types.void(array, index_type(at), shape, array.dtype, row), codegen


@intrinsic
def prefetch_row(typingctx: TypingContext, array: types.Array, at: types.Integer, shape: RowShapeType) -> Lowering:
    """Prefetch the panel of ``array`` from index ``at`` on, if it is long enough for that to help."""
    if not isinstance(shape, RowShapeType):
        return None
    item = array.dtype.bitwidth // 8

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        size = shape.n * shape.width * item
        first = context.cast(builder, values[1], signature.args[1], types.intp)
        lines = range(0, size, CACHE_LINE_BYTES) if size > PREFETCHED_BYTES else ()
        for line in lines:
            index = builder.add(first, I64(line // item))
            prefetch_pointer(builder, element_pointer(context, builder, array, values[0], index))
        return context.get_dummy_value()

    return types.void(array, index_type(at), shape), codegen
