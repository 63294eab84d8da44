"""The simulation against the paper's equations, and what must hold for any flow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.splitjoin.simulated_flows import (
    HandshakeFlow,
    SplitFlow,
    run_closed_loop,
    run_open_loop,
)
from benchmarks.splitjoin.simulation import (
    Costs,
    Machine,
    Message,
    depth,
    processing_latency,
    visiting_latency,
)

COSTS = Costs(hop=0.3, search=5.0, monitor=0.07)
seconds = st.sampled_from([0.0, 0.1, 1.0, 3.0])
costs = st.builds(Costs, *[seconds] * 12)


def flow_of(kind, cores, costs, fanouts=(8, 8), processors=None, turn=1.0):
    machine = Machine(processors)
    if kind == "split":
        return SplitFlow(cores, costs, turn, fanouts, machine)
    return HandshakeFlow(cores, costs, turn, machine)


def pass_alone(flow):
    message = Message(0)
    flow.source.take(message)
    flow.machine.run()
    return message


@pytest.mark.parametrize("kind", ["split", "handshake"])
@pytest.mark.parametrize("cores", [1, 2, 4, 16, 64, 256])
@pytest.mark.parametrize("fanouts", [(2, 2), (2, 4), (4, 16)])
def test_an_idle_system_takes_what_the_equations_say(kind, cores, fanouts):
    message = pass_alone(flow_of(kind, cores, COSTS, fanouts))
    assert message.latency == pytest.approx(processing_latency(kind, cores, fanouts, COSTS))
    assert message.visiting == pytest.approx(visiting_latency(kind, cores, fanouts, COSTS))


def test_the_equations_themselves():
    """Written out: 16 cores, fanouts 4 and 2, and a chain of 16."""
    assert processing_latency("split", 16, (4, 2), COSTS) == pytest.approx(0.3 * 2 + 5 + 0.3 * 4)
    chain = 0.3 + 15 * (0.3 + 0.07) + 5 + 0.3
    assert processing_latency("handshake", 16, (4, 2), COSTS) == pytest.approx(chain)
    assert depth(16, 2) == 4


@settings(deadline=None)
@given(
    kind=st.sampled_from(["split", "handshake"]),
    cores=st.integers(1, 9),
    costs=costs,
    fanouts=st.tuples(st.integers(2, 4), st.integers(2, 4)),
    processors=st.sampled_from([None, 1, 2]),
    turn=st.sampled_from([0.25, 1.0, 3.0]),
    messages=st.integers(1, 12),
    rate=st.sampled_from([0.2, 1.0, 10.0]),
)
def test_every_message_comes_out_once(
    kind, cores, costs, fanouts, processors, turn, messages, rate
):
    flow = flow_of(kind, cores, costs, fanouts, processors, turn)
    run_open_loop(flow, messages, rate)
    assert sorted(message.number for message in flow.finished) == list(range(messages))
    assert all(len(message.spans) == cores for message in flow.finished)
    for node in flow.cores:
        left, right = (
            [each.number for each in node.served if (each.is_left != each.is_expiry) == is_left]
            for is_left in (True, False)
        )
        assert left == sorted(left)
        assert right == sorted(right)
        if kind == "split":
            assert [each.number for each in node.served] == list(range(messages))
        else:  # each way, the batches of one stream and the expiry messages of the other
            assert left == right == list(range(messages))
    shares = [sum(flow.share(Message(each), core) for core in range(cores)) for each in range(9)]
    assert shares == pytest.approx([1.0] * 9)
    work = messages * cores * costs.search
    assert flow.machine.now >= work / (processors or cores) - 1e-9


def test_a_saturated_core_is_busy_all_the_time():
    flow = flow_of("split", 4, Costs(0.01, 2.0))
    assert run_closed_loop(flow, 40, 8) == pytest.approx(0.5, rel=1e-6)


def test_shared_processors_divide_the_speed():
    alone = run_closed_loop(flow_of("split", 4, Costs(0.01, 2.0)), 40, 8)
    shared = run_closed_loop(flow_of("split", 4, Costs(0.01, 2.0), processors=2), 40, 8)
    assert shared == pytest.approx(alone / 2, rel=0.02)
