"""The steps between a connector and a topic: each takes rows and gives rows, and a row that fails is told from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.runtime.retry import Retry
from streamkit.errors import EvaluationError, SchemaError
from streamkit.names import ROW_NUMBER

Parts = Mapping[str, pa.Table]
FAILURES = (SchemaError, EvaluationError)  # of a record, not of the task


@dataclass(frozen=True)
class Step:
    """One step; `stage` is Connect's name for it, which dead letters carry. `run` gives the rows by topic."""

    stage: str
    run: Callable[[str, pa.Table], Parts]


@dataclass(frozen=True)
class Failure:
    """A row that a step refused: its number among those that came in, and why."""

    row: int
    stage: str
    error: Exception


@dataclass(frozen=True)
class Passed:
    """What came through, by topic, and what did not."""

    parts: Parts
    failures: tuple[Failure, ...]


def pass_through(
    steps: Sequence[Step], topic: str, rows: pa.Table, retry: Retry | None = None, *, is_tolerant: bool = True
) -> Passed:
    """
    Send rows through all steps.

    A step raises SchemaError, whose `rows` say which rows do not fit, or any error of a record without them: then the rows
    are halved until those that fail are alone. `retry` tries a step again while its error may pass. Unless it `is_tolerant`,
    the first failure ends the search for others, and what comes through is not all. Rows keep their number in the column
    `_row` on the way.
    """
    parts: Parts = {topic: rows.append_column(ROW_NUMBER, pa.array(range(rows.num_rows), pa.int64()))}
    failures: list[Failure] = []
    for step in steps:
        outcomes = [_attempt(_tried(step, retry), name, part, failures, is_tolerant=is_tolerant) for name, part in parts.items()]
        parts = joined(found for outcome in outcomes for found in outcome)
    return Passed({name: part for name, part in parts.items() if part.num_rows}, tuple(sorted(failures, key=lambda one: one.row)))


def _tried(step: Step, retry: Retry | None) -> Step:
    """The step, tried again while its error may pass."""
    return step if retry is None else Step(step.stage, lambda topic, rows: retry.run(lambda: step.run(topic, rows)))


def joined(found: Iterator[Parts]) -> dict[str, pa.Table]:
    """The parts of each topic behind one another."""
    tables: dict[str, list[pa.Table]] = {}
    for parts in found:
        for name, part in parts.items():
            tables.setdefault(name, []).append(part)
    return {name: _concatenated(some) for name, some in tables.items()}


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    kept = [table for table in tables if table.num_rows] or tables[:1]
    return kept[0] if len(kept) == 1 else pa.concat_tables(kept, promote_options="permissive")


def _attempt(step: Step, topic: str, rows: pa.Table, failures: list[Failure], *, is_tolerant: bool) -> Iterator[Parts]:
    if not rows.num_rows or (failures and not is_tolerant):
        return
    try:
        yield step.run(topic, rows)
    except FAILURES as error:
        refused = sorted({row for row in getattr(error, "rows", ()) if row < rows.num_rows})
        if rows.num_rows == 1 or len(refused) == 1:
            row = refused[0] if refused else 0
            failures.append(Failure(rows[ROW_NUMBER][row].as_py(), step.stage, error))
            yield from _attempt(step, topic, _without(rows, [row]), failures, is_tolerant=is_tolerant)
            return
        for part in _apart(rows, refused):
            yield from _attempt(step, topic, part, failures, is_tolerant=is_tolerant)


def _apart(rows: pa.Table, refused: Sequence[int]) -> Iterator[pa.Table]:
    """Rows that are refused each alone, and in their order what lies between them; halves if nobody knows which they are."""
    cuts = sorted({0, rows.num_rows, *(cut for row in refused for cut in (row, row + 1))}) if refused else []
    cuts = cuts or [0, rows.num_rows // 2, rows.num_rows]
    for start, end in pairwise(cuts):
        yield rows.slice(start, end - start)


def _without(rows: pa.Table, numbers: Sequence[int]) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(pa.array(range(rows.num_rows)), pa.array(numbers))))
