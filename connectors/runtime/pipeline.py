"""The steps between a connector and a topic: each takes rows and gives rows, and a row that fails is told from the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from streamkit.connectors.joined_rows import in_order, together
from streamkit.connectors.runtime.retry import Retry
from streamkit.errors import EvaluationError, SchemaError
from streamkit.names import ROW_NUMBER

TopicTable: TypeAlias = tuple[str, pa.Table]  # a topic, and rows of it
PipelineTables: TypeAlias = Mapping[str, pa.Table] | Sequence[TopicTable]
KeyOf: TypeAlias = Callable[[str, pa.Table], Collection[str]]
FAILURES = (SchemaError, EvaluationError)  # of a record, not of the task


def _no_key(topic: str, rows: pa.Table) -> Collection[str]:
    return ()


@dataclass(frozen=True)
class PipelineStep:
    """
    One step; `stage` is Connect's name for it, which dead letters carry. `run` gives the rows by topic.

    Rows of other columns come apart to a step, so that they are what they would be alone. Where it `is_last` those of a topic
    come together and in their order, as far as their columns go together: `key_of` names those that never change their type.
    """

    stage: str
    run: Callable[[str, pa.Table], PipelineTables]
    is_last: bool = False
    key_of: KeyOf = _no_key


@dataclass(frozen=True)
class RecordFailure:
    """A row that a step refused: its number among those that came in, and why."""

    row: int
    stage: str
    error: Exception


@dataclass(frozen=True)
class Passed:
    """What came through, with its topic, and what did not."""

    parts: tuple[TopicTable, ...]
    failures: tuple[RecordFailure, ...]


def pass_through(
    steps: Sequence[PipelineStep], topic: str, rows: pa.Table, retry: Retry | None = None, *, is_tolerant: bool = True
) -> Passed:
    """
    Send rows through all steps.

    A step raises SchemaError, whose `rows` say which rows do not fit, or any error of a record without them: then the rows
    are halved until those that fail are alone. `retry` tries a step again while its error may pass. Unless it `is_tolerant`,
    the first failure ends the search for others, and what comes through is not all. Rows keep their number in the column
    `_row` on the way.
    """
    parts: list[TopicTable] = [(topic, rows.append_column(ROW_NUMBER, pa.array(np.arange(rows.num_rows))))]
    failures: list[RecordFailure] = []
    for step in steps:
        if step.is_last:
            parts = in_topics(parts, step.key_of)
        outcomes = [_attempt(_tried(step, retry), name, part, failures, is_tolerant=is_tolerant) for name, part in parts]
        found = [one for outcome in outcomes for some in outcome for one in _pairs(some)]
        parts = found if step.is_last else of_one_layout(found)
    kept = tuple((name, part) for name, part in parts if part.num_rows)
    return Passed(kept, tuple(sorted(failures, key=lambda one: one.row)))


def pass_together(
    steps: Sequence[PipelineStep], topic: str, tables: Sequence[pa.Table], retry: Retry | None = None
) -> list[TopicTable] | RecordFailure | None:
    """
    Send tables, whose rows have their numbers in `_row`, through all steps: what comes through, or the first failure.

    Nobody looks for the row that is to blame, since all of them may be others without it. None if the columns of a topic's rows do not
    go together: then fewer at a time do.
    """
    parts: list[TopicTable] = [(topic, rows) for rows in tables]
    for step in steps:
        if step.is_last:
            parts = in_topics(parts, step.key_of)
            if len(parts) > len({name for name, _ in parts}):
                return None
        found: list[TopicTable] = []
        for name, part in parts:
            try:
                found += _pairs(_tried(step, retry).run(name, part))
            except FAILURES as error:
                return RecordFailure(0, step.stage, error)
        parts = [(name, part) for name, part in (found if step.is_last else of_one_layout(found)) if part.num_rows]
    return parts


def _tried(step: PipelineStep, retry: Retry | None) -> PipelineStep:
    """The step, tried again while its error may pass."""
    return step if retry is None else replace(step, run=lambda topic, rows: retry.run(lambda: step.run(topic, rows)))


def in_topics(parts: Iterable[TopicTable], key_of: KeyOf = _no_key) -> list[TopicTable]:
    """The rows of each topic together, in their order; in several parts where their columns do not go together."""
    tables: dict[str, list[pa.Table]] = {}
    for name, part in parts:
        tables.setdefault(name, []).append(part)
    return [(name, table) for name, some in tables.items() for table in together(some, key_of(name, some[0]))]


def of_one_layout(parts: Iterable[TopicTable]) -> list[TopicTable]:
    """The rows of each topic and of the same columns together, in their order."""
    tables: dict[tuple[str, str], list[pa.Table]] = {}
    for name, part in parts:
        layout = part.schema.to_string(show_schema_metadata=True, truncate_metadata=False)
        tables.setdefault((name, layout), []).append(part)
    return [(name, in_order(pa.concat_tables(some)) if len(some) > 1 else some[0]) for (name, _), some in tables.items()]


def _pairs(parts: PipelineTables) -> Iterable[TopicTable]:
    return parts.items() if isinstance(parts, Mapping) else parts


def _attempt(
    step: PipelineStep, topic: str, rows: pa.Table, failures: list[RecordFailure], *, is_tolerant: bool
) -> Iterator[PipelineTables]:
    if not rows.num_rows or (failures and not is_tolerant):
        return
    try:
        yield step.run(topic, rows)
    except FAILURES as error:
        refused = sorted({row for row in getattr(error, "rows", ()) if row < rows.num_rows})
        if rows.num_rows == 1 or len(refused) == 1:
            row = refused[0] if refused else 0
            failures.append(RecordFailure(rows[ROW_NUMBER][row].as_py(), step.stage, error))
            others = pa.concat_tables([rows.slice(0, row), rows.slice(row + 1)])
            yield from _attempt(step, topic, others, failures, is_tolerant=is_tolerant)
            return
        for part in _apart(rows, refused):
            yield from _attempt(step, topic, part, failures, is_tolerant=is_tolerant)


def _apart(rows: pa.Table, refused: Sequence[int]) -> Iterator[pa.Table]:
    """Rows that are refused each alone, and in their order what lies between them; halves if nobody knows which they are."""
    cuts = sorted({0, rows.num_rows, *(cut for row in refused for cut in (row, row + 1))}) if refused else []
    cuts = cuts or [0, rows.num_rows // 2, rows.num_rows]
    for start, end in pairwise(cuts):
        yield rows.slice(start, end - start)
