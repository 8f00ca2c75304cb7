"""
Analysis: from what the user wrote to typed expressions, by Spark's rules, without a JVM.

Names are resolved without regard to case, every coercion becomes an explicit cast, constant parts are computed. What a function takes and gives
stands beside it, in its family. Messages name what was found, what exists, and the user's line.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pyarrow as pa

from streamkit.data_type import apart_in_any_case, element_of, fields_of, is_nested, normalise_type
from streamkit.errors import EvaluationError, Location, SchemaError, TopologyError, UnsupportedExpressionError
from streamkit.expressions.aggregates import aggregate_named
from streamkit.expressions.analysis.arrow import evaluate, refusal
from streamkit.expressions.analysis.refused_functions import (
    OF_CONTEXT,
    OTHER_AGGREGATES,
    called_aggregates,
    unknown_function,
    unsupported,
)
from streamkit.expressions.core.coercion import CALENDAR_INTERVAL, INTERVALS, cast_to
from streamkit.expressions.core.failing_rows import noted_failures
from streamkit.expressions.core.literals import literal, moment_text, to_json
from streamkit.expressions.core.operation import (
    FUNCTIONS,
    OPERATIONS,
    Argument,
    Invocation,
    NoTranslationError,
    RuleError,
    columns_of,
)
from streamkit.expressions.core.session_zone import in_zone
from streamkit.expressions.python.python_functions import registered
from streamkit.names import HEADERS, RESERVED_COLUMNS, TIMESTAMP
from streamkit.plan.analysis import PLACE_COLUMNS, RECORD_COLUMNS
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import (
    PARAMETER_MARK,
    Alias,
    Call,
    Cast,
    ComputedConstant,
    Expression,
    Lambda,
    Literal,
    PythonCall,
    Reference,
    Scalar,
    SqlText,
    SuffixedNumber,
    TypedAggregate,
    TypedExpression,
)
from streamkit.plan.expression_places import note_place
from streamkit.plan.expression_size import TOO_DEEP, check_size
from streamkit.plan.expression_text import OF_KSQL, expression_text
from streamkit.plan.location import by_language
from streamkit.plan.python_function import CONDITION, PythonFunction
from streamkit.schema import Schema
from streamkit.zone_offsets import moment_micros, offsets_of

_RECORD_COLUMNS = {column.name: column.type for column in RECORD_COLUMNS}
_MAKERS_OF_STRUCTS = ("struct", "arrays_zip")
_PLACE_COLUMNS = {column.name: column.type for column in PLACE_COLUMNS}
_NAMING = {"struct": "named_struct", "arrays_zip": "arrays_zip"}  # functions whose results are named as their arguments are


@dataclass(frozen=True)
class ExpressionAnalyzer:
    """
    Types expressions against the schema of the rows they read.

    `zone` is the time zone in which Spark's session would be; `reads_records` says whether the rows are a stream's, with record columns, and
    `reads_places` whether they are records as they were read, with a partition and an offset.
    """

    zone: str = "UTC"
    reads_records: bool = False
    reads_places: bool = False

    def of_records(self, have_places: bool = False) -> ExpressionAnalyzer:
        """The analyzer for rows of streams; for records as they were read if they `have_places`."""
        return replace(self, reads_records=True, reads_places=have_places)

    @property
    def _record_columns(self) -> Mapping[str, str]:
        """What expressions may read beside the columns of the rows, with types."""
        if not self.reads_records:
            return {}
        return {**_RECORD_COLUMNS, **_PLACE_COLUMNS} if self.reads_places else _RECORD_COLUMNS

    def project(
        self, schema: Schema, columns: Sequence[tuple[str, Expression]], at: Location | None = None
    ) -> tuple[tuple[str, TypedExpression], ...]:
        """Each named expression with its types; TopologyError and UnsupportedExpressionError name the user's line."""
        for name, expression in columns:
            check_size(name, expression, at)
        try:
            return tuple(
                (name, _ExpressionAnalysis(schema, at, self.zone, self._record_columns, expression).result())
                for name, expression in columns
            )
        except RecursionError:
            raise TopologyError(TOO_DEEP, at) from None

    def predicate(self, schema: Schema, expression: Expression, at: Location | None = None) -> TypedExpression:
        """A condition with its types; TopologyError if it is not boolean."""
        ((_, typed),) = self.project(schema, [("condition", expression)], at)
        if typed.type not in ("boolean", "void"):
            raise TopologyError(f"a condition must be boolean; {expression_text(expression)!r} is {typed.type}", at)
        return cast_to(typed, "boolean")

    def aggregates(
        self, schema: Schema, aggregates: Sequence[tuple[str, Expression]], at: Location | None = None
    ) -> tuple[TypedAggregate, ...]:
        """Each named aggregate over any scalar argument; TopologyError if one is not a single aggregate."""
        return tuple(
            _ExpressionAnalysis(schema, at, self.zone, self._record_columns, expression).aggregate(name, expression)
            for name, expression in aggregates
        )


