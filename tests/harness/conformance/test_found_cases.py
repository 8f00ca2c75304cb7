"""Small topologies in which the engine and the interpreter once disagreed, or one way of running with another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.harness.conformance.builder import Json
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import results
from tests.harness.conformance.test_random_topologies import stepwise_difference
from tests.harness.conformance.ways import Way, difference, is_bounded

pytestmark = pytest.mark.filterwarnings("ignore:the subtractor .* does not undo")
STREAM, OTHER, TABLE = ({"id": name, "op": op, "topic": name} for name, op in (("s", "stream"), ("o", "stream"), ("t", "table")))
THIRD = {"id": "u", "op": "stream", "topic": "u"}
VERSIONED = {**TABLE, "store": {"type": "versioned", "history_retention_ms": 5}}
LEFT_JOIN: Json = {
    "id": "j",
    "op": "join",
    "kind": "stream_stream",
    "type": "left",
    "left": "s",
    "right": "o",
    "joiner": "concat(+)",
}
LEFT_JOIN |= {"before_ms": 0, "after_ms": 2, "grace_ms": 0}
WAITING: Json = {
    "id": "j",
    "op": "join",
    "kind": "stream_table",
    "type": "inner",
    "left": "s",
    "right": "h",
    "joiner": "pair",
    "grace_ms": 20,
}
HISTORY = {"id": "h", "op": "table", "topic": "t", "store": {"type": "versioned", "history_retention_ms": 300}}
TUMBLING = {"id": "w", "op": "window", "type": "tumbling", "size_ms": 10, "grace_ms": 0, "in": "g"}
COUNT = {"id": "c", "op": "count", "in": "w"}
KEPT: Json = {"id": "f", "op": "filter", "in": "r", "pred": "value_equals_ignore_case(keep)"}
BY_FOREIGN_KEY: Json = {"id": "j", "op": "join", "kind": "foreign_key", "type": "inner", "left": "t", "right": "f"}
BY_FOREIGN_KEY |= {"fk_fn": "fk_after_bar", "joiner": "pair"}
COMES_AND_GOES = [
    ("t", "l", "v|f", 1),
    *(("r", "f", value, number) for number, value in enumerate(["drop", "drop", None, "keep", "drop", "drop", None], 3)),
]
LIMITED = {"id": "x", "op": "suppress", "in": "t", "until": "time_limit", "ms": 5}


def grouped(name: str) -> Json:
    return {"id": "g", "op": "group_by_key", "in": name}


FINAL_RESULTS = [  # by their value, behind windows that give them when they close
    STREAM,
    grouped("s"),
    {**TUMBLING, "emit": "on_close"},
    {**COUNT, "op": "reduce", "fn": "append(+)"},
    {"id": "k", "op": "to_stream", "in": "c", "key_fn": "value"},
]

HOPPING = {
    "id": "w",
    "op": "window",
    "type": "hopping",
    "size_ms": 20,
    "advance_ms": 5,
    "grace_ms": 0,
    "in": "g",
    "emit": "on_close",
}
FINAL_COUNTS = [  # of the windows in which one value is the final result
    STREAM,
    grouped("s"),
    HOPPING,
    {**COUNT, "op": "reduce", "fn": "append(+)"},
    {"id": "k", "op": "to_stream", "in": "c", "key_fn": "value"},
    {**grouped("k"), "id": "h"},
    {"id": "v", "op": "window", "type": "sliding", "time_difference_ms": 1, "grace_ms": 5, "in": "h"},
    {**COUNT, "id": "d", "in": "v"},
]
FAR_APART = [("s", "a", "x", 136), ("s", "b", "y", 141), ("s", "a", "z", 179), ("s", "a", "z", 300)]


def case_of(nodes: Sequence[Json], steps: Sequence[tuple[str, Any, Any, int]], **types: str) -> Json:
    """A case whose output is its last node."""
    taken = [dict(zip(("topic", "key", "value", "ts"), step, strict=True)) for step in steps]
    outputs = [{"name": "out", "node": nodes[-1]["id"]}]
    topology = {"types": {"key": "string", "value": "string", **types}, "nodes": list(nodes), "outputs": outputs}
    return {"name": "made", "kind": "topology", "operator": nodes[-1]["op"], "topology": topology, "steps": taken}


CASES: dict[str, tuple[Json, str | None]] = {  # and the rule without which another result is right
    "a record without a key ends the history of a table": (
        case_of([VERSIONED], [("t", "a", "x", 10), ("t", None, "y", 20), ("t", "b", "z", 10)]),
        "time_of_inputs",
    ),
    "each change of a left row has a result, also if the next one comes with the same record": (
        case_of(
            [
                STREAM,
                {"id": "f", "op": "flat_map_values", "in": "s", "fn": "v_and_V"},
                grouped("f"),
                {"id": "a", "op": "aggregate", "in": "g", "init": "", "fn": "append(+)"},
                TABLE,
                {
                    "id": "j",
                    "op": "join",
                    "kind": "foreign_key",
                    "type": "left",
                    "left": "a",
                    "right": "t",
                    "fk_fn": "fk_after_bar",
                }
                | {"joiner": "pair"},
            ],
            [("t", "b", "x", 1), ("s", "a", "1", 2), ("s", "a", "|b", 3)],
        ),
        "every_answer_counts",
    ),
    "rows that leave early come with those whose wait is over, the oldest first": (
        case_of(
            [
                TABLE,
                {"id": "g", "op": "group_by", "in": "t", "fn": "value_value"},
                {"id": "c", "op": "count", "in": "g"},
                {**LIMITED, "in": "c", "buffer": {"max_records": 1, "when_full": "emit_early"}},
            ],
            [("t", -1, 2, 3), ("t", 5, 7, 23), ("t", -1, 2, 26), ("t", 5, -3, 35)],
            key="int",
            value="int",
        ),
        None,
    ),
    "a row that leaves with the record does not count for the bound": (
        case_of(
            [
                TABLE,
                {"id": "g", "op": "group_by", "in": "t", "fn": "value_value"},
                {"id": "c", "op": "count", "in": "g"},
                {**LIMITED, "in": "c", "buffer": {"max_records": 1, "when_full": "shut_down"}},
            ],
            [("t", "a", "x", 0), ("t", "b", "y", 10), ("t", "a", "y", 40)],
        ),
        "limits_when_time_passes",
    ),
    "final results that one record brings stand before it, so that what it lets go has the newest of them": (
        case_of([*FINAL_COUNTS, {**LIMITED, "in": "d", "ms": 10}], FAR_APART),
        "results_of_the_past_are_awaited",
    ),
    "a row that waits for a record counts for the bound at final results that stand before it": (
        case_of(
            [*FINAL_COUNTS, {**LIMITED, "in": "d", "ms": 10, "buffer": {"max_records": 1, "when_full": "emit_early"}}],
            FAR_APART,
        ),
        "results_of_the_past_are_awaited",
    ),
    "what one suppress lets go with a record is of that record for the next": (
        case_of(
            [
                TABLE,
                {**LIMITED, "ms": 10},
                {"id": "g", "op": "group_by", "in": "x", "fn": "value_value"},
                {"id": "c", "op": "count", "in": "g"},
                {**LIMITED, "id": "y", "in": "c", "ms": 20},
            ],
            [("t", "a", "x", 1), ("t", "b", "x", 5), ("t", "c", "z", 100)],
        ),
        "limits_when_time_passes",
    ),
    "a join meets the row that was sent last with its time": (
        case_of(
            [
                {**TABLE, "id": "l", "topic": "l"},
                {**LIMITED, "in": "l"},
                TABLE,
                {"id": "j", "op": "join", "kind": "table_table", "type": "inner", "left": "x", "right": "t", "joiner": "pair"},
            ],
            [("l", "a", "1", 40), ("l", "b", "1", 50), ("l", "a", "2", 50), ("t", "a", "x", 30)],
        ),
        "rows_that_were_sent_have_times",
    ),
    "windows wait longer for rows that found no match": (
        case_of(
            [STREAM, OTHER, LEFT_JOIN, grouped("j"), TUMBLING, COUNT],
            [("s", "a", "x", 8), ("s", "b", "x", 11), ("s", "b", "y", 30)],
        ),
        "results_of_the_past_are_awaited",
    ),
    "windows wait no shorter for a join that meets only records from before": (
        case_of(
            [STREAM, OTHER, {**LEFT_JOIN, "before_ms": 10, "after_ms": -3}, grouped("j"), TUMBLING, COUNT],
            [("s", "a", "x", 12), ("s", "b", "y", 19), ("s", "a", "z", 13)],
        ),
        None,
    ),
    "windows wait longer for records that waited for a table": (
        case_of(
            [STREAM, HISTORY, WAITING, grouped("j"), TUMBLING, COUNT],
            [("t", "a", "x", 1), ("s", "a", "x", 8), ("s", "b", "x", 30)],
        ),
        "results_of_the_past_are_awaited",
    ),
    "a record that waits is joined before the table forgets its time": (
        case_of(
            [STREAM, {**HISTORY, "store": {"type": "versioned", "history_retention_ms": 30}}, WAITING],
            [
                ("t", "a", "old", 1),
                ("s", "a", "x", 5),
                ("t", "b", "far", 35),
                ("t", "a", "new", 36),
                ("s", "a", "y", 40),
                ("s", "a", "z", 70),
            ],
        ),
        "waits_end_with_history",
    ),
    "windows go on behind a record that the table's time brought": (
        case_of(
            [
                STREAM,
                {**HISTORY, "store": {"type": "versioned", "history_retention_ms": 30}},
                *(WAITING, grouped("j"), TUMBLING, COUNT),
            ],
            [
                ("t", "a", "old", 1),
                ("s", "a", "x", 5),
                ("t", "a", "new", 36),
                ("s", "a", "y", 9),
                ("s", "a", "y", 40),
                ("s", "a", "z", 90),
            ],
        ),
        "waits_end_with_history",
    ),
    "windows wait longer for final results": (
        case_of(
            [
                *FINAL_RESULTS,
                {**grouped("k"), "id": "h"},
                {**TUMBLING, "id": "v", "in": "h"},
                {**COUNT, "id": "d", "in": "v"},
            ],
            [("s", "a", "x", 8), ("s", "b", "y", 30)],
        ),
        "results_of_the_past_are_awaited",
    ),
    "a join of streams waits longer for final results": (
        case_of(
            [
                *FINAL_RESULTS,
                OTHER,
                {**LEFT_JOIN, "left": "o", "right": "k"},
            ],
            [("o", "x", "r", 4), ("s", "a", "x", 5), ("s", "a", "y", 12), ("s", "a", "z", 40)],
        ),
        "results_of_the_past_are_awaited",
    ),
    "a record of nothing cannot be sent to a table": (
        case_of([TABLE, LIMITED], [("t", "a", "x", 1), ("t", None, None, 20), ("t", "b", "x", 21)]),
        "tables_take_no_record_of_nothing",
    ),
    "a suppress holds back no deletion of what a filter never kept": (
        case_of(
            [TABLE, {"id": "f", "op": "filter", "in": "t", "pred": "value_equals_ignore_case(x)"}, {**LIMITED, "in": "f"}],
            [("t", "a", "y", 1), ("t", "b", "x", 2), ("t", "b", "y", 10), ("t", "b", "y", 30)],
        ),
        None,
    ),
    "another stream makes late what comes when its time has passed": (
        case_of(
            [STREAM, OTHER, LEFT_JOIN, THIRD, {"id": "m", "op": "merge", "ins": ["j", "u"]}, grouped("m"), TUMBLING, COUNT],
            [("s", "a", "x", 8), ("u", "b", "x", 50), ("s", "b", "x", 51), ("s", "b", "x", 60)],
        ),
        None,
    ),
    "a row that was held back waits for a join no longer than time has passed already": (
        case_of(
            [TABLE, LIMITED, {"id": "s", "op": "to_stream", "in": "x"}, {**HISTORY, "topic": "o"}, {**WAITING, "grace_ms": 6}],
            [("o", "a", "row", 1), ("t", "a", "x", 10), ("t", "b", "y", 30), ("t", "b", "z", 50)],
        ),
        None,
    ),
    "numbers of keys are told in the order of key groups, then of keys": (
        case_of(
            [STREAM, {"id": "p", "op": "process", "in": "s", "every_ms": 10}],
            [("s", key, "x", 1) for key in ("ä", "", "ab", "b")] + [("s", "b", "x", 12)],
        ),
        None,
    ),
    "a foreign-key join deletes nothing for a row that a filter never kept": (
        case_of([TABLE, {**TABLE, "id": "r", "topic": "r"}, KEPT, BY_FOREIGN_KEY], COMES_AND_GOES),
        None,
    ),
    "a left join by a foreign key says nothing of a row that a filter never kept": (
        case_of([TABLE, {**TABLE, "id": "r", "topic": "r"}, KEPT, {**BY_FOREIGN_KEY, "type": "left"}], COMES_AND_GOES),
        None,
    ),
    "a join below one by a foreign key deletes nothing for a row that a filter never kept": (
        case_of(
            [
                *(TABLE, {**TABLE, "id": "r", "topic": "r"}, KEPT, {**TABLE, "id": "a", "topic": "a"}),
                {"id": "b", "op": "join", "kind": "table_table", "type": "left", "left": "a", "right": "f", "joiner": "pair"},
                {**BY_FOREIGN_KEY, "right": "b"},
            ],
            [("a", "f", "row", 1), *COMES_AND_GOES],
        ),
        None,
    ),
    "values of a table with history that are mapped into a store take what comes out of order": (
        case_of(
            [
                VERSIONED,
                {"id": "n", "op": "map_values", "in": "t", "fn": "len", "store": {"type": "kv"}},
                {"id": "g", "op": "group_by", "in": "n", "fn": "identity"},
                {"id": "c", "op": "aggregate", "in": "g", "init": "0", "adder": "append(+)", "subtractor": "append(-)"},
            ],
            [("t", "a", "ab", 10), ("t", "a", "reject", 13), ("t", "a", None, 12), ("t", "a", "x", 14)],
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_engine_gives_what_the_rules_say(name: str) -> None:
    """Step by step, and for each key in one epoch with several tasks."""
    case, _ = CASES[name]
    assert stepwise_difference(case) is None
    assert is_bounded(case) or difference(case, Way(batching="all", tasks=3, is_together=True)) is None


@pytest.mark.parametrize("name", [name for name, (_, rule) in CASES.items() if rule])
def test_the_case_is_about_its_rule(name: str) -> None:
    """Without the rule something else would be right."""
    case, rule = CASES[name]
    ours = Rules.streamkit()
    assert results(case, replace(ours, **{str(rule): False})) != results(case, ours)
