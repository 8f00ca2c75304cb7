"""An application that has stores of all layouts, with random keys, and what Python says of the order of their rows."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.log.log import Log
from streamkit.state.stores import ON_DISK
from streamkit.state.view import StoreView
from tests.kit.engine_run import append

KEY = ("s", "n", "d")
TEXTS = ["", "a", "ab", "a\x00", "a\x00b", "b", "z\xff", "ÿ", "漢", "😀", None]
NUMBERS = [-(2**63), -5, -1, 0, 3, 2**63 - 1, None]
DOUBLES = [math.nan, -0.0, 0.0, math.inf, -math.inf, -1.5, 2.5, None]
HORIZON_MS = 100_000
HISTORY_MS = 50_000
PROCESSORS = ("own", "own_windows", "own_duplicates", "own_sessions", "own_versions")
WINDOWED = ("tumbling", "hopping", "sliding", "sessions", "read", "own_windows", "own_duplicates", "own_sessions")
WITH_SESSIONS = ("sessions", "read", "own_sessions")
STORES = ("counts", "newest", *WINDOWED[:5], *PROCESSORS)
Row = dict[str, Any]


class Keeper(sk.Processor):
    """Puts each record into a store of every kind."""

    def init(self, context: Any) -> None:
        self.stores = {name: context.store(name) for name in PROCESSORS}

    def process(self, record: Any) -> None:
        key, time = tuple(record[name] for name in KEY), record.timestamp
        if all(value is None for value in key):
            return
        value = {"v": record["v"]}
        self.stores["own"].put(key, value)
        self.stores["own_windows"].put(key, value, time // 5000 * 5000)
        self.stores["own_duplicates"].put(key, value, time // 5000 * 5000)
        self.stores["own_sessions"].put(key, time - record["v"], time, value)
        self.stores["own_versions"].put(key, value if record["v"] % 3 else None, time)


def topology() -> sk.Topology:
    """One application that has stores of all layouts."""
    app = sk.Topology("app")
    schema: dict[str, Any] = {"schema": "s string, n bigint, d double, v bigint", "key": list(KEY)}
    stream = app.stream("in", **schema)
    keyed = stream.group_by(*KEY)
    keyed.agg(c=F.count("*"), v=F.max("v"), store="counts").emit("latest").to("counted")
    kinds = {
        "tumbling": sk.tumbling("5 seconds", grace="0 s", retention="1 hour"),
        "hopping": sk.hopping("10 seconds", "5 seconds", grace="0 s", retention="1 hour"),
        "sliding": sk.sliding("3 seconds", grace="1 s", retention="1 hour"),
        "sessions": sk.session("3 seconds", grace="1 s", retention="1 hour"),
    }
    for name, kind in kinds.items():
        keyed.windowed_by(kind).agg(c=F.count("*"), v=F.max("v"), store=name).emit("latest").to(f"{name}_out")
    app.table("changes", **schema, versioned=f"{HISTORY_MS} ms", store="newest").emit("latest").to("newest_out")
    bounds = "window_start timestamp, window_end timestamp"
    read = app.table(
        "windows",
        schema=f"s string, n bigint, d double, {bounds}, v bigint",
        key=[*KEY, "window_start", "window_end"],
        windowed=sk.session("3 seconds", grace="1 s"),
        store="read",
    )
    read.emit("latest").to("read_out")
    declared: dict[str, Any] = {"key": "s string, n bigint, d double", "value": "v bigint"}
    stores = [
        sk.key_value_store("own", **declared),
        sk.window_store("own_windows", **declared, size="5 s", retention="1 hour"),
        sk.window_store("own_duplicates", **declared, size="5 s", retention="1 hour", retain_duplicates=True),
        sk.session_store("own_sessions", **declared, retention="1 hour"),
        sk.versioned_store("own_versions", **declared, history_retention=f"{HISTORY_MS} ms"),
    ]
    stream.process(Keeper, "v bigint", stores=stores).to("processed")
    return app


class Application:
    """The application on a log of its own, some records at a time."""

    def __init__(self, log: Log, seed: int) -> None:
        self.log, self.chosen, self.time = log, random.Random(seed), 0
        columns = "s string, n bigint, d double"
        for name in ("in", "changes"):
            log.create_topic(name, f"{columns}, v bigint", key=list(KEY), partitions=1)
        log.create_topic(
            "windows",
            f"{columns}, window_start timestamp, window_end timestamp, v bigint",
            key=[*KEY, "window_start", "window_end"],
            partition_by=list(KEY),
            partitions=1,
        )
        self.keys = [tuple(self.chosen.choice(values) for values in (TEXTS, NUMBERS, DOUBLES)) for _ in range(25)]
        self.versions: list[tuple[Row, int]] = []
        self.planner = start(log.catalog, log.storage, compile(topology(), log), tasks=3)

    def record(self) -> Row:
        self.time += self.chosen.randrange(0, 700)
        key = dict(zip(KEY, self.chosen.choice(self.keys)))
        return {**key, "v": self.chosen.randrange(100), "ts": self.time}

    def run_epoch(self, records: int = 60) -> None:
        rows = [self.record() for _ in range(records)]
        append(self.log, "in", rows)
        changes = [{**row, "v": None, "deleted": True} if row["v"] % 4 == 0 else row for row in rows]
        self.versions += [(row, row["ts"]) for row in changes]
        append(self.log, "changes", [{name: row[name] for name in row if name != "v" or row["v"] is not None} for row in changes])
        windows = [
            {**{n: row[n] for n in (*KEY, "v", "ts")}, "window_start": row["ts"] - row["v"] * 10, "window_end": row["ts"]}
            for row in rows[::3]
        ]
        append(self.log, "windows", windows)
        run_available(self.planner, stores=ON_DISK)

    def view(self, store: str) -> StoreView:
        return self.log.store("app", store)


def place(value: Any) -> tuple[Any, ...]:
    """Where a value stands among those of its column: null first, NaN last, one zero."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


def key_place(row: Row) -> tuple[Any, ...]:
    return tuple(place(row[name]) for name in KEY)


def ms(moment: Any) -> int:
    found: int = round(moment.timestamp() * 1000)
    return found


def store_place(store: str, row: Row) -> tuple[Any, ...]:
    """Where a row stands in the order of its store."""
    if store in WITH_SESSIONS:
        return (ms(row["window_end"]), key_place(row), ms(row["window_start"]))
    start = (ms(row["window_start"]),) if store in WINDOWED else ()
    return (*start, key_place(row), ms(row["valid_from"]) if "valid_from" in row else 0, row.get("number", 0))


def comparable(rows: Sequence[Row]) -> list[Any]:
    return [tuple((name, place(value)) for name, value in row.items()) for row in rows]


def check(found: pa.Table, expected: Sequence[Row], what: str) -> None:
    assert comparable(found.to_pylist()) == comparable(expected), what


def model(application: Application, store: str) -> list[Row]:
    """All rows of a store, in its order."""
    rows = application.view(store).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: store_place(store, row))
