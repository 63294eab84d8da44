"""Files that the Python workers of one Spark executor share.

They lie in a folder that Spark removes when the executor ends. Whatever is in them is also in the
state or can be worked out again, so losing a file costs time only.
"""

import os
import tempfile
import time
from pathlib import Path

FORGOTTEN = 600  # seconds without a change, after which the folder of a query is removed


def folder(owner: str) -> Path:
    """Return the folder of a query's run, made if need be."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if local and os.path.isdir(local):
        parent = Path(local) / "streamjoin"
    else:
        user = os.getuid() if hasattr(os, "getuid") else "user"
        parent = Path(tempfile.gettempdir()) / f"streamjoin-{user}"
    path = parent / owner
    if not path.exists():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_forgotten(parent)
    return path


def write(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_bytes(data)
    draft.replace(path)


def read(path: Path) -> bytes | None:
    """Return a file's bytes, if it is there."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def remove_forgotten(parent: Path) -> None:
    """Remove the folders of queries that have ended."""
    oldest = time.time() - FORGOTTEN
    for owner in parent.iterdir():
        try:
            if owner.stat().st_mtime < oldest:
                for path in owner.iterdir():
                    path.unlink()
                owner.rmdir()
        except OSError:
            continue  # another process was faster
