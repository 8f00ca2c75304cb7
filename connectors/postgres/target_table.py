"""A table that takes the rows of a topic: its columns, the statements that write it, and whether it fits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from streamkit.chunks import one_array
from streamkit.connectors.files.record_lines import json_text
from streamkit.connectors.newest import newest
from streamkit.connectors.postgres.table_name import NAME_BYTES_MAX, quoted_name, quoted_table, table_parts
from streamkit.connectors.postgres.target_column import TargetColumn, type_of
from streamkit.connectors.postgres.target_key import TargetKey, key_of
from streamkit.data_type import is_nested
from streamkit.errors import ConfigError, SchemaError
from streamkit.formats.json_texts import spaced_json_values
from streamkit.log.topic.topic import Topic
from streamkit.log.values.python_values import python_values
from streamkit.names import DELETED, ROW_NUMBER
from streamkit.schema import SchemaColumn

_OF_POSTGRESQL = ("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid")  # columns that each table has
STAGED = "streamkit_staged"  # a temporary table with the rows of a put


@dataclass(frozen=True)
class TargetTable:
    """
    A table for a topic. With `is_upsert` a key has one row, the newest.

    `targets` are the table's columns by name, once they are known, and `key` is the index of the topic's key then.
    """

    name: str
    topic: Topic
    is_upsert: bool
    targets: Mapping[str, TargetColumn] = field(default_factory=dict)
    key: TargetKey = field(default_factory=lambda: TargetKey(frozenset()))

    @property
    def columns(self) -> tuple[SchemaColumn, ...]:
        return tuple(self.topic.schema)

    def check_names(self) -> None:
        """ConfigError for names that PostgreSQL would cut, so that two of them may be one, and for those of its own columns."""
        table_parts(self.name)
        for one in self.columns:
            if len(one.name.encode()) > NAME_BYTES_MAX or one.name in _OF_POSTGRESQL:
                raise ConfigError(
                    f"topic {self.topic.name} has the column {one.name!r}, and PostgreSQL takes names of at most {NAME_BYTES_MAX} bytes, other than "
                    f"{', '.join(_OF_POSTGRESQL)}; rename it with the transform ReplaceField"
                )

    def creation(self) -> str:
        """The statement that makes the table unless it is there."""
        columns = [
            f"{quoted_name(one.name)} {type_of(one)}{' NOT NULL' if one.name in self.topic.key and self.is_upsert else ''}"
            for one in self.columns
        ]
        key = f", PRIMARY KEY ({_names(self.topic.key)})" if self.is_upsert else ""
        return f"CREATE TABLE IF NOT EXISTS {quoted_table(self.name)} ({', '.join(columns)}{key})"

    def fitted(
        self, found: Sequence[TargetColumn], keys: Collection[TargetKey], converts: Callable[[str, str], bool]
    ) -> TargetTable:
        """
        The table with its columns; SchemaError if it cannot take the topic's rows.

        `keys` are the table's unique indexes, `converts` says whether PostgreSQL converts one type to another
        unasked, and back.
        """
        targets = {one.name: one for one in found}
        self._check_names(targets)
        key = key_of(self.topic.key, keys) if self.is_upsert else self.key
        if key is None:
            raise SchemaError(
                f"the table {self.name} may have several rows of a key, and insert.mode=upsert needs one; run: ALTER TABLE "
                f"{quoted_table(self.name)} ADD PRIMARY KEY ({_names(self.topic.key)})"
            )
        for one in self.columns:
            pair = targets[one.name].cast_from(one)
            if pair is not None and not converts(*pair):
                raise SchemaError(
                    f"the column {one.name!r} of the table {self.name} is {targets[one.name].type}, and topic {self.topic.name} has "
                    f"{one.type}, which PostgreSQL does not convert to it and back; expected {type_of(one)}. {self._advice(one)}"
                )
        return replace(self, targets=targets, key=key)

    def _check_names(self, found: Mapping[str, TargetColumn]) -> None:
        missing = [one.name for one in self.columns if one.name not in found]
        if missing:
            raise SchemaError(
                f"the table {self.name} has no column {missing[0]!r}, which topic {self.topic.name} has; the table has {', '.join(found)}. Add "
                f"it (ALTER TABLE {quoted_table(self.name)} ADD COLUMN {quoted_name(missing[0])} {type_of(self.topic.schema[missing[0]])}), "
                "or leave it out with the transform ReplaceField"
            )
        made = [one for one in self.columns if found[one.name].made_by]
        if made:
            raise SchemaError(
                f"the column {made[0].name!r} of the table {self.name} is {found[made[0].name].made_by}, whose values PostgreSQL makes itself, and topic "
                f"{self.topic.name} has a column of that name; leave it out with the transform ReplaceField, or make the column an ordinary one"
            )
        needed = [one.name for one in found.values() if one.is_needed and one.name not in self.topic.schema]
        if needed:
            raise SchemaError(
                f"the table {self.name} needs a value for {needed[0]!r}, and topic {self.topic.name} has no such column"
            )

    def _advice(self, column: SchemaColumn) -> str:
        return (
            f"Run ALTER TABLE {quoted_table(self.name)} ALTER COLUMN {quoted_name(column.name)} TYPE {type_of(column)}, or make another value "
            "of it with the transforms Cast or expr"
        )

    def staged(self, rows: pa.Table) -> pa.Table:
        """Rows as the temporary table takes them: of a key the newest, nested values as JSON, and their numbers if statements ask for them."""
        names = [DELETED]
        if self.differences is not None or self.older is not None:
            rows = rows.append_column(ROW_NUMBER, pa.array(np.arange(rows.num_rows)))
            names.append(ROW_NUMBER)
        kept = newest(rows, self.topic.key) if self.is_upsert else rows  # as the log compares them; `older` does the rest
        columns = {one.name: _as_json(kept[one.name]) if is_nested(one.type) else kept[one.name] for one in self.columns}
        return pa.table({**columns, **{name: kept[name] for name in names}})

    def insertion(self) -> str:
        """The statement that writes staged rows that are no deletions."""
        values = ", ".join(self.targets[one.name].value(one) for one in self.columns)
        insert = (
            f"INSERT INTO {quoted_table(self.name)} ({_names([one.name for one in self.columns])}) SELECT {values} FROM {STAGED} "
            f"WHERE NOT {DELETED}"
        )
        if not self.is_upsert:
            return insert
        updates = ", ".join(f"{quoted_name(name)} = excluded.{quoted_name(name)}" for name in self._updated)
        return f"{insert} ON CONFLICT ({_names(self.topic.key)}) DO {f'UPDATE SET {updates}' if updates else 'NOTHING'}"

    @property
    def writes_each_row(self) -> bool:
        """Whether each staged row is one that `insertion` writes, unless a trigger or a rule says otherwise."""
        return not self.is_upsert or bool(self._updated)

    @property
    def _updated(self) -> Sequence[str]:
        """The columns that an upsert writes to a row that is there: with its key, where that may be spelled in several ways."""
        spelled = [
            one.name for one in self._compared_keys if one.name in self.key.collations or not self.targets[one.name].looks_alike
        ]
        return [*self.topic.values, *spelled]

    @property
    def _compared_keys(self) -> list[SchemaColumn]:
        """The key columns where the table may take different values of the log for the same key."""
        keys = [self.topic.schema[name] for name in self.topic.key] if self.is_upsert else []
        return [one for one in keys if one.name in self.key.collations or not self.targets[one.name].tells_apart(one)]

    @property
    def joined_keys(self) -> list[str]:
        """The key columns where the table may take several keys of the log for one; these lie in different partitions."""
        names = self.key.collations
        return [one.name for one in self._compared_keys if one.name in names or self.targets[one.name].may_join(one)]

    @cached_property
    def older(self) -> str | None:
        """
        The statement that takes staged rows away which a later one replaces, as the table's own index compares keys.

        None where that is as the log compares them. A `uuid`, a number or `citext` is one for several texts, and so is `char(3)`.
        """
        if not self._compared_keys:
            return None
        keys = [self.topic.schema[name] for name in self.topic.key]
        values = ", ".join(f"{self.targets[one.name].compared_value(one)}{self._collation(one)}" for one in keys)
        place = (
            f"SELECT {ROW_NUMBER}, row_number() OVER (PARTITION BY {values} ORDER BY {ROW_NUMBER} DESC) AS place FROM {STAGED}"
        )
        return f"DELETE FROM {STAGED} WHERE {ROW_NUMBER} IN (SELECT {ROW_NUMBER} FROM ({place}) AS placed WHERE place > 1)"

    def may_have_older(self, rows: pa.Table) -> bool:
        """Whether `older` may find rows here that the log's own comparison of keys does not find."""
        keys = self._compared_keys
        return any(one.name in self.key.collations or not self.targets[one.name].is_ordinary(one, rows[one.name]) for one in keys)

    def deletions(self) -> list[str]:
        """The statements that delete the keys of staged deletions: those without a null, for which the index is asked, then those with one."""
        keys = [self.topic.schema[name] for name in self.topic.key]
        found = [self._deletion(keys, "=", DELETED)]
        nulls = [f"{quoted_name(one.name)} IS NULL" for one in keys if one.name in self.key.matched_by_null]
        if nulls:
            found.append(self._deletion(keys, "IS NOT DISTINCT FROM", f"{DELETED} AND ({' OR '.join(nulls)})"))
        return found

    def _deletion(self, keys: Sequence[SchemaColumn], same: str, condition: str) -> str:
        values = ", ".join(f"{self.targets[one.name].compared_value(one)} AS key_{number}" for number, one in enumerate(keys))
        pairs = (
            f"target.{quoted_name(one.name)} {same} staged.key_{number}{self._collation(one)}" for number, one in enumerate(keys)
        )
        staged = f"(SELECT {values} FROM {STAGED} WHERE {condition}) AS staged"
        return f"DELETE FROM {quoted_table(self.name)} AS target USING {staged} WHERE {' AND '.join(pairs)}"

    def _collation(self, column: SchemaColumn) -> str:
        collation = self.key.collations.get(column.name)
        return "" if collation is None else f" COLLATE {collation}"

    def check_nulls(self, rows: pa.Table) -> None:
        """SchemaError for rows with a null in a key column whose unique index allows several rows with null."""
        for name in self.topic.key if self.is_upsert else ():
            if name in self.key.doubled_by_null and rows[name].null_count:
                numbers = tuple(number for number, is_null in enumerate(rows[name].is_null().to_pylist()) if is_null)
                raise SchemaError(
                    f"the key column {name!r} is null, and for the unique index of the table {self.name} each null is another one, so a key would "
                    f"have several rows; expected a value, or UNIQUE NULLS NOT DISTINCT ({_names(self.topic.key)})",
                    numbers,
                )

    @cached_property
    def differences(self) -> str | None:
        """The statement that finds staged values which would be others in the table: column and row number; None where there can be none."""
        found = [
            f"SELECT {place}, {ROW_NUMBER} FROM {STAGED} WHERE {difference}{'' if one.name in self.topic.key else f' AND NOT {DELETED}'}"
            for place, one in enumerate(self.columns)
            if (difference := self.targets[one.name].difference(one)) is not None
        ]
        return " UNION ALL ".join(found) or None

    def refusal(self, rows: pa.Table, found: Sequence[tuple[int, int]]) -> SchemaError:
        """The error for values that `differences` found."""
        reasons: dict[int, str] = {}
        for place, row in sorted(found, key=lambda pair: (pair[1], pair[0])):
            reasons.setdefault(row, self._difference(rows, place, row))
        return SchemaError(next(iter(reasons.values())), tuple(reasons), tuple(reasons.values()))

    def _difference(self, rows: pa.Table, place: int, row: int) -> str:
        column = self.columns[place]
        (value,) = python_values(rows[column.name].slice(row, 1))
        return (
            f"the column {column.name!r} of the table {self.name} is {self.targets[column.name].type}, which would make another value of "
            f"{value if isinstance(value, str) else str(value)!r} ({column.type}). {self._advice(column)}"
        )


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted_name, names))


def _as_json(values: pa.ChunkedArray) -> pa.Array:
    """The text of `json_text` for each value, by the column where that is possible."""
    found = spaced_json_values(one_array(values))
    if found is not None:
        return found
    return pa.array([None if value is None else json_text(value) for value in python_values(values)], pa.string())
