"""
The topology that the crash tests run, compiled, and its input.

    python -m tests.kit.sales        compile it again into program.json, which the tests load without a JVM

Its operators between them keep, join, fold and close whatever a crash could tear: a table and a join behind a second
exchange, aggregates folded and not, every emission, windows whose retention ends while the input lasts.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

import streamkit as sk
from streamkit import functions as F
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.plan.program import Program

PROGRAM = Path(__file__).with_name("program.json")
APPLICATION = "sales"
EXACT_TOPICS = ("running_totals", "final_totals")  # emissions every and final: the same records, whatever the epochs
FOLDED_TOPICS = ("totals", "counts")  # emission latest: the same newest records
STORES = ("customers", "totals", "running_totals", "counts")
CHUNKS = 4
CHUNK_ORDERS, CHUNK_CUSTOMERS = 60, 12
RECORDS = CHUNKS * (CHUNK_ORDERS + CHUNK_CUSTOMERS)
EPOCH_RECORDS = 80  # four epochs, none of which ends with a chunk
CHUNK_MS = 30_000
GRID_MS = 500  # so that records have equal times, and epochs end where windows do
START_MS = 1_700_000_000_000


def topology() -> sk.Topology:
    app = sk.Topology(APPLICATION)
    orders = app.stream("orders")
    sales = orders.join(app.table("customers", store="customers"), on="customer", how="left")
    totals = (
        sales.group_by("region")
        .windowed_by(sk.tumbling("10 seconds", grace="5 seconds", retention="40 seconds"))
        .agg(orders=F.count("*"), amount=F.sum("amount"), largest=F.max("amount"), store="totals")
    )
    totals.emit("latest").to("totals")
    totals.emit("final").to("final_totals")
    running = (
        sales.group_by("product")
        .windowed_by(sk.hopping("10 seconds", "5 seconds", grace="5 seconds", retention="20 seconds"))
        .agg(orders=F.count("*"), amount=F.sum("amount"), store="running_totals")
    )
    running.emit("every").to("running_totals")
    orders.group_by("product").agg(orders=F.count("*"), mean=F.avg("amount"), store="counts").to("counts")
    return app


def create_inputs(log: Log) -> None:
    log.create_topic("orders", "id bigint, customer string, product string, amount bigint, at timestamp", "id", "at", 2)
    log.create_topic("customers", "customer string, region string", "customer", None, 2, {"cleanup.policy": "compact"})


def compile_program() -> Program:
    with open_log(":memory:") as log:
        create_inputs(log)
        return sk.compile(topology(), log)


def load_program() -> Program:
    return Program.from_json(json.loads(PROGRAM.read_text(encoding="utf-8")))


def append_chunk(log: Log, number: int) -> None:
    """
    Append a chunk of orders and changes of customers, with a producer's sequence, so that a second call adds nothing.

    Within a chunk, event times are out of order, and some are too late for their windows. Each chunk lies after the one
    before it, so that it does not matter when it is appended.
    """
    random = np.random.default_rng(number)
    with log.producer(f"chunk-{number}") as producer:
        producer.send_batch("customers", _customers(random, number), sequence=1)
        producer.send_batch("orders", _orders(random, number), sequence=1)


def _times(random: np.random.Generator, number: int, count: int) -> pd.DatetimeIndex:
    steady = np.linspace(6_000, CHUNK_MS - 1, count).astype(np.int64)
    late = np.where(random.random(count) < 0.3, random.integers(0, 28_000, count), random.integers(0, 3_000, count))
    milliseconds = START_MS + number * CHUNK_MS + np.maximum(steady - late, 0) // GRID_MS * GRID_MS
    return pd.to_datetime(milliseconds, unit="ms", utc=True)


def _orders(random: np.random.Generator, number: int) -> pd.DataFrame:
    rows = CHUNK_ORDERS
    return pd.DataFrame(
        {
            "id": np.arange(rows) + number * rows,
            "customer": [f"c{one}" if one < 9 else None for one in random.integers(0, 10, rows)],
            "product": [f"p{one}" for one in random.integers(0, 5, rows)],
            "amount": random.integers(-50, 100, rows),
            "at": _times(random, number, rows),
        }
    )


def _customers(random: np.random.Generator, number: int) -> pd.DataFrame:
    rows = CHUNK_CUSTOMERS
    deleted = random.random(rows) < 0.1
    regions = [("north", "south", "east", None)[one] for one in random.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])]
    return pd.DataFrame(
        {
            "customer": [f"c{one}" for one in random.integers(0, 9, rows)],
            "region": [None if gone else region for gone, region in zip(deleted, regions, strict=True)],
            "_timestamp": _times(random, number, rows),
            "_deleted": deleted,
        }
    )


def write_program() -> None:
    plain = {name: value for name, value in compile_program().to_json().items() if name != "lines"}  # of nobody's machine
    PROGRAM.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_program()
