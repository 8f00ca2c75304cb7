"""The bounds of what the stores of a processor give: both ends are included, and what retention has ended is gone at once."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest

import streamkit as sk
from streamkit.engine.processors.store_time import milliseconds
from streamkit.errors import EvaluationError
from streamkit.names import changelog_topic
from streamkit.plan.processing import RefusedCallError
from streamkit.state.row import decode_rows
from streamkit.testing.driver import TopologyTestDriver

CUTS = pytest.mark.parametrize("batching", ["one", "all"])
COLUMNS: Any = {"key": "k string", "value": "v int"}
Step = tuple[int, Callable[[Any], Any]]


def answers(store: Any, batching: Any, *steps: Step) -> list[Any]:
    """What a store gives in steps, each with the time of its record; steps that give None only write."""
    return asked(store, batching, *steps)[0]


def asked(store: Any, batching: Any, *steps: Step) -> tuple[list[Any], int, int]:
    """As `answers`; then how many rows the store has in the end, and how many were too late for it."""
    found: dict[int, Any] = {}

    def ask(record: Any, context: Any) -> None:
        answer = steps[record["step"]][1](context.store(store.name))
        if answer is not None:
            found[record["step"]] = answer

    app = sk.Topology("asked")
    app.stream("in", schema="id string, step int", key="id").process(ask, stores=[store])
    with TopologyTestDriver(app, batching=batching) as driver:
        driver.pipe("in", [{"id": "a", "step": number, "_timestamp": moment(at)} for number, (at, _) in enumerate(steps)])
        rows, expired = driver.store(store.name).to_arrow().num_rows, driver.metrics().get("expired", 0)
    return [found[number] for number in sorted(found)], rows, expired


def moment(milliseconds_: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds_ / 1000, dt.timezone.utc)


@CUTS
def test_a_range_of_keys_includes_both_ends(batching: str) -> None:
    """A range has its first and its last key, an open end has no bound, and the reverse has the same entries the other way."""

    def keys(entries: list[Any]) -> str:
        return "".join(one.key["k"] for one in entries)

    def read(store: Any) -> list[str]:
        ends = [("b", "d"), ("b", None), (None, "b"), ("bb", "c"), ("d", "b"), ("e", "e")]
        return [keys(ways(*end)) for ways in (store.range, store.reverse_range) for end in ends] + [keys(store.reverse_all())]

    store = sk.key_value_store("s", **COLUMNS)
    (found,) = answers(store, batching, *((0, put(name, {"v": 1})) for name in "abcde"), (0, read))
    forward = ["bcd", "bcde", "ab", "c", "", "e"]
    assert found == [*forward, *(one[::-1] for one in forward), "edcba"]


def put(*given: Any) -> Callable[[Any], None]:
    """A step that puts."""

    def step(store: Any) -> None:
        store.put(*given)

    return step


NULL_KEYS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "put": (sk.key_value_store("s", **COLUMNS), lambda store: store.put(None, {"v": 1})),
    "put of a dict": (sk.key_value_store("s", **COLUMNS), lambda store: store.put({"k": None}, {"v": 1})),
    "put of a deletion": (sk.key_value_store("s", **COLUMNS), lambda store: store.put(None, None)),
    "put if absent": (sk.key_value_store("s", **COLUMNS), lambda store: store.put_if_absent(None, {"v": 1})),
    "put all": (sk.key_value_store("s", **COLUMNS), lambda store: store.put_all([("a", {"v": 1}), (None, {"v": 1})])),
    "two columns": (
        sk.key_value_store("s", key="k string, l int", value="v int"),
        lambda store: store.put({"k": None, "l": None}, {"v": 1}),
    ),
    "window": (
        sk.window_store("s", **COLUMNS, size="10 ms", retention="50 ms"),
        lambda store: store.put(None, {"v": 1}, 0),
    ),
    "session": (sk.session_store("s", **COLUMNS, retention="50 ms"), lambda store: store.put(None, 0, 1, {"v": 1})),
    "versioned": (sk.versioned_store("s", **COLUMNS, history_retention="50 ms"), lambda store: store.put(None, {"v": 1}, 0)),
}


@pytest.mark.parametrize("case", NULL_KEYS)
def test_nothing_is_put_under_a_null_key(case: str) -> None:
    """A key whose columns are all null is none, so stores of all kinds refuse to keep anything under it; a part of a key may be null."""
    store, step = NULL_KEYS[case]
    with pytest.raises(
        EvaluationError, match=r"the key of the store 's' has the columns .*a null key, under which nothing can be put"
    ):
        answers(store, "one", (0, step))
    two = sk.key_value_store("s", key="k string, l int", value="v int")
    assert answers(two, "one", (0, put(("a", None), {"v": 1})), (0, lambda store: store.get(("a", None)))) == [{"v": 1}]
    assert answers(sk.key_value_store("s", **COLUMNS), "one", (0, lambda store: [store.get(None), store.delete(None)])) == [
        [None, None]
    ]


@CUTS
def test_windows_from_one_start_to_another_include_both(batching: str) -> None:
    """Both bounds of the starts are included, for one key and for all; of duplicates `get` gives the one that was put last."""
    store = sk.window_store("s", **COLUMNS, size="10 ms", retention="50 ms", retain_duplicates=True)

    def read(store: Any) -> list[Any]:
        some = [store.fetch("a", *ends) for ends in ((10, 20), (11, 20), (10, 19), (20, 20), (None, 10), (11, None), (20, 10))]
        everything = store.fetch_all(20, 20)
        return [[one.start for one in entries] for entries in some] + [[one.key["k"] for one in everything], store.get("a", 10)]

    puts = [(20, put(key, {"v": v}, start)) for key, v, start in (("a", 1, 10), ("a", 2, 10), ("a", 3, 20), ("b", 4, 20))]
    (found,) = answers(store, batching, *puts, (20, read))
    assert found == [[10, 10, 20], [20], [10, 10], [20], [10, 10], [20], [], ["a", "b"], {"v": 2}]


@CUTS
def test_a_window_is_gone_in_the_epoch_in_which_its_time_is_over(batching: str) -> None:
    """Stream time that reaches start plus retention hides the window from all reads, before the epoch ends that deletes it."""

    def read(store: Any) -> list[Any]:
        return [store.get("a", 10), len(store.fetch("a", 10, 10)), len(store.fetch("a", 0, 30)), len(store.all())]

    store = sk.window_store("s", **COLUMNS, size="10 ms", retention="20 ms")
    found = answers(store, batching, (10, put("a", {"v": 1}, 10)), (29, read), (30, read))
    assert found == [[{"v": 1}, 1, 1, 1], [None, 0, 0, 0]]


@CUTS
def test_sessions_near_a_time_include_those_that_touch_it(batching: str) -> None:
    """A session is found if it ends at the earliest end or later, and starts at the latest start or earlier."""

    def read(store: Any) -> list[Any]:
        ends = [(20, 20), (21, 20), (20, 19), (None, 19), (21, None), (None, None)]
        found = [[one.start for one in store.find_sessions("a", *end)] for end in ends]
        return [*found, [one.start for one in store.fetch("a", reverse=True)], store.get("a", 10, 20)]

    puts = [(20, put("a", 10, 20, {"v": 1})), (20, put("a", 20, 30, {"v": 2})), (20, put("b", 20, 20, {"v": 3}))]
    (found,) = answers(sk.session_store("s", **COLUMNS, retention="1 s"), batching, *puts, (20, read))
    assert found == [[10, 20], [20], [10], [10], [20], [10, 20], [20, 10], {"v": 1}]


@CUTS
def test_a_session_is_gone_when_its_retention_is_over(batching: str) -> None:
    """Stream time that reaches end plus retention hides a session from all reads, and such a one is not taken, but counted."""

    def read(store: Any) -> list[Any]:
        return [len(store.find_sessions("a", 0, 30)), len(store.fetch("a")), len(store.all()), store.get("a", 10, 20)]

    store = sk.session_store("s", **COLUMNS, retention="20 ms")
    early, late = (20, put("a", 10, 20, {"v": 1})), [(40, put("a", 5, end, {"v": end})) for end in (20, 21)]
    found, rows, expired = asked(store, batching, early, (39, read), (40, read), *late, (40, read))
    assert found == [[1, 1, 1, {"v": 1}], [0, 0, 0, None], [1, 1, 1, None]]
    assert (rows, expired) == (1, 1)


@CUTS
def test_versions_of_a_time_include_those_valid_at_its_ends(batching: str) -> None:
    """A version counts if it is valid at some time of the range, both ends included: one that ends at its begin does not."""

    def read(store: Any) -> list[Any]:
        ends = [
            (20, 30),
            (19, 30),
            (20, 29),
            (None, 9),
            (None, 10),
            (40, None),
            (None, None),
            (40, 30),
            (35, 31),
            (25, 15),
            (9, 1),
        ]
        found = [[one.timestamp for one in store.get_range("a", *end)] for end in ends]
        return [*found, [one.timestamp for one in store.get_range("a", order="descending")]]

    puts = [(40, put("a", {"v": at}, at)) for at in (10, 20, 30)]
    (found,) = answers(sk.versioned_store("s", **COLUMNS, history_retention="1 s"), batching, *puts, (40, read))
    assert found == [[20, 30], [10, 20, 30], [20], [], [10], [30], [10, 20, 30], [], [], [], [], [30, 20, 10]]


@CUTS
def test_versions_end_with_their_history(batching: str) -> None:
    """Ranges do not look behind the history; the next put of a key deletes its versions that were over before, and no other."""

    def read(store: Any) -> list[int]:
        return [one.timestamp for one in store.get_range("a", 0, 100)]

    store = sk.versioned_store("s", **COLUMNS, history_retention="15 ms")
    puts = [(30, put("a", {"v": at}, at)) for at in (15, 20, 30)]
    found, rows, expired = asked(store, batching, *puts, (30, read), (40, read), (40, put("a", {"v": 3}, 40)), (40, read))
    assert found == [[15, 20, 30], [20, 30], [20, 30, 40]]
    assert (rows, expired) == (3, 0)


@CUTS
def test_what_was_deleted_is_gone_at_once(batching: str) -> None:
    """In the call that deletes it, a key has no value, whether the epoch or one before has put it; nor do ranges give it."""

    def drop(store: Any) -> list[Any]:
        return [
            store.delete("a"),
            store.get("a"),
            store.delete("a"),
            store.put_if_absent("a", {"v": 2}),
            store.get("a"),
            store.all(),
        ]

    found = answers(sk.key_value_store("s", **COLUMNS), batching, (0, put("a", {"v": 1})), (0, drop))
    assert found == [[{"v": 1}, None, None, None, {"v": 2}, [({"k": "a"}, {"v": 2})]]]


@CUTS
def test_what_a_store_gives_is_a_copy(batching: str) -> None:
    """A processor that changes a nested value it was given, or has put, changes nothing in the store until it puts it."""
    store = sk.key_value_store("s", key="k string", value="text array<string>")

    def keep(store: Any) -> None:
        given = {"text": ["a"]}
        store.put("a", given)
        given["text"].append("put")

    def read(store: Any) -> list[Any]:
        store.get("a")["text"].append("get")
        store.all()[0].value["text"].append("all")
        return [store.get("a"), store.all()[0].value]

    def change(store: Any) -> list[Any]:
        keep(store)
        return read(store)

    assert answers(store, batching, (0, keep), (0, read), (0, change)) == [[{"text": ["a"]}] * 2] * 2


def test_changes_go_to_the_changelog_with_the_time_of_their_call() -> None:
    """An epoch has one change of each key, in the order of keys, with the time of the last record that changed it; so has its row."""

    def keep(record: Any, context: Any) -> None:
        store = context.store("s")
        store.put(record["id"], {"v": record["step"]})
        if record["id"] == "d":
            store.delete("b")

    app = sk.Topology("changing")
    rows = app.stream("in", schema="id string, step int, part string", key="part")
    rows.process(keep, stores=[sk.key_value_store("s", **COLUMNS)])
    with TopologyTestDriver(app, batching="all") as driver:
        for number, (name, at) in enumerate([("c", 5), ("b", 7), ("a", 8), ("c", 12), ("a", 15), ("d", 20)]):
            driver.pipe("in", {"id": name, "step": number, "part": "x"}, timestamp=at)
        driver.store("s")
        found = driver.log.read(changelog_topic("changing", "s"), columns=["key", "value", "_timestamp", "_deleted"])
    names = [key[-3:-2].decode() for key in found["key"].to_pylist()]
    times = [one.timestamp() * 1000 for one in found["_timestamp"].to_pylist()]
    assert list(zip(names, times, found["_deleted"].to_pylist(), strict=True)) == [
        ("a", 15, False),
        ("b", 20, True),
        ("c", 12, False),
        ("d", 20, False),
    ]
    stored = decode_rows(found["value"].combine_chunks().drop_null(), ["bigint", "int"])
    assert [column.to_pylist() for column in stored] == [[15, 12, 20], [4, 3, 5]]


@pytest.mark.parametrize(
    ("columns", "step", "message"),
    [
        ("k string, n int", lambda store: store.prefix_scan(()), r"found the beginning \(\)"),
        ("k string, n int", lambda store: store.prefix_scan(("a", 1, 2)), r"found the beginning \('a', 1, 2\)"),
        ("k string NOT NULL", lambda store: store.get(None), "found None for k, which is declared NOT NULL"),
        ("k string", lambda store: store.get({"key": "a"}), "found the column 'key'"),
    ],
)
def test_what_is_no_key_is_refused(columns: str, step: Callable[[Any], Any], message: str) -> None:
    """A beginning of a key has some of its columns, a column that is NOT NULL has a value, and others are not known."""
    with pytest.raises(EvaluationError, match=message):
        answers(sk.key_value_store("s", key=columns, value="v int"), "one", (0, step))


@pytest.mark.parametrize("given", [True, 2**53, -(2**53), 1.0, "1970-01-01", None])
def test_what_is_no_time_is_refused(given: Any) -> None:
    """A time is a whole number that a log can take, or a datetime, and nothing that merely looks like one."""
    with pytest.raises(RefusedCallError, match="expected whole milliseconds since 1970, or a datetime"):
        milliseconds(given)


def test_a_datetime_is_the_millisecond_that_it_is_in() -> None:
    """Parts of a millisecond are cut off downwards, before 1970 too."""
    start = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    assert [milliseconds(start + dt.timedelta(microseconds=one)) for one in (1999, 1, 0, -1, -1000, -1001)] == [
        1,
        0,
        0,
        -1,
        -1,
        -2,
    ]


def test_a_datetime_without_a_zone_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a processor gives a datetime without a zone, it is UTC, whatever the zone of the machine."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert milliseconds(dt.datetime(1970, 1, 2)) == 86_400_000
        assert milliseconds(dt.datetime(1970, 1, 2, 9, tzinfo=dt.timezone(dt.timedelta(hours=9)))) == 86_400_000
    finally:
        monkeypatch.undo()
        time.tzset()


@CUTS
@pytest.mark.parametrize(("least", "largest"), [(-(2**63), 2**63 - 1), (-(2**53), 2**53), (-(10**30), 10**30)])
def test_a_whole_number_beyond_all_times_leaves_a_bound_open(batching: str, least: int, largest: int) -> None:
    """As None does, in each read of each store, also where it is the only end; what is put has a time."""

    def versions(store: Any) -> list[Any]:
        ends = [(least, largest), (None, largest), (least, None), (10, largest), (least, 10), (largest, least)]
        ranges = [[one.timestamp for one in store.get_range("a", *end)] for end in ends]
        return [*ranges, [store.get("a", largest).timestamp, store.get("a", least)]]

    puts = [(40, put("a", {"v": at}, at)) for at in (10, 20)]
    (found,) = answers(sk.versioned_store("s", **COLUMNS, history_retention="1 s"), batching, *puts, (40, versions))
    assert found == [[10, 20], [10, 20], [10, 20], [10, 20], [10], [], [20, None]]

    def windows(store: Any) -> list[Any]:
        ends = [(least, largest), (None, largest), (least, None), (10, largest), (least, 10), (least, least), (largest, largest)]
        return [
            [one.start for one in read(*end)] for read in (store.fetch_all, lambda *end: store.fetch("a", *end)) for end in ends
        ]

    puts = [(40, put("a", {"v": at}, at)) for at in (10, 20)]
    (found,) = answers(sk.window_store("s", **COLUMNS, size="5 ms", retention="1 s"), batching, *puts, (40, windows))
    assert found == [[10, 20], [10, 20], [10, 20], [10, 20], [10], [], []] * 2

    def sessions(store: Any) -> list[Any]:
        ends = [(least, largest), (None, largest), (least, None), (12, largest), (least, 12), (largest, least)]
        return [[one.start for one in store.find_sessions("a", *end)] for end in ends]

    puts = [(40, put("a", at, at + 1, {"v": at})) for at in (10, 20)]
    (found,) = answers(sk.session_store("s", **COLUMNS, retention="1 s"), batching, *puts, (40, sessions))
    assert found == [[10, 20], [10, 20], [10, 20], [20], [10], []]

    with pytest.raises(EvaluationError, match="expected whole milliseconds since 1970"):
        answers(sk.window_store("s", **COLUMNS, size="5 ms", retention="1 s"), batching, (40, put("a", {"v": 1}, largest)))
