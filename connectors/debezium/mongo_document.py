"""Documents of MongoDB in Debezium's envelopes: a row is a text of MongoDB's extended JSON there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamkit.connectors.debezium.strict_json import strict_json
from streamkit.errors import SchemaError

_NUMBERS: Mapping[str, Callable[[str], Any]] = {"$numberLong": int, "$numberInt": int, "$numberDouble": float}
_TEXTS = ("$oid", "$numberDecimal", "$uuid", "$symbol")


def document(text: str) -> dict[str, Any]:
    """The fields of a document, without the marks of extended JSON around numbers and ids; SchemaError if the text is none."""
    try:
        found = strict_json(text, _unmarked)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"found {text[:80]!r}; expected the row after the change, as an object: {error}") from None
    if not isinstance(found, dict):
        raise SchemaError(f"found {text[:80]!r}; expected the row after the change, as an object")
    return found


def _unmarked(found: dict[str, Any]) -> Any:
    """A value for an object that only says its type."""
    if len(found) != 1:
        return found
    ((mark, value),) = found.items()
    if mark in _NUMBERS and isinstance(value, str):
        return _NUMBERS[mark](value)
    if mark in _TEXTS or (mark == "$date" and isinstance(value, str | int)):
        return value
    return found
