"""``keep`` and ``k`` in tables, against DuckDB and a nested loop."""

from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.indexes.catalogue import LAZY, ONE_KEY, TWO_KEYS
from streamjoin.plans.limits import Limits, use_limits
from tests.joins.outcomes.kept import DISTANCES, HOWS, give, ids, keep_pairs, rank_of
from tests.joins.small_streams import CONDITIONS, SCHEMA, fitting, streams, table

random = settings(max_examples=25, suppress_health_check=list(HealthCheck))
names = st.sampled_from(sorted(DISTANCES))
keeps = st.sampled_from(["nearest", "first", "last"])
ks = st.integers(1, 3)
hows = st.sampled_from(HOWS)


@pytest.fixture(autouse=True)
def small_blocks():
    with use_limits(Limits(block_pairs=16, slice_rows=4)):
        yield


def any_table(rows, data):
    """The same rows with their columns in any order, so that ties are decided by any of them."""
    return table(rows).select(data.draw(st.permutations(SCHEMA.names)))


@random
@given(data=st.data(), streams=streams(), name=names, keep=keeps, k=ks, how=hows)
def test_tables_keep_what_the_nested_loop_keeps(data, streams, name, keep, k, how):
    left, right = streams
    text, predicate = CONDITIONS[name]
    nearest, distance = DISTANCES[name]
    has_time = keep != "nearest" or data.draw(st.booleans())
    rights = any_table(right, data)
    result = sj.join_tables(
        table(left),
        rights,
        on=text,
        time="t" if has_time else None,
        keep=keep,
        k=k,
        how=how,
        nearest=nearest if keep == "nearest" else None,
        threads=data.draw(st.sampled_from([1, 2])),
    )
    rank = rank_of(keep, distance, rights.schema, has_time)
    kept = keep_pairs(left, right, predicate, rank, k)
    assert ids(result, how) == give(kept, left, right, how)


@pytest.mark.parametrize("algorithm", [*ONE_KEY, *TWO_KEYS, *LAZY])
@random
@given(data=st.data(), streams=streams(), name=names, k=ks, how=hows)
def test_every_algorithm_keeps_the_same(algorithm, data, streams, name, k, how):
    left, right = streams
    name = "equality and two ranges" if algorithm in LAZY else fitting(name, algorithm)
    text, predicate = CONDITIONS[name]
    nearest, distance = DISTANCES[name]
    result = sj.join_tables(
        table(left), table(right), text, keep="nearest", k=k, how=how, nearest=nearest,
        algorithm=algorithm, threads=data.draw(st.sampled_from([1, 2])),
    )  # fmt: skip
    kept = keep_pairs(left, right, predicate, rank_of("nearest", distance, timed=False), k)
    assert ids(result, how) == give(kept, left, right, how)


@random
@given(streams=streams(), name=names, k=ks)
def test_tables_agree_with_row_number_of_duckdb(streams, name, k):
    left, right = streams
    text, _ = CONDITIONS[name]
    nearest, _ = DISTANCES[name]
    distance = nearest or {
        "double band": "abs(l.x - r.x)", "text and double band": "abs(l.x - r.x)",
        "asymmetric band": "abs(l.a - r.b)", "inequality": "abs(l.a - r.b)",
    }.get(name, "abs(l.a - r.a)")  # fmt: skip
    result = sj.join_tables(
        table(left), table(right), text, time="t", keep="nearest", k=k, nearest=nearest
    )
    on = text.replace("l.k <=> r.k", "l.k is not distinct from r.k")
    with duckdb.connect() as connection:
        connection.register("l", table(left))
        connection.register("r", table(right))
        columns = ", ".join(f"r.{name} nulls first" for name in SCHEMA.names)
        rows = connection.sql(
            "select a, b from (select l.id a, r.id b, row_number() over (partition by l.id "
            f"order by {distance} nulls last, r.t nulls last, {columns}) n from l, r where {on}) "
            f"where n <= {k}"
        ).fetchall()
    assert ids(result, "inner") == Counter(rows)


