"""What ``keep`` cannot be asked for, what is said then, and what explain and warnings say of it."""

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.api import growth
from streamjoin.api.explain import explain

ROWS = pa.table({"k": [1], "s": ["a"], "x": [1.5], "t": [1], "b": [True]})
TIME, COUNT, TUMBLING = sj.TimeWindow("1 s"), sj.CountWindow(5), sj.TumblingWindow("1 s")


@pytest.mark.parametrize(
    ("on", "options", "words"),
    [
        ("l.k = r.k", {"keep": "first"}, ["time of the right row", "time=('left_column'"]),
        ("l.k = r.k", {"keep": "nearest"}, ["no band and no inequality", "nearest=", "time="]),
        ("l.k <> r.k", {"keep": "nearest"}, ["no band and no inequality"]),
        ("l.k < r.k and l.x < r.x", {"keep": "nearest"}, ["2 inequalities", "abs(l.x - r.x)"]),
        (
            "abs(l.k - r.k) < 2 and abs(l.x - r.x) < 2 and l.t < r.t",
            {"keep": "nearest"},
            ["2 bands", "nearest=", "abs(l.k - r.k)"],
        ),
        ("l.s < r.s", {"keep": "nearest"}, ["string", "no distance", "nearest="]),
        ("l.k = r.k", {"keep": "nearest", "nearest": "l.s"}, ["string", "a number or an interval"]),
        ("l.k = r.k", {"keep": "nearest", "nearest": "l.b"}, ["bool", "a number or an interval"]),
        ("l.k = r.k", {"keep": "nearest", "nearest": "l.q"}, ["nearest='l.q': ", "no column 'q'"]),
        ("l.k = r.k", {"keep": "nearest", "nearest": "l.k -"}, ["nearest='l.k -': cannot read"]),
        ("l.k = r.k", {"keep": "nearest", "nearest": "sum(r.x)"}, ["is an aggregate", "one pair"]),
        ("l.k < r.k", {"keep": "nearest", "k": 0}, ["k=0", "from 1 to 9,223,372,036,854,775,807"]),
        ("l.k < r.k", {"keep": "nearest", "k": 2**63}, ["k=9223372036854775808", "from 1 to"]),
        ("l.k = r.k", {"keep": "last", "time": ("k", "s")}, ["'s'", "string", "times are"]),
        ("l.k = r.k", {"time": "t"}, ["window=None; without a window, only keep and aggregate"]),
        ("l.k = r.k", {"keep": "last", "time": "t", "algorithm": "shj_jm"}, ["shj_jm"]),
    ],
)
def test_tables_refuse(on, options, words):
    with pytest.raises(sj.StreamJoinError) as refused:
        sj.join_tables(ROWS, ROWS, on, **options)
    assert all(word in str(refused.value) for word in words), refused.value


@pytest.mark.parametrize(
    ("window", "options", "words"),
    [
        (TIME, {"cores": 2}, ["cores=2", "threads"]),
        (TIME, {"ordered": "inner"}, ["ordered='inner'", "keep='last'"]),
        (COUNT, {"how": "full"}, ["how='full'", "CountWindow", "TimeWindow"]),
        (COUNT, {"how": "right_semi"}, ["how='right_semi'"]),
        (COUNT, {"keep": "nearest"}, ["no band and no inequality", "nearest="]),
        (TUMBLING, {"emit": "eager"}, ["emit='eager'", "leave emit out"]),
        (TUMBLING, {"algorithm": "shj_jm"}, ["algorithm='shj_jm'", "leave algorithm out"]),
    ],
)
def test_streams_refuse(window, options, words):
    time = None if window is COUNT else "t"
    with pytest.raises(sj.StreamJoinError) as refused:
        sj.StreamJoin("l.k = r.k", window, time, **{"keep": "last"} | options)
    assert all(word in str(refused.value) for word in words), refused.value
    assert window is not COUNT or "time=" not in str(refused.value)


def test_explain_refuses_what_a_join_does():
    for nearest in ("l.k -", "sum(r.x)", ""):
        with pytest.raises(sj.StreamJoinError, match="nearest="):
            explain("l.k = r.k", TIME, "t", keep="nearest", nearest=nearest)


