"""Four neighbouring numbers of 4 bytes in one access of 16 bytes.

A compiler may only join accesses to neighbouring numbers if it can prove that the address is a multiple of 16 bytes. It
cannot prove this for an array that is an argument. Rows whose length is a multiple of four numbers, in an array that
begins on such an address, always have it. Device arrays and dynamic shared memory begin on multiples of 256 and 16
bytes.

Tested as a part of the kernels: tests/kernels/cuda/word2vec/test_cells.py. That the accesses are vectors is asserted in
tests/kernels/cuda/test_ptx.py.
"""

from collections.abc import Callable
from typing import Any

from numba import config


def _scalar_accesses() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return functions for the simulator, which is Python."""

    def load4(array: Any, i: int) -> Any:
        return array[i], array[i + 1], array[i + 2], array[i + 3]

    def store4(array: Any, i: int, values: Any) -> None:
        for k in range(4):
            array[i + k] = values[k]

    return load4, store4


def _vector_accesses() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return functions that Numba compiles to one load and one store."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.cuda.extending import intrinsic

    vector = ir.VectorType(ir.FloatType(), 4)

    def address(context: Any, builder: Any, array_type: Any, array: Any, i: Any, vector_type: Any) -> Any:
        fields = context.make_array(array_type)(context, builder, array)
        return builder.bitcast(cgutils.gep(builder, fields.data, i), vector_type.as_pointer())

    @intrinsic
    def load4(typing_context: Any, array: Any, i: Any) -> Any:
        result = types.UniTuple(array.dtype, 4)

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            number = context.get_value_type(signature.args[0].dtype)
            array_value, index = values
            where = address(context, builder, signature.args[0], array_value, index, ir.VectorType(number, 4))
            loaded = builder.load(where, align=16)
            parts = [builder.extract_element(loaded, ir.Constant(ir.IntType(32), k)) for k in range(4)]
            return context.make_tuple(builder, result, parts)

        return result(array, types.int64), code

    @intrinsic
    def store4(typing_context: Any, array: Any, i: Any, numbers: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            array_value, index, parts = values
            joined = ir.Constant(vector, ir.Undefined)
            for k in range(4):
                part = builder.extract_value(parts, k)
                joined = builder.insert_element(joined, part, ir.Constant(ir.IntType(32), k))
            where = address(context, builder, signature.args[0], array_value, index, vector)
            builder.store(joined, where, align=16)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.UniTuple(types.float32, 4)), code

    return load4, store4


#: ``load4(array, i)`` returns ``array[i:i + 4]`` of a contiguous array of float32, int32 or uint32 as a tuple.
#: ``store4(array, i, numbers)`` sets these numbers of a float32 array to those of a tuple. The index must be a multiple
#: of four.
load4, store4 = _scalar_accesses() if config.ENABLE_CUDASIM else _vector_accesses()
