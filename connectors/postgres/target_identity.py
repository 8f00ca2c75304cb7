"""Which table a sink has filled: one that was dropped and made again has the name, and lacks the rows before the positions."""

from __future__ import annotations

from typing import Any

from streamkit.connectors.postgres.table_name import quoted_table
from streamkit.errors import ConfigError

TARGETS = "streamkit_targets"
_CREATION = (
    f"CREATE TABLE IF NOT EXISTS {TARGETS} (connector text, topic text, relation oid NOT NULL, PRIMARY KEY (connector, topic))"
)
_KNOWN = f"""
SELECT t.relation::bigint, to_regclass($1)::oid::bigint FROM {TARGETS} t WHERE t.connector = $2 AND t.topic = $3
AND EXISTS (SELECT 1 FROM streamkit_positions p WHERE p.connector = t.connector AND p.topic = t.topic AND p.next_offset > 0)
"""
_REMEMBERED = f"""
INSERT INTO {TARGETS} VALUES ($1, $2, to_regclass($3)::oid)
ON CONFLICT (connector, topic) DO UPDATE SET relation = excluded.relation WHERE {TARGETS}.relation <> excluded.relation
"""


def declare_targets(cursor: Any) -> None:
    """Create the table that remembers the targets; the caller holds the lock of `streamkit_positions`."""
    cursor.execute(_CREATION)


def check_target(cursor: Any, connector: str, topic: str, table: str) -> None:
    """ConfigError if the connector has written rows of the topic to another table than the one that is there now, or to be made."""
    cursor.execute(_KNOWN, (quoted_table(table), connector, topic))
    known = cursor.fetchone()
    if known is None or known[0] == known[1]:
        return
    now = "is not there any more" if known[1] is None else f"has the oid {known[1]}"
    name = connector.replace("'", "''")
    raise ConfigError(
        f"connector {connector}: rows of topic {topic} went to the table with the oid {known[0]}, and the table {table} {now}: it was dropped, "
        "dropped and made again, or is another one by the setting `table`; the rows from now on would be only a part of all rows. To write all "
        f"again: DELETE FROM streamkit_positions WHERE connector = '{name}', then streamkit connect offsets reset {connector}. "
        f"To go on behind the positions, where the table has the rows: DELETE FROM {TARGETS} WHERE connector = '{name}'"
    )


def remember_target(cursor: Any, connector: str, topic: str, table: str) -> None:
    """Note the table that takes the topic's rows from now on."""
    cursor.execute(_REMEMBERED, (connector, topic, quoted_table(table)))
