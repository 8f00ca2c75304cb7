"""
Results that wait for stream time, beside the program before, where stores are filled again or a second version takes over.

What the program before has given comes no second time, and what waited there comes once. A result comes when stream time has passed what it is
of by a wait: the grace of windows, the limit of suppress(), the time in which a partner may come. Both programs have given the same results
where the one's stream time is ahead of the other's by as much as its wait is longer. So by a longer wait, or where stream time had come further
before, what was given is closed without a record. By a shorter wait, or where stream time comes further now, a replay would give results to
nobody that were never given: that is refused. Which results came before they were due, and when, a replay cannot know: where records have
come since, either that is refused, or the rows that wait are compared (`held_back.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from streamkit.engine.epoch.stream_time import ALWAYS_AHEAD, NO_TIME, StreamTimes, of_closed, of_given, of_store
from streamkit.errors import OrphanedStateError
from streamkit.plan.duration import duration_text
from streamkit.plan.earlier_program import has_steps
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.plan.window_kinds.sliding import SlidingWindowing
from streamkit.plan.windows import ASSIGNED, SESSION, Windowing

# What a refusal says of results that wait
_WINDOWS_MOVED = (
    "belong to windows whose bounds have changed, though some windows may be the same as before. A drain, idle topics or a grace that was shorter "
    "than now closed some windows that are still open by stream time, and it is not known which windows those are"
)
_STEPS_CHANGED = (
    "wait for further rows of their keys, and the streams or steps in front of them now wait or move stream time in another way"
)
_STEPS_CHANGED_BEFORE = (
    "waited, before an earlier start, behind other streams or other steps that wait, and it is not known which results those are"
)


@dataclass(frozen=True)
class GivenResults:
    """
    Up to which times the program before has given results, by the waits of the program now.

    `closed` are these times, by the names of what is closed without a record; `reached` is where records alone have brought them, by store.
    `apart` are the stores whose windows are others than before, so that none of them has been given; `early` those whose results may have come
    ahead of stream time, or because too many waited, with records after them.
    """

    closed: StreamTimes = field(default_factory=dict)
    reached: StreamTimes = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    early: frozenset[str] = frozenset()

    @classmethod
    def of(cls, before: Program, program: Program, stores: frozenset[str], times: StreamTimes) -> GivenResults:
        """The results of operators that keep some of these stores in both programs; the program before left these `times`."""
        closed, reached, apart, early = dict[str, int](), dict[str, int](), set[str](), set[str]()
        for earlier, operator in _of_both(before, program, stores):
            if earlier.windowing is None or operator.windowing is None or of_store(earlier.windowing.store) not in times:
                continue
            name = operator.windowing.store
            came = times[of_store(earlier.windowing.store)]
            if _are_apart(earlier, operator):
                apart.add(name)
                reached[name] = came
                continue
            if earlier.stored_waits_ms.keys() == operator.stored_waits_ms.keys() and _may_be_early(before, earlier, times):
                early.add(name)
            # The times of windows with another grace have been moved by that already, but not by another gap.
            grown_ms = (
                _grown_gap_ms(earlier, operator) if operator.traits.closes_windows else _grown_wait_ms(earlier, operator) or 0
            )
            reached[name] = came + (0 if operator.traits.closes_windows else grown_ms)
            # What is given of windows says that some closed early, not until when.
            ahead_of = (of_closed,) if earlier.traits.closes_windows else (of_closed, of_given)
            ahead = [times.get(of(earlier.windowing.store), NO_TIME) for of in ahead_of]
            closed[of_closed(name)] = max(reached[name], *(time + grown_ms for time in (came, *ahead)))
        return cls(closed, reached, frozenset(apart), frozenset(early))

    def refusals(self, program: Program, times: StreamTimes) -> Iterator[OrphanedStateError]:
        """Why a program whose replay has come to these times cannot go on, an error for each operator whose results would come twice or never."""
        for operator in program.operators:
            if operator.windowing is None or not operator.waits_ms:
                continue
            name = operator.windowing.store
            now, before = times.get(of_store(name), NO_TIME), self.reached.get(name)
            if (
                before is None
                or now == before
                or (now <= self.closed.get(of_closed(name), before) and not operator.waits_for_more)
            ):
                continue
            yield OrphanedStateError(
                f"stream time of the store {name!r} reaches {now} ms when its records are read again, and it had reached {before} ms before: results "
                f"that were due in between would be given {'never' if now > before else 'twice, or not at all'}. Leave the streams that it reads, "
                "their timestamp= and their max_jump= as they were; or give the step another name, and drop its stores by "
                f"app.drop_store({', '.join(map(repr, operator.stores))}){_at(program, operator)}"
            )


def closings_to_come(program: Program, given: GivenResults, times: StreamTimes) -> Iterator[OrphanedStateError]:
    """
    Why it is not known yet what waits in the stores of a program when it takes over, an error for each operator.

    The windows in front of it that have closed early give their results then, and with what was late for them before.
    """
    for operator in program.operators:
        if operator.windowing is None or operator.windowing.store not in given.early:
            continue
        above = [
            one.windowing.store for one in _above(program, operator) if one.traits.closes_windows and one.windowing is not None
        ]
        for name in above:
            reached, closed = times.get(of_store(name), NO_TIME), given.closed.get(of_closed(name), NO_TIME)
            if closed > reached:
                yield OrphanedStateError(
                    f"some results that wait in the store {operator.stores[0]!r} would be given twice, or not at all: windows of the store {name!r}, which "
                    "comes before it, were closed ahead of stream time (by a drain, by idle topics or by a grace that was shorter than now), and records "
                    f"have arrived since. Take over once stream time, which is {reached} ms, has reached {closed} ms, or after another drain and before "
                    f"new records arrive; or give the step another name{_at(program, operator)}"
                )


def hindrances(before: Program, program: Program, stores: frozenset[str], times: StreamTimes) -> Iterator[OrphanedStateError]:
    """
    Why these stores of both programs cannot be filled again, an error for each operator whose results would come twice or never.

    `times` are those that the program before left.
    """
    for earlier, operator in _of_both(before, program, stores):
        if operator.windowing is None or earlier.windowing is None:
            continue
        if not has_steps(before):
            yield OrphanedStateError(
                f"the store {operator.stores[0]!r} of {program.application!r} cannot be filled again by this start: an earlier version of StreamKit ran "
                f"it last, and did not store what its results wait for. Start it once without --rebuild, and then with it{_at(program, operator)}"
            )
            continue
        was, now = (" and ".join(map(duration_text, dict.fromkeys(one.waits_ms))) for one in (earlier, operator))
        dropping = f"app.drop_store({', '.join(map(repr, earlier.stores))})"
        store, other = earlier.windowing.store, f"or give the step another name, and drop its stores by {dropping}"
        given, reached = times.get(of_given(store), NO_TIME), times.get(of_store(store), NO_TIME)
        if (early := _closed_early(before, earlier, times)) is not None:
            why = (
                f"depend on windows of the store {early!r} that a drain, idle topics or a shorter grace closed before all their records had "
                f"arrived, and it is not known which windows those are: {other.removeprefix('or ')}"
            )
        elif _grown_wait_ms(earlier, operator) is None:
            way = "first change the grace alone, in a start that fills no store again, and then do this"
            sides = ", of the left and the right side," if len(operator.waits_ms) > 1 else ""
            why = (
                f"waited for {was}{sides} and now wait for {now}: "
                f"{way if operator.traits.closes_windows else f'leave that as it was; {other}'}"
            )
        elif (
            operator.waits_ms
            and _may_be_the_same(earlier, operator)
            and (_closed(earlier, times) > reached or _grown_wait_ms(earlier, operator))
        ):
            why = f"{_WINDOWS_MOVED}: {other.removeprefix('or ')}"
        elif _holds_max(before, earlier) != _holds_max(program, operator):
            why = (
                f"waited until {_full_text(before, earlier)}, and now wait until {_full_text(program, operator)}, and it is not known which of them were "
                f"given early for that reason: leave max_rows and when_full as they were; {other}"
            )
        elif operator.waits_for_more and _moved_by(before, earlier) != _moved_by(program, operator):
            why = f"{_STEPS_CHANGED}: leave those as they were; {other}"
        elif operator.waits_for_more and given == ALWAYS_AHEAD:
            why = f"{_STEPS_CHANGED_BEFORE}: leave the streams and steps as they are; {other}"
        elif not earlier.stored_waits_ms.keys().isdisjoint({*before.unlogged, *program.unlogged}) and _may_be_early(
            before, earlier, times
        ):
            why = (
                "may have been given early, and the rows that are held back have no log from which StreamKit could see that: "
                f"{other.removeprefix('or ')}"
            )
        elif operator.waits_ms and not operator.waits_for_windows and not operator.traits.holds_back and given > reached:
            why = (
                "were given ahead of stream time (by a drain, by idle topics or because records were read again before), and it is not known which "
                f"of them were: do this once stream time, which is {reached} ms, has reached {given} ms; {other}"
            )
        else:
            continue
        yield OrphanedStateError(
            f"reading the records of the store {operator.stores[0]!r} of {program.application!r} again would give some results twice, or not at all. "
            f"These results {why}{_at(program, operator)}"
        )


def may_come_further(before: Program, program: Program, stores: frozenset[str]) -> bool:
    """
    Whether results of these stores of both programs may come twice or never once they are filled again, as far as only the replay can tell.

    With the streams of before, or fewer, stream time comes no further than it had come.
    """
    return any(
        operator.waits_ms and not set(_moved_by(program, operator)[0]) <= set(_moved_by(before, earlier)[0])
        for earlier, operator in _of_both(before, program, stores)
        if operator.windowing is not None and earlier.windowing is not None
    )


def _closed_early(program: Program, operator: Operator, times: StreamTimes) -> str | None:
    """
    The store of windows that closed ahead of stream time on which other windows depend, if records came after that.

    A session that has closed takes no later record, nor does a sliding window see the rows of one; and what had come into a window when it
    closed has gone on to the windows behind it. Read again, they would not close at that moment.
    """
    if not operator.traits.closes_windows or operator.windowing is None:
        return None
    above = [one for one in _above(program, operator) if one.traits.closes_windows]
    depends_on = above if operator.windowing.assigner == ASSIGNED else [operator, *above]
    stores = (one.windowing.store for one in depends_on if one.windowing is not None)
    return next((store for store in stores if times.get(of_given(store)) == ALWAYS_AHEAD), None)


def waiting_otherwise(before: Program, program: Program, stores: Collection[str], times: StreamTimes) -> StreamTimes:
    """
    The times to note, by name, of stores that go on, where what waits in them waits by other streams, or behind other waits, from now on.

    Since when a row waits follows from all rows of its key before. So from now on what is read again may wait otherwise, for good. Where another
    number of rows may wait, some have come early, or come later than in a replay: as behind a drain, the rows that wait have to be compared.
    """
    found: dict[str, int] = {}
    for earlier, operator in _of_both(before, program, frozenset(stores)):
        if operator.windowing is None or (reached := times.get(of_store(operator.windowing.store))) is None:
            continue
        name = of_given(operator.windowing.store)
        if operator.waits_for_more and _moved_by(before, earlier) != _moved_by(program, operator):
            found[name] = ALWAYS_AHEAD
        elif earlier.holds_max != operator.holds_max:
            found[name] = max(reached + (0 if operator.waits_for_more else operator.longest_wait_ms), times.get(name, NO_TIME))
    return found


def _moved_by(program: Program, operator: Operator) -> tuple[list[tuple[str, int, str]], list[tuple[int, ...]]]:
    """What decides when results reach an operator that waits: the streams that move its time, and what waits in front of it."""
    assert operator.windowing is not None, "it has a stream time"
    inputs = [program.inputs[number] for number in operator.windowing.streams]
    streams = sorted((one.topic, one.jump_ms or -1, repr(one.event_time)) for one in inputs)
    return streams, sorted(one.waits_ms for one in _above(program, operator) if one.waits_ms)


def _above(program: Program, operator: Operator) -> list[Operator]:
    """The operators from which the rows of an operator come."""
    above, pending = dict[str, Operator](), list(operator.sources)
    while pending:
        one = program.operator(pending.pop())
        if one.id not in above:
            above[one.id] = one
            pending += one.sources
    return list(above.values())


def _of_both(before: Program, program: Program, stores: frozenset[str]) -> Iterator[tuple[Operator, Operator]]:
    """The operators that keep some of these stores, as they were before and as they are now."""
    earlier = {name: one for one in before.operators for name in one.stores}
    for operator in program.operators:
        if (name := next((one for one in operator.stores if one in stores and one in earlier), None)) is not None:
            yield earlier[name], operator


def _grown_wait_ms(before: Operator, now: Operator) -> int | None:
    """How much longer the results of an operator wait than in the program before; None if what was given cannot be told by that."""
    if before.kind != now.kind or len(before.waits_ms) != len(now.waits_ms):
        return 0  # the results are others
    grown = {new - old for old, new in zip(before.waits_ms, now.waits_ms, strict=True)} or {0}
    if len(grown) > 1 or min(grown) < 0 or (now.waits_for_more and grown != {0}):
        return None
    return grown.pop()


def _are_apart(before: Operator, now: Operator) -> bool:
    """Whether no window is one of those before: they come into being otherwise, or all have one length that is another."""
    if not (before.traits.closes_windows and now.traits.closes_windows) or before.windowing is None or now.windowing is None:
        return False
    one, other = before.windowing, now.windowing
    if one.assigner != other.assigner:
        return True
    has_lengths = type(one) is type(other) and type(one) in (Windowing, SlidingWindowing)
    return has_lengths and one.size_ms != other.size_ms


def _may_be_the_same(before: Operator, now: Operator) -> bool:
    """Whether windows are cut otherwise than before, and some may still be the same; sessions are told apart by when they ended."""
    if not (before.traits.closes_windows and now.traits.closes_windows) or before.windowing is None or now.windowing is None:
        return False
    one, other = before.windowing, now.windowing
    is_session = one.assigner == other.assigner == SESSION
    return not is_session and not _are_apart(before, now) and one.declared != other.declared


def _grown_gap_ms(before: Operator, now: Operator) -> int:
    """How much further sessions may be apart than before: so much longer they are open, each from its last record on."""
    assert before.windowing is not None, "they have windows"
    assert now.windowing is not None, "they have windows"
    is_session = before.windowing.assigner == now.windowing.assigner == SESSION
    return now.windowing.size_ms - before.windowing.size_ms if is_session else 0


def _may_be_early(program: Program, operator: Operator, times: StreamTimes) -> bool:
    """Whether results of an operator, or of those in front of it, may have come before they were due, and records since."""
    if operator.holds_max is not None:
        return True
    several = [one for one in (operator, *_above(program, operator)) if one.windowing is not None and one.waits_ms]
    stores = [one.windowing.store for one in several if one.windowing is not None]
    return any(of_given(name) in times or _closed_at(name, times) > times.get(of_store(name), NO_TIME) for name in stores)


def _closed(operator: Operator, times: StreamTimes) -> int:
    assert operator.windowing is not None, "it has windows"
    return _closed_at(operator.windowing.store, times)


def _closed_at(store: str, times: StreamTimes) -> int:
    return times.get(of_closed(store), NO_TIME)


def _holds_max(program: Program, operator: Operator) -> tuple[int, int] | None:
    """How many rows wait in a key group before the oldest come early, and how many key groups there are; None if none comes early by that."""
    return None if operator.holds_max is None else (operator.holds_max, program.key_groups)


def _full_text(program: Program, operator: Operator) -> str:
    held = _holds_max(program, operator)
    return "they were due" if held is None else f"each of {held[1]} key groups held {held[0]:,} rows"


def _at(program: Program, operator: Operator) -> str:
    return f"\n  at {program.lines[operator.id]}" if operator.id in program.lines else ""
