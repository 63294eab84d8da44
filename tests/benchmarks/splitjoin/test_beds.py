"""The joins and sources behind SplitJoin's figures: what they find, and what is made of it."""

from itertools import pairwise

import pytest

from benchmarks.splitjoin.beds import Bed, Load, Passage
from benchmarks.splitjoin.latency import Stages, divide_times, is_falling_behind
from benchmarks.splitjoin.rehearsal import Curve, measure_costs, measure_curve
from benchmarks.splitjoin.simulation import Costs
from streamjoin.joins.messages import Span
from streamjoin.joins.split.executor import Timing

LOAD = Load("bi_sort", 1 << 12, 1 << 9)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(
    ("form", "cores", "ordered"),
    [
        ("plain", 2, "none"),
        ("split", 1, "none"),
        ("split", 2, "none"),
        ("split", 2, 1),
        ("round robin", 2, "none"),
        ("handshake", 2, "none"),
    ],
)
def test_every_form_begins_with_full_windows(form, cores, ordered, timed):
    """From the first batch on, a row finds as many matches as the load says."""
    bed = Bed(Load("bi_sort", 1 << 12, 1 << 9, timed=timed), cores, ordered, form)
    assert bed._run(range(16)) == 16
    bed.close()
    assert bed.rows == 16 << 9
    assert bed.matches == pytest.approx(2.0, rel=0.1)


def test_forms_find_the_same():
    found = set()
    for form, cores in (("plain", 1), ("split", 2), ("round robin", 2), ("handshake", 3)):
        bed = Bed(LOAD, cores, "none", form)
        bed._run(range(24))
        bed.close()
        found.add(bed.found)
    assert len(found) == 1


def test_an_open_loop_keeps_its_schedule():
    bed = Bed(LOAD, 2, "outer")
    passages = bed.paced(rate=200 * LOAD.batch, batches=10)
    bed.close()
    gaps = [last.scheduled - first.scheduled for first, last in pairwise(passages)]
    assert gaps == pytest.approx([1 / 200] * 9)
    assert all(stage.distribution > 0 for stage in divide_times(passages))
    assert all(len(passage.timing.spans) == 2 for passage in passages)


def passage(scheduled, latency):
    span = Span(0, scheduled, scheduled + latency / 2)
    return Passage(scheduled, Timing(0, scheduled, (span,), scheduled + latency))


def test_a_growing_backlog_is_seen():
    steady = [passage(0.1 * each, 0.5 + 0.05 * (each % 3)) for each in range(60)]
    growing = [passage(0.1 * each, 0.5 + 0.008 * each) for each in range(60)]
    assert not is_falling_behind(steady)
    assert is_falling_behind(growing)


def test_stages_are_those_of_the_slowest_core():
    stages = Stages.of(10.0, [(11.0, 13.0), (12.0, 15.0)], 15.5)
    assert (stages.distribution, stages.execution, stages.gathering) == (2.0, 3.0, 0.5)
    assert stages.total == 5.5
    assert stages.visiting == (12.0 + 13.5) / 2 - 10.0


def test_costs_between_and_beyond_what_was_measured():
    curve = Curve({cores: Costs(0.1, 1.0 + 8.0 / cores) for cores in (1, 2, 8)})
    assert [curve.at(cores).search for cores in (1, 2, 4, 8, 64)] == pytest.approx(
        [9.0, 5.0, 3.0, 2.0, 1.125]
    )


def test_costs_are_measured():
    curve = measure_curve(LOAD, "outer", [1, 2], hop=1e-5, seconds=0.01)
    for costs in curve.measured.values():  # differences of times, of which some may come out as 0
        assert min(costs.search, costs.store, costs.prepare, costs.merge, costs.crossing) >= 0
    assert measure_costs(LOAD, 2, "none", 0.01, company=2).search > 0
