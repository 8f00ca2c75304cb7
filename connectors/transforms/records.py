"""Records as Connect sees them, in columns: the key and the value apart, each of named columns or of one without a name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.chunks import one_array
from streamkit.errors import SchemaError
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.names import DELETED, LOG_COLUMNS, ROW_NUMBER, TOPIC

_OWN = (*LOG_COLUMNS, TOPIC, ROW_NUMBER)
KEY_COLUMNS = b"key.columns"  # in the metadata of a table's schema: of sources whose records say them, and behind transforms


@dataclass(frozen=True)
class RecordPart:
    """
    The keys or the values of records. `valid` says which rows have one: a value that is missing is a tombstone.

    A struct has any number of columns. A bare part has one: its name is that of the column that it becomes in a row.
    `touched` are the columns that a transform has made.
    """

    columns: Mapping[str, pa.Array]
    valid: pa.BooleanArray
    is_struct: bool = True
    touched: frozenset[str] = frozenset()

    @classmethod
    def bare(cls, name: str, column: pa.Array) -> RecordPart:
        """A part that is one column without a name of its own."""
        return cls({name: column}, column.is_valid(), False, frozenset((name,)))

    @property
    def whole(self) -> pa.Array:
        """The part as one column."""
        if not self.is_struct:
            return next(iter(self.columns.values()))
        if not self.columns and not self.valid.true_count:
            return pa.nulls(len(self.valid))
        if not self.columns:
            return pa.array([{} if is_valid else None for is_valid in self.valid.to_pylist()], pa.struct([]))
        return pa.StructArray.from_arrays(list(self.columns.values()), list(self.columns), mask=pc.invert(self.valid))

    def of(self, columns: Mapping[str, pa.Array], touched: Sequence[str] = ()) -> RecordPart:
        """A struct of these columns, in the rows that have one."""
        return RecordPart(columns, self.valid, True, (self.touched & columns.keys()) | frozenset(touched))

    def bared(self) -> RecordPart:
        """The part without columns if no row has one: what nobody has is of no type."""
        is_missing = self.is_struct and len(self.valid) > 0 and not self.valid.true_count
        return RecordPart({}, self.valid) if is_missing else self

    def take(self, rows: Integers) -> RecordPart:
        """Some of the rows."""
        kept = pa.array(rows)
        return replace(
            self, columns={name: column.take(kept) for name, column in self.columns.items()}, valid=self.valid.take(kept)
        )


@dataclass(frozen=True)
class Records:
    """
    Records of one topic. `facts` holds StreamKit's own columns (`_timestamp`, `_headers`, `_partition` and so on).

    `rows` are their numbers among those that came in. `notes` is what SetSchemaMetadata says of the schemas.
    """

    topic: str
    key: RecordPart
    value: RecordPart
    facts: pa.Table
    rows: Integers
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.rows)

    def part(self, side: str) -> RecordPart:
        """The part of that name, `Key` or `Value`."""
        return self.key if side == "Key" else self.value

    def with_part(self, side: str, part: RecordPart) -> Records:
        """The records with another key or value."""
        return replace(self, key=part) if side == "Key" else replace(self, value=part)

    def take(self, rows: Integers) -> Records:
        """Some of the records."""
        if len(rows) == self.count:
            return self
        return replace(
            self,
            key=self.key.take(rows),
            value=self.value.take(rows),
            facts=self.facts.take(pa.array(rows)),
            rows=self.rows[rows],
        )

    def fact(self, name: str) -> pa.Array | None:
        """One of StreamKit's own columns, if the records have it."""
        return plain_array(self.facts[name]) if name in self.facts.column_names else None

    def with_fact(self, name: str, column: pa.Array) -> Records:
        """The records with another column of StreamKit's own."""
        others = self.facts.drop_columns([name]) if name in self.facts.column_names else self.facts
        return replace(self, facts=others.append_column(name, column))


def records_of(topic: str, rows: pa.Table, key: Sequence[str]) -> Records:
    """
    Rows as records: the value has all columns of a row, the key has its own once more.

    Rows of opaque bytes have a bare key and a bare value.
    """
    own = [name for name in rows.column_names if name in _OWN]
    columns = {name: plain_array(rows[name]) for name in rows.column_names if name not in _OWN}
    facts, numbers = rows.select(own), np.arange(rows.num_rows, dtype=np.int64)
    if is_opaque(rows):
        parts = {name: RecordPart({name: columns[name]}, columns[name].is_valid(), is_struct=False) for name in (KEY, VALUE)}
        return Records(topic, parts[KEY], parts[VALUE], facts, numbers)
    present = pa.array(np.ones(rows.num_rows, bool))
    keys = {name: columns[name] for name in key} if key and all(name in columns for name in key) else {}
    key_part = RecordPart(keys, present if keys else pc.invert(present))
    deleted = plain_array(rows[DELETED]).fill_null(False) if DELETED in own else pc.invert(present)
    if deleted.true_count:
        columns = {name: pc.if_else(deleted, None, column) for name, column in columns.items()}
    return Records(topic, key_part, RecordPart(columns, pc.invert(deleted)), facts, numbers)


def rows_of(records: Records) -> pa.Table:
    """
    Records as rows, which have one column of a name: a key column that the value has too is the value's.

    A record with a key and without a value is a deletion. SchemaError where a name stands for two things.
    """
    table, key, value = records.facts, records.key, records.value.bared()
    columns = dict(value.columns)
    for name, column in key.columns.items():
        columns[name] = _agreed(name, column, records) if name in columns else column
    ordered = [*(name for name in key.columns if name not in value.columns), *value.columns]
    for name in ordered:
        table = table.append_column(name, columns[name])
    if DELETED in records.facts.column_names or value.valid.false_count:
        deleted = pc.and_(pc.invert(value.valid), key.valid)
        table = table.drop_columns([name for name in (DELETED,) if name in table.column_names]).append_column(DELETED, deleted)
    return _noted(table, records)


def is_opaque(rows: pa.Table) -> bool:
    """Whether rows are `key binary, value binary`."""
    columns = {name: rows[name].type for name in rows.column_names if name not in _OWN}
    return columns == {KEY: pa.binary(), VALUE: pa.binary()}


def key_columns(rows: pa.Table) -> tuple[str, ...] | None:
    """The key columns that transforms, or records, have given rows; None if none of them said so."""
    said = (rows.schema.metadata or {}).get(KEY_COLUMNS)
    return None if said is None else tuple(json.loads(said))


def plain_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one plain array."""
    found = one_array(column)
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def _agreed(name: str, column: pa.Array, records: Records) -> pa.Array:
    """The one column for a name that the key and the value have."""
    found, has_value = records.value.columns[name], records.value.valid
    if found is column:
        return column
    is_split = bool(has_value.false_count)
    of_values = (found.filter(has_value), column.filter(has_value)) if is_split else (found, column)
    if found.type == column.type and of_values[0].equals(of_values[1]):
        return column
    if name in records.key.touched or is_split:
        raise SchemaError(
            f"the column {name!r} of the key differs from that of the value, and a row has one column of a name; transform both "
            "alike, with $Key and with $Value, or leave the column out of one of them with ReplaceField"
        )
    return found


def _noted(table: pa.Table, records: Records) -> pa.Table:
    notes = {name.encode(): text.encode() for name, text in records.notes.items()}
    keys = list(records.key.columns) if records.key.valid.true_count else []
    if keys or records.count == 0:
        notes[KEY_COLUMNS] = json.dumps(list(records.key.columns)).encode()
    return table.replace_schema_metadata(notes or None)
