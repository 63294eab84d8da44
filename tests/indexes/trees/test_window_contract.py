"""What `window_index.py` promises beyond the contract of all indexes: to forget rightly."""

from functools import partial

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamjoin.indexes.catalogue import WHOLE_WINDOWS, kind_of
from streamjoin.indexes.trees import b_tree, chained_index, pim_tree
from streamjoin.indexes.trees.chained_index import BChain, IBChain
from streamjoin.indexes.trees.pim_tree import PIMTree
from streamjoin.kernels.compile import MAX_KEY, MIN_KEY

VARIANTS = {
    "pim_tree, depth 0": partial(PIMTree, merge_ratio=1 / 16, depth=0),
    "pim_tree, depth 1": partial(PIMTree, merge_ratio=1, depth=1),
    "pim_tree, depth 99": partial(PIMTree, merge_ratio=1 / 16, depth=99),
    "b_chain of 3": partial(BChain, length=3),
    "b_chain of 5": partial(BChain, length=5),
    "ib_chain of 3": partial(IBChain, length=3),
    "ib_chain of 5": partial(IBChain, length=5),
}
MAKERS = {name: kind_of(name) for name in WHOLE_WINDOWS} | VARIANTS
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
every_index = pytest.mark.parametrize("make", [*map(kind_of, WHOLE_WINDOWS)], ids=WHOLE_WINDOWS)

BASES = [0, 2**31 - 40, 2**32 - 40, 2**32 - 1]
EXTREME = st.sampled_from([MIN_KEY, MIN_KEY + 1, -(2**40), 2**40, MAX_KEY - 1, MAX_KEY])
KEYS = st.one_of(st.integers(-3, 3), EXTREME)
RANGES = st.lists(st.tuples(KEYS, KEYS), max_size=8)
PATTERNS = {
    "random": lambda random, first, count: random.integers(-(10**9), 10**9, count),
    "few": lambda random, first, count: random.integers(0, 10, count),
    "equal": lambda random, first, count: np.zeros(count, np.int64),
    "rising": lambda random, first, count: np.arange(first, first + count),
    "falling": lambda random, first, count: -np.arange(first, first + count),
    "drifting": lambda random, first, count: first + random.integers(0, 1000, count),
    "greatest": lambda random, first, count: MAX_KEY - random.integers(0, 2, count),
    "least": lambda random, first, count: MIN_KEY + random.integers(0, 2, count),
}
CASES = {
    f"{name}, {keys}": (make, pattern)
    for keys, pattern in PATTERNS.items()
    for name, make in MAKERS.items()
    if name in WHOLE_WINDOWS or keys in ("random", "few")
}
every_case = pytest.mark.parametrize(("make", "pattern"), CASES.values(), ids=CASES.keys())


@pytest.fixture
def tidy(monkeypatch):
    """Let indexes tidy up and merge after a few tuples."""
    for module in (b_tree, chained_index, pim_tree):
        monkeypatch.setattr(module, "LEAST_TUPLES", 8)


