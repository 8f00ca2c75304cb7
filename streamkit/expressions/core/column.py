"""The handle users write expressions with: operators record what to compute, nothing is computed."""

from __future__ import annotations

import builtins
import datetime as dt
import decimal
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, TypeGuard

from streamkit.data_type import normalise_type
from streamkit.errors import SchemaError, TopologyError, UnknownFunctionError
from streamkit.plan.expression import Alias, Call, Cast, Expression, Literal, Reference
from streamkit.plan.expression_text import expression_name, expression_text
from streamkit.plan.location import user_location

__all__ = ["Column", "check_unicode", "expression_name", "to_expression", "to_literal", "type_text"]

_SCALARS = (bool, int, float, str, bytes, decimal.Decimal, dt.date, dt.datetime, dt.timedelta)


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """
    A handle on an expression; its operators and methods are those of pyspark.sql.Column and give new handles.

    Python values among the operands are literals. `expression` is the immutable tree behind the handle.
    """

    expression: Expression

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return _operator("eq", self, other)

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return _operator("ne", self, other)

    def __lt__(self, other: object) -> Column:
        return _operator("lt", self, other)

    def __le__(self, other: object) -> Column:
        return _operator("le", self, other)

    def __gt__(self, other: object) -> Column:
        return _operator("gt", self, other)

    def __ge__(self, other: object) -> Column:
        return _operator("ge", self, other)

    def __add__(self, other: object) -> Column:
        return _operator("add", self, other)

    def __radd__(self, other: object) -> Column:
        return _operator("add", other, self)

    def __sub__(self, other: object) -> Column:
        return _operator("subtract", self, other)

    def __rsub__(self, other: object) -> Column:
        return _operator("subtract", other, self)

    def __mul__(self, other: object) -> Column:
        return _operator("multiply", self, other)

    def __rmul__(self, other: object) -> Column:
        return _operator("multiply", other, self)

    def __truediv__(self, other: object) -> Column:
        return _operator("divide", self, other)

    def __rtruediv__(self, other: object) -> Column:
        return _operator("divide", other, self)

    def __mod__(self, other: object) -> Column:
        return _operator("remainder", self, other)

    def __rmod__(self, other: object) -> Column:
        return _operator("remainder", other, self)

    def __pow__(self, other: object) -> Column:
        return _operator("power", self, other)

    def __rpow__(self, other: object) -> Column:
        return _operator("power", other, self)

    def __and__(self, other: object) -> Column:
        return _operator("and", self, other)

    def __rand__(self, other: object) -> Column:
        return _operator("and", other, self)

    def __or__(self, other: object) -> Column:
        return _operator("or", self, other)

    def __ror__(self, other: object) -> Column:
        return _operator("or", other, self)

    def __invert__(self) -> Column:
        return _operator("not", self)

    def __neg__(self) -> Column:
        return _operator("negate", self)

    def __getitem__(self, key: object) -> Column:
        return self.getItem(key)

    if not TYPE_CHECKING:  # a type checker must not think that every name is there

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):  # names that Python and notebooks look for by themselves
                raise AttributeError(f"'Column' object has no attribute {name!r}")
            raise UnknownFunctionError(_no_method(name), user_location())

    def __bool__(self) -> NoReturn:
        raise TopologyError(
            f"the column {expression_text(self.expression)!r} has no truth value before it runs; "
            "combine conditions with & (and), | (or), ~ (not), each in parentheses, and use between() for a < x < b",
            user_location(),
        )

    def __contains__(self, value: object) -> NoReturn:
        shown = expression_text(self.expression)
        raise TopologyError(
            f"whether {value!r} is in the column {shown!r} is not known before it runs; expected F.array_contains(column, value) of an array, "
            "F.contains(column, text) of a text, or column.isin(…) for one of several values",
            user_location(),
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"the column {expression_text(self.expression)!r} cannot be iterated over")

    def __hash__(self) -> int:
        return hash(self.expression)

    def __repr__(self) -> str:
        return f"Column<{expression_text(self.expression)}>"

    def eqNullSafe(self, other: object) -> Column:  # noqa: N802
        """Equality under which null equals null."""
        return _operator("eq_null_safe", self, other)

    def isNull(self) -> Column:  # noqa: N802
        """True where the value is null."""
        return _operator("isnull", self)

    def isNotNull(self) -> Column:  # noqa: N802
        """True where the value is not null."""
        return _operator("isnotnull", self)

    def isNaN(self) -> Column:  # noqa: N802
        """True where the value is NaN."""
        return _operator("isnan", self)

    def isin(self, *values: object) -> Column:
        """True where the value is one of `values`, or of the one list, set, range, array or Series given."""
        flat = tuple(values[0]) if len(values) == 1 and _is_many(values[0]) else values
        return _operator("in", self, *flat)

    def between(self, lower: object, upper: object) -> Column:
        """True from `lower` to `upper`, both included."""
        return _operator("between", self, lower, upper)

    def getItem(self, key: object) -> Column:  # noqa: N802
        """The element at an index from 0, the value of a key, or a field by its name; also `column[key]`."""
        return _operator("get_item", self, key)

    def getField(self, name: object) -> Column:  # noqa: N802
        """The field of a struct; of an array of structs, an array of that field."""
        return _operator("get_field", self, name)

    def withField(self, fieldName: str, col: object) -> Column:  # noqa: N802
        """The struct with one field more, or with another value for one that it has."""
        return _operator("with_field", self, fieldName, col)

    def dropFields(self, *fieldNames: str) -> Column:  # noqa: N802
        """The struct without these fields."""
        return _operator("drop_fields", self, *fieldNames)

    def like(self, pattern: object) -> Column:
        """True where the text matches an SQL pattern of % and _, escaped by a backslash."""
        return _operator("like", self, pattern)

    def ilike(self, pattern: object) -> Column:
        """As `like`, without regard to case."""
        return _operator("ilike", self, pattern)

    def rlike(self, pattern: object) -> Column:
        """True where a regular expression matches some part of the text."""
        return _operator("rlike", self, pattern)

    def startswith(self, prefix: object) -> Column:
        """True where the text starts with `prefix`."""
        return _operator("startswith", self, prefix)

    def endswith(self, suffix: object) -> Column:
        """True where the text ends with `suffix`."""
        return _operator("endswith", self, suffix)

    def contains(self, part: object) -> Column:
        """True where the text contains `part`."""
        return _operator("contains", self, part)

    def substr(self, start: object, length: object) -> Column:
        """`length` characters from `start`, counted from 1, or from the end if negative."""
        return _operator("substring", self, start, length)

    def cast(self, type: object) -> Column:
        """The value as another Spark type; a value that does not fit is an error when it runs."""
        try:
            return Column(Cast(self.expression, normalise_type(type_text(type))))
        except SchemaError as error:
            raise TopologyError(str(error), user_location()) from None

    astype = cast

    def try_cast(self, type: object) -> Column:
        """
        The value as another Spark type, null where it does not fit.

        What does not fit inside an array, a map or a struct is null there. What the value itself is made of still fails.
        """
        try:
            return Column(Call("try_cast", (self.expression, Literal(normalise_type(type_text(type))))))
        except SchemaError as error:
            raise TopologyError(str(error), user_location()) from None

    def alias(self, name: str) -> Column:
        """The same with a name for the result."""
        if not isinstance(name, str):
            raise TopologyError(f"alias() was given {name!r}; expected a name", user_location())
        inner = self.expression.expression if isinstance(self.expression, Alias) else self.expression
        return Column(Alias(inner, name))

    name = alias

    def when(self, condition: Column, value: object) -> Column:
        """Another branch of a chain that starts with `functions.when`."""
        return Column(Call("when", (*self._branches(), _condition(condition), to_literal(value))))

    def otherwise(self, value: object) -> Column:
        """The value of a chain of `when` where no condition is true; without it, null."""
        return Column(Call("when", (*self._branches(), to_literal(value))))

    def _branches(self) -> tuple[Expression, ...]:
        expression = self.expression
        if not isinstance(expression, Call) or expression.function != "when" or len(expression.arguments) % 2:
            raise TopologyError(
                f"when() and otherwise() continue a chain of functions.when(); found {expression_text(expression)!r}",
                user_location(),
            )
        return expression.arguments


