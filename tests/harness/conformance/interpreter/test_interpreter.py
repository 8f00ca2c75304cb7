"""The interpreter against what Kafka Streams gave, and its switches one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness.conformance.interpreter.explained import difference, explained
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import Json, results
from tests.harness.conformance.recorded import recorded
from tests.kit.sampling import TAKES_ALL

KAFKA, STREAMKIT = Rules.kafka(), Rules.streamkit()
TABLE = {"id": "T", "op": "table", "topic": "in"}
STREAM = {"id": "S", "op": "stream", "topic": "in"}
GROUP = {"id": "G", "op": "group_by_key", "in": "S"}
TUMBLING = {"id": "W", "op": "window", "type": "tumbling", "size_ms": 10, "grace_ms": 0, "in": "G"}
COUNT = {"id": "A", "op": "count", "in": "W"}
FINAL = {"id": "X", "op": "suppress", "until": "window_closes", "in": "A"}
LEFT_JOIN = {"id": "J", "op": "join", "kind": "stream_stream", "type": "left", "left": "L", "right": "R", "before_ms": 10}
LEFT_JOIN |= {"after_ms": 10, "grace_ms": 50, "joiner": "concat(+)"}


def case_of(nodes: Sequence[Json], steps: Sequence[tuple[str, Any, Any, int]]) -> Json:
    """A case whose output is its last node."""
    outputs = [{"name": "out", "node": nodes[-1]["id"]}]
    taken = [dict(zip(("topic", "key", "value", "ts"), step, strict=True)) for step in steps]
    return {"name": "made", "kind": "topology", "topology": {"nodes": list(nodes), "outputs": outputs}, "steps": taken}


def count(key: str, start: int, value: int, timestamp: int) -> Json:
    """A count of a window of ten milliseconds."""
    return {"key": key, "window": [start, start + 10], "value": value, "ts": timestamp}


def test_random_topologies_give_what_kafka_streams_gave() -> None:
    """All recorded cases, of all operators, are reproduced record by record, with old values, timestamps and order."""
    cases = recorded()
    assert len(cases) == 317
    for case in cases:
        expected = [step["expect"] for step in case["steps"]]
        assert difference(case, expected, results(case, KAFKA)) is None, case["name"]


def test_the_cases_of_kafka_streams_own_tests_are_reproduced() -> None:
    """The interpreter gives what Kafka Streams' own tests expect, and what it gave for the cases that were made beside them."""
    files = sorted((Path(__file__).parents[1] / "data" / "cases").glob("*.json"))
    files.append(Path(__file__).parents[1] / "data" / "made.json")
    cases = [case for file in files for case in json.loads(file.read_text(encoding="utf-8")) if "topology" in case]
    assert len(cases) >= 90
    for case in cases:
        expected = [step["expect"] for step in case["steps"]]
        assert difference(case, expected, results(case, KAFKA)) is None, case["name"]


def test_a_wrong_record_is_seen() -> None:
    """A result with another timestamp, or one too few, differs from what was recorded, in every case that gives something."""
    case = next(case for case in recorded() if any(step["expect"] for step in case["steps"]))
    expected = [step["expect"] for step in case["steps"]]
    number = next(number for number, step in enumerate(expected) if step)
    later = {**expected[number][0], "ts": expected[number][0]["ts"] + 1}
    for wrong in ([later, *expected[number][1:]], expected[number][1:]):
        assert difference(case, expected, [*expected[:number], wrong, *expected[number + 1 :]]) is not None


FILTERED = {"id": "F", "op": "filter", "in": "S", "pred": "value_equals_ignore_case(x)"}
EARLY = [("in", "a", "x", 0), ("in", "a", "y", 25), ("in", "a", "x", 5)]
ON_CLOSE = {**TUMBLING, "emit": "on_close"}
OTHER_KEYS = [("in", "a", "x", 0), ("in", None, "x", 25)]
JUMP = [("in", "a", "x", 0), ("in", "b", "x", 50)]
UPDATES = [("in", "k", "a", 0), ("in", "t", "t", 10), ("in", "k", "b", 11), ("in", "k", "c", 12), ("in", "t", "u", 30)]
LIMITED = {"id": "X", "op": "suppress", "until": "time_limit", "ms": 10, "in": "T"}
SESSION = {"id": "W", "op": "window", "type": "session", "gap_ms": 5, "grace_ms": 0, "in": "G"}
LEFT, RIGHT = {"id": "L", "op": "stream", "topic": "left"}, {"id": "R", "op": "stream", "topic": "right"}


