"""The verb that joins two streams: keys, columns, windows, what it refuses, and what stands behind it."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.evolution.definition import definition
from streamkit.engine.folding.nearby import Axis, Line
from streamkit.engine.runs.compile import compile
from streamkit.errors import ConfigError, TopologyError
from streamkit.plan.join_window import JoinWindow
from streamkit.testing import TopologyTestDriver

NEAR = sk.within("10 ms", grace="0 s")
within: Any = sk.within  # tests also pass what its types forbid


def streams(left: str = "k string, a string", right: str = "k string, b string", key: str = "k") -> tuple[sk.Topology, Any, Any]:
    app = sk.Topology("app")
    return app, app.stream("l", schema=left, key=key), app.stream("r", schema=right, key=key)


def piped(app: sk.Topology, *rows: tuple[str, int, dict[str, Any]], drain: bool = False, **options: Any) -> list[tuple[Any, ...]]:
    """The rows of the topic "out", each with its event time."""
    with TopologyTestDriver(app, **options) as driver:
        for topic, timestamp, row in rows:
            driver.pipe(topic, row, timestamp=timestamp)
        if drain:
            driver.drain()
        names = driver.log.topic("out").schema.names
        return [(*(row[name] for name in names), round(row["_timestamp"].timestamp() * 1000)) for row in driver.read("out")]


def test_a_join_by_other_columns_re_keys_both_streams():
    """Rows meet by the columns of `on`, which are the result's key; the streams' own keys stay as values."""
    app, left, right = streams("k string, item int, a string", "k string, thing bigint, b string")
    left.join(right, on={"item": "thing"}, within=NEAR, suffix="_right").to("out")

    assert piped(app, ("l", 1, {"k": "x", "item": 7, "a": "A"}), ("r", 3, {"k": "y", "thing": 7, "b": "B"}), tasks=3) == [
        ("x", 7, "A", "y", "B", 3)
    ]
    program = compile(app)
    assert program.outputs[0].key == ("item",)
    assert program.outputs[0].schema["item"].type == "bigint"
    assert program.stages == 1


def test_keys_of_several_columns_meet_where_all_are_equal():
    """A key with a null beside other values is a key; one of nulls alone is none, and a kept side gives its row at once."""
    app = sk.Topology("app")
    left = app.stream("l", schema="k string, n int, a string", key=["k", "n"])
    right = app.stream("r", schema="k string, n int, b string", key=["k", "n"])
    left.join(right, within=NEAR, how="outer").to("out")
    rows = [
        ("l", 1, {"k": "x", "n": None, "a": "A"}),
        ("r", 1, {"k": "x", "n": None, "b": "B"}),
        ("r", 1, {"k": None, "n": None, "b": "C"}),
        ("l", 2, {"k": None, "n": None, "a": "D"}),
    ]

    assert piped(app, *rows) == [("x", None, "A", "B", 1), (None, None, None, "C", 1), (None, None, "D", None, 2)]


def test_a_column_on_both_sides_is_refused_or_suffixed():
    """Two columns of one name are an error that says what to do; a suffix tells them apart."""
    app, left, right = streams("k string, v int", "k string, v int")
    left.join(right, within=NEAR).to("out")
    with pytest.raises(TopologyError, match=r"both sides of the join have the column 'v'; expected suffix=.*stream\.rename\(v="):
        compile(app)

    app, left, right = streams("k string, v int", "k string, v int")
    left.join(right, within=NEAR, suffix="_right").to("out")
    assert compile(app).outputs[0].schema.names == ("k", "v", "v_right")


@pytest.mark.parametrize(
    ("how", "nullable"), [("inner", [False, False, False]), ("left", [False, False, True]), ("outer", [True, True, True])]
)
def test_columns_of_a_side_that_may_be_missing_may_be_null(how, nullable):
    """The type of the result says which columns may be null; the key of an outer join may be that of either side."""
    app, left, right = streams("k string NOT NULL, a int NOT NULL", "k string, b int NOT NULL")
    left.join(right, within=NEAR, how=how).to("out")

    assert [column.nullable for column in compile(app).outputs[0].schema] == nullable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"two streams are joined without within=; expected .*sk\.within\("),
        ({"within": "5 seconds"}, r"within='5 seconds' is no window of a join"),
        ({"within": sk.tumbling("5 seconds", grace="0 s")}, "is no window of a join"),
        ({"within": NEAR, "how": "right"}, "two streams cannot be joined how='right'; expected one of inner, left, outer"),
        ({"within": NEAR, "on": []}, "on= is empty"),
        ({"within": NEAR, "on": ["a", "a"]}, "join column"),
    ],
)
def test_what_the_verb_refuses_points_at_the_line(arguments, message):
    """A join without a window, or with what is none, and kinds there are not, are errors at the user's line."""
    _, left, right = streams()
    with pytest.raises(TopologyError, match=message) as caught:
        left.join(right, **arguments)
    assert caught.value.at is not None and caught.value.at.file.endswith("test_stream_stream_join_verb.py")


