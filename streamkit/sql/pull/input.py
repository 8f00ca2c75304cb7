"""What a query wants of a stream or table: which of its rows and columns, and how these are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text
from streamkit.query.comparisons import AT_LEAST, AT_MOST, EQUAL, GREATER, IN, LESS, ColumnComparison, comparisons
from streamkit.query.store_filters import StoreFilters, distinct_keys
from streamkit.query.topic_filters import FilterBounds, narrowed
from streamkit.sql.pull.source import ReadRows, StoreRows
from streamkit.state.stored_rows import StoredRows, WantedRows
from streamkit.state.view import StoreView

LOOK_UP, RANGE, SCAN = "look-up", "range", "scan"


@dataclass(frozen=True)
class PullInput:
    """
    A stream or table as a query reads it: the rows for which `condition` is true, and of these some columns.

    There is at least one column. With a `limit` any so many rows do. With `as_of_ms` they are those of that time: a store as of the epoch
    that was the newest then, a topic up to that event time.
    """

    name: str
    source: ReadRows
    columns: tuple[str, ...]
    condition: TypedExpression | None = None
    limit: int | None = None
    as_of_ms: int | None = None

    @cached_property
    def comparisons(self) -> tuple[ColumnComparison, ...]:
        """The comparisons of columns with constants that hold in each wanted row."""
        return () if self.condition is None else tuple(comparisons(self.condition))

    @cached_property
    def store_filters(self) -> StoreFilters:
        """What these leave of a store."""
        found = StoreFilters()
        for comparison in self.comparisons:
            of_store = self.source.of_store(comparison) if isinstance(self.source, StoreRows) else comparison
            found = found if of_store is None else found.with_comparison(of_store)
        return found

    @cached_property
    def topic_filters(self) -> FilterBounds:
        """What they leave of a topic."""
        found = FilterBounds()
        for comparison in self.comparisons:
            found = narrowed(found, comparison)
        return found

    def wanted_keys(self, stored: StoredRows) -> list[pa.Array] | None:
        """The keys to look up in a store without windows; None if they are not named, or too many."""
        return self.store_filters.keys(stored)

    def key_of_table(self) -> tuple[pa.Array, ...] | None:
        """The one key, or several values of a key of one column, each once, that are wanted of a table; None if any may be."""
        named = {one.column: one.values for one in self.comparisons if one.sign in (EQUAL, IN) and one.values}
        key = self.source.key
        if not key or any(name not in named for name in key) or (len(key) > 1 and any(len(named[name]) > 1 for name in key)):
            return None
        return tuple(distinct_keys([pa.array(list(named[name]), self.source.schema[name].arrow.type) for name in key]))


@dataclass(frozen=True)
class ReadPath:
    """How rows are found, for EXPLAIN: a look-up of keys, a range, or a scan; of `what`, and of how many rows there are."""

    kind: str
    what: str
    wanted: str = ""
    rows: int | None = None

    def text(self) -> str:
        """A line that says so."""
        wanted = f" of {self.wanted}" if self.wanted else ""
        return f"{self.kind}{wanted} in {self.what}" + ("" if self.rows is None else f", which has {self.rows:,} rows")


def path_in_store(wanted: PullInput, view: StoreView) -> ReadPath:
    """How the rows of a store are found."""
    source, stored = wanted.source, StoredRows(view.program, view.store)
    assert isinstance(source, StoreRows), "other sources have no store"
    what = f"the store {source.store} of {source.application}"
    what += "" if source.records is None else f" with the records of the topic {source.records.topic}"
    keys = wanted.wanted_keys(stored)
    if keys is not None:
        return ReadPath(LOOK_UP, what, _count(len(keys[0]), "key"), view.count())
    bounds = wanted.store_filters.wanted(stored)
    if wanted.store_filters.whole_key(stored) is not None:
        return ReadPath(LOOK_UP, what, "the windows of 1 key", view.count())
    if bounds == WantedRows():
        return ReadPath(SCAN, what, rows=view.count())
    return ReadPath(RANGE, what, _bounds_text(wanted.comparisons, (*source.key, "window_start", "window_end")), view.count())


def path_in_table(wanted: PullInput, topic: str, rows: int) -> ReadPath:
    """How the rows of a topic that is read as a table are found."""
    what = f"the table of the topic {topic}"
    key = wanted.key_of_table()
    return ReadPath(SCAN, what, rows=rows) if key is None else ReadPath(LOOK_UP, what, _count(len(key[0]), "key"), rows)


def path_in_stream(wanted: PullInput, topic: str, rows: int) -> ReadPath:
    """How the records of a topic are found."""
    what = f"the topic {topic}"
    if wanted.topic_filters == FilterBounds():
        return ReadPath(SCAN, what, rows=rows)
    return ReadPath(RANGE, what, _bounds_text(wanted.comparisons, ("_timestamp", "_partition", "_offset")), rows)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _bounds_text(found: Sequence[ColumnComparison], names: Sequence[str]) -> str:
    """The bounds in words, those of some columns."""
    signs = (EQUAL, IN, LESS, AT_MOST, GREATER, AT_LEAST)
    parts = [f"{one.column} {one.sign} {_values(one)}" for one in found if one.column in names and one.sign in signs]
    return " and ".join(dict.fromkeys(parts))


def _values(comparison: ColumnComparison) -> str:
    texts = [str(value) for value in comparison.values]
    return f"({', '.join(texts)})" if comparison.sign == IN else texts[0]


def condition_text(wanted: PullInput) -> str:
    """The condition on the rows that are read, in SQL; empty if there is none."""
    return "" if wanted.condition is None else shown_text(wanted.condition)
