"""What ``explain`` says of the rows that come out, held to when they do."""

import pyarrow as pa
import pytest

import streamjoin as sj

WINDOW = sj.TimeWindow(before="4 ms", after="2 ms")
COUNT = sj.CountWindow(left=2, right=3)
NO_ROWS = pa.table({"k": pa.array([], pa.int64()), "t": pa.array([], pa.int64())})


def explain(window=WINDOW, **options):
    time = None if isinstance(window, sj.CountWindow) else "t"
    return sj.explain("l.k = r.k", window, time, **options)


def one_row(key, time):
    return pa.table({"k": [key], "t": [time]})


@pytest.mark.parametrize("how", ["left", "right", "full", "left_anti", "right_anti"])
@pytest.mark.parametrize("keep", ["all", "last"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_without_a_match_come_when_it_says(how, keep, side):
    told, fate = explain(how=how, keep=keep), "match nothing"
    if side == "right" and keep == "last":
        fate = "no left row keeps"
    moments = [after for after in range(8) if says_moment(told, side, fate, after)]
    join = sj.StreamJoin("l.k = r.k", WINDOW, "t", how=how, keep=keep)
    join.push(NO_ROWS, NO_ROWS)
    join.push(**{side: one_row(1, 100)})
    given = [after for after in range(8) if join.advance(100 + after + 1).num_rows]
    assert moments == given


def says_moment(told, side, fate, after):
    end = f"{side[0]}.t + {after} milliseconds"
    return f"{side} rows that {fate}: once the watermark has passed {end}\n" in told


@pytest.mark.parametrize("keep", ["all", "first"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_count_windows_come_when_it_says(keep, side):
    if keep == "first" and side == "right":
        pytest.skip("is refused")
    told = explain(COUNT, how=side, keep=keep)
    join = sj.StreamJoin("l.k = r.k", COUNT, how=side, keep=keep)
    join.push(NO_ROWS, NO_ROWS)
    pushed = [join.push(**{side: one_row(key, 0)}).num_rows for key in range(6)]
    rows = pushed.index(1)
    assert f"{side} rows that match nothing: once {rows} more {side} rows have come\n" in told


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, []),
        (
            {"how": "left_semi"},
            ["left_semi: left rows that match something, each once", "columns      those of left"],
        ),
        (
            {"how": "right_semi", "keep": "last"},
            [
                "right_semi: right rows that a left row keeps, each once",
                "right rows that a left row keeps: once the watermark has passed l.t + 2 milli",
            ],
        ),
        (
            {"how": "left", "aggregate": {"n": "count(*)", "best": "max(r.x)"}},
            [
                "left: all left rows, each once",
                "those of left, n, best",
                "left rows with their aggregates: once the watermark has passed l.t + 2 milli",
            ],
        ),
        ({"how": "inner", "aggregate": {"n": "count(*)"}}, ["left rows that match something"]),
        (
            {"how": "full", "indicator": True, "late": "keep"},
            ["_match: both, left_only or right_only", "_late: true", "late rows, alone: at once"],
        ),
        (
            {"how": "left", "unmatched": "early", "patience": "5 s", "delay": "1 s"},
            [
                "_op: + for rows that are given, - for rows that are taken back",
                "before that, with +, once the newest time is more than 5 seconds beyond theirs",
                "watermark    follows the slower stream, 1 second behind it",
            ],
        ),
        (
            {"how": "left"},
            ["moved by advance()", "pairs: as rows arrive", "NULL in a key: at once"],
        ),
    ],
)
def test_it_says_what_comes(options, lines):
    told = explain(**options)
    assert [line for line in lines if line not in told] == []
    assert ("columns" in told) == ("results" in told) == bool(options)


@pytest.mark.parametrize("window", [sj.TumblingWindow("1 s"), sj.SessionWindow("1 s")])
def test_windows_that_close(window):
    closed = "once the watermark has passed the end of their window"
    told = explain(window, how="full")
    assert f"pairs: {closed}\n" in told
    assert f"right rows that match nothing: {closed}\n" in told
    assert "pairs: as rows arrive" in explain(window, how="full", emit="eager")
    assert f"what a left row keeps: {closed}\n" in explain(window, keep="last")
    assert "results      when a window closes: the watermark has passed its end" in explain(window)


def test_tables_have_no_moments():
    told = sj.explain("l.k = r.k", how="left", indicator=True)
    assert "left: pairs, and left rows that match nothing" in told
    assert "_match: both" in told
    assert "results" not in told
    assert "watermark" not in told
