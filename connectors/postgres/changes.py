"""The changes of a poll, gathered by table, as rows of topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.record_lines import json_text
from streamkit.connectors.postgres.pgoutput import UNCHANGED, Delete, Insert, Update, lsn_text
from streamkit.connectors.postgres.source_type import SourceType
from streamkit.errors import SchemaError
from streamkit.names import DELETED, OFFSET, TIMESTAMP
from streamkit.names import TOPIC as TOPIC_COLUMN

# A record that no row can be made of: topic, record, why, its place, and its time in ms
RefuseRecord = Callable[[str, bytes, Exception, None, int | None], None]
_TIMES = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class TableLayout:
    """A table as its changes are read: the topic, the columns, their types, and which of them are the key."""

    table: str
    topic: str
    names: tuple[str, ...]
    types: tuple[SourceType, ...]
    key: tuple[str, ...]

    def key_of(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The values of the key columns."""
        return tuple(value for name, value in zip(self.names, values, strict=True) if name in self.key)

    def shown(self, values: Sequence[Any]) -> bytes:
        """A row as dead letters have it."""
        texts = {name: _shown(value) for name, value in zip(self.names, values, strict=True)}
        return json_text(texts).encode()


@dataclass
class TableChanges:
    """Rows of one table, in their order; of a deletion only the key is kept."""

    layout: TableLayout
    refuse: RefuseRecord
    values: list[Sequence[Any]] = field(default_factory=list)
    deleted: list[bool] = field(default_factory=list)
    times_us: list[int | None] = field(default_factory=list)
    lsns: list[int] = field(default_factory=list)

    def add(self, change: Insert | Update | Delete, lsn: int, time_us: int) -> None:
        """A change as one row or two: a row, a deletion, or for an update that changes the key a deletion and a row."""
        layout = self.layout
        if isinstance(change, Insert):
            self._append(change.new, False, lsn, time_us)
            return
        if not layout.key:
            self._refuse(change, lsn, time_us, _without_key(layout, change))
        elif isinstance(change, Delete):
            self._append(change.old, True, lsn, time_us)
        else:
            new = completed(change)
            if UNCHANGED in new:
                self._refuse(change, lsn, time_us, _unchanged(layout, new))
                return
            if change.old is not None and layout.key_of(change.old) != layout.key_of(new):
                self._append(change.old, True, lsn, time_us)
            self._append(new, False, lsn, time_us)

    def rows(self) -> pa.Table:
        """The rows as a poll gives them."""
        while True:
            columns, bad = self._columns()
            if not bad:
                break
            for row in sorted(bad):
                error = SchemaError(f"table {self.layout.table}, LSN {lsn_text(self.lsns[row])}, {bad[row]}")
                self.refuse(self.layout.topic, self.layout.shown(self.values[row]), error, None, _ms(self.times_us[row]))
            self._drop(bad)
        deleted = pa.array(self.deleted, pa.bool_())
        return pa.table(
            {
                **columns,
                TIMESTAMP: pa.array(self.times_us, _TIMES),
                DELETED: deleted,
                TOPIC_COLUMN: pa.repeat(self.layout.table, len(self.values)),
                OFFSET: pa.array(self.lsns, pa.int64()),
            }
        )

    def _append(self, values: Sequence[Any], is_deletion: bool, lsn: int, time_us: int) -> None:
        if is_deletion:
            key = self.layout.key
            values = [value if name in key else None for name, value in zip(self.layout.names, values, strict=True)]
        self.values.append(values)
        self.deleted.append(is_deletion)
        self.times_us.append(time_us)
        self.lsns.append(lsn)

    def _columns(self) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """The columns, and why rows have a value that does not fit, if some have."""
        columns: dict[str, pa.Array] = {}
        bad: dict[int, str] = {}
        by_column = zip(*self.values, strict=True) if self.values else [()] * len(self.layout.names)
        for name, kind, texts in zip(self.layout.names, self.layout.types, by_column, strict=True):
            try:
                columns[name] = kind.read(texts)
            except SchemaError:
                bad |= {row: f"column {name!r}: {why}" for row, why in _refused(kind, texts)}
        return columns, bad

    def _drop(self, rows: Mapping[int, str]) -> None:
        kept = [row for row in range(len(self.values)) if row not in rows]
        self.values = [self.values[row] for row in kept]
        self.deleted = [self.deleted[row] for row in kept]
        self.times_us = [self.times_us[row] for row in kept]
        self.lsns = [self.lsns[row] for row in kept]

    def _refuse(self, change: Update | Delete, lsn: int, time_us: int, error: SchemaError) -> None:
        record = self.layout.shown(change.new if isinstance(change, Update) else change.old)
        said = SchemaError(f"table {self.layout.table}, LSN {lsn_text(lsn)}: {error}")
        self.refuse(self.layout.topic, record, said, None, _ms(time_us))


def _ms(time_us: int | None) -> int | None:
    return None if time_us is None else time_us // 1_000


def completed(change: Update) -> Sequence[Any]:
    """The new row, with what it leaves out from the old one: REPLICA IDENTITY FULL sends that whole."""
    if change.old is None or not change.is_old_whole:
        return change.new
    return [old if new is UNCHANGED else new for new, old in zip(change.new, change.old, strict=True)]


def _refused(kind: SourceType, texts: Sequence[Any]) -> list[tuple[int, str]]:
    """Which values do not fit, one by one: this happens to few polls."""
    found = []
    for row, text in enumerate(texts):
        try:
            kind.read([text])
        except SchemaError as error:
            found.append((row, f"{_shown(text)!r}: {error}"))
    return found


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return "(unchanged)" if value is UNCHANGED else bytes(value).decode(errors="replace")


def _without_key(layout: TableLayout, change: Update | Delete) -> SchemaError:
    kind = "an update" if isinstance(change, Update) else "a deletion"
    return SchemaError(
        f"found {kind}, but no key says which row of topic {layout.topic} it changes; expected a primary key, or insertions alone: "
        f"run ALTER TABLE {layout.table} ADD PRIMARY KEY (…)"
    )


def _unchanged(layout: TableLayout, values: Sequence[Any]) -> SchemaError:
    names = [name for name, value in zip(layout.names, values, strict=True) if value is UNCHANGED]
    return SchemaError(
        f"the update leaves out the large value of {', '.join(map(repr, names))}, which it did not change (TOAST); expected whole "
        f"rows: run ALTER TABLE {layout.table} REPLICA IDENTITY FULL, and to go on behind this update set toast.mode=read"
    )
