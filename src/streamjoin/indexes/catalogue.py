"""The catalogue of algorithms: everything that ``algorithm=`` may name, and what is known about it.

An entry says it all: the name of the algorithm, its class and family, what it is good for, which
function predicts its cost, and which knobs it has. ``explain``, ``"auto"``, ``streamjoin
calibrate``, ``--help`` and messages are made from it; tests compare the documents with it. Classes
and functions are given by module and name, and loaded at first use, so listing the algorithms loads
no kernel.

To add a structure: its file and an entry here. With ``cost``, ``"auto"`` compares one that keeps a
window whole with the others of that family; which subwindows to make is a rule in
`choice.structure`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamjoin.indexes.protocol import Structure

MOST_BITS = 18  # 2**18 partitions, the most that Zhang et al. try (Fig. 18)


class Family(Enum):
    """What an algorithm works on; the value says it in words."""

    SUBWINDOWS = "keeps a window in subwindows, sorted by one key"
    WHOLE_WINDOWS = "keeps a window whole, for rows that arrive a few at a time"
    TWO_KEYS = "keeps a window in subwindows, sorted by two inequalities or bands at once"
    LAZY = "joins by equality once all rows are known: tables, and windows that close"
    EAGER = "joins a tumbling window by equality as its rows arrive"


@dataclass(frozen=True)
class Knob:
    """A setting that ``tuning=`` may change: a whole number from 1."""

    name: str
    meaning: str
    most: int | None = None
    divides_threads: bool = False


@dataclass(frozen=True)
class Algorithm:
    """An entry of the catalogue."""

    name: str
    family: Family
    what: str  # what it is, and the paper it comes from
    good_for: str  # `explain` says so if the user chose it
    home: str  # the module, and the class or function that makes it
    cost: str | None = None  # the function of `choice.structure_costs` that predicts its cost
    in_auto: bool = True  # whether "auto" ever chooses it
    takes_threads: bool = False  # whether its constructor takes a number of threads
    knobs: tuple[Knob, ...] = ()

    @property
    def kind(self) -> Any:
        """The class, or the function that makes one."""
        return load(f"streamjoin.{self.home}")

    @property
    def predict_steps(self) -> Callable[..., Any]:
        """The function that predicts the cost of a row."""
        assert self.cost is not None, f"{self.name} has no cost function"
        return load(f"streamjoin.choice.structure_costs:{self.cost}")


@lru_cache
def load(home: str) -> Any:
    """Import an object, given as module and name."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


BITS = Knob("bits", "bits of the hash, which make 2**bits partitions", most=MOST_BITS)
RUN_ROWS = Knob("run_rows", "rows that are sorted together")
DELTA = Knob("delta", "rows that are sorted together, over all cores")
GROUP = Knob("group", "cores per group, which share its rows", divides_threads=True)

