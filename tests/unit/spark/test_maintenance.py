"""A topology on Spark whose driver maintains the log beside its epochs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamkit.launch.run import run
from streamkit.log.database.heartbeats import ENDED_MS
from tests.unit.spark.conftest import append_flights, assert_equals_pandas, flights_of
from topologies import flight_delays

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("slabs_in_files")]

WAIT_SECONDS = 200


def test_results_do_not_depend_on_maintenance(spark, few_flights):
    """Inputs and changelogs are merged while epochs run, and retention drops inputs behind them: the figures are the same."""
    log, more = few_flights(days=1), flights_of(3).iloc[len(flights_of(1)) :]
    for start in range(0, len(more), 150):
        append_flights(log, more.iloc[start : start + 150])
    # Longer than anybody takes from the catalog to the file that it names, and shorter than the run.
    log.settings = replace(log.settings, maintenance_interval_ms=100, file_delete_delay_ms=2_000)
    before = len(log.storage.list("slabs"))
    finished = run(flight_delays.app, spark, log, tasks=2, max_records_per_epoch=550, drain=True)
    assert finished.wait(WAIT_SECONDS)

    state = log.catalog.applications.get("flight-delays")
    changelogs = [store.changelog_topic_id for store in state.stores.values()]
    layouts = log.catalog.manifest.cut([log.topic("flights").id, *changelogs], {}).layouts
    assert layouts.pop(log.topic("flights").id) > 0 and any(layouts.values())
    assert before >= 15 and all(age >= ENDED_MS for age in log.heartbeats.ages_ms("").values())
    assert_equals_pandas(log, flights_of(3))
