"""What a position of PostgresSource looks like: a place in the log of PostgreSQL, and what was read of which tables before it."""

from __future__ import annotations

from streamkit.connectors.position_form import (
    TEXT,
    WHOLE,
    Fits,
    PositionField,
    PositionForm,
    is_text,
    is_whole,
    list_of,
    map_of,
    or_none,
    record_of,
    tuple_of,
)
from streamkit.connectors.postgres.pgoutput import is_lsn

_KEY = or_none(list_of(is_text))  # of a row, as PostgreSQL prints it
_COLUMNS = record_of(
    {"there": map_of(tuple_of(is_whole, is_text)), "gone": map_of(is_whole), "streamed": or_none(list_of(is_text))}
)
_RELATION: dict[str, Fits] = {"oid": or_none(is_whole), "membership": is_text, "key": list_of(is_text)}

POSITION_OF_SLOT = PositionForm(
    {
        "lsn": PositionField("a place in PostgreSQL's log, such as '0/16B3748'", is_lsn),
        "index": WHOLE,
        "system": TEXT,
        "tables": PositionField("a list of tables", list_of(is_text)),
        "snapshot": PositionField("an object with 'table' and 'after'", record_of({"table": or_none(is_text), "after": _KEY})),
        "coverages": PositionField(
            "a list of objects with 'table', 'after' and 'lsn'",
            list_of(record_of({"table": is_text, "after": _KEY, "lsn": is_lsn})),
        ),
    },
    {
        "lsn": "0/16B3748",
        "index": 0,
        "system": "7300000000000000000",
        "tables": ["people"],
        "snapshot": {"table": None, "after": None},
        "coverages": [],
    },
    {  # which positions of earlier versions do not have
        "publication": TEXT,
        "relations": PositionField(
            "an object with the oid, the membership, the key and the columns of each table",
            map_of(record_of(_RELATION, {"columns": or_none(_COLUMNS)})),
        ),
    },
)
