"""Functions in Python that a session knows by a name: calls in statements become calls of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from streamkit import functions as F
from streamkit.errors import ConfigError, TopologyError
from streamkit.expressions.aggregates import aggregate_named
from streamkit.expressions.analysis.analysis import is_function
from streamkit.expressions.core.column import Column, to_expression
from streamkit.functions.python import UserDefinedFunction
from streamkit.plan.expression import Call, Expression
from streamkit.plan.location import written_at
from streamkit.sql.lowering.expression_parts import EXPLODING, below, rewritten
from streamkit.sql.lowering.script_text import PartPlaces, ScriptText
from streamkit.sql.tree.span import TextSpan, Written


@dataclass(frozen=True)
class PythonAggregate:
    """A function of the list of a group's values, which aggregates them: `function` is called with it, whenever the group has changed."""

    function: UserDefinedFunction

    @property
    def name(self) -> str:
        """Its name, for messages."""
        return self.function.function.name

    def __call__(self, column: Column) -> Column:
        """The aggregate of a column."""
        return self.function(F.collect_list(column))


UserFunctions = Mapping[str, UserDefinedFunction | PythonAggregate]  # by their names in small letters
Part = TypeVar("Part")


def registered_function(
    name: str, function: Callable[..., Any] | UserDefinedFunction, type: str | None, *, is_aggregate: bool = False
) -> UserDefinedFunction | PythonAggregate:
    """A function under a name that statements may call; ConfigError for a name that is taken or is none, or a type that is missing."""
    found = _function(name, function, type)
    return PythonAggregate(found) if is_aggregate else found


def _function(name: str, function: Callable[..., Any] | UserDefinedFunction, type: str | None) -> UserDefinedFunction:
    if not name.isidentifier():
        raise ConfigError(f"{name!r} cannot be the name of a function; expected letters, digits and _")
    if is_function(name.lower()) or name.lower() in EXPLODING or aggregate_named(name.lower()) is not None:
        raise ConfigError(f"there is a function {name.lower()} already; expected another name")
    if isinstance(function, UserDefinedFunction):
        if type is not None and type != function.returnType:
            raise ConfigError(
                f"the function {name} gives {function.returnType}; found the type {type!r}: expected one of the two"
            )
        return _named(function, name)
    if type is None:
        raise ConfigError(f"the function {name} needs the type of its results, as in register({name!r}, {name}, 'double')")
    return _named(F.udf(function, type), name)


def _named(function: UserDefinedFunction, name: str) -> UserDefinedFunction:
    """The function under the name that statements have for it, as in messages and names of results."""
    return UserDefinedFunction(replace(function.function, name=name))


def with_functions(part: Part, functions: UserFunctions, text: ScriptText) -> Part:
    """A statement, or a part of one, in which calls of registered names are calls of the functions in Python."""
    return _replaced(part, functions, text) if functions else part


def called_functions(part: Any, functions: UserFunctions) -> list[str]:
    """The names of the registered functions that a statement calls, each once, in the order of their names."""
    return sorted(set(_called(part, functions))) if functions else []


def _called(part: Any, functions: UserFunctions) -> Iterator[str]:
    if isinstance(part, Written):
        for one in below(part.expression):
            if isinstance(one, Call) and one.function.lower() in functions:
                yield one.function.lower()
    elif isinstance(part, tuple):
        for one in part:
            yield from _called(one, functions)
    elif is_dataclass(part) and not isinstance(part, (type, Expression)):
        for field in fields(part):
            yield from _called(getattr(part, field.name), functions)


def _replaced(part: Any, functions: UserFunctions, text: ScriptText) -> Any:
    if isinstance(part, Written):
        return _written(part, functions, text)
    if isinstance(part, tuple) and not isinstance(part, TextSpan):
        return tuple(_replaced(one, functions, text) for one in part)
    if not is_dataclass(part) or isinstance(part, (type, Expression)):
        return part
    new = {one.name: _replaced(getattr(part, one.name), functions, text) for one in fields(part)}
    return replace(part, **{name: value for name, value in new.items() if value is not getattr(part, name)})


def _written(written: Written, functions: UserFunctions, text: ScriptText) -> Written:
    places = PartPlaces()
    places.put_written(written)

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Call) or (found := functions.get(part.function.lower())) is None:
            return None
        arguments = [Column(rewritten(one, change, places)) for one in part.arguments]
        at = text.at(written.places.get(id(part), written.span))
        if isinstance(found, PythonAggregate) and len(arguments) != 1:
            raise TopologyError(f"the aggregate {found.name} is called with {len(arguments)} values; expected one", at)
        with written_at(at):
            return to_expression(found(*arguments))

    new = rewritten(written.expression, change, places)
    if new is written.expression:
        return written
    return Written(new, written.span, {id(one): TextSpan(*places[id(one)]) for one in below(new) if id(one) in places})
