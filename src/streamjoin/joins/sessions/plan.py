"""Plans for rows whose sessions are known: the only equality is the session's number."""

from dataclasses import replace

import numpy as np

from streamjoin.conditions import Equality, NotEqual
from streamjoin.kernels.compile import Keys
from streamjoin.keys.bound_terms import COMPARISONS, EqualityPart, RangePart
from streamjoin.plans.plan import JoinPlan, KeyColumns
from streamjoin.plans.prepared import Prepared

SESSION = 0  # the place of the session among a row's equalities


def with_sessions(plan: JoinPlan) -> JoinPlan:
    """Return the plan for rows whose sessions are known: session numbers are the only equality.

    That is enough, since rows of one session have equal keys (`groups`).
    """
    assert plan.time_part is not None
    operands = plan.ranges[plan.time_part].operands
    session = EqualityPart(Equality("l.session", "r.session"), operands, exact=True)
    return replace(plan, equalities=(session,))


def with_bridges(plan: JoinPlan) -> JoinPlan:
    """Return the same, only for pairs that were in different sessions before."""
    assert plan.time_part is not None
    operands = plan.ranges[plan.time_part].operands
    source = NotEqual("l.session", "r.session")
    differ = RangePart(source, operands, floating=False, exact=COMPARISONS["<>"])
    return replace(plan, ranges=(*plan.ranges, differ))


def in_sessions(
    batch: Prepared, plan: JoinPlan, numbers: Keys, before: Keys | None = None
) -> Prepared:
    """Return rows under a plan that knows their sessions; for `with_bridges`, those before too."""
    ranges = batch.keys.ranges if before is None else (*batch.keys.ranges, before)
    return batch.rekey(plan, KeyColumns((numbers,), ranges, batch.keys.rows))


def matching_in(batch: Prepared, plan: JoinPlan, numbers: Keys) -> Prepared:
    """Return the rows of a batch that can match, under a plan that knows their sessions."""
    if batch.roles.can_match is None:
        return in_sessions(batch, plan, numbers)
    rows = np.flatnonzero(batch.roles.can_match)
    return in_sessions(batch.take(rows), plan, numbers[rows])
