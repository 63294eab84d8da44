"""Join two files, and write the matches or show the first: what ``streamjoin join`` does."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamjoin.files import check_folder, format_of, read_table, write_table

SHOWN_ROWS = 10


def join_files(
    inputs: tuple[Path, Path], out: Path | None, progress: Console, **arguments: Any
) -> str:
    """Join the files, with the arguments of `streamjoin.join_tables`; return what was done."""
    if out is not None:  # before the work, not after it
        format_of(out)
        check_folder(out)
    for path in inputs:
        format_of(path)
    with progress.status("loading ..."):  # and compiling
        from streamjoin.tables import join_tables
    with progress.status(f"reading {' and '.join(escape(path.name) for path in inputs)} ..."):
        left, right = map(read_table, inputs)
    start = time.perf_counter()
    with progress.status(f"joining {left.num_rows + right.num_rows:,} rows ..."):
        matches = join_tables(left, right, **arguments)
    seconds = time.perf_counter() - start
    if out is None:
        Console().print(first_rows(matches))
    else:
        with progress.status(f"writing {escape(out.name)} ..."):
            write_table(matches, out)
    return (
        f"{left.num_rows:,} x {right.num_rows:,} rows, {matches.num_rows:,} matches, "
        f"{seconds:.2f} s{f', written to {out}' if out else ''}"
    )


def first_rows(table: pa.Table) -> Table:
    """Return some rows as they are shown on a terminal."""
    shown = Table(*(escape(name) for name in table.column_names))
    for row in table.slice(0, SHOWN_ROWS).to_pylist():
        shown.add_row(*(escape(str(value)) for value in row.values()))
    if table.num_rows > SHOWN_ROWS:
        shown.caption = f"the first {SHOWN_ROWS} of {table.num_rows:,} rows"
    return shown
