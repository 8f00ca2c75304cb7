"""
What Spark makes of expressions: the type of each, whether it can be null, and its value or failure in every row.

Analysis is one plan for many texts. Only what Spark's rules throw at is looked for, by halves.

We compute constants at compile time, Spark's optimizer does so later. So each text has two nullabilities, as analysed and with constants
computed by Spark's own `ConstantFolding`, and ours may be either. Without constants there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from streamkit.data_type import normalise_type
from tests.unit.expressions.parity.cells import FAILED, cells

NEEDED_RULE = "RewriteWithExpression"  # one that Spark lets us leave out, though it cannot run what has a WITH without it
QUERY_FAILS = "its query fails as a whole"  # Spark moves a common part out of the attempt, or a text is no UTF-8
GROUP = 48  # texts that are analysed together at first


@dataclass(frozen=True)
class Expected:
    """
    What Spark says of an expression; `refused` is its reason if it does not analyse it; all else is empty then.

    `nullable` holds whether it can be null as analysed, and with constants computed.
    """

    type: str = ""
    nullable: frozenset[bool] = frozenset()
    cells: tuple[str, ...] = ()
    refused: str = ""


def in_spark(spark, batch, texts, zone="UTC"):
    """For each text what Spark makes of it, in a session whose time zone is `zone`."""
    texts = list(dict.fromkeys(texts))
    oracle = Oracle(spark, batch, zone)
    analysed = oracle.analysed(texts)
    sound = [text for text in texts if not analysed[text].refused]
    return analysed | {
        text: Expected(refused=f"{QUERY_FAILS}: {found}")
        if isinstance(found, str)
        else Expected(analysed[text].type, analysed[text].nullable, found)
        for text, found in zip(sound, oracle.cells(sound), strict=True)
    }


class _OtherRowsError(ValueError):
    """An expression that is not one value a row."""


REFUSALS = (_OtherRowsError, PySparkException, Py4JJavaError)


class Oracle:
    """Spark, with the rows of a batch as its one table: NOT NULL columns stay so, and timestamps without zone too."""

    def __init__(self, spark, batch, zone="UTC"):
        for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # a refusal is an expected answer here
            PySparkLogger.getLogger(name).disabled = True
        self._session = _session(spark, zone)
        self._state = self._session._jsparkSession.sessionState()
        self._parser = self._state.sqlParser()
        self._frame = _frame(spark, self._session, batch)
        self._relation = self._frame._jdf.queryExecution().analyzed()
        self._java = _Java(self._session._jvm)
        self._resolved: dict[str, Any] = {}

    def analysed(self, texts: Sequence[str]) -> dict[str, Expected]:
        """Type and nullability of each text, or why Spark refuses it; no cells."""
        found: dict[str, Expected] = {}
        parsed = {}
        for text in texts:
            try:
                parsed[text] = self._parse(f"({text}\n) AS r")
            except REFUSALS as error:
                found[text] = Expected(refused=_reason(error))
        for group, plan, refusal in _in_groups(list(parsed), lambda group: self._plan([parsed[text] for text in group])):
            found |= {group[0]: Expected(refused=_reason(refusal))} if plan is None else self._fields(group, plan)
        return found

    def parsed(self, text: str):
        """What Spark's parser makes of a text alone; None if it cannot read it."""
        try:
            return self._parse(text)
        except REFUSALS:
            return None

    def folded(self, texts: Sequence[str]) -> dict[str, str]:
        """Each text's expression after analysis, with constants computed, as Spark writes it, without ids; or why Spark refuses it."""
        parsed = {text: self._parse(f"({text}\n) AS r") for text in texts}
        found = {}
        for group, plan, refusal in _in_groups(list(parsed), lambda group: self._plan([parsed[text] for text in group])):
            for place, text in enumerate(group):
                found[text] = (
                    _reason(refusal).split("]")[0] if plan is None else self._folded_text(plan.projectList().apply(place))
                )
        return found

    def _folded_text(self, field) -> str:
        with suppress(*REFUSALS):  # a constant that fails stays
            replaced = self._java.replace_expressions.apply(self._project([field]))
            field = self._java.constant_folding.apply(replaced).projectList().apply(0)
        type = field.dataType().sql() if field.resolved() else "unresolved"
        return f"{type} {_without_ids(field.child().toString())}"

    def _fields(self, texts, plan) -> dict[str, Expected]:
        found = {}
        fields = [plan.projectList().apply(place) for place in range(len(texts))]
        for text, field in zip(texts, fields):
            if not field.resolved():
                found[text] = Expected(refused="it stays unresolved")
        sound = [(text, field) for text, field in zip(texts, fields) if text not in found]
        folded = self._folded([field for _, field in sound])
        for (text, field), later in zip(sound, folded, strict=True):
            type = field.dataType().simpleString() if "interval" in field.dataType().simpleString() else self._type(field)
            found[text] = Expected(type, frozenset((field.nullable(), later)))
            self._resolved[text] = field.child()
        return found

    def _type(self, field) -> str:
        return normalise_type(field.dataType().sql())

    def _folded(self, fields) -> list[bool]:
        """Whether each can be null once constants are computed; as before where that fails."""

        def fold(group):
            return self._java.constant_folding.apply(self._java.replace_expressions.apply(self._project(group)))

        found = []
        for group, plan, _ in _in_groups(fields, fold):
            found += (
                [plan.projectList().apply(place).nullable() for place in range(len(group))] if plan else [group[0].nullable()]
            )
        return found

    def _plan(self, expressions):
        """The analysed projection; _OtherRowsError where an expression makes something else of it: an aggregate, a window, more rows."""
        plan = self._state.analyzer().execute(self._project(expressions))
        if plan.getClass().getSimpleName() != "Project" or not plan.child().children().isEmpty():
            raise _OtherRowsError("it is not one value a row")
        return plan

    def _project(self, fields):
        return self._java.project(self._java.sequence(fields), self._relation)

    def cells(self, texts: Sequence[str]) -> list[tuple[str, ...] | str]:
        """For each text that was analysed its value in every row as a text, FAILED where it fails; or why its query fails as a whole."""
        found: list[tuple[str, ...] | str] = []
        for _, columns, refusal in _by_halves(list(texts), self._cells):
            found += [_reason(refusal)] if columns is None else columns
        return found

    def _cells(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        tried = [self._tried(place, text) for place, text in enumerate(texts)]
        table = DataFrame(self._frame._jdf.select(self._java.sequence(tried)), self._session).toArrow().combine_chunks()
        return [tuple(_spark_cells(column.combine_chunks())) for column in table.columns]

    def _parse(self, text):
        """The parser reads times in the zone of the active session."""
        self._java.set_active_session(self._session._jsparkSession)
        return self._parser.parseExpression(text)

    def _tried(self, place, text):
        """The value in an array of one; null instead of the array where it fails."""
        wrapped = self._java.try_eval(self._java.create_array(self._java.sequence([self._resolved[text]])))
        return self._java.column(wrapped).alias(f"r{place}")


class _Java:
    """The classes and functions of Spark that are called for every text; each is looked up once, which takes longer than a call."""

    def __init__(self, jvm) -> None:
        catalyst, classic = jvm.org.apache.spark.sql.catalyst, jvm.org.apache.spark.sql.classic
        self.sequence = jvm.PythonUtils.toSeq
        self.project = catalyst.plans.logical.Project
        self.replace_expressions = catalyst.optimizer.ReplaceExpressions
        self.constant_folding = catalyst.optimizer.ConstantFolding
        self.create_array = catalyst.expressions.CreateArray
        self.try_eval = catalyst.expressions.TryEval
        self.column = classic.ExpressionUtils.column
        self.set_active_session = classic.SparkSession.setActiveSession


def _without_ids(tree: str) -> str:
    return re.sub(r"#\d+L?|CommonExpressionId\(\d+", "", tree)


def _in_groups(items: list[Any], compute: Callable[[list[Any]], Any]):
    """As by halves, but of few items at a time: an item that throws lets all beside it be computed again."""
    for start in range(0, len(items), GROUP):
        yield from _by_halves(items[start : start + GROUP], compute)


def _by_halves(items: list[Any], compute: Callable[[list[Any]], Any]):
    """Each part of the items with what `compute` gives for it, and an item by itself with None and the error where it throws."""
    if not items:
        return
    try:
        yield items, compute(items), None
    except REFUSALS as error:
        if len(items) == 1:
            yield items, None, error
            return
        middle = len(items) // 2
        yield from _by_halves(items[:middle], compute)
        yield from _by_halves(items[middle:], compute)


def _reason(error: Exception) -> str:
    text = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    return next(filter(None, text.splitlines()), type(error).__name__)


def _session(spark, zone):
    session = spark.newSession()
    settings = {
        "spark.sql.session.timeZone": zone,
        "spark.sql.ansi.enabled": "true",
        "spark.sql.optimizer.excludedRules": _rules(session),  # they may drop a part that would fail, and take their time
        "spark.sql.codegen.wholeStage": "false",  # compiling 700 columns takes longer than interpreting them
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.subexpressionElimination.enabled": "false",  # a part that fails in one column is null in another that shares it
    }
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


def _rules(session) -> str:
    """All rules of the optimizer that it can do without; those that the active session leaves out are not among its batches."""
    _Java(session._jvm).set_active_session(session._jsparkSession)
    optimizer = session._jsparkSession.sessionState().optimizer()
    rules = {rule.ruleName() for batch in _each(optimizer.batches()) for rule in _each(batch.rules())}
    return ",".join(sorted(rule for rule in rules - {*_each(optimizer.nonExcludableRules())} if NEEDED_RULE not in rule))


def _each(sequence) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _frame(spark, session, batch):
    """The rows in Spark under exactly their schema; Spark's own way from Arrow makes every column nullable and gives every time a zone."""
    utc = _session(spark, "UTC")
    without_zone = [field.name for field in batch.schema if field.type == pa.timestamp("us")]
    table = pa.Table.from_batches([_readable(batch)])
    frame = utc.createDataFrame(table)
    frame = frame.selectExpr(*(_as_it_was(field, without_zone) for field in batch.schema))
    rows = frame._jdf.queryExecution().toRdd()
    schema = StructType([
        StructField(field.name, field.dataType, given.nullable) for field, given in zip(frame.schema, batch.schema, strict=True)
    ])  # fmt: skip
    exact = session._jsparkSession.parseDataType(schema.json())
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, exact, False), session)


def _readable(batch):
    """The batch without columns of nulls alone, and with UTC as the zone of times that have none."""
    for place, field in enumerate(batch.schema):
        if field.type == pa.timestamp("us"):
            batch = batch.set_column(place, field.name, batch.column(place).cast(pa.timestamp("us", "UTC")))
    return batch.drop_columns([field.name for field in batch.schema if field.type == pa.null()])


def _as_it_was(field, without_zone):
    if field.type == pa.null():
        return f"NULL AS {field.name}"
    return f"CAST({field.name} AS timestamp_ntz) AS {field.name}" if field.name in without_zone else field.name


def _spark_cells(tried):
    values = iter(cells(tried.flatten()))
    return [next(values) if valid else FAILED for valid in tried.is_valid().to_pylist()]
