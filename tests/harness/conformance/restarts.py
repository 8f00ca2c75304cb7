"""
Random restarts: topologies of parts that come, go, come back and change, at any record, and what each part must hold then.

A start is refused, and the topology before goes on; or what each part holds is what the rules say. They are written down here, apart from
the engine: a table, a group or a join of tables holds what follows from all records that the application has read, whenever the part came.
What counts a stream counts the records that were read since it came, by the steps of their time. A window ends when the largest time among
its topics has passed it. A table behind what holds updates back has what was given, and comes only before its rows. So does a table of
records that met a global table, which had all records of its topic at each run.
What is rebuilt holds what it would if it had come at the beginning, and sends nothing again.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.rebuild import Rebuild, rebuild_stores
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, OrphanedStateError, TopologyError
from streamkit.failpoints import armed
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.plan.program import Program
from streamkit.state.stores import MemoryStores
from tests.kit.engine_run import DiedError, die
from tests.kit.row_counts import check_row_counts

TOPICS = ("a", "b", "c")
AHEAD = "ahead"  # the topic with records far ahead
SCHEMA = "k string, g string, v {}"
Record = tuple[int, str, str | None, int | None, bool]  # time, key, group, value, whether it deletes
Rows = Counter[Any]
Row = tuple[int, str, str | None, int | None]  # a record that is no deletion
WINDOW_MS, GRACE_MS, LONG_MS, AHEAD_MS = 100, 20, 10**9, 10**7
PHASES_MAX = 5
DYING = (
    "start.after_commit",
    "replay.epoch",
    "replay.ended",
    "commit.before_commit",
    "migration.after_commit",
    "replay.adopted",
)
TOGETHER = re.compile(r"--rebuild (\S+)")
ORPHANS = re.compile(r"the application 't' has state in (.*?), which the topology no longer names")


@dataclass(frozen=True)
class Part:
    """An operator with stores of its own: what it is, the topics it reads, and the constants of its steps."""

    name: str
    kind: str
    topics: tuple[str, ...]
    least: int = 0
    by: int = 1
    is_cast: bool = False

    @property
    def store(self) -> str:
        """Windows with final results have another than those without, which would go on with another grace."""
        return f"{'f' if self.kind == 'finals' else 's'}-{self.name}"


@dataclass
class Phase:
    """What a run had read before it, and what it read, by topic."""

    before: dict[str, int]
    after: dict[str, int]


@dataclass
class Told:
    """What the rules need to know of a part that counts a stream: its counts, its time, and its open windows."""

    counts: Rows = field(default_factory=Counter)
    finals: Rows = field(default_factory=Counter)
    time: int | None = None
    silent: Rows = field(default_factory=Counter)  # results of records that were read again
    sides: tuple[list[Row], list[Row]] = field(default_factory=lambda: ([], []))
    held: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)


def topics_read(part: Part) -> tuple[str, ...]:
    """The topics that a part reads record by record; a global table is read whole."""
    return part.topics[:1] if part.kind == "met" else part.topics


def passes(part: Part, value: int | None) -> bool:
    return value is not None and value > part.least


# How parts are declared.


@dataclass
class Scaled:
    """A function of rows that is an object."""

    by: int

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"g": row["g"], "v": None if row["v"] is None else row["v"] * self.by}

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        return self(row)

    def value(self, value: int) -> int:
        return value * self.by


def scaled(part: Part) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that captured the factor, or has it in a global; a method of an object that has it, or that object, behind partial, too."""
    by = part.by
    forms: list[Callable[[dict[str, Any]], dict[str, Any]]] = [
        lambda row: {"g": row["g"], "v": None if row["v"] is None else row["v"] * by},
        Scaled(by).row,
        Scaled(by),
        partial(Scaled.row, Scaled(by)),
        _of_a_module(by),
    ]
    return forms[sum(map(ord, part.name)) % len(forms)]


