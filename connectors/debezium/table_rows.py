"""Changes of one table, in their order, as rows of a topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamkit.connectors.debezium.connect_type import UNKNOWN, ConnectType, guessed_type, kind_of
from streamkit.connectors.debezium.envelope import Types
from streamkit.errors import SchemaError
from streamkit.names import DELETED, OFFSET, PARTITION, ROW_NUMBER, TIMESTAMP
from streamkit.names import TOPIC as TOPIC_COLUMN

_TIMES = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True)
class TableRow:
    """A row after a change, or the key of one that was deleted; when the change was made, where the record was, and its number."""

    values: Mapping[str, Any]
    is_deleted: bool
    time_ms: int | None
    place: tuple[str, int, int]
    number: int

    def said(self, types: Types | None) -> list[str]:
        """The columns that a topic gets from this row alone: without a schema a null has no type yet, and a deletion says its key."""
        if types is None:
            return [name for name, value in self.values.items() if value is not None]
        return [name for name in types if not self.is_deleted or name in self.values]


@dataclass
class TableRows:
    """Rows of one layout; `types` is None where no schema says them: then they are guessed from all values."""

    types: Types | None
    rows: list[TableRow] = field(default_factory=list)
    kinds: dict[str, type] = field(default_factory=dict)  # of values without a schema

    def takes(self, row: TableRow) -> bool:
        """Whether a row is of this layout; without a schema its values say so, and a null fits all."""
        if self.types is not None:
            return True
        return all(value is None or self.kinds.get(name, kind_of(value)) is kind_of(value) for name, value in row.values.items())

    def add(self, row: TableRow) -> None:
        """Take the row."""
        self.rows.append(row)
        if self.types is None:
            self.kinds |= {name: kind_of(value) for name, value in row.values.items() if value is not None}

    def table(self) -> tuple[pa.Table | None, list[tuple[TableRow, SchemaError]]]:
        """The rows as a poll gives them, None if there are none; and those with a value that does not fit."""
        columns, bad = self._columns()
        refused = [(self.rows[row], error) for row, error in sorted(bad.items())]
        if bad:
            self.rows = [row for number, row in enumerate(self.rows) if number not in bad]
            columns, _ = self._columns()
        if not self.rows:
            return None, refused
        own = {
            TIMESTAMP: pa.array([row.time_ms for row in self.rows], _TIMES),
            DELETED: pa.array([row.is_deleted for row in self.rows], pa.bool_()),
            TOPIC_COLUMN: pa.array([row.place[0] for row in self.rows], pa.string()),
            PARTITION: pa.array([row.place[1] for row in self.rows], pa.int32()),
            OFFSET: pa.array([row.place[2] for row in self.rows], pa.int64()),
            ROW_NUMBER: pa.array([row.number for row in self.rows], pa.int64()),
        }
        return pa.table({**columns, **own}), refused

    def _columns(self) -> tuple[dict[str, pa.Array], dict[int, SchemaError]]:
        columns: dict[str, pa.Array] = {}
        bad: dict[int, SchemaError] = {}
        for name, kind in self._kinds():
            values = [row.values.get(name) for row in self.rows]
            try:
                columns[name] = kind.read(values)
            except SchemaError:
                columns[name] = _one_by_one(name, kind, values, bad)
        return columns, bad

    def _kinds(self) -> Iterator[tuple[str, ConnectType]]:
        named = dict.fromkeys(name for row in self.rows for name in row.values)
        if self.types is not None:
            has_rows = not all(row.is_deleted for row in self.rows)  # deletions say their key alone, whatever their schema has
            yield from ((name, kind) for name, kind in self.types.items() if has_rows or name in named)
            return
        for name in named:
            yield name, guessed_type([row.values.get(name) for row in self.rows]) or UNKNOWN


def _one_by_one(name: str, kind: ConnectType, values: Sequence[Any], bad: dict[int, SchemaError]) -> pa.Array:
    """
    The column of values among which one does not fit, each read alone: this happens to few polls.

    Those that do not fit are null, and `bad` gets their rows. A column is there even if all fit alone: a value depends on no other.
    """
    found = []
    for row, value in enumerate(values):
        try:
            found.append(kind.read([value]))
        except SchemaError as error:
            bad[row] = SchemaError(f"column {name!r}: {value!r}: {error}")
            found.append(pa.nulls(1, kind.arrow))
    return pa.concat_arrays(found)
