"""Join two files, and write the matches or show the first: what ``streamjoin join`` does."""

import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamjoin.cli.files import CsvOptions, check_output, format_of, read_table, write_batches
from streamjoin.errors import StreamJoinError
from streamjoin.options.how import INNER, read_how
from streamjoin.plans.batches import coalesce_batches

if TYPE_CHECKING:
    from streamjoin.api.results import Results

SHOWN_ROWS = 10
WRITTEN_ROWS = 1 << 17  # written together, at least


def join_files(
    inputs: tuple[Path, Path],
    out: Path | None,
    progress: Console,
    counts: bool = False,
    csv: CsvOptions | None = None,
    **arguments: Any,
) -> str:
    """Join the files, with the arguments of `streamjoin.find_matches`; return a summary line.

    The matches are written as they are found, so they may be more than fit into memory. With
    ``counts`` they are only counted, which does not even write out pairs.
    """
    if counts and out is not None:
        raise StreamJoinError(
            f"matches are either counted or written to {out}; leave out --count or --out"
        )
    for path in inputs:  # before the work, not after it
        format_of(path)
    if out is not None:
        check_output(out, inputs)
    if csv is not None:
        csv.check()
    with progress.status("loading ..."):  # which may compile
        from streamjoin.api.table_join import find_matches
    with progress.status(f"reading {' and '.join(escape(path.name) for path in inputs)} ..."):
        left, right = (read_table(path, csv) for path in inputs)
    start = time.perf_counter()
    with progress.status(f"joining {left.num_rows + right.num_rows:,} rows ..."):
        found = find_matches(left, right, **arguments)
        matches = found.count() if out is None else 0
    if out is not None:
        with progress.status(f"writing {escape(out.name)} ...") as status:
            for rows in write_batches(coalesce_batches(found, WRITTEN_ROWS), found.schema, out):
                matches += rows
                status.update(f"writing {escape(out.name)}, {matches:,} rows so far ...")
    elif not counts:
        Console().print(first_rows(found, matches))
    seconds = time.perf_counter() - start
    gives_pairs = read_how("how", arguments.get("how", "inner")) is INNER
    what = "matches" if gives_pairs and not arguments.get("aggregate") else "rows in the result"
    return (
        f"{left.num_rows:,} x {right.num_rows:,} rows, {matches:,} {what}, "
        f"{seconds:.2f} s{f', written to {out}' if out else ''}"
    )


def first_rows(found: "Results", matches: int) -> Table:
    """Return the first rows as a table for the terminal."""
    shown = Table(*(escape(name) for name in found.schema.names))
    rows = (row for batch in found for row in batch.slice(0, SHOWN_ROWS).to_pylist())
    for row in islice(rows, SHOWN_ROWS):
        shown.add_row(*(escape(str(value)) for value in row.values()))
    if matches > SHOWN_ROWS:
        shown.caption = f"the first {SHOWN_ROWS} of {matches:,} rows"
    return shown
