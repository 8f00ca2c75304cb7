"""
Which rows of tables belong together, and in which order: joins, distinct rows and orders, by DuckDB.

DuckDB gets columns of keys and gives numbers of rows. So what rows hold stays what it is, and what is compared is compared as Spark does:
NaN equals NaN and is the largest number, 0.0 equals -0.0, texts go by their UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.errors import ConfigError, SetupError
from streamkit.expressions.core.ordering import joint_keys, ranks, without_negative_zeros
from streamkit.sql.pull.abandonment import interrupted_when_abandoned

NO_ROW = -1
PAIRS_MAX = 50_000_000  # of rows of two sides that belong together


@dataclass(frozen=True)
class OrderKey:
    """A column by which rows are ordered."""

    values: pa.Array
    is_descending: bool = False
    nulls_first: bool = True


class Matching:
    """A DuckDB in memory, opened when it is first needed. For one thread at a time."""

    def pairs(self, left: Sequence[pa.Array], right: Sequence[pa.Array]) -> tuple[Integers, Integers]:
        """The pairs of rows with equal keys, in the order of the left rows; null equals nothing. ConfigError if these are too many."""
        sides = [_comparable(one, other) for one, other in zip(left, right, strict=True)]
        names = [f"k{number}" for number, _ in enumerate(sides)]
        self._register("l", dict(zip(names, (one for one, _ in sides), strict=True)), len(left[0]))
        self._register("r", dict(zip(names, (other for _, other in sides), strict=True)), len(right[0]))
        equal, keys = " AND ".join(f"l.{name} = r.{name}" for name in names), ", ".join(names)
        with self._given():
            if len(left[0]) * len(right[0]) > PAIRS_MAX:  # so many would need the memory of all others
                one, other = (f"(SELECT {keys}, count(*) AS n FROM {side} GROUP BY {keys}) {side}" for side in ("l", "r"))
                (pairs,) = self._found(f"SELECT coalesce(sum(l.n * r.n), 0) AS n FROM {one} JOIN {other} ON {equal}")[
                    "n"
                ].to_pylist()
                if pairs > PAIRS_MAX:
                    raise ConfigError(
                        f"the join of {len(left[0]):,} rows with {len(right[0]):,} has {int(pairs):,} pairs of rows with equal keys; expected "
                        f"at most {PAIRS_MAX:,}, so join by columns that tell rows apart"
                    )
            found = self._found(f"SELECT l.row AS l, r.row AS r FROM l JOIN r ON {equal} ORDER BY l.row, r.row")
        return found["l"].to_numpy(), found["r"].to_numpy()

    def distinct(self, columns: Sequence[pa.Array]) -> Integers:
        """The first of each set of equal rows, in their order; null is equal to null."""
        keys = {f"k{number}": _plain(column) for number, column in enumerate(columns)}
        self._register("l", keys, len(columns[0]))
        return _row_numbers(self._rows(f"SELECT min(row) AS row FROM l GROUP BY {', '.join(keys)} ORDER BY 1"))

    def order(self, keys: Sequence[OrderKey], limit: int | None) -> Integers:
        """The rows in an order, the first ones of it if there is a limit; equal ones stay as they are."""
        columns = {f"k{number}": _plain(key.values) for number, key in enumerate(keys)}
        self._register("l", columns, len(keys[0].values))
        items = [
            f"{name} {'DESC' if key.is_descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
            for name, key in zip(columns, keys, strict=True)
        ]
        most = "" if limit is None else f" LIMIT {limit}"
        return _row_numbers(self._rows(f"SELECT row FROM l ORDER BY {', '.join(items)}, row{most}"))

    def close(self) -> None:
        """Give its memory back."""
        if "_connection" in vars(self):
            self._connection.close()
            del self._connection

    @cached_property
    def _connection(self) -> Any:
        try:
            import duckdb
        except ImportError as error:
            raise SetupError(
                f"JOIN, ORDER BY and DISTINCT of a query that is run once need DuckDB ({error}): pip install 'pyspark-streamkit[sql]'"
            ) from error
        return duckdb.connect(":memory:")

    def _register(self, name: str, columns: dict[str, pa.Array], rows: int) -> None:
        self._connection.register(name, pa.table({**columns, "row": np.arange(rows)}))

    @contextmanager
    def _given(self) -> Iterator[None]:
        """DuckDB forgets behind the block what was registered for it."""
        try:
            yield
        finally:
            for name in ("l", "r"):
                self._connection.unregister(name)

    def _rows(self, query: str) -> pa.Table:
        with self._given():
            return self._found(query)

    def _found(self, query: str) -> pa.Table:
        with interrupted_when_abandoned(self._connection.interrupt):
            found: pa.Table = self._connection.sql(query).to_arrow_table()
        return found


def _row_numbers(found: pa.Table) -> Integers:
    numbers: Integers = found["row"].to_numpy()
    return numbers


def _comparable(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Two columns that DuckDB compares as Spark would; nested ones as numbers that are equal where they are."""
    if not pa.types.is_nested(left.type):
        return _plain(left), _plain(right)
    one, other = joint_keys(left, right)
    return _numbers(one, left), _numbers(other, right)


def _plain(values: pa.Array) -> pa.Array:
    if pa.types.is_nested(values.type):
        return _numbers(ranks(values), values)
    if pa.types.is_null(values.type):
        return values.cast(pa.int8())
    return without_negative_zeros(values)


def _numbers(keys: Integers, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), pa.array(keys), pa.scalar(None, pa.int64()))
