"""What can go wrong at the public edge. Each message gives the value, the rule and the way out."""

from typing import Any


class StreamJoinError(ValueError):
    """Something the caller can mend; the join's state is as it was before the call.

    Only a window that fails when it closes is dropped, as a note says. Matches that the same call
    had found already, in other windows, are in ``results``, a table; None if there were none.
    """

    results: Any = None


class ConditionError(StreamJoinError):
    """The join condition cannot be read, or has no part that a join can use."""


class UnsupportedExpressionError(ConditionError):
    """An expression that can be read but not evaluated in process; Spark may still evaluate it."""


class SchemaError(StreamJoinError):
    """A column is missing or ambiguous, types do not compare, or a batch's schema changed."""


class WindowError(StreamJoinError):
    """A window or duration that makes no sense, or that lacks what it needs."""


class EvaluationError(StreamJoinError):
    """A value cannot be computed, as in Spark's ANSI mode: overflow, division by zero."""


class SnapshotError(StreamJoinError):
    """Bytes that are not a snapshot, or one that is damaged or of another version."""


class StreamJoinWarning(UserWarning):
    """A join that will not go well for long, and what to do about it."""


class MissingPackageError(StreamJoinError, ImportError):
    """An optional package is not installed; ``name`` is that of the module."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class CoreError(RuntimeError):
    """A join core has died, and its part of the window is lost; the others go on.

    ``cores`` are the numbers of those that died, ``results`` what the others found in this step.
    """

    def __init__(self, message: str, cores: tuple[int, ...]) -> None:
        super().__init__(message)
        self.cores = cores
        self.results: Any = None
