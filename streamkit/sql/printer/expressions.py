"""Expressions as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streamkit.expressions.sql.dialect import UNIT_ARGUMENTS, Dialect
from streamkit.expressions.sql.expression_reader import UNIT_FUNCTIONS
from streamkit.expressions.sql.literal_reader import INTERVAL_UNITS
from streamkit.expressions.sql.special_calls import TRIMS, UNITS, WITH_UNIT
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
    SuffixedNumber,
)
from streamkit.sql.printer.names import column_text, function_text, literal_text, name_text, quoted_name, text_literal, type_text

OR, AND, NOT, PREDICATE, COMPARISON = range(5)  # how tightly a text binds; operators between values follow COMPARISON
SIGNED, PRIMARY = 98, 99
SUFFIXES = {"bigint": "L", "smallint": "S", "tinyint": "Y"}


class _Text(NamedTuple):
    """A text, and how tightly it binds."""

    text: str
    level: int


def expression_in(expression: Expression, dialect: Dialect) -> str:
    """The text of an expression; TypeError if the dialect cannot say it."""
    return _ExpressionPrinter(dialect).text(expression).text


def operand_in(expression: Expression, dialect: Dialect) -> str:
    """The text of an expression that something may be behind, such as `->*`: in parentheses unless it needs none."""
    return _ExpressionPrinter(dialect).bound(expression, PRIMARY)


class _ExpressionPrinter:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._signs = {operator.function: (sign, COMPARISON + operator.level) for sign, operator in dialect.operators.items()}
        self._unary = {function: sign for sign, function in dialect.unary.items()}

    def bound(self, expression: Expression, level: int) -> str:
        """The text of an expression, in parentheses if it binds less tightly than its place."""
        found = self.text(expression)
        return found.text if found.level >= level else f"({found.text})"

    def listed(self, expressions: Sequence[Expression]) -> str:
        return ", ".join(self.text(one).text for one in expressions)

    def text(self, expression: Expression) -> _Text:
        dialect = self._dialect
        match expression:
            case Reference(name):
                return _Text(column_text(name, dialect), PRIMARY)
            case Literal(value):
                return _Text(literal_text(value, dialect), SIGNED if _is_negative(value) else PRIMARY)
            case SuffixedNumber(Literal(int(value)), type) if dialect.has_escapes:
                return _Text(f"{value}{SUFFIXES[type]}", SIGNED if _is_negative(value) else PRIMARY)
            case Cast(inner, type):
                return _Text(f"CAST({self.text(inner).text} AS {type_text(type, dialect)})", PRIMARY)
            case Alias(inner, name):
                return _Text(f"{self.text(inner).text} AS {name_text(name, dialect)}", OR)
            case Lambda(parameters, body):
                return self._lambda(parameters, body)
            case Call(function, arguments):
                return self._call(function, arguments)
            case PythonCall(function, arguments):
                return _Text(f"{name_text(function.name, dialect)}({self.listed(arguments)})", PRIMARY)
            case SqlText(text):
                return _Text(f"({text})", PRIMARY)
        raise TypeError(f"no expression: {expression!r}")

    def _lambda(self, parameters: Sequence[str], body: Expression) -> _Text:
        names = ", ".join(name_text(name, self._dialect) for name in parameters)
        arrow = "=>" if self._dialect.has_arrows else "->"
        return _Text(f"{names if len(parameters) == 1 else f'({names})'} {arrow} {self.text(body).text}", OR)

    def _call(self, function: str, arguments: tuple[Expression, ...]) -> _Text:
        if any(isinstance(one, Lambda) for one in arguments):
            return self._plain(function, arguments)  # a lambda is an argument of a call alone
        if function in self._signs and len(arguments) == 2:
            return self._binary(*self._signs[function], *arguments)
        if function in self._unary and len(arguments) == 1:
            return self._signed(self._unary[function], arguments[0])
        if function in ("and", "or") and len(arguments) == 2:
            return self._chain(function, arguments)
        return self._predicate(function, arguments) or self._special(function, arguments) or self._plain(function, arguments)

    def _binary(self, sign: str, level: int, left: Expression, right: Expression) -> _Text:
        left_level = level if level > COMPARISON else level + 1
        return _Text(f"{self.bound(left, left_level)} {sign} {self.bound(right, level + 1)}", level)

    def _signed(self, sign: str, inner: Expression) -> _Text:
        text = self.bound(inner, SIGNED)
        if text[0] in "-+":
            return _Text(f"{sign} {text}", SIGNED)  # two signs side by side begin a comment
        return _Text(f"{sign}({text})" if text[0] in ".0123456789" else f"{sign}{text}", SIGNED)

    def _chain(self, function: str, arguments: tuple[Expression, ...]) -> _Text:
        """AND or OR of several; parts in parentheses where the reader would make another tree of the chain."""
        level = AND if function == "and" else OR
        parts = _chained(function, Call(function, arguments))
        if not _is_halved(function, Call(function, arguments), len(parts)):
            parts = list(arguments)
        return _Text(f" {function.upper()} ".join(self.bound(part, level + 1) for part in parts), level)

    def _predicate(self, function: str, arguments: tuple[Expression, ...]) -> _Text | None:
        """BETWEEN, IN, LIKE, IS and NOT."""
        if function == "not" and len(arguments) == 1:
            inner = arguments[0]
            negated = self._tested(inner.function, inner.arguments, "NOT ") if isinstance(inner, Call) else None
            return negated or _Text(f"NOT {self.bound(inner, NOT)}", NOT)
        if function in ("isnull", "isnotnull") and len(arguments) == 1:
            return _Text(f"{self.bound(arguments[0], COMPARISON + 1)} IS {'NOT ' * (function == 'isnotnull')}NULL", PREDICATE)
        return self._tested(function, arguments, "")

    def _tested(self, function: str, arguments: tuple[Expression, ...], negation: str) -> _Text | None:
        """A predicate that NOT may be in, if it is one."""
        key = "RLIKE" if function == "rlike" else function.upper()
        if function == "eq_null_safe" and len(arguments) == 2 and (negation or "<=>" not in self._dialect.operators):
            left, right = (self.bound(one, COMPARISON + 1) for one in arguments)
            return _Text(f"{left} IS {'' if negation else 'NOT '}DISTINCT FROM {right}", PREDICATE)
        if key not in self._dialect.predicates or not _is_predicate(function, arguments):
            return None
        if function == "in":
            members = self.listed(arguments[1:])
            return _Text(f"{self.bound(arguments[0], COMPARISON + 1)} {negation}IN ({members})", PREDICATE)
        value, *rest = (self.bound(one, COMPARISON + 1) for one in arguments)
        if function == "between":
            return _Text(f"{value} {negation}BETWEEN {rest[0]} AND {rest[1]}", PREDICATE)
        if rest[0].upper().startswith(("ANY(", "SOME(")):
            rest[0] = f"({rest[0]})"  # LIKE ANY (…) means another thing
        return _Text(f"{value} {negation}{key} {' ESCAPE '.join(rest)}", PREDICATE)

    def _special(self, function: str, arguments: tuple[Expression, ...]) -> _Text | None:
        """What is written in a way of its own."""
        if function == "when" and len(arguments) >= 2:
            return self._case(arguments)
        if function == "get_item" and len(arguments) == 2:
            index = self.bound(arguments[1], COMPARISON)
            return _Text(f"{self.bound(arguments[0], PRIMARY)}[{index}]", PRIMARY)
        if function == "get_field" and len(arguments) == 2 and isinstance(name := _constant(arguments[1]), str) and name:
            return self._field(arguments[0], name)
        return self._of_ksql(function, arguments) if self._dialect.has_arrows else self._of_spark(function, arguments)

    def _field(self, value: Expression, name: str) -> _Text | None:
        if self._dialect.has_arrows:
            return _Text(f"{self.bound(value, PRIMARY)}->{name_text(name, self._dialect)}", PRIMARY)
        if isinstance(value, Reference):
            return None  # that is another name
        text = self.bound(value, PRIMARY)
        text = f"({text})" if text[-1].isalnum() and text[0].isdigit() else text  # a point behind a number is a part of it
        return _Text(f"{text}.{name_text(name, self._dialect)}", PRIMARY)

    def _case(self, arguments: tuple[Expression, ...]) -> _Text:
        pairs = [
            f"WHEN {self.text(condition).text} THEN {self.text(value).text}"
            for condition, value in zip(arguments[::2], arguments[1::2])
        ]
        last = f" ELSE {self.text(arguments[-1]).text}" if len(arguments) % 2 else ""
        return _Text(f"CASE {' '.join(pairs)}{last} END", PRIMARY)

    def _of_ksql(self, function: str, arguments: tuple[Expression, ...]) -> _Text | None:
        if function == "array":
            return _Text(f"ARRAY[{self.listed(arguments)}]", PRIMARY)
        if function == "map" and len(arguments) % 2 == 0:
            pairs = zip(arguments[::2], arguments[1::2])
            return _Text(
                "MAP({})".format(", ".join(f"{self.text(key).text} := {self.text(value).text}" for key, value in pairs)), PRIMARY
            )
        if function == "struct" and all(isinstance(one, Alias) for one in arguments):
            fields = [one for one in arguments if isinstance(one, Alias)]
            texts = [f"{name_text(one.name, self._dialect)} := {self.text(one.expression).text}" for one in fields]
            return _Text(f"STRUCT({', '.join(texts)})", PRIMARY)
        if function == "at_time_zone" and len(arguments) == 2 and isinstance(zone := _constant(arguments[1]), str):
            return _Text(f"{self.bound(arguments[0], PRIMARY)} AT TIME ZONE {text_literal(zone, self._dialect)}", SIGNED)
        if arguments and (unit := self._unit(function, arguments)) is not None:
            rest = self.listed(arguments[1:])
            return _Text(f"{function.upper()}({unit}{f', {rest}' if rest else ''})", PRIMARY)
        return None

    def _unit(self, function: str, arguments: tuple[Expression, ...]) -> str | None:
        """The unit that is the first argument of a function that wants one."""
        unit = _constant(arguments[0])
        if not isinstance(unit, str) or function.upper() not in UNIT_FUNCTIONS:
            return None
        return unit if unit in UNIT_ARGUMENTS or (f"{unit}S" in UNIT_ARGUMENTS and len(arguments) > 1) else None

    def _of_spark(self, function: str, arguments: tuple[Expression, ...]) -> _Text | None:
        constants = [_constant(one) for one in arguments]
        if function == "interval" and len(constants) in (1, 2) and all(isinstance(one, str) for one in constants):
            unit = str(constants[1]) if len(constants) == 2 else ""
            if not unit or set(unit.split(" TO ")) <= set(INTERVAL_UNITS):
                return _Text(f"INTERVAL {text_literal(str(constants[0]), self._dialect)}{f' {unit}' if unit else ''}", PRIMARY)
        if function == "try_cast" and len(arguments) == 2 and isinstance(constants[1], str):
            return _Text(f"TRY_CAST({self.text(arguments[0]).text} AS {type_text(constants[1], self._dialect)})", PRIMARY)
        if function in WITH_UNIT.values() and len(constants) == 3 and constants[0] in UNITS:
            values = [self.bound(one, COMPARISON) for one in arguments[1:]]
            return _Text(f"{function}({constants[0]}, {', '.join(values)})", PRIMARY)
        return None

    def _plain(self, function: str, arguments: tuple[Expression, ...]) -> _Text:
        """A call as any other; the name in backticks where the function has a way of its own to be written."""
        dialect, key = self._dialect, function.upper()
        if function == "count" and arguments == (Literal(1),):
            return _Text("COUNT(*)" if dialect.has_arrows else "count(*)", PRIMARY)
        if dialect.has_escapes and function in ("trim", "ltrim", "rtrim") and len(arguments) == 2:
            arguments = arguments[::-1]  # SQL has the characters first
        name, first = function_text(function, dialect), arguments[0] if arguments else None
        level = OR
        if key in dialect.special_calls and isinstance(first, Lambda):
            name = quoted_name(function)
        elif key in dialect.special_calls:
            level = COMPARISON  # behind the first argument IN, FROM and the like would mean something else
        texts = [self.bound(one, OR if place else level) for place, one in enumerate(arguments)]
        if first is not None and self._reads_as_unit(key, first):
            texts[0] = f"({texts[0]})"
        return _Text(f"{name}({', '.join(texts)})", PRIMARY)

    def _reads_as_unit(self, function: str, argument: Expression) -> bool:
        """Whether a column would be read as a unit of time."""
        if not isinstance(argument, Reference) or len(parts := parts_of(argument.name)) > 1:
            return False
        key = parts[0].upper()
        if self._dialect.has_arrows:
            return function in UNIT_FUNCTIONS and f"{key}S" in UNIT_ARGUMENTS
        return (function in WITH_UNIT and key in UNITS) or (function == "TRIM" and key in TRIMS)


def _constant(expression: Expression) -> object:
    return expression.value if isinstance(expression, Literal) else None


def _is_negative(value: object) -> bool:
    return not isinstance(value, (str, bytes)) and str(value).startswith("-")


def _is_predicate(function: str, arguments: Sequence[Expression]) -> bool:
    """Whether a call has as many arguments as the predicate that it is written as."""
    match function:
        case "between":
            return len(arguments) == 3
        case "in":
            return len(arguments) >= 2
    if len(arguments) == 3 and function != "rlike":  # LIKE … ESCAPE 'c'
        return isinstance(escape := _constant(arguments[2]), str) and len(escape) == 1
    return len(arguments) == 2


def _chained(function: str, expression: Expression) -> list[Expression]:
    """The parts of a chain of AND or OR."""
    if isinstance(expression, Call) and expression.function == function and len(expression.arguments) == 2:
        return [part for argument in expression.arguments for part in _chained(function, argument)]
    return [expression]


def _is_halved(function: str, expression: Expression, parts: int) -> bool:
    """Whether a chain has the tree that the reader makes of so many parts."""
    if parts == 1:
        return True
    if not (isinstance(expression, Call) and expression.function == function and len(expression.arguments) == 2):
        return False
    middle = (parts + 1) // 2
    left, right = expression.arguments
    return (
        len(_chained(function, left)) == middle
        and _is_halved(function, left, middle)
        and _is_halved(function, right, parts - middle)
    )
