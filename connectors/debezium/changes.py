"""Changes of one table, as rows of a topic: what each becomes is said by it and by the topic that those before it have made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamkit.connectors.debezium.envelope import DELETION, ROWS, Envelope, RecordKey, Types
from streamkit.connectors.debezium.table_rows import TableRow, TableRows
from streamkit.connectors.source import Reading, RecordPlace, Refused, Unread
from streamkit.connectors.transforms.records import KEY_COLUMNS
from streamkit.errors import SchemaError

KeyNames = tuple[str, ...]


@dataclass(frozen=True)
class ChangeRecord:
    """A record that was read: its envelope and key, the types of its columns, where it was and its bytes; or why it is none."""

    envelope: Envelope | None
    key: RecordKey | None
    types: Types | None
    time_ms: int | None
    place: RecordPlace
    record: bytes
    error: SchemaError | None = None

    @property
    def own_key(self) -> KeyNames:
        return tuple(self.key.values) if self.key else ()

    @property
    def is_deletion(self) -> bool:
        return self.envelope is not None and self.envelope.op not in ROWS


@dataclass
class PolledChanges(Unread):
    """
    Changes that a poll brought for a topic.

    `key` is the setting, `known_key` gives that of the topic, None if it is not there; with transforms (`is_transformed`) nobody asks it,
    since they may say another topic and another key. `hear_key` is told the key of what is read.
    """

    topic: str
    changes: Sequence[ChangeRecord]
    key: KeyNames
    known_key: Callable[[], KeyNames | None]
    hear_key: Callable[[KeyNames], None]
    is_transformed: bool

    @property
    def count(self) -> int:
        return len(self.changes)

    def read(self, start: int, end: int) -> Reading:
        """Rows of these changes; not sure of it if they have several keys, and none is the topic's yet."""
        changes = self.changes[start:end]
        known = None if self.key or self.is_transformed else self.known_key()
        keys = {frozenset(one.own_key) for one in changes if one.error is None}
        if len(keys) > 1 and known is None and not self.key:
            return Reading([], [], is_sure=False)
        own = next((one.own_key for one in changes if one.error is None), ())
        self.hear_key(self.key or (own if known is None else known))
        runs, refused = _RowsByLayout(is_exact=self.is_transformed), list[tuple[ChangeRecord, SchemaError]]()
        for number, change in enumerate(changes):
            try:
                runs.add(self._row(change, known, number), change.types)
            except SchemaError as error:
                refused.append((change, error))
        tables, bad = runs.tables()
        refused += [(changes[one.number], error) for one, error in bad]
        if known is None and not self.key:
            note = {KEY_COLUMNS: json.dumps(own).encode()}
            tables = [table.replace_schema_metadata(note) for table in tables]
        return Reading(tables, [self._refused(*one) for one in sorted(refused, key=lambda one: one[0].place)])

    def _row(self, change: ChangeRecord, known: KeyNames | None, number: int) -> TableRow:
        if change.error is not None:
            raise change.error
        own = change.own_key
        names = self.key or (own if known is None else known)
        if known and own and set(known) != set(own):
            raise SchemaError(
                f"found the key columns {', '.join(own)}, and {', '.join(known)} before; expected the same, since a topic keeps its key"
            )
        assert change.envelope is not None
        of_key = change.key.values if change.key else {}
        if change.is_deletion:
            row = _deleted(change.envelope.before, of_key, names)
        else:
            row = {**of_key, **(change.envelope.after or {})}
        if not self.is_transformed and names and all(name in row and row[name] is None for name in names):
            # Before it can say columns of a topic.
            raise SchemaError(
                f"the key column {next(iter(names))!r} is null; expected a value, since the topic keeps the last row of each key"
            )
        return TableRow(row, change.is_deletion, change.time_ms, change.place, number)

    def _refused(self, change: ChangeRecord, error: SchemaError) -> Refused:
        return self.topic, change.record, SchemaError(f"{said_place(change.place)}: {error}"), change.place, change.time_ms


@dataclass
class _RowsByLayout:
    """
    Rows by their layout. Where it `is_exact` rows of other columns are of another one: transforms see a row's own columns alone.

    `order` has the columns as a topic would get them from the records one by one.
    """

    is_exact: bool
    runs: list[TableRows] = field(default_factory=list)
    by_layout: dict[Any, TableRows] = field(default_factory=dict)
    order: dict[str, None] = field(default_factory=dict)

    def add(self, row: TableRow, types: Types | None) -> None:
        layout: Any = (id(types), row.is_deleted)
        if types is None:
            layout = (row.is_deleted, tuple((name, type(value)) for name, value in row.values.items()))
        run = self.by_layout.get(layout)
        if run is None:  # rows of a known layout say no column that is new
            self.order |= dict.fromkeys(row.said(types))
        if run is None or not run.takes(row):
            run = next((one for one in self.runs if self._takes(one, row, types)), None)
            if run is None:
                run = TableRows(types)
                self.runs.append(run)
            self.by_layout[layout] = run
        run.add(row)

    def _takes(self, run: TableRows, row: TableRow, types: Types | None) -> bool:
        if run.types is not types or not run.takes(row):
            return False
        first = run.rows[0]
        has_its_columns = types is not None or first.values.keys() == row.values.keys()
        return not self.is_exact or (first.is_deleted == row.is_deleted and has_its_columns)

    def tables(self) -> tuple[list[pa.Table], list[tuple[TableRow, SchemaError]]]:
        found = [run.table() for run in self.runs]
        tables, bad = [rows for rows, _ in found if rows is not None], [one for _, bad in found for one in bad]
        if bad:  # which say no columns
            rows = sorted(((row, run.types) for run in self.runs for row in run.rows), key=lambda one: one[0].number)
            self.order = dict.fromkeys(name for row, types in rows for name in row.said(types))
        return (tables if self.is_exact or not tables else [self._in_order(tables[0]), *tables[1:]]), bad

    def _in_order(self, first: pa.Table) -> pa.Table:
        """The first table with the columns of all, which a topic gets from it in this order; those that it lacks are null, and of no type yet."""
        for name in self.order.keys() - set(first.column_names):
            first = first.append_column(name, pa.nulls(first.num_rows))
        return first.select([*self.order, *(name for name in first.column_names if name not in self.order)])


def _deleted(before: Mapping[str, Any] | None, of_key: Mapping[str, Any], names: KeyNames) -> dict[str, Any]:
    """The key alone; where the record has none, from the row before."""
    row = {**(before or {}), **of_key}
    if not names or any(name not in row for name in names):
        raise SchemaError(
            f"found a deletion (op={DELETION!r}) without a key; expected the row's primary key as the record's key, or the setting key=… "
            "with columns that `before` has"
        )
    return {name: row[name] for name in names}


def said_place(place: RecordPlace) -> str:
    """Where a record was, as errors say it."""
    return f"topic {place[0]}, partition {place[1]}, offset {place[2]}"
