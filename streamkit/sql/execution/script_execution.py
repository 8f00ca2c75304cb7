"""
Executes a script: all of it is checked on a copy of the definitions before anything is written.

Changes that follow each other are one transaction, with their topics and rows. What is read between them sees what
was before it. If another script was committed since the copy was made, the script is checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from streamkit.errors import SqlError, SqlFault, StreamKitError, TopologyError
from streamkit.failpoints import reach
from streamkit.log.catalog.inline_slabs import InlineFullError
from streamkit.log.catalog.sql_changes import SqlMovedError
from streamkit.log.log import Log
from streamkit.sql.execution.appending import appended
from streamkit.sql.execution.connecting import create_connector, drop_connector
from streamkit.sql.execution.declaring import alter_source, create_source, create_type, drop_type
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.deleting import delete_rows
from streamkit.sql.execution.ending import control_query, drop_source
from streamkit.sql.execution.inserting import insert_values
from streamkit.sql.execution.joined_inserts import insert_together, neighbours
from streamkit.sql.execution.queries import create_as, insert_query
from streamkit.sql.execution.registered_functions import UserFunctions, called_functions, with_functions
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.execution.script_files import PlacedStatement
from streamkit.sql.execution.script_state import Awaiting, Changed, ScriptState
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.script.settings import DIALECT, OF_KSQL_DIALECT, means_nothing
from streamkit.sql.tree.statements import (
    AlterSource,
    ControlQuery,
    CreateAs,
    CreateConnector,
    CreateSource,
    CreateType,
    Define,
    DeleteRows,
    DropConnector,
    DropSource,
    DropType,
    InsertQuery,
    InsertValues,
    Set,
    Statement,
)

ATTEMPTS = 10  # to write what was checked, while other scripts are committed
CHANGES: dict[type[Statement], Callable[[ScriptState, Any], Changed]] = {
    CreateSource: create_source,
    CreateAs: create_as,
    InsertQuery: insert_query,
    InsertValues: lambda state, statement: insert_values(state, statement)[0],
    DeleteRows: delete_rows,
    AlterSource: alter_source,
    CreateType: create_type,
    DropType: drop_type,
    DropSource: drop_source,
    ControlQuery: control_query,
    CreateConnector: create_connector,
    DropConnector: drop_connector,
}


@dataclass
class ScriptExecution:
    """
    The statements of a script, and what a session reads with.

    `reads` gives, for a statement that changes nothing, what runs it once it was checked. `settings` are those behind the script.
    `may_connect` says whether it may make and drop connectors.
    """

    log: Log
    statements: Sequence[PlacedStatement]
    settings: SessionSettings
    reads: Callable[[ScriptState, Statement], Awaiting]
    functions: UserFunctions = field(default_factory=dict)
    may_connect: bool = True

    def results(self) -> Iterator[StatementResult]:
        """What each statement gives, in their order; SqlError with all faults, before anything is written."""
        left = list(self.statements)
        self._checked(left)
        while left:
            try:
                done, awaiting = self._written(left)
                left = left[len(done) :]
                yield from done
                if awaiting is not None:
                    yield awaiting.run()
                    left = left[1:]
            except StreamKitError as error:
                raise self._told_done(error, len(self.statements) - len(left)) from error.__cause__

    def _told_done(self, error: StreamKitError, done: int) -> StreamKitError:
        """The error, which says of a longer script how many of its statements are done and stay done."""
        if done:
            error.args = (f"{error}\nthe first {done:,} of the {len(self.statements):,} statements are done, and stay so",)
        return error

    def _checked(self, statements: Sequence[PlacedStatement]) -> None:
        """SqlError unless all statements can be executed one after the other on the present definitions."""
        for _ in range(ATTEMPTS):
            state = self._state(is_rehearsed=True)
            faults = self._faults(state, statements)
            if not faults:
                return
            if not self._has_moved(state):
                break
        raise SqlError(faults)

    def _has_moved(self, state: ScriptState) -> bool:
        """Whether another script, or the runner of queries, has changed something since the copy was made."""
        return self.log.catalog.sql.last_number() != state.definitions.base.change

    def _faults(self, state: ScriptState, statements: Sequence[PlacedStatement]) -> list[SqlFault]:
        """What is wrong with the statements, one after the other."""
        faults = list[SqlFault]()
        left_alone = (together for together in neighbours(statements) if self._inserted(state, together) is None)
        for placed in chain.from_iterable(left_alone):  # in their order: the next ones are looked for when these are done
            text, statement = placed.text, placed.statement
            try:
                self._step(state, placed)
            except SqlError as error:
                faults += [one for one in error.faults if one not in faults]
            except TopologyError as error:
                faults.append(SqlFault(error.message, error.at or text.at(statement.span)))
            except StreamKitError as error:
                faults.append(SqlFault(str(error).partition("\n  at ")[0], text.at(statement.span)))
        return faults

    def _state(self, *, is_rehearsed: bool = False) -> ScriptState:
        definitions = self._definitions()
        return ScriptState(
            self.log, ScriptText(""), definitions, self.settings, may_connect=self.may_connect, is_rehearsed=is_rehearsed
        )

    def _definitions(self) -> Definitions:
        return Definitions.of(self.log, self.log.catalog.sql.objects(), self.functions)

    def _step(self, state: ScriptState, placed: PlacedStatement) -> Changed | Awaiting:
        """Execute a statement on the copy; returns its change, or the read that it asks for."""
        state.text = placed.text
        state.called = called_functions(placed.statement, self.functions)
        statement = with_functions(placed.statement, self.functions, placed.text)
        if isinstance(statement, Set):
            state.settings = state.settings.with_set(statement, placed.text)
            told = " StreamKit does nothing with this setting of ksqlDB or Kafka." if means_nothing(statement.name) else ""
            if statement.name.lower() in OF_KSQL_DIALECT and statement.value is not None and not state.keeps_case:
                told = f" It counts in the ksql dialect alone, which SET '{DIALECT}' = 'ksql' chooses."
            return Changed(
                f"{statement.name} is {'as it was at first' if statement.value is None else repr(statement.value)}.{told}"
            )
        if isinstance(statement, Define):
            state.settings = state.settings.with_define(statement)
            return Changed(f"{statement.name} is {'no variable' if statement.value is None else repr(statement.value)}.")
        change = CHANGES.get(type(statement))
        return self.reads(state, statement) if change is None else change(state, statement)

    def _written(self, statements: Sequence[PlacedStatement]) -> tuple[list[StatementResult], Awaiting | None]:
        """Write the statements up to the first that reads; returns their results, and the statement that reads, if there is one."""
        for left in reversed(range(ATTEMPTS)):
            state = self._state()
            try:
                found, awaiting = self._done(state, statements)
            except StreamKitError:
                if not left or not self._has_moved(state):
                    raise
                continue
            try:
                self._commit(state)
            except SqlMovedError:
                if not left:
                    raise
                continue
            self.settings = state.settings
            return found, awaiting
        raise AssertionError("the last attempt returns or raises")

    def _done(self, state: ScriptState, statements: Sequence[PlacedStatement]) -> tuple[list[StatementResult], Awaiting | None]:
        """What statements do to the copy, up to the first that reads."""
        found = list[StatementResult]()
        for together in neighbours(statements):
            steps = self._inserted(state, together) or (self._step(state, placed) for placed in together)
            for placed, step in zip(together, steps):
                if isinstance(step, Awaiting):
                    return found, step
                found.append(StatementResult(state.written(placed.statement), step.message, query_id=step.query_id))
        return found, None

    def _inserted(self, state: ScriptState, together: Sequence[PlacedStatement]) -> list[Changed] | None:
        """What neighbours insert; None for one statement alone, and where a row is wrong, which its own statement tells."""
        return insert_together(state, together, self.functions) if len(together) > 1 else None

    def _commit(self, state: ScriptState) -> None:
        """Write what the statements have changed, and their rows."""
        change = state.definitions.change()
        if change is None and not state.rows:
            return
        with appended(self.log, state) as rows:
            if change is None:
                rows.send()
                return
            if state.rows:
                rows.open()
            change = replace(change, appended=rows.commit if state.rows else None)
            try:
                paths = self.log.catalog.sql.commit(change)
            except InlineFullError:
                rows.in_files = True
                paths = self.log.catalog.sql.commit(change)
        reach("sql.committed")
        storage = self.log.storage_now()
        for path in paths:
            storage.delete(path)
