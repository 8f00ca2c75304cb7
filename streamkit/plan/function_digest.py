"""
Digests of functions of users: by them a plan, and a start, tell whether a function does what it did.

A function is its code, its defaults, its attributes, the values that it captured, and the globals that it uses: functions and classes of its
module, plain values, lists and dicts, objects of the user's own classes, and which functions of other modules. A method is its object, too, and
an object that is called its class and its plain attributes. Some objects of Python say themselves what they are made of, for pickles.
What no text tells in the same way in every process, such as a lock, a connection or a generator, is left out.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from operator import attrgetter
from types import BuiltinFunctionType, CodeType, FunctionType, MethodWrapperType, ModuleType
from typing import Any

SOMEWHERE = " at an address"  # ends what is told of a value that only its address tells from others
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_TOLD_BY_THEIR_TEXT = ("builtins", "datetime", "decimal", "fractions", "numpy", "uuid", "zoneinfo")
_TEXTS = ("collections", "ipaddress", "pathlib", "re", "types", *_TOLD_BY_THEIR_TEXT)  # of what stands in an attribute
_STANDARD = sys.stdlib_module_names - {"__main__"}
_INSTALLED = ("site-packages", "dist-packages")  # the folders of libraries
_OURS = ("streamkit", "pyspark")
_NEVER_TWICE = ("random", "itertools")  # modules of Python whose objects change while they are used
_MADE_OF: dict[tuple[str, str], Callable[[Any], Any]] = {  # what no pickle says
    ("argparse", "Namespace"): vars,
    ("string", "Template"): vars,
    ("_struct", "Struct"): attrgetter("format"),
}
_NESTED_MAX = 20


def digest_of(call: Callable[..., Any]) -> str:
    """
    A digest of what a function does: its code, its defaults and the values it captured, but not where it stands.

    It holds within one version of Python, since it is made of the code that Python compiled.
    """
    return digest_of_parts(parts_of(call))


def digest_of_parts(parts: Iterable[str]) -> str:
    """A digest of texts in their order."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def parts_of(call: Callable[..., Any]) -> Iterator[str]:
    """Texts that tell a function apart from others, the same in every process."""
    return _Telling().parts(call, frozenset())


def type_name(value: object) -> str:
    """The name of a value's class."""
    return value.__class__.__name__


