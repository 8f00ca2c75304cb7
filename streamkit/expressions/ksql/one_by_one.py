"""Functions of Python that compute a row at a time: each combination of values is computed once, and rows that fail are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.operation import Datum

_FAILED = object()


def one_by_one(function: Callable[..., Any], type: pa.DataType, *values: Datum, takes_null: bool = False) -> Datum:
    """
    What a function gives for the values of each row; null where one is null, unless it takes null.

    A row of which it raises ValueError fails. The function must depend on its arguments alone.
    """
    counts = [len(value) for value in values if isinstance(value, pa.Array)]
    rows = counts[0] if counts else 1
    columns = [value.to_pylist() if isinstance(value, pa.Array) else [value.as_py()] * rows for value in values]
    known: dict[Any, Any] = {}
    reason = ""
    found: list[Any] = []
    for row in zip(*columns):
        if not takes_null and None in row:
            found.append(None)
            continue
        if row not in known:
            try:
                known[row] = function(*row)
            except ValueError as error:
                known[row], reason = _FAILED, reason or str(error)
        found.append(known[row])
    check_rows(np.array([one is _FAILED for one in found], bool), reason)
    result = pa.array(found, type)
    return result if counts else result[0]
