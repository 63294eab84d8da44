"""What is called when, and how often. No time is asserted."""

import pytest

from benchmarks.harness.turns import check_agreement, repeat, take_turns, time_turns


def rivals_that_call(calls, names="ab"):
    """Return rivals that note each call, and measure how many there have been."""
    return {name: lambda name=name: calls.append(name) or len(calls) for name in names}


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="rounds is 0"):
        repeat(lambda: None, rounds=0)


def test_measuring_one_thing_calls_it_in_warmups_and_rounds():
    calls = []
    [series] = time_turns({"append": lambda: calls.append(1)}, rounds=4, warmup=2).values()
    assert len(calls) == 6
    assert (series.name, series.unit) == ("append", "s")
    assert len(series.values) == 4
    assert all(value >= 0 for value in series.values)


def test_competitors_take_turns():
    calls = []
    measured = take_turns(rivals_that_call(calls), rounds=3, warmup=1)
    assert "".join(calls) == "ab" + "ababab"
    assert measured == {"a": [3, 5, 7], "b": [4, 6, 8]}


def test_a_slow_competitor_has_fewer_rounds_and_no_warmup():
    calls = []
    measured = take_turns(rivals_that_call(calls), rounds=3, warmup=1, limits={"b": 2})
    assert "".join(calls) == "a" + "ababa"
    assert measured == {"a": [2, 4, 6], "b": [3, 5]}


@pytest.mark.parametrize(("seconds", "most", "rounds"), [(0, None, 2), (60, 7, 7), (60, 1, 2)])
def test_rounds_go_on_until_there_are_enough(seconds, most, rounds):
    assert repeat(lambda: 1, 2, seconds=seconds, most=most) == [1] * rounds


def test_rivals_that_differ_are_found_out():
    check_agreement({"ours": 3, "theirs": 3}, 3)
    with pytest.raises(AssertionError, match="matches differ"):
        check_agreement({"ours": 3, "theirs": 4})
    with pytest.raises(AssertionError, match="4 matches expected"):
        check_agreement({"ours": 3}, 4)
