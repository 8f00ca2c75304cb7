"""A store as it was behind earlier epochs, and what became of a key: against what the store showed when these epochs were the newest."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.names import changelog_topic
from tests.kit.engine_run import fresh_log
from tests.kit.store_layouts import STORES, WINDOWED, Application, comparable, model
from tests.kit.waiting import wait_until

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
    """`as_of` gives the rows of a key, or all; a number is an epoch, and a time means the newest epoch at it."""
    application, shown = kept
    first, last = (one(epoch for epoch, _ in shown) for one in (min, max))
    view = application.view("counts")
    times = {
        record.epoch: dt.datetime.fromtimestamp(record.committed_ms / 1000, dt.timezone.utc)
        for record in application.log.catalog.epochs.last(application.planner.application.id, 100)
    }
    for row in view.to_rows():
        key = {name: row[name] for name in view.key.names}
        ((*named,),) = comparable([key])
        for epoch in (first, last):
            rows = [one for one in shown[epoch, "counts"] if set(named) <= set(one)]
            for moment in (times[epoch], times[epoch].isoformat(), epoch, str(epoch)):
                assert comparable(view.as_of(moment, **key).to_pylist()) == rows
    assert view.as_of("2999-01-01").num_rows == len(shown[last, "counts"])


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def when_it_was_seen(row: dict[str, Any]) -> dict[str, Any]:
    """While an epoch goes on: at a millisecond behind its planning, and before its commit."""
    begun_ms = now_ms()
    wait_until(lambda: now_ms() > begun_ms)
    seen_ms = now_ms()
    wait_until(lambda: now_ms() > seen_ms)
    return {"n": row["n"], "seen_ms": seen_ms}


def test_an_epoch_that_goes_on_is_not_there_yet() -> None:
    """At a time between the planning and the commit of an epoch the store had the rows of the epoch before, and `history` says so."""
    app = sk.Topology("slow")
    numbers = app.stream("numbers", schema="n bigint", key="n").map_values(
        when_it_was_seen, "n bigint, seen_ms bigint", name="seen"
    )
    numbers.group_by("n").agg(seen_ms=F.max("seen_ms"), store="seen").to("seen_numbers")
    with fresh_log(on_disk=True) as log:
        log.create_topic("numbers", "n bigint", key="n", partitions=1)
        for number in range(3):
            with log.producer() as producer:
                producer.send("numbers", {"n": number})
            sk.run(app, log=log, engine="local", trigger="available_now").wait()
        view = log.store("slow", "seen")
        seen = {row["n"]: row["seen_ms"] for row in view.to_rows()}
        for number in (1, 2):
            moment = dt.datetime.fromtimestamp(seen[number] / 1000, dt.timezone.utc)
            assert sorted(view.as_of(moment)["n"].to_pylist()) == list(range(number))
            ((committed_at,),) = [view.history(number)["committed_at"].to_pylist()]
            assert committed_at > moment and number in view.as_of(committed_at)["n"].to_pylist()


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
                assert "compaction has left only the newest row" in str(error) and epoch < compacted
                continue
            known.append(epoch)
        assert {epoch for epoch in shown if epoch >= compacted} <= set(known) and min(shown) not in known


def test_stores_with_versions_have_both_times(kept: tuple[Application, Shown]) -> None:
    """`as_of` means an epoch there, too, and `valid_at` an event time, also behind an epoch: what was known of it then."""
    application, shown = kept
    moment = dt.datetime.fromtimestamp(application.time / 1000, dt.timezone.utc)
    for store in ("newest", "own_versions"):
        view = application.view(store)
        for epoch in {epoch for epoch, _ in shown}:
            assert comparable(view.as_of(epoch).to_pylist()) == shown[epoch, store]
            with view.at_epoch(epoch) as past:
                known = past.valid_at(moment)
                live = [row for row in past.to_rows() if not row.get("is_deleted")]
                newest = {tuple(map(str, (row[name] for name in view.key.names))) for row in live}
                assert 0 < known.num_rows <= len(newest)
        assert comparable(view.valid_at(moment).to_pylist()) == comparable(known.to_pylist())
        assert view.as_of("2999-01-01").num_rows == len(view.to_rows())


DAYS = 5


def noon_of(day: int) -> dt.datetime:
    return dt.datetime(2026, 1, day, 12, tzinfo=dt.timezone.utc)


@pytest.fixture
def rates() -> Iterator[Log]:
    """A table with a day of history, and a change of it in an epoch of each of some days."""
    with fresh_log(on_disk=True) as log:
        log.create_topic("rates", "cur string, rate double", key="cur")
        for day in range(1, DAYS + 1):
            app = sk.Topology("b")
            app.table("rates", versioned="1 day", store="rates")
            with log.producer() as producer:
                producer.send("rates", {"cur": "EUR", "rate": float(day), "_timestamp": noon_of(day)})
            sk.run(app, log=log, engine="local", trigger="available_now").wait()
        yield log


def test_history_is_counted_from_the_stream_time_of_the_epoch(rates: Log) -> None:
    """What was valid is known of each epoch as far back as it was known then, and no farther; all of it behind the epoch before the first."""
    view = rates.store("b", "rates")
    for epoch in range(DAYS + 1):
        with view.at_epoch(epoch) as past:
            for day in range(1, DAYS + 1):
                asked = noon_of(day) + dt.timedelta(hours=1)
                if epoch and asked < noon_of(epoch) - dt.timedelta(days=1):
                    with pytest.raises(ConfigError, match=f"goes back to 2026-01-0{epoch - 1}T12:00:00.000Z"):
                        past.valid_at(asked, "EUR")
                    continue
                wanted = [{"cur": "EUR", "rate": float(min(day, epoch))}] if epoch else []
                assert past.valid_at(asked, "EUR").to_pylist() == past.valid_at(asked).to_pylist() == wanted, (epoch, day)
    with view.at_now() as now, pytest.raises(ConfigError, match="goes back to 2026-01-04T12:00"):
        now.valid_at(noon_of(1))


def test_epochs_without_stream_times_of_their_own(rates: Log) -> None:
    """Of an epoch that has none in the catalog, as one that only brought rows forward, they are those of the epoch before it."""
    view = rates.store("b", "rates")
    with rates.catalog.database.write() as transaction:
        transaction.execute("UPDATE epoch SET metrics = json_remove(metrics, '$.stream_times') WHERE epoch = 3")
    with view.at_epoch(3) as past, pytest.raises(ConfigError, match="goes back to 2026-01-01T12:00"):
        past.valid_at(noon_of(1) - dt.timedelta(hours=1), "EUR")


def test_a_time_before_the_first_epoch(rates: Log) -> None:
    """It is said that there was no epoch yet, and when the first was; nothing is said of compaction."""
    with pytest.raises(ConfigError) as refused:
        rates.store("b", "rates").as_of("2020-01-01")
    (first, *_) = rates.catalog.epochs.last(rates.catalog.applications.get("b").id)
    time = f"{np.datetime64(first.committed_ms, 'ms')}Z"
    assert str(refused.value) == (
        f"found the time 2020-01-01T00:00:00.000Z; b had no epoch yet then: its first, epoch 1, is of {time}; expected that time or a later one"
    )
