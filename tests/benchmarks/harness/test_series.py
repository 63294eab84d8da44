"""Series: their medians and spread."""

import pytest

from benchmarks.harness.series import Series


def test_a_series_has_a_median_and_a_spread():
    series = Series("x", (5.0, 1.0, 2.0, 3.0, 4.0))
    assert (series.median, series.min, series.max, series.iqr) == (3.0, 1.0, 5.0, 2.0)
    assert Series("one", (7.0,)).summary() == {
        "name": "one",
        "unit": "s",
        "median": 7.0,
        "min": 7.0,
        "max": 7.0,
        "iqr": 0.0,
    }


def test_an_empty_series_is_refused():
    with pytest.raises(ValueError, match="'x' is empty"):
        Series("x", ())
