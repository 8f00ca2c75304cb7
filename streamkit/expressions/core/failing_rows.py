"""
Rows that fail, and how they are noted where a failure gives null and does not end the run.

A kernel that knows which of its rows fail says so (`FailingRowsError`), so that nobody has to search for them. What gives null for such rows
notes them, if somebody wants to know (`noted_failures`).
Of several failures in a batch the error tells of one: that of the first row that fails (`first_failure`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.errors import EvaluationError

if TYPE_CHECKING:
    from streamkit.expressions.core.rows import Rows


@dataclass(frozen=True)
class FailedPart:
    """The rows that a part of an expression was computed on, and in which of them it failed."""

    rows: Rows
    failed: Mask


class FailingRowsError(pa.ArrowInvalid):  # type: ignore[misc]
    """Some rows fail; `rows` says which. One row alone stands for all: the arguments were constants. `part` is set by who computed them."""

    def __init__(self, message: str, rows: pa.BooleanArray) -> None:
        super().__init__(message)
        self.rows = rows
        self.part: FailedPart | None = None


def check_rows(failed: Mask, message: str) -> None:
    """FailingRowsError if there is a row that fails."""
    if failed.any():
        raise FailingRowsError(message, pa.array(failed))


def first_failure(
    batch: pa.RecordBatch, run: Callable[[pa.RecordBatch], object]
) -> tuple[pa.RecordBatch, EvaluationError] | None:
    """
    The first row with which `run` of the rows up to it fails, and how it fails then; None if it does not fail on these rows.

    By bisection. Whatever else fails on the whole batch fails in later rows, so the error is of this row too.
    """
    error = _failure(batch, run)
    if error is None:
        return None
    good, bad = 0, batch.num_rows
    while bad - good > 1:
        middle = (good + bad) // 2
        found = _failure(batch.slice(0, middle), run)
        if found is None:
            good = middle
        else:
            bad, error = middle, found
    return batch.slice(good, 1), error


def _failure(batch: pa.RecordBatch, run: Callable[[pa.RecordBatch], object]) -> EvaluationError | None:
    try:
        run(batch)
    except EvaluationError as error:
        return error
    return None


@dataclass(frozen=True)
class FailedRows:
    """
    Rows of a batch in which an expression was null because it failed: their numbers, and why, as the first of them says.

    By the text `expression` its place is found; people see `shown`.
    """

    expression: str
    shown: str
    rows: Integers
    reason: str


_notes: ContextVar[list[FailedRows] | None] = ContextVar("_notes", default=None)


@contextmanager
def noted_failures() -> Iterator[list[FailedRows]]:
    """A list that is filled with the rows that fail in what is evaluated inside, where a failure is null and is to be noted."""
    notes: list[FailedRows] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note(failed: FailedRows) -> None:
    """Add rows that failed to the list that somebody keeps, if there is one."""
    if (notes := _notes.get()) is not None:
        notes.append(failed)


def notes_so_far() -> int:
    """How many notes there are, for `forget_notes`."""
    return len(_notes.get() or ())


def forget_notes(since: int) -> None:
    """Drop the notes since then, because the rows are evaluated again."""
    if (notes := _notes.get()) is not None:
        del notes[since:]
