"""
What the tables of a position are beyond their names, and whether the publication has had them all the time.

A table that is dropped and made again, or swapped by renames, has the name and another oid. A publication that a table has
left for a while says nothing of the changes between, and neither does one that was altered for a while; PostgreSQL knows
such things by the oid and by the last transaction (xmin) of its own rows about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamkit.connectors.postgres.table_name import quoted_table

_EXPLICIT = """(
    SELECT string_agg(r.oid::text || '.' || r.xmin::text, ',' ORDER BY r.oid) FROM pg_publication_rel r
    WHERE r.prpubid = p.oid AND r.prrelid IN (SELECT n.relation UNION SELECT relid::oid FROM pg_partition_ancestors(n.relation))
)"""
_OF_SCHEMA = """(
    SELECT string_agg(s.oid::text, ',' ORDER BY s.oid) FROM pg_publication_namespace s JOIN pg_class c ON c.relnamespace = s.pnnspid
    WHERE s.pnpubid = p.oid AND c.oid = n.relation
)"""
_ALL = "CASE WHEN p.puballtables THEN 'all' END"
_QUERY = """
SELECT n.place, n.relation, p.oid::text || '.' || p.xmin::text, concat_ws(' ', {membership})
FROM (SELECT place, to_regclass(name)::oid AS relation FROM unnest(%s::text[]) WITH ORDINALITY AS t(name, place)) AS n
LEFT JOIN pg_publication p ON p.pubname = %s ORDER BY n.place
"""
_SCHEMAS_SINCE = 150000  # publications of schemas, by the version of the server


@dataclass(frozen=True)
class TableIdentity:
    """A table by its oid (None if there is none of the name), what the publication has it by (empty if it has it not), and its key."""

    oid: int | None
    membership: str
    key: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"oid": self.oid, "membership": self.membership, "key": list(self.key)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TableIdentity:
        return cls(found["oid"], found["membership"], tuple(found["key"]))


@dataclass(frozen=True)
class Identities:
    """The publication (empty if there is none), and tables by their written names."""

    publication: str
    tables: Mapping[str, TableIdentity]

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
    query = _QUERY.format(membership=", ".join([_ALL, _EXPLICIT, *([_OF_SCHEMA] if has_schemas else [])]))
    rows = connection.execute(query, ([quoted_table(name) for name in keys], publication)).fetchall()
    tables = {
        name: TableIdentity(oid, membership, tuple(keys[name])) for name, (_, oid, _, membership) in zip(keys, rows, strict=True)
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
    return found
