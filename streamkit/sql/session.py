"""SQL over a log: statements, queries that are run once, and queries that go on."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, final

import pyarrow as pa

from streamkit.dsl.topology import Topology
from streamkit.errors import ConfigError, SqlError, SqlFault, StreamKitError, TopologyError
from streamkit.functions.python import UserDefinedFunction
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.log import Log
from streamkit.plan.location import IN_PYTHON, user_location
from streamkit.sql.execution.appending import appended
from streamkit.sql.execution.asserting import NOT_HERE, asserted, asserted_source, check_assertion
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.explaining import explanation
from streamkit.sql.execution.inserting import insert_rows
from streamkit.sql.execution.printing import printed, printed_topic
from streamkit.sql.execution.pushing import check_pushed, pushed_rows
from streamkit.sql.execution.queries import topology_of_query
from streamkit.sql.execution.registered_functions import PythonAggregate, registered_function, with_functions
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.execution.script_execution import ATTEMPTS, ScriptExecution
from streamkit.sql.execution.script_files import ScriptFiles
from streamkit.sql.execution.script_state import Awaiting, ScriptState
from streamkit.sql.execution.selecting import planned_query
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.execution.showing import described, queries_table, shown, table_of
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.pull.matching import Matching
from streamkit.sql.pull.reading import PullReader
from streamkit.sql.push.subscription import PushQuery
from streamkit.sql.reader.script import check_text, read_script
from streamkit.sql.running.catching_up import wait_for_queries, waiting_for_nobody
from streamkit.sql.running.runner import QueryRunner
from streamkit.sql.tree.span import Name
from streamkit.sql.tree.statements import (
    AssertSchema,
    AssertSource,
    AssertTopic,
    Describe,
    Explain,
    Print,
    SelectStatement,
    Show,
    Statement,
)
from streamkit.state.moment import milliseconds

Found = TypeVar("Found")


@contextmanager
def faults_told() -> Iterator[None]:
    """SqlError for any TopologyError at a place of a statement, as `execute` tells it, so that what is wrong has one class whoever asks."""
    try:
        yield
    except SqlError:
        raise
    except TopologyError as error:
        if error.at is None:
            raise
        raise SqlError([SqlFault(error.message, error.at)]) from error.__cause__


@final
class SqlSession:
    """
    SQL over a log; use it in a `with` block, or close it.

    With an `engine` it also runs the persistent queries of the log, in this process or on Spark, from now on until it is closed; without
    one it stores queries, for a runner such as `streamkit sql serve`. `settings` are those of SET, by their names. With `runs_scripts=False`
    RUN SCRIPT, CREATE CONNECTOR and DROP CONNECTOR are refused: a script may be any file that the process may read, and so may be what a
    connector reads. A session may be used by any number of threads.

        with sk.SqlSession(log) as sql:
            sql.execute("CREATE TABLE totals AS SELECT user, count(*) AS clicks FROM clicks GROUP BY user")
            sql.query("SELECT * FROM totals WHERE user = 'ann'")
    """

    def __init__(
        self,
        log: Log,
        engine: Literal["local", "spark"] | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        runs_scripts: bool = True,
    ) -> None:
        if not isinstance(log, Log):
            path = f"sk.open_log({str(log)!r}), which opens that one" if isinstance(log, (str, Path)) else 'sk.open_log("shop")'
            raise ConfigError(f"the log of a SqlSession is {log!r}; expected a log, as from {path}")
        if settings is not None and not (isinstance(settings, Mapping) and all(isinstance(name, str) for name in settings)):
            raise ConfigError(
                f"the settings of a SqlSession are {settings!r}; expected a dict by their names, as {{'streamkit.sql.dialect': 'ksql'}}"
            )
        self.log = log
        self.engine = engine
        self.settings = SessionSettings.of(settings or {})
        self.runs_scripts = runs_scripts
        self._functions: dict[str, UserDefinedFunction | PythonAggregate] = {}
        self._reader = PullReader(log)
        self._matching = Matching()
        self._lock = threading.RLock()
        self._subscriptions: set[PushQuery] = set()
        self._is_closed = False
        self._runner = None if engine is None else QueryRunner(log, engine, functions=self._functions)

    def __repr__(self) -> str:
        return f"SqlSession({self.log!r}, engine={self.engine!r})"

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the subscriptions and the runs of queries, and give back files and memory; a second call does nothing."""
        self._is_closed = True
        for subscription in list(self._subscriptions):
            subscription.close()
        if self._runner is not None:
            self._runner.close()
        with self._lock:
            self._reader.close()
            self._matching.close()

    def execute(self, text: str) -> list[StatementResult]:
        """
        Execute the statements of a text, one after the other; returns the result of each.

        All are checked before anything is written: SqlError has the first fault of each, with its place; of a text that cannot be read the
        faults of reading alone. Statements that change something and stand together are one transaction, with the topics that they create
        and the rows that they insert.
        """
        with self._lock:
            self._check_open()
            execution = self._execution(ScriptText(text, called_at=user_location()))
            results = list(execution.results())
            self.settings = execution.settings
            return self._with_notes(results)

    def results(self, text: str, file: str = IN_PYTHON) -> Iterator[StatementResult]:
        """
        What each statement of a text gives, as soon as it is done; `execute` gives all at the end.

        All statements are checked before the first is done. `file` is the name of the text's file, for messages and for RUN SCRIPT.
        """
        with self._lock:
            self._check_open()
            execution = self._execution(ScriptText(text, file))
        results = execution.results()
        while True:
            with self._lock:
                self._check_open()
                result = next(results, None)
                self.settings = execution.settings
            if result is None:
                return
            yield from self._with_notes([result])

    def insert(self, name: str, rows: pa.Table) -> int:
        """
        Insert rows into a stream or table, all or none; returns how many. They are durable when it returns.

        The table's columns are some of its columns, in any case, of types that widen to theirs, and `_timestamp` if the rows have times, or
        ROWTIME; missing ones are null. ConfigError says what does not fit.
        """
        with self._lock:
            state = self._state(ScriptText(""))
            try:
                insert_rows(state, name, rows)
            except TopologyError as error:
                raise ConfigError(error.message) from None
            with appended(self.log, state) as inserted:
                inserted.send()
        return int(rows.num_rows)

    def query(self, text: str, as_of: str | int | dt.datetime | None = None) -> pa.Table:
        """
        The rows of a SELECT that is run once; all that it reads is of one moment.

        With `as_of`, a time, stores are read as of the epoch that was the newest then, and topics up to that event time; AS OF in the text
        says the same. SqlError at the place of what is wrong; EvaluationError for a row that makes an expression fail.
        """
        with faults_told():
            statement, state = self._one(text, SelectStatement, "a SELECT that is run once")
        moment = None if as_of is None else milliseconds(as_of)
        rows = self._settled(state, lambda now: planned_query(now, statement.query, self._reader, self._matching, moment).table)
        with self._lock:
            return rows()

    def subscribe(self, text: str) -> PushQuery:
        """
        The rows of a SELECT with EMIT as they come, as Arrow batches, until it is closed.

        Streams are read from their ends on, or as the setting `auto.offset.reset` says, tables with the rows that they have. SqlError at the
        place of what is wrong.
        """
        with faults_told():
            statement, state = self._one(text, SelectStatement, "a SELECT with EMIT CHANGES or EMIT FINAL")
            if not statement.query.emit:
                raise state.error(
                    "this query is run once, by query(); expected EMIT CHANGES behind one that goes on", statement.span
                )
            return self._subscription(state, statement)

    def register(
        self,
        name: str,
        function: Callable[..., Any] | UserDefinedFunction,
        type: str | None = None,
        *,
        is_aggregate: bool = False,
    ) -> None:
        """
        Let statements of this session call a function in Python by a name.

        It is a function of values, whose results have the type, or what `F.udf`, `F.pandas_udf` or `F.arrow_udf` gave. One that gives an array
        gives rows by EXPLODE. With `is_aggregate` it is a function of the list of a group's values, in the order of the records and without nulls,
        which is an aggregate in statements; the group keeps all of these values. The rules are those of `F.udf`. Other processes do not know it: a
        persistent query with it is run by this session, or by `sk.run(sql.topology(id))`. ConfigError for a name that StreamKit has itself.

            sql.register("shout", lambda text: text.upper() + "!", "string")
            sql.register("median", statistics.median, "double", is_aggregate=True)
        """
        found = registered_function(name, function, type, self.settings.script.meaning.name, is_aggregate=is_aggregate)
        with self._lock:
            self._check_open()
            self._functions[name.lower()] = found

    def explain(self, text: str) -> str:
        """How a statement would be done, and nothing of it done: how rows are found, or the topology; of a query's id that of the query."""
        check_text(text)
        called_at = user_location()
        script = ScriptText(text, called_at=called_at)
        if self._definitions().query(text.strip()) is not None:
            statement = Explain(Name(text.strip()))
        else:
            statements = read_script(text, self.settings.script.meaning.name, self.settings.variables, called_at=called_at)
            if len(statements) != 1:
                raise ConfigError(f"found {len(statements)} statements; expected the one to explain")
            with faults_told():
                statement = Explain(with_functions(statements[0], self._functions, script), span=statements[0].span)
        lines = self._settled(self._state(script), lambda now: explanation(now, statement, self._reader, self._matching))
        return "\n".join(lines())

    def sources(self) -> pa.Table:
        """The streams and tables that were declared, a row each."""
        found = self._definitions().sources.values()
        rows = [
            (one.name, one.kind, one.topic, ", ".join(one.key), ", ".join(f"{each['name']} {each['type']}" for each in one.columns), one.query or "")
            for one in found
        ]  # fmt: skip
        return table_of(("name", "kind", "topic", "key", "columns", "filled by"), rows)

    def source_names(self) -> list[str]:
        """The names that a query may read: streams and tables that were declared, and then topics."""
        return list(self._definitions().names())

    def columns_of(self, name: str) -> list[str]:
        """The columns of a stream, table or topic, as it declares them; none if there is none of that name."""
        found = self._definitions().source(name)
        return [] if found is None else [str(one["name"]) for one in found.columns]

    def queries(self) -> pa.Table:
        """The persistent queries, a row each: their states, what they read and fill, and what ended the last run of one that has failed."""
        return queries_table(self._state(ScriptText("")))

    def catch_up(self, timeout: float | None = None) -> bool:
        """
        Wait until the persistent queries have read all that was in their topics; returns whether they have, within so many seconds.

        It waits for queries that are to run, whoever runs them: one that is paused, or has failed, is not waited for, and a warning names those
        that have failed. What is built beside a query, WITH (BACKFILL = true), has its place when it returns. A window that is still open then
        has given no final result. In a session without an engine a warning says so if nobody runs the queries.
        """
        self._check_open()
        return wait_for_queries(self.log, timeout, runs_none=self._runner is None)

    def topology(self, query_id: str) -> Topology:
        """The topology of a persistent query, as any other; ConfigError, which lists them, if there is none of that id."""
        definitions = self._definitions()
        query = definitions.query(query_id)
        if query is None:
            raise ConfigError(f"there is no query {query_id!r}; there are {', '.join(definitions.queries) or 'none'}")
        return topology_of_query(definitions, query)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigError(f"{self!r} is closed; make another one")

    def _definitions(self) -> Definitions:
        self._check_open()
        return Definitions.of(self.log, self.log.catalog.sql.objects(), self._functions)

    def _with_notes(self, results: list[StatementResult]) -> list[StatementResult]:
        """The results. One that made a query gets a note if no query of the log runs; a server without queries cannot be seen."""
        if self._runner is not None or not any(one.query_id for one in results):
            return results
        waiting = waiting_for_nobody(self.log)
        told = "waits for a server; start `streamkit sql serve` unless one runs already"
        if self.log.location == IN_MEMORY:
            told = 'waits for a session that runs it; open one as sk.SqlSession(log, engine="local"), as no server has a log in memory'
        return [replace(one, note=f"{one.query_id} {told}") if one.query_id in waiting else one for one in results]

    def _state(self, text: ScriptText) -> ScriptState:
        return ScriptState(self.log, text, self._definitions(), self.settings)

    def _execution(self, text: ScriptText) -> ScriptExecution:
        settings = self.settings
        placed = ScriptFiles.of(settings, may_read=self.runs_scripts).placed(text)
        return ScriptExecution(self.log, placed, settings, self._reading, self._functions, self.runs_scripts)

    def _one(self, text: str, kind: type[SelectStatement], what: str) -> tuple[SelectStatement, ScriptState]:
        """The only statement of a text."""
        called_at = user_location()
        statements = read_script(text, self.settings.script.meaning.name, self.settings.variables, called_at=called_at)
        script = ScriptText(text, called_at=called_at)
        if len(statements) != 1:
            raise ConfigError(f"found {len(statements)} statements; expected {what}; execute() takes any others")
        statement = statements[0]
        if not isinstance(statement, kind):
            begin = " ".join(text.split()[:2])
            raise ConfigError(f"found a statement that begins with {begin}; expected {what}; execute() takes any others")
        return with_functions(statement, self._functions, script), self._state(script)

    def _reading(self, state: ScriptState, statement: Statement) -> Awaiting:
        """What runs a statement that changes nothing, once it is checked."""
        text = state.written(statement)
        match statement:
            case SelectStatement(query) if query.emit:
                check_pushed(state, query)
                pushing = partial(self._subscription, state, statement)
                return Awaiting(lambda: StatementResult(text, subscription=pushing()))
            case SelectStatement(query):
                rows = self._settled(state, lambda now: planned_query(now, query, self._reader, self._matching).table)
                return Awaiting(lambda: StatementResult(text, table=rows()))
            case Show():
                return Awaiting(lambda: StatementResult(text, table=shown(self._fresh(state), statement)))
            case Describe(subject, name):
                table = described(state, statement)
                source = state.source(name.text) if subject == "source" and name is not None else None
                return Awaiting(lambda: StatementResult(text, table=table, source=source))
            case Explain():
                lines = self._settled(state, lambda now: explanation(now, statement, self._reader, self._matching))
                return Awaiting(lambda: StatementResult(text, table=table_of(("plan",), [(line,) for line in lines()])))
            case Print():
                printed_topic(state, statement)  # a name that is wrong is a fault of the text
                return Awaiting(lambda: StatementResult(text, subscription=self._kept(printed(self._fresh(state), statement))))
            case AssertTopic() | AssertSchema():
                if isinstance(statement, AssertTopic):
                    check_assertion(state, statement)
                return Awaiting(lambda: StatementResult(text, asserted(self._fresh(state), statement)))
            case AssertSource():
                check_assertion(state, statement)
                return Awaiting(lambda: StatementResult(text, asserted_source(self._fresh(state), statement)))
        raise state.error(NOT_HERE[type(statement)], statement.span)

    def _settled(self, state: ScriptState, planning: Callable[[ScriptState], Callable[[], Found]]) -> Callable[[], Found]:
        """What reads, as it is planned now: SqlError at the place of what is wrong. It is planned again if what it reads has changed since."""
        with faults_told():
            reading = planning(state)

        def found(reading: Callable[[], Found] = reading, state: ScriptState = state, left: int = ATTEMPTS) -> Found:
            try:
                return reading()
            except StreamKitError:
                if not left or self.log.catalog.sql.last_number() == state.definitions.base.change:
                    raise
            now = self._fresh(state)
            with faults_told():
                again = planning(now)
            return found(again, now, left - 1)

        return found

    def _fresh(self, state: ScriptState) -> ScriptState:
        """The state as the catalog has it now, once what was before is written."""
        return ScriptState(state.log, state.text, self._definitions(), state.settings)

    def _subscription(self, state: ScriptState, statement: SelectStatement) -> PushQuery:
        rows = pushed_rows(self._fresh(state), statement.query)
        return self._kept(PushQuery(rows, statement.query.limit, self._subscriptions.discard))

    def _kept(self, subscription: PushQuery) -> PushQuery:
        self._subscriptions.add(subscription)
        return subscription
