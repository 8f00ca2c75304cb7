"""Programs as JSON, and what holds of every program."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from streamkit.errors import ConfigError, FormatVersionError
from streamkit.formats.format import Format
from streamkit.plan import program as p
from streamkit.plan.event_time import EventTime
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.join_window import JoinWindow
from streamkit.plan.operator import KINDS
from streamkit.plan.operators.aggregate import Aggregate, ColumnFold, FunctionFold
from streamkit.plan.operators.bounded_final_table import BoundedFinalTable
from streamkit.plan.operators.changes_by_key import ChangesByKey
from streamkit.plan.operators.check import Check
from streamkit.plan.operators.dead_letters import DeadLetters
from streamkit.plan.operators.decode import Decode
from streamkit.plan.operators.distinct import Distinct
from streamkit.plan.operators.emit import Emit
from streamkit.plan.operators.empty_groups import EmptyGroups
from streamkit.plan.operators.encode import Encode
from streamkit.plan.operators.event_times import EventTimes
from streamkit.plan.operators.exchange import Receive, Send
from streamkit.plan.operators.explode import Explode
from streamkit.plan.operators.filter import Filter
from streamkit.plan.operators.final_table import FinalTable
from streamkit.plan.operators.fold import Fold
from streamkit.plan.operators.foreign_key_join import ForeignKeyJoin, Subscribe
from streamkit.plan.operators.global_join import GlobalJoin
from streamkit.plan.operators.late import Late, LateOfSessions
from streamkit.plan.operators.materialize import Materialize
from streamkit.plan.operators.merge import Merge
from streamkit.plan.operators.net_change import NetChange
from streamkit.plan.operators.old_values import OldValues
from streamkit.plan.operators.peek import Foreach, Peek
from streamkit.plan.operators.process import Process
from streamkit.plan.operators.project import Project
from streamkit.plan.operators.regroup import Regroup
from streamkit.plan.operators.repartition import Repartition
from streamkit.plan.operators.row_function import RowFunction
from streamkit.plan.operators.source import SourceRows
from streamkit.plan.operators.split import Branch, SplitRows
from streamkit.plan.operators.stream_stream_join import StreamStreamJoinRows
from streamkit.plan.operators.suppress import Suppress
from streamkit.plan.operators.table_aggregate import TableAggregate
from streamkit.plan.operators.table_function_aggregate import TableFunctionAggregate
from streamkit.plan.operators.table_join import TableJoin
from streamkit.plan.operators.table_table_join import TableTableJoinRows
from streamkit.plan.operators.unified_key import UnifiedKey
from streamkit.plan.operators.versioned_join import VersionedJoin
from streamkit.plan.operators.versioned_table import VersionedTable
from streamkit.plan.operators.windowed_table import WindowedTable
from streamkit.plan.operators.write import Write
from streamkit.plan.processing import Schedule
from streamkit.plan.program_check import check_program
from streamkit.plan.store_kinds.window_store import WindowStoreDefinition
from streamkit.plan.window_kinds.calendar import Calendar, CalendarWindowing
from streamkit.plan.window_kinds.session import SessionWindowing
from streamkit.plan.window_kinds.sliding import SlidingWindowing
from streamkit.plan.windows import Settling, Windowing
from streamkit.schema import Schema

AMOUNT = TypedExpression("column", "double", (), "amount")
PREDICATE = TypedExpression("gt", "boolean", (AMOUNT, TypedExpression("literal", "double", (), 10.5)))
TOTAL = TypedAggregate("total", "sum", "double", AMOUNT)
EVENTS = Schema.parse("user string NOT NULL, amount decimal(10,2), `od d``name` timestamp")
STATE = Schema.parse("user string, `total.sum` double")

WINDOW = Windowing(60_000, 60_000, 0, (1,), "totals")
SESSIONS = SessionWindowing(60_001, 1, 0, (1,), "s")
SLIDING_WINDOWS = SlidingWindowing(60_001, 1, 0, (1,), "s")
DAYS = CalendarWindowing(90_000_000, 90_000_000, 0, (1,), "s", calendar=Calendar("day", 1, "Europe/Berlin"))
TOTALS = ColumnFold((TOTAL,))
LEFT_ONLY = (("user", "left.user"),)

PROGRAM = p.Program(
    application="app",
    inputs=(p.Input("airlines", "global_table", EVENTS, ("user",)), p.Input("events", "stream", EVENTS, ("user",))),
    operators=(
        SourceRows("source", 0, (), 1, ("user", "amount")),
        Filter("filter", 0, ("source",), PREDICATE),
        GlobalJoin(
            "global",
            0,
            ("filter",),
            "left",
            ("user",),
            0,
            LEFT_ONLY,
            (Project("rename", 0, ("x",), (("a", AMOUNT),)),),
            ("user",),
        ),
        Fold("fold", 0, ("global",), ("user",), (TOTAL,), WINDOW),
        Send("send", 0, ("fold",), 0, ("user",), False),
        Receive("receive", 1, ("send",), 0, ("user",), True),
        Aggregate("aggregate", 1, ("receive",), (("user",),), "totals", TOTALS, ("latest", "final"), WINDOW, True),
        Emit("emit", 1, ("aggregate#final",)),
        Write("write", 1, ("emit",), 0),
    ),
    edges=(p.Edge(0, 0, 1, ("user",), STATE),),
    stores=(p.ProgramStore("totals", 0, 1, STATE.select(["user"]), STATE.select(["total.sum"]), 60_000, 120_000),),
    outputs=(p.Output("out", EVENTS, ("user",), ("user",), "delete"),),
    stages=1,
)


def changed(operator_id, **fields):
    operators = tuple(replace(one, **fields) if one.id == operator_id else one for one in PROGRAM.operators)
    return replace(PROGRAM, operators=operators)


def with_copy_of(operator_id):
    copy = replace(PROGRAM.operator(operator_id), id="copy")
    return replace(PROGRAM, operators=(*PROGRAM.operators, copy))


def test_json_and_back():
    """A program that went through JSON text is equal, has the same text and the same fingerprint."""
    text = json.dumps(PROGRAM.to_json(), sort_keys=True)
    back = p.Program.from_json(json.loads(text))

    assert back == PROGRAM
    assert json.dumps(back.to_json(), sort_keys=True) == text
    assert back.fingerprint == PROGRAM.fingerprint


def test_fingerprints_differ():
    """Any change of the program changes its fingerprint."""
    others = [
        replace(PROGRAM, application="b"),
        changed("fold", window=replace(WINDOW, grace_ms=1)),
        changed("filter", table=True),
    ]

    assert len({one.fingerprint for one in [PROGRAM, *others]}) == 4


CALL = TypedExpression("python", "void", (AMOUNT,), "look:0123")
OTHERS = (
    EventTimes("t", 0, ("x",), "at", "bigint"),
    Aggregate("s", 1, ("x",), (("k",),), "s", TOTALS, ("every",), SESSIONS),
    Aggregate("w", 1, ("x",), (("k",),), "s", TOTALS, ("final",), SLIDING_WINDOWS),
    Aggregate("fs", 1, ("x",), (("k",),), "s", FunctionFold(CALL, (CALL,), CALL, True), ("every",), SESSIONS),
    Aggregate("fw", 1, ("x",), (("k",),), "s", FunctionFold(CALL, (CALL,)), ("final",), SLIDING_WINDOWS),
    Materialize("m", 1, ("x",), "s"),
    TableJoin("j", 1, ("a", "b"), "left", ("k",), (("k", "left.k"),)),
    VersionedTable("v", 1, ("x",), "s", "h", 5, (0,)),
    WindowedTable("wt", 1, ("x",), "s", ("window_start", "window_end"), (Settling(WINDOW, 7),)),
    BoundedFinalTable("bf", 1, ("x", "y"), ("k",), "s", ("window_start", "window_end"), WINDOW, 10),
    VersionedJoin("vj", 1, ("a", "v#every"), "left", ("k",), (("k", "left.k"),), None, "w", (0, 1)),
    TableTableJoinRows("t", 1, ("a", "b"), "outer", ("k",), ("l",), (("k", "left.k"),)),
    Subscribe("u", 1, ("m",), "left", ("k",), ("f",)),
    ForeignKeyJoin("f", 2, ("u", "m"), "inner", ("k",), ("f",), "s", (("k", "left.k"),)),
    ChangesByKey("c", 3, ("f",), ("k",)),
    StreamStreamJoinRows("s", 1, ("a", "b"), "left", ("k",), ("l",), (("k", "left.k"),), JoinWindow(-1, 5, 2), 3, (0, 1)),
    Merge("u", 0, ("a", "b"), ("k",)),
    Check("k", 1, ("x",), (AMOUNT,), ("k",)),
    DeadLetters("d", 1, ("x#dead-letters",)),
    Project("p", 0, ("x",), (("a", AMOUNT),), ("a",), True),
    Encode("e", 1, ("x",), "t", Format("json"), Format("string"), Schema.parse("a int"), Schema.parse("a int, b string")),
    Decode(
        "d",
        0,
        ("x",),
        "t",
        Format("avro", '"int"', (("schema.registry.url", "http://x"),), "t", ('"long"',)),
        Format("string"),
        Schema.parse("key string"),
        Schema.parse("a int"),
        ("a",),
    ),
    UnifiedKey("ok", 0, ("x",), ("k",)),
    Peek("l", 0, ("x",), CALL),
    Foreach("e", 1, ("x",), CALL),
    Explode("x", 0, ("x",), AMOUNT, ("a",), True, True),
    RowFunction("f", 0, ("x",), CALL, ("k", "a"), ("a",), ("k",), ("a",), CALL, True, True),
    SplitRows("d", 0, ("x",), (AMOUNT, CALL)),
    Branch("b", 0, ("d#1",)),
    Repartition("r", 1, ("x",), ("k",), True),
    Aggregate("f", 1, ("a", "b"), (("k",), ("l",)), "s", FunctionFold(CALL, (CALL, CALL), None, True), ("every",), WINDOW),
    OldValues("o", 1, ("m",), ("k",)),
    EmptyGroups("eg", 1, ("o",), ("k",), ()),
    NetChange("n", 1, ("o",), ("k",), ("v",), ("v",), "latest", True),
    Regroup("g", 1, ("o",), ("v",)),
    TableAggregate("q", 2, ("g",), (("v",),), "s", ColumnFold(()), ("every", "old_and_new"), members="m"),
    TableFunctionAggregate("f", 2, ("g",), (("v",),), "s", FunctionFold(CALL, (CALL, CALL)), ("every",)),
    Process(
        "c",
        1,
        ("x",),
        CALL,
        EVENTS,
        ("user",),
        ("user",),
        ("user",),
        ("user",),
        True,
        False,
        "row",
        (WindowStoreDefinition("s", STATE.select(["user"]), STATE.select(["total.sum"]), 20, 10, True),),
        (Schedule("stream_time", 10), Schedule("wall_clock", 1000)),
        "c-schedules",
        ("late",),
        (0,),
    ),
    Suppress("s", 1, ("x",), "s", "s-since", WINDOW, 10, True),
    FinalTable("y", 1, ("x",), ("k",)),
    Late("z", 0, ("x",), ("k",), WINDOW),
    Late("zw", 0, ("x",), ("k",), SLIDING_WINDOWS),
    Late("zd", 0, ("x",), ("k",), DAYS),
    Distinct("d", 1, ("x",), ("k",), WINDOW, "d-seen", ("k",)),
    EventTimes("e", 0, ("x",), "at", "bigint"),
    LateOfSessions("z", 1, ("x#late",), ("k", "v")),
)


def test_every_operator_survives_json():
    """Every kind of operator has a name of its own and comes back as itself."""
    assert {type(one) for one in (*PROGRAM.operators, *OTHERS)} == set(KINDS.values())
    assert {one.stored_kind for one in (*PROGRAM.operators, *OTHERS)} == set(KINDS)
    for one in OTHERS:
        other = replace(PROGRAM, operators=(one,))
        assert p.Program.from_json(json.loads(json.dumps(other.to_json()))) == other


@pytest.mark.parametrize(
    ("window", "kind", "fields"),
    [
        (WINDOW, "aggregate", {"key", "aggregates", "folded"}),
        (SESSIONS, "session_aggregate", {"key", "aggregates"}),
        (SLIDING_WINDOWS, "sliding_aggregate", {"key", "aggregates"}),
        (WINDOW, "function_aggregate", {"keys", "initial", "updates", "merge", "tombstones"}),
        (SESSIONS, "function_session_aggregate", {"keys", "initial", "updates", "merge", "tombstones"}),
    ],
)
def test_aggregates_are_written_as_they_were_before_they_were_one(window, kind, fields):
    """An earlier version reads what this one writes: aggregates by their kind, what folds among their fields, windows with a calendar or null."""
    fold = FunctionFold(CALL, (CALL,)) if kind.startswith("function") else TOTALS
    (written,) = replace(PROGRAM, operators=(Aggregate("a", 1, ("x",), (("k",),), "s", fold, ("final",), window),)).to_json()[
        "operators"
    ]

    assert written["kind"] == kind
    assert set(written) == {"kind", "id", "stage", "inputs", "store", "modes", "window"} | fields
    assert set(written["window"]) == set(vars(window)) | {"calendar"}


@pytest.mark.parametrize("later", [{"on_error": {"x": "skip", "y": "dead_letter"}}, {"dropped_stores": ("s",)}], ids=str)
def test_what_came_later_is_part_of_a_program(later):
    """Which steps leave records out, and which stores go, comes back from JSON and changes the fingerprint; nothing leaves it as it was."""
    other = replace(PROGRAM, **later)
    assert p.Program.from_json(json.loads(json.dumps(other.to_json()))) == other
    assert other.fingerprint != PROGRAM.fingerprint
    unsaid = ("lines", "structures", "namings", "labels", "turns", "python", "on_error", "dropped_stores")
    earlier = {name: value for name, value in PROGRAM.to_json().items() if name not in unsaid}
    assert PROGRAM.fingerprint == hashlib.sha256(json.dumps(earlier, sort_keys=True).encode()).hexdigest()


def test_other_formats_are_refused():
    """A program of another format is not guessed at."""
    with pytest.raises(FormatVersionError, match="format 1"):
        p.Program.from_json({**PROGRAM.to_json(), "format": 1})


@pytest.mark.parametrize("key_groups", [0, 65_536, 70_000])
def test_key_groups_beyond_16_bits_are_refused(key_groups):
    """A program with more key groups than state keys can number is refused when it is made and when it is read."""
    expected = f"key_groups is {key_groups}; expected 1 to 65,535"
    with pytest.raises(ConfigError, match=expected):
        replace(PROGRAM, key_groups=key_groups)
    with pytest.raises(ConfigError, match=expected):
        p.Program.from_json(PROGRAM.to_json() | {"key_groups": key_groups})


def test_sound_program_passes():
    """The check has nothing against a sound program."""
    check_program(PROGRAM)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (replace(PROGRAM, operators=PROGRAM.operators + PROGRAM.operators[:1]), "'source'\\] occurs twice"),
        (replace(PROGRAM, operators=PROGRAM.operators[1:]), "takes rows of source, which does not stand before it"),
        (changed("filter", stage=1), "in another stage without an exchange"),
        (changed("source", input=2), "an input that is not there"),
        (changed("write", output=1), "an output that is not there"),
        (changed("aggregate", store="other"), "no store 'other' in its stage"),
        (changed("aggregate", folded=False), "aggregate takes rows of state"),
        (changed("receive", folded=False), "aggregate does not take rows of state"),
        (changed("aggregate", inputs=("send",)), "aggregate"),
        (changed("send", edge=1), "send names edge 1, and there are 1"),
        (changed("receive", edge=1), "receive names edge 1, and there are 1"),
        (with_copy_of("aggregate"), "keeper of store \\['totals'\\] occurs twice"),
        (with_copy_of("send"), "not every edge has one Send"),
        (with_copy_of("receive"), "not every edge has one Receive"),
        (replace(PROGRAM, edges=(replace(PROGRAM.edges[0], number=1),)), "the edges have the numbers \\[1\\]"),
        (replace(PROGRAM, edges=(replace(PROGRAM.edges[0], to_stage=2),)), "not at its end of edge 0"),
    ],
)
def test_unsound_programs_are_refused(broken, message):
    """Each invariant of a program is checked."""
    with pytest.raises(ValueError, match=message):
        check_program(broken)


def test_an_event_time_of_a_field_survives_json():
    """An input says the column, or where in the bytes it is; one that says none has no such entry, as programs of before."""
    plain = PROGRAM.to_json()
    assert all("event_time" not in one for one in plain["inputs"])
    time = EventTime("payload", ("at",), "bigint", "value", Format("json"), EVENTS)
    program = replace(PROGRAM, inputs=tuple(replace(one, event_time=time) for one in PROGRAM.inputs))
    assert p.Program.from_json(json.loads(json.dumps(program.to_json()))) == program
