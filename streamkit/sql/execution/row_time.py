"""The event time of a row, as statements call it beside the columns of a stream or table."""

from __future__ import annotations

from collections.abc import Collection

from streamkit.names import TIMESTAMP, spellings

_ROWTIME = "ROWTIME"


def is_row_time(name: str, own: Collection[str], *, is_ksql: bool) -> bool:
    """
    Whether a name is the event time: `_timestamp`, which no column is called, or ROWTIME where no column is called so.

    In the ksql dialect names in capitals are those without quotes, so there ROWTIME is the event time beside a column `rowtime`, too.
    """
    if name.upper() != _ROWTIME:
        return name.lower() == TIMESTAMP
    return name not in own if is_ksql and name == _ROWTIME else not spellings(name, own)
