"""
Stores that a program has and the one before it had not, although rows that they should have were read already.

A table has the newest record of each key, whenever that came; a row that leaves a group must have been added to it. So such a store
is filled with what follows from the rows that the application has read, or the start is refused. What counts records from now on,
such as an aggregation of a stream, begins empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamkit.engine.evolution.definition import original_of
from streamkit.engine.evolution.every_change import source_of_changes, tables_of_changes
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.state.layout import LAYOUTS


@dataclass(frozen=True)
class Filling:
    """
    How the first rows of `stores` are made.

    The operators `readers` read their topics again, up to where the application has come; the stores of the operators `keepers` are read.
    Then the `operators` run, in their order.
    """

    stores: tuple[str, ...]
    readers: tuple[Operator, ...]
    keepers: tuple[Operator, ...]
    operators: tuple[Operator, ...]


@dataclass
class Way:
    """
    From what the application has, to a store that is to be filled: the ids of operators, as in `Filling`.

    `sources` names the topics and stores that have rows; without any there is nothing to fill. `hindrance` says why the store cannot be
    filled with them; None if it can.
    """

    readers: set[str] = field(default_factory=set)
    keepers: set[str] = field(default_factory=set)
    operators: set[str] = field(default_factory=set)
    sources: list[str] = field(default_factory=list)
    hindrance: str | None = None


@dataclass(frozen=True)
class ApplicationContent:
    """
    What the application has: the names of its stores, of those that hold rows, and of the topics whose records it has read.

    Of `whole` topics all records are still there.
    """

    stores: frozenset[str]
    with_rows: frozenset[str]
    topics: frozenset[str]
    whole: frozenset[str] = frozenset()


def young_keepers(program: Program, known: ApplicationContent) -> list[Operator]:
    """The operators whose stores follow from rows, and are new; without copies of stores that are there, which are filled with these."""
    young = [one for one in program.operators if one.traits.follows_rows and one.stores[0] not in known.stores]
    return [one for one in young if original_of(program, one.stores[0]) not in known.stores]


def way_to(keeper: Operator, program: Program, known: ApplicationContent) -> Way:
    """How a new store can be filled."""
    way, pending = Way(operators={keeper.id}), list(keeper.sources)
    told = tables_of_changes(keeper, program, known.stores)
    while pending:
        operator = program.operator(pending.pop())
        if operator.id in way.operators | way.keepers | way.readers:
            continue
        if operator.id in told and not known.with_rows.isdisjoint(operator.stores):
            pending += _changes_again(operator, program, known, way)
        else:
            pending += _step(operator, program, known, way)
    return way


def _changes_again(table: Operator, program: Program, known: ApplicationContent, way: Way) -> tuple[str, ...]:
    """Take a table of which every change counts into the way: its topic is read again, if all of it is there."""
    source = source_of_changes(table, program)
    topic = None if source is None else program.inputs[source.input_read or 0].topic
    way.operators.add(table.id)
    if topic is None or topic not in known.whole:
        why = (
            "its changes are not kept"
            if topic is None
            else f"the topic {topic!r} does not have all its records any more, or is compacted"
        )
        way.sources.append(table.stores[0])
        way.hindrance = (
            f"it follows from every change of the table {table.stores[0]!r}, not only from the rows there now, and {why}"
        )
        return ()
    return table.sources


def filling_of(ways: Mapping[str, Way], program: Program) -> Filling | None:
    """The filling of stores that can be filled, by the ids of their keepers; None if there is none."""
    wanted = {name: way for name, way in ways.items() if way.sources and way.hindrance is None}
    if not wanted:
        return None
    stores = tuple(store for one in program.operators if one.id in wanted for store in one.stores)
    found = {}
    for part in ("readers", "keepers", "operators"):
        ids: set[str] = set().union(*(getattr(way, part) for way in wanted.values()))
        found[part] = tuple(one for one in program.operators if one.id in ids)
    return Filling(stores, **found)


def _step(operator: Operator, program: Program, known: ApplicationContent, way: Way) -> tuple[str, ...]:
    """Take an operator into the way; those above it that belong to the way too."""
    if operator.input_read is not None:
        topic = program.inputs[operator.input_read].topic
        way.readers.add(operator.id)
        way.sources += [topic] if topic in known.topics else []
        return ()
    if operator.stores and not known.stores.isdisjoint(operator.stores):
        # The first store of some operators tells the rows that they have given; what is above those need not be read again.
        first, traits = operator.stores[0], operator.traits
        has_results = traits.is_looked_up or traits.keeps_results or operator.aggregates_in(first)
        if has_results and program.store(first).layout in _PLAIN:
            way.keepers.add(operator.id)
            way.sources += [name for name in operator.stores[:1] if name in known.with_rows]
            return ()
        if not operator.traits.follows_rows:
            full = [name for name in operator.stores if name in known.with_rows]
            way.sources += full
            way.hindrance = f"the store {operator.stores[0]!r} does not say which results it has given" if full else way.hindrance
            return ()
    elif operator.traits.holds_back:
        way.hindrance = (
            f"it is not known which of these rows {operator.stores[0]!r}, which is also new, would have passed on by now"
        )
    elif operator.stores and not operator.traits.follows_rows:
        return ()  # it begins with the records from now on, and so does what follows from them
    elif not operator.stores and meets_a_table(operator):
        way.hindrance = "it is not known which rows a table had when the records were joined with it"
    way.operators.add(operator.id)
    return operator.sources


def meets_a_table(operator: Operator) -> bool:
    """Whether it joins records with the rows that a table has when they come."""
    looking = [place in operator.traits.looks_up for place in range(len(operator.inputs))]
    if operator.input_read_whole is not None:
        return True
    return any(looking) and not all(looking)


_PLAIN = tuple(name for name, layout in LAYOUTS.items() if not layout.before + layout.after)
