"""
The compiled topology: a JSON value that tasks, the local engine and the crash tests load without a JVM.

A program is a list of operators in topological order. Each belongs to a stage: stage 0 runs in the readers, stages
1 … n in the kernels; `Send` and `Receive` are the two ends of an edge between them, an exchange by key. Rows carry,
beside their own columns, the record columns named in `streamkit.names`: event time, place in the canonical order, and
for tables whether the row deletes its key.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from streamkit.config import check_key_groups
from streamkit.errors import FormatVersionError
from streamkit.formats.format import Format
from streamkit.log.topic.topic import Topic
from streamkit.names import HEADERS
from streamkit.plan.event_time import EventTime
from streamkit.plan.operator import KINDS, Operator, names_places, source_of
from streamkit.plan.plain import from_plain, to_plain
from streamkit.plan.python_function import renumbered
from streamkit.schema import Schema

PROGRAM_FORMAT = 2
STREAM_KINDS = ("stream", "table")  # of inputs that are read record by record


@dataclass(frozen=True)
class Input:
    """
    A topic that is read; its position in `Program.inputs` is its place in the canonical order.

    With `bootstrap` it is read up to its end of the first start before all streams. A record that is more than `jump_ms` ahead of its
    partition's time does not move stream time. `format` is an opaque topic's, if its bytes are
    decoded; only the compiler needs it. `event_time` is the column that has the event time of its records; without one they have that
    under which they were written.
    """

    topic: str
    kind: str  # stream, table or global_table
    schema: Schema
    key: tuple[str, ...]
    bootstrap: bool = False
    jump_ms: int | None = None
    format: Format | None = field(default=None, compare=False)
    event_time: EventTime | None = None

    def to_json(self) -> dict[str, Any]:
        """The input as plain values; its format is in the step that decodes it."""
        left_out = {"format"} if self.event_time is not None else {"format", "event_time"}
        return {name: value for name, value in to_plain(self).items() if name not in left_out}

    @property
    def name(self) -> str:
        """The topic's name, by which frames are read."""
        return self.topic


@dataclass(frozen=True)
class ProgramStore:
    """
    State behind an operator: rows of `key` (and window) columns to `value` columns, with a changelog topic.

    `layout` names how its keys are made (see `streamkit.state.layout`), by which operators, views and commands read and write it.
    `is_spread`: an entry lies in the key group of the record or group that it is of, whatever its own key is.
    """

    name: str
    number: int  # unique in the program; the catalog's own numbers replace it at start
    stage: int
    key: Schema
    value: Schema
    window_size_ms: int | None = None
    retention_ms: int | None = None
    layout: str = "key"
    is_spread: bool = False


@dataclass(frozen=True)
class Output:
    """
    A topic that is written: `schema` and `key` as derived; `partitions` None means as many as the widest input.

    An opaque topic has a `format`, that of its values.
    """

    topic: str
    schema: Schema
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    cleanup_policy: str  # delete or compact
    partitions: int | None = None
    format: Format | None = None

    def to_json(self) -> dict[str, Any]:
        """The output as plain values; one without a format is as it was before there were any."""
        return {name: value for name, value in to_plain(self).items() if name != "format" or value is not None}


@dataclass(frozen=True)
class Edge:
    """An exchange: rows leave `from_stage` by key and arrive at `to_stage`; `columns` are the row's own columns."""

    number: int
    from_stage: int
    to_stage: int
    key: tuple[str, ...]
    columns: Schema


@dataclass(frozen=True)
class Structures:
    """The hashes of the structures behind generated names of steps and of stores."""

    steps: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Naming:
    """How a user names a store: what to write, with {!r} for the name that the store is called after, and that name."""

    words: str
    name: str


@dataclass(frozen=True)
class StepLabel:
    """
    How pictures show a step: the kind of its box, what it gives, and lines that say what it does as it was declared.

    `is_named`: a user gave it its name.
    """

    kind: str
    gives: str
    lines: tuple[str, ...]
    is_named: bool = False


Number: TypeAlias = (
    int | tuple[int, ...]
)  # one for all rows; or by the input of the program they come from, and a last one for all others


@dataclass(frozen=True)
class InputTurn:
    """The numbers of a turn for what the records of one input of the program cause."""

    own: int
    inputs: tuple[int, ...]
    seen: tuple[int, ...]


