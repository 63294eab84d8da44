"""A join's state as bytes: Arrow throughout, so that restoring sorts nothing.

The bytes are one Arrow IPC stream with the columns ``name`` and ``data``, each row an Arrow IPC
stream of its own::

    0/left/0/rows    the rows of left's oldest subwindow, in join core 0
    0/left/0/index   its index: keys ascending, row ids
    0/left/0/side    its side index, if it has late rows
    open/left        the rows of windows that are open, tumbling or sessions
    waiting/0/left   a batch that waits for the other side's schema
    collected/left   rows that wait in batch mode

What is small stands as JSON in the schema's metadata. Key columns are not saved: they are computed
again from the rows.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.batches import as_batch, in_one_piece
from streamjoin.config import JoinConfig
from streamjoin.engines import make_engine
from streamjoin.errors import SnapshotError
from streamjoin.indexes.registry import kind_of
from streamjoin.joins.chain import Chain
from streamjoin.joins.engine import Counters, Engine, Step
from streamjoin.joins.executor import Executor
from streamjoin.joins.manager import Manager
from streamjoin.joins.plan import SIDES, Layout
from streamjoin.joins.prepared import Prepared, prepare
from streamjoin.joins.sessions import SessionJoin
from streamjoin.joins.subwindow import Subwindow
from streamjoin.joins.tumbling import TumblingJoin
from streamjoin.json_values import read_time, read_window, write_time, write_window
from streamjoin.kernels import Keys
from streamjoin.keys.operands import Side
from streamjoin.opening import Opening
from streamjoin.split.executor import SplitExecutor
from streamjoin.state import JoinState

FORMAT = 4
KEY = b"streamjoin"
LAST = "last"  # instead of a watermark: no more rows are coming
NUMBERS = ("ordinal", "arrival", "first", "last")  # of a row: its own two, and those it meets
NO_SNAPSHOT = (
    "these {} bytes are no snapshot of a StreamJoin, or not all of one; pass what snapshot() gave"
)
Files = dict[str, bytes]


def save(state: JoinState) -> bytes:
    """Write the state of a join."""
    config, opening, engine = state.config, state.opening, state.engine
    files: Files = {
        f"schema/{side}": write(schema.empty_table()) for side, schema in opening.schemas.items()
    }
    steps = []
    for number, step in enumerate(opening.steps):
        steps.append(LAST if step.is_last else write_time(step.watermark))
        for side, batch in step.batches.items():
            files[f"waiting/{number}/{side}"] = write(batch)
    header: dict[str, Any] = {
        "format": FORMAT,
        "config": asdict(config) | {"window": write_window(config.window)},
        "waiting": steps,
        "engine": None if engine is None else save_engine(engine, files),
        "files": len(files),  # tells whether all of them are there
    }
    table = pa.table({"name": list(files), "data": pa.array(files.values(), pa.large_binary())})
    return write(table.replace_schema_metadata({KEY: json.dumps(header)}))


def load(data: bytes) -> JoinState:
    """Read what ``save`` wrote."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SnapshotError(f"a snapshot is bytes, and this is a {type(data).__name__}: {data!r}")
    try:
        table = read(data)
        header = json.loads(table.schema.metadata[KEY])
        is_whole = table.num_rows == header["files"]
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise SnapshotError(NO_SNAPSHOT.format(len(data))) from error
    if not is_whole:
        raise SnapshotError(NO_SNAPSHOT.format(len(data)))
    if header["format"] != FORMAT:
        raise SnapshotError(
            f"the snapshot has format {header['format']}, and this version of streamjoin reads "
            f"{FORMAT}; restore it with the version that wrote it"
        )
    files: Files = dict(zip(table["name"].to_pylist(), table["data"].to_pylist(), strict=True))
    fields = header["config"]
    for name in ("time", "order"):
        fields[name] = None if fields[name] is None else tuple(fields[name])
    fields["tuning"] = tuple((name, value) for name, value in fields["tuning"])
    config = JoinConfig(**fields | {"window": read_window(fields["window"])})
    schemas = {
        side: read(files[f"schema/{side}"]).schema for side in SIDES if f"schema/{side}" in files
    }
    waiting = [
        Step(
            {
                side: batch_of(files[name])
                for side in SIDES
                if (name := f"waiting/{number}/{side}") in files
            },
            None if watermark == LAST else read_time(watermark),
            watermark == LAST,
        )
        for number, watermark in enumerate(header["waiting"])
    ]
    saved = header["engine"]
    engine = None if saved is None else load_engine(config, schemas, saved, files)
    return JoinState(config, Opening(schemas, waiting), engine)


def save_engine(engine: Engine, files: Files) -> dict[str, Any]:
    """Write the subwindows into ``files`` and return the rest."""
    engine.settle()
    sides, join = SIDES[:1] if engine.is_self_join else SIDES, engine.join
    parts = parts_of(join)
    if isinstance(join, TumblingJoin | SessionJoin):
        for side, batches in join.rows.items():
            if batches:
                rows = [batch.rows for batch in batches]
                files[f"open/{side}"] = write(in_one_piece(rows, rows[0].schema))
    for core, part in enumerate(parts):
        for side in sides:
            for number, held in enumerate(part[side]):
                save_subwindow(held, f"{core}/{side}/{number}", files)
    for side, batch in engine.collector.joined().items():
        files[f"collected/{side}"] = write(batch.rows)
        numbers = numbers_of(batch)
        if numbers:
            files[f"collected/{side}/numbers"] = write(pa.record_batch(numbers))
    return {
        "is_self_join": engine.is_self_join,
        "counters": asdict(engine.counters),
        "watermark": engine.watermark,
        "newest": engine.newest,
        "parts": [{side: save_chain(part[side]) for side in sides} for part in parts],
        "turns": join.turns if isinstance(join, SplitExecutor) else {},
        "windows": join.saved if isinstance(join, TumblingJoin | SessionJoin) else {},
        "is_over": engine.is_over,
    }


