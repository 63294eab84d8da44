"""Atomic operations for kernels whose threads share arrays.

Kernels run without the GIL, so nothing but the processor orders what two of them do to one array.
Numba has no atomics for processors; these are some that LLVM gives us, over one-dimensional int64
arrays, and two things made of them: a spin lock, and versions. Who changes something makes its
version odd, and then even again; who reads it looks at the version before and after, and reads once
more if it has changed, so reading takes no lock. Whoever spins for long gives its processor away:
the thread it waits for may be waiting for one.

Numbers that several threads write belong into different cache lines: `LINE` of them apart.
"""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from streamjoin.kernels.compile import Int, Positions, inlined

LINE = 8  # int64 numbers of a cache line
PATIENCE = 64  # attempts before a thread gives its processor away

give_way = types.ExternalFunction("sched_yield", types.int32())


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make an instruction for kernels, which leave the first argument out."""
    made: Callable[..., Any] = intrinsic(function)
    return made


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


@instruction
def load(typing: Any, array: Any, place: Any) -> Any:
    """Read a number, and all that was written before it was stored."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.intp), generate


@instruction
def store(typing: Any, array: Any, place: Any, value: Any) -> Any:
    """Write a number; whoever loads it sees all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], pointer, "release", 8)
        return context.get_dummy_value()

    return types.none(array, types.intp, types.int64), generate


@instruction
def add(typing: Any, array: Any, place: Any, value: Any) -> Any:
    """Add to a number; return what it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", pointer, arguments[2], "acq_rel")

    return types.int64(array, types.intp, types.int64), generate


@instruction
def swap(typing: Any, array: Any, place: Any, old: Any, new: Any) -> Any:
    """Replace a number if it is still the ``old`` one; return whether it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        found = builder.cmpxchg(pointer, arguments[2], arguments[3], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(array, types.intp, types.int64, types.int64), generate


@instruction
def fence(typing: Any) -> Any:
    """Let nothing that is read before be read after what is loaded next."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("acquire")
        return context.get_dummy_value()

    return types.none(), generate


@inlined
def begin_change(versions: Positions, place: Int) -> None:
    """Let a version be odd, when nobody else changes what it stands for: see `is_same`."""
    attempts = 0
    while True:
        version = load(versions, place)
        if version & 1 == 0 and swap(versions, place, version, version + 1):
            return
        attempts += 1
        if attempts == PATIENCE:
            give_way()
            attempts = 0


@inlined
def end_change(versions: Positions, place: Int) -> None:
    """Let a version be even again, and another one than before."""
    store(versions, place, load(versions, place) + 1)


@inlined
def stable(versions: Positions, place: Int) -> Int:
    """Return a version, when nobody changes what it stands for."""
    attempts = 0
    while True:
        version = load(versions, place)
        if version & 1 == 0:
            return version
        attempts += 1
        if attempts == PATIENCE:
            give_way()
            attempts = 0


@inlined
def is_same(versions: Positions, place: Int, version: Int) -> bool:
    """Whether what was read since a version was seen has not changed meanwhile."""
    fence()
    return load(versions, place) == version


@inlined
def lock(locks: Positions, place: Int) -> None:
    """Wait until a lock is free, and take it."""
    attempts = 0
    while not swap(locks, place, 0, 1):
        attempts += 1
        if attempts == PATIENCE:
            give_way()
            attempts = 0


@inlined
def try_lock(locks: Positions, place: Int) -> bool:
    """Take a lock if it is free."""
    return swap(locks, place, 0, 1)


@inlined
def unlock(locks: Positions, place: Int) -> None:
    """Give a lock back."""
    store(locks, place, 0)
