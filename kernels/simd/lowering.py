"""Helpers for the functions of this package that generate LLVM IR, and what to know before changing one.

Why generate code by hand: numba leaves it to LLVM to vectorise loops, and LLVM does so only for simple ones. It does
not keep a tile of sums in registers across a loop of unknown length, nor run eight sums with look-ups at the same time,
nor prefetch memory at all. The inner loops of LDA, NMF, Word2Vec and random indexing need these.

How it works: a function with ``@intrinsic`` runs when numba compiles a kernel that calls it. It gets the numba types of
the arguments, and returns a signature and a function ``codegen``. That function gets an LLVM builder and the arguments
as LLVM values, and emits instructions. If the types do not fit, the intrinsic returns None, and numba reports a typing
error at the call. An integer that must be known to the compiler, such as the width of a tile, arrives as a literal.

Rules for changes:

- Arrays are C-contiguous and indices are flat. Nothing checks an index, so one that is out of range corrupts memory.
- Vectors (`lanes.Lanes`, `tiles.Tile`) exist only in compiled code. They cannot be returned to Python.
- Additions happen in the order in which they are emitted. In a ``vector_kernel``, numba adds its fast-math flags to
  these instructions too.
- To read the result, call ``inspect_llvm()`` or ``inspect_asm()`` of the compiled kernel.

Tests: tests/kernels/simd compares each function with NumPy, and the tests of the models compare the kernels with the
reference implementations in tests/helpers/naive.py.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.context import BaseContext as TypingContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

__all__ = [
    "I32",
    "BaseContext",
    "Lowering",
    "Signature",
    "TypingContext",
    "Values",
    "broadcast",
    "call",
    "element_pointer",
    "joined",
    "lane_constants",
    "operation",
    "vectors_of",
]

#: The LLVM values of an intrinsic's arguments.
Values: TypeAlias = Sequence[ir.Value]
#: What an intrinsic returns: a signature and the function that emits the code; None if the types do not fit.
Lowering: TypeAlias = tuple[Signature, Callable[[BaseContext, ir.IRBuilder, Signature, Values], ir.Value]] | None

I32 = ir.IntType(32)


def operation(result: Callable[..., types.Type]) -> Callable[[Callable[..., ir.Value]], Any]:
    """Decorate a function that emits the code of an intrinsic, given the builder and the arguments as LLVM values.

    ``result`` returns the numba type of the result, given those of the arguments.
    """

    def decorate(emit: Callable[..., ir.Value]) -> Any:
        @functools.wraps(emit)
        def define(typingctx: TypingContext, *kinds: types.Type) -> Lowering:
            def codegen(
                context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values
            ) -> ir.Value:
                return emit(builder, *arguments)

            return result(*kinds)(*kinds), codegen

        return intrinsic(define)

    return decorate


def element_pointer(
    context: BaseContext, builder: ir.IRBuilder, kind: types.Array, array: ir.Value, index: ir.Value
) -> ir.Value:
    """Return a pointer to the element of a C-contiguous array at a flat index."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [index])


def broadcast(builder: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    """Return a vector of ``count`` copies of a value."""
    undefined = ir.Constant(ir.VectorType(value.type, count), ir.Undefined)
    first = builder.insert_element(undefined, value, I32(0))
    return builder.shuffle_vector(first, undefined, lane_constants([0] * count))


def lane_constants(values: Sequence[int]) -> ir.Constant:
    """Return a constant vector of int32, for example the lanes of a shuffle."""
    return ir.Constant(ir.VectorType(I32, len(values)), list(values))


def vectors_of(builder: ir.IRBuilder, array: ir.Value) -> list[ir.Value]:
    """Return the vectors of a value that is an array of them, such as a row or a tile."""
    return [builder.extract_value(array, v) for v in range(array.type.count)]


def joined(builder: ir.IRBuilder, vectors: Sequence[ir.Value]) -> ir.Value:
    """Return vectors of one type as one value; `vectors_of` undoes it."""
    array = ir.Constant(ir.ArrayType(vectors[0].type, len(vectors)), ir.Undefined)
    for v, vector in enumerate(vectors):
        array = builder.insert_value(array, vector, v)
    return array


def call(builder: ir.IRBuilder, name: str, result: Any, arguments: Values) -> ir.Value:
    """Call a function of LLVM such as ``llvm.fma.v8f32`` and return its result, of the LLVM type ``result``."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)
