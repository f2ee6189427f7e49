"""Prefetching: LLVM's instruction that loads a cache line before it is needed. See lowering.py before changes."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .lowering import I32, BaseContext, Lowering, Signature, TypingContext, Values, call, element_pointer

#: Arguments of ``llvm.prefetch``: the line will be read, stays in all caches or all but the smallest, and holds data.
READ = I32(0)
KEEP = I32(3)
KEEP_IN_LARGER = I32(2)
DATA = I32(1)


def prefetch_pointer(builder: ir.IRBuilder, pointer: ir.Value, keep: ir.Constant = KEEP) -> None:
    """Emit the instruction that loads the cache line of a pointer."""
    address = builder.bitcast(pointer, cgutils.voidptr_t)
    call(builder, "llvm.prefetch.p0", ir.VoidType(), [address, READ, keep, DATA])


@intrinsic
def prefetch(typingctx: TypingContext, array: types.Array, index: types.Integer) -> Lowering:
    """Begin to load the cache line of ``array[index]`` (C-contiguous, flat index).

    A prefetch changes no result, and an index out of range does no harm.
    """
    if not isinstance(array, types.Array):
        return None

    def codegen(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        position = context.cast(builder, arguments[1], signature.args[1], types.intp)
        prefetch_pointer(builder, element_pointer(context, builder, array, arguments[0], position))
        return context.get_dummy_value()

    return types.void(array, index), codegen
