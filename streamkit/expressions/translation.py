"""From Catalyst's analysed trees to typed expressions: every class that has a translation, and the reason where none has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from streamkit.errors import EvaluationError, Location, UnsupportedExpressionError
from streamkit.expressions.arrow import evaluate, refusal
from streamkit.expressions.literals import literal, moment_text, to_json
from streamkit.expressions.tree import Node, is_flat
from streamkit.plan.expression import TypedExpression
from streamkit.schema import Schema

SAME_ARGUMENTS = {
    "EqualTo": "eq", "EqualNullSafe": "eq_null_safe", "LessThan": "lt", "LessThanOrEqual": "le", "GreaterThan": "gt",
    "GreaterThanOrEqual": "ge", "And": "and", "Or": "or", "Not": "not", "IsNull": "isnull", "IsNotNull": "isnotnull", "IsNaN": "isnan",
    "Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Divide": "divide", "Remainder": "remainder", "Pmod": "pmod",
    "IntegralDivide": "integral_divide", "UnaryMinus": "negate", "UnaryPositive": "positive", "Abs": "abs",
    "Coalesce": "coalesce", "If": "case", "CaseWhen": "case", "In": "in", "Greatest": "greatest", "Least": "least",
    "Upper": "upper", "Lower": "lower", "StringTrim": "trim", "StringTrimLeft": "ltrim", "StringTrimRight": "rtrim",
    "Substring": "substring", "Length": "length", "Concat": "concat", "ConcatWs": "concat_ws", "Like": "like", "RLike": "rlike",
    "StartsWith": "startswith", "EndsWith": "endswith", "Contains": "contains",
    "Year": "year", "Quarter": "quarter", "Month": "month", "DayOfMonth": "dayofmonth", "DayOfWeek": "dayofweek", "WeekDay": "weekday",
    "DayOfYear": "dayofyear", "WeekOfYear": "weekofyear", "Hour": "hour", "Minute": "minute", "Second": "second",
    "TruncTimestamp": "date_trunc", "TruncDate": "trunc", "DateAdd": "date_add", "DateSub": "date_sub", "DateDiff": "datediff",
    "UnixSeconds": "unix_seconds", "UnixMillis": "unix_millis", "UnixMicros": "unix_micros", "UnixDate": "unix_date",
    "DateFromUnixDate": "date_from_unix_date", "SecondsToTimestamp": "timestamp_seconds", "MillisToTimestamp": "timestamp_millis",
    "MicrosToTimestamp": "timestamp_micros",
}  # fmt: skip
EVALUATED_BY_MODE = frozenset(("Add", "Subtract", "Multiply", "Divide", "Remainder", "Pmod", "IntegralDivide", "Cast"))
REPLACED = frozenset(("Between", "Nvl", "NullIf", "Nvl2", "StringTrimBoth", "DatetimeSub"))
CONTEXT_BOUND = frozenset((
    "Rand", "Randn", "RandStr", "Uniform", "Uuid", "Shuffle", "MonotonicallyIncreasingID", "SparkPartitionID", "CurrentTimestamp", "Now",
    "LocalTimestamp", "CurrentDate", "CurrentTime", "CurrentTimeZone", "CurrentUser", "CurrentDatabase", "CurrentCatalog", "InputFileName",
    "InputFileBlockStart", "InputFileBlockLength", "SparkVersion", "CurDateExpressionBuilder",
))  # fmt: skip
SUBQUERIES = frozenset(("ScalarSubquery", "Exists", "InSubquery", "ListQuery", "OuterReference", "LateralSubquery"))
_EMPTY_ROW = pa.record_batch([pa.array([0])], names=["_"])
_Context = Mapping[int, TypedExpression]  # common expressions by id


class Translator:
    """Turns analysed trees into typed expressions; UnsupportedExpressionError names what has no translation, and the line."""

    def __init__(self, schema: Schema, at: Location | None) -> None:
        self.at = at
        self._names = {name.lower(): name for name in schema.names}
        self._special: dict[str, Callable[[Node, _Context], TypedExpression]] = {
            "Alias": lambda node, common: self.translate(node.children[0], common),
            "AttributeReference": self._column,
            "Literal": self._literal,
            "TypedNullLiteral": lambda node, _common: literal(None, node.type),
            "Cast": self._cast,
            "With": self._with,
            "CommonExpressionRef": lambda node, common: common[_common_id(node)],
            "Like": self._like,
            "ILike": self._ilike,
            "Left": self._left,
            "Right": self._right,
            "ParseToDate": self._parse,
            "ParseToTimestamp": self._parse,
            "UnixTimestamp": self._unix_timestamp,
            "ToUnixTimestamp": self._unix_timestamp,
            "TimestampAddInterval": self._add_interval,
        }

    def translate(self, node: Node, common: _Context | None = None) -> TypedExpression:
        """The typed expression of a tree."""
        common = common or {}
        if node.name in self._special:
            return self._checked(self._special[node.name](node, common), node)
        if node.name in REPLACED:
            return self.translate(node.children[0], common)
        if node.name not in SAME_ARGUMENTS:
            raise self._unsupported(node, None)
        self._refuse_try(node)
        arguments = tuple(self.translate(child, common) for child in node.children)
        return self._checked(TypedExpression(SAME_ARGUMENTS[node.name], node.type, arguments), node)

    def _checked(self, expression: TypedExpression, node: Node) -> TypedExpression:
        """The expression, computed now if it is constant; refused if Arrow cannot compute it."""
        if not is_flat(expression.type):
            raise self._unsupported(node, f"its result is {expression.type}, which a column cannot hold")
        if reason := refusal(expression):
            raise self._unsupported(node, reason)
        constant = expression.arguments and all(argument.name == "literal" for argument in expression.arguments)
        return fold(expression) if constant else expression

    def _refuse_try(self, node: Node) -> None:
        if node.name in EVALUATED_BY_MODE and (mode := node.eval_mode) != "ANSI":
            raise self._unsupported(node, f"its mode of evaluation is {mode}, and only ANSI has an Arrow translation")
        if node.fields.get("failOnError") is False or node.fields.get("ansiEnabled") is False:
            raise self._unsupported(node, "it gives null where ANSI rules would fail, which has no Arrow translation")

    def _unsupported(self, node: Node, reason: str | None) -> UnsupportedExpressionError:
        function = node.name if node.name in SUBQUERIES else str(node.java.prettyName()).lower()
        text = str(node.java.sql())
        if node.name in CONTEXT_BOUND:
            reason = "its value depends on when or where it runs, so the same input would not give the same output"
        elif node.name in SUBQUERIES:
            reason = "an expression sees the row only; join with a table instead"
        return UnsupportedExpressionError(
            f"{function} cannot be used in {text}: {reason or 'it has no Arrow translation'}", self.at
        )

    def _column(self, node: Node, _common: _Context) -> TypedExpression:
        return TypedExpression("column", node.type, (), self._names[node.fields["name"].lower()])

    def _literal(self, node: Node, _common: _Context) -> TypedExpression:
        return literal(_literal_value(node), node.type) if is_flat(node.type) else TypedExpression("literal", node.type)

    def _cast(self, node: Node, common: _Context) -> TypedExpression:
        self._refuse_try(node)
        return cast_to(self.translate(node.children[0], common), node.type)

    def _with(self, node: Node, common: _Context) -> TypedExpression:
        """An expression over common ones: they are put in their places, and computed once by the evaluation."""
        body, *definitions = node.children
        known = dict(common)
        for definition in definitions:
            known[_common_id(definition)] = self.translate(definition.children[0], known)
        return self.translate(body, known)

    def _like(self, node: Node, common: _Context) -> TypedExpression:
        text, pattern = (self.translate(child, common) for child in node.children)
        return TypedExpression("like", "boolean", (text, pattern, literal(str(node.java.escapeChar()), "string")))

    def _ilike(self, node: Node, common: _Context) -> TypedExpression:
        text, pattern = (self._lower(self.translate(child, common)) for child in node.children)
        return TypedExpression("like", "boolean", (text, pattern, literal(str(node.java.escapeChar()), "string")))

    def _left(self, node: Node, common: _Context) -> TypedExpression:
        text, length = (self.translate(child, common) for child in node.children)
        return TypedExpression("substring", node.type, (text, literal(1, "int"), length))

    def _right(self, node: Node, common: _Context) -> TypedExpression:
        text, length = (self.translate(child, common) for child in node.children)
        if length.name != "literal":
            raise self._unsupported(node, "its length must be a constant")
        start = None if length.value is None else -max(length.value, 0)
        return TypedExpression("substring", node.type, (text, literal(start, "int"), length))

    def _lower(self, text: TypedExpression) -> TypedExpression:
        lower = TypedExpression("lower", "string", (text,))
        return fold(lower) if text.name == "literal" else lower

    def _parse(self, node: Node, common: _Context) -> TypedExpression:
        """to_date and to_timestamp: a cast, or the reading of a text by a format."""
        self._refuse_try(node)
        value = self.translate(node.children[0], common)
        if len(node.children) == 1 or value.type != "string":
            return cast_to(value, node.type)
        parsed_type = "timestamp" if node.type == "date" else node.type
        return cast_to(self._by_format(value, node.children[1], parsed_type, common), node.type)

    def _by_format(self, value: TypedExpression, format: Node, type: str, common: _Context) -> TypedExpression:
        parsed = TypedExpression("parse_timestamp", type, (value, self.translate(format, common)))
        return self._checked(parsed, format.parent[0])

    def _unix_timestamp(self, node: Node, common: _Context) -> TypedExpression:
        self._refuse_try(node)
        value = self.translate(node.children[0], common)
        if value.type == "string":
            value = self._by_format(value, node.children[1], "timestamp", common)
        return TypedExpression("unix_timestamp", "bigint", (value,))

    def _add_interval(self, node: Node, common: _Context) -> TypedExpression:
        """A timestamp and a constant interval of days to seconds, in microseconds."""
        start, interval = node.children
        sign = 1
        while interval.name == "UnaryMinus":
            interval, sign = interval.children[0], -sign
        if (
            interval.name != "Literal"
            or not interval.fields["dataType"].startswith("interval ")
            or interval.fields["value"] is None
        ):
            raise self._unsupported(node, "its interval is not constant")
        if any(unit in interval.fields["dataType"] for unit in ("year", "month")):
            raise self._unsupported(node, "an interval of months or years has no Arrow translation")
        moved = literal(sign * int(interval.fields["value"]), "bigint")
        return TypedExpression("add_microseconds", node.type, (self.translate(start, common), moved))


def cast_to(expression: TypedExpression, type: str) -> TypedExpression:
    """The expression as another type; itself if it has that type."""
    return expression if expression.type == type else TypedExpression("cast", type, (expression,))


def fold(expression: TypedExpression) -> TypedExpression:
    """A constant expression as the literal it is; as it stands if computing it fails: the error belongs to the rows that reach it."""
    try:
        return literal(to_json(evaluate(expression, _EMPTY_ROW)[0], expression.type), expression.type)
    except EvaluationError:
        return expression


def _common_id(node: Node) -> int:
    return int(node.java.id().id())


def _literal_value(node: Node) -> Any:
    """The value as `literals.to_json` writes it; what JSON shows inexactly is asked of the JVM."""
    value, type = node.fields["value"], node.type
    if value is None:
        return None
    if type == "boolean":
        return value in (True, "true")
    if type in ("float", "double"):
        return to_json(pa.scalar(float(value)), type)
    if type in ("date", "timestamp", "timestamp_ntz"):
        return moment_text(int(node.java.value()), type)
    if type == "binary":
        return bytes(node.java.value()).hex()
    return str(value) if type == "string" or type.startswith("decimal") else int(value)
