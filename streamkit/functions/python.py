"""Users' own functions as columns: run as the Python they are, once a row, or on whole pandas Series or Arrow arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamkit.data_type import apart_in_any_case, normalise_type
from streamkit.errors import SchemaError, TopologyError, UnsupportedExpressionError
from streamkit.expressions.core.column import Column, to_expression, type_text
from streamkit.plan.expression import PythonCall
from streamkit.plan.inspection import attribute, signature
from streamkit.plan.location import user_location
from streamkit.plan.python_function import ARRAY, ROW, SERIES, PythonFunction, python_function

__all__ = ["arrow_udf", "pandas_udf", "udf"]

_Function = Callable[..., Any]


@dataclass(frozen=True)
class UserDefinedFunction:
    """A user's function that takes columns and gives a column; `function` is the value behind it."""

    function: PythonFunction

    def __call__(self, *columns: Column | str) -> Column:
        """The function over these columns; a text is a column's name."""
        _check_count(self.function, len(columns))
        return Column(PythonCall(self.function, tuple(to_expression(column) for column in columns)))

    @property
    def returnType(self) -> str:
        """The declared type of the result."""
        return self.function.type

    def asNondeterministic(self) -> UserDefinedFunction:
        """Raise UnsupportedExpressionError: the same input must give the same output, or recovery would change results."""
        raise UnsupportedExpressionError(
            f"the function {self.function.name} cannot be nondeterministic: the same input must give the same output",
            user_location(),
        )


def udf(f: Any = None, returnType: object = "string") -> Any:
    """
    A Python function as a function of columns, called once for each row; a null is None, and times are datetimes in UTC.

    `returnType` is a type such as "int" or "array<string>"; a value that it does not hold is an error with the record it is about.
    The function must be deterministic, and should have no effects: after a fault it runs again.

        shout = F.udf(lambda text: text.upper() + "!")
        @F.udf("int")
        def length(text): ...
    """
    return _declared(f, returnType, ROW)


def pandas_udf(f: Any = None, returnType: object = None) -> Any:
    """
    A function of pandas Series as a function of columns: it is given batches, and gives a Series of the same length.

    Integers and booleans have pandas' nullable types, so that a null does not change other values. For a struct type the function returns a
    DataFrame, whose columns are matched by name. How many rows a batch has is not fixed, so each result must depend on its own row only.

        @F.pandas_udf("double")
        def celsius(fahrenheit: pd.Series) -> pd.Series:
            return (fahrenheit - 32) / 1.8
    """
    return _declared(f, returnType, SERIES)


def arrow_udf(f: Any = None, returnType: object = None) -> Any:
    """As `pandas_udf`, with Arrow arrays; the fastest way to run Python."""
    return _declared(f, returnType, ARRAY)


def _declared(f: Any, type: object, style: str) -> Any:
    """The function, or the decorator that takes it: `udf(f, type)`, `@udf`, `@udf(type)`, `@udf(returnType=type)`."""
    if f is not None and not isinstance(f, str) and attribute(f, "simpleString") is None:
        return _defined(f, type, style)
    return functools.partial(_defined, type=type if f is None else f, style=style)


def _check_count(function: PythonFunction, count: int) -> None:
    """TopologyError if a function cannot be called with so many values; what does not tell its parameters is not checked."""
    found = signature(function.call)
    if found is None:
        return
    try:
        found.bind(*range(count))
    except TypeError as error:
        raise TopologyError(
            f"the function {function.name}{found} cannot be called with {count} columns: {error}", user_location()
        ) from None


def _defined(f: Any, type: object, style: str) -> UserDefinedFunction:
    if not callable(f):
        raise TopologyError(f"found {f!r}; expected a function", user_location())
    if type is None:
        raise TopologyError(
            f"the function {attribute(f, '__name__', f)!s} has no type; expected returnType, such as 'double'", user_location()
        )
    try:
        wanted = apart_in_any_case(normalise_type(type_text(type)))
    except SchemaError as error:
        raise TopologyError(str(error), user_location()) from None
    return UserDefinedFunction(python_function(f, wanted, style))
