"""Where results stand among each other and among records, whatever the cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.log.values.keys import encode_keys, murmur2
from tests.kit.engine_run import append, fresh_log, values


@pytest.mark.parametrize("records_max", [None, 1])
def test_newest_results_meet_the_tables_rows_of_the_epoch_s_last_millisecond(records_max):
    """Results of an epoch's end stand behind all its records, so a join finds the table's row of the same moment."""
    with fresh_log() as log:
        log.create_topic("orders", "k string, amount double", key="k", partitions=1)
        log.create_topic("names", "k string, name string", key="k", partitions=1)
        append(log, "names", [{"k": "a", "name": "Anna", "ts": 1000}])
        append(log, "orders", [{"k": "a", "amount": 5.0, "ts": 10}, {"k": "a", "amount": 6.0, "ts": 1000}])
        app = sk.Topology("app")
        totals = app.stream("orders").group_by_key().agg(total=F.sum("amount"), store="totals")
        totals.emit("latest").join(app.table("names"), how="left").to("joined")
        run_available(start(log.catalog, log.storage, compile(app, log), records_max=records_max))

        assert values(log, "joined", "k", "total", "name")[-1] == ("a", 11.0, "Anna")


@pytest.fixture(scope="module")
def colliding_keys():
    """Two keys whose groups have the same 32-bit hash."""
    keys = pa.array([f"user{number:07d}" for number in range(200_000)])
    hashes = murmur2(encode_keys([keys, pa.array(np.zeros(len(keys), np.int64))]))
    order = np.argsort(hashes, kind="stable")
    first = int(np.flatnonzero(np.diff(hashes[order]) == 0)[0])
    return keys[int(order[first])].as_py(), keys[int(order[first + 1])].as_py()


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("border", [1, 2, 3])
def test_final_results_of_one_moment_come_in_the_order_of_their_keys(colliding_keys, step, border):
    """Where hashes of keys are equal, and some groups are stored and some are new, what is behind sees them in the same order."""
    pair = colliding_keys[::step]
    rows = [{"k": pair[0], "v": 1, "ts": 0}, {"k": pair[1], "v": 1000, "ts": 1}, {"k": "z", "v": 0, "ts": 1000}]
    with fresh_log() as log:
        log.create_topic("in", "k string, v bigint", key="k", partitions=1)
        app = sk.Topology("app")
        window = sk.tumbling("100 ms", grace="0 ms")
        finals = app.stream("in").group_by_key().windowed_by(window).agg(total=F.sum("v"), store="w").emit("final")
        finals.group_by(one=F.lit("all")).agg(n=F.count("*"), top=F.sum("total"), store="run").emit("every").to("out")
        planner = start(log.catalog, log.storage, compile(app, log))
        for part in (rows[:border], rows[border:]):
            append(log, "in", part)
            run_available(planner)

        first = {pair[0]: 1, pair[1]: 1000}[min(pair)]
        assert values(log, "out", "n", "top") == [(1, first), (2, 1001)]
