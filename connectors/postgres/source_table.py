"""Tables as sources: where they are in PostgreSQL's catalog, their columns, what identifies a row, and the publication that has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamkit.connectors.postgres.own_name import mark_of
from streamkit.connectors.postgres.pgoutput import Relation, RelationColumn
from streamkit.connectors.postgres.source_type import DescribedType
from streamkit.connectors.postgres.table_name import is_pattern, likes_of, quoted_name, quoted_table, spelled
from streamkit.connectors.reserved_columns import reserved_columns
from streamkit.errors import ConfigError, SchemaError

FIRST_OF_USERS = 16384  # the oid; tables with smaller ones are made with the server
_TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relreplident::text, c.relpersistence = 'p'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_FITTING = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition AND c.relname LIKE %(table)s
AND (CASE WHEN %(schema)s::text IS NULL THEN n.nspname = current_schema() ELSE n.nspname LIKE %(schema)s END)
AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.oid <> ALL (%(others)s::oid[]) ORDER BY 1, 2
"""
_COLUMNS = """
SELECT a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, -1), a.attnum, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum
"""
_KEY = """
SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = %s AND (CASE WHEN %s = 'i' THEN i.indisreplident ELSE i.indisprimary END) AND k.place <= i.indnkeyatts ORDER BY k.place
"""


@dataclass(frozen=True)
class SourceTable:
    """
    A table now.

    `written` is its name in the setting `tables`. `key` identifies a row: the primary key, or the index that is the replica
    identity, in the order of the index; () if there is neither. `declared` has the number and type of each column.
    """

    written: str
    oid: int
    schema: str
    name: str
    is_partitioned: bool
    identity: str
    columns: tuple[RelationColumn, ...]
    type_names: tuple[str, ...]
    key: tuple[str, ...]
    declared: Mapping[str, tuple[int, str]]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def sql_name(self) -> str:
        """As it stands behind FROM: a table without those that inherit from it, a partitioned one with its partitions."""
        name = f"{quoted_name(self.schema)}.{quoted_name(self.name)}"
        return name if self.is_partitioned else f"ONLY {name}"

    def type_name(self, column: str) -> str:
        return self.type_names[self.names.index(column)]


def read_table(connection: Any, written: str) -> SourceTable:
    """The table of that name; ConfigError if there is none that can be read."""
    found = connection.execute(_TABLE, (quoted_table(written),)).fetchone()
    if found is None:
        raise ConfigError(
            f"there is no table {written}; expected one of {', '.join(_known(connection)) or 'none: there are no tables'}"
        )
    oid, schema, name, kind, identity, is_logged = found
    if kind not in ("r", "p"):
        raise ConfigError(f"{written} is no table, and PostgreSQL does not publish what changes in it; expected a table")
    if oid < FIRST_OF_USERS:
        raise ConfigError(
            f"{written} is a table of PostgreSQL's own, and it does not publish what changes there; expected another table"
        )
    if not is_logged:
        raise ConfigError(
            f"the table {written} is unlogged or temporary, and PostgreSQL does not write to its log what changes in it; expected ALTER TABLE "
            f"{quoted_table(written)} SET LOGGED"
        )
    columns = connection.execute(_COLUMNS, (oid,)).fetchall()
    if not columns:
        raise ConfigError(f"the table {written} has no columns, so it has no rows for a topic; expected one at least")
    key = tuple(row[0] for row in connection.execute(_KEY, (oid, identity)))
    return SourceTable(
        written, oid, schema, name, kind == "p", identity,
        tuple(RelationColumn(column, type_oid, modifier, column in key) for column, type_oid, modifier, *_ in columns),
        tuple(row[3] for row in columns), key, {row[0]: (row[4], row[5]) for row in columns},
    )  # fmt: skip


def oid_now(connection: Any, table: SourceTable) -> int | None:
    """What the name of the table stands for now, whatever the transaction sees of rows."""
    found = connection.execute("SELECT to_regclass(%s)::oid::bigint", (quoted_table(table.written),)).fetchone()[0]
    return None if found is None else int(found)


def children_of(connection: Any, tables: Iterable[SourceTable]) -> list[tuple[str, str]]:
    """The tables that inherit from a table, each with that one; partitions are no such children."""
    written = {table.oid: table.written for table in tables if not table.is_partitioned}
    rows = connection.execute(
        "SELECT inhparent::bigint, inhrelid::regclass::text FROM pg_inherits WHERE inhparent = ANY(%s::oid[]) ORDER BY 1, 2",
        (list(written),),
    ).fetchall()
    return [(written[parent], child) for parent, child in rows]


def written_tables(connection: Any, names: Sequence[str]) -> list[str]:
    """The names, with those of the tables that fit a pattern in its place; ConfigError for one that none fits."""
    found: dict[str, None] = {}
    plain = [quoted_table(name) for name in names if not is_pattern(name)]
    others = connection.execute(
        "SELECT coalesce(array_agg(to_regclass(one)::oid), '{}') FROM unnest(%s::text[]) one", (plain,)
    ).fetchone()[0]
    for name in names:
        if not is_pattern(name):
            found[name] = None
            continue
        schema_like, table_like = likes_of(name)
        asked = {"schema": schema_like, "table": table_like, "others": [oid for oid in others if oid is not None]}
        rows = connection.execute(_FITTING, asked).fetchall()
        if not rows:
            raise ConfigError(f"no table fits {name} in `tables`; expected something like sales.* for the tables of a schema")
        found |= dict.fromkeys(spelled(None if schema_like is None else schema, table) for schema, table in rows)
    return list(found)


