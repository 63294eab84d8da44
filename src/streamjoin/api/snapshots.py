"""A join's state as bytes: Arrow throughout, so that restoring sorts nothing.

`snapshot_file` lays out the bytes: a header, in JSON, and named parts under checksums, each an
Arrow IPC stream::

    0/left/0/rows    the rows of left's oldest subwindow, in join core 0
    0/left/0/index   its index: keys ascending, row ids
    0/left/0/side    its side index, if it has late rows
    0/left/0/marks   which of its rows are settled (`plans.marks`), if that counts
    open/left        the rows of windows that are open, tumbling or sessions
    waiting/0/left   a batch that waits for the other side's schema
    collected/left   rows that wait in batch mode
    kept/pairs       count windows: the best pairs so far (`outcomes.kept_store`), with their ranks
    living/left      if the lives of rows are observed (`joins.lives`), those that have not ended

Key columns are not saved: they are computed again from the rows.

Kernels trust their input, so nothing reaches them unchecked, whoever wrote it:

1. Arrow data are valid to the last offset, and have the schemas of the header's join.
2. The tuples of an index are those of its rows: each row id once, with that row's key, in the order
   that the structure keeps (`indexes.saved_tuples`).
3. Row numbers ascend, and are below the number of rows that have arrived.
4. The configuration would be accepted from a user.

So a snapshot that was tampered with gives either a valid state of some other join, or a
`SnapshotError`. So does anything else that goes wrong while reading one. The checks cost one pass
over the tuples.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.api.conforming import conform_batch
from streamjoin.api.join_state import JoinState
from streamjoin.api.opening import Opening
from streamjoin.api.snapshot_file import Parts, read_parts, write_parts
from streamjoin.errors import SnapshotError
from streamjoin.indexes.catalogue import EAGER, TWO_KEYS, WHOLE_WINDOWS, kind_of
from streamjoin.indexes.protocol import Structure
from streamjoin.indexes.saved_tuples import check_tuples, read_numbers, refuse_unless
from streamjoin.joins.build import make_engine
from streamjoin.joins.engine import Counters, Engine, Push
from streamjoin.joins.lives import LifeObserver, RowLives
from streamjoin.joins.sliding.chain import Chain
from streamjoin.joins.sliding.subwindow import Subwindow
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY, Keys
from streamjoin.kernels.interrupts import checkpoint, shield
from streamjoin.keys.operands import OTHER, Side
from streamjoin.options.checked import JoinOptions
from streamjoin.options.rules import check_tuning
from streamjoin.options.values import read_threads
from streamjoin.plans.batches import as_batch, copy_batch, in_one_piece
from streamjoin.plans.layouts import check_layout
from streamjoin.plans.marks import Marks, MarksOf, SomeMarks
from streamjoin.plans.plan import SIDES, JoinPlan, Layout
from streamjoin.plans.prepared import Arrival, Prepared
from streamjoin.plans.preparing import prepare
from streamjoin.plans.times import check_watermark, read_time, write_time

FORMAT = 5
UNSORTED = ("scan", "rap_table", "wib_tree")  # by insertion, by partition, by leaf
MOST_THREADS = 1 << 12  # or cores, in a restored join
LAST = "last"  # in place of a watermark: no more rows are coming
MARKS = ("settled", "early")  # the second only if rows may be given early
NUMBERS = ("ordinal", "arrival", "first", "last")  # a row's own two, and the range it meets
Files = dict[str, pa.Buffer]


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
        "config": config.to_json(),
        "waiting": steps,
        "engine": None if engine is None else save_engine(engine, files),
    }
    return write_parts(header, files, FORMAT, config.threads)


def load(data: Any, observer: LifeObserver | None = None) -> JoinState:
    """Read what ``save`` wrote; refuse anything else.

    An ``observer`` has to know what the one before was told: the join must have had one.
    """
    header, files = read_parts(data, FORMAT, read_threads("threads", None))
    with convert_errors():
        config = load_config(header["config"])
        schemas = {
            side: read(files[name]).schema for side in SIDES if (name := f"schema/{side}") in files
        }
        waiting = [
            load_step(schemas, number, saved, files)
            for number, saved in enumerate(header["waiting"])
        ]
        saved = header["engine"]
        engine = None if saved is None else load_engine(config, schemas, saved, files, observer)
        return JoinState(config, Opening(schemas, waiting), engine, observer=observer)


@contextmanager
def convert_errors() -> Iterator[None]:
    """Turn every error into a `SnapshotError`: checksums find damage, but not a forged snapshot."""
    try:
        yield
    except Exception as error:
        raise SnapshotError(
            "this snapshot is whole, and yet no join can go on from it "
            f"({type(error).__name__}: {error}); was it changed, or is there too little memory? "
            "pass what snapshot() gave"
        ) from error


def load_config(fields: dict[str, Any]) -> JoinOptions:
    """Return the options of a join; refuse those that no user could have passed."""
    refuse_unless(fields["window"] is not None, "a stream join has a window")
    refuse_unless(max(fields["cores"], fields["threads"]) <= MOST_THREADS, "so many threads")
    checked = JoinOptions.from_json(fields)
    allowed = checked.to_json()
    refuse_unless(allowed | fields == allowed, f"the options are {fields} and should be {allowed}")
    return checked


def load_step(schemas: dict[Side, pa.Schema], number: int, saved: Any, files: Parts) -> Push:
    """Read what waits for the other side's schema."""
    batches = {
        side: copy_batch(conform_batch(batch_of(files[name]), schemas[side], side))
        for side in SIDES
        if (name := f"waiting/{number}/{side}") in files
    }
    if saved == LAST:
        return Push(batches, None, is_last=True)
    return Push(batches, None if saved is None else check_watermark(read_time(saved)))