@dataclass(frozen=True)
class _ExpressionAnalysis:
    """
    The analysis of one expression; `scope` holds the parameters of the lambdas around the part that is read.

    Their names are in lower case, unless the lambdas keep the case of names. `clause` is the place of the whole.
    """

    schema: Schema
    at: Location | None
    zone: str
    record_columns: Mapping[str, str]
    whole: Expression
    scope: Mapping[str, TypedExpression] = field(default_factory=dict)
    keeps_case: bool = False
    clause: Location | None = None

    def __post_init__(self) -> None:
        if self.clause is None:
            object.__setattr__(self, "clause", self.at)

    def result(self) -> TypedExpression:
        """The typed expression of the whole; UnsupportedExpressionError if no column can hold its values."""
        typed = self.value(self.whole)
        if typed.type in INTERVALS:
            raise UnsupportedExpressionError(
                f"{self._text()} is an {typed.type}, and no column holds intervals; add it to a date or a time, or extract a part of it",
                self.at,
            )
        return typed

    def value(self, expression: Expression) -> TypedExpression:
        """The typed expression of a tree; errors name the place of the part that is wrong, where that is known."""
        if self.at is not None and (here := self.at.of(expression)) is not self.at:
            return replace(self, at=here).value(expression)
        found = self._typed(expression)
        note_place(self.clause, self.at, found)
        return found

    def _typed(self, expression: Expression) -> TypedExpression:
        match expression:
            case Reference(name):
                return self._column(name)
            case Literal(value):
                return self._constant(value)
            case Alias(inner, _):
                return self.value(inner)
            case SqlText(text):
                return self.value(_parsed(text, self.at))
            case SuffixedNumber(inner, type):
                found = self._cast(inner, type)
                return found.as_written() if isinstance(found, ComputedConstant) else found
            case Cast(inner, type):
                return self._cast(inner, type)
            case PythonCall(function, arguments):
                return self._python(function, arguments)
            case Call(function, arguments) if function.lower() in _NAMING:
                return self.call(_NAMING[function.lower()], tuple(self._named(function.lower(), arguments)))
            case Call(function, arguments):
                return self.call(function, tuple(map(self._argument, arguments)))
        raise TopologyError(f"expected an expression; found {expression!r}", self.at)

    def _named(self, function: str, arguments: Sequence[Expression]) -> Iterator[TypedExpression]:
        """Names and values in turn: a value has the name of its alias, column or field, else one by its place."""
        for place, argument in enumerate(arguments):
            name = result_name(self._bare_call(argument)) or (str(place) if function == "arrays_zip" else f"col{place + 1}")
            yield literal(name, "string")
            yield self.value(argument)

    def _bare_call(self, expression: Expression) -> Expression:
        return _parsed(expression.text, self.at) if isinstance(expression, SqlText) else expression

    def call(self, function: str, arguments: Sequence[Argument]) -> TypedExpression:
        """The typed expression of a call, by the first rule of the function that takes it."""
        rules = FUNCTIONS.get(function.lower())
        if rules is None:
            raise unknown_function(function, self._text(), self.at)
        invocation = Invocation(function, tuple(arguments), self.build, self._bound, self.call, self.zone)
        try:
            for rule in rules:
                typed = rule(invocation)
                if typed is not None:
                    self._check_fields(typed)
                    return self.build(typed)
        except RuleError as error:
            raise TopologyError(f"{error}, in {self._text()}; the columns are {self.schema}", self.at) from None
        except NoTranslationError as error:
            raise self._unsupported(function, str(error)) from None
        raise TopologyError(
            f"{function}() does not take {_types(arguments)}, in {self._text()}; the columns are {self.schema}", self.at
        )

    def _python(self, function: PythonFunction, arguments: Sequence[Expression]) -> TypedExpression:
        """A call of a user's function, which this process then knows by its id; a condition is called with all columns."""
        if function.style == CONDITION and not arguments:
            function = replace(function, parameters=self.schema.names)
            arguments = tuple(map(Reference, self.schema.names))
        return TypedExpression("python", function.type, tuple(map(self.value, arguments)), registered(function))

    def build(self, expression: TypedExpression) -> TypedExpression:
        """The expression, computed now if it is constant; refused if it cannot be evaluated."""
        if self.zone != "UTC":
            try:
                expression = in_zone(expression, self.zone, self.build)
            except NoTranslationError as error:
                raise self._unsupported(expression.name, str(error)) from None
        if reason := refusal(expression):
            raise self._unsupported(expression.name, reason)
        if (
            not expression.arguments
            or is_nested(expression.type)
            or expression.type == CALENDAR_INTERVAL
            or columns_of(expression)
        ):
            return expression
        return fold(expression)

    def aggregate(self, name: str, expression: Expression) -> TypedAggregate:
        """The aggregate that a tree is; it must be one function over columns of the row, and nothing around it."""
        text = expression_text(expression)
        call = self._bare(expression)
        if not isinstance(call, Call) or (function := aggregate_named(call.function)) is None:
            if isinstance(call, Call) and call.function.lower() in OTHER_AGGREGATES:
                raise UnsupportedExpressionError(
                    f"the aggregate {text!r} has no incremental state; expected one of {called_aggregates()}", self.at
                )
            raise TopologyError(_no_aggregate(text), self.at)
        arguments = tuple(map(self._argument, call.arguments))
        most = max(function.arity, function.arity_max or 0)
        if not function.arity <= len(arguments) <= most:
            expected = str(most) if most == function.arity else f"{function.arity} to {most}"
            raise UnsupportedExpressionError(
                f"the aggregate {text!r} has {len(arguments)} arguments; expected {expected}", self.at
            )
        invocation = Invocation(call.function, arguments, self.build, self._bound, self.call, self.zone)
        try:
            argument, type = function.typed(invocation)
        except RuleError as error:
            raise TopologyError(f"{error}, in {text}; the columns are {self.schema}", self.at) from None
        except NoTranslationError as error:
            raise UnsupportedExpressionError(f"{error}, in {text}", self.at) from None
        every_row = function.name == "count" and argument.name == "literal" and argument.value is not None
        return TypedAggregate(
            name, function.name, type, None if every_row else argument, function.is_nullable, function.is_ordered
        )

    def _bare(self, expression: Expression) -> Expression:
        while isinstance(expression, (Alias, SqlText)):
            expression = _parsed(expression.text, self.at) if isinstance(expression, SqlText) else expression.expression
        return expression

    def _argument(self, expression: Expression) -> Argument:
        return expression if isinstance(expression, Lambda) else self.value(expression)

    def _bound(self, function: Lambda, types: Sequence[str]) -> TypedExpression:
        """A lambda over elements of these types; RuleError if it has more parameters than there are."""
        if len(function.parameters) > len(types):
            raise RuleError(f"the lambda has {len(function.parameters)} parameters; expected at most {len(types)}")
        depth = len(self.scope)
        inner = {
            name: TypedExpression("column", type, (), f"{name}{PARAMETER_MARK}{depth + place}")
            for place, (name, type) in enumerate(zip(function.parameters, types))
        }
        scope = {**self.scope, **{function.folded(name): variable for name, variable in inner.items()}}
        body = replace(self, scope=scope, keeps_case=function.keeps_case).value(function.body)
        return TypedExpression("lambda", body.type, (body,), ",".join(variable.value for variable in inner.values()))

    def _column(self, name: str) -> TypedExpression:
        """A parameter of a lambda around, a column, or a field of a struct within one (`a.b`)."""
        if found := self._find(name):
            return found
        parts = parts_of(name)
        if parts[-1] == "*":
            raise TopologyError(
                f"{name!r} stands for columns only as a text in select(…); expected their names, one by one", self.at
            )
        for end in range(len(parts), 0, -1):
            if found := self._find(".".join(parts[:end])):
                for part in parts[end:]:
                    found = self.call("get_field", (found, literal(part, "string")))
                return found
        if name.lower() in OF_CONTEXT:
            raise unknown_function(name, self._text(), self.at)  # current_date without parentheses
        if name.lower() in RESERVED_COLUMNS:
            return self._record_column(name.lower())
        raise TopologyError(f"there is no column {name!r}; the columns are {', '.join(self.schema.names)}", self.at)

    def _record_column(self, name: str) -> TypedExpression:
        """What a stream's record has beside its columns: its event time, its place, or its headers, an array without elements if it has none."""
        if name not in self.record_columns:
            raise TopologyError(self._why_unreadable(name), self.at)
        if name == TIMESTAMP:
            return self.call("timestamp_millis", (TypedExpression("column", "bigint", (), TIMESTAMP),))
        type = self.record_columns[name]  # what is computed is no column of the rows' own, which a step could pass on
        otherwise = self.call("array", ()) if name == HEADERS else literal(-1, type)
        return self.call("coalesce", (TypedExpression("column", type, (), name), otherwise))

    def _why_unreadable(self, name: str) -> str:
        if name in _PLACE_COLUMNS and self.record_columns:
            example = by_language(
                self.at,
                f"where the topic is read, as in app.stream(…).with_columns(place=F.col({name!r}))",
                f"in a query of the topic's stream, as in SELECT {name} AS place",
            )
            return f"{name} is where a record was read, and these rows are no records but results; expected it {example}"
        if name not in _RECORD_COLUMNS and name not in _PLACE_COLUMNS:
            return (
                f"{name} cannot be read by an expression; {' and '.join((*_RECORD_COLUMNS, *_PLACE_COLUMNS))} of a stream can"
                + by_language(self.at, ", and a processor has the rest: context.record_metadata", "")
            )
        example = by_language(
            self.at,
            f"before the table, as in stream.with_columns(at=F.col({name!r})), or behind to_stream()",
            f"in a query of the stream that the table is made of, as in SELECT {name} AS at",
        )
        return f"{name} is a column of a stream's records, and this is a table; expected it {example}"

    def _find(self, name: str) -> TypedExpression | None:
        if variable := self.scope.get(name if self.keeps_case else name.lower()):
            return variable
        found = self.schema.spelt(name)
        if len(found) > 1:
            names = ", ".join(column.name for column in found)
            raise TopologyError(
                f"{name!r} may be any of the columns {names}, which differ in case only; expected one of these spellings", self.at
            )
        return TypedExpression("column", found[0].type, (), found[0].name) if found else None

    def _constant(self, value: Scalar) -> TypedExpression:
        try:
            return constant(value, self.zone)
        except ValueError as error:
            raise TopologyError(str(error), self.at) from None

    def _cast(self, inner: Expression, type: str) -> TypedExpression:
        try:
            wanted = normalise_type(type)
            if self.at is not None and not self.at.keeps_case:
                apart_in_any_case(wanted)
        except SchemaError as error:
            raise TopologyError(f"{error}, in {self._text()}", self.at) from None
        return self.build(self._checked_cast(self.value(inner), wanted))

    def _checked_cast(self, value: TypedExpression, type: str) -> TypedExpression:
        cast = cast_to(value, type)
        if cast is not value and cast.name == "cast" and (reason := OPERATIONS["cast"].refuse(cast)):
            raise TopologyError(f"cannot cast {value.type} to {type}: {reason}, in {self._text()}", self.at)
        return cast

    def _check_fields(self, typed: TypedExpression) -> None:
        """TopologyError if a struct is made whose fields differ in case only; one that a column has is passed on."""
        if typed.name not in _MAKERS_OF_STRUCTS or self.at is None or self.at.keeps_case:
            return
        names = [name for name, _ in fields_of(element_of(typed.type) or typed.type) or ()]
        if len({name.lower() for name in names}) < len(names):
            raise RuleError(f"the fields of a struct are {', '.join(names)}, which differ in case only; expected distinct names")

    def _unsupported(self, function: str, reason: str) -> UnsupportedExpressionError:
        return unsupported(function, self._text(), reason, self.at)

    def _text(self) -> str:
        return expression_text(self.whole)


