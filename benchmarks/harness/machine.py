"""What was measured, and on what: commit, versions, hardware; and nothing that names a person."""

import ctypes
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ENGINE = ("streamjoin", "numpy", "numba", "pyarrow", "duckdb", "polars", "sqlglot")
PACKAGES = (*ENGINE, "pyspark", "pandas")
CHECKOUT = Path(__file__).parents[2]
KEEPING = {-8: 1, -4: 0, -1: -1, -2: 1 << 30}  # of malloc.h: M_ARENA_MAX, M_MMAP_MAX,
# M_TRIM_THRESHOLD (never), M_TOP_PAD: one heap, which grows by a GiB and never shrinks


def describe_machine() -> dict[str, str | int | float]:
    """Cores that this process may use, memory, processor, Python and platform."""
    libc = " ".join(platform.libc_ver()).strip()
    return {
        "cores": _usable_cores(),
        "memory_gib": round(_memory_bytes() / 2**30, 1),
        "cpu": _cpu_model(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": " ".join(filter(None, (platform.system(), platform.machine(), libc))),
    }


def describe_versions() -> dict[str, str | None]:
    """The installed version of every package that a benchmark may use, None where it is missing."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def describe_commit() -> dict[str, str | bool | None]:
    """The commit of this checkout, and whether files differ from it; None where git cannot tell.

    To be called before anything is measured: files may change while a suite runs.
    """
    revision, changes = _ask_git("rev-parse", "HEAD"), _ask_git("status", "--porcelain")
    return {"revision": revision, "dirty": None if changes is None else bool(changes)}


@contextmanager
def limit_processors(count: int | None) -> Iterator[None]:
    """Let this thread, and those it starts, use so many processors only; all of them if None."""
    if count is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usable)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def keep_memory() -> bool:
    """Never give memory back to the system; return whether that is so.

    To be called before a second thread has any: from then on, threads have heaps of their own.

    The C library maps large arrays one by one and gives each back. Pages that a program gets are
    new ones, then: they have to be cleared, and if the host of a virtual machine has taken them in
    the meantime, it takes it 2 ms a MiB, ten times as long, to bring them back. DuckDB and Polars
    keep memory themselves.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(name, value) for name, value in KEEPING.items())


def _ask_git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
