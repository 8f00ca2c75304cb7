"""Each verb of a view against a list of rows, over stores of every layout: beside local stores, without them, and beside damaged ones."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.state.state_reader import StateReader
from streamkit.state.view import StoreView
from tests.kit.engine_run import fresh_log
from tests.kit.sampling import TAKES_ALL, in_turn, seeds
from tests.kit.store_layouts import (
    HISTORY_MS,
    HORIZON_MS,
    KEY,
    NUMBERS,
    STORES,
    TEXTS,
    WINDOWED,
    WITH_SESSIONS,
    Application,
    Row,
    check,
    comparable,
    key_place,
    model,
    ms,
    place,
)

MODES = ("local", "absent", "damaged", "behind")
EPOCHS = 2 if TAKES_ALL else 1  # that come beside a view


@pytest.fixture(scope="module")
def applications() -> Iterator[Callable[[str], Application]]:
    """The application of a mode, which is made when it is first asked for."""
    with contextlib.ExitStack() as logs:
        yield functools.cache(lambda mode: made(logs.enter_context(fresh_log(on_disk=True)), mode))


def made(log: Log, mode: str) -> Application:
    """After some epochs, with local stores, without, with such as are damaged, and with those of two epochs before."""
    application = Application(log, MODES.index(mode))
    for _ in range(2):
        application.run_epoch()
    stores, copy = Path(log.root, "stores"), Path(log.root, "copy")
    shutil.copytree(stores, copy)
    for _ in range(2):
        application.run_epoch()
    if mode != "local":
        shutil.rmtree(stores)
    if mode in ("damaged", "behind"):
        shutil.copytree(copy, stores)
    if mode == "damaged":
        files = list(stores.rglob("*.run"))
        assert files
        for path in files:
            path.write_bytes(path.read_bytes()[:-60] + b"\x01" * 60)
    return application


@pytest.fixture(params=MODES)
def application(request: Any, applications: Callable[[str], Application]) -> Application:
    return applications(request.param)


def over(stores: Sequence[str]) -> pytest.MarkDecorator:
    """Each store, and beside each mode: an ordinary run takes the modes in turn, torture each with each."""
    return pytest.mark.parametrize(("application", "store"), in_turn(MODES, stores), indirect=["application"])


def test_what_the_stores_hold(application: Application) -> None:
    """The rows that the other tests go by are those of the records."""
    counts: dict[Any, list[int]] = {}
    hourly: dict[Any, int] = {}
    for row in application.log.read("in").to_pylist():
        key = key_place(row)
        if set(key) != {(0,)}:
            counts.setdefault(key, []).append(row["v"])
            window = (key, ms(row["_timestamp"]) // 5000 * 5000)
            hourly[window] = hourly.get(window, 0) + 1
    found = {key_place(row): (row["c"], row["v"]) for row in model(application, "counts")}
    assert found == {key: (len(values), max(values)) for key, values in counts.items()}
    assert {(key_place(row), ms(row["window_start"])): row["c"] for row in model(application, "tumbling")} == hourly
    assert all(model(application, store) for store in STORES)


@over(STORES)
def test_count_and_the_first_rows(application: Application, store: str) -> None:
    """Rows are counted one by one, and the first ones are those with which all begin."""
    view = application.view(store)
    every = view.to_arrow().to_pylist()
    assert view.count() == len(every)
    for limit in (0, 1, 7, len(every), len(every) + 5):
        check(view.to_arrow(limit), every[:limit], f"to_arrow({limit})")
    assert comparable(view.to_rows(3)) == comparable(every[:3])
    assert len(view.to_pandas(4)) == 4


@over(STORES)
def test_many(application: Application, store: str) -> None:
    """Keys come in the order in which they are asked for, twice if so, and those without a row are left out."""
    view, rows = application.view(store), model(application, store)
    names = [*KEY]
    if store in WINDOWED:
        names += ["window_start", "window_end"] if store in WITH_SESSIONS else ["window_start"]
    chosen = random.Random(store)
    columns = pa.schema([view.schema.field(name) for name in names])
    for number in (0, 1, 40):
        picked = [chosen.choice(rows) for _ in range(number)]
        asked = [one for row in picked for one in rows_of_key(store, rows, [(name, place(row[name])) for name in names])]
        keys = [{name: row[name] for name in names} for row in picked]
        absent = [{**key, "s": "no such text"} for key in keys[:1]]
        if store in WINDOWED:
            absent += [{**key, "window_start": key["window_start"] + dt.timedelta(microseconds=500)} for key in keys[:1]]
        given: dict[str, Any] = {
            "dicts": [*keys, *absent],
            "tuples": [tuple(key.values()) for key in keys],
            "table": pa.Table.from_pylist(keys, columns),
            "batch": pa.RecordBatch.from_pylist(keys, columns),
        }
        for kind, some in given.items():
            check(view.many(some), asked, f"many of {number} {kind}")
        numbers = [row for row in keys if place(row["d"]) != (2,)]  # NaN is null in a DataFrame
        asked = [one for one in asked if place(one["d"]) != (2,)]
        check(view.many(pd.DataFrame(numbers, columns=names, dtype=object)), asked, f"many of {number} in a DataFrame")
        if number:  # a value of another type among them, in each way
            name, wrong = chosen.choice([("s", b"a"), ("s", 1), ("n", "1"), ("d", True), ("d", "1.5")])
            others = [wrong if chosen.random() < 0.5 else None for _ in keys[1:]] + [wrong]
            spoilt = [{**key, name: other} for key, other in zip(keys, others, strict=True)]
            types = [pa.field(name, pa.array([wrong]).type) if field.name == name else field for field in columns]
            for some in (
                spoilt,
                [tuple(key.values()) for key in spoilt],
                pa.Table.from_pylist(spoilt, pa.schema(types)),
                pd.DataFrame(spoilt, dtype=object),
                pa.Table.from_pylist(spoilt, pa.schema(types)).to_pandas(types_mapper=pd.ArrowDtype),
            ):
                with pytest.raises(ConfigError, match=f"found (the key|keys with) {name} .* the store '{store}' has {name} "):
                    view.many(some)
    if view.store.key.names != view.key.names and store not in WITH_SESSIONS:  # one column more tells rows apart
        names = [*view.store.key.names, *names[len(KEY) :]]
        picked = [chosen.choice(rows) for _ in range(20)]
        check(view.many([{name: row[name] for name in names} for row in picked]), picked, "many by all columns")


def rows_of_key(store: str, rows: Sequence[Row], key: Sequence[tuple[str, Any]]) -> list[Row]:
    """The rows that are found by a key, and a window: of versions the newest, if it is a value, in each key group of the store."""
    found = [row for row in rows if all(place(row[name]) == value for name, value in key)]
    return [row for row in found[-1:] if not row["is_deleted"]] if store == "own_versions" else found


@over(STORES)
def test_find_and_get(application: Application, store: str) -> None:
    """By the key as users declared it, of whatever store: `find` gives all rows of it, and `get` the first."""
    view, rows = application.view(store), model(application, store)
    chosen = random.Random(store)
    is_found_by_key = store not in WINDOWED or store in ("sliding", *WITH_SESSIONS)
    for _ in seeds(2):
        row = chosen.choice(rows)
        key = tuple(row[name] for name in KEY)
        own = rows_of_key(store, rows, list(zip(KEY, key_place(row))))
        if is_found_by_key:
            own = sorted(own, key=lambda one: ms(one["window_end"])) if store == "sliding" else own
            check(view.find(*key), own, f"find{key}")
            check(view.find(**dict(zip(KEY, key))), own, f"find by name {key}")
            assert comparable([view.get(*key) or {}]) == comparable(own[:1] or [{}])
        if store in WINDOWED:
            start = row["window_start"]
            of_window = [one for one in own if one["window_start"] == start]
            check(view.find(*key, window_start=start), of_window, f"find{key} at {start}")
            assert comparable([view.get(*key, window_start=ms(start)) or {}]) == comparable(of_window[:1])
            for moment in finer(ms(start)):
                assert view.get(*key, window_start=moment) is None, moment


def finer(time_ms: int) -> list[Any]:
    """Moments behind a millisecond and before the next, of all kinds that have them."""
    micro = dt.datetime.fromtimestamp(time_ms // 1000, dt.timezone.utc) + dt.timedelta(
        milliseconds=time_ms % 1000, microseconds=500
    )
    nano = pd.Timestamp(time_ms * 1_000_000 + 1, unit="ns", tz="UTC")
    return [micro, micro.isoformat(), nano, nano.to_datetime64(), nano.isoformat()]


@over([name for name in STORES if name not in WINDOWED])
def test_range_of_keys(application: Application, store: str) -> None:
    """Bounds of one, two or three columns: [start, end) as values compare, and a shorter bound stands before all that begin so."""
    view, rows = application.view(store), model(application, store)
    chosen = random.Random(store)
    for _ in seeds(6):
        bounds = []
        for _ in range(2):
            key = tuple(chosen.choice(rows)[name] for name in KEY)
            bounds.append(None if chosen.random() < 0.2 else key[: chosen.randrange(1, 4)])
        start, end = bounds
        limit = chosen.choice([None, 0, 1, 5])
        wanted = [
            row
            for row in rows
            if (start is None or key_place(row)[: len(start)] >= tuple(map(place, start)))
            and (end is None or key_place(row)[: len(end)] < tuple(map(place, end)))
        ]
        check(view.range(start, end, limit=limit), wanted[:limit], f"range({start!r}, {end!r}, limit={limit})")
    check(view.range({"s": "a"}, {"s": "b"}), view.range("a", "b").to_pylist(), "bounds by name")
    for every in (view.range(), view.range((), ()), view.range({}, None), view.prefix()):
        check(every, rows, "bounds of no columns")


@over(STORES)
def test_prefix(application: Application, store: str) -> None:
    """By the values of the first key columns, and by the text with which the next one begins."""
    view, rows = application.view(store), model(application, store)
    chosen = random.Random(store)
    for count in (1, 2, 3, 1, 2):
        first = tuple(chosen.choice(rows)[name] for name in KEY)[:count]
        wanted = [row for row in rows if key_place(row)[:count] == tuple(map(place, first))]
        check(view.prefix(*first), wanted, f"prefix{first!r}")
        check(view.prefix(*first, limit=2), wanted[:2], f"prefix{first!r}, the first")
        check(view.prefix(**dict(zip(KEY, first))), wanted, f"prefix of names {first!r}")
    for text in ("", "a", "a\x00", "漢", "z"):
        wanted = [row for row in rows if row["s"] is not None and row["s"].startswith(text)]
        check(view.prefix(starts_with=text), wanted, f"prefix(starts_with={text!r})")


def _bounds(chosen: random.Random, rows: Sequence[Row]) -> tuple[int | None, int | None]:
    """Bounds of time, in ms: open, anywhere, or just where a window starts or ends."""
    moments = [ms(chosen.choice(rows)[name]) for name in ("window_start", "window_end")]
    start, end = (chosen.choice([None, chosen.randrange(-1000, HORIZON_MS), *moments]) for _ in range(2))
    return start, end


def given(chosen: random.Random, bound: int | None) -> tuple[Any, int | None]:
    """A bound as users give it, which may be finer than a millisecond, and the first millisecond that is not before it."""
    if bound is None or chosen.random() < 0.5:
        return bound, bound
    return chosen.choice(finer(bound)), bound + 1


@over(WINDOWED)
def test_windows(application: Application, store: str) -> None:
    """Of a key and of all, by their starts; `range` gives the same of all."""
    view, rows = application.view(store), model(application, store)
    chosen = random.Random(store)
    for _ in seeds(3):
        (given_start, start), (given_end, end) = (given(chosen, bound) for bound in _bounds(chosen, rows))
        within = [
            row
            for row in rows
            if (start is None or ms(row["window_start"]) >= start) and (end is None or ms(row["window_start"]) < end)
        ]
        check(view.windows(start=given_start, end=given_end), within, f"windows({start}, {end})")
        check(view.range(given_start, given_end, limit=6), within[:6], f"range({start}, {end})")
        key = {name: chosen.choice(rows)[name] for name in KEY} if chosen.random() < 0.1 else dict(zip(KEY, key_of(chosen, rows)))
        own = [row for row in within if key_place(row) == tuple(place(key[name]) for name in KEY)]
        check(view.windows(*key.values(), start=given_start, end=given_end), own, f"windows{tuple(key.values())} {start} {end}")
        check(view.windows(**key, start=given_start, end=given_end, limit=2), own[:2], f"windows of {key}, the first")


def key_of(chosen: random.Random, rows: Sequence[Row]) -> tuple[Any, ...]:
    row = chosen.choice(rows)
    return tuple(row[name] for name in KEY)


@over(WITH_SESSIONS)
def test_sessions(application: Application, store: str) -> None:
    """Those that have a moment in [start, end), of a key and of all."""
    view, rows = application.view(store), model(application, store)
    chosen = random.Random(store)
    for _ in seeds(3):
        (given_start, start), (given_end, end) = (given(chosen, bound) for bound in _bounds(chosen, rows))
        within = [
            row
            for row in rows
            if (start is None or ms(row["window_end"]) >= start) and (end is None or ms(row["window_start"]) < end)
        ]
        check(view.sessions(start=given_start, end=given_end), within, f"sessions({start}, {end})")
        key = key_of(chosen, rows)
        own = [row for row in within if key_place(row) == tuple(map(place, key))]
        check(view.sessions(*key, start=given_start, end=given_end), own, f"sessions{key} {start} {end}")


def test_valid_at_of_a_table(application: Application) -> None:
    """The newest record of each key up to a time, unless it deletes; times to which the history does not go back are refused."""
    view = application.view("newest")
    reached = application.versions[-1][1]
    chosen = random.Random(1)
    times = [chosen.randrange(max(0, reached - HISTORY_MS), reached + 1) for _ in seeds(6)]
    exact = [moment for _, moment in application.versions if moment >= reached - HISTORY_MS]
    for time in [*times, *(chosen.choice(exact) for _ in seeds(4)), reached, reached + 10_000]:
        newest: dict[Any, Row] = {}
        for row, moment in application.versions:
            if moment <= time:
                newest[key_place(row)] = row
        rows = [
            {name: row[name] for name in (*KEY, "v")}
            for key, row in sorted(newest.items())
            if not row.get("deleted") and set(key) != {(0,)}
        ]
        found = view.valid_at(time)
        check(found, rows, f"valid_at({time})")
        check(view.valid_at(time, limit=3), rows[:3], f"valid_at({time}), the first")
        for row in [chosen.choice(application.versions)[0] for _ in range(4)]:
            own = [one for one in rows if key_place(one) == key_place(row)]
            check(view.valid_at(time, *(row[name] for name in KEY)), own, f"valid_at({time}) of {row}")
    with pytest.raises(ConfigError, match=r"the history of the store 'newest' goes back to "):
        view.valid_at(reached - HISTORY_MS - 1)


def test_valid_at_of_a_processors_versions(application: Application) -> None:
    """The newest version of each key up to a time, unless it ends the one before."""
    view, rows = application.view("own_versions"), model(application, "own_versions")
    reached = max(ms(row["valid_from"]) for row in rows)
    chosen = random.Random(2)
    exact = [ms(row["valid_from"]) for row in rows if ms(row["valid_from"]) >= reached - HISTORY_MS]
    for time in [*(chosen.randrange(max(0, reached - HISTORY_MS), reached + 1) for _ in seeds(6)), *exact[-4:]]:
        begun = [row for row in rows if ms(row["valid_from"]) <= time]
        newest = {key_place(row): row for row in begun}
        wanted = [row for _, row in sorted(newest.items()) if not row["is_deleted"]]
        check(view.valid_at(time), wanted, f"valid_at({time})")
        row = chosen.choice(rows)
        own = [one for one in wanted if key_place(one) == key_place(row)]
        check(view.valid_at(time, **{name: row[name] for name in KEY}), own, f"valid_at({time}) of {row}")


CALLS: dict[str, Callable[[StoreView], Any]] = {
    "find": lambda view: view.find("a", 0, 0.0).to_pylist(),
    "many": lambda view: view.many([(s, n, 0.0) for s in TEXTS for n in NUMBERS]).to_pylist(),
    "range": lambda view: view.range("a").to_pylist(),
    "prefix": lambda view: view.prefix("a").to_pylist(),
    "count": lambda view: view.count(),
    "to_arrow": lambda view: view.to_arrow().to_pylist(),
}


@pytest.mark.parametrize("application", MODES if TAKES_ALL else ("absent", "behind"), indirect=True)
def test_calls_at_one_moment_see_one_epoch(application: Application) -> None:
    """Whatever is committed in between, and whether stores are read then for the first time; a view of now sees it."""
    view = application.view("own")
    with view.at_now() as fixed:
        position = fixed.position
        before = {name: comparable(found) if isinstance(found := call(view), list) else found for name, call in CALLS.items()}
        for _ in range(EPOCHS):
            application.run_epoch()
        after = {name: comparable(found) if isinstance(found := call(fixed), list) else found for name, call in CALLS.items()}
        assert after == before
        assert fixed.position == position
    assert view.position.epoch > position.epoch
    assert comparable(view.to_rows()) == comparable(application.view("own").to_rows())
    newest = application.view("newest")
    with newest.at_now() as fixed:
        time = application.time
        expected = fixed.valid_at(time).to_pylist()
        application.run_epoch()
        check(fixed.valid_at(time), expected, "valid_at")
    application.run_epoch()


@pytest.mark.parametrize("application", MODES if TAKES_ALL else ("absent", "behind"), indirect=True)
def test_a_view_that_is_kept_sees_each_epoch(application: Application) -> None:
    """What a view has opened is brought forward: look-ups of all keys, call after call, and others' deletions too."""
    kept = {store: application.view(store) for store in STORES}
    for _ in range(1 + EPOCHS):
        for store, view in kept.items():
            rows = model(application, store)
            key = key_of(random.Random(application.time), rows)
            own = [row for row in rows if key_place(row) == tuple(map(place, key))]
            check(view.prefix(*key), own, f"prefix of {store}")
            if store in WINDOWED:
                check(view.windows(*key), own, f"windows of {store}")
            elif store in ("counts", "newest"):
                check(view.find(*key), own, f"find of {store}")
        application.run_epoch(20)


