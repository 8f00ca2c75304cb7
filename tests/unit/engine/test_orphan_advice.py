"""Promises of a refusal: what it says to write is what the verb takes, and with it the state goes on."""

from __future__ import annotations

import ast
import re
from contextlib import suppress

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.errors import OrphanedStateError
from streamkit.plan.program_change import REFUSED, SAME, STORES
from tests.kit.engine_run import Run, append, execute, fresh_log, stored

GRACE = {"grace": "1 day"}
WINDOW = sk.tumbling("1 hour", grace="1 hour")
WAYS = re.compile(r"(?P<word>store=|name=|\.named\(|)(?P<name>'[^']+')(?:\)| as the name of the store)? at ")


def named(handle, given):
    return replace_name(handle, **given) if given else handle


def replace_name(handle, *, named):
    return handle.named(named)


def on_each(record, context):
    for name in ("own-store", "x"):
        with suppress(Exception):
            context.store(name).put("k", {"n": 1})


class Called(sk.Processor):
    def init(self, context):
        context.schedule("1 day", "stream_time", lambda _: None)

    def process(self, record):
        pass


def counts(app, **given):
    return app.stream("in").group_by("l").count(**given)


def adder(state, row):
    return {"n": state["n"] + 1}


def grouped_table(app):
    return app.table("in", store="kept").group_by("l")


def joined(app, table):
    return app.stream("more").join(table, on="k").select("w")


def kept_in(*, store="x"):
    return sk.key_value_store(store, key="k string", value="n int")


VERBS = {
    "count": counts,
    "agg": lambda app, **given: app.stream("in").group_by("l").agg(n=F.sum("v"), **given),
    "windows": lambda app, **given: app.stream("in").group_by("l").windowed_by(WINDOW).count(**given),
    "sessions": lambda app, **given: app.stream("in").group_by("l").windowed_by(sk.session("1 s", **GRACE)).count(**given),
    "sliding": lambda app, **given: app.stream("in").group_by("l").windowed_by(sk.sliding("1 s", **GRACE)).count(**given),
    "reduce": lambda app, **given: app.stream("in").group_by_key().reduce(lambda one, other: other, **given),
    "aggregate": lambda app, **given: app.stream("in").group_by("l").aggregate({"n": 0}, adder, "n int", **given),
    "cogroup": lambda app, **given: app.stream("in").group_by_key().cogroup(adder).aggregate({"n": 0}, "n int", **given),
    "groups of a table": lambda app, **given: grouped_table(app).agg(n=F.sum("v"), most=F.max("v"), **given),
    "functions of a table": lambda app, **given: grouped_table(app).aggregate({"n": 0}, adder, adder, "n int", **given),
    "table": lambda app, **given: joined(app, app.table("in", **given)),
    "versioned table": lambda app, **given: joined(app, app.table("in", versioned="1 day", **given)),
    "to_table": lambda app, **given: joined(app, app.stream("in").to_table(**given)),
    "filter": lambda app, **given: joined(app, app.table("in").filter("v > 0", **given)),
    "drop": lambda app, **given: joined(app, named(app.table("in").drop("l"), given)),
    "select": lambda app, **given: joined(app, named(app.table("in").select("l"), given)),
    "with_columns": lambda app, **given: joined(app, named(app.table("in").with_columns(z=F.col("v") + 1), given)),
    "rename": lambda app, **given: joined(app, named(app.table("in").rename(l="letter"), given)),
    "map_values": lambda app, **given: joined(app, app.table("in").map_values(lambda row: {"z": 1}, "z int", **given)),
    "stream join": lambda app, **given: app.stream("in").join(
        app.stream("more"), within=sk.within("1 day", **GRACE), how="outer", **given
    ).select("v"),
    "as-of join": lambda app, **given: app.stream("more").join(
        app.table("in", versioned="1 day", store="kept"), on="k", grace="1 hour", **given
    ).select("w"),
    "table join": lambda app, **given: joined(
        app, app.table("in", store="one").join(app.table("more", store="other").rename(w="z"), **given)
    ),
    "foreign key": lambda app, **given: app.table("in", store="one").join(
        app.table("words", store="other"), on={"l": "w"}, **given
    ),
    "suppress": lambda app, **given: counts(app, store="counts").suppress(until=sk.time_limit("1 day"), **given),
    "suppress, kept": lambda app, **given: joined(
        app, app.stream("in").group_by_key().agg(n=F.sum("v"), store="n").suppress(until=sk.time_limit("0 s"), **given)
    ),
    "bounded suppress": lambda app, **given: app.stream("in").group_by("l").windowed_by(WINDOW).count(store="counts").suppress(
        until=sk.window_closes(), max_rows=100, when_full="stop", **given
    ),
    "store of a processor": lambda app, **given: app.stream("in").process(on_each, "k string", stores=[kept_in(**given)]),
    "schedules": lambda app, **given: app.stream("in").process(Called, "k string", **given),
}  # fmt: skip
ROWS = [{"k": "x", "v": 1, "l": "a", "ts": 1}, {"k": "y", "v": 2, "l": "b", "ts": 2}]


