"""Which rows of a batch do not fit, when one does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamkit.errors import SchemaError


def refused_rows(convert: Callable[[Any], Any], data: Any, count: int) -> tuple[int, ...]:
    """
    The first `count` rows for which `convert` raises SchemaError, by halving what does not fit.

    `data` is a RecordBatch, Table, DataFrame or list; a part of it is converted again some log2(rows) times per row found.
    """
    found: list[int] = []

    def visit(start: int, stop: int) -> None:
        if len(found) == count or _fits(convert, _part(data, start, stop)):
            return
        if stop - start == 1:
            found.append(start)
            return
        middle = (start + stop) // 2
        visit(start, middle)
        visit(middle, stop)

    if len(data):
        visit(0, len(data))
    return tuple(found)


def _fits(convert: Callable[[Any], Any], part: Any) -> bool:
    try:
        convert(part)
    except SchemaError:
        return False
    return True


def _part(data: Any, start: int, stop: int) -> Any:
    if hasattr(data, "iloc"):
        return data.iloc[start:stop]
    return data[start:stop]
