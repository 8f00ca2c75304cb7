"""Logs with flights, small and whole, and faults in the Python processes that Spark starts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache

import pandas as pd
import pyarrow as pa
import pytest

from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.names import SlabName
from tests.kit.oracle import flights as oracle
from tests.kit.spark import faults
from topologies import flight_data

SORTED_BY = ["origin", "airline", "window_start"]


@cache
def flights_of(days):
    """The flights of the first days of January, as the oracle has them."""
    table = oracle.flights()
    return table[(table["month"] == 1) & (table["day"] <= days)].reset_index(drop=True)


def append_flights(log, table):
    """Append flights to their topic in the order given, with a timestamp of their own each."""
    schema = flight_data.FLIGHTS.schema.arrow
    with log.producer() as producer:
        producer.send_batch("flights", pa.Table.from_pandas(table[schema.names], schema, preserve_index=False))


def load_few(folder, days, partitions):
    """A log with the flights of some days, all planes and all airlines."""
    with open_log(folder) as log:
        for topic in flight_data.TOPICS:
            count = partitions if topic is flight_data.FLIGHTS else 1
            log.create_topic(topic.name, topic.schema, topic.key, topic.timestamp, count, {"retention.ms": -1})
            if topic is not flight_data.FLIGHTS:
                with log.producer() as producer:
                    producer.send_batch(topic.name, flight_data.read(topic), timestamp_ms=flight_data.LOADED_AT_MS)
        append_flights(log, flights_of(days))


@pytest.fixture(scope="session")
def loaded(tmp_path_factory):
    """Folders of logs that were loaded and never run, by days and partitions; they must be copied."""

    @cache
    def load(days, partitions):
        folder = tmp_path_factory.mktemp("loaded") / "log"
        load_few(folder, days, partitions)
        return folder

    return load


@pytest.fixture
def few_flights(loaded, tmp_path):
    """
    Opens a log of its own with the flights of the first days of January, where maintenance collects no orphan before a test sees it.

    All epochs run in Spark's tasks there, unless a test says otherwise.
    """
    opened: list[Log] = []

    def open_copy(days=3, partitions=2):
        opened.append(open_log(shutil.copytree(loaded(days, partitions), tmp_path / f"log-{len(opened)}")))
        opened[-1].settings = replace(opened[-1].settings, maintenance_interval_ms=0, local_epoch_records=0)
        return opened[-1]

    yield open_copy
    for log in opened:
        log.close()


@pytest.fixture
def fault(fault_folder, tmp_path):
    """Orders faults for the length of a test: `fault(place__name=faults.function)` returns the folder where they leave traces."""

    def arm(**actions):
        faults.order(fault_folder, actions, tmp_path)
        return fault_folder

    yield arm
    faults.order(fault_folder, {}, tmp_path)


def delays(log):
    """The rows of the topic daily_delays, ordered as the oracle's."""
    table = log.read("daily_delays").to_pandas()[list(oracle.daily_delays(flights_of(1)).columns)]
    return table.sort_values(SORTED_BY, ignore_index=True)


def assert_equals_pandas(log, table):
    """The topic has each row that pandas finds in these flights, once, with every figure equal."""
    expected = oracle.daily_delays(table)
    for name in ("window_start", "window_end"):
        expected[name] = expected[name].astype("datetime64[us, UTC]")
    found = delays(log).astype({name: expected[name].dtype for name in ("window_start", "window_end")})
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_exact=False, rtol=1e-12)


def staged(log):
    """The slabs the application has written, by name."""
    return {name for path in log.storage.list("slabs") if (name := SlabName.parse(path)) and name.writer.startswith("a")}


def orphans(log):
    """Those of them that the catalog does not name."""
    referenced = log.catalog.manifest.referenced("a1")
    return {name for name in staged(log) if name.path not in referenced}
