"""
Rules that say what objects of some classes are made of: those of which no pickle, and no whole text, says it.

A rule gives plain values and other objects. It holds for the user's own classes below that class, too.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextvars import Context, ContextVar
from logging import Logger
from operator import attrgetter
from typing import Any

from streamkit.plan.inspection import attribute
from streamkit.plan.own_code import is_own_class


def _default(value: ContextVar[Any]) -> tuple[Any, ...]:
    """The name and the default of a variable of contexts."""
    try:
        return value.name, Context().run(value.get)
    except LookupError:
        return (value.name,)


def _moment(value: Any) -> tuple[Any, ...]:
    """The fields of a time, `fold` and the zone: the text of a time may leave out the last two."""
    names = ("year", "month", "day", "hour", "minute", "second", "microsecond", "fold", "tzinfo")
    return tuple(attribute(value, name) for name in names)


def _error(value: BaseException) -> tuple[Any, ...]:
    """The arguments of an error, what kinds of errors of Python keep beside them, and its attributes."""
    names = ("name", "path", "obj", "filename", "filename2", "doc", "pos")
    return value.args, [attribute(value, name) for name in names], dict(vars(value))


def _of_ufunc(value: Any) -> list[Any]:
    """The user's function that an array function of numpy calls, and how many arguments and results it has."""
    return [*(one for one in gc.get_referents(value) if callable(one)), value.nin, value.nout]


def _iterated(value: Any) -> Any:
    return value.__reduce__()[1][0]


_RULES: dict[tuple[str, str], Callable[[Any], Any]] = {  # by the module and the name of a class
    ("argparse", "Namespace"): vars,
    ("types", "SimpleNamespace"): vars,
    ("types", "GenericAlias"): attrgetter("__origin__", "__args__"),
    ("types", "UnionType"): attrgetter("__args__"),
    ("collections", "UserList"): attrgetter("data"),
    ("collections", "UserDict"): attrgetter("data"),
    ("collections", "ChainMap"): attrgetter("maps"),
    ("builtins", "slice"): attrgetter("start", "stop", "step"),
    ("builtins", "property"): attrgetter("fget", "fset", "fdel"),
    ("builtins", "staticmethod"): attrgetter("__func__"),
    ("builtins", "classmethod"): attrgetter("__func__"),
    ("builtins", "memoryview"): lambda value: value.tobytes(),
    ("builtins", "map"): _iterated,
    ("builtins", "filter"): _iterated,
    ("builtins", "BaseException"): _error,
    ("datetime", "datetime"): _moment,
    ("datetime", "time"): _moment,
    ("dataclasses", "Field"): attrgetter("default", "default_factory", "init", "repr", "hash", "compare", "metadata"),
    ("decimal", "Context"): attrgetter(
        "prec", "rounding", "Emin", "Emax", "capitals", "clamp", "traps"
    ),  # its flags tell of its use
    ("logging", "Logger"): lambda value: (),  # no result depends on it, and its name on the way to start
    ("re", "Pattern"): attrgetter("pattern", "flags"),
    ("string", "Template"): vars,
    ("_struct", "Struct"): attrgetter("format"),
    ("functools", "KeyWrapper"): lambda value: [
        one for one in gc.get_referents(value) if not isinstance(one, type)
    ],  # of cmp_to_key
    ("functools", "partial"): attrgetter("func", "args", "keywords", "__dict__"),
    ("functools", "partialmethod"): attrgetter("func", "args", "keywords"),
    ("functools", "cached_property"): attrgetter("func"),
    ("functools", "singledispatchmethod"): attrgetter("func", "dispatcher"),
    ("functools", "_lru_cache_wrapper"): lambda value: (value.__wrapped__, value.cache_parameters()["typed"]),
    ("numpy", "ufunc"): _of_ufunc,  # of frompyfunc
    ("typing", "NewType"): attrgetter("__name__", "__supertype__"),
    ("typing", "TypeVar"): attrgetter("__name__", "__bound__", "__constraints__"),
    ("pydantic._internal._decorators", "Decorator"): attrgetter("cls_var_name", "func", "shim", "info"),
    ("pydantic.fields", "FieldInfo"): lambda value: [
        getattr(value, name, None) for name in type(value).__slots__ if not name.startswith("_")
    ],
    ("pydantic.type_adapter", "TypeAdapter"): attrgetter("_type", "_config"),
    ("_contextvars", "ContextVar"): _default,
}


def rule_of(kind: type) -> Callable[[Any], Any] | None:
    """How an object of a class, or of the user's own below it, says what it is made of."""
    if not is_own_class(kind) and not issubclass(kind, (BaseException, Logger)):
        return _RULES.get((kind.__module__, kind.__name__))
    rules = (_RULES.get((base.__module__, base.__name__)) for base in kind.__mro__)
    return next((rule for rule in rules if rule is not None), None)
