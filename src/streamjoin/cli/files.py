"""Tables in files: parquet, CSV, Arrow or lines of JSON, by their endings.

::

    .parquet .pq             .csv .tsv, with .gz too     .arrow .feather .ipc     read and written
    .json .jsonl .ndjson, with .gz too                                            read
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from errno import ENOENT
from os import strerror
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, feather, json, parquet

from streamjoin.errors import StreamJoinError

ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
ZIPPED = ("csv", "json")  # formats that may be compressed as a whole: .csv.gz
HINTS = {
    "csv": "Check the file, and --delimiter and --encoding.",
    "json": 'A file has one object per line, such as {"id": 1}.',
}


@dataclass(frozen=True)
class CsvOptions:
    """The format of CSV input; None means a delimiter by the file's ending, and UTF-8."""

    delimiter: str | None = None
    encoding: str | None = None

    def check(self) -> None:
        """Refuse a delimiter of several characters, and unknown encodings."""
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise StreamJoinError(
                f"--delimiter {self.delimiter!r}: a delimiter is one character, such as ; or, "
                "written '\\t', a tab"
            )
        try:
            "".encode(self.encoding or "utf-8")
        except LookupError:
            raise StreamJoinError(
                f"--encoding {self.encoding!r} is not known; try latin-1, cp1252 or utf-16"
            ) from None


def check_folder(path: Path) -> None:
    """Refuse a path whose folder does not exist, before hours of work."""
    if not path.absolute().parent.is_dir():
        raise StreamJoinError(
            f"{path} cannot be written: the folder {path.parent} does not exist. Create it first."
        )


def check_output(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse a file that cannot be written, or that is also an input, before hours of work."""
    if format_of(path) == "json":
        raise StreamJoinError(f"{path}: JSON can be read, but not written. Try .csv or .parquet.")
    check_folder(path)
    for each in inputs:
        if path.exists() and each.exists() and path.samefile(each):
            raise StreamJoinError(
                f"{path} is the input {each}, which would be lost. Write to another file."
            )


def format_of(path: Path) -> str:
    """Return the format that a path's ending names."""
    name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    ending = name.suffix.lower()
    if ending in ENDINGS and (name is path or ENDINGS[ending] in ZIPPED):
        return ENDINGS[ending]
    if str(path) in ("-", "/dev/stdin"):
        raise StreamJoinError(
            f"{path} is standard input, whose format is unknown. Save it to a file, such as "
            "input.csv."
        )
    raise StreamJoinError(
        f"{path} ends in {path.suffix!r}, which is not a known format. "
        f"Use one of {', '.join(ENDINGS)}; text files may be compressed, as in .csv.gz."
    )


def read_table(path: Path, options: CsvOptions | None = None) -> pa.Table:
    """Read a file in the format that its ending names."""
    if not path.exists():
        raise FileNotFoundError(ENOENT, "there is no such file", str(path))
    kind = format_of(path)
    readers: dict[str, Callable[[], pa.Table]] = {
        "parquet": lambda: parquet.read_table(path),
        "csv": lambda: _read_csv(path, options or CsvOptions()),
        "arrow": lambda: feather.read_table(path),
        "json": lambda: json.read_json(_open_text(path)),
    }
    try:
        return readers[kind]()
    except (pa.ArrowInvalid, UnicodeError) as error:
        hint = HINTS.get(kind, "Check that the ending is right.")
        raise StreamJoinError(f"{path} cannot be read as {kind}: {error}. {hint}") from error
    except OSError as error:
        raise StreamJoinError(f"{path} cannot be read: {_reason(error)}.") from error


def _read_csv(path: Path, options: CsvOptions) -> pa.Table:
    delimiter = options.delimiter or _delimiter_of(path)
    table = csv.read_csv(
        _open_text(path),
        csv.ReadOptions(encoding=options.encoding or "utf8"),
        csv.ParseOptions(delimiter=delimiter),
    )
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if pa.types.is_binary(kind):  # bytes match no text
            raise StreamJoinError(
                f"{path}: column {name!r} has text that is not UTF-8. Say what it is, e.g. "
                "--encoding latin-1."
            )
    return table


def _open_text(path: Path) -> pa.NativeFile:
    return pa.input_stream(str(path), compression=_compression_of(path))


def _compression_of(path: Path) -> str | None:
    return "gzip" if path.suffix.lower() == ".gz" else None


def _delimiter_of(path: Path) -> str:
    return "\t" if ".tsv" in (each.lower() for each in path.suffixes[-2:]) else ","


def _reason(error: OSError) -> str:
    return strerror(error.errno) if error.errno else str(error)


def write_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path
) -> Iterator[int]:
    """Write a file in the format that its ending names, batch by batch; yield the rows of each.

    The file gets its name only once it is complete: if anything goes wrong, the old file stays.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with _open_writer(path, unfinished, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                yield batch.num_rows
        unfinished.replace(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise StreamJoinError(
            f"{path} cannot be written as {format_of(path)}: {error}. Try .parquet instead."
        ) from error
    except OSError as error:
        raise StreamJoinError(
            f"{path} cannot be written: {_reason(error)}. Choose another folder."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _open_writer(path: Path, unfinished: Path, schema: pa.Schema) -> AbstractContextManager[Any]:
    kind = format_of(path)
    if kind == "parquet":
        return parquet.ParquetWriter(unfinished, schema)
    if kind == "arrow":
        return pa.ipc.new_file(unfinished, schema)
    sink = pa.output_stream(str(unfinished), compression=_compression_of(path))
    options = csv.WriteOptions(delimiter=_delimiter_of(path))
    return _ClosingWriter(sink, csv.CSVWriter(sink, schema, write_options=options))


class _ClosingWriter:
    """A writer of CSV that closes its file too."""

    def __init__(self, sink: pa.NativeFile, writer: csv.CSVWriter) -> None:
        self.sink, self.writer = sink, writer

    def __enter__(self) -> csv.CSVWriter:
        return self.writer

    def __exit__(self, *error: object) -> None:
        self.writer.close()
        self.sink.close()
