"""The eight algorithms by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

from streamjoin.joins.equality.join_biclique import JoinBiclique
from streamjoin.joins.equality.join_matrix import JoinMatrix
from streamjoin.joins.equality.mpass import MPass
from streamjoin.joins.equality.mway import MWay
from streamjoin.joins.equality.npj import NPJ
from streamjoin.joins.equality.pmj import DELTA, PMJ
from streamjoin.joins.equality.prj import PRJ
from streamjoin.joins.equality.protocol import Eager, Lazy
from streamjoin.joins.equality.shj import SHJ


def pmj_matrix(threads: int = 1, delta: int = DELTA) -> JoinMatrix:
    """Return PMJ over a join matrix."""
    return JoinMatrix(partial(PMJ, delta), threads)


def pmj_biclique(threads: int = 1, delta: int = DELTA, group: int = 1) -> JoinBiclique:
    """Return PMJ over a join biclique; each core has its part of ``delta``."""
    part = max(delta * group // threads, 2)
    return JoinBiclique(partial(pmj_matrix, group, part), threads, group)


def shj_biclique(threads: int = 1, group: int = 1) -> JoinBiclique:
    """Return SHJ over a join biclique."""
    return JoinBiclique(partial(SHJ, group), threads, group)


LAZY: dict[str, Callable[..., Lazy]] = {"npj": NPJ, "prj": PRJ, "mway": MWay, "mpass": MPass}
EAGER: dict[str, Callable[..., Eager]] = {
    "shj_jm": SHJ,
    "shj_jb": shj_biclique,
    "pmj_jm": pmj_matrix,
    "pmj_jb": pmj_biclique,
}


def make_lazy(name: str, threads: int = 1, **knobs: Any) -> Lazy:
    """Return a lazy algorithm, good for any number of windows."""
    return LAZY[name](threads, **knobs)


def make_eager(name: str, threads: int = 1, **knobs: Any) -> Eager:
    """Return an eager algorithm for one window."""
    return EAGER[name](threads, **knobs)