class _Telling:
    """The texts of one function; `told` are the objects whose attributes have been told, by their addresses: each is told once."""

    def __init__(self) -> None:
        self.told: set[int] = set()

    def parts(self, value: Any, seen: frozenset[int]) -> Iterator[str]:
        """Texts that tell a value apart from others; `seen` are the addresses of those in which it stands."""
        if id(value) in seen:
            return
        seen |= {id(value)}
        if isinstance(value, CodeType):
            yield repr((value.co_code, value.co_names, value.co_varnames, value.co_argcount, value.co_flags))
            for constant in value.co_consts:
                yield from self.parts(constant, seen)
        elif isinstance(value, type) and value.__module__ != "builtins":
            yield from self._class(value, seen)
        elif getattr(value, "__func__", None) is not None:  # a method and its object
            yield from self.parts((value.__func__, value.__self__), seen)
            if not isinstance(value.__self__, type):
                yield from self.parts(type(value.__self__), seen)
        elif (owner := _owner(value)) is not None:
            yield f"{value.__name__}{SOMEWHERE}"  # what it does to its object is its own
            yield from self.parts(owner, seen)
        elif isinstance(getattr(value, "__code__", None), CodeType):
            yield from self._function(value, seen)
        elif isinstance(value, (set, frozenset)):
            yield repr(sorted("\n".join(self.parts(item, seen)) for item in value))
        elif isinstance(value, ModuleType):
            yield f"module {value.__name__}"
        elif isinstance(getattr(wrapped := getattr(value, "__wrapped__", None), "__code__", None), CodeType):  # functools.cache
            yield from self.parts(wrapped, seen)
        elif hasattr(value, "func") and hasattr(value, "keywords"):  # functools.partial
            yield from self.parts((value.func, value.args, sorted(value.keywords.items())), seen)
        elif isinstance(value, (tuple, list, deque)):
            for item in value:
                yield from self.parts(item, seen)
            yield from self._own_kind(value, seen)
        elif isinstance(value, dict):
            for item in (*value.items(), *_factory(value)):
                yield from self.parts(item, seen)
            yield from self._own_kind(value, seen)
        elif isinstance(value, memoryview):
            yield repr(value.tobytes())
        elif (made_of := _made_of(value)) is not None:
            yield type_name(value)
            yield from self.parts(made_of, seen)
        elif hasattr(value, "__array__") or hasattr(value, "__arrow_c_stream__"):  # their texts leave out the middle
            yield f"{type_name(value)} {_bytes_digest(value)}"
        elif type(value).__module__ not in _TOLD_BY_THEIR_TEXT:
            yield from self._object(value, seen)
        else:
            yield f"{type_name(value)} {_ADDRESS.sub(SOMEWHERE, repr(value))}"

    def _class(self, value: type, seen: frozenset[int]) -> Iterator[str]:
        """Its functions and its values, and those of its bases in the same module; two of one text are told apart by where they are."""
        yield f"class {value.__qualname__}{SOMEWHERE}"
        if _is_of_user(type(value)):
            yield from self._class_once(type(value), seen)
        for base in value.__mro__:
            if base.__module__ == value.__module__:
                yield from self._members(base, seen)

    def _members(self, value: type, seen: frozenset[int]) -> Iterator[str]:
        for name, member in sorted(vars(value).items()):
            ways = (
                getattr(member, way, None) for way in ("fget", "__func__", "func")
            )  # of a property, of what belongs to the class
            function = next((one for one in (*ways, member) if isinstance(getattr(one, "__code__", None), CodeType)), None)
            if function is not None:
                yield name
                yield from self.parts(function, seen)
            elif not _is_dunder(name):
                yield from _under(name, self._held(member, value.__module__, seen))

    def _function(self, value: Any, seen: frozenset[int]) -> Iterator[str]:
        yield from self.parts(value.__code__, seen)
        yield from self.parts((value.__defaults__, value.__kwdefaults__), seen)
        attributes = {name: one for name, one in getattr(value, "__dict__", {}).items() if not _is_dunder(name)}
        yield from self._held(attributes, str(getattr(value, "__module__", None)), seen)
        yield from self._globals(value, seen)
        for cell in value.__closure__ or ():
            try:
                yield from self.parts(cell.cell_contents, seen)
            except ValueError:  # a name that is given its value later, such as the function's own below a decorator
                yield f"nothing yet{SOMEWHERE}"

    def _object(self, value: Any, seen: frozenset[int], text: str | None = None) -> Iterator[str]:
        """Its text, which may be that of another, as a fitted model's is, and its plain attributes. One that is called is its class, too."""
        text = _ADDRESS.sub("", repr(value)) if text is None else text
        yield f"{type_name(value)} {'' if is_dataclass(value) else text}{SOMEWHERE}"
        if id(value) in self.told or isinstance(value, Enum) or type(value).__module__.partition(".")[0] in _STANDARD:
            return
        self.told.add(id(value))
        if callable(value):
            yield from self.parts(type(value), seen)
        for name, attribute in sorted(_attributes(value).items()):
            yield from _under(name, self._held(attribute, type(value).__module__, seen))

    def _globals(self, function: Any, seen: frozenset[int]) -> Iterator[str]:
        """What a function uses under the names of its module; each of the functions and classes there is told once."""
        module = str(getattr(function, "__module__", None))
        for name in sorted(_names_in(function.__code__) & function.__globals__.keys()):
            value = function.__globals__[name]
            if not _is_code(value):
                yield from _under(name, self._held(value, module, seen))
            elif getattr(value, "__module__", None) != module:
                yield f"{name} {getattr(value, '__qualname__', '')}"  # what another module has may change with its version
            elif id(value) not in self.told:
                self.told.add(id(value))
                yield from _under(name, self.parts(value, seen))

    def _held(self, value: Any, module: str, seen: frozenset[int]) -> Iterator[str]:
        """What can be told of a value that an object, or the module, holds; nothing of a lock, a connection, an object of a library."""
        if id(value) in seen:
            return
        if _is_plain(value) or isinstance(value, memoryview):
            yield from self.parts(value, seen)
        elif (owner := _owner(value)) is not None:
            yield value.__name__
            yield from self._held(owner, module, seen | {id(value)})
        elif isinstance(value, (tuple, list, deque)):
            for item in value:
                yield from _under("-", self._held(item, module, seen | {id(value)}))
            yield from self._own_kind(value, seen)
        elif isinstance(value, (set, frozenset)):
            yield repr(sorted("\n".join(self._held(item, module, seen | {id(value)})) for item in value))
        elif isinstance(value, Mapping):
            for key, item in value.items():
                yield from _under("key", self._held(key, module, seen | {id(value)}))
                yield from _under("value", self._held(item, module, seen | {id(value)}))
            yield from self._held(_factory(value), module, seen | {id(value)})
            yield from self._own_kind(value, seen)
        elif isinstance(value, partial):
            yield from self._held((value.func, value.args, value.keywords), module, seen | {id(value)})
        elif _is_code(value):
            is_here = getattr(value, "__module__", None) == module
            yield from self.parts(value, seen) if is_here else (str(getattr(value, "__qualname__", "")),)
        elif (made_of := _made_of(value)) is not None:
            yield type_name(value)
            yield from self._held(made_of, module, seen | {id(value)})
        elif type(value).__module__ == module or _is_of_user(type(value)):
            yield from self._object(value, seen | {id(value)}, text="")
            yield from self._class_once(type(value), seen)

    def _own_kind(self, value: Any, seen: frozenset[int]) -> Iterator[str]:
        """What a list or dict of the user's own class has beside its items: attributes and methods."""
        if _is_of_user(type(value)):
            yield from self._object(value, seen | {id(value)}, text="")
            yield from self._class_once(type(value), seen)

    def _class_once(self, value: type, seen: frozenset[int]) -> Iterator[str]:
        if id(value) not in self.told:
            self.told.add(id(value))
            yield from self.parts(value, seen)


