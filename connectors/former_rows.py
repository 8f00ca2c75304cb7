"""Rows that a topic has of a table that is not there any more: deletions of them, before those of the new one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.log.log import Log
from streamkit.names import DELETED


def deletions_of_all(log: Log, name: str) -> pa.Table:
    """A deletion of each key that a topic has; no rows of a topic without a key, where nothing can be deleted."""
    key = log.topic(name).key
    if not key:
        return pa.table({})
    places = [str(place) for place in range(len(key))]  # Arrow reads a name that begins with a dot as a path
    rows = log.read(name, columns=[*key, DELETED]).select([*key, DELETED]).rename_columns([*places, DELETED])
    newest = rows.group_by(places, use_threads=False).aggregate([(DELETED, "last")])  # rows of a key are in their order
    kept = newest.filter(pc.invert(newest[f"{DELETED}_last"].fill_null(False))).select(places).rename_columns(list(key))
    return kept.append_column(DELETED, pa.array([True] * kept.num_rows, pa.bool_()))
