"""Where compiled kernels are kept: beside the package, or else in a folder of the user's own.

Numba looks for a folder in ``NUMBA_CACHE_DIR``, beside the package and in the user's home, and
raises an error at import where it may write to none of them, as in many containers; a package in a
zip file fails only when the first kernel was compiled. Then this looks on:

1. Spark's and YARN's local folders, then the temporary one: ``streamjoin-kernels-<user id>`` there.
2. Nowhere: kernels are compiled in every process anew, which takes some seconds.

What is cached are pickles, so whoever can write there can run code as the user. The folder must be
ours, for nobody else to read or write, and so must be the way there: every folder above belongs to
us or root, and whoever else may write to it may not move ours (the sticky bit, as ``/tmp`` has).
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any

from numba import config
from numba.core.caching import FunctionCache

LOCAL_DIRS = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS")  # of Spark, and of YARN
OTHERS = stat.S_IWGRP | stat.S_IWOTH
HOME = "XDG_CACHE_HOME"  # Numba's for packages in zip files


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
    """Make a folder that nobody else can write to, or return the one made before."""
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
    """Whether a folder is ours alone, and nobody else can put another in its place."""
    held = folder.lstat()
    is_ours = stat.S_ISDIR(held.st_mode) and held.st_uid == os.getuid()
    return is_ours and not held.st_mode & 0o077 and all(map(is_safe, folder.parents))


def is_safe(parent: Path) -> bool:
    """Whether nobody but us and root can move what is ours in a folder."""
    held = parent.stat()
    is_fixed = not held.st_mode & OTHERS or bool(held.st_mode & stat.S_ISVTX)
    return held.st_uid in (0, os.getuid()) and is_fixed


@contextmanager
def cached_in(folder: str | None) -> Iterator[None]:
    """Let Numba keep what is decorated meanwhile in a folder, if there is one."""
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
