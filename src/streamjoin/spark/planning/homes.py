"""Where all that counts for a row must be found in one core, and what that asks of the routing.

Which rows have a match is told at their home, one core each (`JoinSpec.confined`). If that counts
on both sides, rows meet at either home, which is worth it only if each row reaches few cores: those
that are routed by hash meet at home anyway, and a band touches one core or two.
"""

from streamjoin.errors import StreamJoinError, WindowError
from streamjoin.options.checked import JoinOptions
from streamjoin.plans.plan import JoinPlan


def limit_cores(config: JoinOptions, plan: JoinPlan, routing: str, cores: int | None) -> int | None:
    """Return the number of cores, 1 if all rows have to come to one; refuse more then."""
    reason = find_reason(config, plan, routing)
    if reason is None:
        return cores
    if (cores or 1) > 1:
        raise StreamJoinError(
            f"cores={cores} for {reason}, so one core has to see them all; leave cores out"
        )
    return 1


def find_reason(config: JoinOptions, plan: JoinPlan, routing: str) -> str | None:
    """Return why all rows have to come to one core, if they have."""
    if plan.longest_pause is not None and not plan.equalities:
        return (
            f"{config.window} and a condition without an equality: any row can belong to any "
            "session"
        )
    if len(config.how.follows) > 1 and routing == "split":
        what = config.window if config.is_counted else "a condition without an equality or a band"
        return f"how={config.how.name!r} and {what}: any row can match any other, on either side"
    waits = config.keep != "all" or config.aggregate
    if waits and "right" in config.how.follows and routing != "hash":
        return (
            f"keep={config.keep!r}, how={config.how.name!r} and a condition that rows are not "
            "routed by hash for: which right rows are kept depends on all of a left row's matches"
        )
    return None


def check_reduced(config: JoinOptions) -> None:
    """Refuse streams in count windows of which not all matches are given."""
    if config.is_counted and (config.keep != "all" or config.aggregate):
        option = f"keep={config.keep!r}" if config.keep != "all" else "aggregate"
        raise WindowError(
            f"{option} in {config.window} would need the matches of every left row so far in the "
            "state of a stream on Spark; use a TimeWindow, or streamjoin.StreamJoin"
        )
