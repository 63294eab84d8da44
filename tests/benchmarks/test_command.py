"""``python -m benchmarks``: what it prints and writes, and what it says of what is missing."""

import json

from typer.testing import CliRunner

from benchmarks import registry
from benchmarks.__main__ import app
from benchmarks.harness.figures import Figure
from benchmarks.harness.scale import Scale
from benchmarks.harness.series import Series


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def refused(*arguments):
    """Return the message of a run that ends with exit code 2."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_bench_prints_a_table_and_writes_json(tmp_path, monkeypatch):
    def suite(report, scale):
        assert scale is Scale.QUICK
        report.speedup("much faster", Series("a", (1.0,)), Series("b", (9.0,)), target=3)

    monkeypatch.setitem(registry.SUITES, "example", suite)
    path = tmp_path / "report.json"
    result = run("example", "--quick", "--json", path)
    assert result.exit_code == 0, result.output
    assert "much" in result.stdout
    assert json.loads(path.read_text())["claims"][0]["value"] == 9.0


def test_bench_keeps_what_was_measured_before_an_error(tmp_path, monkeypatch):
    def suite(report, scale):
        report.speedup("much faster", Series("a", (1.0,)), Series("b", (9.0,)), target=3)
        raise RuntimeError("the run does not count")

    monkeypatch.setitem(registry.SUITES, "example", suite)
    path = tmp_path / "report.json"
    result = run("example", "--json", path)
    assert isinstance(result.exception, RuntimeError)
    assert "much" in result.stdout
    assert json.loads(path.read_text())["claims"][0]["value"] == 9.0


def test_bench_draws_figures(tmp_path, monkeypatch):
    def suite(report, scale):
        figure = Figure("fig1", "a title", "x", "y")
        for place in (1, 2, 4):
            figure.add("a line", place, 10 / place)
        report.figures.append(figure)

    monkeypatch.setitem(registry.SUITES, "example", suite)
    result = run("example", "--plots", tmp_path, "--json", tmp_path / "r.json")
    assert "2 pictures" in result.stdout
    assert (tmp_path / "fig1.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "fig1.svg").read_text()
    lines = json.loads((tmp_path / "r.json").read_text())["figures"]["fig1"]["lines"]
    assert lines == {"a line": [[1, 10], [2, 5], [4, 2.5]]}


def test_bench_names_the_suites():
    assert "engine" in refused("nope")


def test_bench_says_which_package_is_missing(monkeypatch):
    def suite(report, scale):
        raise ModuleNotFoundError("No module named 'polars'", name="polars")

    monkeypatch.setitem(registry.SUITES, "example", suite)
    assert "needs polars" in refused("example")