def save_engine(engine: Engine, files: Files) -> dict[str, Any]:
    """Write the subwindows into ``files`` and return the rest."""
    with shield():
        engine.settle()
    sides, executor = SIDES[:1] if engine.is_self_join else SIDES, engine.executor
    chain_pairs, closing = executor.chain_pairs, executor.closing
    if closing is not None:
        for side, batches in closing.rows.items():
            if batches:
                rows = [batch.rows for batch in batches]
                files[f"open/{side}"] = write(in_one_piece(rows, rows[0].schema))
                if side in engine.plan.follows:
                    marks = [(batch.marks, len(batch)) for batch in batches]
                    files[f"open/{side}/marks"] = write_marks(engine.plan, marks)
            named = [batch.ordinals for batch in batches if batch.ordinals is not None]
            if named and engine.lives is not None:
                files[f"open/{side}/ordinals"] = write_ordinals(np.concatenate(named))
    if executor.store is not None:
        files.update((f"kept/{name}", write(each)) for name, each in executor.store.saved.items())
    for core, pair in enumerate(chain_pairs):
        for side in sides:
            for number, held in enumerate(pair[side]):
                save_subwindow(held, f"{core}/{side}/{number}", files)
    for side, batch in engine.collector.concatenate().items():
        files[f"collected/{side}"] = write(batch.rows)
        numbers = numbers_of(batch)
        if numbers:
            files[f"collected/{side}/numbers"] = write(pa.record_batch(numbers))
    if engine.lives is not None:
        for side, living in engine.lives.living.items():
            keys, ordinals = living.concatenate()
            files[f"living/{side}"] = write(pa.record_batch({"keys": keys, "ordinals": ordinals}))
    return {
        "is_self_join": engine.is_self_join,
        "counters": asdict(engine.counters),
        "watermark": engine.watermark,
        "newest": engine.newest,
        "parts": [{side: save_chain(pair[side]) for side in sides} for pair in chain_pairs],
        "turns": executor.turns,
        "windows": {} if closing is None else closing.saved,
        "is_over": engine.is_over,
        "seed": engine.plan.seed,
    }


def numbers_of(batch: Prepared) -> dict[str, Keys]:
    """Return the numbers of rows that wait, where they have any."""
    if batch.ordinals is None or batch.arrival is None:
        return {}
    numbers = batch.ordinals, batch.arrival.numbers, *batch.arrival.visible
    return dict(zip(NUMBERS, numbers, strict=True))


def save_subwindow(held: Subwindow, name: str, files: Files) -> None:
    """Write rows, index and numbers of a subwindow."""
    files[f"{name}/rows"] = write(pa.Table.from_batches(held.rows.pieces))
    files[f"{name}/index"] = write(held.index.to_arrow())
    if held.late_index is not None:
        files[f"{name}/side"] = write(held.late_index.to_arrow())
    if held.marks is not None:
        files[f"{name}/marks"] = write_marks(held.plan, [(held.marks, len(held))])
    if held.ordinals is not None:
        files[f"{name}/ordinals"] = write_ordinals(held.ordinals.values.copy())


