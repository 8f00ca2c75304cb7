"""Whether a program can go on with the state that an earlier program of its application left, and in which order it is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from streamkit.engine.epoch.stream_time import StreamTimes, committed_times
from streamkit.engine.evolution.advice import Renaming, rebuild_options, renaming
from streamkit.engine.evolution.changed_encodings import changed_encodings
from streamkit.engine.evolution.definition import (
    Difference,
    Telling,
    definition,
    differences,
    hindrance,
    in_stored_order,
    keeping_ahead,
    original_of,
    reads_since_1970,
)
from streamkit.engine.evolution.replaying import (
    check_records,
    names_together,
    rebuild_words,
    rebuilt_stores,
    stores_text,
    stretches,
)
from streamkit.engine.evolution.rerouted_outputs import rerouted_outputs
from streamkit.engine.evolution.shifted_times import shifted_times
from streamkit.engine.evolution.stale_times import stale_times
from streamkit.engine.evolution.waits import GivenResults, hindrances, waiting_otherwise
from streamkit.engine.evolution.young_stores import ApplicationContent, Filling, Way, filling_of, way_to, young_keepers
from streamkit.errors import ConfigError, OffsetOutOfRangeError, OrphanedStateError, TopologyError
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.catalog import Catalog
from streamkit.plan.earlier_program import has_steps, read_program
from streamkit.plan.operators.table_aggregate import TableAggregate
from streamkit.plan.program import Program
from streamkit.state.format import is_earlier

_NEW_LINE = "\n  "
NO_TOPIC = -1  # an id that no topic has
_OF_STORE = re.compile(r"the store ('[^']*')")


@dataclass(frozen=True)
class Continuation:
    """
    The stores of a program beside those that its application has: what goes on, and what cannot.

    `known` is the application as the catalog has it, `before` the program that left its stores; None if there is none. `text` is the
    program before as the catalog has it. `with_rows` are the stores that hold something, or did, `read` the topics of which it has read records,
    `whole` those that have all their records, `gone` those that the program before read and that were deleted since; others may have their
    names now. `written` are the outputs of encoded values that hold records. `rebuilt` are the stores that a replay fills again, whatever they hold.
    `unread` are the topics of the program before with records that the application has not read, and their numbers.
    `lacks_records` tells whether topics have lost records that the replay of a part of the program would read.
    """

    program: Program
    known: ApplicationState | None = None
    before: Program | None = None
    text: str = ""
    with_rows: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    rebuilt: frozenset[str] = frozenset()
    unread: Mapping[str, int] = field(default_factory=dict)
    lacks_records: Callable[[Program], bool] = field(default=lambda part: False, compare=False)

    @property
    def kept(self) -> frozenset[str]:
        """The names of the stores that the application has."""
        return frozenset(self.known.stores) if self.known is not None else frozenset()

    @cached_property
    def dropped(self) -> tuple[str, ...]:
        """The stores that the program no longer needs: copies of others, those that it says to drop, and unused ones."""
        told = self.program.dropped_stores
        return tuple(name for name in self._left if name in told or name in self.unused or self._is_needless(name))

    @cached_property
    def unused(self) -> frozenset[str]:
        """The stores that hold nothing and that the program before has not: a start that failed behind the first commit left them."""
        stored = {store.name for store in self.before.stores} if self.before is not None else self.kept
        return self.kept - stored - self.with_rows

    def _is_needless(self, store: str) -> bool:
        """Whether a store was a copy of one that the program still has, or has members of groups whose aggregates no longer need them."""
        if self.before is None:
            return False
        still = {one.name for one in self.program.stores}
        original = original_of(self.before, store)
        if original is not None:
            return original in still
        keeper = self.before.keeper(store) if any(one.name == store for one in self.before.stores) else None
        return isinstance(keeper, TableAggregate) and keeper.members == store and keeper.store in still

    def stale_times(self, topic_ids: Mapping[str, int]) -> list[str]:
        """The names of the stream times that the program must not go on from; `topic_ids` are those of its topics, by name."""
        if self.known is None or self.before is None or not has_steps(self.before):
            return []
        young = (
            {store.name for store in self.program.stores} - set(self.compared) - self.rebuilt
        )  # theirs change when they are filled
        return stale_times(committed_times(self.known, ()), self.before, self.program, young, topic_ids)

    @property
    def shifted_times(self) -> StreamTimes:
        """
        The stream times that the program goes on from in place of those kept, because windows got another grace or retention.

        What a later rebuild must know of the change is among them.
        """
        if self.known is None or self.before is None:
            return {}
        times = committed_times(self.known, ())
        noted = waiting_otherwise(self.before, self.program, self.compared, times)
        return {**shifted_times(times, self.before, self.program, self.compared), **noted}

    def given_results(self, state: ApplicationState) -> GivenResults:
        """Up to which times the results of stores that are filled again had come in this state; they come no second time."""
        if self.before is None:
            return GivenResults()
        times, stored = committed_times(state, ()), {store.name for store in self.before.stores}
        both = [store.name for store in self.program.stores if store.name in self.rebuilt & stored]
        times = {**times, **shifted_times(times, self.before, self.program, both)}
        return GivenResults.of(self.before, self.program, self.rebuilt, times)

    @cached_property
    def orphaned(self) -> tuple[str, ...]:
        """The stores with state that the program no longer names."""
        return tuple(name for name in self._left if name not in self.dropped)

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The stores that both programs have, in the program's order, but those that are filled again."""
        stored = {store.name for store in self.before.stores} & self.kept if self.before is not None else set()
        return tuple(store.name for store in self.program.stores if store.name in stored - self.rebuilt)

    @cached_property
    def differing(self) -> Mapping[str, Sequence[Difference]]:
        """The stores that would be read as something else than they hold, with what differs."""
        return {name: different for name, different in self._different.items() if name not in self.evolved}

    @cached_property
    def evolved(self) -> Mapping[str, Sequence[Difference]]:
        """The stores whose rows go on with aggregates or columns more, or fewer, with these."""
        return {
            name: different for name, different in self._different.items() if hindrance(self.program, name, different) is None
        }

    def hindrance(self, store: str) -> str | None:
        """Why a store that differs cannot go on, as far as it needs a word, and which other name helps; None if it can."""
        if store in self.evolved:
            return None
        way = renaming(self, store)
        return hindrance(self.program, store, self._different[store], None if way is None else (way.words, way.dropping))

    @property
    def refilled_without_log(self) -> list[str]:
        """The stores that are to be filled again, and cannot be: one without a log has no changes that say which rows are to go."""
        unlogged = {*self.program.unlogged, *(self.before.unlogged if self.before is not None else ())}
        return sorted(self.rebuilt & unlogged & self.kept)

    @property
    def elsewhere(self) -> str:
        """How a changed program may run that does not go on with this state, in words; of one that follows another it is a new beginning."""
        name = self.program.application
        if self.known is not None and (leader := self.known.follows) is not None:
            return f"let it begin again with the changed topology, by `streamkit apps reset {name}` and then this command with --from {leader}"
        return (
            f"run the changed topology under another application name; or start from scratch with `streamkit apps reset {name}`"
        )

    def rebuild_refusals(self) -> Iterator[OrphanedStateError]:
        """Why the stores cannot be filled again, as far as that is known before they are."""
        if self.before is not None and self.known is not None:
            yield from hindrances(self.before, self.program, self.rebuilt, committed_times(self.known, ()))

    @cached_property
    def filled(self) -> Filling | None:
        """The stores that come to rows which the application has read, and how they are filled with what follows from these."""
        return filling_of(self._ways, self.program)

    @cached_property
    def unfilled(self) -> Mapping[str, Way]:
        """The stores that come to rows which the application has read, and cannot be filled; with why."""
        renamed = {name for orphan in self.orphaned for name in self.namesakes(orphan)}
        found = {
            self.program.operator(keeper).stores[0]: way for keeper, way in self._ways.items() if way.sources and way.hindrance
        }
        return {store: way for store, way in found.items() if store not in renamed}

    def sources_of(self, store: str) -> list[str]:
        """The topics and stores whose rows a new store is filled with."""
        return sorted(
            {one for keeper, way in self._ways.items() if store in self.program.operator(keeper).stores for one in way.sources}
        )

    @cached_property
    def _ways(self) -> Mapping[str, Way]:
        """The ways to new stores that follow from rows, by their keepers."""
        if self.before is None:
            return {}
        known = ApplicationContent(frozenset(self.compared), self.with_rows, self.read, self.whole)
        known = replace(known, stores=known.stores - self._refilled(known))
        young = [one for one in young_keepers(self.program, known) if self.rebuilt.isdisjoint(one.stores)]
        return {one.id: way_to(one, self.program, known) for one in young}

    def _refilled(self, known: ApplicationContent) -> frozenset[str]:
        """The stores whose rows get columns that can be made of the rows read before: they are filled as if they were new."""
        gaining = {name for name, different in self.evolved.items() if any(one.before is None for one in different)}
        found = {
            one.stores[0]: one
            for one in self.program.operators
            if len(one.stores) == 1 and one.traits.follows_rows and one.traits.passes_rows
        }
        candidates = frozenset(name for name in gaining if name in found)
        without = replace(known, stores=known.stores - candidates)
        ways = {name: way_to(found[name], self.program, without) for name in candidates}
        return frozenset(name for name, way in ways.items() if way.sources and way.hindrance is None)

    @cached_property
    def reordered(self) -> tuple[str, ...]:
        """The stores that go on with the same parts in another order, that in which they are stored."""
        return tuple(name for name in self._fitting if list(self._held(name)) != list(self._made(name)))

    def namesakes(self, orphan: str) -> list[str]:
        """The new stores that hold what an orphaned one does: it may have been renamed."""
        if self.before is None or all(store.name != orphan for store in self.before.stores):
            return []
        added = [store.name for store in self.program.stores if store.name not in self.kept]
        renamed = {repr(name): "…" for name in (*added, *self._left)}  # what it is made of may have been renamed with it
        held = _with_names(self._held(orphan), renamed)
        return [name for name in added if not differences(held, _with_names(self._made(name), renamed))]

    def ways_on(self, orphan: str) -> dict[str, str]:
        """What to write so that a new store goes on with an orphaned one, by the new store; nothing where that is not known."""
        found = {name: self._named_as(orphan, name) for name in self.namesakes(orphan)}
        return {name: way for name, way in found.items() if way is not None}

    def _named_as(self, orphan: str, name: str) -> str | None:
        """What to write so that a new store gets the name of an orphaned one, which ends as its own: a join has several stores."""
        naming = self.program.namings.get(name)
        ending = name.removeprefix(naming.name) if naming is not None else ""
        if naming is None or not orphan.endswith(ending):
            return None
        return naming.words.format(orphan.removesuffix(ending)) + (_line_of(self.program, name, " at") or " there")

    def refusals(self) -> Iterator[OrphanedStateError | TopologyError]:
        """Why the program cannot go on, an error for each reason."""
        if self.before is not None:
            yield from changed_encodings(self.before, self.program, self.written)
            if has_steps(self.before):
                yield from rerouted_outputs(self.before, self.program, self.unread, self.elsewhere)
            yield from self.rebuild_refusals()
        if self.orphaned:
            yield self._orphans()
        for name, different in self.differing.items():
            if differences(self._held(name, frozenset()), self._made(name)):
                yield _other_store(self, name, different, rebuild_options(self, [name]))
            else:
                yield _of_gone_topics(self.program, name, sorted(self.gone), renaming(self, name))
        for name, way in self.unfilled.items():
            yield _young_store(self, name, way, rebuild_options(self, [name]))

    def program_in_stored_order(self) -> Program:
        """The program with aggregates and columns of each store that goes on in the order in which they are stored."""
        if self.before is None:
            return self.program
        return keeping_ahead(in_stored_order(self.program, self.before, self._fitting), self.before, self.compared)

    def _orphans(self) -> OrphanedStateError:
        program, left = self.program, self.orphaned
        they = "they were declared at" if len(left) > 1 else "it was declared at"
        return OrphanedStateError(
            f"the application {program.application!r} has state in {', '.join(left)}, which the topology no longer names; it has the stores "
            f"{', '.join(store.name for store in program.stores) or 'none'}. {self._advice()}; or delete them by "
            f"app.drop_store({', '.join(map(repr, left))}) in the topology; or start from scratch with "
            f"`streamkit apps reset {program.application}`"
            + (_line_of(self.before, left[0], _NEW_LINE + they) if self.before is not None else "")
        )

    def _advice(self) -> str:
        """How orphaned stores get their names again."""
        ways: dict[str, list[str]] = {}
        for orphan in self.orphaned:
            if found := self.ways_on(orphan):
                ways.setdefault(", or ".join(dict.fromkeys(found.values())), []).append(orphan)
        if not ways:
            return (
                "Declare the steps of these stores as before, under these names (by store= or name=, whichever the verb accepts)"
            )
        return "; ".join(f"Write {way}: the step then continues with {', '.join(stores)}" for way, stores in ways.items())

    @cached_property
    def _different(self) -> Mapping[str, Sequence[Difference]]:
        found = {name: differences(self._held(name), self._made(name)) for name in self.compared}
        return {name: different for name, different in found.items() if different}

    @property
    def _left(self) -> list[str]:
        return sorted(self.kept - {store.name for store in self.program.stores})

    @property
    def _fitting(self) -> list[str]:
        return [name for name in self.compared if name not in self._different]

    def _held(self, store: str, gone: frozenset[str] | None = None) -> dict[str, str]:
        """What a store holds, with these topics `gone`; what holds nothing has nothing of topics that were deleted."""
        assert self.before is not None
        if gone is None:
            gone = self.gone if store in self.with_rows else frozenset()
        return definition(self.before, self.before.store(store), replace(self._telling, gone=gone))

    def _made(self, store: str) -> dict[str, str]:
        """What the program makes of a store."""
        return definition(self.program, self.program.store(store), self._telling)

    @cached_property
    def _telling(self) -> Telling:
        """What the programs can be compared by."""
        before = self.before
        return Telling(
            argument_types=self.known is not None and is_earlier(self.known),
            origins=before is not None and has_steps(before),
            code=before is not None and before.python == self.program.python,
            since_1970=reads_since_1970(self.program),
        )


