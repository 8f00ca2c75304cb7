"""
Catalyst confirms what the analysis found: Spark types the user's own expressions once more, and the types must be the same.

`Recorder` is an analyzer that remembers what it typed; `confirm` asks Spark about all of it in one analysis, in a session of its own beside the
user's (ANSI rules on, names without regard to case). Each expression goes to Spark as text: SQL text as the user wrote it, all else written out with
every operator in parentheses, so that no rule of precedence is used twice. What Spark cannot see is left out: functions of users, and the few
functions that have no name in SQL.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING

from streamkit.data_type import array_of, field_name, map_of, normalise_type
from streamkit.errors import Location, SchemaError, TopologyError
from streamkit.expressions.core.coercion import INTERVALS
from streamkit.expressions.core.spark_text import SPARK_TEXTS, UnseenError, quoted
from streamkit.expressions.sql.dialect import LEVELS
from streamkit.plan.analysis import PLACE_COLUMNS, RECORD_COLUMNS, Analyzer
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import (
    Alias,
    Call,
    Cast,
    Expression,
    Lambda,
    Literal,
    PythonCall,
    Reference,
    SqlText,
    TypedAggregate,
    TypedExpression,
)
from streamkit.plan.expression_text import OF_KSQL, expression_text
from streamkit.schema import Schema, SchemaColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

SETTINGS = {"spark.sql.ansi.enabled": "true", "spark.sql.caseSensitive": "false"}
BINARY = {function: sign for level in LEVELS for sign, function in level.items()} | {
    "and": "AND",
    "or": "OR",
    "integral_divide": "DIV",
    "like": "LIKE",
    "ilike": "ILIKE",
    "rlike": "RLIKE",
}
PREFIXES = {"not": "NOT", "negate": "-", "positive": "+", "bitwise_not": "~"}
SUFFIXES_OF_NUMBERS = {"bigint": "L", "smallint": "S", "tinyint": "Y"}


@dataclass(frozen=True)
class Analysed:
    """One expression of the user, the schema it reads, and the type that the analysis gave it."""

    schema: Schema
    expression: Expression
    type: str
    at: Location | None
    aggregates: bool = False


@dataclass(frozen=True)
class Recorder:
    """An analyzer that remembers in `analysed` what another one types."""

    analyzer: Analyzer
    analysed: list[Analysed] = field(default_factory=list)
    record_columns: tuple[SchemaColumn, ...] = ()

    def of_records(self, have_places: bool = False) -> Recorder:
        columns = (*RECORD_COLUMNS, *PLACE_COLUMNS) if have_places else RECORD_COLUMNS
        return replace(self, analyzer=self.analyzer.of_records(have_places), record_columns=columns)

    def project(
        self, schema: Schema, columns: Sequence[tuple[str, Expression]], at: Location | None = None
    ) -> tuple[tuple[str, TypedExpression], ...]:
        typed = self.analyzer.project(schema, columns, at)
        self.analysed.extend(Analysed(self._seen(schema), one, found.type, at) for (_, one), (_, found) in zip(columns, typed))
        return typed

    def predicate(self, schema: Schema, expression: Expression, at: Location | None = None) -> TypedExpression:
        typed = self.analyzer.predicate(schema, expression, at)
        self.analysed.append(Analysed(self._seen(schema), expression, typed.type, at))
        return typed

    def aggregates(
        self, schema: Schema, aggregates: Sequence[tuple[str, Expression]], at: Location | None = None
    ) -> tuple[TypedAggregate, ...]:
        typed = self.analyzer.aggregates(schema, aggregates, at)
        self.analysed.extend(
            Analysed(self._seen(schema), one, found.type, at, True) for (_, one), found in zip(aggregates, typed)
        )
        return typed

    def _seen(self, schema: Schema) -> Schema:
        """The columns that expressions can read, for Spark those of records too."""
        return Schema((*schema, *self.record_columns))


@cache
def function_names() -> frozenset[str]:
    """The names of pyspark.sql.functions that can be called; none if pyspark is not installed. It needs no JVM."""
    try:
        from pyspark.sql import functions
    except ImportError:
        return frozenset()
    public = {name: value for name, value in vars(functions).items() if not name.startswith("_")}
    return frozenset(
        name for name, value in public.items() if isinstance(value, FunctionType) and value.__module__.startswith("pyspark.")
    )


def confirm(analysed: Sequence[Analysed], spark: SparkSession, zone: str = "UTC") -> int:
    """Have Spark type the expressions, in one analysis; returns how many it saw. TopologyError where its type is another."""
    from pyspark.errors import PySparkException

    seen = [(one, text) for one in dict.fromkeys(analysed) if (text := _visible_text(one.expression)) is not None]
    if not seen:
        return 0
    session = spark.newSession()
    for name, value in {**SETTINGS, "spark.sql.session.timeZone": zone}.items():
        session.conf.set(name, value)
    try:
        types = _types(session, seen)
    except PySparkException:
        types = [_type_alone(session, one) for one in seen]  # to say which
    for (one, text), type in zip(seen, types, strict=True):
        if type != one.type and not (type == "void" and one.type == "boolean"):  # NULL as a condition
            raise TopologyError(_difference(one, text, type), one.at)
    return len(seen)


def _types(session: SparkSession, seen: Sequence[tuple[Analysed, str]]) -> list[str]:
    """The types of all expressions by one analysis: a projection or an aggregation a schema, side by side."""
    groups: dict[tuple[Schema, bool], list[int]] = {}
    for place, (one, _) in enumerate(seen):
        groups.setdefault((one.schema, one.aggregates), []).append(place)
    parts = [
        f"(SELECT {', '.join(f'({seen[place][1]}{chr(10)}) AS c{place}' for place in places)} FROM {_relation(schema)}) AS p{number}"
        for number, ((schema, _), places) in enumerate(groups.items())
    ]
    analysed = session.sql(f"SELECT * FROM {' CROSS JOIN '.join(parts)}").schema
    return [_type_text(analysed[f"c{place}"].dataType) for place in range(len(seen))]


def _type_alone(session: SparkSession, one: tuple[Analysed, str]) -> str:
    from pyspark.errors import PySparkException

    try:
        return _types(session, [one])[0]
    except PySparkException as error:
        return f"refused: {str(error).splitlines()[0]}"


def _relation(schema: Schema) -> str:
    columns = ", ".join(
        f"{'NULL' if column.type == 'void' else f'CAST(NULL AS {column.type})'} AS {quoted(column.name)}" for column in schema
    )
    return f"(SELECT {columns or 'NULL'})"


def _type_text(type: DataType) -> str:
    """A type of Spark as ours are written: names of fields in quotes where they need them, which Spark leaves out."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type, ArrayType):
        return array_of(_type_text(type.elementType))
    if isinstance(type, MapType):
        return map_of(_type_text(type.keyType), _type_text(type.valueType))
    if isinstance(type, StructType):
        return f"struct<{','.join(f'{field_name(one.name)}:{_type_text(one.dataType)}' for one in type.fields)}>"
    return _normalised(type.simpleString())


