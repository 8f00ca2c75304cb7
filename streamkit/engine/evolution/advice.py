"""
What a refusal may recommend: only ways that a start would accept.

Each way is tried on what is known of the application: a rebuild of the store with all that goes with it, and the step under another name
with all that follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamkit.engine.epoch.stream_time import committed_times
from streamkit.engine.evolution.definition import FOR, original_of
from streamkit.engine.evolution.replaying import names_together, rebuild_words, rebuilt_stores, replayed_program
from streamkit.engine.evolution.waits import hindrances, may_come_further
from streamkit.errors import ConfigError
from streamkit.names import NAME_LENGTH_MAX
from streamkit.plan.earlier_program import has_steps
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.plan.windows import SESSION

if TYPE_CHECKING:
    from streamkit.engine.evolution.continuation import Continuation

DRAINED = "after a drain of the application as it was, if other sessions would be open or other rows would wait"
OTHER = ".."  # ends the name that a step is tried with


@dataclass(frozen=True)
class Renaming:
    """A step that may get another name: with it those must that follow from it, and `stores` are the ones of before that are to be dropped."""

    steps: tuple[Operator, ...]
    stores: tuple[str, ...]

    @property
    def words(self) -> str:
        """How advice begins that recommends it."""
        others = [one.stores[0] for one in self.steps[1:]]
        return "under another name" + (f", with others for {', '.join(others)} too," if others else "")

    @property
    def dropping(self) -> str:
        """What deletes the stores of before."""
        return f"app.drop_store({', '.join(map(repr, self.stores))})"


def rebuild_options(found: Continuation, named: Collection[str]) -> str | None:
    """The options that fill stores again, with all that goes with them; None if a start would refuse them, or may do so once it has read the records."""
    program, before, known = found.program, found.before, found.known
    if before is None or not has_steps(before) or known is None or not known.positions:  # what has read nothing fills nothing
        return None
    if known.follows is not None:  # a second version takes no --rebuild
        return None
    try:
        names = names_together(program, named)
    except ConfigError:
        return None
    stores = rebuilt_stores(program, names)
    after = replace(found, rebuilt=found.rebuilt | stores)
    if after.refilled_without_log or any(hindrances(before, program, after.rebuilt, committed_times(known, ()))):
        return None
    if after.given_results(known).early:  # only the replay tells whether other rows wait
        return None
    if may_come_further(before, program, after.rebuilt) or not _is_no_worse(after, found):
        return None
    keepers = [one for one in program.operators if not stores.isdisjoint(one.stores)]
    waits_by_order = any(one.waits_for_more for one in keepers)
    has_sessions = any(one.windowing is not None and one.windowing.assigner == SESSION for one in keepers)
    # What waits may depend on which partition was read first: only the replay tells whether it does.
    options = rebuild_words(names) + (f" ({DRAINED})" if waits_by_order or has_sessions else "")
    if not found.lacks_records(replayed_program(program, stores)):
        return options
    return None if waits_by_order else f"{options} --accept-loss (records were deleted)"


def renaming(found: Continuation, store: str) -> Renaming | None:
    """The step of a store and all steps that have to be renamed with it; None if a start would refuse the renamed topology, too."""
    if max(map(len, found.program.keeper(store).stores)) + len(OTHER) > NAME_LENGTH_MAX:
        return None
    steps, program = [found.program.keeper(store)], found.program
    while True:
        names = [name for one in steps for name in one.stores]
        copies = [name for name in sorted(found.kept) if found.before is not None and original_of(found.before, name) in names]
        dropped = tuple(name for name in [*names, *copies] if name in found.kept)
        after = replace(found, program=replace(_renamed(program, names), dropped_stores=(*program.dropped_stores, *dropped)))
        more = [name for name in after.differing if name not in found.differing and original_of(program, name) is None]
        if not more:
            return Renaming(tuple(steps), dropped) if _is_no_worse(after, found) else None
        steps += [one for one in program.operators if not set(more).isdisjoint(one.stores)]


def _is_no_worse(after: Continuation, found: Continuation) -> bool:
    """Whether a way leaves no reason for a refusal that is not there now."""
    kinds: Sequence[Callable[[Continuation], Any]] = (
        lambda one: one.orphaned, lambda one: one.differing, lambda one: one.unfilled
    )  # fmt: skip
    return all(set(kind(after)) <= set(kind(found)) for kind in kinds)


def _renamed(program: Program, stores: Collection[str]) -> Program:
    """The program in which stores, and copies of them, have other names; its steps and topics keep theirs."""

    def of(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: one if key in _OTHER_NAMES else of(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [of(one) for one in value]
        if not isinstance(value, str):
            return value
        name, copy, join = value.partition(FOR)
        return f"{value}{OTHER}" if value in stores else f"{name}{OTHER}{copy}{join}" if copy and name in stores else value

    plain = program.to_json()
    return Program.from_json(
        {**plain, **{part: of(plain[part]) for part in ("operators", "stores", "unlogged") if part in plain}}
    )


_OTHER_NAMES = ("id", "inputs", "topic")  # fields of an operator that have no names of stores
