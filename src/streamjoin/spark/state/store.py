"""The state store of Spark as a core sees it: one manifest, and segments by their ids.

A segment also goes to a file, where the executor's other workers find it: reading from the state
store takes ten times as long.
"""

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from streamjoin.spark.state import shared_files
from streamjoin.spark.tasks import Moment

MANIFEST, SEGMENTS = "manifest", "segments"  # the state variables


class Store(Protocol):
    """What a core needs of a state store."""

    def read_manifest(self) -> bytes | None:
        """Return the manifest, if there is one."""

    def write_manifest(self, data: bytes | None) -> None:
        """Replace or, with None, remove it."""

    def read(self, id_: str) -> bytes | None:
        """Return a segment, if it is there."""

    def find_copy(self, id_: str) -> bytes | None:
        """Return what may be a copy of a segment, from where it is read faster."""

    def write(self, id_: str, data: bytes) -> None:
        """Add a segment."""

    def remove(self, id_: str) -> None:
        """Remove a segment."""

    def keep_copies(self, ids: Collection[str]) -> None:
        """Remove the copies of all segments but these."""

    def set_timer(self, milliseconds: int, instead_of: int | None) -> None:
        """Ask to be called when the watermark passes a time."""


class SparkStore:
    """The two state variables of the processor, for the core that Spark has called it for."""

    def __init__(self, handle: Any, name: str) -> None:
        self.handle, self.name = handle, name
        self.folder: Path | None = None  # for copies
        self.manifest = handle.getValueState(MANIFEST, "data binary")
        self.segments = handle.getMapState(SEGMENTS, "id string", "data binary")

    def open_core(self, label: int, moment: Moment) -> None:
        """Find the folder for the copies of a core's segments."""
        name = sha256(f"{self.name}/{label}".encode()).hexdigest()[:32]
        self.folder = shared_files.open_folder(moment.owner, name)

    def read_manifest(self) -> bytes | None:
        """Return the manifest, if there is one."""
        found = self.manifest.get()
        return None if found is None else bytes(found[0])

    def write_manifest(self, data: bytes | None) -> None:
        """Replace or, with None, remove it."""
        if data is None:
            self.manifest.clear()
        else:
            self.manifest.update((data,))

    def read(self, id_: str) -> bytes | None:
        """Return a segment, if it is there."""
        found = self.segments.getValue((id_,))
        return None if found is None else bytes(found[0])

    def find_copy(self, id_: str) -> bytes | None:
        """Return what may be a copy of a segment, from a file."""
        return None if self.folder is None else shared_files.read_file(self.folder / id_)

    def write(self, id_: str, data: bytes) -> None:
        """Add a segment."""
        self.segments.updateValue((id_,), (data,))
        if self.folder is not None:
            shared_files.write_file(self.folder / id_, data)

    def remove(self, id_: str) -> None:
        """Remove a segment."""
        self.segments.removeKey((id_,))
        if self.folder is not None:
            shared_files.remove_file(self.folder / id_)

    def keep_copies(self, ids: Collection[str]) -> None:
        """Remove the files of all segments but these; the core may have been elsewhere since."""
        if self.folder is not None:
            shared_files.remove_other_files(self.folder, ids)

    def set_timer(self, milliseconds: int, instead_of: int | None) -> None:
        """Ask to be called when the watermark passes a time."""
        if instead_of is not None:
            self.handle.deleteTimer(instead_of)
        self.handle.registerTimer(milliseconds)