@dataclass(frozen=True)
class Turn:
    """
    When an operator gets what one record causes, as numbers (see `streamkit.plan.turns`): `own`, and of several inputs each.
    `by_input` has these by inputs of the program, if one number cannot be right for records of all of them.

    `declared` says when its step was declared, which is behind all whose rows it takes: in this order calls that were scheduled come.
    Rows of an input are `seen` from a number on by who looks them up. `shares_records`: one record may cause rows of several inputs.
    `is_looked_through`: who looks the step's rows up sees the tables that they are joined of, as these are by then.
    """

    own: int
    declared: int = 0
    inputs: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()
    shares_records: bool = False
    is_looked_through: bool = False
    by_input: tuple[InputTurn, ...] = ()

    @cached_property
    def owns(self) -> Number:
        """The number of each row that the operator makes of one that a record caused."""
        return (*(one.own for one in self.by_input), self.own) if self.by_input else self.own

    def comes(self, place: int) -> Number:
        """The number of each row of an input."""
        return (*(one.inputs[place] for one in self.by_input), self.inputs[place]) if self.by_input else self.inputs[place]

    def sees(self, place: int) -> Number:
        """The number of each row of an input for who looks it up."""
        return (*(one.seen[place] for one in self.by_input), self.seen[place]) if self.by_input else self.seen[place]


_NOTES = (
    "lines",
    "places",
    "structures",
    "namings",
    "labels",
    "turns",
    "python",
    "topics",
)  # fields that say where a program comes from, and nothing of what it does
_LATER = ("on_error", "dropped_stores", "unlogged")  # fields that a fingerprint has only if they say something