@pytest.mark.parametrize(
    ("schemas", "arguments", "message"),
    [
        (
            ("k string, a int", "k int, b int"),
            {},
            "the join column 'k' of the left stream is string, and 'k' of the right stream is int",
        ),
        (("k string, a int", "k string, b int"), {"on": "b"}, "there is no column 'b' in the left stream"),
        (("k string, a int", "k string, b int"), {"on": {"a": "c"}}, "there is no column 'c' in the right stream"),
    ],
)
def test_keys_that_do_not_fit_are_refused_at_the_line(schemas, arguments, message):
    """Keys of other types and columns that are not there are errors at the user's line."""
    app, left, right = streams(*schemas)
    left.join(right, within=NEAR, **arguments).to("out")
    with pytest.raises(TopologyError, match=message) as caught:
        compile(app)
    assert caught.value.at is not None and caught.value.at.file.endswith("test_stream_stream_join_verb.py")


def test_streams_without_keys_need_on():
    """Without keys there is nothing to join by; the message says so."""
    app = sk.Topology("app")
    app.stream("l", schema="a int").join(app.stream("r", schema="b int"), within=NEAR).to("out")
    with pytest.raises(TopologyError, match=r"key \[\] and the right stream's key \[\] cannot be joined; expected on="):
        compile(app)


def test_a_table_takes_no_window():
    """A stream meets a table as it is at the record's place; a window beside it is an error."""
    app, left, _ = streams()
    with pytest.raises(TopologyError, match="expected a join without within=, or with a stream"):
        left.join(app.table("t", schema="k string, c int", key="k"), within=NEAR)


def test_newest_results_cannot_be_joined():
    """Which newest results an epoch emits depends on its cut, and so would a join with them."""
    app, left, right = streams()
    newest = right.group_by("k").agg(n=F.count("*")).emit("latest")
    left.join(newest, within=NEAR).to("out")
    with pytest.raises(TopologyError, match=r"emit\('latest'\)"):
        compile(app)


def test_windows_are_as_long_as_they_say():
    """One length is for both sides, `before` and `after` are for either and may be negative; what is left out is 0."""
    assert sk.within("5 seconds", grace="1 s") == JoinWindow(5000, 5000, 1000)
    assert sk.within(after="1 minute", grace="0 s") == JoinWindow(0, 60_000, 0)
    assert sk.within(before="-5 ms", after="7 ms", grace="0 s") == JoinWindow(-5, 7, 0)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: within("5 s"), TopologyError, r'expected within\("5 s", grace="0 s"\)'),
        (lambda: within(grace="0 s"), TopologyError, "takes either one length for both sides, or before= and after="),
        (lambda: within("5 s", before="1 s", grace="0 s"), TopologyError, "takes either one length"),
        (
            lambda: within(before="-6 ms", after="5 ms", grace="0 s"),
            TopologyError,
            "ends before it begins: before=-6 ms, after=5 ms",
        ),
        (lambda: within("-5 s", grace="0 s"), ConfigError, "negative"),
        (lambda: within("5 s", grace="-1 s"), ConfigError, "the grace '-1 s' is negative"),
        (lambda: within(before=5, grace="0 s"), ConfigError, "the before of the join window 5 has no unit"),
    ],
)
def test_windows_that_are_none_are_refused(call, kind, message):
    """A window without a grace, without a length, with too many, or with an end before its begin is an error that says so."""
    with pytest.raises(kind, match=message):
        call()


def test_the_stores_keep_all_columns_and_are_known_by_window_and_kind():
    """What the buffers hold does not depend on who reads the result; another window or kind is another definition."""
    found = {}
    for how, reach in (("left", "10 ms"), ("inner", "10 ms"), ("left", "20 ms")):
        app, left, right = streams("k string, a int, c string")
        left.join(right, within=within(reach, grace="5 ms"), how=how, name="join").select("b").to("out")
        program = compile(app)
        found[how, reach] = definition(program, program.store("join-left"))
        assert {"k", "a", "c"} <= {*program.store("join-left").key.names, *program.store("join-left").value.names}
    assert len(set(map(str, found.values()))) == 3


