"""Atomic operations for kernels whose threads share arrays.

Kernels run without the GIL, so nothing but the processor orders what two of them do to one array.
Numba has no atomics for CPUs. These come from LLVM and work on one-dimensional int64 arrays; two
things are built on them, a spin lock and versions. A writer makes the version of its data odd, and
then even again; a reader looks at the version before and after, and reads again if it has changed,
so reading takes no lock. A thread that spins for long yields its processor: the thread it waits for
may need one.

Numbers that several threads write belong in different cache lines: `LINE` numbers apart.
"""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from streamjoin.kernels.compile import Int, Positions, inlined

LINE = 8  # int64 numbers per cache line
SPINS = 64  # attempts before a thread yields its processor

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
    """Read a number; then everything written before it was stored can be read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.intp), generate


@instruction
def store(typing: Any, array: Any, place: Any, value: Any) -> Any:
    """Write a number; a thread that loads it sees everything written before."""

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
    """Keep earlier reads from being delayed past the next load."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("acquire")
        return context.get_dummy_value()

    return types.none(), generate


@inlined
def begin_change(versions: Positions, place: Int) -> None:
    """Make a version odd, once no other thread is changing its data: see `is_same`."""
    attempts = 0
    while True:
        version = load(versions, place)
        if version & 1 == 0 and swap(versions, place, version, version + 1):
            return
        attempts += 1
        if attempts == SPINS:
            give_way()
            attempts = 0


@inlined
def end_change(versions: Positions, place: Int) -> None:
    """Make a version even again, and different from before."""
    store(versions, place, load(versions, place) + 1)


@inlined
def stable(versions: Positions, place: Int) -> Int:
    """Wait until no thread is changing the data of a version, and return the version."""
    attempts = 0
    while True:
        version = load(versions, place)
        if version & 1 == 0:
            return version
        attempts += 1
        if attempts == SPINS:
            give_way()
            attempts = 0


@inlined
def is_same(versions: Positions, place: Int, version: Int) -> bool:
    """Whether what was read since a version was seen is unchanged."""
    fence()
    return load(versions, place) == version


@inlined
def lock(locks: Positions, place: Int) -> None:
    """Wait until a lock is free, and take it."""
    attempts = 0
    while not swap(locks, place, 0, 1):
        attempts += 1
        if attempts == SPINS:
            give_way()
            attempts = 0


@inlined
def try_lock(locks: Positions, place: Int) -> bool:
    """Take a lock if it is free."""
    return swap(locks, place, 0, 1)


@inlined
def unlock(locks: Positions, place: Int) -> None:
    """Release a lock."""
    store(locks, place, 0)