def continuation(catalog: Catalog, program: Program, rebuilt: frozenset[str] = frozenset()) -> Continuation:
    """
    What the application's state is to the program; FormatVersionError if a newer version left it.

    The stores `rebuilt` are filled again before anything reads them.
    """
    known = {state.name: state for state in catalog.applications.every()}.get(program.application)
    if known is None:
        return Continuation(program, rebuilt=rebuilt)
    text = catalog.applications.program_of(known.name)
    ends = {name: catalog.manifest.end_offsets(store.changelog_topic_id) for name, store in known.stores.items()}
    with_rows = frozenset(name for name, found in ends.items() if any(found.values()))
    found = {one.topic: catalog.topics.find(one.topic) for one in program.inputs}
    read = frozenset(
        name for name, topic in found.items() if topic is not None and any(known.positions.get(topic.id, {}).values())
    )
    before = read_program(text) if text and (known.stores or known.positions) else None
    gone = frozenset[str]() if before is None else _gone(catalog, known, before)
    whole = frozenset(
        name
        for name, topic in found.items()
        if topic is not None and not topic.is_compacted and not any(catalog.manifest.start_offsets(topic.id).values())
    )
    written, lacks_records = written_outputs(catalog, program), partial(_lacks_records, catalog, known)
    unread = {} if before is None else _unread(catalog, known, before)
    return Continuation(program, known, before, text, with_rows, read, gone, whole, written, rebuilt, unread, lacks_records)