def test_a_self_join_moves_its_rows_once():
    """Both sides of a join of a stream with itself take the same rows of one exchange, unless they are joined by different columns."""
    for on, edges in ((None, 1), ({"a": "b"}, 2)):
        app = sk.Topology("app")
        stream = app.stream("l", schema="k string, a int, b int", key="k")
        stream.join(stream, on=on, within=NEAR, how="left", suffix="_right").to("out")
        assert len([one for one in compile(app).operators if one.kind == "send" and one.stage == 0]) == edges


def test_joins_of_one_key_share_a_kernel():
    """Three streams on one key, and an aggregation of the result by it, need one exchange each and one kernel."""
    app, left, right = streams()
    third = app.stream("m", schema="k string, c string", key="k")
    both = left.join(right, within=NEAR, how="left").join(third, within=NEAR, how="outer")
    both.group_by_key().agg(n=F.count("*")).emit("every").to("out")

    assert compile(app).stages == 1


def test_a_join_of_a_join_meets_rows_with_nulls_too():
    """A row with nulls comes at its own, older time, and is joined on: its partner waits for it by as much."""
    app, left, right = streams()
    third = app.stream("m", schema="k string, c string", key="k")
    left.join(right, within=NEAR, how="left").join(third, within=NEAR, how="left").to("out")
    rows = [("l", 5, {"k": "x", "a": "A"}), ("m", 6, {"k": "x", "c": "C"}), ("l", 40, {"k": "y", "a": "D"})]

    for batching in ("one", "all"):
        assert piped(app, *rows, drain=True, batching=batching) == [("x", "A", None, "C", 6), ("y", "D", None, None, 40)]


def test_windows_behind_a_join_wait_for_rows_with_nulls():
    """A row with nulls is counted in the window of its time, though stream time has passed it by window and grace of the join."""
    app, left, right = streams()
    joined = left.join(right, within=NEAR, how="left")
    joined.group_by("k").windowed_by(sk.tumbling("5 ms", grace="0 s")).agg(n=F.count("*")).emit("final").to("out")

    with TopologyTestDriver(app) as driver:
        driver.pipe("l", {"k": "x", "a": "A"}, timestamp=3)
        driver.pipe("l", {"k": "y", "a": "A"}, timestamp=100)
        driver.drain()
        assert [(row["k"], row["n"]) for row in driver.read("out")] == [("x", 1), ("y", 1)]
        assert driver.metrics()["late"] == 0


@pytest.mark.parametrize("batching", ["one", "all", 3])
def test_a_row_with_nulls_meets_a_table_as_it_is_when_the_window_closes(batching):
    """It stands just before the record that closes the window, so it meets what the table holds then, however epochs are cut."""
    app, left, right = streams()
    table = app.table("t", schema="k string, c string", key="k")
    left.join(right, within=NEAR, how="left").join(table).to("out")
    rows = [
        ("t", 0, {"k": "x", "c": "early"}),
        ("l", 5, {"k": "x", "a": "A"}),
        ("t", 50, {"k": "x", "c": "just before"}),
        ("r", 60, {"k": "z", "b": "B"}),
        ("t", 70, {"k": "x", "c": "after"}),
        ("r", 80, {"k": "z", "b": "B"}),
    ]

    assert piped(app, *rows, batching=batching) == [("x", "A", None, "just before", 5)]


@pytest.mark.parametrize("batching", ["one", "all"])
def test_final_results_are_joined_by_their_own_times(batching):
    """Final results come when their windows close; the join waits for them by as much, and gives no row with nulls too early."""
    app, left, right = streams()
    finals = left.group_by("k").windowed_by(sk.tumbling("100 ms", grace="10 ms")).agg(n=F.count("*")).emit("final")
    counted = finals.select_key("k").drop("window_start", "window_end")
    right.join(counted, within=NEAR, how="left").to("out")
    rows = [("l", 50, {"k": "x", "a": "A"}), ("r", 55, {"k": "x", "b": "B"}), ("r", 90, {"k": "x", "b": "C"})]

    assert sorted(piped(app, *rows, ("l", 500, {"k": "y", "a": "A"}), drain=True, batching=batching), key=repr) == [
        ("x", "B", 1, 55),
        ("x", "C", None, 90),
    ]


@pytest.mark.parametrize("batching", ["one", "all"])
def test_records_between_a_final_result_s_moment_and_its_place_count(batching):
    """The other stream moved the time past what is kept before the result came, whether in the same epoch or in one before."""
    app, left, right = streams()
    finals = left.group_by("k").windowed_by(sk.tumbling("100 ms", grace="10 ms")).agg(n=F.count("*")).emit("final")
    counted = finals.select_key("k").drop("window_start", "window_end")
    right.join(counted, within=NEAR).to("out")
    rows = [("l", 50, {"k": "x", "a": "A"}), ("r", 55, {"k": "x", "b": "B"})]
    more = [("r", 300, {"k": "z", "b": "B"}), ("l", 500, {"k": "y", "a": "A"})]

    assert piped(app, *rows, *more, batching=batching) == []
    assert piped(app, *rows, more[1], batching=batching) == [("x", "B", 1, 55)]