def test_a_record_that_a_filter_drops_moves_stream_time() -> None:
    """By StreamKit's rules only, a record that never reached the windows has made the next one late."""
    case = case_of([STREAM, FILTERED, {**GROUP, "in": "F"}, TUMBLING, COUNT], EARLY)
    assert results(case, KAFKA) == [[count("a", 0, 1, 0)], [], [count("a", 0, 2, 5)]]
    assert results(case, replace(KAFKA, time_of_inputs=True)) == [[count("a", 0, 1, 0)], [], []]


def test_a_final_result_comes_when_time_passes() -> None:
    """A record without a key closes a window; by Kafka's rules the result waits for a record that is counted."""
    case = case_of([STREAM, GROUP, ON_CLOSE, COUNT], OTHER_KEYS)
    assert results(case, KAFKA) == [[], []]
    assert results(case, replace(KAFKA, time_of_inputs=True, finals_when_time_passes=True)) == [[], [count("a", 0, 1, 0)]]


def test_a_final_result_is_not_lost() -> None:
    """After a jump of stream time, Kafka Streams does not find the window in its store any more."""
    case = case_of([STREAM, GROUP, ON_CLOSE, COUNT], JUMP)
    assert results(case, KAFKA) == [[], []]
    assert results(case, replace(KAFKA, windows_are_kept=True)) == [[], [count("a", 0, 1, 0)]]


def test_a_suppressed_row_goes_when_time_passes_its_limit() -> None:
    """A change that a filter drops, because there was no row before, lets the row go; by Kafka's rules it does not."""
    matching = {**FILTERED, "in": "T", "store": {"type": "kv"}, "send_old_values": True}
    case = case_of([TABLE, matching, {**LIMITED, "in": "F"}], [("in", "k", "x", 0), ("in", "t", "y", 10)])
    assert results(case, KAFKA) == [[], []]
    passing = replace(KAFKA, time_of_inputs=True, limits_when_time_passes=True)
    assert results(case, passing) == [[], [{"key": "k", "value": "x", "ts": 0}]]


def test_a_suppress_sends_as_old_what_it_sent_last() -> None:
    """The old value of the third update is the first one: the second was never sent."""
    case = case_of([TABLE, LIMITED], UPDATES)
    case["topology"]["outputs"][0]["as"] = "changes"
    assert {"key": "k", "value": "c", "old": "b", "ts": 12} in results(case, KAFKA)[-1]
    assert {"key": "k", "value": "c", "old": "a", "ts": 12} in results(case, replace(KAFKA, old_is_last_emitted=True))[-1]


def test_a_session_is_final_when_it_takes_no_record_any_more() -> None:
    """Kafka Streams' suppress sends a session at the last moment at which it can still grow."""
    case = case_of([STREAM, GROUP, SESSION, COUNT, FINAL], [("in", "a", "x", 0), ("in", "b", "x", 5), ("in", "b", "x", 6)])
    final = {"key": "a", "window": [0, 0], "value": 1, "ts": 0}
    assert results(case, KAFKA) == [[], [final], []]
    assert results(case, replace(KAFKA, suppress_waits_for_closed_windows=True)) == [[], [], [final]]


def test_a_full_buffer_lets_the_oldest_row_go() -> None:
    """A buffer of one row keeps the younger of two."""
    case = case_of([TABLE, {**LIMITED, "buffer": {"max_records": 1, "when_full": "emit_early"}}], UPDATES[1:3])
    assert results(case, KAFKA) == [[], [{"key": "t", "value": "t", "ts": 10}]]


def test_a_join_of_a_table_with_itself_replaces_what_it_gave() -> None:
    """Both sides change at once; Kafka Streams joins the old value of the one with the new value of the other."""
    nodes = [
        TABLE,
        {"id": "J", "op": "join", "kind": "table_table", "type": "inner", "left": "T", "right": "T", "joiner": "concat(+)"},
    ]
    case = case_of(nodes, [("in", "k", "a", 0), ("in", "k", "b", 1)])
    case["topology"]["outputs"][0]["as"] = "changes"
    kafka, ours = (results(case, replace(KAFKA, changes_have_old=True, joins_replace_what_they_gave=on)) for on in (False, True))
    assert [record["old"] for record in kafka[1]] == ["a+b", "b+a"]
    assert [record["old"] for record in ours[1]] == ["a+a", "b+b"]


