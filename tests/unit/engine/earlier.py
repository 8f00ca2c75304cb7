"""
A log with an application as a version of program format 1 left it, and the input that it goes on with.

    python earlier.py tests/unit/engine/data/state-format-1.tar.gz      with that version's `streamkit` on the path (commit 1513779)

The log has taken the first part of the input, so some windows are closed, and some are open. Nothing here depends on the version.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.state.stores import MemoryStores

LOG = Path(__file__).parent / "data" / "state-format-1.tar.gz"
APPLICATION = "books"
OUTPUTS = ("by_region", "by_region_final", "by_product", "running", "with_account", "returned")
START_MS = 1_700_000_000_000
PARTS, ROWS = 4, 60  # a part is ROWS orders within 30 seconds


def topology() -> sk.Topology:
    """Every aggregate whose state changed beside those that did not; a table that joins of three kernels looked up."""
    app = sk.Topology(APPLICATION)
    customers, accounts, orders = app.table("customers"), app.table("accounts"), app.stream("orders")
    known = orders.join(accounts, on="customer").join(customers, on="customer", name="home")
    known.select("id", "customer", "balance", "region").to("with_account")
    app.stream("returns").join(customers, on="customer", name="returned").to("returned")
    by_region = known.group_by("region").windowed_by(sk.tumbling("10 seconds", grace="5 seconds"))
    totals = by_region.agg(
        store="by_region", **totals_of("amount", "big", "price", "weight"), huge=F.avg("huge"), first=F.min("product")
    )
    totals.emit("latest").to("by_region")
    totals.emit("final").to("by_region_final")
    by_product = orders.group_by(kind=F.upper("product")).agg(
        store="by_product",
        **totals_of("big", "price"),
        huge=F.avg("huge"),
        orders=F.count("*"),
        least=F.min("weight"),
        most=F.max("big"),
    )
    by_product.emit("latest").to("by_product")
    windows = sk.hopping("10 seconds", advance="5 seconds", grace="5 seconds")
    running = orders.group_by("customer").windowed_by(windows).agg(store="running", mean=F.avg("huge"), total=F.sum("amount"))
    running.emit("every").to("running")
    return app


def totals_of(*columns: str) -> dict[str, Any]:
    return {f"{column}_{function}": getattr(F, function)(column) for column in columns for function in ("sum", "avg", "count")}


def create_topics(log: sk.Log) -> None:
    orders = "id bigint, customer string, product string, amount int, big bigint, huge bigint, price decimal(9,2), weight double"
    log.create_topic("orders", orders, "id", partitions=2)
    log.create_topic("returns", "id bigint, customer string", "id", partitions=1)
    for topic, value in (("customers", "region string"), ("accounts", "balance bigint")):
        log.create_topic(topic, f"customer string, {value}", "customer", partitions=2, config={"cleanup.policy": "compact"})


def append_part(log: sk.Log, number: int) -> None:
    """
    Append a part of the input, after the ones before it.

    Totals of `huge`, of which there are means alone, go far beyond 64 bits and come back. Its means round as they did, for the totals are
    doubles; weights add up without rounding, whatever the order.
    """
    random, start_ms = np.random.default_rng(number), START_MS + number * 30_000
    with log.producer() as producer:
        for topic, value in (("customers", "region"), ("accounts", "balance")):
            rows = [
                {"customer": f"c{each}", value: _value(value, random)}
                for each in random.permutation(12)[: 12 if number == 0 else 3]
            ]
            producer.send_batch(topic, [{**row, "_timestamp": _moment(start_ms)} for row in rows])
        orders = [_order(random, number * ROWS + each) for each in range(ROWS)]
        times = start_ms + np.arange(ROWS) * 500 - random.integers(0, 3_000, ROWS)
        producer.send_batch("orders", [{**row, "_timestamp": _moment(time)} for row, time in zip(orders, times, strict=True)])
        returns = [{"id": number * ROWS + each, "customer": f"c{random.integers(14)}"} for each in range(10)]
        producer.send_batch("returns", [{**row, "_timestamp": _moment(start_ms + 10_000)} for row in returns])


def _value(column: str, random: np.random.Generator) -> str | int:
    return f"r{random.integers(3)}" if column == "region" else int(random.integers(1_000))


def _order(random: np.random.Generator, number: int) -> dict[str, object]:
    signed = 1 if number % 3 else -1
    return {
        "id": number,
        "customer": f"c{random.integers(14)}",
        "product": ["book", "map", "globe"][random.integers(3)],
        "amount": None if number % 7 == 0 else int(random.integers(-(2**31), 2**31)),
        "big": None if number % 11 == 0 else signed * int(random.integers(2**36, 2**50)),
        "huge": (1 if number < ROWS else -1) * int(random.integers(2**7, 2**9)) * 2**54,
        "price": Decimal(int(random.integers(-(10**9) + 1, 10**9))) / 100,
        "weight": float(random.integers(-100, 100)) / 4,
    }


def _moment(milliseconds: int) -> pd.Timestamp:
    return pd.Timestamp(int(milliseconds), unit="ms", tz="UTC")


def run(log: sk.Log, drain: bool = False) -> None:
    """Start the application and let it take what is there, in several epochs."""
    program = compile(topology(), log)
    run_available(start(log.catalog, log.storage, program, tasks=2, records_max=150), drain=drain, stores=MemoryStores())


def make(file: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(file, "x:gz") as archive:
        with sk.open_log(Path(folder) / "log") as log:
            create_topics(log)
            for number in range(PARTS // 2):
                append_part(log, number)
            run(log)
        archive.add(Path(folder) / "log", "log", filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return None if Path(entry.name).name.startswith("LOG") else entry


if __name__ == "__main__":
    make(Path(sys.argv[1]))
