"""
Tests in SQL: a file of statements, rows and assertions, run in this process on a log in memory.

A comment `--@test: NAME` begins a test, which knows nothing of the tests before it. Each test begins with the statements before the first such
comment. `--@expected.message: TEXT` says that a statement of the test has to fail with this text in its message, and ends the test by that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.clock import HandClock
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.errors import SqlError, StreamKitError, TopologyError
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.opening import open_log
from streamkit.log.topic.alteration import Alteration
from streamkit.names import DELETED, HEADERS, TIMESTAMP, WINDOW_END, WINDOW_START
from streamkit.plan.program import Program
from streamkit.sql.execution.asserting import asserted, asserted_source
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.inserted_values import InsertedValues
from streamkit.sql.execution.inserting import InsertedRows
from streamkit.sql.execution.queries import APPLICATION, topology_of_queries
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.execution.script_execution import ScriptExecution
from streamkit.sql.execution.script_files import PlacedStatement, ScriptFiles
from streamkit.sql.execution.script_state import Awaiting, ScriptState
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.running.swapping import swap_when_ready
from streamkit.sql.running.wanted_application import WantedApplication, wanted_applications
from streamkit.sql.tree.span import Name, TextSpan
from streamkit.sql.tree.statements import (
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    CreateAs,
    InsertQuery,
    InsertValues,
    Statement,
)
from streamkit.testing.driver import PATIENT, START
from streamkit.testing.sql_test_marks import MESSAGE, TEST, read_marks
from streamkit.testing.stepped_run import SteppedRun

LOOPED_RECORDS = 1_000  # that the queries of loops may take for a statement, …
LOOPED_PER_RECORD = 10  # and for each record that there is before they do
_BOUNDS = {"windowstart": WINDOW_START, WINDOW_START: WINDOW_START, "windowend": WINDOW_END, WINDOW_END: WINDOW_END}


@dataclass(frozen=True)
class SqlTest:
    """
    A test of a file: its name, its text with everything else blank, and the texts of the message with which it has to fail, if it has to.

    The first so many characters of the text are the `beginning` of each test of the file, in which no failure is expected.
    """

    name: str
    text: str
    file: str
    messages: tuple[str, ...] = ()
    beginning: int = 0

    def run(self, settings: Mapping[str, str]) -> None:
        """Run it; StreamKitError, at the place of the statement, if an assertion does not hold."""
        given = SessionSettings.of(settings)
        files, begin = ScriptFiles.of(given), self.text[: self.beginning]
        of_test = re.sub(r"[^\n]", " ", begin) + self.text[self.beginning :]  # at the same places
        has_begun = False
        with closing(_TestedScript(self.name, given)) as script:
            try:
                script.execute(files.placed(ScriptText(begin, self.file)))
                has_begun = True
                script.execute(files.placed(ScriptText(of_test, self.file)))
            except StreamKitError as error:
                if not has_begun:
                    error.args = (f"{error}\nthis is before the first test, so each test of the file fails",)
                    raise
                said = error.message if isinstance(error, TopologyError) else str(error)  # without the place and its line
                if self.messages and all(one in said for one in self.messages):
                    return
                raise
        if self.messages:
            raise TopologyError(f"no statement has failed; expected the message {' and '.join(map(repr, self.messages))}")


def read_sql_tests(file: Path, settings: Mapping[str, str] | None = None) -> list[SqlTest]:
    """The tests of a file, in their order; a file without marks is one test. TopologyError for a mark that says nothing of a test."""
    text = file.read_text(encoding="utf-8-sig")
    script = ScriptText(text, str(file))
    marks = read_marks(script, SessionSettings.of(settings or {}).script.meaning.name)
    begins = [one for one in marks if one.word == TEST]
    if not begins:
        return [SqlTest(file.stem, text, str(file), tuple(one.text for one in marks))]
    first = begins[0].span.start
    early = next((one for one in marks if one.span.start < first), None)
    if early is not None:
        raise script.error(
            "a message is expected before the first test; expected it behind a line --@test: NAME, because each test begins with what is here",
            early.span,
        )
    found = []
    for one, end in zip(begins, [*(other.span.start for other in begins[1:]), len(text)], strict=True):
        begin = one.span.start
        messages = tuple(other.text for other in marks if other.word == MESSAGE and begin <= other.span.start < end)
        shown = text[:first] + re.sub(r"[^\n]", " ", text[first:begin]) + text[begin:end]
        found.append(SqlTest(one.text, shown, str(file), messages, first))
    return found


@dataclass(frozen=True)
class _TestedApplication:
    """The queries of an application as they were when its run began."""

    wanted: WantedApplication
    run: SteppedRun
    program: Program

    @property
    def flows(self) -> tuple[set[str], set[str]]:
        """The topics that the query reads, and the topics that it writes."""
        return {one.topic for one in self.program.inputs}, {one.topic for one in self.program.outputs}


class _TestedScript:
    """The statements of a test one after the other: what each changes is processed, a record an epoch, before the next one is executed."""

    def __init__(self, name: str, settings: SessionSettings) -> None:
        self._name = name
        self._settings = settings
        self._log = open_log(IN_MEMORY, HandClock(round(START.timestamp() * 1000)))
        self._log.settings = replace(self._log.settings, topic_partitions=1)
        self._patient: set[str] = set()
        self._runs: dict[str, _TestedApplication] = {}
        # Of a stream or table over a topic, which has another id if it is made again: the records that no assertion has seen yet
        self._read: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self._ends: dict[tuple[str, int], dict[int, int]] = {}

    def close(self) -> None:
        """Forget everything."""
        self._log.close()

    def execute(self, statements: Sequence[PlacedStatement]) -> None:
        """
        Execute statements, and process what each has changed; TopologyError at the place of one if that fails.

        Queries side by side that say their application are made at once, since those of an application are made in one text.
        """
        for _, together in groupby(enumerate(statements), lambda one: -1 if _says_application(one[1].statement) else one[0]):
            self._execute([placed for _, placed in together])

    def _execute(self, together: Sequence[PlacedStatement]) -> None:
        execution = ScriptExecution(self._log, together, self._settings, self._reading)
        first = together[0]
        try:
            for _ in execution.results():
                pass
            self._settings = execution.settings
            self._process()
        except SqlError:
            raise
        except TopologyError as error:
            raise error if error.at is not None else first.text.error(error.message, first.statement.span) from error
        except StreamKitError as error:
            raise first.text.error(str(error), first.statement.span) from error

    def _reading(self, state: ScriptState, statement: Statement) -> Awaiting:
        """What runs an assertion."""
        written = state.written(statement)
        match statement:
            case AssertTopic() | AssertSchema():
                return Awaiting(lambda: StatementResult(written, asserted(state, statement)))
            case AssertSource():
                return Awaiting(lambda: StatementResult(written, asserted_source(state, statement)))
            case AssertValues():
                return Awaiting(lambda: StatementResult(written, self._asserted_values(state, statement)))
        raise state.error(
            "a test creates, inserts and asserts; expected ASSERT VALUES, ASSERT NULL VALUES, ASSERT STREAM, ASSERT TABLE or ASSERT TOPIC to look "
            "at something",
            statement.span,
        )

    # The queries

    def _process(self) -> None:
        """Run the persistent queries until nothing waits for any of them."""
        for name in self._log.topics():
            if name not in self._patient:
                self._log.catalog.topics.alter(name, Alteration(config=PATIENT))
                self._patient.add(name)
        before = sum(sum(self._log.end_offsets(name).values()) for name in self._log.topics())
        left = LOOPED_RECORDS + LOOPED_PER_RECORD * before
        taken = 1
        while taken:
            taken = 0
            for wanted in self._wanted():
                run = self._run_of(wanted)
                loop = self._loop_of(wanted)
                found = run.process(lambda: 1, epochs=left if loop else None)
                taken += found
                left -= found if loop else 0
                if left <= 0:
                    raise TopologyError(
                        f"the test {self._name!r} does not end: its queries write what they read, {' -> '.join(loop)}, and have taken "
                        f"{LOOPED_RECORDS + LOOPED_PER_RECORD * before:,} records for this statement; expected a condition in WHERE that ends "
                        "the loop, or no loop"
                    )
                if wanted.is_built and swap_when_ready(self._log, wanted.queries[0]):
                    taken += 1

    def _loop_of(self, wanted: WantedApplication) -> list[str]:
        """The topics by which the results of an application come to it again; none if they do not."""
        flows = [one.flows for one in self._runs.values()]
        inputs, outputs = self._runs[wanted.name].flows
        ways = [[one] for one in sorted(outputs)]
        seen = set(outputs)
        for way in ways:  # which grows: the shortest come first
            if way[-1] in inputs:
                return [way[-1], *way]
            further = sorted({topic for read, written in flows if way[-1] in read for topic in written} - seen)
            seen |= set(further)
            ways += [[*way, one] for one in further]
        return []

    def _wanted(self) -> Iterator[WantedApplication]:
        """The applications that are to run."""
        found = wanted_applications(self._log.catalog.sql.objects().queries)
        self._runs = {name: one for name, one in self._runs.items() if name in found}
        return (one for one in found.values() if one.runs)

    def _run_of(self, wanted: WantedApplication) -> SteppedRun:
        """The run of an application as its queries are now."""
        known = self._runs.get(wanted.name)
        if known is None or known.wanted.versions != wanted.versions:
            definitions = Definitions.of(self._log, self._log.catalog.sql.objects())
            program = compile_with_settings(topology_of_queries(definitions, wanted.queries), self._log, is_tested=True)
            known = _TestedApplication(wanted, SteppedRun(self._log, program), program)
            known.run.start(1)
            self._runs[wanted.name] = known
        return known.run

    # What they have written

    def _asserted_values(self, state: ScriptState, statement: AssertValues) -> str:
        """That the next record of a stream or table is as the statement says; TopologyError with both if it is another one."""
        name, span = statement.name.text, statement.name.span if statement.name.span.end else statement.span
        known = state.source(name)
        if known is None:
            raise state.error(
                f"there is no stream or table {name!r}; there are {', '.join(state.definitions.names()) or 'none'}", span
            )
        rows = InsertedRows(
            state, InsertValues(statement.name, statement.columns, (statement.values,), span=statement.span), known
        )
        own = {str(one["name"]): str(one["type"]) for one in known.columns}
        is_windowed = known.windows is not None or "WINDOW_TYPE" in known.formats
        listed = statement.columns or tuple(Name(one) for one in (known.key if statement.is_tombstone else own))
        if len(listed) != len(statement.values):
            raise state.error(f"{len(statement.values)} values for {len(listed)} columns; expected as many", statement.span)
        wanted: dict[str, pa.Array] = {}
        for column, value in zip(listed, statement.values, strict=True):
            bound = _BOUNDS.get(column.text.lower()) if is_windowed and column.text not in own else None
            spelt = bound or rows.spelt(column, list(own))
            if spelt in wanted:
                raise state.error(f"the column {spelt} is there twice", column.span if column.span.end else statement.span)
            is_time = spelt == TIMESTAMP or (is_windowed and spelt in (WINDOW_START, WINDOW_END))
            wanted[spelt] = InsertedValues(state).value(
                value, "timestamp" if is_time else own[spelt], TIMESTAMP if is_time else spelt
            )
        found = self._next_record(state, known.name, span)
        what = f"the next record of {known.name}"
        if found is None:
            raise state.error(
                f"{known.name} has no more records; expected {_shown(_values(wanted), statement.is_tombstone)}", statement.span
            )
        is_deleted = bool(found[DELETED][0].as_py())
        seen = {column: found[column].cast(array.type) for column, array in wanted.items()}
        if is_deleted != statement.is_tombstone or any(not _is_same(seen[one], wanted[one]) for one in wanted):
            own_values = _values({column: array for column, array in found.items() if column not in (DELETED, HEADERS)})
            raise state.error(
                f"{what} is {_shown(own_values, is_deleted)}; expected {_shown(_values(wanted), statement.is_tombstone)}",
                statement.span,
            )
        return f"{what[0].upper()}{what[1:]} is so."

    def _next_record(self, state: ScriptState, name: str, span: TextSpan) -> dict[str, pa.Array] | None:
        """The first record of a stream or table that no assertion has seen."""
        known = state.source(name)
        assert known is not None, "it was found before"
        source = replace(state.reading.topic_rows(known), is_stream=False)
        names = tuple(dict.fromkeys((*source.schema.names, TIMESTAMP)))
        reader = known.name, self._log.topic(known.topic).id
        before, end = self._ends.get(reader, {}), self._log.end_offsets(known.topic)
        self._ends[reader] = end
        try:
            rows = one_batch(self._log.read(known.topic, [*source.stored(names), TIMESTAMP, DELETED], start=before, end=end))
            decoded = source.columns(rows, names)
        except StreamKitError as error:
            raise state.error(f"a record of {name} cannot be read: {error}", span) from None
        times = decoded.column(TIMESTAMP)
        waiting = self._read.setdefault(reader, [])
        order = sorted(
            range(decoded.num_rows), key=lambda row: times[row].as_py()
        )  # of several partitions by time, each by its offsets
        waiting += [{one: decoded.column(one).slice(row, 1) for one in decoded.schema.names} for row in order]
        return waiting.pop(0) if waiting else None


def _says_application(statement: Statement) -> bool:
    """Whether a query is to be of an application with others."""
    return isinstance(statement, CreateAs | InsertQuery) and any(one.name.upper() == APPLICATION for one in statement.properties)


def _values(columns: Mapping[str, pa.Array]) -> dict[str, Any]:
    return {name: array[0].as_py() for name, array in columns.items()}


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two values are the same, a NaN and a NaN too, and maps with the same entries."""
    return bool(one.equals(other)) or _comparable(one[0].as_py(), one.type) == _comparable(other[0].as_py(), other.type)


def _comparable(value: Any, kind: pa.DataType) -> Any:
    """The value in a form that `==` compares rightly: maps as dictionaries, at any depth, and NaN as a text."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _comparable(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_comparable(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _comparable(value[field.name], field.type) for field in kind}
    return "NaN" if pa.types.is_floating(kind) and math.isnan(value) else value


def _shown(values: Mapping[str, Any], is_tombstone: bool) -> str:
    """A record for a message."""
    text = ", ".join(
        f"{name} = {value!r}" if not hasattr(value, "isoformat") else f"{name} = {value.isoformat()}"
        for name, value in values.items()
    )
    return f"{'a deletion of ' if is_tombstone else ''}{text}"