@pytest.fixture
def log():
    with fresh_log() as log:
        log.create_topic("in", "k string, v bigint, l string", key="k", partitions=1)
        log.create_topic("more", "k string, w bigint", key="k", partitions=1)
        log.create_topic("words", "w string, x bigint", key="w", partitions=1)
        append(log, "in", ROWS)
        append(log, "more", [{"k": "x", "w": 1, "ts": 3}])
        append(log, "words", [{"w": "a", "x": 1, "ts": 3}])
        yield log


def topology(verb, **given):
    app = sk.Topology("t")
    VERBS[verb](app, **given).to("out")
    return app


def own_keyword(verb):
    """How the test names the operator at first."""
    probe = sk.Topology("t")
    for keyword in ("name",) if verb == "foreign key" else ("store", "name", "named"):
        try:
            VERBS[verb](probe, **{keyword: "own-store"})
        except TypeError:
            continue
        return keyword
    raise AssertionError(verb)


def advised(text):
    """What a refusal says to write, as arguments of the verb."""
    found = {(way["word"], ast.literal_eval(way["name"])) for way in WAYS.finditer(text)}
    assert len(found) == 1, text
    ((word, name),) = found
    return {{"store=": "store", "name=": "name", ".named(": "named", "": "store"}[word]: name}


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_refusal_says_goes_on(log, verb):
    """An operator that lost its name is refused; written as the plan says, and as the error does, it has all its state again."""
    keyword = own_keyword(verb)
    execute(log, compile(topology(verb, **{keyword: "own-store"}), log), Run(drain=False))
    before = {name: stored(log, "t", name) for name in log.catalog.applications.get("t").stores}
    assert any(rows for name, rows in before.items() if name.startswith("own-store")) or verb in ("bounded suppress", "schedules")
    other = topology(verb) if verb != "count" else renamed_subject()
    with pytest.raises(OrphanedStateError) as refused:
        start(log.catalog, log.storage, compile(other, log))
    shown = [one.text for one in preview(log.catalog, compile(other, log)).of(STORES) if one.fate == REFUSED]

    given = advised(str(refused.value))
    assert shown and all(advised(text) == given for text in shown)
    again = compile(topology(verb, **given), log)
    assert {one.fate for one in preview(log.catalog, again).of(STORES)} == {SAME}
    execute(log, again, Run(drain=False))
    assert {name: stored(log, "t", name) for name in log.catalog.applications.get("t").stores} == before


def renamed_subject():
    """A count whose group is called otherwise because of what stands before it."""
    app = sk.Topology("t")
    app.stream("in").merge(app.stream("in").filter("v > 100")).group_by("l").count().to("out")
    return app
