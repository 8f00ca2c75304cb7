"""Expressions as people read them: the text in messages, in `explain`, and of results that have no name of their own."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterable
from functools import singledispatch

from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import (
    PARAMETER_MARK,
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

INFIX = {
    "or": "OR", "and": "AND", "eq": "=", "ne": "!=", "eq_null_safe": "<=>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "remainder": "%", "like": "LIKE", "rlike": "RLIKE", "ilike": "ILIKE",
    "integral_divide": "DIV",
}  # fmt: skip
NAMED_BY = "@"  # between an operation that a function of ksqlDB is made of and the name of that function, which people wrote
OF_KSQL = "ksql_"  # what the names of ksqlDB's functions begin with in trees
GROUP_VALUES = "group values"  # the aggregate that a function in Python is called with, if it aggregates; nobody can write it
_WITH_NULLS = {"first", "last"}  # their second argument says whether nulls are skipped
_PARAMETER = re.compile(rf"(?s){PARAMETER_MARK}*(.+?){PARAMETER_MARK}\d+")
_NAMED = re.compile(r"(?is).*\S\s+as\s+(`[^`]+`|\w+)\s*")  # SQL text that names its result


def function_text(function: str) -> str:
    """The name of a function as it is written: those of ksqlDB in capitals, without the mark that tells them from Spark's."""
    return function.removeprefix(OF_KSQL).upper() if function.startswith(OF_KSQL) else function


@singledispatch
def expression_text(expression: Expression) -> str:
    """The expression in the spelling of Spark SQL; operators inside others stand in parentheses."""
    raise TypeError(f"no expression: {expression!r}")


@expression_text.register
def _(expression: Reference) -> str:
    return expression.name


@expression_text.register
def _(expression: Literal) -> str:
    return _literal_text(expression.value)


@expression_text.register
def _(expression: SqlText) -> str:
    return expression.text


@expression_text.register
def _(expression: Lambda) -> str:
    names = ", ".join(expression.parameters)
    return f"{names if len(expression.parameters) == 1 else f'({names})'} -> {expression_text(expression.body)}"


@expression_text.register
def _(expression: PythonCall) -> str:
    match expression.arguments:
        case (Call(function) as values,) if function == GROUP_VALUES:
            return expression_text(values)
    return f"{expression.function.name}({', '.join(expression_text(argument) for argument in expression.arguments)})"


@expression_text.register
def _(expression: Cast) -> str:
    return f"CAST({expression_text(expression.expression)} AS {expression.type.upper()})"


@expression_text.register
def _(expression: Alias) -> str:
    return f"{expression_text(expression.expression)} AS {expression.name}"


@expression_text.register
def _(expression: Call) -> str:
    return call_text(expression.written or expression.function, [_inner_text(argument) for argument in expression.arguments])


def call_text(function: str, arguments: list[str]) -> str:
    """
    The text of a function or operator over the texts of its arguments; an argument that says the default is left out.

    Functions of ksqlDB stand there without the mark that tells them from Spark's.
    """
    function = function.removeprefix(OF_KSQL)
    if function in _WITH_NULLS and arguments[1:] == ["FALSE"]:
        arguments = arguments[:1]
    if function in INFIX and len(arguments) == 2:
        return f"{arguments[0]} {INFIX[function]} {arguments[1]}"
    write = _SPECIAL.get(function)
    plain = f"{function}({', '.join(_bare(argument) for argument in arguments)})"
    try:
        return write(arguments) if write else plain
    except IndexError:  # a call without all of its arguments, which no operator writes
        return plain


def typed_text(expression: TypedExpression) -> str:
    """
    A resolved expression in the same spelling; what Catalyst added (casts) is visible.

    Expressions that differ have texts that differ, since parameters of lambdas keep their marks. For people there is `shown_text`.
    """
    return _typed_text(expression, is_shown=False)


def shown_text(expression: TypedExpression) -> str:
    """A resolved expression as people read it: parameters of lambdas have the names that the user wrote."""
    return _typed_text(expression, is_shown=True)


def _typed_text(expression: TypedExpression, is_shown: bool) -> str:
    if expression.name == "column":
        return _unmarked(str(expression.value)) if is_shown else str(expression.value)
    if expression.name == "literal":
        return _typed_literal_text(expression)
    if expression.name in ("cast", f"{OF_KSQL}cast"):
        return f"CAST({_typed_text(expression.arguments[0], is_shown)} AS {expression.type.upper()})"
    arguments = [_grouped(_typed_text(argument, is_shown), argument.name) for argument in expression.arguments]
    if expression.name == "python":
        return f"{expression.value.partition(':')[0]}({', '.join(arguments)})"
    if expression.name == "lambda":
        names = expression.value.split(",")
        if is_shown and len(names) > 1:
            return f"({', '.join(map(_unmarked, names))}) -> {arguments[0]}"
        return f"{_unmarked(names[0]) if is_shown else ', '.join(names)} -> {arguments[0]}"
    if isinstance(expression.value, str):
        arguments.append(_literal_text(expression.value))
    operation, _, function = expression.name.partition(NAMED_BY)
    return call_text(function if is_shown and function else operation, arguments)