def _normalised(type: str) -> str:
    if type.startswith("interval"):
        return type if type in INTERVALS else INTERVALS["month" in type or "year" in type]
    try:
        return normalise_type(type)
    except SchemaError:
        return type


def _difference(one: Analysed, text: str, type: str) -> str:
    return (
        f"StreamKit and Spark disagree on {expression_text(one.expression)}, which reads ({one.schema}): "
        f"StreamKit's type is {one.type}, Spark's is {type} (of {text}). This is an error in StreamKit: please report it. "
        "Nothing was started; a cast of the parts may help until then"
    )


def _visible_text(expression: Expression) -> str | None:
    try:
        return spark_sql(expression)
    except UnseenError:
        return None


def spark_sql(expression: Expression) -> str:
    """The expression as SQL in which parentheses say all; UnseenError if it has none."""
    match expression:
        case Reference(name):
            return ".".join(map(quoted, parts_of(name)))
        case Literal(value):
            return _constant(value)
        case Alias(inner, _):
            return spark_sql(inner)
        case SqlText(text):
            return f"({text}\n)"
        case Cast(Literal(int() as value), ("bigint" | "smallint" | "tinyint") as type) if not isinstance(value, bool):
            return f"({value}{SUFFIXES_OF_NUMBERS[type]})"
        case Cast(inner, type):
            return f"CAST({spark_sql(inner)} AS {type})"
        case Lambda(parameters, body):
            names = ", ".join(map(quoted, parameters))
            return f"{names if len(parameters) == 1 else f'({names})'} -> {spark_sql(body)}"
        case Call(function, arguments):
            return _call(function.lower(), arguments)
        case PythonCall():
            raise UnseenError("a user's function")
    raise UnseenError(repr(expression))


def _call(function: str, arguments: Sequence[Expression]) -> str:
    if function.startswith(OF_KSQL):
        raise UnseenError("a function of ksqlDB")
    texts = [_member(argument) if function == "struct" else spark_sql(argument) for argument in arguments]
    match texts:
        case [left, right] if function in BINARY:
            return f"({left} {BINARY[function]} {right})"
        case [one] if function in PREFIXES:
            return f"({PREFIXES[function]} {one})" if function == "not" else f"({PREFIXES[function]} ({one}))"
    if function in SPARK_TEXTS and (written := SPARK_TEXTS[function](arguments, texts)) is not None:
        return written
    return f"{function if function == 'struct' else quoted(function)}({', '.join(texts)})"


def _member(argument: Expression) -> str:
    """A field of a struct, with the name that it is given."""
    return f"{spark_sql(argument.expression)} AS {quoted(argument.name)}" if isinstance(argument, Alias) else spark_sql(argument)


def _constant(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int():
            return f"({value}{'' if -(2**31) <= value < 2**31 else 'L'})"
        case float():
            return f"({value!r}D)" if math.isfinite(value) else f"double('{value}')"
        case decimal.Decimal():
            return f"({value:f}BD)"
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            moment = value.replace(tzinfo=dt.timezone.utc) if value.tzinfo is None else value.astimezone(dt.timezone.utc)
            return f"TIMESTAMP '{moment.strftime('%Y-%m-%d %H:%M:%S.%f').rjust(26, '0')}Z'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case dt.timedelta():
            return f"INTERVAL '{value // dt.timedelta(microseconds=1)}' MICROSECOND"
        case str():
            return f"'{''.join(map(_escaped, value))}'"
    raise UnseenError(f"a constant of type {type(value).__name__}")


def _escaped(character: str) -> str:
    return character if character.isascii() and (character.isalnum() or character in " .-:_%") else f"\\U{ord(character):08x}"