def is_function(name: str) -> bool:
    """Whether people can call a name of a row's columns; the functions of ksqlDB are for its dialect alone."""
    return (name.lower() in FUNCTIONS or name.lower() in _NAMING) and not name.lower().startswith(OF_KSQL)


def check_functions(expression: Expression) -> None:
    """TopologyError for a function that there is not, whatever the columns are."""
    match expression:
        case Call(function, arguments):
            if function.lower() not in _NAMING and function.lower() not in FUNCTIONS:
                raise unknown_function(function, expression_text(expression), None)
            parts = arguments
        case Cast(inner, _) | Alias(inner, _):
            parts = (inner,)
        case Lambda(_, body):
            parts = (body,)
        case _:
            return
    for part in parts:
        check_functions(part)


def result_name(expression: Expression) -> str | None:
    """The name that a value brings along: its alias, or that of the column or field it is."""
    match expression:
        case Alias(_, name):
            return name
        case Reference(name):
            return parts_of(name)[-1]
        case Call("get_field", (_, Literal(str() as name))):
            return name
    return None


def fold(expression: TypedExpression) -> TypedExpression:
    """A constant expression as the literal it is; unchanged if it or a part of it fails, so that only rows that reach it fail."""
    with noted_failures() as failures:
        try:
            found = evaluate(expression, _one_row())[0]
        except EvaluationError:
            return expression
    return expression if failures else ComputedConstant.of(literal(to_json(found, expression.type), expression.type))


