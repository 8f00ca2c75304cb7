"""Promises of the comparison of two programs: what came, went and changed is told of each subject, and nothing else."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.evolution.program_comparison import compare
from streamkit.engine.runs.compile import compile, compile_with_settings
from streamkit.plan.earlier_program import read_program
from streamkit.plan.program_change import (
    ADDED,
    CHANGED,
    GONE,
    INPUTS,
    OUTPUTS,
    SAME,
    STEPS,
    STORES,
    ProgramChange,
    changes_of,
)
from tests.kit.engine_run import fresh_log
from tests.unit.engine.cases import CASES
from tests.unit.engine.random_data import create_topics


@pytest.fixture
def log():
    with fresh_log() as log:
        log.create_topic("orders", "id bigint, customer string, amount double, at timestamp", key="customer", partitions=2)
        log.create_topic("customers", "customer string, city string", key="customer", partitions=2)
        yield log


@pytest.fixture
def compared(log):
    """What differs between two topologies, as functions declare them, whose programs went through the catalog's text; nothing that is the same."""

    def found(before, now):
        return [one for one in everything(log, before, now) if one.fate != SAME]

    return found


def everything(log, before, now):
    earlier, later = (None if declare is None else program_of(log, declare) for declare in (before, now))
    assert later is not None
    return compare(earlier, later)


def program_of(log, declare):
    app = sk.Topology("shop")
    declare(app)
    return read_program(compile(app, log).text)


def plain(app):
    app.stream("orders").filter("amount > 1", name="large").to("out")


def counted(app, **aggregates):
    aggregates = aggregates or {"n": F.count("*")}
    app.stream("orders").group_by("customer").agg(store="counts", **aggregates).to("out")


@pytest.mark.parametrize("case", CASES)
def test_the_same_program_has_no_changes(case):
    """Programs of all operators are the same as what the catalog kept of them; without one before them, all that they have is new."""
    with fresh_log() as log:
        create_topics(log)
        program = compile_with_settings(CASES[case].topology, log)
    first, again = compare(None, program), compare(read_program(program.text), program)

    assert {one.fate for one in first} == {ADDED}
    assert {one.fate for one in again} == {SAME}
    assert {(one.subject, one.name) for one in first} == {(one.subject, one.name) for one in again}
    assert {one.name for one in changes_of(first, STORES)} == {one.name for one in program.stores}


def test_a_renamed_step_goes_and_comes(compared):
    """A step under another name is a step that came and one that went, with what each does."""

    def renamed(app):
        app.stream("orders").filter("amount > 1", name="big").to("out")

    assert compared(plain, renamed) == [
        ProgramChange(STEPS, "big", ADDED, "filter: amount > 1.0"),
        ProgramChange(STEPS, "large", GONE, "filter: amount > 1.0"),
    ]


def test_a_changed_step_has_the_text_before(compared):
    """A step that does something else under its name has both texts."""

    def larger(app):
        app.stream("orders").filter("amount > 2", name="large").to("out")

    assert compared(plain, larger) == [ProgramChange(STEPS, "large", CHANGED, "filter: amount > 2.0", "filter: amount > 1.0")]


def test_a_function_and_an_error_rule_are_changes(compared):
    """A step whose text is the same says in what it differs: the code of its function, or what a record that fails becomes."""

    def mapped(function, **options):
        def declare(app):
            app.stream("orders").map_values(function, "twice int", name="twice", **options).to("out")

        return declare

    (code,) = compared(mapped(lambda row: {"twice": 2}), mapped(lambda row: {"twice": 3}))
    assert (code.name, code.fate, code.before) == ("twice", CHANGED, "")
    assert "what has changed: " in code.text
    (rule,) = compared(mapped(function := lambda row: {"twice": 2}), mapped(function, on_error="skip"))
    assert (rule.name, rule.fate) == ("twice", CHANGED)
    assert rule.text.endswith("what has changed: on error")


def test_a_topic_that_is_read_twice_is_one_input(compared):
    """A topic that is read as a stream and as a table, too, has changed, with both kinds; read once more as a stream it has not."""

    def streams(app):
        plain(app)
        app.stream("orders").filter("amount > 5").to("more")

    def kinds(app):
        plain(app)
        app.table("orders").to("copy")

    assert changes_of(compared(plain, streams), INPUTS) == []
    assert changes_of(compared(plain, kinds), INPUTS) == [ProgramChange(INPUTS, "orders", CHANGED, "stream; table", "stream")]
    assert changes_of(compared(kinds, plain), INPUTS) == [ProgramChange(INPUTS, "orders", CHANGED, "stream", "stream; table")]
    assert changes_of(compared(kinds, kinds), INPUTS) == []


def test_a_topic_that_is_written_twice_is_one_output(compared):
    """Two steps that write to one topic are one output, which came once."""

    def twice(app):
        plain(app)
        stream = app.stream("orders")
        stream.filter("amount > 5", name="first").to("both")
        stream.filter("amount < 2", name="second").to("both")

    columns = "id bigint, customer string, amount double, at timestamp, key ['customer']"
    assert changes_of(compared(plain, twice), OUTPUTS) == [ProgramChange(OUTPUTS, "both", ADDED, columns)]


