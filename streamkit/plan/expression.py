"""
Expressions as values: what the user wrote, and what analysis made of it.

`Expression` is the tree behind a `streamkit.expressions.core.column.Column` handle: names and literals, nothing resolved.
`TypedExpression` is the same after analysis: every node has a Spark type, every coercion is an explicit cast.
Both are frozen, so that plans compare by structure.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from streamkit.plan.python_function import PythonFunction

_HASH = "_hash"
PARAMETER_MARK = "\N{GREEK SMALL LETTER LAMDA}"
"""Tells the parameters of lambdas from columns: in front of those of functions in Python, and behind all that are typed, with a number."""

Scalar = bool | int | float | str | bytes | decimal.Decimal | dt.date | dt.datetime | dt.timedelta | None


@dataclass(frozen=True)
class Expression:
    """Any node of an unresolved expression."""


@dataclass(frozen=True)
class Reference(Expression):
    """A column by name."""

    name: str


@dataclass(frozen=True, eq=False)
class Literal(Expression):
    """A Python value; literals are equal if type and value are, so that 1, 1.0 and True stay apart and NaN equals itself."""

    value: Scalar

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[type, str]:
        return type(self.value), repr(self.value)


@dataclass(frozen=True)
class Call(Expression):
    """
    A function or operator of pyspark.sql, by name: `upper`, `avg`, `when`; operators are `gt`, `add`, `and` …

    `written` is the name that texts show in its place, if people wrote another one.
    """

    function: str
    arguments: tuple[Expression, ...]
    written: str = field(default="", compare=False)


@dataclass(frozen=True)
class PythonCall(Expression):
    """A call of a user's function; without arguments, of one that takes the whole row."""

    function: PythonFunction
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class SqlText(Expression):
    """An expression in Spark SQL, as text."""

    text: str


@dataclass(frozen=True)
class Cast(Expression):
    """A conversion to a Spark type, under ANSI rules."""

    expression: Expression
    type: str


@dataclass(frozen=True)
class SuffixedNumber(Cast):
    """A number of SQL with its type behind it, such as 3L: a literal, where a cast would be an expression."""


@dataclass(frozen=True)
class Alias(Expression):
    """An expression with a name for its result."""

    expression: Expression
    name: str


@dataclass(frozen=True)
class Lambda(Expression):
    """
    A function of elements, as `transform` takes it: an expression over `parameters`, which hide columns of their names.

    The names of parameters are found in any case, unless it `keeps_case`, as lambdas of ksqlDB do.
    """

    parameters: tuple[str, ...]
    body: Expression
    keeps_case: bool = False

    def folded(self, name: str) -> str:
        """A name as it is compared with those of the parameters."""
        return name if self.keeps_case else name.lower()


PartReplacement: TypeAlias = Callable[["Expression", "Expression"], "Expression"]
"""Is told a new part of a tree and the part that it is made of, and gives the new one."""


@dataclass(frozen=True)
class TypedExpression:
    """
    A resolved expression: `name` says what to compute, `type` the Spark type of the result.

    `name` is `column` (value: its name), `literal` (value: a JSON scalar), `lambda` (value: the names of its parameters with commas between, which are
    columns within its one argument) or an operation that `streamkit.expressions.analysis.arrow` knows; `value` also holds constant parameters of an operation.
    """

    name: str
    type: str
    arguments: tuple[TypedExpression, ...] = ()
    value: Any = None

    def __hash__(self) -> int:
        """The hash of all parts, which is computed once: a condition with thousands of parts is asked for it at each of its levels."""
        found: int | None = self.__dict__.get(_HASH)
        if found is None:
            found = hash((self.name, self.type, self.arguments, self.value))
            object.__setattr__(self, _HASH, found)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash, which is another one in another process."""
        return {name: value for name, value in self.__dict__.items() if name != _HASH}


class ComputedConstant(TypedExpression):
    """A literal that came of an expression without columns, or of one that is computed once: where Spark types literals by their digits, it sees none."""

    def __eq__(self, other: object) -> bool:
        """As the literal that it is."""
        return isinstance(other, TypedExpression) and self.__getstate__() == other.__getstate__()

    __hash__ = TypedExpression.__hash__

    @classmethod
    def of(cls, value: TypedExpression) -> TypedExpression:
        """A literal as one that was computed; any other expression as it is."""
        return cls(**value.__getstate__()) if value.name == "literal" else value

    def as_written(self) -> TypedExpression:
        """The literal as if a user had written it."""
        return TypedExpression(**self.__getstate__())


@dataclass(frozen=True)
class TypedAggregate:
    """
    One aggregate of a grouping by the name of its function, such as `sum`; no argument means every row.

    `ordered`: its value depends on the order of the rows.
    """

    name: str
    function: str
    type: str
    argument: TypedExpression | None = None
    nullable: bool = True
    ordered: bool = False