def key_now(table: SourceTable) -> tuple[str, ...]:
    """The key columns in the order of the table's columns, as messages have them."""
    return tuple(name for name in table.names if name in table.key)


def key_then(table: SourceTable, relation: Relation) -> tuple[str, ...]:
    """The key columns when the changes were made; under REPLICA IDENTITY FULL a message marks all columns, and those of now hold."""
    if relation.identity in "di":
        return tuple(column.name for column in relation.columns if column.is_identity)
    return tuple(column.name for column in relation.columns if column.name in table.key)


def check_row_security(connection: Any, tables: Iterable[SourceTable]) -> None:
    """ConfigError if row level security hides rows of a table: a snapshot would lack these rows, and their changes would come."""
    for table in tables:
        if connection.execute("SELECT row_security_active(%s::oid)", (table.oid,)).fetchone()[0]:
            raise ConfigError(
                f"row level security hides rows of table {table.written} from {connection.info.user}, and its changes come whole; expected a "
                "user that sees all rows: run ALTER ROLE … BYPASSRLS, or use the table's owner without FORCE ROW LEVEL SECURITY"
            )


def check_columns(tables: Iterable[SourceTable]) -> None:
    """ConfigError for columns whose names are StreamKit's own: a topic has its own columns of these names."""
    for table in tables:
        said = reserved_columns(f"the table {table.written}", table.names)
        if said:
            raise ConfigError(said)


def check_columns_of_relation(relation: Relation) -> None:
    """SchemaError for such columns in a change."""
    said = reserved_columns(f"the table {relation.name}", [column.name for column in relation.columns])
    if said:
        raise SchemaError(said)


def read_type(connection: Any, oid: int) -> DescribedType | None:
    """A type that is not built in, or an array; int2vector and oidvector are texts, as their items have blanks between and begin at 0."""
    found = connection.execute(
        "SELECT typbasetype, typtypmod, CASE WHEN typcategory = 'A' AND oid NOT IN (22, 30) THEN typelem ELSE 0 END FROM pg_type WHERE oid = %s",
        (oid,),
    ).fetchone()
    return DescribedType(*found) if found else None


def publish(connection: Any, name: str, tables: Sequence[SourceTable], *, maker: str, is_own: bool) -> None:
    """
    Create the publication, or add tables to it if it is the connector's own; else ConfigError says what it lacks.

    Its own is one that the connector `maker` has made, as a comment in PostgreSQL says, and one that `is_own` by its name.
    A publication that leaves out rows, columns or operations would lose changes silently, and is refused.
    """
    listed = ", ".join(table.sql_name for table in tables)
    found = connection.execute(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot, obj_description(oid, 'pg_publication') "
        "FROM pg_publication WHERE pubname = %s",
        (name,),
    ).fetchone()
    mark = mark_of(maker)
    if found is None:
        with connection.transaction():
            connection.execute(
                f"CREATE PUBLICATION {quoted_name(name)} FOR TABLE {listed} WITH (publish_via_partition_root = true)"
            )
            connection.execute(f"COMMENT ON PUBLICATION {quoted_name(name)} IS '{mark}'")
        return
    is_whole, via_root, said = found
    if not is_whole:
        raise ConfigError(
            f"the publication {name} leaves out operations, which would be lost; run: ALTER PUBLICATION {quoted_name(name)} "
            "SET (publish = 'insert, update, delete, truncate')"
        )
    if not via_root and any(table.is_partitioned for table in tables):
        raise ConfigError(
            f"the publication {name} names partitions in place of their table; run: ALTER PUBLICATION {quoted_name(name)} "
            "SET (publish_via_partition_root = true)"
        )
    _refuse_filters(connection, name)
    published = set(connection.execute("SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (name,)))
    missing = [table for table in tables if (table.schema, table.name) not in published]
    if missing:
        statement = f"ALTER PUBLICATION {quoted_name(name)} ADD TABLE {', '.join(table.sql_name for table in missing)}"
        if not is_own and said != mark:
            raise ConfigError(f"the publication {name} has no table {missing[0].written}; run: {statement}")
        connection.execute(statement)


def _refuse_filters(connection: Any, name: str) -> None:
    """Before PostgreSQL 15 there were none."""
    if connection.info.server_version < 150000:
        return
    found = connection.execute(
        "SELECT r.prrelid::regclass::text FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid "
        "WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)",
        (name,),
    ).fetchone()
    if found:
        raise ConfigError(
            f"the publication {name} has only some rows or columns of {found[0]}; expected whole tables: leave out columns with "
            "the transform ReplaceField, and rows with Filter"
        )


def _known(connection: Any) -> list[str]:
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace ORDER BY 1 LIMIT 20"
    )
    return [row[0] for row in rows]
