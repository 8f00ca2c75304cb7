"""
Which columns a persistent query sees of a stream or table: those that were there when it was made, and those that it names.

A column that is added later changes nothing of a query that does not name it, also if another source of the query has one of that name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.plan.dotted_name import parts_of
from streamkit.sql.execution.definitions import VALUE_FORMAT
from streamkit.sql.lowering.expression_parts import references
from streamkit.sql.script.properties import NATIVE
from streamkit.sql.tree.query import FieldsStar, Star
from streamkit.sql.tree.span import Written
from streamkit.sql.tree.statements import CreateAs, InsertQuery

ADDED_AT = "added_at"  # of a column: the number of the newest query when it was added
WHOLE = (NATIVE, "DELIMITED", "KAFKA")  # formats whose values are read with all their columns


def with_added_at(known: StoredSource, new: StoredSource, numbers: int) -> StoredSource:
    """A stream or table in place of another one, with the moment at which each of its columns was added."""
    before = {str(one["name"]): one.get(ADDED_AT) for one in known.columns}
    columns = []
    for one in new.columns:
        added_at = before.get(str(one["name"]), numbers)
        columns.append({**one, **({} if added_at is None else {ADDED_AT: added_at})})
    return replace(new, columns=tuple(columns))


@dataclass(frozen=True)
class SeenColumns:
    """The columns that all of some statements see, each of a query of such a number, or of a new one."""

    statements: Sequence[CreateAs | InsertQuery]
    numbers: Sequence[int | None]

    def of(self, source: StoredSource) -> StoredSource:
        """The source with the columns that the statements see; all where a value is read as a whole, or written by one of them."""
        format = str(source.formats.get(VALUE_FORMAT) or source.formats.get("FORMAT") or NATIVE).upper()
        sinks = [one.name.text.lower() for one in self.statements if isinstance(one, InsertQuery)]
        if format in WHOLE or source.name.lower() in sinks or self._oldest is None:
            return source
        return replace(source, columns=tuple(one for one in source.columns if self._is_seen(source, one)))

    def _is_seen(self, source: StoredSource, column: Mapping[str, Any]) -> bool:
        name, added_at = str(column["name"]), column.get(ADDED_AT)
        is_old = added_at is None or self._oldest is None or added_at < self._oldest
        is_said = name.lower() in self._named or name == source.timestamp or bool(column.get("role"))
        return is_old or is_said

    @cached_property
    def _oldest(self) -> int | None:
        """The number below which columns are seen by all; None if a statement is new, or has `*`, so that all are seen."""
        has_star = any(isinstance(one, Star | FieldsStar) for statement in self.statements for one in _below(statement.query))
        numbers = [one for one in self.numbers if one is not None]
        return None if has_star or len(numbers) < len(self.numbers) else max(numbers, default=None)

    @cached_property
    def _named(self) -> frozenset[str]:
        """The names in all expressions, in small letters, with those of sources and fields."""
        written = (one for statement in self.statements for one in _below(statement.query) if isinstance(one, Written))
        return frozenset(part.lower() for one in written for found in references(one.expression) for part in parts_of(found.name))


def _below(part: object) -> Iterator[object]:
    """A query and all its parts, but expressions."""
    yield part
    if isinstance(part, tuple):
        for one in part:
            yield from _below(one)
    elif is_dataclass(part) and not isinstance(part, Written | type):
        for field in fields(part):
            yield from _below(getattr(part, field.name))
