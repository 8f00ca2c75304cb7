"""Promises of refusals: whoever follows what one recommends is not refused again, and what would be refused is not recommended."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.rebuild import Rebuild, rebuild_stores
from streamkit.errors import StreamKitError
from streamkit.log.log import Log
from tests.kit.engine_run import Run, append, execute, fresh_log

Called = Callable[[str], str]  # the name of a step or store, which may be another one than it was
SHORT = sk.tumbling("10 s", grace="5 s", retention="1 hour")
LONG = sk.tumbling("20 s", grace="5 s", retention="1 hour")
REBUILD, RENAME = "rebuild", "rename"


def total(version: int) -> Any:
    return F.sum("v") if version == 1 else F.max("v")


def sums(app: sk.Topology, version: int, called: Called) -> None:
    app.stream("in").group_by("g").agg(n=total(version), store=called("A")).to("out")


def windows(app: sk.Topology, version: int, called: Called) -> None:
    rows = app.stream("in").group_by("g").windowed_by(SHORT if version == 1 else LONG)
    rows.agg(n=F.count("*"), store=called("A")).emit("final").to("out")


def sessions(app: sk.Topology, version: int, called: Called) -> None:
    rows = app.stream("in").group_by("g").windowed_by(sk.session(f"{version} s", grace="1 s"))
    rows.agg(n=F.count("*"), store=called("A")).to("out")


def other_limit(app: sk.Topology, version: int, called: Called) -> None:
    table = app.stream("in").group_by("g").agg(n=F.sum("v"), store=called("A"))
    table.suppress(until=sk.time_limit(f"{5 * version} s"), name=called("S")).to("out")


def other_limit_in_front(app: sk.Topology, version: int, called: Called) -> None:
    """Groups follow from what is held back, and cannot begin behind a new step."""
    table = app.stream("in").group_by("g").agg(n=F.sum("v"), store=called("A"))
    held = table.suppress(until=sk.time_limit(f"{5 * version} s"), name=called("S"))
    held.group_by("n").agg(m=F.count("*"), store=called("G")).to("out")


def aggregate_in_front_of_a_limit(app: sk.Topology, version: int, called: Called) -> None:
    table = app.stream("in").group_by("g").agg(n=total(version), store=called("A"))
    table.suppress(until=sk.time_limit("5 s"), name=called("S")).to("out")


def table(app: sk.Topology, version: int, called: Called) -> None:
    """Another filter of a table, and groups of it."""
    kept = app.table("more", store=called("T")).filter(F.col("v") >= version - 1)
    kept.group_by("g").agg(n=F.count("*"), store=called("G")).to("out")


def groups_of_a_table(app: sk.Topology, version: int, called: Called) -> None:
    more = {"w": F.sum("v")} if version == 2 else {}
    app.table("more", store=called("T")).group_by("g").agg(n=F.count("*"), **more, store=called("G")).select("g", "n").to("out")


def pairs(app: sk.Topology, version: int, called: Called) -> None:
    within = sk.within(f"{version} s", grace="1 s")
    joined = app.stream("in").join(app.stream("more").select(w="v"), within=within, how="left", name=called("J"))
    joined.select("v", "w").to("out")


def by_the_clock(app: sk.Topology, version: int, called: Called) -> None:
    """What a processor keeps that the clock calls: no replay brings that back."""
    name = called("P")

    class Ticking(sk.Processor):
        def init(self, context: Any) -> None:
            self.store = context.store(name)
            context.schedule("1 s", "wall_clock", lambda time: None)

        def process(self, record: Any) -> None:
            pass

    store = sk.key_value_store(name, key="k string", value="n int" if version == 1 else "n string")
    app.stream("in").process(Ticking, "n int", stores=[store], name=called("step")).to("out")


def without_a_log(app: sk.Topology, version: int, called: Called) -> None:
    sums(app, version, called)
    app.disable_logging(called("A"))


def other_topic(app: sk.Topology, version: int, called: Called) -> None:
    app.stream("in" if version == 1 else "more").group_by("g").agg(n=F.count("*"), store=called("A")).to("out")


def another_stream(app: sk.Topology, version: int, called: Called) -> None:
    """Windows of another size, whose stream time another topic moves too: only the replay tells how far."""
    rows, more = app.stream("in"), app.stream("more")
    more.filter("v < 0").to("ignored")
    windows = (rows if version == 1 else rows.merge(more)).group_by("g").windowed_by(SHORT if version == 1 else LONG)
    windows.agg(n=F.count("*"), store=called("A")).emit("final").to("out")


def young_behind_windows(app: sk.Topology, version: int, called: Called) -> None:
    results = app.stream("in").group_by("g").windowed_by(SHORT).agg(n=F.count("*"), store=called("A")).emit("final")
    results.to("out")
    if version == 2:
        results.group_by("g").agg(m=F.sum("n"), store=called("B")).to("more-out")
        results.select_key("g").select("g", "n").to_table(store=called("T"))


def young_behind_a_new_limit(app: sk.Topology, version: int, called: Called) -> None:
    table = app.stream("in").group_by("g").agg(n=F.sum("v"), store=called("A"))
    table.to("out")
    if version == 2:
        held = table.suppress(until=sk.time_limit("5 s"), name=called("S"))
        held.group_by("n").agg(m=F.count("*"), store=called("G"))


def looked_up_twice(app: sk.Topology, version: int, called: Called) -> None:
    """A table with a copy in another kernel."""
    names = app.table("more", store=called("T")).filter(F.col("v") >= version - 1).select("k", w="v").named(called("N"))
    app.stream("in").join(names, on="k", how="left").group_by("w").agg(n=F.count("*"), store=called("A")).to("out")
    app.stream("in").select_key(k2="g").join(names, on={"k2": "k"}, how="left").select("k2", "w").to("other-out")


def delete_records(log: Log) -> None:
    log.delete_records("in", {0: 3, 1: 3}, force=True)


def make_again(log: Log) -> None:
    """The topic is deleted, and another one has its name."""
    log.delete_topic("in")
    create(log, "in")
    send(log)


def make_table_again(log: Log) -> None:
    log.delete_topic("more")
    create(log, "more")


def nothing(log: Log) -> None:
    pass


CASES: dict[str, tuple[Callable[..., None], Callable[[Log], None], set[str]]] = {  # and which ways are recommended
    "another aggregate": (sums, nothing, {REBUILD}),
    "other windows": (windows, nothing, {REBUILD}),
    "other sessions": (sessions, nothing, {REBUILD}),
    "another time limit": (other_limit, nothing, {RENAME}),
    "another time limit in front of groups": (other_limit_in_front, nothing, set()),
    "an aggregate in front of a time limit": (aggregate_in_front_of_a_limit, nothing, {REBUILD}),
    "a filter of a table": (table, nothing, {REBUILD, RENAME}),
    "an aggregate of groups of a table": (groups_of_a_table, nothing, {REBUILD, RENAME}),
    "a join of streams": (pairs, nothing, {REBUILD}),
    "called by the clock": (by_the_clock, nothing, set()),
    "without a log": (without_a_log, nothing, set()),
    "another topic": (other_topic, nothing, {REBUILD, RENAME}),
    "another stream in front of windows": (another_stream, nothing, set()),
    "a new table behind windows": (young_behind_windows, nothing, {REBUILD}),
    "a new group behind a new limit": (young_behind_a_new_limit, nothing, {REBUILD}),
    "a table that is looked up twice": (looked_up_twice, nothing, {REBUILD, RENAME}),
    "records that are gone": (sums, delete_records, {REBUILD}),
    "records that are gone, in front of a time limit": (aggregate_in_front_of_a_limit, delete_records, set()),
    "a topic that was made again": (sums, make_again, {RENAME}),
    "a table that is made of another topic now": (table, make_table_again, {RENAME}),
}  # fmt: skip


UNSURE = "records that are gone, in front of a time limit"  # not recommended, because only the replay tells whether it is refused


def create(log: Log, *topics: str) -> None:
    for topic in topics:
        log.create_topic(topic, "k string, g string, v int", key="k", partitions=2, config={"retention.ms": "-1"})


def send(log: Log) -> None:
    for topic, ahead in (("more", 500), ("in", 0)):
        append(log, topic, [{"k": "abcdefgh"[n % 8], "g": "xy"[n % 2], "v": n % 4, "ts": 1000 * (n + ahead)} for n in range(40)])


def topology(make: Callable[..., None], version: int, renamed: Sequence[str] = (), dropped: Sequence[str] = ()) -> sk.Topology:
    app = sk.Topology("t")
    make(app, version, lambda name: f"{name}-new" if any(re.fullmatch(rf"{name}(-.*)?", one) for one in renamed) else name)
    app.drop_store(*dropped)
    return app


def run(log: Log, app: sk.Topology) -> None:
    execute(log, compile(app, log), Run(drain=False))


def rebuild(log: Log, app: sk.Topology, names: Sequence[str], *, accepts_loss: bool) -> None:
    rebuild_stores(log, compile(app, log), Rebuild(tuple(names), accepts_loss=accepts_loss))
    run(log, app)


def refused(log: Log, app: sk.Topology) -> list[str]:
    return list(preview(log.catalog, compile(app, log)).refusals)


@pytest.fixture
def log() -> Any:
    with fresh_log() as log:
        create(log, "in", "more")
        yield log


def changed(log: Log, name: str) -> Callable[..., None]:
    """The application as it stands where the start of the other version is refused."""
    make, happen, _ = CASES[name]
    send(log)
    run(log, topology(make, 1))
    happen(log)
    return make


@pytest.mark.parametrize("name", CASES)
def test_advice_is_accepted(name: str) -> None:
    """Each way that a refusal recommends is followed on a log of its own; the start is accepted, and goes on with more records."""
    ways = set()
    for way in (REBUILD, RENAME):
        with fresh_log() as log:
            create(log, "in", "more")
            make = changed(log, name)
            texts = refused(log, topology(make, 2))
            assert texts, "expected a refusal"
            if way == REBUILD and all("--rebuild" in text for text in texts):
                options = " ".join(text.partition(" by --rebuild ")[2].partition(";")[0] for text in texts)
                names = re.findall(r"(?:^|--rebuild |(?<=\) ))([A-Z][\w-]*)", options)
                rebuild(log, topology(make, 2), list(dict.fromkeys(names)), accepts_loss="--accept-loss" in options)
            elif way == RENAME and all("drop_store" in text for text in texts):
                drops = [found for text in texts for found in re.findall(r"app\.drop_store\((.*?)\)", text)]
                dropped = list(dict.fromkeys(found for drop in drops for found in re.findall("'(.*?)'", drop)))
                run(log, topology(make, 2, renamed=dropped, dropped=dropped))
            else:
                continue
            ways.add(way)
            send(log)
            run(log, topology(make, 2) if way == REBUILD else topology(make, 2, renamed=dropped, dropped=dropped))
    assert ways == CASES[name][2]


@pytest.mark.parametrize("name", [name for name, (_, _, ways) in CASES.items() if REBUILD not in ways and name != UNSURE])
def test_what_is_not_recommended_would_be_refused(log: Log, name: str) -> None:
    """A store that no refusal recommends to rebuild cannot be, alone or with all others; and no error on the way recommends it."""
    make = changed(log, name)
    texts = refused(log, topology(make, 2))
    assert texts and not any("--rebuild" in text for text in texts), texts
    program = compile(topology(make, 2), log)
    for stores in [[one.name] for one in program.stores if "-" not in one.name] + [[one.name for one in program.stores]]:
        with pytest.raises(StreamKitError) as error:
            rebuild_stores(log, program, Rebuild(tuple(stores), accepts_loss=True))
            run(log, topology(make, 2))
        assert "--rebuild" not in str(error.value)


def test_a_time_limit_is_no_window(log: Log) -> None:
    """A refusal says what a time limit is."""
    (text, *_) = refused(log, topology(changed(log, "another time limit"), 2))
    assert (
        "how long it holds rows back from the first update on was 5 seconds, and is 10 seconds" in text
        and "size of its windows" not in text
    )


def test_what_has_read_nothing_has_nothing_to_fill(log: Log) -> None:
    """Where the application has read no record a rebuild does nothing, so it is not recommended."""
    run(log, topology(sums, 1))
    (text,) = refused(log, topology(sums, 2))
    assert "--rebuild" not in text and "apps reset" in text