def write_ordinals(ordinals: Keys) -> pa.Buffer:
    """Write the ordinals of rows."""
    return write(pa.record_batch({"ordinals": ordinals}))


def write_marks(plan: JoinPlan, every: list[tuple[SomeMarks | None, int]]) -> pa.Buffer:
    """Write which rows are settled; where nothing has looked for matches so far, none is."""
    marks = MarksOf.concatenate([Marks(size) if each is None else each for each, size in every])
    rows = np.arange(len(marks))
    flags = {"settled": marks.read(rows)}
    if plan.patience is not None:
        flags["early"] = marks.read_early(rows)
    return write(pa.record_batch(flags))


def load_marks(plan: JoinPlan, name: str, size: int, files: Parts) -> Marks:
    """Read which rows are settled."""
    names = MARKS if plan.patience is not None else MARKS[:1]
    columns = batch_of(files[name], pa.schema(dict.fromkeys(names, pa.bool_()))).columns
    for flags in columns:
        refuse_unless(len(flags) == size and not flags.null_count, "marks are missing")
    return Marks.of(*(flags.to_numpy(zero_copy_only=False) for flags in columns))


def save_chain(chain: Chain) -> dict[str, Any]:
    """Return what a chain holds besides rows and indexes."""
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
    config: JoinOptions,
    schemas: dict[Side, pa.Schema],
    saved: dict[str, Any],
    files: Parts,
    observer: LifeObserver | None = None,
) -> Engine:
    """Make an engine and fill it."""
    refuse_unless(is_whole(saved["seed"], 0), "the seed is none")
    engine = make_engine(
        config, schemas, is_self=saved["is_self_join"], seed=saved["seed"], observer=observer
    )
    refuse_unless(engine.is_self_join == saved["is_self_join"], "it cannot be a self-join")
    engine.counters = load_counters(saved["counters"])
    engine.watermark, engine.newest = saved["watermark"], saved["newest"]
    refuse_unless(engine.watermark is None or is_whole(engine.watermark), "the watermark is none")
    refuse_unless(engine.newest.keys() <= {*SIDES}, "a stream is neither left nor right")
    refuse_unless(all(map(is_key, engine.newest.values())), "the newest time is none")
    engine.is_over = bool(saved["is_over"])
    executor = engine.executor
    if executor.closing is not None:
        held = {
            side: prepare_all(engine, side, batch_of(files[name], schemas[side]))
            for side in SIDES
            if (name := f"open/{side}") in files
        }
        for side, batch in held.items():
            if side in engine.plan.follows:
                batch.marks = load_marks(engine.plan, f"open/{side}/marks", len(batch), files)
        if engine.lives is not None:
            for side, batch in held.items():
                name = f"open/{side}/ordinals"
                batch.ordinals = load_ordinals(engine, side, name, len(batch), files)
        for window in saved["windows"].values():
            check_recipe(window["recipe"])
        executor.closing.restore(held, saved["windows"])
        refuse_unless(executor.closing.is_restored, "a window lacks rows")
    sides = {*(SIDES[:1] if engine.is_self_join else SIDES)}
    parts = zip(executor.chain_pairs, saved["parts"], strict=True)
    for core, (pair, chains) in enumerate(parts):
        refuse_unless(chains.keys() == sides, "a stream is neither left nor right")
        for side, chain in chains.items():
            load_chain(engine, pair[side], side, f"{core}/{side}", chain, files)
    if executor.store is not None:
        saved_parts = [name for name in files if name.startswith("kept/")]
        kept = {name.removeprefix("kept/"): batch_of(files[name]) for name in saved_parts}
        executor.store.restore(kept)
    if executor.turns:
        check_turns(saved["turns"])
        executor.restore_turns(saved["turns"])
    if engine.lives is not None:
        load_living(engine, engine.lives, files)
    waiting = [side for side in SIDES if f"collected/{side}" in files]
    engine.collector.add({side: load_collected(engine, side, files) for side in waiting})
    return engine


