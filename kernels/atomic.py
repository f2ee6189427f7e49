"""Additions that several threads may make to one array at once."""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def atomic_add(typingctx, array, index, value):
    """Add to ``array[index]`` (C-contiguous, integers) as one indivisible step, ordered with no other memory."""

    def codegen(context, builder, signature, arguments):
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        position = context.cast(builder, arguments[1], signature.args[1], types.intp)
        added = context.cast(builder, arguments[2], signature.args[2], signature.args[0].dtype)
        builder.atomic_rmw("add", cgutils.gep(builder, struct.data, position), added, "monotonic")
        return context.get_dummy_value()

    return types.void(array, index, value), codegen
