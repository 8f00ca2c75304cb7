"""How a function of a name is recorded: its arguments become expressions, nothing is computed."""

from __future__ import annotations

from streamkit.dsl.column import Column, to_expression, to_literal
from streamkit.plan.expression import Call, Expression


def recorded(name: str, *arguments: object) -> Column:
    """A call of the function `name`; texts among the arguments are names of columns, other Python values constants."""
    return Column(Call(name, tuple(to_expression(argument) for argument in arguments)))


def constant(value: object) -> Expression:
    """A parameter that is a value by nature, where a text is that text and not the name of a column."""
    return to_literal(value)


def given(value: object | None) -> tuple[object, ...]:
    """The argument, if there is one."""
    return () if value is None else (value,)


def given_constant(value: object | None) -> tuple[Expression, ...]:
    """The argument as a constant, if there is one."""
    return () if value is None else (constant(value),)


def given_text(value: object) -> object:
    """A parameter that is a plain value unless it is a column."""
    return value if isinstance(value, Column) else constant(value)
