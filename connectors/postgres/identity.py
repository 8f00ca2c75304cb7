"""
What the tables of a position are beyond their names, and whether the publication has had them all the time.

A table that is dropped and made again, or swapped by renames, has the name and another oid. A publication that a table has
left for a while says nothing of the changes between, and neither does one that was altered for a while; PostgreSQL knows
such things by the oid and by the last transaction (xmin) of its own rows about them. Columns are known in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamkit.connectors.postgres.source_columns import SourceColumns, another_column
from streamkit.connectors.postgres.table_name import quoted_table

_EXPLICIT = """(
    SELECT string_agg(r.oid::text || '.' || r.xmin::text, ',' ORDER BY r.oid) FROM pg_publication_rel r
    WHERE r.prpubid = p.oid AND r.prrelid IN (SELECT n.relation UNION SELECT relid::oid FROM pg_partition_ancestors(n.relation))
)"""
_OF_SCHEMA = """(
    SELECT string_agg(s.oid::text, ',' ORDER BY s.oid) FROM pg_publication_namespace s JOIN pg_class c ON c.relnamespace = s.pnnspid
    WHERE s.pnpubid = p.oid AND c.oid = n.relation
)"""
_COLUMNS = """(
    SELECT json_object_agg(a.attname, json_build_array(a.attnum, format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum) FROM pg_attribute a
    WHERE a.attrelid = n.relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
)"""
_ALL = "CASE WHEN p.puballtables THEN 'all' END"
_QUERY = """
SELECT n.place, n.relation, p.oid::text || '.' || p.xmin::text, concat_ws(' ', {membership}), {columns}
FROM (SELECT place, to_regclass(name)::oid AS relation FROM unnest(%s::text[]) WITH ORDINALITY AS t(name, place)) AS n
LEFT JOIN pg_publication p ON p.pubname = %s ORDER BY n.place
"""
_SCHEMAS_SINCE = 150000  # publications of schemas, by the version of the server


@dataclass(frozen=True)
class TableIdentity:
    """
    A table by its oid (None if there is none of the name), what the publication has it by (empty if it has it not), its key and columns.

    The columns are None in a position of an earlier version, which does not say.
    """

    oid: int | None
    membership: str
    key: tuple[str, ...] = ()
    columns: SourceColumns | None = None

    def to_json(self) -> dict[str, Any]:
        columns = None if self.columns is None else self.columns.to_json()
        return {"oid": self.oid, "membership": self.membership, "key": list(self.key), "columns": columns}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TableIdentity:
        columns = found.get("columns")
        known = None if columns is None else SourceColumns.from_json(columns)
        return cls(found["oid"], found["membership"], tuple(found["key"]), known)


@dataclass(frozen=True)
class Identities:
    """The publication (empty if there is none), and tables by their written names."""

    publication: str
    tables: Mapping[str, TableIdentity]

    def begun(self) -> Identities:
        """The same where all columns that are there now are in the snapshot before the first message."""
        return self.with_columns({name: one.columns.read() for name, one in self.tables.items() if one.columns is not None})

    def with_columns(self, columns: Mapping[str, SourceColumns]) -> Identities:
        """The same with other columns, by table."""
        tables = {name: replace(one, columns=columns.get(name, one.columns)) for name, one in self.tables.items()}
        return replace(self, tables=tables)

    def published_as(self, now: Identities) -> Identities:
        """The same with the publication, and the tables' places in it, as they are now, where there were none."""
        tables = {
            name: replace(one, membership=one.membership or now.tables[name].membership) for name, one in self.tables.items()
        }
        return Identities(self.publication or now.publication, tables)

    def to_json(self) -> dict[str, Any]:
        return {"publication": self.publication, "relations": {name: one.to_json() for name, one in self.tables.items()}}

    @classmethod
    def of_position(cls, position: Mapping[str, Any]) -> Identities | None:
        """Those of a position; None of one of an earlier version, which does not say."""
        if "relations" not in position:
            return None
        tables = {name: TableIdentity.from_json(one) for name, one in position["relations"].items()}
        return cls(position["publication"], tables)


def read_identities(connection: Any, publication: str, keys: Mapping[str, Sequence[str]]) -> Identities:
    """What the tables are now, by their written names; their keys are known."""
    has_schemas = connection.info.server_version >= _SCHEMAS_SINCE
    query = _QUERY.format(membership=", ".join([_ALL, _EXPLICIT, *([_OF_SCHEMA] if has_schemas else [])]), columns=_COLUMNS)
    rows = connection.execute(query, ([quoted_table(name) for name in keys], publication)).fetchall()
    tables = {
        name: TableIdentity(
            oid,
            membership,
            tuple(keys[name]),
            SourceColumns({name: (number, type) for name, (number, type) in (columns or {}).items()}),
        )
        for name, (_, oid, _, membership, columns) in zip(keys, rows, strict=True)
    }
    return Identities(rows[0][2] or "" if rows else "", tables)


def is_another_publication(before: Identities, now: Identities) -> bool:
    """Whether the publication itself is another one, without which the log cannot be read from where it was."""
    return before.publication.partition(".")[0] != now.publication.partition(".")[0]


def what_changed(publication: str, before: Identities, now: Identities) -> dict[str, str]:
    """What happened to the known tables whose changes were lost, by the name of the table."""
    found: dict[str, str] = {}
    for name, was in before.tables.items():
        one = now.tables.get(name)
        if one is None:
            continue  # it is not asked for any more
        if one.oid is None:
            found[name] = f"there is no table {name} any more: it was dropped or renamed"
        elif one.oid != was.oid:
            found[name] = (
                f"the table {name} was dropped and made again, or swapped by renames: its oid was {was.oid}, and is {one.oid}"
            )
        elif not now.publication:
            found[name] = f"there is no publication {publication} any more, which had the table {name}"
        elif before.publication != now.publication:
            found[name] = f"the publication {publication}, which has the table {name}, was altered, or dropped and made again"
        elif not one.membership:
            found[name] = f"the publication {publication} has no table {name} any more"
        elif one.membership != was.membership:
            found[name] = (
                f"the table {name} was out of the publication {publication} for a while and made again part of it, or was altered there"
            )
        elif was.columns is not None and one.columns is not None:
            other = another_column(name, was.columns, one.columns)
            found |= {} if other is None else {name: other}
    return found
