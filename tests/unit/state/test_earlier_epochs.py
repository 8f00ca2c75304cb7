"""A store as it was behind earlier epochs, and what became of a key: against what the store showed when these epochs were the newest."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.names import changelog_topic
from tests.kit.engine_run import fresh_log
from tests.kit.store_layouts import STORES, WINDOWED, WITH_SESSIONS, Application, comparable, model

EPOCHS = 5
Shown = dict[tuple[int, str], list[Any]]


@pytest.fixture(scope="module")
def kept() -> Iterator[tuple[Application, Shown]]:
    """An application after some epochs, and what each store showed behind each of them."""
    with fresh_log(on_disk=True) as log:
        made, shown = Application(log, 7), Shown()
        for _ in range(EPOCHS):
            made.run_epoch()
            epoch = log.catalog.applications.get("app").epoch
            shown |= {(epoch, store): comparable(model(made, store)) for store in STORES}
        yield made, shown


def test_every_store_behind_every_epoch(kept: tuple[Application, Shown]) -> None:
    """All its rows, and those of a key, are the ones that it showed then; local stores are ahead, and are not read."""
    application, shown = kept
    assert len({tuple(map(str, rows)) for rows in shown.values()}) > EPOCHS
    for (epoch, store), rows in shown.items():
        with application.view(store).at_epoch(epoch) as past:
            assert comparable(model_of(past, application, store)) == rows, (epoch, store)
            assert past.count() == len(rows)
    with application.view("counts").at_epoch(0) as past:
        assert past.count() == 0


def model_of(view: Any, application: Application, store: str) -> list[Any]:
    class Fixed:
        def view(self, _: str) -> Any:
            return view

    return model(Fixed(), store)  # type: ignore[arg-type]


def test_a_key_behind_an_epoch(kept: tuple[Application, Shown]) -> None:
    """`as_of` gives the rows of a key, or all; a time means the newest epoch at it."""
    application, shown = kept
    first, last = (one(epoch for epoch, _ in shown) for one in (min, max))
    view = application.view("counts")
    times = {
        record.epoch: record.timestamp_ms
        for record in application.log.catalog.epochs.last(application.planner.application.id, 100)
    }
    for row in view.to_rows():
        key = {name: row[name] for name in view.key.names}
        ((*named,),) = comparable([key])
        for epoch in (first, last):
            rows = [one for one in shown[epoch, "counts"] if set(named) <= set(one)]
            assert comparable(view.as_of(times[epoch], **key).to_pylist()) == rows
    assert view.as_of("2999-01-01").num_rows == len(shown[last, "counts"])


def test_the_changes_of_a_key_lead_to_its_row(kept: tuple[Application, Shown]) -> None:
    """The newest change of each row of a key is its row, or a deletion where there is none; epochs ascend, and each has its time."""
    application, _ = kept
    for store in ("counts", "newest", *WINDOWED[:5]):
        view = application.view(store)
        rows = view.to_rows()
        assert rows
        for key in {tuple(row[name] for name in view.key.names) for row in rows}:
            found = view.history(*key).to_pylist()
            epochs = [change["epoch"] for change in found]
            assert epochs == sorted(epochs) and None not in epochs
            assert all(change["committed_at"] is not None for change in found)
            newest: dict[Any, Any] = {}
            for change in found:
                row = {name: value for name, value in change.items() if name not in ("epoch", "committed_at", "is_deleted")}
                newest[row.get("window_start"), row.get("window_end")] = None if change["is_deleted"] else row
            own = [
                row
                for row in rows
                if comparable([{n: row[n] for n in view.key.names}]) == comparable([dict(zip(view.key.names, key))])
            ]
            kept_rows = [row for row in newest.values() if row is not None]
            order = lambda row: (str(row.get("window_end")), str(row.get("window_start")))  # noqa: E731
            assert comparable(sorted(kept_rows, key=order)) == comparable(sorted(own, key=order)), store
    assert application.view("counts").history("nobody", 1, 1.0).num_rows == 0


def test_what_cannot_be_asked(kept: tuple[Application, Shown]) -> None:
    """An epoch that is not there yet, none or two of what names one, and something that is no epoch."""
    application, _ = kept
    view = application.view("counts")
    for asked in (
        {"epoch": 10_000},
        {},
        {"epoch": 1, "time": "2026-01-01"},
        {"epoch": -1},
        {"epoch": "1"},
        {"time": "1971-01-01"},
    ):
        with pytest.raises(ConfigError), view.at_epoch(**asked):
            pass


def test_a_view_of_an_earlier_epoch_stays_there(kept: tuple[Application, Shown]) -> None:
    """The history of a key ends with it; what would lead to another epoch, or tell how far it had read, is refused."""
    application, shown = kept
    view, first = application.view("counts"), min(epoch for epoch, _ in shown)
    key = {name: view.to_rows()[0][name] for name in view.key.names}
    with view.at_epoch(first) as past:
        changes = past.history(**key).to_pylist()
        assert [one["epoch"] for one in changes] == [
            one["epoch"] for one in view.history(**key).to_pylist() if one["epoch"] <= first
        ]
        for asked in (lambda: past.as_of("2999-01-01"), lambda: past.position, lambda: past.at_least({"in": {0: 1}})):
            with pytest.raises(ConfigError):
                asked()
        for other in (past.at_now, lambda: past.at_epoch(first)):
            with pytest.raises(ConfigError), other():
                pass


def test_a_start_that_converts_rows_ends_what_is_known(tmp_path: Any) -> None:
    """Behind an aggregate that is added, a column that is added, or a store that is filled again, only what was shown since is shown."""
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("t", "k string, v bigint", key="k", partitions=1)
        shown: dict[int, dict[str, Any]] = {}

        def go(with_sum: bool, rows: list[dict[str, Any]], rebuild: tuple[str, ...] = ()) -> None:
            app = sk.Topology("a")
            table = app.table("t", store="tab")
            sums: dict[str, Any] = {"s": F.sum("v")} if with_sum else {}
            table.to_stream().group_by("k").agg(n=F.count("*"), **sums, store="agg")
            with log.producer() as producer:
                producer.send_batch("t", rows)
            sk.run(app, log=log, engine="local", trigger="available_now", rebuild=rebuild).wait()
            epoch = log.catalog.applications.get("a").epoch
            shown[epoch] = {store: sorted(map(str, log.store("a", store).to_rows())) for store in ("tab", "agg")}

        def check(store: str) -> list[int]:
            known = []
            for epoch, rows in shown.items():
                with suppress(ConfigError), log.store("a", store).at_epoch(epoch) as past:
                    assert sorted(map(str, past.to_rows())) == rows[store], (store, epoch)
                    known.append(epoch)
            assert max(shown) in known
            changes = log.store("a", store).history("a").to_pylist()
            assert changes and not changes[-1]["is_deleted"]
            return known

        go(False, [{"k": "a", "v": 1}, {"k": "b", "v": 1}])
        go(False, [{"k": "a", "v": 2}])
        assert check("tab") == check("agg") == sorted(shown)
        go(True, [])
        check("agg")
        go(True, [{"k": "a", "v": 3}])
        check("agg")
        log.alter_topic("t", schema="k string, v bigint, w string")
        go(True, [])
        check("tab")
        go(True, [{"k": "a", "v": 4, "w": "x"}])
        check("tab")
        go(True, [], rebuild=("agg", "tab"))
        check("agg")
        go(True, [{"k": "a", "v": 5, "w": "y"}])
        assert len(check("agg")) < len(shown)


def changing(log: Log, values: list[dict[str, Any]]) -> None:
    """Let the application take some changes of its table, in an epoch of their own."""
    app = sk.Topology("shop")
    prices = app.table("prices", store="prices")
    prices.group_by("kind").agg(n=F.count("*"), store="kinds").to("kinds")
    with log.producer() as producer:
        producer.send_batch("prices", values)
    sk.run(app, log=log, engine="local", trigger="available_now").wait()


def test_compaction_bounds_how_far_back(tmp_path: Any) -> None:
    """Behind a compaction what is known is exact, and what is not known any more is said; deletions count, and restarts do not matter."""
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("prices", "name string, kind string, price int", key="name", partitions=2)
        shown: dict[int, Any] = {}

        def note() -> None:
            epoch = log.catalog.applications.get("shop").epoch
            shown[epoch] = [sorted(map(str, log.store("shop", store).to_rows())) for store in ("prices", "kinds")]

        for number in range(6):
            rows = [{"name": f"p{one}", "kind": f"k{one % 2}", "price": number * 10 + one} for one in range(number, number + 3)]
            changing(log, [*rows, {"name": f"p{number - 1}", "_deleted": True}] if number else rows)
            note()
            if number == 3:
                compacted = log.catalog.applications.get("shop").epoch
                for store in ("prices", "kinds"):
                    log.compact(changelog_topic("shop", store))
        known = []
        for epoch, stores in shown.items():
            try:
                for store, rows in zip(("prices", "kinds"), stores, strict=True):
                    with log.store("shop", store).at_epoch(epoch) as past:
                        assert sorted(map(str, past.to_rows())) == rows, (epoch, store)
            except ConfigError as error:
                assert "compaction has left the newest row" in str(error) and epoch < compacted
                continue
            known.append(epoch)
        assert {epoch for epoch in shown if epoch >= compacted} <= set(known) and min(shown) not in known


def test_a_processors_history_goes_by_its_own_times(kept: tuple[Application, Shown]) -> None:
    """`as_of` of a versioned store means event time, as before, and no epoch."""
    application, _ = kept
    assert set(WITH_SESSIONS) & set(STORES)
    moment = dt.datetime.fromtimestamp(application.time / 1000, dt.timezone.utc)
    assert application.view("own_versions").as_of(moment).num_rows