class Window:
    """An index, and the keys of the same tuples in a plain array, oldest first."""

    def __init__(self, index, base=0):
        self.index, self.keys = index, np.empty(0, np.int64)
        index.base = base

    def insert(self, keys):
        keys = np.array(keys, np.int64)
        order = np.argsort(keys, kind="stable")
        self.index.insert(keys[order], (order + self.keys.size).astype(np.int32))
        self.keys = np.append(self.keys, keys)

    def expire(self, count):
        self.index.expire(self.keys[:count])
        self.keys = self.keys[count:]

    def slide(self, pattern, seed, rounds, batch, size):
        """Insert batches, and forget what is too much; yield after each."""
        random = np.random.default_rng(seed)
        for number in range(rounds):
            self.insert(pattern(random, number * batch, batch))
            self.expire(max(self.keys.size - size, 0))
            yield

    def check(self):
        self.index.check()
        assert len(self.index) == self.keys.size
        held = self.index.to_arrow()
        row_ids = held["row_ids"].to_numpy()
        assert np.array_equal(np.sort(row_ids), np.arange(self.keys.size))
        assert np.array_equal(held["keys"].to_numpy(), self.keys[row_ids])

    def check_probe(self, ranges):
        bounds = np.array(ranges, np.int64).reshape(-1, 2)
        found = []
        for matches in self.index.probe(bounds[:, 0].copy(), bounds[:, 1].copy()):
            probes, rows = matches.pairs()
            found += zip(probes.tolist(), rows.tolist(), strict=True)
        expected = [
            (probe, row)
            for probe, (lower, upper) in enumerate(bounds)
            for row in np.flatnonzero((lower <= self.keys) & (self.keys <= upper)).tolist()
        ]
        assert sorted(found) == expected

    def check_samples(self, random, count=20):
        """Probe around keys that are there."""
        if not self.keys.size:
            self.check_probe([(MIN_KEY, MAX_KEY)])
            return
        lower = random.choice(self.keys, count)
        upper = random.choice(self.keys, count)
        near = np.minimum(lower, MAX_KEY - 5) + random.integers(0, 5, count)
        some = [*zip(lower, near, strict=True), *zip(lower[:3], upper[:3], strict=True)]
        self.check_probe([*some, (MIN_KEY, MAX_KEY), (MAX_KEY, MAX_KEY), (1, 0)])


class AgainstAnArray(RuleBasedStateMachine):
    """Any sequence of steps."""

    @initialize(make=st.sampled_from(list(MAKERS.values())), base=st.sampled_from(BASES))
    def start(self, make, base):
        self.window = Window(make(), base)

    @rule(keys=st.lists(KEYS, max_size=40))
    def insert(self, keys):
        self.window.insert(keys)

    @rule(
        pattern=st.sampled_from(list(PATTERNS.values())),
        seed=st.integers(0, 99),
        count=st.sampled_from([64, 65, 500]),
    )
    def insert_many(self, pattern, seed, count):
        self.window.insert(pattern(np.random.default_rng(seed), self.window.keys.size, count))

    @rule(share=st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.9, 1.0]))
    def expire(self, share):
        self.window.expire(int(share * self.window.keys.size))

    @rule(ranges=RANGES)
    def probe(self, ranges):
        self.window.check_probe(ranges)

    @rule(seed=st.integers(0, 99))
    def probe_samples(self, seed):
        self.window.check_samples(np.random.default_rng(seed))

    @rule()
    def restore(self):
        index = self.window.index
        self.window.index = type(index).from_arrow(index.to_arrow())

    @rule()
    def seal(self):
        self.window.index.seal()

    @invariant()
    def holds_what_is_alive(self):
        self.window.check()


AgainstAnArray.TestCase.settings = settings(max_examples=20, stateful_step_count=12)


@pytest.mark.usefixtures("tidy")
class TestAnySequenceOfSteps(AgainstAnArray.TestCase):
    pass


@every_case
def test_thousands_of_tuples(make, pattern):
    window, random = Window(make(1000), 2**32 - 9000), np.random.default_rng(3)
    for number, _ in enumerate(window.slide(pattern, 7, rounds=20, batch=900, size=7000)):
        if number % 6 == 5:
            window.check()
            window.check_samples(random, 5)
    for count in (0, 1, 3000, 3998):
        window.expire(count)
        window.check()
        window.check_samples(random, 5)
    window.expire(window.keys.size)
    window.check()
    window.insert([3, 1, 2])
    window.check()
    window.check_samples(random, 2)


@every_case
def test_a_sliding_window_takes_bounded_memory(make, pattern):
    # Once, in a B+-tree: leaves of few different keys were emptied and never given back.
    window = Window(make(2000))
    slides = window.slide(pattern, 1, rounds=160, batch=250, size=2000)
    held = [window.index.nbytes for _ in slides]
    window.check()
    assert max(held) <= 5 * 12 * 2000 + 20_000
    assert max(held[80:]) <= 1.25 * max(held[:80])


