"""The benchmark of the advice: what it draws, and that it runs."""

import io

import pytest
from rich.console import Console

from benchmarks.harness.report import Report
from benchmarks.harness.scale import Scale
from benchmarks.intrawindow import advice
from benchmarks.intrawindow.advice import MOST_MATCHES, MOST_ROWS, Drawn, measure_advice


@pytest.mark.parametrize("seed", range(20))
def test_what_is_drawn_fits_into_memory(seed):
    drawn = Drawn.draw(seed)
    rate = max(drawn.rate_left, drawn.rate_right)
    assert rate * drawn.window <= MOST_ROWS + 1
    assert drawn.dupe == 1 or drawn.dupe * rate * drawn.window <= MOST_MATCHES
    assert rate <= 16 * min(drawn.rate_left, drawn.rate_right)
    assert drawn == Drawn.draw(seed)


def test_quick(monkeypatch):
    monkeypatch.setattr(advice, "RATES", (60, 100))
    report = Report("advice", quick=True, console=Console(file=io.StringIO()))
    measure_advice(report, Scale.QUICK)
    assert len(report.claims) == 3
    for claim in report.claims:
        assert 0 <= claim.value <= 1
    assert "arrival rate" in report.details["advice, workload 8000"]["chosen"]["latency"]
