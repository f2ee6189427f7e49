"""Arrays by their addresses, for kernels that read any number of arrays. See lowering.py before changes."""

from collections.abc import Sequence

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .lowering import BaseContext, Lowering, Signature, TypingContext, Values
from .prefetch import prefetch_pointer


def addresses(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the addresses of C-contiguous arrays: (n,) uint64. They hold as long as the caller keeps the arrays."""
    for array in arrays:
        assert array.flags.c_contiguous
    return np.array([array.ctypes.data for array in arrays], np.uint64)


def _pointer_at(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values, like: types.Array
) -> ir.Value:
    """Return the pointer to the element at the index ``values[1]`` of the array at the address ``values[0]``."""
    pointer = builder.inttoptr(values[0], ir.PointerType(context.get_value_type(like.dtype)))
    position = context.cast(builder, values[1], signature.args[1], types.uintp)
    return builder.gep(pointer, [position])


@intrinsic
def read_at(typingctx: TypingContext, address: types.Integer, index: types.Integer, like: types.Array) -> Lowering:
    """Return element ``index`` of the array at ``address``, whose elements have the type of those of ``like``."""
    if not isinstance(like, types.Array):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        return builder.load(_pointer_at(context, builder, signature, values, like))

    return like.dtype(address, index, like), codegen


@intrinsic
def prefetch_at(typingctx: TypingContext, address: types.Integer, index: types.Integer, like: types.Array) -> Lowering:
    """Begin to load the cache line of the element that `read_at` returns. A prefetch changes no result."""
    if not isinstance(like, types.Array):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Values) -> ir.Value:
        prefetch_pointer(builder, _pointer_at(context, builder, signature, values, like))
        return context.get_dummy_value()

    return types.void(address, index, like), codegen
