"""What the catalog says of an application's state at one moment, for all who read stores from outside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from streamkit.errors import StoreNotFoundError
from streamkit.log.catalog import applications, epochs, span
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.database.database import Transaction
from streamkit.names import store_folder
from streamkit.plan.earlier_program import read_program
from streamkit.plan.program import Program, ProgramStore
from streamkit.state.changelog import CommittedChanges, begun_of
from streamkit.state.key_group import key_group_range
from streamkit.state.task_state import Share

PROGRAMS_KEPT = 8


@dataclass(frozen=True)
class StateSnapshot:
    """
    The state of one stage of an application at its newest committed epoch: its program, and what its changelogs hold.

    All of it is of one transaction. The slabs that `changes` names stay for the delay of deleted files at least
    (`file_delete_delay_ms`), also when they are merged or compacted meanwhile; only a reset of the application deletes them at once.
    """

    application: ApplicationState
    program: Program
    stage: int
    changes: CommittedChanges

    @property
    def changelog_ids(self) -> tuple[int, ...]:
        """The topic ids of the stage's changelogs."""
        return _changelog_ids(self.application, self.program, self.stage)

    def groups(self, task: int) -> range:
        """The key groups of a task."""
        return key_group_range(task, self.application.tasks, self.program.key_groups)

    def share(self, groups: range) -> Share:
        """The share of the state in these key groups."""
        program = self.program
        unlogged = unlogged_stores(self.application, program, self.stage)
        return Share(groups, program.key_groups, program.changelog_partitions, self.changelog_ids, self.stage, unlogged)

    def folder(self, root: str, task: int) -> Path:
        """Where the local store of a task is, if there is one."""
        return Path(root) / store_folder(self.application.name, self.stage, task, self.application.tasks)


def unlogged_stores(state: ApplicationState, program: Program, stage: int) -> tuple[tuple[int, int], ...]:
    """The stores of a stage without a log: the id of the topic of their changes, and their number."""
    found = [state.stores[store.name] for store in program.stores if store.stage == stage and store.name in program.unlogged]
    return tuple((store.changelog_topic_id, store.number) for store in found)


def snapshot_of_stage(transaction: Transaction, name: str, stage: int) -> StateSnapshot:
    """The state of a stage; ConfigError if there is no such application."""
    state, program = application_of(transaction, name)
    cut = span.cut(transaction, _changelog_ids(state, program, stage), {})
    tokens = epochs.tokens_since(transaction, state.id, 0)
    begun = begun_of(state.metrics) if program.unlogged else {}
    changes = CommittedChanges(
        state.epoch, state.token, cut.end_offsets, {}, cut.extents, tokens, purged_below=cut.purged_below, begun=begun
    )
    return StateSnapshot(state, program, stage, changes)


def snapshot_of_store(transaction: Transaction, name: str, store: str) -> StateSnapshot:
    """The state of the stage that a store belongs to; StoreNotFoundError lists the stores there are."""
    program = program_of(transaction, name)
    return snapshot_of_stage(transaction, name, find_store(program, store).stage)


def application_of(transaction: Transaction, name: str) -> tuple[ApplicationState, Program]:
    """Where an application stands, and its program as `program_of` has it; ConfigError if there is no such application."""
    state = applications.get(transaction, name)
    return state, _program(applications.program_of_id(transaction, state.id))


def program_of(transaction: Transaction, name: str) -> Program:
    """The program of an application's newest generation, of format 1 as far as stores need it; ConfigError if there is no such application."""
    return _program(applications.program_of(transaction, name))


def find_store(program: Program, name: str) -> ProgramStore:
    """A store of a program by name; StoreNotFoundError lists the stores there are."""
    store = next((store for store in program.stores if store.name == name), None)
    if store is None:
        names = ", ".join(store.name for store in program.stores) or "none"
        raise StoreNotFoundError(f"the application {program.application!r} has no store {name!r}; it has {names}")
    return store


def _changelog_ids(state: ApplicationState, program: Program, stage: int) -> tuple[int, ...]:
    names = [store.name for store in program.stores if store.stage == stage]
    if missing := [name for name in names if name not in state.stores]:
        raise StoreNotFoundError(
            f"the store {missing[0]!r} of the application {state.name!r} was reset; start the application first"
        )
    return tuple(state.stores[name].changelog_topic_id for name in names)


@lru_cache(maxsize=PROGRAMS_KEPT)
def _program(text: str) -> Program:
    return read_program(text)
