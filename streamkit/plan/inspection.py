"""What objects and functions of users say about themselves, whatever their own code does when it is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def attribute(value: Any, name: str, default: Any = None) -> Any:
    """An attribute of an object, or the default; a `__getattr__` may say that there is none by any error, as that of a dict does."""
    try:
        return getattr(value, name, default)
    except Exception:  # noqa: BLE001  it is the user's code
        return default


def signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """What a function is called with: that of a decorator's function, which may supply arguments of the one below; None if it hides it."""
    outer = _signature(function, is_below=False)
    return _signature(function, is_below=True) if outer is None else outer  # functools.cache has none of its own


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """What a function takes; where a decorator's function takes anything, what the one below does; None if it hides it."""
    found = signature(function)
    if found is not None and any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in found.parameters.values()):
        found = _signature(function, is_below=True)
    return None if found is None else list(found.parameters.values())


def _signature(function: Callable[..., Any], is_below: bool) -> inspect.Signature | None:
    try:
        return inspect.signature(function, follow_wrapped=is_below)
    except Exception:  # noqa: BLE001  functions in C have none, and an object's own code is asked, too
        return None