@pytest.mark.parametrize("how", ["left", "outer"])
def test_a_joined_row_that_lost_its_partner_has_the_time_of_what_is_left(how: str) -> None:
    """Kafka Streams makes the row again of what is left, and takes its time, unless the join has a store."""
    other, third = ({**TABLE, "id": id, "topic": topic} for id, topic in (("U", "other"), ("V", "third")))
    join = {"op": "join", "kind": "table_table", "joiner": "concat(+)"}
    updates = [("in", "k", "a", 10), ("other", "k", "b", 20), ("other", "k", None, 30), ("third", "k", "c", 5)]
    times = {}
    for store in (None, {"type": "key_value"}):
        first = {**join, "id": "J", "type": how, "left": "T", "right": "U", **({"store": store} if store else {})}
        case = case_of([TABLE, other, third, first, {**join, "id": "K", "type": "inner", "left": "J", "right": "V"}], updates)
        times[store is None] = [results(case, rules)[3][0]["ts"] for rules in (KAFKA, STREAMKIT)]
    assert times == {True: [10, 10], False: [30, 30]}


def test_the_first_result_of_an_aggregate_replaces_nothing() -> None:
    """In Kafka Streams it replaces the initial value."""
    case = case_of([STREAM, GROUP, {**COUNT, "in": "G", "send_old_values": True}], [("in", "a", "x", 0)])
    case["topology"]["outputs"][0]["as"] = "changes"
    assert results(case, KAFKA)[0][0]["old"] == 0
    assert results(case, replace(KAFKA, first_result_replaces_nothing=True))[0][0]["old"] is None


def test_a_session_of_one_moment_replaces_what_it_was() -> None:
    """In Kafka Streams its change has no old value, though the session was there."""
    count = {**COUNT, "in": "W", "send_old_values": True}
    case = case_of([STREAM, GROUP, SESSION, count], [("in", "a", "x", 0), ("in", "a", "y", 0)])
    case["topology"]["outputs"][0]["as"] = "changes"
    assert results(case, KAFKA)[1][0]["old"] is None
    assert results(case, replace(KAFKA, sessions_replace=True))[1][0]["old"] == 1


def test_who_reads_changes_gets_old_values() -> None:
    """In Kafka Streams only where an operator asks for them."""
    case = case_of([STREAM, GROUP, {**COUNT, "in": "G"}], [("in", "a", "x", 0), ("in", "a", "x", 1)])
    case["topology"]["outputs"][0]["as"] = "changes"
    assert [step[0]["old"] for step in results(case, KAFKA)] == [None, None]
    assert [step[0]["old"] for step in results(case, replace(KAFKA, changes_have_old=True))] == [0, 1]


def test_partners_are_kept_as_long_as_one_in_time_may_meet_them() -> None:
    """Records of one moment meet in a window of no length, in which Kafka Streams finds nothing."""
    join = {**LEFT_JOIN, "type": "inner", "before_ms": 0, "after_ms": 0, "grace_ms": 0}
    case = case_of([LEFT, RIGHT, join], [("left", "k", "a", 5), ("right", "k", "b", 5)])
    assert results(case, KAFKA) == [[], []]
    assert results(case, replace(KAFKA, partners_are_kept_by_stream_time=True))[1] == [{"key": "k", "value": "a+b", "ts": 5}]


def test_keys_of_one_moment_are_in_order_of_their_values() -> None:
    """Two records that find no match come at once, the one with the negative key first; in Kafka Streams it comes last."""
    steps = [("left", 1, "a", 5), ("left", -1, "b", 5), ("left", 2, "c", 80)]
    case = case_of([LEFT, RIGHT, LEFT_JOIN], steps)
    first, second = {"key": 1, "value": "a+null", "ts": 5}, {"key": -1, "value": "b+null", "ts": 5}
    assert results(case, KAFKA)[-1] == [first, second]
    assert results(case, replace(KAFKA, keys_are_in_order_of_value=True))[-1] == [second, first]


