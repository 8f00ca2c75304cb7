"""
Functions of users as values.

Each has two names. Its id is a digest of what it does, by which a later start knows it again. What this process calls it tells it from
every other function there: no digest tells all that a function may reach.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from streamkit.plan.function_digest import digest_of, type_name
from streamkit.plan.inspection import attribute
from streamkit.plan.same_function import is_same_function

ROW, SERIES, ARRAY, RECORD, BATCH, EFFECT, FOLD = "row", "series", "array", "record", "batch", "effect", "fold"
RECORDS, BATCHES = "records", "batches"
CONDITION = "condition"
PROCESSOR = "processor"
NUMBER = "~"  # before the number of a function among those of its id
_CALLS: dict[str, list[Callable[..., Any]]] = {}  # by id: functions that this process tells apart
_KNOWN_AS = re.compile(rf"(:[0-9a-f]{{16}})(?:{NUMBER}[0-9]+)?(?=\")")
_LOCK = threading.Lock()


@dataclass(frozen=True, eq=False)
class PythonFunction:
    """
    A user's function, its declared result type, and how it is called.

    `style` is `row` (a Python value an argument, once a row), `series` (a pandas Series an argument), `array` (an Arrow array an argument),
    `record` (one dict a row) or `batch` (one Arrow record batch), or `effect` (one dict a row, with `_deleted` if it is a tombstone,
    of which nothing is wanted back), or `fold` (states and rows as dicts, as an aggregation calls it). `records` and `batches` are called
    as `record` and `batch`, and give any number of rows; a `condition` is called as `record`, and gives true, false or null. A `processor`
    is a class, a factory or a function of a record and its context.
    `parameters` are the names in that dict or batch; `same` are those that the result may have
    again, if they are equal. Two are equal if they are called in one way and are the same function (`plan/same_function.py`).
    """

    name: str
    type: str
    style: str
    digest: str
    parameters: tuple[str, ...] = ()
    call: Callable[..., Any] = field(default=print, repr=False)
    same: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """What other processes get: the fields, since what was found out here may be missing or another one there."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def id(self) -> str:
        """What plans call it: its name, and enough of a digest to tell it from others of that name."""
        key = repr((self.type, self.style, self.digest, self.parameters, *([self.same] if self.same else [])))
        return f"{self.name}:{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    @cached_property
    def known_as(self) -> str:
        """What this process calls it: its id, from the second function of that id on with a number."""
        calls = _CALLS.setdefault(self.id, [])
        with _LOCK:
            number = next((place for place, call in enumerate(calls, 1) if is_same_function(call, self.call)), 0)
            if number == 0:
                calls.append(self.call)
                number = len(calls)
        return self.id if number == 1 else f"{self.id}{NUMBER}{number}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PythonFunction):
            return NotImplemented
        return self is other or (self.id == other.id and is_same_function(self.call, other.call))

    def __hash__(self) -> int:
        return hash(self.id)


def renumbered(text: str) -> str:
    """A plan's text in which the functions of each id are numbered as they come, whatever this process has called before."""
    numbers: dict[str, list[str]] = {}

    def number_of(match: re.Match[str]) -> str:
        known = numbers.setdefault(match[1], [])
        if match[0] not in known:
            known.append(match[0])
        number = known.index(match[0]) + 1
        return match[1] if number == 1 else f"{match[1]}{NUMBER}{number}"

    return _KNOWN_AS.sub(number_of, text) if NUMBER in text else text


def python_function(call: Callable[..., Any], type: str, style: str, parameters: tuple[str, ...] = ()) -> PythonFunction:
    """The value of a function."""
    name = str(attribute(call, "__name__") or type_name(call))
    return PythonFunction("lambda" if name == "<lambda>" else name, type, style, digest_of(call), parameters, call)
