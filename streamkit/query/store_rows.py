"""Rows of a store that are asked for by texts: the row of a key, the rows of a range."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
from streamkit.query.key_text import first_values, key_value
from streamkit.query.moment import parse_moment
from streamkit.schema import SchemaColumn
from streamkit.state.moment import epoch_or_milliseconds
from streamkit.state.view import StoreView

_FAR_YEAR = re.compile(r"[+-]\d{4,7}-\d")
_MOMENT = SchemaColumn("time", "timestamp")


@dataclass(frozen=True)
class AskedKey:
    """A key by texts, one for each key column but those that `nulls` names, in their order: what users declared, or what rows have."""

    texts: tuple[str, ...]
    nulls: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join([*self.texts, *(f"{name} null" for name in self.nulls)])

    def values(self, view: StoreView, *, is_declared: bool = False) -> dict[str, pa.Scalar]:
        """
        The values by their columns; ConfigError if they are not those of a whole key.

        Rows of some stores have one column more, such as the time of a version, which may be given too unless the key must be `is_declared`.
        """
        given = len(self.texts) + len(set(self.nulls))
        has_all = not is_declared and given == len(view.store.key) and WINDOW_START not in view.store.key.names
        columns = list(view.store.key if has_all else view.key)
        if given != len(columns):
            raise ConfigError(
                f"found {given} values of a key; expected {len(columns)}: {', '.join(column.name for column in columns)}"
            )
        values = first_values(columns, self.texts, self.nulls)
        return {column.name: value for column, value in zip(columns, values, strict=True)}


def rows_of_key(view: StoreView, key: AskedKey, window: str | None, valid_at: str | None = None) -> pa.Table:
    """
    The row of a key, or of each of its windows, or the one that was valid at an event time; without rows if there is none.

    ConfigError for a key that does not fit.
    """
    if valid_at is not None:
        view.check_versions()
    values = key.values(view, is_declared=valid_at is not None)
    if valid_at is not None:
        if window is not None:
            raise ConfigError(f"the store {view.store.name!r} has no windows; expected a key without the start of one")
        return view.valid_at(_moment(valid_at), *values.values())
    if window is None and view.store.window_size_ms is not None:
        return view.windows(*values.values()) if len(values) == len(view.key) else _all_windows(view, values)
    return view.find(*values.values(), window_start=_moment(window))


@contextmanager
def view_as_of(view: StoreView, text: str | None) -> Iterator[StoreView]:
    """The store as it was behind an epoch, or at a time of the host, which a text names as in `StoreView.as_of`; as it is now without one."""
    if text is None:
        yield view
        return
    epoch, time_ms = epoch_or_milliseconds(text)
    with view.at_epoch(epoch, time=time_ms) as past:
        yield past


def changes_of_key(view: StoreView, key: AskedKey) -> pa.Table:
    """The changes of a key's rows, oldest first. ConfigError for a key that does not fit."""
    values = key.values(view)
    return view.history(*(values[name] for name in view.key.names))


def absence_of_key(view: StoreView, key: AskedKey, window: str | None, valid_at: str | None = None) -> str:
    """Why there is no row of a key: there never was, or none was valid at an event time, or retention has deleted it."""
    if valid_at is not None:
        return f"the store {view.store.name!r} has no row of the key {key} that was valid at {valid_at}"
    expiry = view.expiry()
    missing = f"the store {view.store.name!r} has no row of the key {key}{f' in the window from {window}' if window else ''}"
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

    `nulls` are columns of the prefix that are null, for which it has no text. `first` and `before` bound the starts of windows, of a store
    without windows its first key column; `starts_with` is how the key column behind the prefix begins. With `valid_at` they are the rows that
    were valid at this event time.
    """

    prefix: tuple[str, ...] = ()
    starts_with: str | None = None
    first: str | None = None
    before: str | None = None
    valid_at: str | None = None
    nulls: tuple[str, ...] = ()

    def rows(self, view: StoreView, limit: int | None) -> pa.Table:
        """The first rows; ConfigError for bounds that do not go together, or that are not of the key's types."""
        if self.valid_at is not None:
            view.check_versions()
        values = first_values(list(view.key), self.prefix, self.nulls)
        if self.first is None and self.before is None:
            if self.valid_at is not None:
                return view.valid_at(_moment(self.valid_at), *values, starts_with=self.starts_with, limit=limit)
            has_prefix = values or self.starts_with is not None
            return view.prefix(*values, starts_with=self.starts_with, limit=limit) if has_prefix else view.range(limit=limit)
        if self.starts_with is not None or (values and not view.has_windows):
            raise ConfigError(
                "a range goes without the beginning of a text, and with a prefix only of windows; expected one of them"
            )
        if view.has_windows:
            if values and len(values) < len(view.key):
                raise ConfigError(
                    f"found the first {len(values)} of the key columns {', '.join(view.key.names)} with a range of windows; expected a value for "
                    "each, or no prefix"
                )
            return view.windows(*values, start=_moment(self.first), end=_moment(self.before), limit=limit)
        start, end = (None if bound is None else key_value(bound, view.key.columns[0]) for bound in (self.first, self.before))
        if self.valid_at is not None:
            return view.valid_at(_moment(self.valid_at), start=start, end=end, limit=limit)
        return view.range(start, end, limit=limit)


def _moment(text: str | None) -> Any:
    """A moment as views take it: a text that has a fraction stays one, which may be finer than a datetime; far years are milliseconds."""
    if text is None:
        return None
    if _FAR_YEAR.match(text):
        return key_value(text, _MOMENT).cast(pa.int64()).as_py() // 1_000
    moment = parse_moment(text)
    return text if "." in text or "," in text else moment


def _all_windows(view: StoreView, values: dict[str, pa.Scalar]) -> pa.Table:
    """The windows of a key that has more columns than users declared, as where a store retains duplicates."""
    own = [name for name in values if name not in view.key.names]
    table = view.windows(*(values[name] for name in view.key.names))
    for name in own:
        table = table.filter(pc.equal(table[name], values[name]))
    return table
