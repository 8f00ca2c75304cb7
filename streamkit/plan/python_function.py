"""Functions of users as values: two are equal if name, code, captured values and declared type are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamkit.plan.function_digest import SOMEWHERE, digest_of_parts, parts_of, type_name

ROW, SERIES, ARRAY, RECORD, BATCH, EFFECT, FOLD = "row", "series", "array", "record", "batch", "effect", "fold"
RECORDS, BATCHES = "records", "batches"
CONDITION = "condition"
PROCESSOR = "processor"
_CALLS: dict[str, list[Callable[..., Any]]] = {}  # by id: functions that only captured objects tell apart


@dataclass(frozen=True)
class PythonFunction:
    """
    A user's function, its declared result type, and how it is called.

    `style` is `row` (a Python value an argument, once a row), `series` (a pandas Series an argument), `array` (an Arrow array an argument),
    `record` (one dict a row) or `batch` (one Arrow record batch), or `effect` (one dict a row, with `_deleted` if it is a tombstone,
    of which nothing is wanted back), or `fold` (states and rows as dicts, as an aggregation calls it). `records` and `batches` are called
    as `record` and `batch`, and give any number of rows; a `condition` is called as `record`, and gives true, false or null. A `processor`
    is a class, a factory or a function of a record and its context.
    `parameters` are the names in that dict or batch; `same` are those that the result may have
    again, if they are equal. `is_known_by_identity`: it captures an object that only its address tells from others.
    """

    name: str
    type: str
    style: str
    digest: str
    parameters: tuple[str, ...] = ()
    is_known_by_identity: bool = False
    call: Callable[..., Any] = field(default=print, compare=False, repr=False)
    same: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """What plans call it: its name, and enough of a digest to tell it from others of that name."""
        key = repr((self.type, self.style, self.digest, self.parameters, *([self.same] if self.same else [])))
        return f"{self.name}:{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    @property
    def known_as(self) -> str:
        """What this process calls it: its id, with a number if only captured objects tell it from another function of that id."""
        if not self.is_known_by_identity:
            return self.id
        calls = _CALLS.setdefault(self.id, [])
        if self.call not in calls:
            calls.append(self.call)
        number = calls.index(self.call) + 1
        return self.id if number == 1 else f"{self.id}~{number}"


def python_function(call: Callable[..., Any], type: str, style: str, parameters: tuple[str, ...] = ()) -> PythonFunction:
    """The value of a function."""
    name = str(getattr(call, "__name__", None) or type_name(call))
    parts = list(parts_of(call))
    by_identity = any(SOMEWHERE in part for part in parts)
    return PythonFunction(
        "lambda" if name == "<lambda>" else name, type, style, digest_of_parts(parts), parameters, by_identity, call
    )
