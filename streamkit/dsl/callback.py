"""Python functions that verbs are given, as far as they can be checked when they are declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamkit.errors import TopologyError
from streamkit.plan.inspection import attribute, signature
from streamkit.plan.location import user_location

A_ROW = "a dict of all columns"


def check_arity(function: Callable[..., Any], caller: str, *given: str) -> None:
    """TopologyError if a function cannot be called with these arguments, which are named; one that hides its parameters is not checked."""
    found = signature(function)
    if found is None:
        return
    try:
        found.bind(*given)
    except TypeError as error:
        name = attribute(function, "__name__", repr(function))
        count = f"{len(given)} argument{'' if len(given) == 1 else 's'}"
        told = f" ({', '.join(given)})" if given else ""
        raise TopologyError(f"{caller} calls the function {name}{found} with {count}{told}: {error}", user_location()) from None
