"""Promises to an application that gets operators, or loses some: those that stay keep their names, and so their state."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.errors import OrphanedStateError
from streamkit.plan.program import Structures
from streamkit.plan.program_change import STORES
from tests.kit.engine_run import Run, append, execute, fresh_log, stored, written
from tests.kit.sampling import in_turn

DAY = {"grace": "1 day"}


def grouped(app, other, to):
    group = app.stream("in").group_by("k")
    (group.agg(n=F.sum("v")) if other else group.count()).to(to)


def joined(app, other, to):
    within = sk.within("1 hour" if other else "1 day", **DAY)
    app.stream("in").join(app.stream("more"), within=within).select("v").to(to)


def suppressed(app, other, to):
    counts = app.stream("in").group_by("k").count(store="counts")
    counts.suppress(until=sk.time_limit("2 days" if other else "1 day")).to(to)


def kept(app, other, to):
    rows = app.stream("in")
    (rows.filter("v > 1000") if other else rows).to_table().emit("every").to(to)


def filtered(app, other, to):
    app.stream("more").join(app.table("in").filter("v > 1000" if other else "v > 0"), on="k").select("w").to(to)


def joined_later(app, other, to):
    table = app.table("in", versioned="1 day")
    app.stream("more").join(table, on="k", grace="2 hours" if other else "1 hour").select("w").to(to)


def joined_by_foreign_key(app, other, to):
    app.table("in").select("v", "l").join(app.table("words"), on={"l": "w"}, how="left" if other else "inner").to(to)


def scheduled(app, other, to):
    def called(interval):
        class Called(sk.Processor):
            def init(self, context):
                context.schedule(interval, "stream_time", lambda _: None)

            def process(self, record):
                pass

        return Called

    app.stream("in").process(called("2 days" if other else "1 day"), "n int").to(to)


VERBS = (grouped, joined, suppressed, kept, filtered, joined_later, joined_by_foreign_key, scheduled)
ROWS = [{"k": "x", "v": 1, "l": "a", "ts": 1}, {"k": "y", "v": 2, "l": "b", "ts": 2}]


@pytest.fixture
def log():
    with fresh_log() as log:
        log.create_topic("in", "k string, v bigint, l string", key="k", partitions=1)
        log.create_topic("more", "k string, w bigint", key="k", partitions=1)
        log.create_topic("words", "w string, x bigint", key="w", partitions=1)
        append(log, "in", ROWS)
        append(log, "more", [{"k": "x", "w": 1, "ts": 3}])
        yield log


def topology(verb, *others):
    """A topology with the operator of a verb for each of `others`, in that order: the first kind, or the other one."""
    app = sk.Topology("t")
    for other in others:
        verb(app, other, f"out-{other}")
    return app


def run(log, *declared):
    program = compile(topology(*declared), log)
    execute(log, program, Run(drain=False))
    return program


def held(log):
    return {name: stored(log, "t", name) for name in log.catalog.applications.get("t").stores}


@pytest.mark.parametrize(("verb", "others"), in_turn(VERBS, [(False, True), (True, False)]))  # declared behind it, and before
def test_an_operator_of_the_same_name_leaves_the_state_of_the_first(log, verb, others):
    """Whatever is declared before or behind it, an operator goes on with its stores; what it holds is what it held."""
    run(log, verb, False)
    before = held(log)
    run(log, verb, *others)
    after = held(log)

    assert before
    assert {name: after[name] for name in before} == before
    assert len(after) > len(before)
    run(log, verb, *reversed(others))
    assert held(log) == after


@pytest.mark.parametrize("verb", VERBS)
def test_an_operator_whose_namesake_goes_keeps_its_name(log, verb):
    """Of two that were told apart by the hashes of their structures, the one that stays goes on when the other is dropped."""
    run(log, verb, False, True)
    both = held(log)
    one = compile(topology(verb, True), log)
    with pytest.raises(OrphanedStateError):
        start(log.catalog, log.storage, one)
    app = topology(verb, True)
    app.drop_store(*set(both) - {store.name for store in one.stores})
    execute(log, compile(app, log), Run(drain=False))

    assert held(log) == {store.name: both[store.name] for store in one.stores}


@pytest.mark.parametrize("verb", VERBS)
def test_names_of_an_earlier_version_go_on(log, verb):
    """A program that does not say the structures behind its names is known by the hashes in them."""
    program = run(log, verb, False, True)
    before = held(log)
    forget_structures(log)
    again = compile(topology(verb, True, False), log)
    execute(log, again, Run(drain=False))

    assert again.structures == program.structures != Structures()
    assert held(log) == before


def test_an_operator_whose_structure_is_unknown_is_not_mistaken_for_another(log):
    """Where the record does not tell which of two had the store, a start is refused; under its name the right one goes on."""
    run(log, kept, False)
    before = held(log)
    forget_structures(log)
    with pytest.raises(OrphanedStateError):
        start(log.catalog, log.storage, compile(topology(kept, True, False), log))
    app = sk.Topology("t")
    app.stream("in").filter("v > 1000").to_table().emit("every").to("out-True")
    app.stream("in").to_table(store="in-table").emit("every").to("out-False")
    execute(log, compile(app, log), Run(drain=False))

    assert held(log)["in-table"] == before["in-table"]


def test_an_operator_whose_filter_changes_goes_on(log):
    """What stands before an operator may change, also that of one of two namesakes."""
    for texts in (["v > 0"], ["v > 1"], ["v > 2", "v > 1"], ["v > 2", "v > 3"]):
        app = sk.Topology("t")
        for number, text in enumerate(texts):
            app.stream("in").filter(text).group_by("k").count().to(f"out-{number}")
        execute(log, compile(app, log), Run(drain=False))

    assert sorted(row["k"] for row in stored(log, "t", "in-by-k")) == ["x", "y"]


def test_results_go_on(log):
    """A count to which a sum of the same group was added goes on counting."""
    run(log, grouped, False)
    append(log, "in", ROWS)
    run(log, grouped, True, False)

    assert [one.row["count"] for one in written(log, "out-False")] == [1, 1, 2, 2]
    assert {one.fate for one in preview(log.catalog, compile(topology(grouped, False, True), log)).of(STORES)} == {"same"}


def forget_structures(log):
    """Leave the program on record as an earlier version wrote it."""
    state = log.catalog.applications.get("t")
    program = {
        name: value for name, value in json.loads(log.catalog.applications.program_of("t")).items() if name != "structures"
    }
    text = json.dumps(program, sort_keys=True)
    log.catalog.write(lambda one: one.execute("UPDATE application SET program = ? WHERE id = ?", (text, state.id)))