def test_tombstones_are_skipped_and_counted():
    """A record without a value joins nothing, and is counted as a deletion; it moves stream time like any other."""
    app, left, right = streams()
    left.join(right, within=NEAR, how="left").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("l", {"k": "x", "a": "A"}, timestamp=5)
        driver.delete("r", {"k": "x"}, timestamp=5)
        assert driver.read("out") == []
        driver.delete("r", {"k": "z"}, timestamp=16)
        assert [row["a"] for row in driver.read("out")] == ["A"]
        assert driver.metrics()["deletion"] == 2


def test_times_too_far_apart_for_one_number_are_told_apart_by_rank():
    """Keys and times that do not fit into 64 bits together are placed by the ranks of their times: the same rows are found."""
    import numpy as np

    codes, times = np.array([0, 0, 1, 1]), np.array([-(2**61), 5, 5, 2**61])
    axis = Axis.of(2, [times])
    assert axis.moments is not None
    line = Line.of(axis, codes, times)
    stretches, rows = line.between(axis.before(codes, times - 3), axis.behind(codes, times + 3))
    assert [(int(a), int(b)) for a, b in zip(stretches, rows, strict=True)] == [(0, 0), (1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("batching", ["one", "all"])
def test_rows_that_arrive_side_by_side_meet_in_their_order(batching):
    """Where a side has rows of several topics, partners of one time come in the order of their places, and not by topic."""
    app, left, right = streams()
    other = app.stream("m", schema="k string, a string", key="k")
    left.merge(other).join(right, within=NEAR, how="left").to("out")
    rows = [("m", 5, "m5"), ("l", 9, "l9"), ("l", 5, "l5"), ("m", 9, "m9")]

    found = piped(
        app, *((topic, time, {"k": "x", "a": a}) for topic, time, a in rows), ("r", 10, {"k": "x", "b": "B"}), batching=batching
    )
    assert found == [("x", a, "B", 10) for a in ("m5", "l5", "l9", "m9")]


@pytest.mark.parametrize("time", [0, 1000, -2000])
def test_a_record_at_the_begin_of_a_bucket_is_known_in_the_next_epoch(time):
    """Records at a whole second, where lists of records begin, are met by those of later epochs, and stay when more come."""
    app, left, right = streams()
    left.join(right, within=NEAR).to("out")
    rows = [("l", time, {"k": "x", "a": "A"}), ("l", time, {"k": "x", "a": "B"}), ("r", time, {"k": "x", "b": "C"})]

    assert piped(app, *rows, batching="one") == [("x", "A", "C", time), ("x", "B", "C", time)]


@pytest.mark.parametrize("batching", ["one", "all"])
def test_a_final_result_waits_for_a_partner(batching):
    """A final result of a kept side is not given up because it stands behind stream time: it is that old by its nature."""
    app, left, right = streams()
    finals = left.group_by("k").windowed_by(sk.tumbling("100 ms", grace="10 ms")).agg(n=F.count("*")).emit("final")
    finals.select_key("k").drop("window_start", "window_end").join(right, within=NEAR, how="left").to("out")
    rows = [("l", 1, {"k": "x", "a": "A"}), ("l", 2, {"k": "y", "a": "A"}), ("l", 115, {"k": "z", "a": "A"})]
    late = ("r", 5, {"k": "x", "b": "B"})

    assert piped(app, *rows, late, batching=batching) == [("x", 1, "B", 5)]
    assert sorted(piped(app, *rows, late, ("l", 500, {"k": "z", "a": "A"}), batching=batching), key=repr) == [
        ("x", 1, "B", 5),
        ("y", 1, None, 2),
        ("z", 1, None, 115),
    ]


@pytest.mark.parametrize("batching", ["one", "all"])
def test_of_rows_whose_time_is_over_older_ones_come_first_then_right_ones(batching):
    """One record ends the wait of several: their rows with nulls come by time, those of the right side before the left one's."""
    app, left, right = streams()
    left.join(right, within=NEAR, how="outer").to("out", partitions=1)
    rows = [("l", 10, {"k": "a", "a": "A"}), ("r", 10, {"k": "b", "b": "B"}), ("l", 9, {"k": "c", "a": "C"})]

    assert piped(app, *rows, ("l", 99, {"k": "z", "a": "Z"}), batching=batching) == [
        ("c", "C", None, 9),
        ("b", None, "B", 10),
        ("a", "A", None, 10),
    ]
