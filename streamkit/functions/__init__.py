"""
The names of pyspark.sql.functions, recorded without a session: each gives a `Column`, nothing is computed.

As in PySpark, a text argument names a column, unless the parameter is a plain value by nature (formats, separators, units, patterns).
What is here is what StreamKit evaluates. Another public name of pyspark.sql.functions raises UnsupportedExpressionError when it is called,
and says what there is instead; a name PySpark does not have is an UnknownFunctionError, which is an AttributeError.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import NoReturn

from streamkit.errors import UnknownFunctionError, UnsupportedExpressionError
from streamkit.functions.aggregates import *  # noqa: F403
from streamkit.functions.assertions import *  # noqa: F403
from streamkit.functions.collections import *  # noqa: F403
from streamkit.functions.columns import *  # noqa: F403
from streamkit.functions.conditions import *  # noqa: F403
from streamkit.functions.encodings import *  # noqa: F403
from streamkit.functions.formats import *  # noqa: F403
from streamkit.functions.hashes import *  # noqa: F403
from streamkit.functions.json import *  # noqa: F403
from streamkit.functions.numbers import *  # noqa: F403
from streamkit.functions.python import *  # noqa: F403
from streamkit.functions.regular_expressions import *  # noqa: F403
from streamkit.functions.strings import *  # noqa: F403
from streamkit.functions.substrings import *  # noqa: F403
from streamkit.functions.times import *  # noqa: F403
from streamkit.functions.urls import *  # noqa: F403
from streamkit.plan.function_names import AGGREGATE_NAMES, CONTEXT_NAMES, FUNCTION_NAMES
from streamkit.plan.location import user_location


def _refused(name: str) -> Callable[..., NoReturn]:
    """A function of PySpark that is not here: calling it says why."""

    def refuse(*_arguments: object, **_named: object) -> NoReturn:
        raise UnsupportedExpressionError(_refusal(name), user_location())

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Raise UnsupportedExpressionError: StreamKit does not evaluate pyspark.sql.functions.{name}."
    return refuse


_WINDOWS = {
    "window": 'sk.tumbling("1 hour", grace="5 minutes")',
    "session_window": 'sk.session("30 minutes", grace="5 minutes")',
}


def _refusal(name: str) -> str:
    """Why a function of PySpark cannot be used."""
    from streamkit.expressions.aggregates import AGGREGATES  # here, so that the names alone load nothing

    if name in CONTEXT_NAMES:
        return f"F.{name} cannot be used: its value depends on when or where it runs, so the same input would not give the same output"
    if name in _WINDOWS:
        return f"Spark has F.{name}; windows stand behind groups here: expected group_by(…).windowed_by({_WINDOWS[name]})"
    if name in AGGREGATE_NAMES:
        return f"Spark has F.{name}; StreamKit cannot evaluate it yet; expected one of the aggregates {', '.join(AGGREGATES)}"
    close = _nearest(name, __dir__(), "such as ") or "as help(streamkit.functions) shows them"
    return f"Spark has F.{name}; StreamKit cannot evaluate it yet; expected one that it can, {close}"


def _nearest(name: str, names: Iterable[str], before: str) -> str:
    """What to say of names that are like this one; nothing if there are none."""
    close = [f"F.{other}" for other in difflib.get_close_matches(name, sorted(names), 3)]
    return f"{before}{', '.join(close)}" if close else ""


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("_"):  # names that Python looks for by itself
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in FUNCTION_NAMES:
        hint = _nearest(name, __dir__(), "; did you mean ")
        raise UnknownFunctionError(
            f"pyspark.sql.functions has no {name!r}, and so streamkit.functions has none either{f'{hint}?' if hint else ''}",
            user_location(),
        )
    return _refused(name)


def __dir__() -> list[str]:
    """What can be called here; modules and what is imported for other ends are left out."""
    return sorted(
        name
        for name, value in globals().items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", "").startswith(f"{__name__}.")
    )
