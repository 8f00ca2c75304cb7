"""
The names of pyspark.sql.functions, recorded without a session: each gives a `Column`, nothing is computed.

As in PySpark, a text argument names a column, unless the parameter is a plain value by nature (formats, separators, units, patterns).
What is here is what StreamKit evaluates; each handle stands beside its evaluation, in `streamkit.expressions`. Another public name of
pyspark.sql.functions raises UnsupportedExpressionError when it is called, and says what there is instead; a name PySpark does not have is an
UnknownFunctionError, which is an AttributeError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from streamkit.errors import UnknownFunctionError
from streamkit.expressions.analysis.families import *  # noqa: F403
from streamkit.functions.columns import *  # noqa: F403
from streamkit.functions.explosions import *  # noqa: F403
from streamkit.functions.python import *  # noqa: F403
from streamkit.plan.location import user_location


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("_"):  # names that Python looks for by itself
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from streamkit.expressions.analysis.refused_functions import missing_handle  # here, since it asks pyspark for its names

    missing = missing_handle(name, __dir__(), user_location())
    if isinstance(missing, UnknownFunctionError):
        raise missing

    def refuse(*_arguments: object, **_named: object) -> NoReturn:
        raise missing_handle(name, __dir__(), user_location())  # at the line of the call

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Raise UnsupportedExpressionError: StreamKit does not evaluate pyspark.sql.functions.{name}."
    return refuse


def __dir__() -> list[str]:
    """What can be called here; modules and what is imported for other ends are left out."""
    return sorted(
        name
        for name, value in globals().items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", "").startswith((f"{__name__}.", "streamkit.expressions."))
    )
