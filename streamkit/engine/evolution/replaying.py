"""
Stores that are filled again from their topics: which go together, and the part of a program that leads to them.

That part runs as an application of its own, from the beginning of the topics up to where the application stands, and writes to no topic.
So the stores get what a run from the beginning would give them. What follows from a store, and what it follows from, must come of the same
run; where a stream meets the rows of a table neither does, since the store has what the rows were then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from streamkit.engine.evolution.definition import original_of
from streamkit.engine.evolution.every_change import tables_of_changes
from streamkit.engine.evolution.young_stores import meets_a_table
from streamkit.errors import ConfigError, OffsetOutOfRangeError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.span import GivenOffsets
from streamkit.log.slab.extent import Extent
from streamkit.names import rebuilding
from streamkit.plan.operator import Operator, source_of
from streamkit.plan.program import Program


def names_together(program: Program, named: Collection[str]) -> list[str]:
    """
    The names of stores that are to be given to fill some again: these, and behind them others without which that cannot be.

    ConfigError if there is none of a name, or if no replay can fill them.
    """
    existing = {store.name for store in program.stores}
    if unknown := sorted(set(named) - existing):
        raise ConfigError(
            f"there is no store {', '.join(map(repr, unknown))} in the topology of {program.application!r} to rebuild; it has "
            f"{', '.join(sorted(existing)) or 'none'}"
        )
    stores = rebuilt_stores(program, named)
    together = _together(program, [one for one in program.operators if not stores.isdisjoint(one.stores)])
    missing = [original_of(program, one.stores[0]) or one.stores[0] for one in together if stores.isdisjoint(one.stores)]
    for one in _way(program, together):
        if one.ticks_ms:
            raise ConfigError(
                f"{stores_text(named)} of {program.application!r} cannot be rebuilt: {one.id} is called by the clock, and a "
                "replay of the records does not know when that was; expected stores whose rows follow from records alone"
            )
    return list(dict.fromkeys((*named, *missing)))


def stores_text(names: Collection[str]) -> str:
    """Stores as an error speaks of them."""
    return f"the store{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def rebuild_words(names: Sequence[str]) -> str:
    """The options that fill stores again."""
    return " ".join(f"--rebuild {name}" for name in names)


def rebuilt_stores(program: Program, names: Collection[str]) -> frozenset[str]:
    """The stores that are filled again where these are named: all of their operators, and the copies of tables."""
    stores = {store for name in names for store in program.keeper(name).stores}
    return frozenset(stores | {one.name for one in program.stores if original_of(program, one.name) in stores})


def replayed_program(program: Program, stores: Collection[str]) -> Program:
    """
    The part of a program that leads to some stores, under the name of the application that fills them; it writes to no topic.

    All of its stores have logs, for what they hold in the end is read from these.
    """
    part = _part(program, [one for one in program.operators if not set(stores).isdisjoint(one.stores)])
    return replace(part, application=rebuilding(program.application), unlogged=())


def withheld_program(program: Program) -> Program:
    """A program that reads and keeps what this one does, and writes to no topic."""
    keepers = [one for one in program.operators if one.stores]
    return _part(program, [*keepers, *(one for one in program.operators if one.input_read is not None)])


def _part(program: Program, ends: Sequence[Operator]) -> Program:
    """The part of a program that leads to some operators, without outputs."""
    operators = tuple(_way(program, ends))
    kept = {name for one in operators for name in one.stores}
    stores = tuple(store for store in program.stores if store.name in kept)
    return replace(program, operators=operators, stores=stores, outputs=(), dropped_stores=())


def inputs_replayed(program: Program) -> list[int]:
    """The numbers of the inputs that the operators of a part read record by record."""
    return sorted({one.input_read for one in program.operators if one.input_read is not None})


@dataclass(frozen=True)
class Stretch:
    """The records [start, end) of a topic partition that are to be read again, and those of their extents that are there."""

    topic: str
    partition: int
    start: int
    end: int
    earliest: int
    extents: tuple[Extent, ...]

    @property
    def is_whole(self) -> bool:
        """Whether there is a record at each offset."""
        reached = self.start
        for one in self.extents:
            if one.base_offset > reached or not one.is_dense:
                return False
            reached = max(reached, one.next_offset)
        return reached >= self.end


def stretches(
    catalog: Catalog, program: Program, topic_ids: Sequence[int], since: GivenOffsets, until: GivenOffsets
) -> dict[int, list[Stretch]]:
    """What a replay reads between two positions, by the number of the input."""
    found: dict[int, list[Stretch]] = {}
    for number in inputs_replayed(program):
        topic_id = topic_ids[number]
        begun, ends = since.get(topic_id, {}), until.get(topic_id, {})
        manifest = catalog.manifest.cut([topic_id], {topic_id: begun}, {topic_id: ends})
        found[number] = [
            Stretch(
                program.inputs[number].topic,
                partition,
                begun.get(partition, 0),
                end,
                manifest.start_offsets[topic_id].get(partition, 0),
                manifest.of(topic_id, partition),
            )
            for partition, end in sorted(ends.items())
            if begun.get(partition, 0) < end
        ]
    return found


def check_records(program: Program, found: Mapping[int, Sequence[Stretch]], what: str) -> None:
    """
    OffsetOutOfRangeError if records that a replay must read are not there any more, which says `what` cannot be done.

    `program` is the part that is replayed.
    """
    for number, pieces in found.items():
        counts_every = _counts_every(program, number)
        for piece in pieces:
            if piece.earliest > piece.start:
                why = f"the records before {piece.earliest}, the first offset that is left, have been deleted"
            elif counts_every and not piece.is_whole:
                why = "compaction has removed some of them, though each one counts"
            else:
                continue
            raise OffsetOutOfRangeError(
                f"{what}: it follows from the records {piece.start} to {piece.end - 1} of the topic {piece.topic}, partition {piece.partition}, and "
                f"{why}. Do not rebuild it; or use the records that are left by --accept-loss (accept_loss=True)",
                piece.topic,
                piece.partition,
                piece.start,
                piece.earliest,
                piece.end,
            )


def _counts_every(program: Program, number: int) -> bool:
    """Whether each record of an input counts, and not only the newest of each key, as of a table without history that only tables follow."""
    if program.inputs[number].kind != "table":
        return True
    if any(meets_a_table(one) or (one.traits.follows_rows and one.windowing is not None) for one in program.operators):
        return True
    kept = frozenset(store.name for store in program.stores)
    keepers = [one for one in program.operators if one.stores]
    return any(tables_of_changes(one, program, kept - set(one.stores)) for one in keepers) or any(
        not one.traits.follows_rows for one in keepers
    )


def _together(program: Program, keepers: Sequence[Operator]) -> list[Operator]:
    """The operators whose stores follow from those of the keepers, or the other way round, whatever lies between; and so on from these."""
    below = _takers(program)
    found: dict[str, Operator] = {}
    pending = list(keepers)
    while pending:
        keeper = pending.pop()
        if keeper.id in found:
            continue
        found[keeper.id] = keeper
        pending += _next_keepers(keeper, lambda one: _sources(program, one))
        pending += _next_keepers(keeper, lambda one: below.get(one.id, []))
    return [one for one in program.operators if one.id in found]


def _next_keepers(keeper: Operator, following: Callable[[Operator], list[Operator]]) -> Iterator[Operator]:
    """The operators with stores that are next, going on through those without."""
    pending, seen = following(keeper), set()
    while pending:
        operator = pending.pop()
        if operator.id in seen:
            continue
        seen.add(operator.id)
        if operator.stores:
            yield operator
        else:
            pending += following(operator)


def _sources(program: Program, operator: Operator) -> list[Operator]:
    """The operators whose rows cause an operator's own; a table that it only meets is none."""
    return [program.operator(name) for place, name in enumerate(operator.inputs) if not _is_met(operator, place)]


def _takers(program: Program) -> dict[str, list[Operator]]:
    """By operator those that take its rows, but not those that only meet them."""
    found: dict[str, list[Operator]] = {}
    for one in program.operators:
        for place, name in enumerate(one.inputs):
            if not _is_met(one, place):
                found.setdefault(source_of(name), []).append(one)
    return found


def _is_met(operator: Operator, place: int) -> bool:
    """Whether an input is a table whose rows records meet as they are then."""
    return meets_a_table(operator) and place in operator.traits.looks_up


def _way(program: Program, keepers: Sequence[Operator]) -> Iterator[Operator]:
    """All operators above the keepers, with these."""
    pending, seen = [one.id for one in keepers], set()
    while pending:
        if (name := pending.pop()) not in seen:
            seen.add(name)
            pending += program.operator(name).sources
    return (one for one in program.operators if one.id in seen)
