"""The newest row of each key, for targets that cannot take a key twice in one statement."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.chunks import one_array
from streamkit.names import ROW_NUMBER


def newest(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in their order."""
    numbered = rows.select(list(key)).append_column(ROW_NUMBER, pa.array(range(rows.num_rows)))
    last = numbered.group_by(list(key)).aggregate([(ROW_NUMBER, "max")])[f"{ROW_NUMBER}_max"]
    return rows if len(last) == rows.num_rows else rows.take(one_array(last).sort())
