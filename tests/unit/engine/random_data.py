"""Random rows for the topics of the cases: out of order, with ties, nulls, tombstones and negative amounts."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamkit.log.log import Log
from tests.kit.engine_run import append

Row = dict[str, Any]
SCHEMAS = {
    "orders": ("customer string, item string, amount bigint, price double, paid boolean", "customer"),
    "customers": ("customer string, level int, city string", "customer"),
    "kinds": ("kind string, label string", "kind"),
    "items": ("item string, kind string, weight int", "item"),
}


class RandomData:
    """Rows that depend on the seed alone; event times start at `first_ms` and rise by fits and starts."""

    def __init__(self, seed: int, first_ms: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._first_ms = first_ms

    def orders(self, rows: int) -> list[Row]:
        amounts, prices = range(-50, 50), [quarter / 4 for quarter in range(-40, 40)]
        return [
            self._record(
                ts, 0.05, customer=self._one_of("ann", "bob", "cat", "dan", None), item=self._one_of("ink", "jam", "kit", None)
            )
            | {
                "amount": self._one_of(None, *amounts),
                "price": self._one_of(None, *prices),
                "paid": self._one_of(True, False, None),
            }
            for ts in self._times(rows)
        ]

    def customers(self, rows: int) -> list[Row]:
        return [
            self._record(ts, 0.2, customer=self._one_of("ann", "bob", "cat", "eve", None))
            | {"level": self._one_of(-1, 0, 2, 5, 50, None), "city": self._one_of("rome", "oslo", None)}
            for ts in self._times(rows)
        ]

    def kinds(self, rows: int) -> list[Row]:
        return [
            self._record(ts, 0.2, kind=self._one_of("soft", "hard", None)) | {"label": self._one_of("A", "B", None)}
            for ts in self._times(rows)
        ]

    def items(self, rows: int) -> list[Row]:
        return [
            self._record(ts, 0.1, item=self._one_of("ink", "jam", "kit"))
            | {"kind": self._one_of("soft", "hard", "odd", None), "weight": self._one_of(1, 2, 3, None)}
            for ts in self._times(rows)
        ]

    def _record(self, ts: int, deletions: float, **key: Any) -> Row:
        """A row's key and time; some rows are tombstones, but never those without a key."""
        first = next(iter(key.values()))
        return {**key, "ts": ts, "deleted": first is not None and bool(self._random.random() < deletions)}

    def _one_of(self, *values: Any) -> Any:
        return values[self._random.integers(len(values))]

    def _times(self, rows: int) -> list[int]:
        """Mostly a little later than before, sometimes equal, sometimes far back."""
        steps = self._random.choice([0, 0, 1, 2, 3, 9], rows)
        back = self._random.choice([0, 0, 0, 2, 7, 25], rows)
        return [int(time) for time in self._first_ms + np.cumsum(steps) - back]


def create_topics(log: Log) -> None:
    """The topics that the cases read."""
    partitions = {"orders": 3, "customers": 2, "kinds": 1, "items": 2}
    for topic, (schema, key) in SCHEMAS.items():
        log.create_topic(topic, schema, key=key, partitions=partitions[topic])


def fill(log: Log, data: RandomData, rows: int, flushes: int) -> None:
    """Create the topics and append rows to each in several commits."""
    create_topics(log)
    wanted = {
        "orders": data.orders(rows),
        "customers": data.customers(rows // 3),
        "kinds": data.kinds(rows // 3),
        "items": data.items(rows // 3),
    }
    for topic, rows_of_topic in wanted.items():
        size = max(1, -(-len(rows_of_topic) // flushes))
        for start in range(0, len(rows_of_topic), size):
            append(log, topic, rows_of_topic[start : start + size])