def to_expression(value: object) -> Expression:
    """The expression behind a value where text names a column (`select`, `group_by`, arguments of functions)."""
    return Reference(value) if isinstance(value, str) else to_literal(value)


def to_literal(value: object) -> Expression:
    """The expression behind a value where text is text (operands of operators); TopologyError if it cannot be a literal."""
    if isinstance(value, Column):
        return value.expression
    if isinstance(value, Expression):
        return value
    if isinstance(value, (list, tuple)):
        return Call("array", tuple(map(to_literal, value)))
    if isinstance(value, dict):
        return Call("map", tuple(to_literal(part) for pair in value.items() for part in pair))
    if getattr(value, "ndim", 0) and hasattr(value, "tolist"):  # an array of numpy, a Series of pandas
        return to_literal(value.tolist())
    plain = value.item() if hasattr(value, "item") and not isinstance(value, _SCALARS) else value
    if isinstance(plain, int) and not -(2**63) <= plain < 2**63:
        raise TopologyError(f"the number {plain} does not fit into a bigint; write it as decimal.Decimal", user_location())
    check_unicode(plain)
    if plain is None or isinstance(plain, _SCALARS):
        return Literal(plain)
    raise TopologyError(
        f"a value of type {type(value).__name__} cannot stand in an expression; expected a column, a number, text, bytes, "
        "a boolean, a date, a datetime, a timedelta, None, or a list or dict of these",
        user_location(),
    )


def _no_method(name: str) -> str:
    """What to write instead of a method that columns do not have."""
    if hasattr(import_module("streamkit.functions"), name):
        return f"a column has no {name!r}; expected F.{name}(column)"
    close = difflib.get_close_matches(name, [one for one in dir(Column) if not one.startswith("_")], 3)
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    return f"a column has no {name!r}{hint}; a field of a struct is column[{name!r}]"


def _is_many(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict, Column))


def check_unicode(value: object) -> None:
    """TopologyError for a text that cannot be written as UTF-8."""
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise TopologyError(
            f"the text {value!r} has half of a character (a surrogate); expected whole characters", user_location()
        )


def _operator(name: str, *operands: object) -> Column:
    return Column(Call(name, tuple(to_literal(operand) for operand in operands)))


def _condition(condition: object) -> Expression:
    if not isinstance(condition, Column):
        raise TopologyError(f"the condition of when() must be a column; found {condition!r}", user_location())
    return condition.expression


def type_text(type: object) -> str:
    """Also take the data types of pyspark, without importing it."""
    if isinstance(type, builtins.type):
        raise SchemaError(
            f"found the class {type.__name__}; expected the name of a type, such as 'int', or a type of pyspark with ()"
        )
    simple_string = getattr(type, "simpleString", None)
    return str(simple_string()) if simple_string else str(type)