def test_a_left_self_join_gives_records_without_a_match() -> None:
    """Kafka Streams makes an inner join of it when it optimises the topology, and drops what has no key."""
    join = {**LEFT_JOIN, "right": "L"}
    case = case_of([LEFT, join], [("left", None, "a", 5)])
    case["topology"]["config"] = {"topology.optimization": "all"}
    assert results(case, KAFKA) == [[]]
    assert results(case, replace(KAFKA, self_joins_are_joins=True)) == [[{"key": None, "value": "a+null", "ts": 5}]]


def test_the_window_of_a_join_may_lie_before_1970() -> None:
    """A record whose window ended before 1970 meets nothing; Kafka Streams lets it meet a record of 1970-01-01T00:00Z itself."""
    join = {**LEFT_JOIN, "type": "inner", "after_ms": -5, "grace_ms": 20}
    case = case_of([LEFT, RIGHT, join], [("right", "k", "r", 0), ("left", "k", "l", 3)])
    assert results(case, KAFKA) == [[], [{"key": "k", "value": "l+r", "ts": 3}]]
    assert results(case, replace(KAFKA, windows_begin_before_1970=True)) == [[], []]


def test_final_results_do_not_wait_for_wall_clock_time() -> None:
    """With Kafka Streams' interval between emissions the second result comes a second later; here it does not wait."""
    steps = [("in", "a", "x", 0), ("in", "a", "x", 10), ("in", "a", "x", 20)]
    case = case_of([STREAM, GROUP, ON_CLOSE, COUNT], steps)
    case["topology"]["config"] = {"__emit.interval.ms.kstreams.windowed.aggregation__": 1000}
    assert results(case, KAFKA) == [[], [], []]
    assert results(case, replace(KAFKA, finals_at_once=True)) == [[], [count("a", 0, 1, 0)], [count("a", 10, 1, 10)]]


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_deviation_is_explained_by_its_rules(is_wrong: bool) -> None:
    """The switches that matter are named, and no others; a result that no rule asks for is not explained."""
    case = case_of([STREAM, GROUP, ON_CLOSE, COUNT], JUMP)
    found = [[], [count("a", 0, 2 if is_wrong else 1, 0)]]
    assert explained(case, [[], []], found) == (None if is_wrong else ("windows_are_kept",))


def test_a_result_that_is_kafkas_needs_no_switch() -> None:
    """Where both rules say the same, nothing is to be explained."""
    case = case_of([STREAM, GROUP, TUMBLING, COUNT], [("in", "a", "x", 0)])
    assert explained(case, [[count("a", 0, 1, 0)]], [[count("a", 0, 1, 0)]]) == ()


def test_a_wrong_expectation_is_not_explained() -> None:
    """If the interpreter does not give what Kafka Streams is said to give, its word on StreamKit's rules counts for nothing."""
    case = case_of([STREAM, GROUP, TUMBLING, COUNT], [("in", "a", "x", 0)])
    assert explained(case, [[]], [[count("a", 0, 1, 0)]]) is None


DECISIVE = {  # cases that show the effect of each switch, so that not all have to be run for it
    "random_14_0021_table_count",
    "random_14_0025_table_agg_repartition",
    "random_14_0036_stream_table_grace_left",
    "random_14_0042_same_table_twice",
    "random_14_0057_cogroup_sliding",
    "random_14_0091_suppress_window_closes",
    "random_14_0104_stream_stream_inner",
    "random_14_0135_table_filter_not",
    "random_14_0152_suppress_window_closes",
    "random_14_0161_windowed_join",
    "random_2_0163_self_join",
    "random_5_0074_table_filter_not",
    "random_11_0230_stream_stream_outer",
    "random_559756_0003_cogroup_session",
    "random_920001_0048_table_table_outer",
    "random_9828_0011_suppress_time_limit",
}


def test_every_switch_changes_the_result_of_some_recorded_case() -> None:
    """
    No switch is without effect on random topologies, but for those that need wall-clock time or a window that looks back only.

    Nor do these topologies change a left row of a foreign-key join twice with one record: which answers come then is open in Kafka Streams.
    """
    without_effect = {"every_answer_counts", "finals_at_once", "waits_end_with_history", "windows_begin_before_1970"}
    unseen = set(Rules.names()) - (set() if TAKES_ALL else without_effect)
    for case in sorted(recorded(), key=lambda case: case["name"] not in DECISIVE):
        every = results(case, STREAMKIT) if unseen else []
        unseen -= {name for name in unseen if results(case, STREAMKIT.without(name)) != every}
    assert unseen == (without_effect if TAKES_ALL else set())
