"""
Tests in SQL: a file of statements, rows and assertions, run in this process on a log in memory.

A line `--@test: NAME` begins a test, which knows nothing of the tests before it. Each test begins with the statements before the first such line. A
line `--@expected.message: TEXT` says that a statement of the test has to fail with this text in its message, and ends the test by that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
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
from streamkit.sql.execution.asserting import asserted, asserted_source
from streamkit.sql.execution.definitions import Definitions
from streamkit.sql.execution.inserted_values import InsertedValues
from streamkit.sql.execution.inserting import InsertedRows
from streamkit.sql.execution.queries import topology_of_queries
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.execution.script_execution import ScriptExecution
from streamkit.sql.execution.script_files import PlacedStatement, ScriptFiles
from streamkit.sql.execution.script_state import Awaiting, ScriptState
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.reader.script import read_script
from streamkit.sql.running.swapping import swap_when_ready
from streamkit.sql.running.wanted_application import WantedApplication, wanted_applications
from streamkit.sql.tree.span import Name, TextSpan
from streamkit.sql.tree.statements import AssertSchema, AssertSource, AssertTopic, AssertValues, InsertValues, Statement
from streamkit.testing.driver import PATIENT, START
from streamkit.testing.stepped_run import SteppedRun

_MARK = re.compile(r"^--@(test|expected\.message):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_BOUNDS = {"windowstart": WINDOW_START, WINDOW_START: WINDOW_START, "windowend": WINDOW_END, WINDOW_END: WINDOW_END}


@dataclass(frozen=True)
class SqlTest:
    """A test of a file: its name, its text with everything else blank, and the message that it has to fail with, if it has to."""

    name: str
    text: str
    file: str
    message: str | None = None

    def run(self, settings: Mapping[str, str]) -> None:
        """Run it; StreamKitError, at the place of the statement, if an assertion does not hold."""
        try:
            self._run(settings)
        except StreamKitError as error:
            said = error.message if isinstance(error, TopologyError) else str(error)  # without the place and its line
            if self.message is not None and self.message in said:
                return
            raise
        if self.message is not None:
            raise TopologyError(f"no statement has failed; expected the message {self.message!r}")

    def _run(self, settings: Mapping[str, str]) -> None:
        text, given = ScriptText(self.text, self.file), SessionSettings.of(settings)
        statements = read_script(self.text, given.script.meaning.name, given.variables, self.file)
        placed = list(ScriptFiles(given).with_files(text, statements))
        with closing(_TestedScript(given)) as script:
            for one in placed:
                script.execute(one)


def read_sql_tests(file: Path) -> list[SqlTest]:
    """The tests of a file, in their order; a file without marks is one test."""
    text = file.read_text(encoding="utf-8-sig")
    marks = list(_MARK.finditer(text))
    begins = [one for one in marks if one[1] == "test"]
    first = begins[0].start() if begins else len(text)
    ends = [*(one.start() for one in begins[1:]), len(text)]
    parts = [(one[2], one.start(), end) for one, end in zip(begins, ends, strict=True)] if begins else [(file.stem, first, first)]
    found = []
    for name, begin, end in parts:
        messages = [one[2] for one in marks if one[1] != "test" and (begin <= one.start() < end or not begins)]
        shown = text[:first] + re.sub(r"[^\n]", " ", text[first:begin]) + text[begin:end]
        found.append(SqlTest(name, shown, str(file), messages[0] if messages else None))
    return found


class _TestedScript:
    """The statements of a test one after the other: what each changes is processed, a record an epoch, before the next one is executed."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._log = open_log(IN_MEMORY, HandClock(round(START.timestamp() * 1000)))
        self._log.settings = replace(self._log.settings, topic_partitions=1)
        self._patient: set[str] = set()
        self._runs: dict[str, tuple[WantedApplication, SteppedRun]] = {}
        # Of a stream or table over a topic, which has another id if it is made again: the records that no assertion has seen yet
        self._read: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self._ends: dict[tuple[str, int], dict[int, int]] = {}

    def close(self) -> None:
        """Forget everything."""
        self._log.close()

    def execute(self, placed: PlacedStatement) -> None:
        """Execute a statement, and process what it has changed; TopologyError at its place if one of the two fails."""
        execution = ScriptExecution(self._log, [placed], self._settings, self._reading)
        try:
            for _ in execution.results():
                pass
            self._settings = execution.settings
            self._process()
        except SqlError:
            raise
        except TopologyError as error:
            raise error if error.at is not None else placed.text.error(error.message, placed.statement.span) from error
        except StreamKitError as error:
            raise placed.text.error(str(error), placed.statement.span) from error

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
        taken = 1
        while taken:
            taken = 0
            for wanted in self._wanted():
                run = self._run_of(wanted)
                taken += run.process(lambda: 1, epochs=None)
                if wanted.is_built and swap_when_ready(self._log, wanted.queries[0]):
                    taken += 1

    def _wanted(self) -> Iterator[WantedApplication]:
        """The applications that are to run."""
        found = wanted_applications(self._log.catalog.sql.objects().queries)
        self._runs = {name: one for name, one in self._runs.items() if name in found}
        return (one for one in found.values() if one.runs)

    def _run_of(self, wanted: WantedApplication) -> SteppedRun:
        """The run of an application as its queries are now."""
        known, run = self._runs.get(wanted.name, (None, None))
        if run is None or known is None or known.versions != wanted.versions:
            definitions = Definitions.of(self._log, self._log.catalog.sql.objects())
            run = SteppedRun(self._log, compile_with_settings(topology_of_queries(definitions, wanted.queries), self._log))
            run.start(1)
            self._runs[wanted.name] = wanted, run
        return run

    # What they have written

    def _asserted_values(self, state: ScriptState, statement: AssertValues) -> str:
        """That the next record of a stream or table is as the statement says; TopologyError with both if it is another one."""
        name, span = statement.name.text, statement.name.span if statement.name.span.end else statement.span
        known = state.definitions.source(name)
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
        known = state.definitions.source(name)
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