def parts_of(join: Executor) -> Sequence[dict[Side, Chain]]:
    """Return the chains of a join, part by part."""
    return join.parts if isinstance(join, Manager | SplitExecutor) else []


def numbers_of(batch: Prepared) -> dict[str, Keys]:
    """Return the numbers of rows that wait, where they have any."""
    if batch.ordinals is None or batch.arrivals is None or batch.visible is None:
        return {}
    return dict(zip(NUMBERS, (batch.ordinals, batch.arrivals, *batch.visible), strict=True))


def save_subwindow(held: Subwindow, name: str, files: Files) -> None:
    """Write rows, index and numbers of a subwindow."""
    files[f"{name}/rows"] = write(pa.Table.from_batches(held.rows.pieces))
    files[f"{name}/index"] = write(held.index.to_arrow())
    if held.side is not None:
        files[f"{name}/side"] = write(held.side.to_arrow())
    if held.ordinals is not None:
        ordinals = held.ordinals.values.copy()
        files[f"{name}/ordinals"] = write(pa.record_batch({"ordinals": ordinals}))


def save_chain(chain: Chain) -> dict[str, Any]:
    """Return what a chain holds beside rows and indexes."""
    held = [
        {"layout": asdict(each.layout), "structure": each.structure, "start": each.start}
        for each in chain
    ]
    return {
        "layout": asdict(chain.layout),
        "structure": chain.structure,
        "subwindows": held,
    }


def load_engine(
    config: JoinConfig, schemas: dict[Side, pa.Schema], saved: dict[str, Any], files: Files
) -> Engine:
    """Make an engine and fill it."""
    engine = make_engine(config, schemas, is_self=saved["is_self_join"])
    engine.counters = Counters(**saved["counters"])
    engine.watermark, engine.newest = saved["watermark"], saved["newest"]
    engine.is_over = saved["is_over"]
    if isinstance(engine.join, TumblingJoin | SessionJoin):
        held = {
            side: prepare(engine.plan, side, batch_of(files[name]))
            for side in SIDES
            if (name := f"open/{side}") in files
        }
        engine.join.restore(held, saved["windows"])
    parts = parts_of(engine.join)
    for core, (part, chains) in enumerate(zip(parts, saved["parts"], strict=True)):
        for side, chain in chains.items():
            part[side].layout = Layout(**chain["layout"])
            part[side].structure = chain["structure"]
            part[side].subwindows = [
                load_subwindow(part[side], side, f"{core}/{side}/{number}", each, files)
                for number, each in enumerate(chain["subwindows"])
            ]
    if isinstance(engine.join, SplitExecutor):
        engine.join.turns = saved["turns"]
    waiting = [side for side in SIDES if f"collected/{side}" in files]
    engine.collector.add({side: load_collected(engine, side, files) for side in waiting})
    return engine


def load_collected(engine: Engine, side: Side, files: Files) -> Prepared:
    """Read the rows of one side that wait."""
    batch = prepare(engine.plan, side, batch_of(files[f"collected/{side}"]))
    numbers = files.get(f"collected/{side}/numbers")
    if numbers is not None:
        batch.ordinals, batch.arrivals, first, last = (
            np.array(batch_of(numbers)[name]) for name in NUMBERS
        )
        batch.visible = first, last
    return batch


def load_subwindow(
    chain: Chain, side: Side, name: str, saved: dict[str, Any], files: Files
) -> Subwindow:
    """Rebuild one subwindow; its key columns come from its rows."""
    kind = kind_of(saved["structure"])
    index = kind.from_arrow(index_of(files[f"{name}/index"]))
    held = chain.enclose(index, Layout(**saved["layout"]), saved["structure"], saved["start"])
    if f"{name}/side" in files:
        held.side = kind.from_arrow(index_of(files[f"{name}/side"]))
    rows = prepare(chain.plan, side, batch_of(files[f"{name}/rows"]))
    if chain.numbered:
        ordinals = batch_of(files[f"{name}/ordinals"])["ordinals"]
        rows.ordinals = np.array(ordinals)
    held.append(rows)
    return held


def write(data: pa.Table | pa.RecordBatch) -> bytes:
    """Return an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write(data)
    return sink.getvalue().to_pybytes()


def read(data: bytes) -> pa.Table:
    """Read an Arrow IPC stream."""
    return pa.ipc.open_stream(data).read_all()


def batch_of(data: bytes) -> pa.RecordBatch:
    """Read an Arrow IPC stream as one batch."""
    return as_batch(read(data))


def index_of(data: bytes) -> pa.RecordBatch:
    """Read an index, whose metadata may tell how its tuples lie."""
    return pa.ipc.open_stream(data).read_next_batch()
