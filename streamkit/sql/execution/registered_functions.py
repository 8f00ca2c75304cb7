"""Functions in Python that a session knows by a name: calls in statements become calls of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from streamkit import functions as F
from streamkit.errors import ConfigError, SqlError, TopologyError
from streamkit.expressions.aggregates import aggregate_named
from streamkit.expressions.analysis.analysis import is_function
from streamkit.expressions.core.column import Column, to_expression
from streamkit.expressions.sql.dialect import DIALECTS, SPARK
from streamkit.functions.python import UserDefinedFunction
from streamkit.plan.expression import Call, Expression
from streamkit.plan.expression_text import GROUP_VALUES
from streamkit.plan.location import written_at
from streamkit.sql.execution.callable_functions import AGGREGATE, SCALAR, CallableFunction, functions_called
from streamkit.sql.lowering.expression_parts import EXPLODING, below, rewritten
from streamkit.sql.lowering.script_text import PartPlaces, ScriptText
from streamkit.sql.reader.script import read_script
from streamkit.sql.tree.query import SelectColumn
from streamkit.sql.tree.span import TextSpan, Written
from streamkit.sql.tree.statements import SelectStatement


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
        return self.function(Column(Call(GROUP_VALUES, (to_expression(column),), self.name)))


UserFunctions = Mapping[str, UserDefinedFunction | PythonAggregate]  # by their names in small letters
Part = TypeVar("Part")


def registered_function(
    name: str, function: Callable[..., Any] | UserDefinedFunction, type: str | None, dialect: str, *, is_aggregate: bool = False
) -> UserDefinedFunction | PythonAggregate:
    """
    A function under a name that statements of a dialect may call.

    ConfigError for a name that is taken, or that no statement can call, and for a type that is missing.
    """
    _check_name(name, dialect)
    found = _function(name, function, type)
    return PythonAggregate(found) if is_aggregate else found


def _check_name(name: str, dialect: str) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(f"{name!r} cannot be the name of a function; expected letters, digits and _")
    own = name.lower()
    of_spark = is_function(own) or own in EXPLODING or aggregate_named(own) is not None
    having = [one for one in DIALECTS if functions_called(one, own) or (of_spark and one == SPARK.name)]
    if having:
        where = "" if dialect in having else f", in the dialect {having[0]}, which SET may choose"
        raise ConfigError(f"there is a function {own} already{where}; expected another name")
    if not _is_called(name, dialect):
        raise ConfigError(
            f"{name!r} is a word of SQL, so {name}(…) calls no function in the dialect {dialect}; expected another name, such as {name}_of"
        )


def _is_called(name: str, dialect: str) -> bool:
    """Whether a statement that calls a function by this name is read so."""
    try:
        (statement,) = read_script(f"SELECT {name}(x) AS y FROM z;", dialect)
    except SqlError:
        return False
    if not isinstance(statement, SelectStatement) or not isinstance(item := statement.query.items[0], SelectColumn):
        return False
    call = item.written.expression
    return isinstance(call, Call) and call.function.lower() == name.lower()


def _function(name: str, function: Callable[..., Any] | UserDefinedFunction, type: str | None) -> UserDefinedFunction:
    if isinstance(function, UserDefinedFunction):
        if type is not None and type != function.returnType:
            raise ConfigError(
                f"the function {name} gives {function.returnType}; found the type {type!r}: expected one of the two"
            )
        return _named(function, name)
    if not callable(function):
        raise ConfigError(f"the function {name} is {function!r}; expected a function, or what F.udf gave")
    if type is None:
        raise ConfigError(f"the function {name} needs the type of its results, as in register({name!r}, {name}, 'double')")
    return _named(F.udf(function, type), name)


def _named(function: UserDefinedFunction, name: str) -> UserDefinedFunction:
    """The function under the name that statements have for it, as in messages and names of results."""
    return UserDefinedFunction(replace(function.function, name=name))


def shown_functions(functions: UserFunctions) -> list[CallableFunction]:
    """What SHOW FUNCTIONS and DESCRIBE FUNCTION say of them, by name: the type of the results, and how the function's own text begins."""
    found = []
    for one in functions.values():
        function = (one.function if isinstance(one, PythonAggregate) else one).function
        told = inspect.getdoc(function.call) if inspect.isroutine(function.call) else None
        meaning = " ".join(
            [f"A function in Python of this session, which gives {function.type}.", *(told or "").splitlines()[:1]]
        )
        found.append(CallableFunction(function.name, AGGREGATE if isinstance(one, PythonAggregate) else SCALAR, meaning))
    return sorted(found)


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
