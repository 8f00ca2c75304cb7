"""
Spark's own analyser as the judge of every expression: names, types and coercions are Catalyst's.

Expressions are analysed in a session of their own beside the user's (same context, other settings): ANSI rules on, time zone UTC,
names without regard to case. So a topology means the same wherever it is compiled, whatever the user's session is set to.
One analysed plan per call, on an empty DataFrame of the schema; nothing runs.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamkit.errors import Location, TopologyError, UnsupportedExpressionError
from streamkit.expressions.aggregates import AGGREGATES
from streamkit.expressions.arrow import function_names
from streamkit.expressions.translation import Translator
from streamkit.expressions.tree import Node, read_plan
from streamkit.plan.expression import Alias, Call, Cast, Expression, Literal, Reference, SqlText, TypedAggregate, TypedExpression
from streamkit.plan.expression_text import expression_text
from streamkit.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true", "spark.sql.caseSensitive": "false"}
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
OPERATORS: dict[str, Callable[..., Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq_null_safe": lambda a, b: a.eqNullSafe(b),
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "remainder": lambda a, b: a % b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "not": lambda a: ~a,
    "negate": lambda a: -a,
    "between": lambda a, lower, upper: a.between(lower, upper),
    "in": lambda a, *members: a.isin(*members),
}
_TRIMS = ("trim", "ltrim", "rtrim")  # SQL has the characters first, PySpark last


class CatalystAnalyzer:
    """Analyses expressions in a Spark session: the one given, else the running one, else a quiet local one made on first use."""

    def __init__(self, spark: SparkSession | None = None) -> None:
        self._given = spark
        self._session: SparkSession | None = None

    def project(
        self, schema: Schema, columns: Sequence[tuple[str, Expression]], at: Location | None = None
    ) -> tuple[tuple[str, TypedExpression], ...]:
        """Each named expression with its types; TopologyError and UnsupportedExpressionError name the user's line."""
        nodes = self._analysed(schema, [expression for _, expression in columns], at, "Project")
        translator = Translator(schema, at)
        return tuple((name, translator.translate(node)) for (name, _), node in zip(columns, nodes))

    def predicate(self, schema: Schema, expression: Expression, at: Location | None = None) -> TypedExpression:
        """A condition with its types; TopologyError if it is not boolean."""
        ((_, typed),) = self.project(schema, [("condition", expression)], at)
        if typed.type not in ("boolean", "void"):
            raise TopologyError(f"a condition must be boolean; {expression_text(expression)!r} is {typed.type}", at)
        return typed if typed.type == "boolean" else TypedExpression("cast", "boolean", (typed,))

    def aggregates(
        self, schema: Schema, aggregates: Sequence[tuple[str, Expression]], at: Location | None = None
    ) -> tuple[TypedAggregate, ...]:
        """Each named aggregate over any scalar argument; TopologyError if one is not a single aggregate."""
        nodes = self._analysed(schema, [expression for _, expression in aggregates], at, "Aggregate")
        return tuple(
            _aggregate(name, node, expression, Translator(schema, at)) for (name, expression), node in zip(aggregates, nodes)
        )

    def _analysed(self, schema: Schema, expressions: Sequence[Expression], at: Location | None, operator: str) -> list[Node]:
        """The trees Catalyst makes of the expressions in one plan of the given operator over the rows alone."""
        if not expressions:
            return []
        operators, nodes = read_plan(self._plan(schema, expressions, at, operator))
        if operators != [operator, "LocalRelation"] or len(nodes) != len(expressions):
            raise UnsupportedExpressionError(_misplaced(operators, _texts(expressions)), at)
        return nodes

    def _plan(self, schema: Schema, expressions: Sequence[Expression], at: Location | None, operator: str) -> Any:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        frame = self._frame(schema)
        try:
            with _without_query_log():
                columns = [_column(_unaliased(e), at).alias(str(place)) for place, e in enumerate(expressions)]
                analysed = frame.agg(*columns) if operator == "Aggregate" else frame.select(*columns)
            return analysed._jdf.queryExecution().analyzed()
        except PySparkException as error:
            raise _explained(error, schema, _texts(expressions), operator, at) from None
        except Py4JJavaError as error:
            reason = _first_sentence(error.java_exception)
            raise UnsupportedExpressionError(f"Spark cannot analyse {_texts(expressions)}: {reason}", at) from None

    def _frame(self, schema: Schema) -> DataFrame:
        """An empty DataFrame of the schema, without a job."""
        from pyspark.sql.classic.dataframe import DataFrame

        session = self.session()
        jvm: Any = session._jvm
        fields = jvm.org.apache.spark.sql.types.StructType.fromDDL(schema.ddl())
        return DataFrame(session._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), fields), session)

    def session(self) -> SparkSession:
        """The session expressions are analysed in."""
        if self._session is None or self._session.sparkContext._jsc is None:  # a stopped context has lost its JVM side
            self._session = (self._given or _local_session()).newSession()
            for name, value in SETTINGS.items():
                self._session.conf.set(name, value)
        return self._session


