"""Makes the eight algorithms of Zhang et al. by their names in the catalogue.

A lazy algorithm is one class. An eager one combines SHJ or PMJ in each core with a way to spread
tuples over cores: a join matrix or a join biclique.
"""

from functools import partial
from typing import Any, cast

from streamjoin.indexes.catalogue import ALGORITHMS
from streamjoin.joins.equality.eager.join_biclique import JoinBiclique
from streamjoin.joins.equality.eager.join_matrix import JoinMatrix
from streamjoin.joins.equality.eager.pmj import DELTA, PMJ
from streamjoin.joins.equality.eager.shj import SHJ
from streamjoin.joins.equality.protocol import Eager, Lazy


def shj_jm(threads: int = 1) -> SHJ:
    """Return SHJ over a join matrix, which it implements itself."""
    return SHJ(threads)


def shj_jb(threads: int = 1, group: int = 1) -> JoinBiclique:
    """Return SHJ over a join biclique."""
    return JoinBiclique(partial(SHJ, group), threads, group)


def pmj_jm(threads: int = 1, delta: int = DELTA) -> JoinMatrix:
    """Return PMJ over a join matrix."""
    return JoinMatrix(partial(PMJ, delta), threads)


def pmj_jb(threads: int = 1, delta: int = DELTA, group: int = 1) -> JoinBiclique:
    """Return PMJ over a join biclique; each core gets its share of ``delta``."""
    part = max(delta * group // threads, 2)
    return JoinBiclique(partial(pmj_jm, group, part), threads, group)


def make_lazy(name: str, threads: int = 1, **knobs: Any) -> Lazy:
    """Return a lazy algorithm, which can join any number of windows."""
    return cast(Lazy, ALGORITHMS[name].kind(threads, **knobs))


def make_eager(name: str, threads: int = 1, **knobs: Any) -> Eager:
    """Return an eager algorithm for one window."""
    return cast(Eager, ALGORITHMS[name].kind(threads, **knobs))
