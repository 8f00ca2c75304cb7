"""
From Catalyst's analysed trees to typed expressions.

Operations say how their classes are read. Here are the classes that are not operations, and the reasons to refuse the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from streamkit.errors import EvaluationError, Location, UnsupportedExpressionError
from streamkit.expressions.arrow import evaluate, refusal
from streamkit.expressions.literals import literal, moment_text, to_json
from streamkit.expressions.operation import TRANSLATIONS, CatalystCall, NoTranslationError
from streamkit.expressions.tree import Node, is_flat
from streamkit.plan.expression import TypedExpression
from streamkit.schema import Schema

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
            "With": self._with,
            "CommonExpressionRef": lambda node, common: common[_common_id(node)],
        }

    def translate(self, node: Node, common: _Context | None = None) -> TypedExpression:
        """The typed expression of a tree."""
        common = common or {}
        if node.name in self._special:
            return self._checked(self._special[node.name](node, common), node)
        translation = TRANSLATIONS.get(node.name)
        if translation is None:
            raise self._unsupported(node, None)
        self._refuse_try(node, translation.has_mode)
        call = CatalystCall(
            node, lambda place: self.translate(node.children[place], common), lambda part: self._checked(part, node)
        )
        try:
            return self._checked(translation.read(call), node)
        except NoTranslationError as refused:
            raise self._unsupported(node, str(refused)) from None

    def _checked(self, expression: TypedExpression, node: Node) -> TypedExpression:
        """The expression, computed now if it is constant; refused if Arrow cannot compute it."""
        if not is_flat(expression.type):
            raise self._unsupported(node, f"its result is {expression.type}, which a column cannot hold")
        if reason := refusal(expression):
            raise self._unsupported(node, reason)
        constant = expression.arguments and all(argument.name == "literal" for argument in expression.arguments)
        return fold(expression) if constant else expression

    def _refuse_try(self, node: Node, has_mode: bool) -> None:
        if has_mode and (mode := node.eval_mode) != "ANSI":
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

    def _with(self, node: Node, common: _Context) -> TypedExpression:
        """An expression over common ones: they are put in their places, and computed once by the evaluation."""
        body, *definitions = node.children
        known = dict(common)
        for definition in definitions:
            known[_common_id(definition)] = self.translate(definition.children[0], known)
        return self.translate(body, known)


def fold(expression: TypedExpression) -> TypedExpression:
    """A constant expression as the literal it is; unchanged if computing it fails, so that only rows that reach it fail."""
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