@pytest.mark.parametrize(
    ("sign", "keep"), [(">=", "last"), (">", "last"), ("<=", "first"), ("<", "first")]
)
@random
@given(streams=streams())
def test_as_of_joins_agree_with_duckdb(sign, keep, streams):
    left, right = streams
    right = list({(row["k"], row["t"]): row for row in right}.values())
    text = f"l.k = r.k and l.t {sign} r.t"
    by_time = sj.join_tables(table(left), table(right), text, time="t", keep=keep, how="left")
    nearest = sj.join_tables(table(left), table(right), text, keep="nearest", how="left")
    with duckdb.connect() as connection:
        connection.register("l", table(left))
        connection.register("r", table(right))
        rows = connection.sql(
            f"select l.id, r.id from l asof left join r on l.k = r.k and l.t {sign} r.t"
        ).fetchall()
    assert ids(by_time, "left") == ids(nearest, "left") == Counter(rows)


@random
@given(streams=streams(), name=names, how=hows, k=ks, before=st.integers(0, 5))
def test_tables_in_a_time_window(streams, name, how, k, before):
    left, right = streams
    text, predicate = CONDITIONS[name]

    def inside(one, other):
        known = one["t"] is not None and other["t"] is not None
        return known and one["t"] - before <= other["t"] <= one["t"] + 2 and predicate(one, other)

    window = sj.TimeWindow(before=before, after=2)
    for keep in ("nearest", "first", "last"):
        nearest, distance = DISTANCES[name] if keep == "nearest" else (None, None)
        result = sj.join_tables(
            table(left), table(right), text, window, "t", keep=keep, k=k, how=how, nearest=nearest
        )
        kept = keep_pairs(left, right, inside, rank_of(keep, distance), k)
        assert ids(result, how) == give(kept, left, right, how)


@random
@given(streams=streams(), how=hows, k=ks)
def test_find_matches_leaves_what_is_kept_in_place(streams, how, k):
    left, right = streams
    options = {"keep": "nearest", "k": k, "how": how}
    on = CONDITIONS["residual"][0]
    found = sj.find_matches(table(left), table(right), on, **options)
    result = sj.join_tables(table(left), table(right), on, **options)
    assert found.count() == result.num_rows
    assert ids(found.to_table(), how) == ids(result, how)


def keep_best(left, right, k, on="l.k = r.k and l.v <= r.v", **options):
    """The places of the right rows that the only left row keeps."""
    sides = (pa.table({"k": [1] * len(each), "v": each}) for each in (left, right))
    left, right = sides
    right = right.append_column("n", pa.array(range(len(right))))
    return sj.join_tables(left, right, on, keep="nearest", k=k, **options)["n"].to_pylist()


@pytest.mark.parametrize(
    ("kind", "one", "others", "order"),
    [
        (pa.int64(), -(2**63), [2**63 - 1, 0, -(2**63), 2**63 - 2], [2, 1, 3, 0]),
        (pa.uint64(), 0, [2**64 - 1, 2**63, 0, 2**64 - 2], [2, 1, 3, 0]),
        (pa.decimal128(38, 0), 1 - 10**38, [10**38 - 1, 0, 2**64, 2**63 - 1], [1, 3, 2, 0]),
        (pa.decimal128(9, 2), Decimal("0.5"), [Decimal("1.5"), Decimal("0.51")], [1, 0]),
        (pa.float64(), 1.0, [float("nan"), float("inf"), 1.5, 1.25], [3, 2, 1, 0]),
        (pa.float32(), -0.0, [0.5, 0.0, 0.25], [1, 2, 0]),
        (pa.timestamp("ns"), 0, [2**62, 1, 0], [2, 1, 0]),
        (pa.date32(), date(1, 1, 1), [date(9999, 1, 1), date(1, 1, 2)], [1, 0]),
    ],
)
def test_distances_are_exact(kind, one, others, order):
    left, right = pa.array([one], kind), pa.array(others, kind)
    for k in range(1, len(order) + 1):
        assert sorted(keep_best(left, right, k)) == sorted(order[:k])


@pytest.mark.parametrize(
    "nearest",
    [
        "r.v", "r.v / 2", "cast(r.v as double)", "cast(r.v as decimal(38, 10))",
        "cast(r.v as decimal(9, 0))", "r.v * interval 1 day", "-(-r.v)",
    ],
)  # fmt: skip
def test_a_distance_may_be_any_number_or_interval_and_null_comes_last(nearest):
    left, right = pa.array([1]), pa.array([None, 7, -3, 5])
    for k, order in enumerate([[2], [2, 3], [1, 2, 3], [0, 1, 2, 3]], 1):
        assert sorted(keep_best(left, right, k, "l.k = r.k", nearest=nearest)) == order


