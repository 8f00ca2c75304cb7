"""What epochs that Spark runs tell of themselves: the same as those of one process, for the same records."""

from __future__ import annotations

from dataclasses import replace

import streamkit as sk
from streamkit import functions as F
from streamkit.log.opening import open_log

ORDERS = 400


def counted(name):
    """Orders of the customers that are known, by city."""
    app = sk.Topology(name)
    joined = app.stream("orders").filter("amount > 20", name="large").join(app.table("customers", bootstrap=True), on="customer")
    joined.group_by("city").agg(n=F.count("*"), store="per_city").emit("every").to(f"{name}-counts")
    return app


def test_figures_are_those_of_one_process(spark, tmp_path):
    """Rows of steps, what was read and written, and the lag are equal; times are there of each epoch, and the commit's of all but the newest."""
    with open_log(tmp_path / "log") as log:
        log.settings = replace(log.settings, local_epoch_records=0)
        log.create_topic("orders", "customer string, amount bigint", key="customer", partitions=4)
        log.create_topic("customers", "customer string, city string", key="customer", config={"cleanup.policy": "compact"})
        with log.producer() as producer:
            producer.send_batch("customers", [{"customer": f"c{number}", "city": f"t{number % 3}"} for number in range(20)])
            producer.send_batch("orders", [{"customer": f"c{number % 30}", "amount": number} for number in range(ORDERS)])
        on_spark = sk.run(counted("on-spark"), spark, log, trigger="available_now", max_records_per_epoch=150)
        on_spark.wait()
        here = sk.run(counted("here"), None, log, trigger="available_now", max_records_per_epoch=150, engine="local")
        here.wait()
        assert rows_of_steps(on_spark) == rows_of_steps(here)
        assert told(on_spark) == told(here)
        assert all(one.busy_us > 0 for one in on_spark.steps() if one.rows_in)
        history = on_spark.history().to_pylist()
        assert all(one["plan_ms"] > 0 and one["tasks_ms"] >= one["slowest_task_ms"] >= one["mean_task_ms"] > 0 for one in history)
        assert all(one["oldest_since_arrival_ms"] >= one["mean_since_arrival_ms"] > 0 for one in history)
        assert [one["commit_ms"] is None for one in history] == [False] * (len(history) - 1) + [True]


def rows_of_steps(running):
    """By step, what it took, gave and left out."""
    return [(one.step.replace("on-spark", "here"), one.rows_in, one.rows_out, one.counts) for one in running.steps()]


def told(running):
    """Of each epoch, what does not depend on where it ran."""
    return [
        (one["records"], one["read"], one["lag"], [rows for _, rows in one["written"]]) for one in running.history().to_pylist()
    ]
