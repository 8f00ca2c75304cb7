"""Whether a program can go on with the state that an earlier program of its application left, and in which order it is kept."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.engine.definition import definition, differences, in_stored_order, original_of
from streamkit.errors import OrphanedStateError
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.catalog import Catalog
from streamkit.plan.earlier_program import read_program
from streamkit.plan.program import Program
from streamkit.state.format import is_earlier


def continued(catalog: Catalog, program: Program) -> tuple[Program, tuple[str, ...]]:
    """
    The program that goes on with the stored state, and the stores that it no longer needs, which are copies of others.

    It has aggregates and columns of each store in the order in which they are stored. OrphanedStateError, which names what differs and
    what to do, if a store holds something else than the program makes of it, or has gone.
    """
    known = {state.name: state for state in catalog.applications()}.get(program.application)
    if known is None or not known.stores:
        return program, ()
    text = catalog.program(known.name)
    before = read_program(text) if text else None
    left = sorted(set(known.stores) - {store.name for store in program.stores})
    dropped = [name for name in left if before is not None and _is_needless(before, program, name)]
    if len(dropped) < len(left):
        _refuse_orphans(program, [name for name in left if name not in dropped])
    if before is None:
        return program, ()
    stored = {store.name for store in before.stores} & set(known.stores)
    compared = [store.name for store in program.stores if store.name in stored]
    _check_definitions(program, before, known, compared)
    return in_stored_order(program, before, compared), tuple(dropped)


def _is_needless(before: Program, program: Program, store: str) -> bool:
    """Whether a store was a copy of one that the program still has."""
    original = original_of(before, store)
    return original is not None and any(one.name == original for one in program.stores)


def _refuse_orphans(program: Program, left: Sequence[str]) -> None:
    raise OrphanedStateError(
        f"the application {program.application!r} has state in {', '.join(left)}, which the topology no longer names; it names "
        f"{', '.join(store.name for store in program.stores) or 'none'}. Name the stores as before (store=...), or start from scratch "
        f"with `streamkit apps reset {program.application}`"
    )


def _check_definitions(program: Program, before: Program, known: ApplicationState, stores: Sequence[str]) -> None:
    """OrphanedStateError if a store would be read as something else than it holds."""
    with_argument_types = is_earlier(known)
    for name in stores:
        held = definition(before, before.store(name), with_argument_types)
        made = definition(program, program.store(name), with_argument_types)
        if found := differences(held, made):
            raise OrphanedStateError(
                f"the store {name!r} of {program.application!r} holds something else than the topology now makes of it: "
                f"{'; '.join(map(str, found))}. Declare it as before, with columns of the types as before; or run the changed "
                "topology under another application name; or start from scratch with "
                f"`streamkit apps reset {program.application}`"
            )
