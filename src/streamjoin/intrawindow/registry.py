"""The eight algorithms by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

from streamjoin.intrawindow.join_biclique import JoinBiclique
from streamjoin.intrawindow.join_matrix import JoinMatrix
from streamjoin.intrawindow.mpass import MPass
from streamjoin.intrawindow.mway import MWay
from streamjoin.intrawindow.npj import NPJ
from streamjoin.intrawindow.pmj import DELTA, PMJ
from streamjoin.intrawindow.prj import PRJ
from streamjoin.intrawindow.protocol import Eager, Lazy
from streamjoin.intrawindow.shj import SHJ


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