def test_a_reader_keeps_little(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many keys are looked up, a bounded number of parts of changelogs is kept."""
    monkeypatch.setattr("streamkit.state.state_reader.KEPT_PARTS", 3)
    view = application.view("counts")
    for row in view.to_rows():
        assert view.get(*(row[name] for name in KEY)) is not None
    assert isinstance(view.reader, StateReader)
    assert len(view.reader._other) <= 3


WRONG: dict[str, tuple[str, Callable[[StoreView], Any], str]] = {
    "windows of none": ("counts", lambda view: view.windows("a"), "has no windows; it is read by get, find, many"),
    "windows of a table": ("newest", lambda view: view.windows("a"), "has no windows; .*, as_of"),
    "sessions of windows": ("tumbling", lambda view: view.sessions("a", 1, 1.0), "has no sessions; .*, windows, as_of, history$"),
    "as_of before all epochs": (
        "counts",
        lambda view: view.as_of("1935-01-01"),
        r"found the time 1935-01-01T00:00:00.000Z; .* had no epoch yet then: its first, epoch 1, is of .*Z",
    ),
    "as_of an epoch that is not there": (
        "newest",
        lambda view: view.as_of(1_769_860_800_000),
        "found epoch 1769860800000 of app; .* knows the epochs",
    ),
    "as_of before all numbers": ("counts", lambda view: view.as_of(-1), "as_of=-1; expected a whole number from 0"),
    "as_of nothing that is a moment": (
        "newest",
        lambda view: view.as_of("noon"),
        "found as_of='noon'; expected the number of an epoch, or a time",
    ),
    "valid_at without versions": (
        "counts",
        lambda view: view.valid_at(0),
        "keeps no versions, .*; it is read by get, .*, as_of, history$",
    ),
    "valid_at of windows": ("own_windows", lambda view: view.valid_at("2026-01-01", start=0), "keeps no versions"),
    "valid_at by both": ("newest", lambda view: view.valid_at(0, "a", start="b"), "by how they begin, or by start= and end="),
    "valid_at no time": ("newest", lambda view: view.valid_at("noon"), "found the time 'noon'"),
    "part of a key": (
        "tumbling",
        lambda view: view.windows("a"),
        "found the key 'a'; .* key columns s, n, d: expected all of them",
    ),
    "a key in a tuple": (
        "tumbling",
        lambda view: view.windows(("a", 1, 1.0)),
        r"found the key \('a', 1, 1.0\); .* expected a value for each, apart and not in one: 'a', 1, 1.0",
    ),
    "a key of another length in a tuple": ("tumbling", lambda view: view.windows(("a", 1)), "expected all of them"),
    "not the first": ("counts", lambda view: view.prefix(n=1), "found the key n=1; .* expected the first of them"),
    "too many": ("counts", lambda view: view.prefix(1, 2, 3, 4), "expected the first of them"),
    "text for a number": (
        "counts",
        lambda view: view.prefix("a", starts_with="b"),
        "the next key column .* is n bigint; expected text",
    ),
    "a bound of another type": ("counts", lambda view: view.range(1.5), "found the key s = 1.5 .*expected a value of that type"),
    "no moment": ("tumbling", lambda view: view.range("yesterday"), "found the time 'yesterday'"),
    "a limit": ("counts", lambda view: view.range(limit=-1), "limit=-1; expected a whole number"),
    "another column": ("counts", lambda view: view.many([{"s": "a"}]), "found keys with the columns s; .* is asked for s, n, d"),
    "too few values": ("counts", lambda view: view.many(["a"]), "found the key 'a', of 1 values; .* is asked for s, n, d"),
    "windows without a start": ("tumbling", lambda view: view.many([("a", 1, 1.0)]), "asked for s, n, d, window_start"),
    "another type": (
        "counts",
        lambda view: view.many([("a", "b", 1.0)]),
        r"found the key n = 'b' \(str\); .* has n bigint: expected a",
    ),
    "bytes for a text": ("tumbling", lambda view: view.windows(b"a", 1, 1.0), "found the key s = b'a' .bytes.; .* has s string"),
    "bytes for the text of a session": ("sessions", lambda view: view.sessions(b"a", 1, 1.0), "has s string"),
    "a number for a text in history": (
        "newest",
        lambda view: view.valid_at(0, 1, 1, 1.0),
        "found the key s = 1 .int.; .* has s string",
    ),
    "true for a number": ("counts", lambda view: view.get("a", 1, True), r"found the key d = True \(bool\); .* has d double"),
    "no keys": ("counts", lambda view: view.many("abc"), "found the keys 'abc'"),
    "a dict for keys": (
        "counts",
        lambda view: view.many({"s": "a"}),
        r"asked for a list of dicts with s, n, d, as in many\(\[\{'s': 'a'\}\]",
    ),
    "a session by more": ("own_sessions", lambda view: view.get("a", 1), "has the key columns s, n, d: expected all of them"),
    "duplicates without a window": ("own_duplicates", lambda view: view.get("a", 1, 1.0), "is windowed; expected window_start="),
    "versions of a window": (
        "own_versions",
        lambda view: view.get("a", 1, 1.0, window_start=0),
        "not windowed; expected no window_start=",
    ),
}


@pytest.mark.parametrize(("application", "case"), in_turn(MODES, [*WRONG]), indirect=["application"])
def test_what_does_not_fit_is_said(application: Application, case: str) -> None:
    """Stores, columns, values and bounds of another kind are named with what is expected."""
    store, call, message = WRONG[case]
    with pytest.raises(ConfigError, match=message):
        call(application.view(store))


@over(STORES)
def test_what_fits_is_told(application: Application, store: str) -> None:
    """A verb that does not fit a store lists those that do: all that do not raise that error."""
    view, row = application.view(store), model(application, store)[0]
    key, start = tuple(row[name] for name in KEY), row["window_start"] if store in WINDOWED else None
    names = [*KEY] + (["window_start"] if store in WINDOWED else []) + (["window_end"] if store in WITH_SESSIONS else [])
    calls: dict[str, Callable[[], Any]] = {
        "get": lambda: view.get(*key, window_start=start), "find": lambda: view.find(*key, window_start=start),
        "many": lambda: view.many([{name: row[name] for name in names}]), "range": view.range, "prefix": view.prefix,
        "count": view.count, "to_arrow": view.to_arrow, "windows": view.windows, "sessions": view.sessions,
        "valid_at": lambda: view.valid_at(2**42), "as_of": lambda: view.as_of("2999-01-01"), "history": lambda: view.history(*key),
    }  # fmt: skip
    fitting, told = [], set()
    for verb, call in calls.items():
        try:
            call()
            fitting.append(verb)
        except ConfigError as error:
            told.add(str(error).rpartition("it is read by ")[2])
    assert told == ({", ".join(fitting)} if len(fitting) < len(calls) else set())


def test_a_null_key_has_no_row(application: Application) -> None:
    """A key without any value is looked up like any other, and never found."""
    for store in ("counts", "newest"):
        view = application.view(store)
        assert view.get(None, None, None) is None
        assert view.many([(None, None, None)]).num_rows == 0
    assert application.view("sessions").sessions(None, None, None).num_rows == 0
