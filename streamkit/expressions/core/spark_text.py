"""
How Spark's SQL writes a call, where that is not the function's name with the arguments in parentheses.

The rule of a function stands in its family, below its entry. Catalyst reads these texts when it confirms what the analysis found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from streamkit.plan.expression import Expression, Literal

SparkText: TypeAlias = Callable[[Sequence[Expression], Sequence[str]], str | None]
SPARK_TEXTS: dict[str, SparkText] = {}  # by the name of the function, in lower case


class UnseenError(ValueError):
    """An expression that cannot be written in Spark's SQL."""


def spark_text(*functions: str) -> Callable[[SparkText], SparkText]:
    """Enter a rule that is given a call's arguments and their texts; it returns None for a call that is written as usual."""

    def enter(write: SparkText) -> SparkText:
        SPARK_TEXTS.update(dict.fromkeys(functions, write))
        return write

    return enter


def unseen(_arguments: Sequence[Expression], _texts: Sequence[str]) -> str:
    """The rule of a function that SQL does not have."""
    raise UnseenError("a call that SQL cannot write")


def text_of(argument: Expression) -> str:
    """The text that a constant argument is; UnseenError if it is something else."""
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        return argument.value
    raise UnseenError("an argument that must be a constant text")


def quoted(name: str) -> str:
    """A name in backticks, so that no word of it means anything."""
    return "`{}`".format(name.replace("`", "``"))