def _under(name: str, parts: Iterable[str]) -> Iterator[str]:
    """Parts behind a name, which is there only if they are."""
    for number, part in enumerate(parts):
        if not number:
            yield name
        yield part


def _names_in(code: CodeType) -> set[str]:
    """The names that code uses, and that functions within it do."""
    inner = [_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _is_code(value: Any) -> bool:
    """Whether a value is a class, or a function, and no object beside it."""
    if isinstance(value, type) or isinstance(getattr(value, "__wrapped__", None), FunctionType):
        return True
    return isinstance(value, (FunctionType, BuiltinFunctionType)) and _owner(value) is None


def _owner(value: Any) -> Any:
    """The object whose method a value is, if Python itself made that method, such as `get` of a dict; else None."""
    is_method = isinstance(value, (BuiltinFunctionType, MethodWrapperType))
    owner = value.__self__ if is_method else None
    return None if isinstance(owner, ModuleType) else owner


def _factory(value: Any) -> tuple[Any, ...]:
    """What makes the values of a dict that are missing."""
    factory = getattr(value, "default_factory", None)
    return () if factory is None else (factory,)


def _made_of(value: Any) -> Any:
    """What an object of Python's own library says for pickles that it is made of, such as an itemgetter; None if it does not."""
    kind = type(value)
    if (tell := _MADE_OF.get((kind.__module__, kind.__name__))) is not None:
        return tell(value)
    package = kind.__module__.partition(".")[0]
    if package not in _STANDARD or package in (*_NEVER_TWICE, *_TEXTS) or hasattr(value, "__next__"):
        return None
    if all(getattr(kind, way) is getattr(object, way) for way in ("__reduce__", "__reduce_ex__")):
        return None
    try:
        reduced = value.__reduce_ex__(2)
    except Exception:  # noqa: BLE001  a lock, a socket
        return None
    if isinstance(reduced, str):
        return reduced
    _, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    return arguments, state, [*(items or ())], [*(pairs or ())]


def _is_of_user(kind: type) -> bool:
    """Whether a class is of the user's own modules: not of Python, of StreamKit, or of an installed library."""
    package = kind.__module__.partition(".")[0]
    if package in _STANDARD or package in _OURS:
        return False
    file = str(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")
    return not any(folder in file for folder in _INSTALLED)


def _attributes(value: Any) -> dict[str, Any]:
    """What an object holds under names, in slots or not; of a data class its fields."""
    names = [str(name) for name in getattr(value, "__dict__", ())]
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for slot in [slots] if isinstance(slots, str) else slots:
            is_hidden = slot.startswith("__") and not _is_dunder(slot)
            names.append(f"_{base.__name__.lstrip('_')}{slot}" if is_hidden else slot)
    absent = object()
    found = {name: getattr(value, name, absent) for name in names if not _is_dunder(name)}
    return {name: attribute for name, attribute in found.items() if attribute is not absent}


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is told by its text in the same way in every process: numbers, texts, times, and what is made of such."""
    if isinstance(value, (tuple, list, dict)) and _is_of_user(type(value)):
        return False
    if isinstance(value, (tuple, list, set, frozenset)):
        return depth < _NESTED_MAX and all(_is_plain(one, depth + 1) for one in value)
    if isinstance(value, Mapping):
        if _factory(value):
            return False
        return depth < _NESTED_MAX and all(_is_plain(one, depth + 1) for one in (*value.keys(), *value.values()))
    if is_dataclass(value) and not isinstance(value, type):
        return depth < _NESTED_MAX and all(_is_plain(getattr(value, one.name, None), depth + 1) for one in fields(value))
    if hasattr(value, "__array__") or hasattr(value, "__arrow_c_stream__"):
        return _bytes_digest(value) != SOMEWHERE
    if isinstance(value, Enum) or isinstance(getattr(value, "__code__", None), CodeType):
        return True
    return type(value).__module__ in _TEXTS and not isinstance(value, ModuleType) and _ADDRESS.search(repr(value)) is None


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _bytes_digest(value: Any) -> str:
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except (pickle.PicklingError, TypeError, AttributeError, ValueError):
        return SOMEWHERE
