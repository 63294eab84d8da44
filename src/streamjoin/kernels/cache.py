"""Where compiled kernels are kept: beside the package, or else in a folder of the user's own.

Numba looks for a folder in ``NUMBA_CACHE_DIR``, beside the package and in the user's home. If it
may write to none of them, as in many containers, it raises an error at import; for a package in a
zip file, only after the first kernel was compiled. Then this module looks further:

1. In Spark's and YARN's local folders, then the temporary one: ``streamjoin-kernels-<user id>``.
2. Failing that, kernels are compiled in every process, which takes some seconds.

Cached kernels are pickles, so anyone who can write there can run code as the user. The folder must
be ours alone to read and write, and so must the path to it: every folder above belongs to us or
root, and others who may write to it may not move ours (the sticky bit, which ``/tmp`` has).

A kernel is compiled together with the kernels that it calls and the constants that it names, in
other files too. Numba looks only at the size and time of the kernel's own file. That is not enough:
``pip`` gives files the times of their wheel and leaves Numba's cache alone, so a new version of the
package would go on with machine code of the old one. So a cached kernel carries a `fingerprint` of
everything that went into it, and is used only if that matches.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from types import CodeType, FunctionType, ModuleType
from typing import Any

from numba import config
from numba.core.caching import FunctionCache, IndexDataCacheFile

LOCAL_DIRS = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS")  # of Spark, and of YARN
OTHERS = stat.S_IWGRP | stat.S_IWOTH
HOME = "XDG_CACHE_HOME"  # where Numba caches packages in zip files


def can_cache(function: Any) -> bool:
    """Whether Numba has a folder for the compiled form of a function, and may write there."""
    try:
        cache: Any = FunctionCache
        folder = cache(function).cache_path
        os.makedirs(folder, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except (RuntimeError, OSError):
        return False
    return True


def private_folder() -> str | None:
    """Make a folder that no other user can write to, or return the one made before."""
    if not hasattr(os, "getuid"):
        return None
    folders = [folder for name in LOCAL_DIRS for folder in os.environ.get(name, "").split(",")]
    with suppress(FileNotFoundError):
        folders.append(gettempdir())
    for folder in filter(None, folders):
        made = Path(folder).resolve() / f"streamjoin-kernels-{os.getuid()}"
        with suppress(OSError):
            made.mkdir(mode=0o700, exist_ok=True)
            if is_private(made):
                return str(made)
    return None


def is_private(folder: Path) -> bool:
    """Whether a folder is ours alone, and no other user can put another in its place."""
    held = folder.lstat()
    is_ours = stat.S_ISDIR(held.st_mode) and held.st_uid == os.getuid()
    return is_ours and not held.st_mode & 0o077 and all(map(is_safe, folder.parents))


def is_safe(parent: Path) -> bool:
    """Whether only we and root can move our files in a folder."""
    held = parent.stat()
    is_fixed = not held.st_mode & OTHERS or bool(held.st_mode & stat.S_ISVTX)
    return held.st_uid in (0, os.getuid()) and is_fixed


@contextmanager
def cached_in(folder: str | None) -> Iterator[None]:
    """Let Numba cache the functions decorated meanwhile in a folder, if there is one."""
    if folder is None:
        yield
        return
    settings: Any = config
    before, home = settings.CACHE_DIR, os.environ.get(HOME)
    settings.CACHE_DIR = os.environ[HOME] = folder
    try:
        yield
    finally:
        settings.CACHE_DIR = before
        if home is None:
            del os.environ[HOME]
        else:
            os.environ[HOME] = home


class CacheFile(IndexDataCacheFile):
    """The files of one kernel; they count as empty if they have another fingerprint."""

    def __init__(self, replaced: Any, function: FunctionType) -> None:
        names = {key: value for key, value in vars(replaced).items() if key != "_source_stamp"}
        vars(self).update(names)
        self._function = function

    @cached_property
    def _source_stamp(self) -> str:
        # Called at the first call of the kernel, when everything that it calls is defined.
        return fingerprint(self._function)

    def _load_index(self) -> dict[Any, str]:
        try:
            index: dict[Any, str] = super()._load_index()  # type: ignore[no-untyped-call]
        except Exception:  # it is damaged, or names types that no longer exist
            return {}
        return index

    def load(self, key: Any) -> Any:
        """Return the compiled kernel, or None."""
        try:
            return super().load(key)  # type: ignore[no-untyped-call]
        except Exception:
            return None


def fingerprint(function: FunctionType) -> str:
    """Hash everything compiled into a kernel: its code, constants, and the kernels it calls."""
    digest = blake2b(digest_size=16)
    seen: set[int] = set()

    def add_function(function: FunctionType) -> None:
        if id(function) in seen:
            return
        seen.add(id(function))
        names = add_code(function.__code__, function.__doc__)
        for name in sorted(names & function.__globals__.keys()):
            digest.update(f"|{name}=".encode())
            add_value(function.__globals__[name], names)
        for value in (*(function.__defaults__ or ()), *(function.__closure__ or ())):
            add_value(getattr(value, "cell_contents", value), names)

    def add_code(code: CodeType, doc: str | None) -> set[str]:
        digest.update(code.co_code)
        digest.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
        names = set(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                names |= add_code(constant, None)
            elif isinstance(constant, frozenset):
                digest.update(repr(sorted(map(repr, constant))).encode())
            elif constant != doc or constant is None:
                digest.update(repr(constant).encode())
        return names

    def add_value(value: Any, names: set[str]) -> None:
        if isinstance(value, FunctionType):
            add_function(value)
        elif isinstance(inner := getattr(value, "py_func", None), FunctionType):  # a kernel
            digest.update(repr(sorted(map(repr, value.targetoptions.items()))).encode())
            add_function(inner)
        elif isinstance(inner := getattr(value, "_defn", None), FunctionType):  # an intrinsic
            add_function(inner)
        elif isinstance(value, ModuleType):
            digest.update(value.__name__.encode())
            if value.__name__.startswith(f"{__package__.partition('.')[0]}."):
                for name in sorted(names & vars(value).keys()):
                    digest.update(f"|{name}=".encode())
                    add_value(vars(value)[name], names)
        elif isinstance(value, bool | int | float | complex | str | bytes | type(None)):
            digest.update(repr(value).encode())
        elif isinstance(value, tuple | list):
            digest.update(f"{type(value).__qualname__}{len(value)}".encode())
            for each in value:
                add_value(each, names)
        elif isinstance(value, type):
            fields = getattr(value, "_fields", ())
            digest.update(f"{value.__module__}.{value.__qualname__}{fields}".encode())
        elif hasattr(value, "tobytes"):  # an array, or one of NumPy's numbers
            digest.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
        else:  # its value is not compiled in
            digest.update(type(value).__qualname__.encode())

    add_function(function)
    return digest.hexdigest()
