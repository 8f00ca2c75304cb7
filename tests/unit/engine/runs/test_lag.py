"""How many records wait for an application: all that its next epochs will take, also before the first one."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.start import start
from streamkit.log.opening import open_log
from streamkit.log.statistics import lag_of

COLUMNS = "customer string, amount bigint"


@pytest.fixture
def log():
    """A log in memory with two topics of orders and a small one."""
    with open_log(":memory:") as opened:
        for name in ("orders", "returns", "customers"):
            opened.create_topic(name, COLUMNS, key="customer", partitions=2, config={"cleanup.policy": "compact"})
        yield opened


def send(log, topic, count):
    with log.producer() as producer:
        producer.send_batch(topic, [{"customer": f"c{number}", "amount": number} for number in range(count)])


def counts(*others):
    app = sk.Topology("counts")
    orders = app.stream("orders")
    for other in others:
        orders = orders.merge(app.stream(other))
    names = app.global_table("customers").rename({"amount": "limit"})
    orders.join(names, on="customer", how="left").group_by("customer").count(store="orders_of").to("counts")
    return app


def lag(log):
    return lag_of(log, log.catalog.applications.get("counts"), {topic.id: topic for topic in log.catalog.topics.every()})


def begin(log, app):
    """Begin a generation that has run no epoch."""
    start(log.catalog, log.storage, compile_with_settings(app, log), settings=log.settings)


def run_once(log, app):
    running = sk.run(app, log=log, engine="local", trigger="available_now")
    running.wait()
    return running


def test_before_the_first_epoch(log):
    """Nothing was taken, so everything waits; a global table is read whole and does not wait."""
    send(log, "orders", 10)
    send(log, "customers", 3)
    begin(log, counts())
    assert lag(log) == {"orders": 10}


def test_after_an_epoch(log):
    """What was taken waits no longer, what came since does."""
    send(log, "orders", 10)
    assert run_once(log, counts()).lag() == 0
    send(log, "orders", 4)
    assert lag(log) == {"orders": 4}


def test_a_new_input(log):
    """A topic that a later start adds waits from its first record on."""
    send(log, "orders", 10)
    run_once(log, counts())
    send(log, "returns", 5)
    begin(log, counts("returns"))
    assert lag(log) == {"orders": 0, "returns": 5}


def test_deleted_records(log):
    """Records that were deleted before they were taken do not wait."""
    send(log, "orders", 10)
    begin(log, counts())
    log.delete_records("orders", log.end_offsets("orders"), force=True)
    send(log, "orders", 2)
    assert lag(log) == {"orders": 2}
