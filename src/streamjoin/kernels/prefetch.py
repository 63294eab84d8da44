"""Requests memory before it is needed.

A kernel with random lookups waits for each cache miss, unless the processor can guess what comes
next. So with each lookup it requests the memory of a later one, which will have arrived when its
turn comes. If one lookup leads to another, the first is requested twice as far ahead::

    table[ends[bucket]]     i + 2 * AHEAD: ends      i + AHEAD: table      i: both are cached
"""

from typing import Any

from llvmlite import ir
from numba import types

from streamjoin.kernels.atomics import instruction

AHEAD = 16  # lookups: about as many cache lines as a core can wait for at a time


@instruction
def prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Request the cache line of an element; past the end of the array, this does nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(made.data, [arguments[1]])
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, keep, data = number(0), number(3), number(1)
        builder.call(function, [builder.bitcast(pointer, byte), read, keep, data])
        return context.get_dummy_value()

    return types.none(array, types.intp), generate