CATALOGUE = (
    Algorithm(
        "bi_sort",
        Family.SUBWINDOWS,
        "sorted arrays with an index and an insertion buffer, PanJoin",
        "large batches and for many matches",
        "indexes.runs.bi_sort:BISort",
        cost="bi_sort_join",
        takes_threads=True,
    ),
    Algorithm(
        "rap_table",
        Family.SUBWINDOWS,
        "a table of key ranges that adapts from subwindow to subwindow, PanJoin",
        "small batches of keys in any order",
        "indexes.tables.rap_table:RaPTable",
    ),
    Algorithm(
        "wib_tree",
        Family.SUBWINDOWS,
        "a B+-tree with wide leaves that are not sorted, PanJoin",
        "small batches of keys that keep rising",
        "indexes.tables.wib_tree:WiBTree",
    ),
    Algorithm(
        "b_tree",
        Family.WHOLE_WINDOWS,
        "a B+-tree over the whole window",
        "one row at a time in a small window",
        "indexes.trees.b_tree:BTree",
        cost="b_tree_join",
    ),
    Algorithm(
        "b_chain",
        Family.WHOLE_WINDOWS,
        "a chain of B+-trees",
        "one row at a time, where removing rows one by one costs too much",
        "indexes.trees.chained_index:BChain",
        cost="b_chain_join",
    ),
    Algorithm(
        "ib_chain",
        Family.WHOLE_WINDOWS,
        "a chain of B+-trees, all but the newest immutable",
        "one row at a time, with many searches per row",
        "indexes.trees.chained_index:IBChain",
        cost="ib_chain_join",
    ),
    Algorithm(
        "im_tree",
        Family.WHOLE_WINDOWS,
        "an immutable B+-tree and a small one for new rows, merged from time to time",
        "a few rows at a time, and threads that share the window",
        "indexes.trees.im_tree:IMTree",
        cost="im_tree_join",
    ),
    Algorithm(
        "pim_tree",
        Family.WHOLE_WINDOWS,
        "an immutable B+-tree with many small ones for new rows, merged from time to time",
        "a few rows at a time in a large window, and threads that share it",
        "indexes.trees.pim_tree:PIMTree",
        cost="pim_tree_join",
    ),
    Algorithm(
        "spo_join",
        Family.TWO_KEYS,
        "sorted by two inequalities or bands at once, permutation arrays, SPO-Join",
        "two inequalities that each let many pairs pass",
        "indexes.two_keys.spo_join:SPOJoin",
        takes_threads=True,
    ),
    Algorithm(
        "scan",
        Family.SUBWINDOWS,
        "compares every pair, a nested loop",
        "conditions without a key",
        "indexes.runs.scan:Scan",
        in_auto=False,
    ),
    Algorithm(
        "npj",
        Family.LAZY,
        "one hash table for all threads, no partitioning",
        "few rows, or one key that very many rows share",
        "joins.equality.lazy.npj:NPJ",
    ),
    Algorithm(
        "prj",
        Family.LAZY,
        "radix partitions that fit into the cache, a hash table each",
        "most windows and tables",
        "joins.equality.lazy.prj:PRJ",
        knobs=(BITS,),
    ),
    Algorithm(
        "mway",
        Family.LAZY,
        "sorted runs, merged all at once",
        "comparisons; it is rarely the fastest",
        "joins.equality.lazy.mway:MWay",
        in_auto=False,
        knobs=(RUN_ROWS,),
    ),
    Algorithm(
        "mpass",
        Family.LAZY,
        "sorted runs, merged two by two",
        "keys that repeat very often",
        "joins.equality.lazy.mpass:MPass",
        knobs=(RUN_ROWS,),
    ),
    Algorithm(
        "shj_jm",
        Family.EAGER,
        "symmetric hash join over a join matrix",
        "rows that arrive slowly, a few at a time",
        "joins.equality.algorithms:shj_jm",
    ),
    Algorithm(
        "shj_jb",
        Family.EAGER,
        "symmetric hash join over a join biclique",
        "rows that arrive as fast as they can be joined one by one",
        "joins.equality.algorithms:shj_jb",
        knobs=(GROUP,),
    ),
    Algorithm(
        "pmj_jm",
        Family.EAGER,
        "progressive merge join over a join matrix",
        "rows that arrive faster than they can be joined one by one, if left has far fewer",
        "joins.equality.algorithms:pmj_jm",
        knobs=(DELTA,),
    ),
    Algorithm(
        "pmj_jb",
        Family.EAGER,
        "progressive merge join over a join biclique",
        "rows that arrive faster than they can be joined one by one",
        "joins.equality.algorithms:pmj_jb",
        knobs=(DELTA, GROUP),
    ),
)
ALGORITHMS = {each.name: each for each in CATALOGUE}


def names_of(*families: Family) -> tuple[str, ...]:
    """Name the algorithms of some families."""
    return tuple(each.name for each in CATALOGUE if each.family in families)


SUBWINDOWS, WHOLE_WINDOWS = names_of(Family.SUBWINDOWS), names_of(Family.WHOLE_WINDOWS)
ONE_KEY = names_of(Family.SUBWINDOWS, Family.WHOLE_WINDOWS)
TWO_KEYS = names_of(Family.TWO_KEYS)
LAZY, EAGER = names_of(Family.LAZY), names_of(Family.EAGER)
BY_EQUALITY = (*LAZY, *EAGER)  # these keep no index, and join a window or tables as a whole


def make_index(name: str, capacity: int, threads: int = 1) -> "Structure":
    """Make an empty index; some of them merge with several threads."""
    entry, capacity = ALGORITHMS[name], max(capacity, 1)
    index: Structure = (
        entry.kind(capacity, threads=threads) if entry.takes_threads else entry.kind(capacity)
    )
    return index


def kind_of(name: str) -> Any:
    """Return the class of a structure."""
    return ALGORITHMS[name].kind


def describe_family(family: Family) -> str:
    """Name the algorithms of a family as help and docstrings do.

    >>> describe_family(Family.TWO_KEYS)
    '``"spo_join"``'
    """
    return ", ".join(f'``"{name}"``' for name in names_of(family))