@every_maker
@pytest.mark.parametrize("left", [0, 100])
def test_memory_falls_after_expiry(make, left):
    # Once: a B+-tree kept its blocks, a PIM-Tree the tree before, and a chain all links in which
    # one tuple was alive.
    window = Window(make())
    for _ in window.slide(PATTERNS["random"], 1, rounds=10, batch=2000, size=20_000):
        pass
    before = window.index.nbytes
    window.expire(window.keys.size - left)
    window.check()
    assert before > 12 * 20_000
    assert window.index.nbytes <= 150_000


@every_maker
def test_memory_follows_what_is_alive_and_not_what_was_expected(make):
    # Once: a link was archived only when it held the window that was expected, expired or not.
    window = Window(make(10**6))
    for _ in window.slide(PATTERNS["random"], 1, rounds=100, batch=500, size=1000):
        pass
    window.check()
    assert window.index.nbytes <= 150_000


@every_maker
def test_windows_that_grow_and_shrink(make):
    # Once, in a PIM-Tree: when its window shrank, T_I held more than its new limit, and the next
    # insert began before the first of its keys.
    window, random = Window(make(), 2**32 - 30_000), np.random.default_rng(5)
    for size in (9000, 20_000, 10_200, 10_300, 5200, 15_000, 7600, 300, 12_000, 0, 400):
        grows = max(size - window.keys.size, 1)
        window.insert(random.integers(0, 5000, grows))
        window.expire(window.keys.size - size)
        window.check()
        window.check_samples(random, 3)


@every_index
@pytest.mark.parametrize("base", BASES)
def test_tuples_that_come_and_go_one_by_one(make, base, tidy):
    window, random = Window(make(), base), np.random.default_rng(1)
    for number in range(300):
        window.insert([int(random.integers(0, 4))])
        window.expire(int(window.keys.size > 70))
        if number % 20 == 0:
            window.check()
            window.check_probe([(key, key) for key in range(4)])
    for _ in range(70):
        window.expire(1)
    window.check()


@every_index
def test_expired_tuples_are_left_out_of_a_snapshot(make):
    window = Window(make(), 2**32 - 5)
    window.insert(range(100))
    window.expire(90)
    snapshot = window.index.to_arrow()
    assert snapshot["keys"].to_pylist() == list(range(90, 100))
    assert snapshot["row_ids"].to_pylist() == list(range(10))
    back = Window(make.from_arrow(snapshot))
    back.keys = window.keys
    for each in (window, back):
        each.insert([95, 95])
        each.expire(3)
        each.check()
        each.check_probe([(95, 95), (0, 200)])


@every_index
def test_a_probe_with_more_matches_than_are_written_down_at_once(make, monkeypatch):
    monkeypatch.setattr("streamjoin.indexes.hits.LEAST_HITS", 8)
    monkeypatch.setattr("streamjoin.indexes.hits.MOST_HITS", 64)
    window = Window(make())
    window.insert(np.arange(3000) // 30)
    window.expire(100)
    window.check_probe([(5, 5), (0, 99), (7, 7), (50, 40), (20, 90), (99, 200)])


@every_index
def test_probes_are_pure(make):
    window, random = Window(make()), np.random.default_rng(1)
    window.insert(random.integers(0, 50, 3000))
    window.expire(700)
    before, held = window.index.to_arrow(), window.index.nbytes
    window.check_samples(random)
    window.check_samples(random)
    assert window.index.to_arrow().equals(before)
    assert window.index.nbytes == held


@pytest.mark.parametrize("make", VARIANTS.values(), ids=VARIANTS.keys())
def test_a_successor_is_of_the_same_kind(make):
    index = make(500)
    after = index.successor(700)
    assert type(after) is type(index)
    assert after.capacity == 700
    assert len(after) == 0
    for name in ("merge_ratio", "depth", "length"):
        assert getattr(after, name, None) == getattr(index, name, None)
