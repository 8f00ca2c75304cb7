"""The unique indexes by which a table knows the rows of a key, and what is one value there: null, and texts that a collation takes for one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamkit.connectors.postgres.table_name import quoted_table

# Versions of PostgreSQL before 15 have no NULLS NOT DISTINCT, those before 12 no collations for which several texts are one.
_INDEXES = """
SELECT (SELECT json_build_object('names', json_agg(a.attname), 'nullable', json_agg(a.attname) FILTER (WHERE NOT a.attnotnull),
        'takes_one_null', (to_jsonb(i) ->> 'indnullsnotdistinct')::boolean,
        'collations', json_object_agg(a.attname, quote_ident(n.nspname) || '.' || quote_ident(c.collname))
            FILTER (WHERE NOT (to_jsonb(c) ->> 'collisdeterministic')::boolean))::text
    FROM unnest(i.indkey::smallint[], i.indcollation::oid[]) WITH ORDINALITY AS k(attnum, collation_oid, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    LEFT JOIN pg_collation c ON c.oid = k.collation_oid LEFT JOIN pg_namespace n ON n.oid = c.collnamespace
    WHERE k.place <= i.indnkeyatts)
FROM pg_index i WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
"""


@dataclass(frozen=True)
class TargetKey:
    """
    Columns by which a row is one.

    `nullable` are those that may be null; several rows may have a null there unless the index `takes_one_null`. `collations` are
    those for which several texts are one, by column.
    """

    names: frozenset[str]
    nullable: frozenset[str] = frozenset()
    takes_one_null: bool = False
    collations: Mapping[str, str] = field(default_factory=dict)

    @property
    def doubled_by_null(self) -> frozenset[str]:
        """The columns in which a null makes a row another one each time."""
        return frozenset() if self.takes_one_null else self.nullable

    @property
    def matched_by_null(self) -> frozenset[str]:
        """The columns in which null is a value like others."""
        return self.nullable if self.takes_one_null else frozenset()


def read_keys(cursor: Any, table: str) -> list[TargetKey]:
    """The unique indexes of a table by which `ON CONFLICT` finds a row."""
    cursor.execute(_INDEXES, (quoted_table(table),))
    found = [json.loads(text) for (text,) in cursor.fetchall()]
    return [
        TargetKey(frozenset(one["names"]), frozenset(one["nullable"] or ()), bool(one["takes_one_null"]), one["collations"] or {})
        for one in found
    ]


def key_of(columns: Iterable[str], keys: Iterable[TargetKey]) -> TargetKey | None:
    """The index of exactly these columns; of several one that says what all of them together take for one row."""
    fitting = [one for one in keys if one.names == frozenset(columns)]
    if not fitting:
        return None
    collations = {name: collation for one in fitting for name, collation in one.collations.items()}
    return TargetKey(fitting[0].names, fitting[0].nullable, any(one.takes_one_null for one in fitting), collations)