@pytest.mark.parametrize("k", [1000, 2**31, 2**63 - 1])
@pytest.mark.parametrize("on", ["l.k <= r.k", "l.k <= r.k and l.x + r.x > 0"])
def test_k_may_be_larger_than_anything(on, k):
    rows = pa.table({"k": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    kept = sj.join_tables(rows, rows, on, keep="nearest", k=k)
    assert sorted(zip(kept["k"].to_pylist(), kept["k_right"].to_pylist(), strict=True)) == [
        (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["left", "full", "left_anti"])
def test_rows_wait_for_the_columns_of_a_side_that_never_came(how):
    join = sj.StreamJoin("l.k = r.k", TIME, "t", keep="last", how=how)
    join.push(left=ROWS)
    with pytest.raises(sj.StreamJoinError, match="nothing has come of right") as refused:
        join.finish()
    assert "the rows of left (1)" in str(refused.value)
    join.push(right=ROWS.slice(0, 0))
    assert join.finish().num_rows == 1


def test_find_is_refused():
    join = sj.StreamJoin("l.k = r.k", TIME, "t", keep="last")
    with pytest.raises(sj.StreamJoinError, match="keep='last'"):
        join.find(ROWS, ROWS)


def test_explain_says_what_is_kept_and_when():
    on = "l.k = r.k and l.x <= r.x"
    told = explain(on, TIME, "t", keep="nearest", k=2, how="full")
    how = "full: pairs, and left rows that match nothing and right rows that no left row keeps"
    assert f"how          {how}\n" in told
    assert "keep         the nearest 2 matches of each left row, by abs(l.x - r.x)\n" in told
    assert "results      what a left row keeps: once the watermark has passed l.t + 1 sec" in told
    told = explain("l.k = r.k", COUNT, keep="first", how="left_semi")
    assert "left_semi: left rows that match something, each once\n" in told
    assert "the first match of each left row, by arrival\n" in told
    assert "once 5 more left rows have come" in told
    told = explain("abs(l.x - r.x) <= 1", time="t", keep="last")
    assert "by time of the right row" in told
    assert "time window" not in told
    assert "by r.x" in explain("l.k = r.k", keep="nearest", nearest="r.x")
    assert "types of columns" in explain("k < x and l.k = r.k", keep="nearest")


def test_a_join_that_grows_says_that_nothing_is_given_before(monkeypatch):
    monkeypatch.setattr(growth, "MANY_ROWS", 3)
    join = sj.StreamJoin("l.k = r.k", sj.TimeWindow("5 ms"), "t", keep="last")

    def push_all():
        for time in range(0, 400, 40):
            rows = pa.table({"k": [1], "t": [time]})
            assert not join.push(rows, rows).num_rows

    with pytest.warns(sj.StreamJoinWarning, match="not given before the watermark"):
        push_all()
    assert join.finish().num_rows == 10


def test_late_rows_and_the_indicator():
    join = sj.StreamJoin(
        "l.k = r.k",
        sj.TimeWindow("5 ms"),
        "t",
        keep="last",
        how="full",
        late="keep",
        indicator=True,
    )
    join.push(ROWS.slice(0, 0), ROWS)
    join.advance(100)
    late = join.push(ROWS, ROWS)
    assert late["_late"].to_pylist() == [True, True]
    fresh = ROWS.set_column(3, "t", [[200]])
    join.push(fresh, fresh)
    given = join.finish().select(["t", "t_right", "_match", "_late"]).to_pylist()
    assert given == [{"t": 200, "t_right": 200, "_match": "both", "_late": False}]


def test_left_rows_that_fail_are_dropped_alone():
    left = pa.table(
        {"k": [1] * 40, "z": [int(place % 13 != 5) for place in range(40)], "t": range(40)}
    )
    right = pa.table({"k": [1, 2], "n": [1, 2], "t": [20, 20]})
    window = sj.TimeWindow("50 ms")
    for options in (
        {"on": "l.k = r.k and r.n / l.z > 0", "keep": "first"},
        {"on": "l.k = r.k", "keep": "nearest", "nearest": "r.n / l.z"},
    ):
        join = sj.StreamJoin(window=window, time="t", how="full", **options)
        join.push(left, right)
        with pytest.raises(sj.StreamJoinError, match="zero") as failed:
            join.finish()
        assert "3 left rows are dropped" in "".join(failed.value.__notes__)
        given = failed.value.results
        assert sorted(each for each in given["t"].to_pylist() if each is not None) == [
            place for place in range(40) if place % 13 != 5
        ]
        assert given["n"].to_pylist().count(2) == 1
        assert join.stats.live_left == join.stats.live_right == 0


def test_rows_leave_as_soon_as_they_are_not_needed():
    join = sj.StreamJoin(
        "l.k = r.k", sj.TimeWindow(before=4, after=2), "t", keep="last", how="left"
    )
    for time in range(200):
        rows = pa.table({"k": [time % 3], "t": [time]})
        join.push(rows, rows)
        join.advance(time)
    assert join.stats.matches == 197  # all that are final
    join.advance(1000)
    assert join.stats.live_left == join.stats.live_right == 0


def test_a_self_join_keeps_pairs_of_both_roles():
    rows = pa.table({"k": [1, 1, 1], "x": [1, 5, 2], "t": [1, 2, 3]})
    on = "l.k = r.k and abs(l.x - r.x) <= 3 and l.x <> r.x"
    join = sj.StreamJoin(on, sj.TimeWindow("5 ms"), "t", keep="nearest")
    join.push(rows, rows)
    kept = join.finish()
    assert list(zip(kept["x"].to_pylist(), kept["x_right"].to_pylist(), strict=True)) == [
        (1, 2), (5, 2), (2, 1),
    ]  # fmt: skip