def _unread(catalog: Catalog, known: ApplicationState, before: Program) -> dict[str, int]:
    """The topics that the program before wrote and that hold records which the application has not read, with how many these are."""
    found: dict[str, int] = {}
    for topic in filter(None, (catalog.topics.find(output.topic) for output in before.outputs)):
        starts, read = catalog.manifest.start_offsets(topic.id), known.positions.get(topic.id, {})
        ends = catalog.manifest.end_offsets(topic.id)
        found[topic.name] = sum(max(0, end - max(starts.get(one, 0), read.get(one, 0))) for one, end in ends.items())
    return {name: count for name, count in found.items() if count}


def _lacks_records(catalog: Catalog, known: ApplicationState, part: Program) -> bool:
    """Whether records that the application has read, and that the replay of a part of its program would read, are not there any more."""
    found = [catalog.topics.find(source.topic) for source in part.inputs]
    ids = [topic.id if topic is not None else NO_TOPIC for topic in found]
    try:
        check_records(part, stretches(catalog, part, ids, {}, known.positions), "")
    except OffsetOutOfRangeError:
        return True
    return False


def stores_to_rebuild(catalog: Catalog, program: Program, named: Collection[str]) -> frozenset[str]:
    """
    The stores that are filled again if a user names these: all of their operators, and the copies of tables.

    ConfigError if there is none of a name, if others must be filled with them, or if no replay can fill them. OrphanedStateError if others must
    be filled with them, and all together cannot be.
    """
    names = names_together(program, named)
    if missing := names[len(dict.fromkeys(named)) :]:
        found = continuation(catalog, program)
        yet = replace(found, rebuilt=rebuilt_stores(program, names))
        for refusal in yet.rebuild_refusals():
            raise refusal
        has_read = found.known is not None and bool(found.known.positions)
        options = rebuild_options(found, named) if has_read or any(found.refusals()) else rebuild_words(names)
        raise ConfigError(
            f"{stores_text(named)} of {program.application!r} cannot be rebuilt without {', '.join(map(repr, missing))}, because "
            f"their rows follow from each other{f': expected them together, as in {options}' if options else ''}"
        )
    return rebuilt_stores(program, names)


