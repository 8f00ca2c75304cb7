"""The newest row of each key, for targets that cannot take a key twice in one statement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.chunks import one_array
from streamkit.expressions.core.groups import one_of_equals
from streamkit.names import ROW_NUMBER


def newest(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in their order; of equal keys one value: -0.0 is 0.0, and every NaN one, as in the topic."""
    rows = with_one_key(rows, key)
    places = [str(place) for place in range(len(key))]  # Arrow reads a name that begins with a dot as a path
    numbered = pa.table([*(rows[name] for name in key), pa.array(np.arange(rows.num_rows))], [*places, ROW_NUMBER])
    last = numbered.group_by(places).aggregate([(ROW_NUMBER, "max")])[f"{ROW_NUMBER}_max"]
    return rows if len(last) == rows.num_rows else rows.take(one_array(last).sort())


def with_one_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows with one value for keys that are equal, so that targets which compare bytes take them for one."""
    for name in key:
        column = rows[name]
        if pa.types.is_floating(column.type):
            one = pa.chunked_array(map(one_of_equals, column.chunks), column.type)
            rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), one)
    return rows