@dataclass(frozen=True)
class Program:
    """A topology ready to run; `stages` counts the kernels."""

    application: str
    inputs: tuple[Input, ...]
    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...]
    stores: tuple[ProgramStore, ...]
    outputs: tuple[Output, ...]
    stages: int
    key_groups: int = 128
    changelog_partitions: int = 16
    format: int = field(default=PROGRAM_FORMAT)
    lines: Mapping[str, str] = field(default_factory=dict, compare=False)  # the user's file and line, by operator id
    places: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict, compare=False
    )  # by operator id: where parts of its expressions are written in SQL, and where it is, with the line and what is below it
    on_error: Mapping[str, str] = field(default_factory=dict)  # "skip", "dead_letter" or "note" by operator id; others fail
    dropped_stores: tuple[str, ...] = ()  # of former programs: a start deletes them
    unlogged: tuple[str, ...] = ()  # stores whose changes are kept only until all tasks have applied them
    structures: Structures = field(default=Structures(), compare=False)
    namings: Mapping[str, Naming] = field(default_factory=dict, compare=False)  # by store
    labels: Mapping[str, StepLabel] = field(
        default_factory=dict, compare=False
    )  # by step; none if an earlier version compiled it
    python: str = field(default="", compare=False)  # the version that compiled the functions, which digests of them depend on
    turns: Mapping[str, Turn] = field(default_factory=dict, compare=False)  # by operator id
    topics: tuple[Topic, ...] = field(default=(), compare=False)  # that a start creates unless they exist

    def __post_init__(self) -> None:
        check_key_groups(self.key_groups)

    def to_json(self) -> dict[str, Any]:
        """The program as plain lists, dicts and scalars, ready for `json.dumps`."""
        plain: dict[str, Any] = to_plain(self)
        empty = {name for name in ("unlogged", "topics", "places") if not plain[name]}
        return {name: value for name, value in plain.items() if name not in empty}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Program:
        """The inverse of `to_json`; FormatVersionError for a format that this version does not read."""
        if value.get("format") != PROGRAM_FORMAT:
            raise FormatVersionError(
                f"the program has format {value.get('format')!r}, and this version of StreamKit reads {PROGRAM_FORMAT}; "
                "use the version that compiled it, or compile it again"
            )
        import streamkit.plan.operators  # knows every kind of operator; it imports this module
        import streamkit.plan.store_kinds  # every kind of store
        import streamkit.plan.window_kinds  # noqa: F401  # and every kind of windows

        program: Program = from_plain(cls, value, KINDS)
        return program

    @cached_property
    def text(self) -> str:
        """The program as the catalog keeps it."""
        return json.dumps(self._plain, sort_keys=True)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the program's canonical JSON, in hexadecimal: equal for equal programs, wherever they were declared."""
        plain = {name: value for name, value in self._plain.items() if name not in _NOTES and (name not in _LATER or value)}
        return hashlib.sha256(renumbered(json.dumps(plain, sort_keys=True)).encode()).hexdigest()

    @cached_property
    def _plain(self) -> dict[str, Any]:
        """As `to_json`, made once; nobody may change it."""
        return self.to_json()

    def place_of(self, operator_id: str, expression: str = "") -> str:
        """Where an operator, or a part of its expressions, is written, as messages show it; empty if that is not known."""
        places = self.places.get(operator_id, {})
        return places.get(expression) or places.get("") or self.lines.get(operator_id, "")

    def operators_of(self, stage: int) -> tuple[Operator, ...]:
        """The operators of one stage, in order."""
        return self._by_stage.get(stage, ())

    @cached_property
    def _by_stage(self) -> dict[int, tuple[Operator, ...]]:
        stages = {operator.stage for operator in self.operators}
        return {stage: tuple(one for one in self.operators if one.stage == stage) for stage in stages}

    @cached_property
    def takers(self) -> Mapping[str, tuple[Operator, ...]]:
        """The operators that take the rows of each."""
        found: dict[str, tuple[Operator, ...]] = {}
        for operator in self.operators:
            for source in dict.fromkeys(operator.sources):
                found[source] = (*found.get(source, ()), operator)
        return found

    @cached_property
    def writes(self) -> Counter[int]:
        """How many operators append to each output."""
        return Counter(one.output_written for one in self.operators if one.output_written is not None)

    @cached_property
    def receivers(self) -> Mapping[int, str]:
        """The id of what receives the rows of each edge."""
        return {operator.edge: operator.id for operator in self.operators if operator.kind == "receive"}  # type: ignore[attr-defined]

    @cached_property
    def placed_inputs(self) -> frozenset[int]:
        """
        The inputs whose rows leave the readers unfolded, or have expressions about their places: folded rows need no place of their own.

        Rows that a step takes together all have one, or none has.
        """
        taking = [self._takers(number) for number in range(len(self.inputs))]
        asking = {operator.id for operator in self.operators_of(0) if operator.kind == "send" or names_places(operator)}
        placed = {number for number, takers in enumerate(taking) if takers & asking}
        while more := {number for number, takers in enumerate(taking) if any(takers & taking[one] for one in placed)} - placed:
            placed |= more
        return frozenset(placed)

    @cached_property
    def ordered_inputs(self) -> frozenset[int]:
        """The inputs whose rows need their order key: an operator of the readers reads it, or they leave the readers with their place."""
        reading = {operator.id for operator in self.operators_of(0) if operator.reads_order}
        return self.placed_inputs | {number for number in range(len(self.inputs)) if self._takers(number) & reading}

    def _takers(self, number: int) -> frozenset[str]:
        """The readers' operators that take rows of an input, those that end their places among them, and none behind these."""
        reach = {operator.id for operator in self.operators_of(0) if operator.input_read == number}
        taking = set(reach)
        for operator in self.operators_of(0):
            if reach & set(operator.sources):
                taking.add(operator.id)
                if not operator.traits.ends_place:
                    reach.add(operator.id)
        return frozenset(taking)

    @cached_property
    def columns_read(self) -> tuple[tuple[str, ...], ...]:
        """The columns that the readers' operators read of each input, and headers if one reads them; several may read one."""
        wanted: list[set[str]] = [set() for _ in self.inputs]
        for operator in self.operators_of(0):
            if operator.input_read is not None:
                wanted[operator.input_read] |= set(operator.columns)  # type: ignore[attr-defined]
                wanted[operator.input_read] |= {HEADERS} if operator.headers else set()  # type: ignore[attr-defined]
        return tuple(
            tuple(name for name in (*source.schema.names, HEADERS) if name in names)
            for source, names in zip(self.inputs, wanted, strict=True)
        )

    def operator(self, name: str) -> Operator:
        """The operator of that id, or the one behind an input's name."""
        return self.operators[self.numbers[source_of(name)]]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The place of each operator in the program, by its id."""
        return {operator.id: number for number, operator in enumerate(self.operators)}

    def turn(self, operator_id: str) -> Turn:
        """When an operator gets what one record causes; in a program that does not say so, by its place there."""
        known = self.turns.get(operator_id)
        return known or Turn(self.numbers.get(operator_id, 0) + 1)

    def store(self, name: str) -> ProgramStore:
        """The store of that name."""
        return next(store for store in self.stores if store.name == name)

    def changelog_retention_ms(self, store: str) -> int:
        """
        How long after its event time a change of a store of windows is certainly deleted, by the stream time of its operator.

        That is the retention, and the size of a window besides: some windows are known by their ends. ValueError of a store that does not
        date its changes.
        """
        keeper, kept_ms = self.keeper(store), self.store(store).retention_ms
        if store not in keeper.dated_stores or keeper.windowing is None or kept_ms is None:
            raise ValueError(f"changes of the store {store!r} do not tell when they expire")
        return kept_ms + keeper.windowing.size_ms

    def keeper(self, store: str) -> Operator:
        """The operator that keeps a store."""
        return next(operator for operator in self.operators if store in operator.stores)
