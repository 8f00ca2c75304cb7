"""Rows of a store that are asked for by texts: the row of a key, the rows of a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.files.far_times import time_text
from streamkit.errors import ConfigError
from streamkit.names import WINDOW_START
from streamkit.plan.duration import duration_text
from streamkit.query.moment import parse_moment
from streamkit.recast import recast
from streamkit.schema import SchemaColumn
from streamkit.state.view import StoreView


def rows_of_key(view: StoreView, key: Sequence[str], window: str | None) -> pa.Table:
    """The row of a key, or of each of its windows; without rows if there is none. ConfigError for a key that does not fit."""
    values = _typed_key(view, key)
    if window is None and view.store.window_size_ms is not None:
        return view.windows(*values.values()) if len(values) == len(view.key) else _all_windows(view, values)
    return view.find(**values, window_start=_moment(window))


@contextmanager
def view_as_of(view: StoreView, text: str | None) -> Iterator[StoreView]:
    """The store as it was behind an epoch, or at a time of the host, which a text names; as it is now without one."""
    if text is None:
        yield view
        return
    is_epoch = text.isdecimal() and text.isascii()
    with view.at_epoch(int(text) if is_epoch else None, time=None if is_epoch else parse_moment(text)) as past:
        yield past


def changes_of_key(view: StoreView, key: Sequence[str]) -> pa.Table:
    """The changes of a key's rows, oldest first. ConfigError for a key that does not fit."""
    values = _typed_key(view, key)
    return view.history(**{name: value for name, value in values.items() if name in view.key.names})


def absence_of_key(view: StoreView, key: Sequence[str], window: str | None) -> str:
    """Why there is no row of a key: there never was, or retention has deleted it."""
    expiry = view.expiry()
    missing = (
        f"the store {view.store.name!r} has no row of the key {', '.join(key)}{f' in the window from {window}' if window else ''}"
    )
    if expiry is None:
        return missing
    horizon = np.datetime64(expiry.stream_time_ms - expiry.retention_ms, "ms")
    retention = f"retention is {duration_text(expiry.retention_ms)} and stream time {time_text(np.datetime64(expiry.stream_time_ms, 'ms'), 'Z')}"
    if window is not None and expiry.has_taken(parse_moment(window)):
        return f"the window from {window} of the store {view.store.name!r} has expired: {retention}"
    return missing if window else f"{missing}; windows that start up to {time_text(horizon, 'Z')} have expired: {retention}"


@dataclass(frozen=True)
class StoreSelection:
    """
    Some rows of a store, in its order, by texts: those whose first key columns have the values of `prefix`, and lie in a range.

    `first` and `before` bound the starts of windows, of a store without windows its first key column; `starts_with` is how the key column
    behind the prefix begins.
    """

    prefix: tuple[str, ...] = ()
    starts_with: str | None = None
    first: str | None = None
    before: str | None = None

    def rows(self, view: StoreView, limit: int | None) -> pa.Table:
        """The first rows; ConfigError for bounds that do not go together, or that are not of the key's types."""
        values = _typed_first(view, self.prefix)
        if self.first is None and self.before is None:
            has_prefix = values or self.starts_with is not None
            return view.prefix(*values, starts_with=self.starts_with, limit=limit) if has_prefix else view.range(limit=limit)
        if self.starts_with is not None or (values and not view.has_windows):
            raise ConfigError(
                "a range goes without the beginning of a text, and with a prefix only of windows; expected one of them"
            )
        if view.has_windows:
            return view.windows(*values, start=_moment(self.first), end=_moment(self.before), limit=limit)
        bounds = (None if bound is None else _typed_first(view, [bound])[0] for bound in (self.first, self.before))
        return view.range(*bounds, limit=limit)


def _typed_key(view: StoreView, key: Sequence[str]) -> dict[str, Any]:
    has_all = len(key) == len(view.store.key) and WINDOW_START not in view.store.key.names
    columns = list(view.store.key if has_all else view.key)
    if len(key) != len(columns):
        raise ConfigError(
            f"found {len(key)} values of a key; expected {len(columns)}: {', '.join(column.name for column in columns)}"
        )
    return {column.name: _typed(text, column) for text, column in zip(key, columns)}


def _typed_first(view: StoreView, values: Sequence[str]) -> list[Any]:
    """The values of the first key columns."""
    columns = list(view.key)
    if len(values) > len(columns):
        raise ConfigError(
            f"found {len(values)} values of a key; expected {len(columns)} at most: {', '.join(column.name for column in columns)}"
        )
    return [_typed(text, column) for text, column in zip(values, columns, strict=False)]


def _moment(text: str | None) -> Any:
    """A moment as views take it: a text that has a fraction stays one, which may be finer than a datetime."""
    moment = None if text is None else parse_moment(text)
    return text if text is not None and ("." in text or "," in text) else moment


def _typed(text: str, column: SchemaColumn) -> Any:
    try:
        return recast(pa.array([text]), column.arrow.type)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigError(f"the key column {column.name} is {column.type}; found {text!r}") from None


def _all_windows(view: StoreView, values: dict[str, Any]) -> pa.Table:
    """The windows of a key that has more columns than users declared, as where a store retains duplicates."""
    own = [name for name in values if name not in view.key.names]
    table = view.windows(*(values[name] for name in view.key.names))
    for name in own:
        table = table.filter(pc.equal(table[name], pa.scalar(values[name], table.schema.field(name).type)))
    return table