def _local_session() -> SparkSession:
    from pyspark.sql import SparkSession

    if running := SparkSession.getActiveSession():
        return running
    builder = SparkSession.builder.master("local[1]").appName("streamkit compile")
    for name, value in QUIET.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _column(expression: Expression, at: Location | None) -> Column:
    """The expression in PySpark's own terms."""
    from pyspark.sql import functions

    match expression:
        case Reference(name):
            return functions.col(f"`{name.replace('`', '``')}`")
        case Literal(value):
            return _literal_column(value)
        case SqlText(text):
            return functions.expr(_checked_text(text, at))
        case Cast(inner, type):
            return _column(inner, at).cast(type)
        case Alias(inner, _):
            return _column(inner, at)
        case Call(function, arguments):
            return _call_column(function, [_column(argument, at) for argument in arguments])
    raise TopologyError(f"no expression: {expression!r}", at)


def _call_column(function: str, arguments: list[Column]) -> Column:
    from pyspark.sql import functions

    if function in OPERATORS:
        return OPERATORS[function](*arguments)  # type: ignore[no-any-return]
    if function == "when":
        return _when_column(arguments)
    ordered = arguments[::-1] if function in _TRIMS else arguments
    return functions.call_function("negative" if function == "negate" else function, *ordered)


def _when_column(arguments: list[Column]) -> Column:
    from pyspark.sql import functions

    chain: Any = functions
    for condition, value in zip(arguments[0::2], arguments[1::2], strict=False):
        chain = chain.when(condition, value)
    return chain.otherwise(arguments[-1]) if len(arguments) % 2 else chain  # type: ignore[no-any-return]


def _literal_column(value: Any) -> Column:
    """A constant; a datetime without zone is UTC, as everywhere here."""
    from pyspark.sql import functions

    if isinstance(value, dt.datetime):
        moment = value.replace(tzinfo=dt.timezone.utc) if value.tzinfo is None else value.astimezone(dt.timezone.utc)
        return functions.expr(f"TIMESTAMP '{moment.strftime('%Y-%m-%d %H:%M:%S.%f').rjust(26, '0')}Z'")
    if isinstance(value, dt.date):
        return functions.expr(f"DATE '{value.isoformat()}'")  # lit() loses the zeros of years before 1000
    return functions.lit(value)


def _checked_text(text: str, at: Location | None) -> str:
    if not text.strip():
        raise TopologyError(f"an SQL expression must be a text that is not empty; found {text!r}", at)
    return text


def _unaliased(expression: Expression) -> Expression:
    return expression.expression if isinstance(expression, Alias) else expression


def _texts(expressions: Sequence[Expression]) -> str:
    return ", ".join(expression_text(expression) for expression in expressions)