def test_inputs_come_and_go(compared):
    """An input that came says as what it is read; one that went is read no longer."""

    def joined(app):
        customers = app.global_table("customers")
        app.stream("orders").filter("amount > 1", name="large").join(customers, on="customer").to("out")

    assert changes_of(compared(plain, joined), INPUTS) == [ProgramChange(INPUTS, "customers", ADDED, "global table, read whole")]
    assert changes_of(compared(joined, plain), INPUTS) == [ProgramChange(INPUTS, "customers", GONE, "no longer read")]


def test_how_an_input_is_read_is_a_change(log, compared):
    """Another event time is told by its field; more columns of the topic are told by the columns, of now and of before."""

    def timed(app):
        app.stream("orders", timestamp="at").filter("amount > 1", name="large").to("out")

    assert changes_of(compared(plain, timed), INPUTS) == [
        ProgramChange(INPUTS, "orders", CHANGED, "stream; what has changed: event time")
    ]
    before = program_of(log, plain)
    log.alter_topic("orders", schema="id bigint, customer string, amount double, at timestamp, note string")
    columns = "id bigint, customer string, amount double, at timestamp"
    assert changes_of(compare(before, program_of(log, plain)), INPUTS) == [
        ProgramChange(
            INPUTS,
            "orders",
            CHANGED,
            f"stream; {columns}, note string, key ['customer']",
            f"stream; {columns}, key ['customer']",
        )
    ]


def test_columns_of_an_output_are_a_change(compared):
    """An output with other columns has those of now and of before; a topic that is no longer written is told so."""

    def fewer(app):
        app.stream("orders").filter("amount > 1", name="large").select("customer", "amount").to("out")

    (output,) = changes_of(compared(plain, fewer), OUTPUTS)
    assert output == ProgramChange(
        OUTPUTS,
        "out",
        CHANGED,
        "customer string, amount double, key ['customer']",
        "id bigint, customer string, amount double, at timestamp, key ['customer']",
    )

    def elsewhere(app):
        app.stream("orders").filter("amount > 1", name="large").to("other")

    assert [(one.name, one.fate) for one in changes_of(compared(plain, elsewhere), OUTPUTS)] == [("other", ADDED), ("out", GONE)]


def test_a_store_with_other_parts_says_which(compared):
    """A store says each part that came, went or is another, in the words of a refused start."""
    (store,) = changes_of(compared(counted, lambda app: counted(app, n=F.count("*"), total=F.sum("amount"))), STORES)
    assert (store.name, store.fate) == ("counts", CHANGED)
    assert store.text.startswith("the aggregate 'total' was added: sum(amount)")
    (other,) = changes_of(
        compared(lambda app: counted(app, n=F.min("amount")), lambda app: counted(app, n=F.max("amount"))), STORES
    )
    assert "the aggregate 'n' was min(amount)" in other.text and "and is max(amount)" in other.text


def test_a_store_without_a_log_is_a_change(compared):
    """Whether the changes of a store are kept is a part of it."""

    def unlogged(app):
        counted(app)
        app.disable_logging("counts")

    assert changes_of(compared(counted, unlogged), STORES) == [
        ProgramChange(STORES, "counts", CHANGED, "its log was on, and is off")
    ]


def test_a_store_that_went_says_why(compared):
    """A store that the topology drops went as it says; one that it only names no longer, after a reset, says that."""

    def dropped(app):
        plain(app)
        app.drop_store("counts")

    (gone,) = changes_of(compared(counted, dropped), STORES)
    assert gone == ProgramChange(STORES, "counts", GONE, "as the topology says")
    (unnamed,) = changes_of(compared(counted, plain), STORES)
    assert unnamed == ProgramChange(STORES, "counts", GONE, "the topology no longer names it")
    (came,) = changes_of(compared(dropped, counted), STORES)
    assert came.fate == ADDED and came.text.startswith("aggregate: by customer, store counts")


def test_lines_are_no_change(log):
    """The same topology at other lines of a file is the same."""

    def program(shift):
        found = json.loads(compile(declared(), log).text)
        found["lines"] = {step: f"{line}{shift}" for step, line in found["lines"].items()}
        return read_program(json.dumps(found))

    def declared():
        app = sk.Topology("shop")
        counted(app)
        return app

    assert program("0").lines != program("1").lines
    assert {one.fate for one in compare(program("0"), program("1"))} == {SAME}


def test_of_keepers_alone_no_steps_are_told(log):
    """A program of format 1 has the keepers of its stores alone, so steps are not compared with it."""
    program = program_of(log, counted)
    plain = json.loads(program.text)
    plain["operators"] = [one for one in plain["operators"] if one["kind"] == "aggregate"]
    found = compare(read_program(json.dumps(plain)), program)
    assert changes_of(found, STEPS) == [] and {one.fate for one in changes_of(found, STORES)} == {SAME}
