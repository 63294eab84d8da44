"""The errors users see. Each message gives the value, the rule and the way out."""

from typing import Any


class StreamJoinError(ValueError):
    """An error the caller can fix. The join's state is as it was before the call.

    The one exception: a window that fails as it closes is dropped, and a note says so. Matches that
    the same call had already found in other windows are in ``results``, a table; None if there were
    none.
    """

    results: Any = None


class ConditionError(StreamJoinError):
    """The join condition cannot be read, or has no part that a join can use."""


class UnsupportedExpressionError(ConditionError):
    """An expression that can be read but not evaluated in process; Spark may still evaluate it."""


class SchemaError(StreamJoinError):
    """A column is missing or ambiguous, types do not compare, or a batch's schema changed."""


class WindowError(StreamJoinError):
    """A window or duration that makes no sense, or lacks something it needs."""


class EvaluationError(StreamJoinError):
    """A value cannot be computed: overflow or division by zero, as in Spark's ANSI mode."""


class SnapshotError(StreamJoinError):
    """Bytes that are not a snapshot, or a snapshot that is damaged or of another version."""


class StreamJoinWarning(UserWarning):
    """A join that will run into trouble sooner or later, and what to do about it."""


class MissingPackageError(StreamJoinError, ImportError):
    """An optional package is not installed; ``name`` is the name of the missing module."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class CoreError(RuntimeError):
    """A join core has died, and its part of the window is lost; the other cores go on.

    ``cores`` are the numbers of the cores that died, ``results`` what the others found in this
    step.
    """

    def __init__(self, message: str, cores: tuple[int, ...]) -> None:
        super().__init__(message)
        self.cores = cores
        self.results: Any = None
