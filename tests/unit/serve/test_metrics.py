"""The metrics of a log in Prometheus' form: what they say is what the catalog has, and boards and alerts name no others."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import streamkit as sk
from streamkit import functions as F
from streamkit.clock import HandClock
from streamkit.connectors.runtime.status import TaskStatus, declare_status, write_status
from streamkit.log.catalog.epoch_buckets import BOUNDS_S, bucketed, cumulative
from streamkit.log.opening import open_log
from streamkit.serve.metrics import metric_names, metrics_text

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"\bstreamkit_[a-z_]+")
ORDERS = 100


@pytest.fixture
def log():
    """A log whose clock stands still, with orders of ten customers and one without."""
    with open_log(":memory:", clock=HandClock(1_800_000_000_000)) as opened:
        opened.create_topic("orders", "customer string, amount bigint", key="customer", partitions=2)
        send(opened, ORDERS)
        yield opened


def send(log, count):
    customers = [f"c{number % 10}" for number in range(count - 1)] + [None]
    with log.producer() as producer:
        producer.send_batch("orders", [{"customer": name, "amount": number} for number, name in enumerate(customers)])


def app():
    topology = sk.Topology("totals")
    large = topology.stream("orders").filter("amount >= 10", name="large")
    large.group_by("customer").agg(n=F.count("*"), store="per_customer").to("totals", name="written")
    return topology


def run(log):
    sk.run(app(), log=log, engine="local", trigger="available_now", max_records_per_epoch=40).wait()


def samples(log):
    """The value of each sample, by its name and its labels."""
    families = text_string_to_metric_families(metrics_text(log).decode())
    return {(one.name, *sorted(one.labels.values())): one.value for family in families for one in family.samples}


def test_counters_are_those_of_the_catalog(log):
    """Records, rows of steps, what was left out and written, changes of stores and epochs are as the log itself has them."""
    run(log)
    found = samples(log)
    assert found["streamkit_epochs_total", "totals"] == 3
    assert found["streamkit_input_records_total", "orders", "totals"] == ORDERS
    assert found["streamkit_step_rows_in_total", "large", "totals"] == ORDERS
    assert found["streamkit_step_rows_out_total", "large", "totals"] == ORDERS - 10
    assert found["streamkit_dropped_records_total", "aggregate-per_customer", "null_key", "totals"] == 1
    assert found["streamkit_output_records_total", "totals", "totals"] == len(log.read("totals"))
    assert (
        found["streamkit_store_changes_total", "per_customer", "totals"] == log.describe("totals-per_customer-changelog")["rows"]
    )
    assert found["streamkit_store_rows", "per_customer", "totals"] == 10
    assert found["streamkit_topic_records", "orders"] == ORDERS
    assert sum(value for (name, *_), value in found.items() if name == "streamkit_topic_end_offset") == ORDERS + len(
        log.read("totals")
    )


def test_lag_is_counted_in_records_and_in_seconds(log):
    """What waits is counted by partition, and its age is that of the oldest record that waits; nothing that waits has no age."""
    run(log)
    assert samples(log)["streamkit_input_lag_seconds", "orders", "totals"] == 0
    send(log, 5)
    log.clock.advance(4_000)
    send(log, 5)
    log.clock.advance(3_000)
    found = samples(log)
    assert found["streamkit_input_lag_seconds", "orders", "totals"] == 7
    assert sum(value for (name, *_), value in found.items() if name == "streamkit_input_lag_records") == 10


def test_latency_adds_up(log):
    """Count and sum of record latency give the mean over all records, and each epoch is in the histogram of its oldest record once."""
    log.clock.advance(2_000)
    run(log)
    found = samples(log)
    assert found["streamkit_record_latency_seconds_count", "arrival", "totals"] == ORDERS
    assert found["streamkit_record_latency_seconds_sum", "arrival", "totals"] == pytest.approx(2 * ORDERS)
    oldest = {labels: value for (name, *labels), value in ((key, value) for key, value in found.items()) for labels in [tuple(labels)]
              if name == "streamkit_epoch_oldest_record_seconds_bucket" and "arrival" in labels}  # fmt: skip
    assert (
        oldest["1.0", "arrival", "totals"] == 0 and oldest["2.5", "arrival", "totals"] == oldest["+Inf", "arrival", "totals"] == 3
    )
    assert found["streamkit_epoch_seconds_count", "tasks", "totals"] == 3
    assert found["streamkit_epoch_seconds_count", "commit", "totals"] == 2  # the next epoch tells the commit of the one before


def test_buckets_hold_each_value_once():
    """A value falls into the bucket whose bound it does not exceed; counts up to a bound never fall, and the last has all."""
    values = [0.001, *BOUNDS_S, 4000.0]
    totals: dict[str, float] = {}
    for value in values:
        for bound, count in bucketed({"took_ms": {"plan": value * 1000}}, 0)["epoch_seconds"]["plan"].items():
            totals[bound] = totals.get(bound, 0) + count
    counts = [count for _, count in cumulative(totals)]
    assert counts == [sum(value <= bound for value in values) for bound in BOUNDS_S] + [len(values)]
    assert totals["sum"] == pytest.approx(sum(values))


def test_connectors_and_groups(log):
    """A task of a connector is up, failed, or neither; a group has its members and its lag."""
    declare_status(log)
    write_status(
        log, [TaskStatus("loads", 0, "RUNNING", "w", "FileSource"), TaskStatus("loads", 1, "FAILED", "w", "FileSource", "broken")]
    )
    with log.consumer("orders", group="billing") as consumer:
        consumer.poll(timeout=5)
        consumer.commit()
        found = samples(log)
    assert [found["streamkit_connector_task_up", task, "loads"] for task in "01"] == [1, 0]
    assert [found["streamkit_connector_task_failed", task, "loads"] for task in "01"] == [0, 1]
    assert found["streamkit_group_members", "billing"] == 1
    assert found["streamkit_group_lag_records", "billing", "orders"] == 0


def test_names_are_text(log):
    """A name with quotes, a line break or markup is a label like any other, and breaks no line."""
    name = 'a"b\\c\n<script>'
    declare_status(log)
    write_status(log, [TaskStatus(name, 0, "RUNNING", "w", "FileSource")])
    assert samples(log)["streamkit_connector_task_up", "0", name] == 1


@pytest.mark.parametrize("file", ["conf/grafana.json", "conf/alerts.yaml"])
def test_boards_and_alerts_name_what_exists(file):
    """Each metric in them is one that a scrape has."""
    named = set(NAMED.findall((ROOT / file).read_text(encoding="utf-8")))
    assert named and named <= metric_names()


def test_every_name_comes_in_a_scrape(log):
    """The names that boards may use are those of samples: a log with everything in it has each of them."""
    declare_status(log)
    write_status(log, [TaskStatus("loads", 0, "RUNNING", "w", "FileSource")])
    run(log)
    with log.consumer("orders", group="billing") as consumer:
        consumer.poll(timeout=5)
        consumer.commit()
        names = {name for name, *_ in samples(log)}
    assert names == metric_names()


def test_the_page_has_each_metric():
    """The table of metrics names all of them, and no other."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z_]+)`", page, re.MULTILINE))
    plain = {re.sub(r"_(bucket|sum|count)$", "", name.removeprefix("streamkit_")) for name in metric_names()}
    assert rows == plain


def test_the_board_is_json():
    """A board has panels, each with a query and a unit."""
    board = json.loads((ROOT / "conf" / "grafana.json").read_text(encoding="utf-8"))
    assert all(panel["targets"] and panel["fieldConfig"]["defaults"]["unit"] for panel in board["panels"])


def test_a_look_is_quick(log):
    """A scrape of a log with a hundred topics takes less than a second, however busy the machine is within reason."""
    for number in range(100):
        log.create_topic(f"topic-{number}", "k string", key="k", partitions=4)
    begun = time.process_time()
    metrics_text(log)
    assert time.process_time() - begun < 1