def test_a_distance_of_nan_comes_before_null():
    left, right = pa.array([1.0]), pa.array([None, float("nan"), 1e300])
    kept = [keep_best(left, right, k, "l.k = r.k", nearest="abs(l.v - r.v)") for k in (1, 2, 3)]
    assert [sorted(each) for each in kept] == [[2], [1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    "ascending",
    [
        pa.array([None, [], [None], [1], [1, 2], [2]]),
        pa.array([None, {"a": None, "b": "z"}, {"a": 1, "b": None}, {"a": 1, "b": "a"}]),
        pa.array([None, "", "a", "b"]).dictionary_encode(),
        pa.array([None, False, True]),
        pa.array([None, b"", b"\x00", b"\xff"], pa.large_binary()),
        pa.array([None, -0.0, 0.0, 1.0, float("inf"), float("nan")]),
        pa.array([None, [-0.5, 0.5], [0.5, None], [0.5, 0.25]], pa.list_(pa.float32(), 2)),
        pa.array([None, (0, 1, 5), (0, 2, 3), (1, -5, 0)], pa.month_day_nano_interval()),
        pa.array([None, [("a", 1)], [("a", 2)], [("b", 0)]], pa.map_(pa.string(), pa.int8())),
        pa.array([None, [[1], [2]], [[1], [3]], [[2]]]),
        pa.array([None, timedelta(0), timedelta(1)]),
        pa.array([None, 0.5, 1.5], pa.float16()),
    ],
    ids=lambda each: str(each.type),
)
def test_what_is_level_is_decided_by_columns_of_any_type(ascending):
    size = len(ascending)
    left = pa.table({"k": [1]})
    for seed in range(3):
        order = pa.array(Random(seed).sample(range(size), size))
        right = pa.table({"k": [1] * size, "v": ascending.take(order), "n": order})
        for k in range(1, size + 1):
            kept = sj.join_tables(left, right, "l.k = r.k", keep="nearest", k=k, nearest="0")
            assert sorted(kept["n"].to_pylist()) == list(range(k))


def test_many_best_matches_are_kept():
    left = pa.table({"k": [1, 2]})
    right = pa.table({"k": [1] * 300 + [2] * 3, "n": [*range(300), 0, 1, 2]})
    kept = sj.join_tables(left, right, "l.k = r.k", keep="nearest", k=200, nearest="r.n % 100")
    expected = [(1, n) for n in range(300) if n % 100 < 66 or (n % 100 == 66 and n < 200)]
    expected += [(2, 0), (2, 1), (2, 2)]
    rows = zip(kept["k"].to_pylist(), kept["n"].to_pylist(), strict=True)
    assert sorted(rows) == sorted(expected)


def test_pairs_are_put_together_when_they_are_many(monkeypatch):
    monkeypatch.setattr("streamjoin.joins.outcomes.keep.keep.MOST_PAIRS", 8)
    left = pa.table({"k": [*range(5)] * 4, "a": range(20)})
    right = pa.table({"k": [*range(5)] * 40, "b": range(200)})
    kept = sj.join_tables(left, right, "l.k = r.k", keep="nearest", k=2, nearest="r.b")
    expected = [(a, b) for a in range(20) for b in (a % 5, a % 5 + 5)]
    assert sorted(zip(kept["a"].to_pylist(), kept["b"].to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("sides", [(0, 0), (0, 5), (5, 0)])
@pytest.mark.parametrize("how", HOWS)
def test_empty_tables(sides, how):
    left, right = (
        table([{"id": place, "k": 1, "a": 1} for place in range(size)]) for size in sides
    )
    result = sj.join_tables(left, right, "l.k = r.k and l.a <= r.a", keep="nearest", how=how)
    none: Counter = Counter()
    assert ids(result, how) == give(none, left.to_pylist(), right.to_pylist(), how)


def test_a_distance_that_fails_says_so():
    left, right = pa.table({"k": [1]}), pa.table({"k": [1], "z": [0]})
    with pytest.raises(sj.StreamJoinError, match="zero"):
        sj.join_tables(left, right, "l.k = r.k", keep="nearest", nearest="1 / r.z")