def _of_a_module(by: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    names: dict[str, Any] = {"__name__": __name__, "USED": {"scaled": [Scaled(by)]}}
    exec("def of_a_module(row): return USED['scaled'][0].row(row)", names)
    made: Callable[[dict[str, Any]], dict[str, Any]] = names["of_a_module"]
    return made


def product(part: Part) -> Any:
    """A function of values in expressions: a lambda, a method, a partial, or one with a global, each with the factor."""
    by = part.by
    names: dict[str, Any] = {"__name__": __name__, "BY": by}
    exec("def of_a_module(value): return value * BY", names)
    forms = [lambda value: value * by, Scaled(by).value, partial(Scaled.value, Scaled(by)), names["of_a_module"]]
    return F.udf("bigint")(forms[sum(map(ord, part.name)) % len(forms)])


def _table(app: sk.Topology, part: Part) -> Any:
    return app.table(part.topics[0])


def _kept(app: sk.Topology, part: Part) -> Any:
    """A table behind a filter and a product, kept for a join that looks it up."""
    table = _table(app, part).filter(F.col("v") > part.least).select("k", w=F.col("v") * part.by)
    joined = app.stream(part.topics[1]).join(table, how="left", name=part.name)
    return joined.select(w=F.col("w").cast("bigint")).to(f"out-{part.name}-kept")


def _grouped(app: sk.Topology, part: Part) -> Any:
    rows = _table(app, part).filter(F.col("v") > part.least).with_columns(w=F.col("v") * part.by)
    rows = rows.filter("g IS NOT NULL").group_by("g")
    return rows.agg(n=F.count("*"), total=F.sum("w"), most=F.max("w"), store=part.store)


def _function(app: sk.Topology, part: Part) -> Any:
    rows = _table(app, part).map_values(scaled(part), "g string, v bigint").filter("g IS NOT NULL").group_by("g")
    return rows.agg(n=F.count("*"), total=F.sum("v"), store=part.store)


def _joined(app: sk.Topology, part: Part) -> Any:
    left, right = (app.table(topic) for topic in part.topics)
    joined = left.select("k", "v").join(right.select("k", h="g"), on="k", how="inner" if part.by == 1 else "left")
    return joined.filter("h IS NOT NULL").group_by("h").agg(n=F.count("*"), store=part.store)


def _by_foreign_key(app: sk.Topology, part: Part) -> Any:
    left, right = (app.table(topic) for topic in part.topics)
    joined = left.select("k", "g").join(right.filter(F.col("v") > part.least).select("k", x="v"), on={"g": "k"}, how="inner")
    return joined.group_by("x").agg(n=F.count("*"), store=part.store)


def _to_table(app: sk.Topology, part: Part) -> Any:
    return app.stream(part.topics[0]).filter(F.col("v") > part.least).to_table(store=part.store)


def _ways(app: sk.Topology, part: Part) -> Any:
    """A table of two rows of each record, one with the value below zero; the one that was declared last stays, whichever is named first."""
    rows = app.stream(part.topics[0]).filter(F.col("v") > part.least)
    ways = {}
    for sign in (1, -1) if part.is_cast else (-1, 1):
        ways[sign] = rows.with_columns(v=F.col("v") * sign, s=F.lit(sign))
    return ways[part.by * 2 - 3].merge(ways[3 - part.by * 2]).drop("s").to_table(store=part.store)


def _stream(app: sk.Topology, part: Part) -> Any:
    streams = [app.stream(topic) for topic in part.topics]
    merged = streams[0].merge(*streams[1:]) if len(streams) > 1 else streams[0]
    return merged.filter(F.col("v") > part.least)


def _counted(app: sk.Topology, part: Part) -> Any:
    return _stream(app, part).filter("g IS NOT NULL").group_by("g").agg(n=F.count("*"), store=part.store)


def _distinct(app: sk.Topology, part: Part) -> Any:
    rows = _stream(app, part)
    rows = rows.with_columns(v=F.col("v").cast("int")) if part.is_cast else rows
    return rows.group_by_key().agg(n=F.count_distinct("v"), store=part.store)


def _windows(app: sk.Topology, part: Part) -> Any:
    window = sk.tumbling(f"{WINDOW_MS} ms", grace=f"{LONG_MS} ms")
    return _stream(app, part).group_by_key().windowed_by(window).agg(n=F.count("*"), store=part.store)


def _argument(app: sk.Topology, part: Part) -> Any:
    """Sums of what a function makes of the values."""
    return _stream(app, part).group_by_key().agg(n=F.sum(product(part)("v")), store=part.store)


def _argument_windows(app: sk.Topology, part: Part) -> Any:
    """Such sums per window."""
    window = sk.tumbling(f"{WINDOW_MS} ms", grace=f"{LONG_MS} ms")
    return _stream(app, part).group_by_key().windowed_by(window).agg(n=F.sum(product(part)("v")), store=part.store)


def _by_function(app: sk.Topology, part: Part) -> Any:
    """Counts of groups that a function tells."""
    return _stream(app, part).group_by(h=product(part)("v")).agg(n=F.count("*"), store=part.store)


def _cogrouped(app: sk.Topology, part: Part) -> Any:
    """Counts of a stream by its values, with those of another one by what a function makes of them."""
    first, *others = (app.stream(topic).filter(F.col("v") > part.least) for topic in part.topics)
    counts = first.group_by(h=F.col("v").cast("bigint")).cogroup(_one_more)
    for other in others:
        counts = counts.cogroup(other.group_by(w=product(part)("v")), _one_more)
    return counts.aggregate({"n": 0}, "n bigint", store=part.store)


def _one_more(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {"n": state["n"] + 1}


def _finals(app: sk.Topology, part: Part) -> Any:
    window = sk.tumbling(f"{WINDOW_MS} ms", grace=f"{GRACE_MS} ms")
    return (
        _stream(app, part)
        .group_by_key()
        .windowed_by(window)
        .agg(n=F.count("*"), store=part.store)
        .emit("final")
        .to(f"out-{part.name}-finals")
    )


def _sessions(app: sk.Topology, part: Part) -> Any:
    window = sk.session(f"{WINDOW_MS} ms", grace=f"{LONG_MS} ms")
    return _stream(app, part).group_by_key().windowed_by(window).agg(n=F.count("*"), store=part.store)


def _pairs(app: sk.Topology, part: Part) -> Any:
    """Two streams joined within a time."""
    left, right = (app.stream(topic).filter(F.col("v") > part.least) for topic in part.topics)
    within = sk.within(f"{WINDOW_MS} ms", grace=f"{LONG_MS} ms")
    joined = left.select("v").join(right.select(w="v"), within=within, name=part.name)
    return joined.select("v", "w").to(f"out-{part.name}-pairs")


def _suppressed(app: sk.Topology, part: Part) -> Any:
    """A group of a table whose updates are held back."""
    rows = _table(app, part).suppress(until=sk.time_limit(f"{WINDOW_MS * part.by} ms"), name=f"{part.name}-held")
    return rows.filter("g IS NOT NULL").group_by("g").agg(n=F.count("*"), store=part.store)


def _met(app: sk.Topology, part: Part) -> Any:
    """A table of records that met those of a global table."""
    table = app.global_table(part.topics[1]).filter(F.col("v") > part.least).select("k", w=F.col("v").cast("bigint") * part.by)
    return app.stream(part.topics[0]).select("k").join(table, on="k").to_table(store=part.store)


def _processed(app: sk.Topology, part: Part) -> Any:
    """A processor that adds up in a store."""

    class Adding(sk.Processor):
        def init(self, context: Any) -> None:
            self.store = context.store(part.store)

        def process(self, record: Any) -> None:
            known = self.store.get(record["k"])
            self.store.put(record["k"], {"n": part.by + (0 if known is None else known["n"])})

    store = sk.key_value_store(part.store, key="k string", value="n int")
    return _stream(app, part).process(Adding, "n int", stores=[store], name=part.name).to(f"out-{part.name}-processed")


def _jumping(app: sk.Topology, part: Part) -> Any:
    """A count per window of a topic in which some records are far ahead, with bounded jumps or without."""
    rows = app.stream(AHEAD, max_jump=f"{part.by} s") if part.least else app.stream(AHEAD)
    return (
        rows.group_by_key()
        .windowed_by(sk.tumbling(f"{WINDOW_MS} ms", grace=f"{LONG_MS} ms"))
        .agg(n=F.count("*"), store=part.store)
    )


def _members(app: sk.Topology, part: Part) -> Any:
    """A group that keeps its members, and so their bytes."""
    rows = _table(app, part).filter(F.col("v") > part.least).filter("g IS NOT NULL")
    rows = rows.with_columns(v=F.col("v").cast("int") * part.by if part.is_cast else F.col("v") * part.by)
    return rows.group_by("g").agg(n=F.count_distinct("v"), low=F.min("v"), two=F.top_k("v", 2), store=part.store)


def _versioned(app: sk.Topology, part: Part) -> Any:
    return app.table(part.topics[0], versioned="1 day", store=part.store)


def _results(app: sk.Topology, part: Part) -> Any:
    """Counts of a stream, and perhaps a group of these."""
    counts = _stream(app, part).filter("g IS NOT NULL").group_by("g").agg(n=F.count("*"), store=f"{part.store}-counts")
    return counts.group_by("n").agg(m=F.count("*"), store=part.store) if part.by == 2 else counts


DECLARED = {
    "kept": _kept, "grouped": _grouped, "function": _function, "joined": _joined, "foreign key": _by_foreign_key, "to_table": _to_table,
    "ways": _ways,
    "members": _members, "versioned": _versioned, "results": _results, "jumping": _jumping,
    "met": _met, "processed": _processed, "sessions": _sessions, "pairs": _pairs, "suppressed": _suppressed,
    "argument": _argument, "argument windows": _argument_windows, "by function": _by_function, "cogrouped": _cogrouped,
    "counted": _counted, "distinct": _distinct, "windows": _windows, "finals": _finals,
}  # fmt: skip
OF_TABLES = ("kept", "grouped", "function", "joined", "foreign key", "to_table", "ways", "members", "versioned")
OF_TWO = ("kept", "joined", "foreign key", "pairs", "met", "cogrouped")
BY_FUNCTION = ("argument", "argument windows", "by function", "cogrouped")  # a changed function must be refused
AS_EVER = ("suppressed", "met")  # what must come before the rows of its topic
OUTPUTS = {"finals": "finals", "pairs": "pairs"}  # of parts that are told by what they have given


# What parts must hold.


def newest(records: Sequence[Record]) -> dict[str, tuple[str | None, int | None]]:
    """The table of a topic's records."""
    table: dict[str, tuple[str | None, int | None]] = {}
    for _, key, group, value, is_deleted in records:
        table.pop(key, None)
        if not is_deleted:
            table[key] = (group, value)
    return table


def expected_of_table(part: Part, read: Mapping[str, Sequence[Record]]) -> Rows:
    """What a part of tables holds, by all records read."""
    table = newest(read[part.topics[0]])
    if part.kind == "kept":
        return Counter((key, value * part.by) for key, (_, value) in table.items() if passes(part, value))  # type: ignore[operator]
    if part.kind == "versioned":
        return Counter((key, *row) for key, row in newest(sorted(read[part.topics[0]], key=lambda one: one[0])).items())
    if part.kind in ("to_table", "ways"):
        rows = newest(
            [one for one in read[part.topics[0]] if not one[4] and passes(part, one[3])]
        )  # a deletion has no value, so it does not pass
        sign = -1 if part.kind == "ways" and part.is_cast else 1
        return Counter((key, group, sign * value) for key, (group, value) in rows.items())  # type: ignore[operator]
    if part.kind in ("joined", "foreign key"):
        return _of_two(part, table, newest(read[part.topics[1]]))
    groups: dict[str, list[int | None]] = {}
    for group, value in table.values():
        if group is not None and (part.kind == "function" or passes(part, value)):
            groups.setdefault(group, []).append(None if value is None else value * part.by)
    return Counter(_group(part, group, values) for group, values in groups.items())


def _group(part: Part, group: str, values: Sequence[int | None]) -> tuple[Any, ...]:
    there = [value for value in values if value is not None]
    if part.kind == "members":
        return (group, len({*there}), min(there), tuple(sorted(there, reverse=True)[:2]))
    total = sum(there) if there else None
    return (group, len(values), total) if part.kind == "function" else (group, len(values), total, max(there))


def _of_two(part: Part, left: dict[str, Any], right: dict[str, Any]) -> Rows:
    found: Counter[Any] = Counter()
    for key, (group, _) in left.items():
        if part.kind == "joined" and key in right and right[key][0] is not None:
            found[right[key][0]] += 1
        if part.kind == "foreign key" and group in right and passes(part, right[group][1]):
            found[right[group][1]] += 1
    return Counter(found.items())


def count_phase(part: Part, told: Told, phase: Phase, records: dict[str, list[Record]], reached: dict[str, int]) -> None:
    """Go on with what a part that counts a stream knows, by what a run has read; `reached` are the times of topics before it."""
    came = [reached[topic] for topic in topics_read(part) if topic in reached]
    _move(told, max(came, default=None))
    rows, time_of = [], dict(reached)
    for number, topic in enumerate(topics_read(part)):
        for offset in range(phase.before[topic], phase.after[topic]):
            record = records[topic][offset]
            time_of[topic] = max(time_of.get(topic, record[0]), record[0])
            rows.append((time_of[topic], number, offset, record))
    for order, number, _, (time, key, group, value, is_deleted) in sorted(rows):
        _move(told, order)
        if part.kind == "suppressed":
            _hold_back(part, told, order, (time, key, None if is_deleted else group))
            continue
        if part.kind == "met":
            found = newest(records[part.topics[1]]).get(key)
            if not is_deleted and found is not None and passes(part, found[1]):
                told.given[key] = found[1] * part.by  # type: ignore[operator]
            continue
        if is_deleted or not (part.kind == "jumping" or passes(part, value)):
            continue
        told.sides[number].append((time, key, group, value))
        _count(part, told, (time, key, group, value), number)


def _hold_back(part: Part, told: Told, order: int, update: tuple[int, str, str | None]) -> None:
    """An update waits from the first of its key on, and takes the place of one that waits; what has waited long enough is given."""
    time, key, group = update
    told.held[key] = (told.held[key][0] if key in told.held else time, group)
    for due in [one for one, (since, _) in told.held.items() if since + WINDOW_MS * part.by <= order]:
        told.given[due] = told.held.pop(due)[1]


def _count(part: Part, told: Told, row: Row, number: int) -> None:
    """Count a record of the topic of this number."""
    time, key, group, value = row
    if part.kind in BY_FUNCTION:
        assert value is not None
        product = value * (1 if part.kind == "cogrouped" and number == 0 else part.by)
        if part.kind == "argument windows":
            told.counts[key, time // WINDOW_MS * WINDOW_MS] += product
        elif part.kind == "argument":
            told.counts[key] += product
        else:
            told.counts[product] += 1
        return
    if part.kind in ("counted", "results") and group is not None:
        told.counts[group] += 1
    elif part.kind == "distinct":
        told.counts[key, value] = 1
    elif part.kind == "processed":
        told.counts[key] += part.by
    elif part.kind == "sessions":
        told.counts[key, time] += 1
    elif part.kind in ("windows", "jumping") or _is_open(part, told, time):
        told.counts[key, time // WINDOW_MS * WINDOW_MS] += 1


def _is_open(part: Part, told: Told, time: int) -> bool:
    """Whether the window of a time takes records yet."""
    return part.kind == "finals" and told.time is not None and time // WINDOW_MS * WINDOW_MS + WINDOW_MS + GRACE_MS > told.time


def _move(told: Told, time: int | None) -> None:
    """Move the time of a part on: windows that it passes are final, once each."""
    if time is None or (told.time is not None and time <= told.time):
        return
    told.time = time


def closed(told: Told) -> Rows:
    """The windows that have closed, with their counts."""
    time = told.time if told.time is not None else -LONG_MS
    return Counter({(key, start, n): 1 for (key, start), n in told.counts.items() if start + WINDOW_MS + GRACE_MS <= time})


def expected_of_stream(part: Part, told: Told) -> Rows:
    """What a part that counts a stream holds, or what it has sent since it was new or rebuilt."""
    return _counted_of(part, told) - told.silent if part.kind in OUTPUTS else _counted_of(part, told)


def _counted_of(part: Part, told: Told) -> Rows:
    if part.kind == "finals":
        return closed(told)
    if part.kind == "suppressed":
        return Counter(Counter(group for group in told.given.values() if group is not None).items())
    if part.kind == "met":
        return Counter(told.given.items())
    if part.kind == "sessions":
        return _sessions_of(told.counts)
    if part.kind == "pairs":
        left, right = told.sides
        return Counter((a[1], a[3], b[3]) for a in left for b in right if a[1] == b[1] and abs(a[0] - b[0]) <= WINDOW_MS)
    if part.kind == "results" and part.by == 2:
        return Counter(Counter(told.counts.values()).items())
    if part.kind == "distinct":
        return Counter(Counter(key for key, _ in told.counts).items())
    return Counter((*(key if isinstance(key, tuple) else (key,)), n) for key, n in told.counts.items())


def _sessions_of(counts: Rows) -> Rows:
    """The sessions of records that lie within the gap of each other, with their starts."""
    found: list[list[Any]] = []
    for key, time in sorted(counts):
        if found and found[-1][0] == key and time - found[-1][2] <= WINDOW_MS:
            found[-1][2] = time
            found[-1][3] += counts[key, time]
        else:
            found.append([key, time, time, counts[key, time]])
    return Counter((key, start, n) for key, start, _, n in found)


# Random topologies, and changes of them.


class Restarts:
    """One log, one application, and the parts that it has at the moment."""

    def __init__(self, seed: int, kinds: Sequence[str] = (), rebuilds: bool = False) -> None:
        self.rebuilds = rebuilds
        self.rebuilt = 0
        self.made_again = 0.3 if kinds else 0.05
        self.kinds_wanted = kinds or [*sorted(DECLARED), "finals", "finals"]
        self.chance = random.Random(seed)
        self.records: dict[str, list[Record]] = {topic: [] for topic in (*TOPICS, AHEAD)}
        self.parts: dict[str, Part] = {}
        self.told: dict[str, Told] = {}
        self.read = dict.fromkeys((*TOPICS, AHEAD), 0)
        self.reached: dict[str, int] = {}
        self.types = dict.fromkeys(TOPICS, "int")
        self.outputs: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        self.names = 0
        self.time = 10_000
        self.program: Program | None = None
        self.is_made_again = False
        self.refused = 0
        self.accepted = 0

    def run(self) -> str | None:
        """Restart a few times; the first difference, or None."""
        with open_log(":memory:") as log:
            for topic in (*TOPICS, AHEAD):
                log.create_topic(topic, SCHEMA.format("int"), key="k", partitions=1, config={"retention.ms": "-1"})
            for number in range(self.chance.randint(2, PHASES_MAX)):
                self._append(log)
                if (found := self._restarted(log)) is not None:
                    return f"run {number + 1} of {[*self.parts.values()]}: {found}"
        return None

    def _make_again(self, log: Log, topic: str) -> None:
        """A topic is deleted, and made again without records."""
        log.delete_topic(topic)
        log.create_topic(topic, SCHEMA.format(self.types[topic]), key="k", partitions=1, config={"retention.ms": "-1"})
        self.records[topic], self.read[topic], self.is_made_again = [], 0, True
        self.reached.pop(topic, None)

    def _append(self, log: Log) -> None:
        """Records of all topics, in time, most of them; sometimes a topic's type gets wider before, or it is made again."""
        if self.chance.random() < self.made_again:
            self._make_again(log, self.chance.choice(TOPICS))
        if self.chance.random() < 0.15:
            topic = self.chance.choice(TOPICS)
            log.alter_topic(topic, schema=SCHEMA.format("bigint"))
            self.types[topic] = "bigint"
        topics = self.chance.sample([*TOPICS, AHEAD], self.chance.choice([1, 2, 4, 4]))  # others fall behind
        self.time += self.chance.choice([0, 0, 300])
        with log.producer() as producer:
            for _ in range(self.chance.randrange(25)):
                topic, record = self.chance.choice(topics), self._record()
                if topic == AHEAD and self.chance.random() < 0.3:
                    record = (record[0] + AHEAD_MS, *record[1:])
                self.records[topic].append(record)
                time, key, group, value, is_deleted = record
                if is_deleted:
                    producer.delete(topic, {"k": key}, timestamp_ms=time)
                else:
                    producer.send(topic, {"k": key, "g": group, "v": value}, timestamp_ms=time)

    def _record(self) -> Record:
        self.time += self.chance.randrange(60)
        chance = self.chance
        key, group = chance.choice("pqr"), chance.choice(["p", "q", "r", None])
        return (
            self.time - chance.randrange(80) * chance.randrange(2),
            key,
            group,
            chance.choice([1, 2, 3, 5, None]),
            chance.random() < 0.1,
        )

    def _restarted(self, log: Log) -> str | None:
        wanted, rebuilt = self._changed(), frozenset[str]()
        try:
            if self.rebuilds:
                rebuilt = self._rebuild(log, wanted)
            planner = self._start_dropping(log, wanted)
        except (OrphanedStateError, TopologyError):
            self.refused += 1
            wanted = self.parts
            try:
                planner = self._start(log, wanted, set())
            except (OrphanedStateError, TopologyError) as error:
                if "bigint" not in self.types.values() and not self.is_made_again:
                    return f"the topology of before was refused: {error}"
                return self._anew(log)
        self.accepted += 1
        self._take(log, wanted, rebuilt)
        run_available(planner, splits=1, stores=MemoryStores())
        return self._difference(log)

    def _rebuild(self, log: Log, parts: dict[str, Part]) -> frozenset[str]:
        """Rebuild some of the parts, as refusals advise, and again if that dies on the way; the names of those that were."""
        named = {name for name in parts if self.chance.random() < 0.4}
        if not named or not any(self.read.values()):
            return frozenset()
        dropped, more = set[str](), set[str]()
        while True:
            program = self._program(log, parts, dropped)
            kept = {store.name: _part_of(store.name, parts) for store in program.stores}
            stores = tuple(sorted({store for store, part in kept.items() if part in named} | more))
            if not stores:
                return frozenset()
            wanted = Rebuild(stores, records_max=self.chance.choice([1, 3, 1000]), threads=self.chance.choice([1, 2]))
            try:
                if self.chance.random() < 0.5:
                    with suppress(DiedError), armed(self.chance.choice(DYING), die):
                        rebuild_stores(log, program, wanted)
                rebuild_stores(log, program, wanted)
            except ConfigError as error:
                more |= set(TOGETHER.findall(str(error)))
            except OrphanedStateError as error:
                if (found := ORPHANS.match(str(error))) is None or dropped:
                    raise
                dropped = set(found[1].split(", "))
            else:
                self.rebuilt += 1
                return frozenset(kept[store] for store in stores)

    def _anew(self, log: Log) -> str | None:
        """A column got wider and state cannot go on: all parts are dropped, which must leave nothing behind."""
        stores = set(log.catalog.applications.get("t").stores)
        planner = self._start(log, {}, stores)
        self._take(log, {})
        run_available(planner, stores=MemoryStores())
        return None

    def _start_dropping(self, log: Log, parts: dict[str, Part]) -> Any:
        """Start; if stores would be left behind, do what the refusal advises, and drop them."""
        try:
            return self._start(log, parts, set())
        except OrphanedStateError as error:
            if (found := ORPHANS.match(str(error))) is None:
                raise
            return self._start(log, parts, set(found[1].split(", ")))

    def _start(self, log: Log, parts: dict[str, Part], dropped: set[str]) -> Any:
        program = self._program(log, parts, dropped)
        is_refused = bool(preview(log.catalog, program).refusals)
        try:
            planner = start(
                log.catalog,
                log.storage,
                program,
                tasks=self.chance.choice([1, 2, 3]),
                records_max=self.chance.choice([1, 3, 1000]),
            )
        except OrphanedStateError:
            assert is_refused, "the plan said that the start would go on"
            raise
        assert not is_refused, "the plan said that the start would be refused"
        self.program = program
        return planner

    def _program(self, log: Log, parts: dict[str, Part], dropped: set[str]) -> Program:
        app = sk.Topology("t")
        for topic in TOPICS if not parts else ():
            app.stream(topic).select("g").to(f"copied-{topic}")
        for part in parts.values():
            DECLARED[part.kind](app, part)
        if dropped:
            app.drop_store(*sorted(dropped))
        return compile_with_settings(app, log, None)

    def _changed(self) -> dict[str, Part]:
        """The parts of the next start."""
        parts = dict(self.parts)
        for _ in range(self.chance.choice([0, 1, 1, 2])):
            change = self.chance.choice(["come", "come", "go", "change", "change", "replace"])
            name = self.chance.choice(sorted(parts)) if parts else ""
            if parts and change == "change":
                parts[name] = self._modified(parts[name])
            elif parts and change != "come":
                del parts[name]
            if not parts or change in ("come", "replace"):
                part = self._part(self._name(parts))
                parts[part.name] = part
        return parts

    def _name(self, parts: dict[str, Part]) -> str:
        """A new name, or one that a part had before."""
        gone = sorted({f"p{number}" for number in range(self.names)} - set(parts))
        if gone and self.chance.random() < 0.4:
            return self.chance.choice(gone)
        self.names += 1
        return f"p{self.names - 1}"

    def _part(self, name: str) -> Part:
        kind = self.chance.choice(self.kinds_wanted)
        if name in self.kinds and self.chance.random() < 0.6:
            kind = self.kinds[name]
        self.kinds[name] = kind
        if kind == "jumping":
            return Part(name, kind, (AHEAD,), self.chance.randrange(2), self.chance.choice([1, 2]))
        topics = tuple(
            self.chance.sample(
                TOPICS, 2 if kind in OF_TWO or (kind not in (*OF_TABLES, "suppressed") and self.chance.random() < 0.3) else 1
            )
        )
        return Part(name, kind, topics, self.chance.randrange(3), self.chance.choice([1, 2]))

    def _modified(self, part: Part) -> Part:
        if part.kind == "pairs":
            return replace(part, topics=part.topics[::-1])
        fields = ["by", "by", "least", "topics"] if part.kind in BY_FUNCTION else ["least", "by", "topics", "topics", "cast"]
        field = "topics" if part.kind == "finals" else self.chance.choice(fields)
        if field == "cast":
            return replace(part, is_cast=not part.is_cast)
        if part.kind == "jumping":
            return replace(part, least=self.chance.randrange(2), by=self.chance.choice([1, 2]))
        if field == "least":
            return replace(part, least=part.least + 1)
        if field == "by":
            return replace(part, by=3 - part.by)
        other = self.chance.choice([topic for topic in TOPICS if topic not in part.topics])
        if part.kind == "met" and self.chance.random() < 0.6:
            return replace(part, topics=(part.topics[0], other))
        if part.kind in (*OF_TABLES, *AS_EVER) or self.chance.random() < 0.4:
            return replace(part, topics=(other, *part.topics[1:]))
        return replace(part, topics=(*part.topics, other) if len(part.topics) < 2 else part.topics[:1])

    def _is_other(self, part: Part) -> bool:
        """Whether a part is new; also one that must be refused if it has rows: of another global table, or of another function."""
        known = self.parts.get(part.name)
        if known is None or known.kind != part.kind:
            return True
        if part.kind in BY_FUNCTION and known.by != part.by:
            return part.kind != "cogrouped" or len(known.topics) == len(part.topics) == 2  # the first stream has no function
        return part.kind == "met" and replace(known, is_cast=part.is_cast) != part

    def _take(self, log: Log, parts: dict[str, Part], rebuilt: frozenset[str] = frozenset()) -> None:
        """Note what a run of these parts reads, and what that gives; those that were rebuilt are as if they had always been there."""
        read = {topic for part in parts.values() for topic in topics_read(part)} if parts else set(TOPICS)
        phase = Phase(
            dict(self.read), {topic: len(self.records[topic]) if topic in read else self.read[topic] for topic in self.read}
        )
        for part in parts.values():
            if self._is_other(part) or part.name in rebuilt:
                told = self.told[part.name] = Told()
                self.outputs[part.name] = len(_rows(log, _output(part)))
                if part.kind in AS_EVER or part.name in rebuilt:  # it must be as if it had always been there
                    count_phase(part, told, Phase(dict.fromkeys(self.read, 0), phase.before), self.records, {})
                    told.silent = _counted_of(part, told) if part.kind in OUTPUTS else Counter()
            if part.kind not in OF_TABLES:
                count_phase(part, self.told[part.name], phase, self.records, self.reached)
        for topic in read:
            times = [record[0] for record in self.records[topic][: phase.after[topic]]]
            if times:
                self.reached[topic] = max(times)
        self.parts, self.read = dict(parts), phase.after

    def _difference(self, log: Log) -> str | None:
        read = {topic: self.records[topic][:end] for topic, end in self.read.items()}
        for part in self.parts.values():
            expected = expected_of_table(part, read) if part.kind in OF_TABLES else expected_of_stream(part, self.told[part.name])
            found = Counter(self._found(log, part))
            if found != expected:
                return f"{part} holds {sorted(found - expected, key=repr)} for {sorted(expected - found, key=repr)}"
        check_row_counts(log, "t")
        return None

    def _found(self, log: Log, part: Part) -> Iterator[Any]:
        """What a part holds, or has given, as the rules say it."""
        if part.kind == "finals":
            for row in _rows(log, _output(part))[self.outputs[part.name] :]:
                yield row["k"], _milliseconds(row["window_start"]), row["n"]
            return
        if part.kind == "pairs":
            yield from ((row["k"], row["v"], row["w"]) for row in _rows(log, _output(part))[self.outputs[part.name] :])
            return
        for row in log.store("t", self._store_of(part)).to_arrow().to_pylist():
            if row.get("n") != 0 and row.get("m") != 0:  # a group that all have left
                yield tuple(_plain(value) for name, value in row.items() if name != "window_end")

    def _store_of(self, part: Part) -> str:
        """The store that tells what a part holds: its own, or that of the table which its join looks up."""
        assert self.program is not None
        if part.kind == "results" and part.by == 1:
            return f"{part.store}-counts"
        if part.kind != "kept":
            return part.store
        return next(self.program.operator(one.inputs[1]).stores[0] for one in self.program.operators if one.id == part.name)


def _part_of(store: str, parts: Collection[str]) -> str:
    """The name of the part that a store is called after; empty for those of tables that several parts share."""
    return next((name for name in parts if re.search(rf"\b{name}\b", store)), "")


def _output(part: Part) -> str:
    return f"out-{part.name}-{OUTPUTS.get(part.kind, '')}"


def _rows(log: Log, topic: str) -> list[dict[str, Any]]:
    return log.read(topic).to_pylist() if topic in log.topics() else []


def _plain(value: Any) -> Any:
    return _milliseconds(value) if isinstance(value, dt.datetime) else tuple(value) if isinstance(value, list) else value


def _milliseconds(moment: dt.datetime) -> int:
    return round(moment.timestamp() * 1000)


def difference_of_restarts(seed: int, kinds: Sequence[str] = (), rebuilds: bool = False) -> str | None:
    """
    The first part that holds something else than the rules say; None if all hold what they must.

    `kinds` are those of parts, else all. `rebuilds`: some parts are rebuilt at restarts.
    """
    return Restarts(seed, kinds, rebuilds).run()