@contextmanager
def _without_query_log() -> Iterator[None]:
    """Silence PySpark's log of refused queries, because here a refusal is an expected answer."""
    from pyspark.logger import PySparkLogger  # asking `logging` for it first would give PySpark a logger it cannot use

    loggers = [PySparkLogger.getLogger(name) for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before):
            logger.disabled = disabled


def _aggregate(name: str, node: Node, expression: Expression, translator: Translator) -> TypedAggregate:
    """The aggregate behind a tree; it must be one function over columns of the row, and nothing around it."""
    call, at = node.children[0], translator.at
    text = expression_text(expression)
    if call.name != "AggregateExpression":
        raise TopologyError(_no_aggregate(text), at)
    function = call.children[0]
    known = next((one for one in AGGREGATES.values() if one.catalyst == function.name), None)
    if known is None:
        raise UnsupportedExpressionError(
            f"the aggregate {text!r} has no incremental state; expected one of {', '.join(AGGREGATES)}", at
        )
    if call.fields["isDistinct"] or len(call.children) > 1:
        raise UnsupportedExpressionError(
            f"the aggregate {text!r} is DISTINCT or has a FILTER; expected it plain (a filter: count_if, or when)", at
        )
    if function.name in ("Sum", "Average") and "TRY" in str(function.java.sql()).upper().split("(")[0]:
        raise UnsupportedExpressionError(f"the aggregate {text!r} has no Arrow translation", at)
    if len(function.children) != known.arity:
        raise UnsupportedExpressionError(
            f"the aggregate {text!r} has {len(function.children)} arguments; expected {known.arity}", at
        )
    argument = translator.translate(function.children[0])
    every_row = function.name == "Count" and argument.name == "literal" and argument.value is not None
    return TypedAggregate(name, known.name, _result_type(function), None if every_row else argument, known.is_nullable)


def _no_aggregate(text: str) -> str:
    return f"expected one aggregate ({', '.join(AGGREGATES)}) as such; found {text}: compute with its result in a later select"


def _result_type(function: Node) -> str:
    return str(function.java.dataType().simpleString())


def _misplaced(operators: list[str], text: str) -> str:
    if "Window" in operators:
        return f"{text} has a window over other rows (OVER); use windowed_by() on groups"
    if "Aggregate" in operators:
        return f"{text} has an aggregate; expected aggregates only in group_by(...).agg(...)"
    return f"{text} gives more or fewer rows than it is given ({operators[0]} over {', '.join(operators[1:-1])}); expected one value per row"


def _explained(error: Any, schema: Schema, texts: str, operator: str, at: Location | None) -> TopologyError:
    """Spark's objection in short, with what exists."""
    condition, parameters = str(error.getCondition() or ""), dict(error.getMessageParameters() or {})
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "?").strip("`")
        return TopologyError(f"there is no column {name!r}; the columns are {', '.join(schema.names)}", at)
    if condition == "UNRESOLVED_ROUTINE":
        name = parameters.get("routineName", "?").strip("`")
        close = difflib.get_close_matches(name.lower(), sorted({*function_names(), *AGGREGATES}), 3)
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        return UnsupportedExpressionError(f"Spark has no function {name!r}{hint}", at)
    if condition == "MISSING_GROUP_BY":
        return TopologyError(_no_aggregate(texts) if operator == "Aggregate" else _misplaced(["Aggregate"], texts), at)
    if condition == "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES":
        left, right, text = (parameters[key].strip('"') for key in ("left", "right", "sqlExpr"))
        return TopologyError(f"the types of {text} do not go together: {left.lower()} and {right.lower()}; cast one of them", at)
    if condition.startswith("DATATYPE_MISMATCH"):
        return TopologyError(f"{_first_sentence(error)}; the columns are {schema}", at)
    return TopologyError(f"{_first_sentence(error)}, in {texts}", at)


def _first_sentence(error: Any) -> str:
    """Spark's own words without error class, SQLSTATE and plan."""
    text = (str(error).strip() or type(error).__name__).split("\n")[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    return re.sub(r"\s*(?:SQLSTATE:|Please, refer to).*$", "", text).rstrip(" .;")