def _parsed(text: str, at: Location | None) -> Expression:
    """The expression that an SQL text is; the parser is loaded for the first of them."""
    from streamkit.expressions.analysis.sql import parse_sql

    return parse_sql(text, at)


@cache
def _one_row() -> pa.RecordBatch:
    """A row for what reads no column; Arrow loads pandas with its first array, for which a program without constants need not wait."""
    return pa.record_batch([pa.array([0])], names=["_"])


def constant(value: Scalar, zone: str = "UTC") -> TypedExpression:
    """A Python value as a typed constant; a datetime without zone is in the session's. ValueError if no type holds it."""
    if isinstance(value, dt.datetime) and value.tzinfo is None and zone != "UTC":
        return _local_moment(value, zone)
    for kind, typed in _CONSTANTS.items():
        if isinstance(value, kind):
            return typed(value)
    if value is None:
        return literal(None, "void")
    raise ValueError(f"a value of type {type(value).__name__} cannot be a constant")


def _integer(value: int) -> TypedExpression:
    return literal(value, "int" if -(2**31) <= value < 2**31 else "bigint")


def _decimal(value: decimal.Decimal) -> TypedExpression:
    if not value.is_finite():
        raise ValueError(f"the number {value} cannot be a decimal; write it as float")
    _sign, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), scale, 1)
    if precision > 38:
        raise ValueError(f"the number {value} has {precision} digits; expected at most 38")
    return literal(f"{value:f}", f"decimal({precision},{scale})")