def _unmarked(name: str) -> str:
    """The name as it was written, if it is that of a lambda's parameter."""
    found = _PARAMETER.fullmatch(name)
    return name if found is None else found[1]


def expression_name(expression: Expression) -> str:
    """The name of a result: its alias (in SQL text after AS), the column it is, or else its text."""
    if isinstance(expression, Alias):
        return expression.name
    if isinstance(expression, Cast) and isinstance(expression.expression, Reference):
        return expression_name(expression.expression)
    if isinstance(expression, Reference):
        return ".".join(parts_of(expression.name))
    if isinstance(expression, SqlText) and (named := _NAMED.fullmatch(expression.text)):
        return named[1].strip("`")
    return expression_text(expression)


def _typed_literal_text(expression: TypedExpression) -> str:
    if expression.type in ("date", "timestamp", "timestamp_ntz", "binary") and expression.value is not None:
        return f"{expression.type.upper()} '{expression.value}'"
    return _literal_text(expression.value) if expression.type == "string" else _literal_text(expression.value).strip("'")


def _literal_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).upper().replace("NONE", "NULL")
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    return str(value) if isinstance(value, (int, float, decimal.Decimal)) else "'{}'".format(str(value).replace("'", "\\'"))


def _inner_text(expression: Expression) -> str:
    name = expression.function if isinstance(expression, Call) else ""
    return f"({expression_text(expression)})" if isinstance(expression, SqlText) else _grouped(expression_text(expression), name)


def _grouped(text: str, function: str) -> str:
    function = function.removeprefix(OF_KSQL)
    return f"({text})" if function in INFIX or (function in _SPECIAL and function not in _CLOSED) else text


def _bare(text: str) -> str:
    """Drop outer parentheses, which are not needed inside those of a function."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def _case_text(arguments: list[str]) -> str:
    pairs = list(zip(arguments[0::2], arguments[1::2], strict=False))
    branches = "".join(f" WHEN {_bare(condition)} THEN {_bare(value)}" for condition, value in pairs)
    otherwise = f" ELSE {_bare(arguments[-1])}" if len(arguments) % 2 else ""
    return f"CASE{branches}{otherwise} END"


_CLOSED = frozenset(("when", "case", "cast", "get_item", "get_field", "null_nested", "false_nested"))
_SPECIAL: dict[str, Callable[[list[str]], str]] = {
    "not": lambda a: f"NOT {a[0]}",
    "negate": lambda a: f"-{a[0]}",
    "isnull": lambda a: f"{a[0]} IS NULL",
    "isnotnull": lambda a: f"{a[0]} IS NOT NULL",
    "get_item": lambda a: f"{a[0]}[{_bare(a[1])}]",
    "get_field": lambda a: f"{a[0]}.{_bare(a[1]).strip(chr(39))}",
    "between": lambda a: f"{a[0]} BETWEEN {a[1]} AND {a[2]}",
    "in": lambda a: f"{a[0]} IN ({', '.join(_bare(value) for value in a[1:])})",
    "when": _case_text,
    "case": _case_text,
    "cast": lambda a: f"CAST({_bare(a[0])} AS {a[1].strip(chr(39)).upper()})",
    "null_on_failure": lambda a: a[0],
    "null_inside": lambda a: a[0],
    "null_nested": lambda a: a[0],
    "null_as_a_whole": lambda a: a[0],
    "false_nested": lambda a: a[0],
    "false_on_failure": lambda a: a[0],
    "present": lambda a: a[0],
    "needed": lambda a: a[0],
    "as_time": lambda a: a[0],
    "retyped": lambda a: a[0],
    "as_read": lambda a: a[0],
    "nonzero_step": lambda a: a[0],
}


def named_text(columns: Iterable[tuple[str, Expression]]) -> str:
    """Named expressions in one line; columns as they are by their name alone."""
    return ", ".join(
        name if expression == Reference(name) else f"{name} = {expression_text(expression)}" for name, expression in columns
    )


def aggregates_text(aggregates: Iterable[TypedAggregate]) -> str:
    """Aggregates as `name = function(argument): type`."""
    return ", ".join(
        f"{one.name} = {function_text(one.function)}({shown_text(one.argument) if one.argument else '*'}): {one.type}"
        for one in aggregates
    )
