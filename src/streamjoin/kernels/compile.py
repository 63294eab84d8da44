"""How kernels are compiled: one decorator, and the array types they take.

A kernel is a plain loop over NumPy arrays that Numba turns into machine code. It releases the GIL,
so a thread pool runs kernels truly in parallel, and its compiled form is cached on disk
(`cache`), so only the first run on a machine pays for compiling. Nothing is compiled at
import.

A cached kernel is compiled again when it changes, or a kernel that it calls, or a constant that
they name, in any file.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.compiler_lock import global_compiler_lock
from numpy.typing import NDArray

from streamjoin.kernels.cache import CacheFile, cached_in, can_cache, private_folder

Keys = NDArray[np.int64]  # sort keys, and bounds on them
RowIds = NDArray[np.int32]  # positions of rows inside one subwindow or batch
Positions = NDArray[np.int64]  # positions inside a run of keys
Flags = NDArray[np.bool_]
Int = Any  # a scalar of a kernel: whether int or np.int64, Numba sees one machine type

MIN_KEY = np.iinfo(np.int64).min
MAX_KEY = np.iinfo(np.int64).max

OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
BARE: Any = OPTIONS | {"_nrt": False}  # without Numba's runtime, which counts references
if hasattr(os, "register_at_fork"):
    # A fork waits until compiling ends: a child would wait for ever for the compiling thread.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
P = ParamSpec("P")
T = TypeVar("T")


def copy_into(old: Sequence[NDArray[Any]], new: Sequence[NDArray[Any]]) -> None:
    """Copy arrays to the beginning of larger ones."""
    for source, target in zip(old, new, strict=True):
        target[: len(source)] = source


HAS_FOLDER = can_cache(copy_into)  # whether Numba finds a folder by itself
FOLDER = None if HAS_FOLDER else private_folder()


def compiling(function: Callable[P, T], **options: Any) -> Callable[P, T]:
    """Return a function that is compiled at its first call, and cached if possible."""
    compiled: Any = None
    if HAS_FOLDER or FOLDER is not None:
        with suppress(RuntimeError), cached_in(FOLDER):  # a part of the package may be read-only
            compiled = njit(cache=True, **options)(function)
    if compiled is None:
        compiled = njit(**options)(function)
    else:
        cache = compiled._cache
        cache._cache_file = CacheFile(cache._cache_file, compiled.py_func)
        cache.save_overload = partial(save_if_possible, cache.save_overload)
    return cast(Callable[P, T], compiled)


def save_if_possible(save: Callable[[Any, Any], None], signature: Any, data: Any) -> None:
    """Cache a compiled kernel; if that fails, say for a full disk, it can still be called."""
    with suppress(OSError):
        save(signature, data)


def kernel(function: Callable[P, T]) -> Callable[P, T]:
    """Compile ``function`` at its first call, without the GIL, and cache it on disk."""
    return compiling(function, **OPTIONS)


def bare(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a kernel that makes no arrays and counts no references to those that it takes.

    Numba counts a reference each time a kernel looks at an array of a named tuple. That atomic
    addition takes longer than most of the work per tuple, and threads would queue for it.
    A kernel that does make arrays is refused when it is compiled.
    """
    return compiling(function, **BARE)


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """Inline a function into bare kernels: a call would pass each array field by field."""
    return compiling(function, **BARE, forceinline=True)