def _moment(value: dt.datetime) -> TypedExpression:
    moment = value.replace(tzinfo=dt.timezone.utc) if value.tzinfo is None else value.astimezone(dt.timezone.utc)
    return literal(moment.strftime("%Y-%m-%dT%H:%M:%S.%f").rjust(26, "0"), "timestamp")


def _local_moment(value: dt.datetime, zone: str) -> TypedExpression:
    local = np.array([np.datetime64(value, "us").astype(np.int64)])
    return literal(moment_text(int(moment_micros(local, offsets_of(zone))[0]), "timestamp"), "timestamp")


def _interval(value: dt.timedelta) -> TypedExpression:
    return literal(value // dt.timedelta(microseconds=1), "interval day to second")


_CONSTANTS: dict[type, Callable[..., TypedExpression]] = {  # bool before int, datetime before date
    bool: lambda value: literal(value, "boolean"),
    int: _integer,
    float: lambda value: literal(to_json(pa.scalar(value), "double"), "double"),
    str: lambda value: literal(value, "string"),
    bytes: lambda value: literal(value.hex(), "binary"),
    decimal.Decimal: _decimal,
    dt.datetime: _moment,
    dt.date: lambda value: literal(value.isoformat(), "date"),
    dt.timedelta: _interval,
}


def _no_aggregate(text: str) -> str:
    return (
        f"expected one aggregate ({called_aggregates()}) as such; found {text}: a value of the rows needs one around it, as in max(…), or belongs "
        "to group_by(…); what is made of results belongs in a later select"
    )


def _types(arguments: Sequence[Argument]) -> str:
    return ", ".join("a lambda" if isinstance(argument, Lambda) else argument.type for argument in arguments) or "no arguments"
