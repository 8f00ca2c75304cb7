"""Rows as texts for people: what a cell of a table shows, in a widget as in HTML."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from streamkit.connectors.files.far_times import printed_rows
from streamkit.connectors.files.record_lines import json_text, plain
from streamkit.formats.format import Format
from streamkit.formats.json_numbers import WrittenNumber
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP

TEXT_LENGTH_MAX = 200
TITLES = {TIMESTAMP: "event time", PARTITION: "partition", OFFSET: "offset", DELETED: "deleted"}
DIGITS = 3  # behind the point; what is smaller is written in full


def columns_of(table: pa.Table) -> list[dict[str, Any]]:
    """The titles of the columns, and which of them hold numbers; those of the record stand first, and that it is a deletion last."""
    return [{"title": TITLES.get(name, name), "isNumber": _is_number(table.schema.field(name).type)} for name in _names(table)]


def texts_of(table: pa.Table, format: Format | None = None) -> list[list[str]]:
    """The cells of each row, by the order of `columns_of`; keys and values of an opaque topic are decoded by its format."""
    names = _names(table)
    return [[cell_of(row[name]) for name in names] for row in printed_rows(table, format)]


def _names(table: pa.Table) -> list[str]:
    own = [name for name in (PARTITION, OFFSET, TIMESTAMP) if name in table.column_names]
    others = [name for name in table.column_names if name not in (*own, DELETED, HEADERS)]
    return [*own, *others, *([DELETED] if DELETED in table.column_names else [])]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def cell_of(value: Any) -> str:
    """A value as a short text: null is empty, times are in UTC, and long texts are cut."""
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(" ", "auto" if value.microsecond else "seconds")
        text = text.rstrip("0") if value.microsecond else text
    elif isinstance(value, float) and not isinstance(value, WrittenNumber):
        text = f"{value:.{DIGITS}f}".rstrip("0").rstrip(".") if value == 0 or 0.1**DIGITS <= abs(value) < 1e15 else repr(value)
    else:
        text = json_text(value) if isinstance(value, dict | list | tuple) else str(plain(value))
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 1]}…"