def written_outputs(catalog: Catalog, program: Program) -> frozenset[str]:
    """The outputs of encoded values that hold records; a topic that was made again, or is empty, may be written in any form."""
    found = {output.topic: catalog.topics.find(output.topic) for output in program.outputs if output.format is not None}
    return frozenset(
        name
        for name, topic in found.items()
        if topic is not None and catalog.manifest.end_offsets(topic.id) != catalog.manifest.start_offsets(topic.id)
    )


def _gone(catalog: Catalog, known: ApplicationState, before: Program) -> frozenset[str]:
    """The topics that the program before read, those of global tables too, and that were deleted since; the id of a topic never comes back."""
    started = catalog.applications.inputs_of(known.id)
    names = {source.topic for source in before.inputs}
    found = {name: catalog.topics.find(name) for name in names if started}
    return frozenset(name for name, topic in found.items() if topic is None or topic.id not in started)


def continued(catalog: Catalog, program: Program, rebuilt: frozenset[str] = frozenset()) -> Continuation:
    """As `continuation`; OrphanedStateError, or TopologyError of an output, with what differs and what to do, if the program cannot go on."""
    found = continuation(catalog, program, rebuilt)
    for refusal in found.refusals():
        raise refusal
    return found


def _with_names(definition: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """A definition in which stores have other names."""
    return {
        part: _OF_STORE.sub(lambda found: f"the store {names.get(found[1], found[1])}", text) for part, text in definition.items()
    }


def _line_of(program: Program, store: str, words: str) -> str:
    """The user's line that declares a store, behind a message."""
    lines = [program.lines[one.id] for one in program.operators if store in one.stores and one.id in program.lines]
    return f"{words} {lines[0]}" if lines else ""


def _young_store(found: Continuation, name: str, way: Way, options: str | None) -> OrphanedStateError:
    program, elsewhere = found.program, found.elsewhere
    return OrphanedStateError(
        f"the store {name!r} of {program.application!r} is new, and the application has already read rows of {', '.join(way.sources)} that it "
        f"should have: it would begin without them. It cannot be filled with these rows: {way.hindrance}. "
        f"{f'Fill it from its topics by {options}; or {elsewhere}' if options else f'{elsewhere[0].upper()}{elsewhere[1:]}'}"
        f"{_line_of(program, name, _NEW_LINE + 'at')}"
    )


def _of_gone_topics(program: Program, name: str, topics: Sequence[str], way: Renaming | None) -> OrphanedStateError:
    text = ", ".join(map(repr, topics))
    renamed = (
        f"; or give each step with such rows another name (by store= or name=, whichever the verb accepts) and delete these stores by {way.dropping}"
        if way
        else ""
    )
    return OrphanedStateError(
        f"the store {name!r} of {program.application!r} has rows of records of {text}, deleted since the application last "
        "started. A topic that has such a name now is another topic, and is read from its beginning: the store would mix the rows of both. Expected "
        "a store without the old rows: "
        f"start from scratch with `streamkit apps reset {program.application}`{renamed}{_line_of(program, name, _NEW_LINE + 'at')}"
    )


def _other_store(found: Continuation, name: str, different: Sequence[Difference], options: str | None) -> OrphanedStateError:
    program, why = found.program, found.hindrance(name)
    again = f" or fill it again from its topics by {options};" if options else ""
    return OrphanedStateError(
        f"the store {name!r} of {program.application!r} does not hold what the topology now stores in it: "
        f"{'; '.join(map(str, different))}{f' ({why})' if why else ''}. Declare it as before, with the same types of columns;{again} or "
        f"{found.elsewhere}{_line_of(program, name, _NEW_LINE + 'at')}"
    )
