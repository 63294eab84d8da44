"""Claims know whether they are reached, and a report holds all that is needed to repeat a run."""

import io
import json
import math

from rich.console import Console

from benchmarks.harness.report import Claim, Report
from benchmarks.harness.series import Series


def quiet_report(**options):
    return Report("example", console=Console(file=io.StringIO(), width=200), **options)


def test_claims_know_whether_they_are_reached():
    report = quiet_report()
    ours, theirs = Series("ours", (1.0, 2.0, 3.0)), Series("theirs", (8.0,))
    assert report.speedup("speed", ours, theirs, target=4).reached
    assert not report.speedup("more speed", ours, theirs, target=4.1).reached
    assert report.at_most("memory", 2.5, 2.5).reached
    assert not report.at_most("memory", 2.6, 2.5).reached
    assert not report.at_least("unknown", math.nan, 1).reached
    assert report.series == [ours, theirs]


def test_the_json_holds_all_that_is_needed_to_repeat_the_run(tmp_path):
    report = quiet_report(quick=True)
    assert report.seed("data", 42) == 42
    report.settings["threads"] = 2
    ours, theirs = Series("ours", (1.0, 2.0)), Series("theirs", (3.0,))
    report.claim(Claim("speed", math.inf, 3.0, True, ours, theirs, note="a note"))
    path = tmp_path / "report.json"
    report.to_json(path)
    data = json.loads(path.read_text())
    assert data["suite"] == "example"
    assert data["quick"] is True
    assert data["seeds"] == {"data": 42}
    assert data["settings"] == {"threads": 2}
    assert data["series"][0]["values"] == [1.0, 2.0]
    assert set(data["commit"]) == {"revision", "dirty"}
    assert set(data["machine"]) == {"cores", "memory_gib", "cpu", "python", "platform"}
    (claim,) = data["claims"]
    assert claim["value"] is None  # JSON has no infinity
    assert claim["ours"]["median"] == 1.5
    assert claim["theirs"]["iqr"] == 0.0
    assert (claim["target"], claim["direction"], claim["reached"]) == (3.0, "at least", True)


def test_the_table_shows_every_claim():
    report = quiet_report()
    report.at_least("a speed", 1234.5, 1000, Series("ours", (0.001,)))
    report.at_most("a size", 3.25, 2.5, note="too much")
    report.console.print(report.table())
    text = report.console.file.getvalue()
    for expected in ("a speed", "1,234", "at least 1,000", "yes", "0.001 s", "at most 2.5", "no"):
        assert expected in text


def test_a_step_says_what_ran():
    report = quiet_report()
    with report.step("sorting"):
        pass
    assert "sorting" in report.console.file.getvalue()


def test_details_are_written_and_never_lost(tmp_path):
    report = quiet_report()
    report.detail("skew", {"uniform": 1.0, "hot": math.nan})
    report.to_json(tmp_path / "report.json")
    details = json.loads((tmp_path / "report.json").read_text())["details"]
    assert details == {"skew": {"uniform": 1.0, "hot": None}}
