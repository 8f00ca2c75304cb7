"""How many records wait for an application: all that its next epochs will take, also before the first one."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

import streamkit as sk
from streamkit.description.applications import application_description
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError
from streamkit.log.catalog.applications import RECORD_KINDS
from streamkit.log.input_lag import input_partitions, lag_by_topic
from streamkit.log.opening import open_log
from streamkit.log.statistics import statistics_of
from streamkit.plan.program import STREAM_KINDS
from streamkit.serve.metrics import metrics_text
from streamkit.state.view_position import ViewPosition, wait_for

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
    return lag_by_topic(input_partitions(log, log.catalog.applications.get("counts")))


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


def facts(log):
    """The lag as all that show it have it: the figures of the log, the description, and the metrics; they agree."""
    state = log.catalog.applications.get("counts")
    described = application_description(log, state)
    (figures,) = [one.lag for one in statistics_of(log).applications if one.application == "counts"]
    families = list(text_string_to_metric_families(metrics_text(log).decode()))
    samples = [one for family in families if family.name == "streamkit_input_lag_records" for one in family.samples]
    shown: dict[str, int] = {}
    for one in samples:
        if one.labels["application"] == "counts":
            shown[one.labels["topic"]] = shown.get(one.labels["topic"], 0) + int(one.value)
    listed = {
        topic: sum(one.lag for one in described.inputs if one.topic == topic) for topic in {one.topic for one in described.inputs}
    }
    assert lag(log) == figures == listed == shown
    missing = [one for family in families if family.name == "streamkit_input_missing" for one in family.samples if one.value]
    assert sorted(one.labels["topic"] for one in missing) == list(described.missing_inputs)
    return figures, described.missing_inputs


def test_a_topic_that_was_deleted_is_missing_and_made_again_it_waits(log):
    """Its records are all to be read once more, by the name that the program has; before it is there the figures say that it is missing."""
    send(log, "orders", 10)
    run_once(log, counts("returns"))
    log.delete_topic("orders")
    assert facts(log) == ({"returns": 0}, ("orders",))
    log.create_topic("orders", COLUMNS, key="customer", partitions=3)
    send(log, "orders", 7)
    assert facts(log) == ({"orders": 7, "returns": 0}, ())
    with pytest.raises(
        ConfigError, match="has read a former topic 'orders', which was deleted and made again; it reads the new one"
    ):
        wait_for(log.catalog, "counts", ViewPosition.behind({"orders": {0: 1}}), 0.1)
    log.catalog.applications.reset("counts")  # a start says that its store has rows of the former topic
    run_once(log, counts("returns"))
    assert facts(log) == ({"orders": 0, "returns": 0}, ())


def test_a_global_table_made_again_does_not_wait(log):
    """It is read whole with each epoch."""
    run_once(log, counts())
    log.delete_topic("customers")
    assert facts(log) == ({"orders": 0}, ("customers",))
    log.create_topic("customers", COLUMNS, key="customer", partitions=2, config={"cleanup.policy": "compact"})
    send(log, "customers", 3)
    assert facts(log) == ({"orders": 0}, ())


def test_nothing_waits_for_an_application_that_was_taken_over(log):
    """Another one reads on in its place, so no lag of it grows."""
    send(log, "orders", 10)
    run_once(log, counts())
    follower = sk.Topology("second")
    orders = follower.stream("orders")
    orders.join(follower.global_table("customers").rename({"amount": "limit"}), on="customer", how="left").group_by(
        "customer"
    ).count(store="orders_of").to("counts")
    start(log.catalog, log.storage, compile_with_settings(follower, log), settings=log.settings, follows="counts")
    log.catalog.applications.hand_over("second")
    send(log, "orders", 4)
    assert facts(log) == ({}, ())


def test_before_the_first_epoch_all_figures_agree(log):
    """They count what waits from the start of an application on."""
    send(log, "orders", 10)
    begin(log, counts())
    assert facts(log) == ({"orders": 10}, ())


def test_the_catalog_knows_which_inputs_are_read_by_record():
    """The kinds of inputs in the catalog are those of programs."""
    assert RECORD_KINDS == STREAM_KINDS