def load_living(engine: Engine, lives: RowLives, files: Parts) -> None:
    """Let the rows live on that have no end yet."""
    for side in SIDES:
        refuse_unless(f"living/{side}" in files, "nobody has observed the rows so far")
        saved = batch_of(files[f"living/{side}"])
        keys, ordinals = (np.array(read_numbers(saved[name])) for name in ("keys", "ordinals"))
        refuse_unless(keys.dtype == np.int64, "a key is missing")
        check_numbers(np.sort(ordinals), keys.size, engine.counters.rows[side])
        lives.living[side].add(keys, ordinals)


def is_whole(value: Any, least: int | None = None) -> bool:
    """Whether a value is a whole number, and at least ``least``."""
    return type(value) is int and (least is None or value >= least)


def is_key(value: Any) -> bool:
    """Whether a value is a number that int64 can hold."""
    return is_whole(value) and MIN_KEY <= value <= MAX_KEY


def load_counters(saved: dict[str, Any]) -> Counters:
    """Return the counters of an engine."""
    counters = Counters(**saved)
    refuse_unless(counters.rows.keys() == {*SIDES}, "a stream is neither left nor right")
    late = counters.late, counters.late_left
    given = counters.matches, counters.unmatched
    numbers = [*counters.rows.values(), *given, *late, counters.null_times]
    refuse_unless(all(is_whole(each, 0) for each in numbers), f"{counters} are no counts")
    refuse_unless(sum(counters.rows.values()) <= MAX_KEY // 2, f"{counters} are no counts")
    return counters


def check_recipe(recipe: dict[str, Any]) -> None:
    """Refuse an eager algorithm that no user could have chosen."""
    name, threads = recipe["name"], read_threads("threads", recipe["threads"])
    refuse_unless(name in EAGER and threads <= MOST_THREADS, f"{recipe} cannot be")
    check_tuning(name, dict(recipe["tuning"]), threads)


def check_turns(turns: dict[Side, dict[str, Any]]) -> None:
    """Refuse turns that no split join could have."""
    refuse_unless(turns.keys() == {*SIDES}, "a stream is neither left nor right")
    for turn in turns.values():
        is_sane = is_whole(turn["number"], 0) and is_whole(turn["rows"], 0)
        is_sane = is_sane and is_key(turn["oldest"]) and is_key(turn["newest"])
        refuse_unless(is_sane and turn["number"] + turn["rows"] < 1 << 32, f"{turn} cannot be")


def prepare_all(engine: Engine, side: Side, batch: pa.RecordBatch) -> Prepared:
    """Compute the keys of rows that were kept because they can match."""
    rows = prepare(engine.plan, side, batch)
    refuse_unless(len(rows) == batch.num_rows, "rows are kept that cannot match")
    return rows


def load_collected(engine: Engine, side: Side, files: Parts) -> Prepared:
    """Read the rows of one side that wait."""
    rows = copy_batch(batch_of(files[f"collected/{side}"], engine.plan.schemas[side]))
    batch = prepare_all(engine, side, rows)
    if not engine.numbers:
        return batch
    saved = batch_of(files[f"collected/{side}/numbers"])
    ordinals, arrivals, first, last = (np.array(read_numbers(saved[name])) for name in NUMBERS)
    came, total = engine.counters.rows, sum(engine.counters.rows.values())
    check_numbers(ordinals, len(batch), came[side])
    check_numbers(arrivals, len(batch), total)
    check_numbers(last, len(batch), came[OTHER[side]], least=-1, strictly=False)
    refuse_unless(first.dtype == np.int64 and first.size == last.size, "a number is missing")
    refuse_unless(bool((first <= last + 1).all()), "a row meets what came after it")
    batch.ordinals, batch.arrival = ordinals, Arrival(arrivals, (first, last))
    return batch


def check_numbers(
    numbers: Keys, size: int, bound: int, least: int = 0, strictly: bool = True
) -> None:
    """Refuse row numbers that do not ascend, or that no row can have."""
    refuse_unless(numbers.dtype == np.int64 and numbers.size == size, "a number is missing")
    if size:
        steps = np.diff(numbers)
        refuse_unless(bool((steps >= int(strictly)).all()), "numbers of rows do not ascend")
        is_sane = least <= int(numbers[0]) and int(numbers[-1]) < bound
        refuse_unless(is_sane, "a row has a number that none can have")


def load_chain(
    engine: Engine, chain: Chain, side: Side, name: str, saved: dict[str, Any], files: Parts
) -> None:
    """Fill a chain."""
    chain.layout, chain.structure = load_kind(chain, saved)
    chain.subwindows = [
        load_subwindow(engine, chain, side, f"{name}/{number}", each, files)
        for number, each in enumerate(saved["subwindows"])
    ]
    starts = [held.start for held in chain.subwindows]
    refuse_unless(starts == sorted(starts), "subwindows are not in order")


def load_kind(chain: Chain, saved: dict[str, Any]) -> tuple[Layout, str]:
    """Return an index's layout and structure, if they go together."""
    layout, structure = Layout(**saved["layout"]), saved["structure"]
    kind_of(structure)
    layouts = chain.plan.layouts()
    if structure in TWO_KEYS:  # by two parts, either of them first
        layouts = chain.plan.crossings()
        layouts += [Layout(each.equalities, each.crossed, each.range_part) for each in layouts]
    refuse_unless(layout in layouts, f"nothing is sorted by {layout}")
    return layout, structure


def load_subwindow(
    engine: Engine, chain: Chain, side: Side, name: str, saved: dict[str, Any], files: Parts
) -> Subwindow:
    """Rebuild one subwindow; its key columns come from its rows."""
    layout, structure = load_kind(chain, saved)
    start = saved["start"]
    refuse_unless(is_key(start), f"no subwindow starts at {start}")
    batch = batch_of(files[f"{name}/rows"], engine.plan.schemas[side])
    rows = prepare_all(engine, side, batch)
    refuse_unless(len(rows) > 0, "a subwindow is empty")
    if chain.numbered:
        rows.ordinals = load_ordinals(engine, side, f"{name}/ordinals", len(rows), files)
    if chain.follows:
        rows.marks = load_marks(engine.plan, f"{name}/marks", len(rows), files)
    names = [f"{name}/index"]
    if f"{name}/side" in files:
        refuse_unless(structure not in WHOLE_WINDOWS, f"{structure} has no side index")
        names.append(f"{name}/side")
    indexes = load_indexes(chain, layout, structure, rows, [files[each] for each in names])
    held = chain.enclose(indexes[0], layout, structure, start)
    held.late_index = indexes[1] if len(indexes) > 1 else None
    held.append(rows)
    return held


def load_ordinals(engine: Engine, side: Side, name: str, size: int, files: Parts) -> Keys:
    """Read the ordinals of rows; where they do not ascend, in time windows, one may come again."""
    ordinals = np.array(read_numbers(batch_of(files[name])["ordinals"]))
    came, ascend = engine.counters.rows[side], engine.plan.counted is not None
    check_numbers(ordinals if ascend else np.sort(ordinals), size, came, strictly=ascend)
    return ordinals


def load_indexes(
    chain: Chain, layout: Layout, structure: str, rows: Prepared, saved: list[memoryview]
) -> list[Structure]:
    """Read the indexes of a subwindow, which together hold each of its rows once."""
    kind, plan = kind_of(structure), chain.plan
    expected = [plan.index_keys(order, rows.keys) for order in layout.orders]
    seen = np.zeros(len(rows), np.bool_)
    indexes: list[Structure] = []
    for each in saved:
        batch = index_of(each)
        check_tuples(batch, expected, seen, ascend=structure not in UNSORTED)
        index = kind.from_arrow(batch)
        refuse_unless(len(index) == batch.num_rows, "an index lacks rows")
        indexes.append(index)
    refuse_unless(bool(seen.all()), "an index lacks rows")
    return indexes


def write(data: pa.Table | pa.RecordBatch) -> pa.Buffer:
    """Return an Arrow IPC stream."""
    checkpoint()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write(data)
    return sink.getvalue()


def read(data: memoryview) -> pa.Table:
    """Read an Arrow IPC stream, and validate every offset in it."""
    checkpoint()
    table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    if "dictionary<" in str(table.schema):  # copies of rows would keep the whole snapshot alive
        table = pa.ipc.open_stream(bytes(data)).read_all()
    check_layout(table)
    return table


def batch_of(data: memoryview, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Read an Arrow IPC stream as one batch; refuse one of another schema."""
    batch = as_batch(read(data))
    refuse_unless(schema is None or batch.schema.equals(schema), "rows have another schema")
    return batch


def index_of(data: memoryview) -> pa.RecordBatch:
    """Read an index; its metadata may say how its tuples are laid out."""
    batch = pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
    check_layout(batch)
    return batch
