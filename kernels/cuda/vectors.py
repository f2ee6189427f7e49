"""Four neighbouring numbers of 4 bytes in one access of 16 bytes.

A compiler may only join accesses to neighbouring numbers if it can prove that the address is a multiple of 16 bytes. It
cannot prove this for an array that is an argument. Rows whose length is a multiple of four numbers, in an array that
begins on such an address, always have it. Device arrays and dynamic shared memory begin on multiples of 256 and 16
bytes.

Tested as a part of the kernels: tests/kernels/cuda/word2vec/test_cells.py. That the accesses are vectors is asserted in
tests/kernels/cuda/test_ptx.py.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.cuda.extending import intrinsic


def _address(context: Any, builder: Any, array_type: Any, array: Any, i: Any, vector_type: Any) -> Any:
    fields = context.make_array(array_type)(context, builder, array)
    return builder.bitcast(cgutils.gep(builder, fields.data, i), vector_type.as_pointer())


@intrinsic
def load4(typing_context: Any, array: Any, i: Any) -> Any:
    """Return ``array[i:i + 4]`` of a contiguous array of float32, int32 or uint32; i is a multiple of four."""
    result = types.UniTuple(array.dtype, 4)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.get_value_type(signature.args[0].dtype)
        array_value, index = values
        where = _address(context, builder, signature.args[0], array_value, index, ir.VectorType(number, 4))
        loaded = builder.load(where, align=16)
        parts = [builder.extract_element(loaded, ir.Constant(ir.IntType(32), k)) for k in range(4)]
        return context.make_tuple(builder, result, parts)

    return result(array, types.int64), code


@intrinsic
def store4(typing_context: Any, array: Any, i: Any, numbers: Any) -> Any:
    """Set ``array[i:i + 4]`` of a contiguous array of float32 or int32 to four numbers; i is a multiple of four."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array_value, index, parts = values
        vector = ir.VectorType(context.get_value_type(array.dtype), 4)
        joined = ir.Constant(vector, ir.Undefined)
        for k in range(4):
            part = builder.extract_value(parts, k)
            joined = builder.insert_element(joined, part, ir.Constant(ir.IntType(32), k))
        where = _address(context, builder, signature.args[0], array_value, index, vector)
        builder.store(joined, where, align=16)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.UniTuple(array.dtype, 4)), code
