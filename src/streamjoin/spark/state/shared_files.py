"""Files that the Python workers of one Spark executor share.

::

    SPARK_LOCAL_DIRS/streamjoin/   <run of a query>/   routing-...json         hints
                                                       <core>/ 7-left-0-8f3a   copies of segments

Spark names a folder that belongs to the executor and is removed when it ends; where it names none,
nothing is shared. Whatever is in the files is also in the state or can be computed again, and is
checked when it is read: a file that is lost, damaged or never written costs only time, so no error
of the file system reaches a task.

The files contain rows, so no other user may read them, and anything that others may have put there
is left alone: a folder that is a link, or that other users can change, is not used. Folders in
which nothing was written for `FORGOTTEN_SECONDS` are removed: those of a query that has ended, or
of a core that has moved to another executor.
"""

import os
import stat
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

FORGOTTEN_SECONDS = 3600  # without a write: the folder is removed
SWEEP_SECONDS = 60  # from one search for such folders to the next

_swept = -float(SWEEP_SECONDS)


def open_folder(*names: str) -> Path | None:
    """Return a shared folder, made if need be; None if there can be none."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if not local:
        return None
    path = Path(local) / "streamjoin"
    try:
        for each in ("", *names):
            path = path / each
            path.mkdir(mode=0o700, exist_ok=True)
            if not is_ours(path):
                return None
        os.utime(path)
    except OSError:
        return None
    sweep_folders(Path(local) / "streamjoin")
    return path


def is_ours(path: Path) -> bool:
    """Whether a path is a folder that only this user can read or change."""
    status = path.lstat()
    if not hasattr(os, "getuid"):
        return stat.S_ISDIR(status.st_mode)
    shared = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not shared


def write_file(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing; if that fails, there is none."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        draft.replace(path)
    except OSError:
        remove_file(draft)


def read_file(path: Path) -> bytes | None:
    """Return a file's bytes, if it is there."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def remove_file(path: Path) -> None:
    """Remove a file, if that is possible."""
    with suppress(OSError):
        path.unlink()


def remove_other_files(parent: Path, names: Collection[str]) -> None:
    """Remove the files in a folder that have other names."""
    with suppress(OSError):
        for path in parent.iterdir():
            if path.name not in names:
                remove_file(path)


def sweep_folders(parent: Path) -> None:
    """Remove forgotten folders, at most once in `SWEEP_SECONDS`."""
    global _swept
    now = time.monotonic()
    if now - _swept >= SWEEP_SECONDS:
        _swept = now
        remove_forgotten(parent)


def remove_forgotten(parent: Path) -> None:
    """Remove the folders below one in which nothing was written for `FORGOTTEN_SECONDS`."""
    oldest = time.time() - FORGOTTEN_SECONDS
    for run in list_folders(parent):
        for core in list_folders(run):
            remove_if_older(core, oldest)
        if not list_folders(run):
            remove_if_older(run, oldest)


def list_folders(parent: Path) -> list[Path]:
    """Return the folders in a folder that are ours."""
    try:
        return [path for path in parent.iterdir() if is_ours(path)]
    except OSError:
        return []  # another process was faster


def remove_if_older(path: Path, oldest: float) -> None:
    """Remove a folder of files, unless it has changed since."""
    with suppress(OSError):  # another process was faster
        if path.lstat().st_mtime < oldest:
            remove_other_files(path, ())
            path.rmdir()
