"""The numbers of rows in stores: equal to what the stores have, whichever layout, over restarts, and in a sample."""

from __future__ import annotations

import json

import streamkit as sk
from streamkit.engine.epoch import row_counting
from streamkit.engine.epoch.row_counting import SAMPLED_ROWS, STORE_ROWS, rows_of_stores
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.history import history_of
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.state.stores import ON_DISK
from tests.kit.engine_run import append, fresh_log
from tests.kit.row_counts import check_row_counts
from tests.kit.store_layouts import STORES, Application, topology


def counted(log):
    """The rows of each store, as the catalog has them."""
    state = log.catalog.applications.get("app")
    return rows_of_stores(state.metrics, {name: store.changelog_topic_id for name, store in state.stores.items()})


def test_stores_of_all_layouts_over_restarts():
    """After each epoch, with one, three and seven tasks, all counts are those of the stores, lists of windows left out."""
    with fresh_log(on_disk=True) as log:
        application, after = Application(log, 11), {}
        for tasks in (1, 3, 7):
            application.planner = start(log.catalog, log.storage, compile(topology(), log), tasks=tasks)
            application.run_epoch()
            check_row_counts(log, "app")
            after[application.planner.committed_end().epoch] = counted(log)
        history = history_of(log.catalog, "app", 100).to_pylist()
        assert {one["epoch"]: dict(one["store_rows"]) for one in history if one["epoch"] in after} == after
        known = counted(log)
        assert set(STORES) <= set(known) and min(known[name] for name in STORES) > 0


def test_totals_that_nobody_knows_are_counted_again():
    """A log of an earlier version has no totals, and a start that converts rows lets go of them: the next epoch has all rows."""
    with fresh_log(on_disk=True) as log:
        application = Application(log, 12)
        application.run_epoch()
        with log.catalog.database.write() as transaction:
            ((metrics,),) = transaction.execute("SELECT metrics FROM application WHERE name = 'app'")
            known = {name: value for name, value in json.loads(metrics).items() if name not in (STORE_ROWS, SAMPLED_ROWS)}
            transaction.execute("UPDATE application SET metrics = ? WHERE name = 'app'", (json.dumps(known),))
        application.planner = start(log.catalog, log.storage, compile(topology(), log), tasks=2)
        application.run_epoch()
        check_row_counts(log, "app")


def test_a_large_table_is_counted_in_a_sample(monkeypatch):
    """A table of many rows is sampled, one of few is counted whole again; its topic makes others of it meanwhile."""
    monkeypatch.setattr(row_counting, "ALL_ROWS_MAX", 100)
    monkeypatch.setattr(row_counting, "ALL_ROWS_AGAIN", 40)
    monkeypatch.setattr("streamkit.engine.runs.planner.COUNTING_EPOCHS", 2)
    app = sk.Topology("app")
    app.table("users", store="users").to_stream().to("changes")
    with fresh_log(on_disk=True) as log:
        log.create_topic("users", "user bigint, v bigint", key="user", partitions=2)
        planner = start(log.catalog, log.storage, compile(app, log), tasks=3)
        found, rows = [], {}
        for first, last, is_deleted in [
            (0, 90, False),
            (90, 400, False),
            (0, 400, False),
            (0, 200, True),
            (300, 900, False),
            (10, 890, True),
            (5, 7, True),
            (0, 3, False),
        ]:
            append(
                log,
                "users",
                [
                    {"user": number, "v": None if is_deleted else number, "ts": 0, "deleted": is_deleted}
                    for number in range(first, last)
                ],
            )
            run_available(planner, stores=ON_DISK)
            found.append(check_row_counts(log, "app"))
            rows[planner.committed_end().epoch] = counted(log)["users"]
        history = history_of(log.catalog, "app", 100).to_pylist()
    assert set(found) == {0, 1} and found[0] == found[-1] == 0
    assert {one["epoch"]: dict(one["store_rows"])["users"] for one in history if one["epoch"] in rows} == rows
