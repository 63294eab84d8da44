"""Tables in files: parquet, CSV or Arrow, by their endings."""

from collections.abc import Iterable, Iterator
from errno import ENOENT
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, feather, parquet

from streamjoin.errors import StreamJoinError

ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def check_folder(path: Path) -> None:
    """Refuse a path whose folder is not there, before hours of work."""
    if not path.absolute().parent.is_dir():
        raise StreamJoinError(
            f"{path} cannot be written: the folder {path.parent} is not there. Create it first."
        )


def format_of(path: Path) -> str:
    """Return the format that a path's ending names."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise StreamJoinError(
            f"{path} ends in {ending!r}, which names no format that is read or written here. "
            f"Use one of {', '.join(ENDINGS)}."
        )
    return ENDINGS[ending]


def read_table(path: Path) -> pa.Table:
    """Read a file in the format that its ending names."""
    if not path.exists():
        raise FileNotFoundError(ENOENT, "there is no such file", str(path))
    readers = {"parquet": parquet.read_table, "csv": csv.read_csv, "arrow": feather.read_table}
    try:
        return readers[format_of(path)](path)
    except pa.ArrowInvalid as error:
        raise StreamJoinError(
            f"{path} cannot be read as {format_of(path)}: {error}. Check that the ending is right."
        ) from error


def write_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path
) -> Iterator[int]:
    """Write a file in the format that its ending names, batch by batch; yield the rows of each.

    It has its name only when it is whole: if anything goes wrong, what was there before stays.
    """
    writers = {"parquet": parquet.ParquetWriter, "csv": csv.CSVWriter, "arrow": pa.ipc.new_file}
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with writers[format_of(path)](unfinished, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                yield batch.num_rows
        unfinished.replace(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise StreamJoinError(
            f"{path} cannot be written as {format_of(path)}: {error}. Try .parquet instead."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
