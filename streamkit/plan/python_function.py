"""Functions of users as values: two are equal if name, code, captured values and declared type are."""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

ROW, SERIES, ARRAY, RECORD, BATCH, EFFECT, FOLD = "row", "series", "array", "record", "batch", "effect", "fold"
RECORDS, BATCHES = "records", "batches"
CONDITION = "condition"
PROCESSOR = "processor"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (bool, int, float, str, bytes, tuple, frozenset)
_SOMEWHERE = " at an address"
_CALLS: dict[str, list[Callable[..., Any]]] = {}  # by id: functions that only captured objects tell apart
_TOLD_BY_THEIR_TEXT = ("builtins", "datetime", "decimal", "fractions", "numpy", "uuid", "zoneinfo")


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
    parts = list(_parts(call, frozenset()))
    by_identity = any(_SOMEWHERE in part for part in parts)
    return PythonFunction("lambda" if name == "<lambda>" else name, type, style, _digest(parts), parameters, by_identity, call)


def type_name(value: object) -> str:
    """The name of a value's class."""
    return value.__class__.__name__


def digest_of(call: Callable[..., Any]) -> str:
    """
    A digest of what a function does: its code, its defaults and the values it captured, but not where it stands.

    It holds within one version of Python, since it is made of the code that Python compiled.
    """
    return _digest(_parts(call, frozenset()))


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _parts(value: Any, seen: frozenset[int]) -> Iterator[str]:
    """Texts that tell a value apart from others, the same in every process."""
    if id(value) in seen:
        return
    seen |= {id(value)}
    if isinstance(value, CodeType):
        yield repr((value.co_code, value.co_names, value.co_varnames, value.co_argcount, value.co_flags))
        for constant in value.co_consts:
            yield from _parts(constant, seen)
    elif isinstance(value, type) and value.__module__ != "builtins":  # two classes of one text are told apart by where they are
        yield f"class {value.__qualname__}{_SOMEWHERE}"
        for name, member in sorted(vars(value).items()):
            if isinstance(getattr(member, "__code__", None), CodeType):
                yield name
                yield from _parts(member, seen)
    elif getattr(value, "__func__", None) is not None:  # a method and its object
        yield from _parts((value.__func__, value.__self__), seen)
    elif isinstance(getattr(value, "__code__", None), CodeType):
        yield from _parts(value.__code__, seen)
        yield from _parts((value.__defaults__, value.__kwdefaults__), seen)
        yield from _parts(_globals_of(value), seen)
        for cell in value.__closure__ or ():
            try:
                yield from _parts(cell.cell_contents, seen)
            except ValueError:  # a name that is given its value later, such as the function's own below a decorator
                yield f"nothing yet{_SOMEWHERE}"
    elif isinstance(value, (set, frozenset)):
        yield repr(sorted(map(repr, value)))
    elif hasattr(value, "func") and hasattr(value, "keywords"):  # functools.partial
        yield from _parts((value.func, value.args, sorted(value.keywords.items())), seen)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _parts(item, seen)
    elif isinstance(value, dict):
        for item in value.items():
            yield from _parts(item, seen)
    elif hasattr(value, "__array__") or hasattr(value, "__arrow_c_stream__"):  # their texts leave out the middle
        yield f"{type_name(value)} {_bytes_digest(value)}"
    elif type(value).__module__ not in _TOLD_BY_THEIR_TEXT:  # a fitted model's text may be that of another
        yield f"{type_name(value)} {_ADDRESS.sub('', repr(value))}{_SOMEWHERE}"
    else:
        yield f"{type_name(value)} {_ADDRESS.sub(_SOMEWHERE, repr(value))}"


def _globals_of(function: Any) -> list[tuple[str, Any]]:
    """What a function uses of its own module: functions and plain values; what it imports is left out."""
    code, module = function.__code__, getattr(function, "__module__", None)
    names = sorted(set(code.co_names))
    found = [(name, function.__globals__[name]) for name in names if name in function.__globals__]
    return [(name, value) for name, value in found if isinstance(value, _PLAIN) or _is_function_of(value, module)]


def _is_function_of(value: Any, module: str | None) -> bool:
    return isinstance(getattr(value, "__code__", None), CodeType) and getattr(value, "__module__", None) == module


def _bytes_digest(value: Any) -> str:
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except (pickle.PicklingError, TypeError, AttributeError, ValueError):
        return _SOMEWHERE
