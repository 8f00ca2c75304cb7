"""
Digests of functions of users: by them a plan, and a start, tell whether a function does what it did.

A function is its code, its defaults, its attributes, the values that it captured, and the globals that it uses: functions and classes of its
module, plain values, lists and dicts, objects of the user's own classes, and which functions of other modules. A method is its object, too, and
an object its class and its plain attributes. Some objects of Python say themselves what they are made of, for pickles.
A function or class of a library is its name, wherever it is met: what the library holds beside it changes while it is used.
What no text tells in the same way in every process, such as a lock, a connection or a generator, is left out.
"""

from __future__ import annotations

import dis
import gc
import hashlib
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import Context, ContextVar
from dataclasses import fields, is_dataclass
from datetime import datetime, time, tzinfo
from enum import Enum
from functools import partial, partialmethod
from operator import attrgetter
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, MethodWrapperType, ModuleType
from typing import Any

from streamkit.plan.array_parts import array_parts, is_array

SOMEWHERE = " at an address"  # ends what is told of a value that only its address tells from others
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_TOLD_BY_THEIR_TEXT = ("builtins", "datetime", "decimal", "fractions", "numpy", "uuid", "zoneinfo")
_TEXTS = ("collections", "ipaddress", "pathlib", "re", "types", *_TOLD_BY_THEIR_TEXT)  # of what stands in an attribute
_STANDARD = sys.stdlib_module_names - {"__main__"}
_INSTALLED = ("site-packages", "dist-packages")  # the folders of libraries
_OURS = ("streamkit", "pyspark")
_NEVER_TWICE = ("random", "itertools")  # modules of Python whose objects change while they are used
_RANDOM = "numpy.random"
_VALUES = ("numpy", "pandas", "pyarrow")  # libraries whose objects are values
_OF_A_FILE = ("__file__", "__path__", "__cached__", "__spec__", "__loader__", "__builtins__", "__doc__")
_SEQUENCES: tuple[type[Any], ...] = (tuple, list, deque, type({}.keys()), type({}.values()), type({}.items()))


def _default(value: ContextVar[Any]) -> tuple[Any, ...]:
    """The name and the default of a variable of contexts."""
    try:
        return value.name, Context().run(value.get)
    except LookupError:
        return (value.name,)


def _moment(value: Any) -> tuple[Any, ...]:
    """A time without its zone, which of two of that name it is, and the zone, of which the text may say nothing."""
    zone = value.tzinfo
    return repr(value.replace(tzinfo=None)), value.fold, "" if _is_of_user(type(zone)) else _ADDRESS.sub("", repr(zone)), zone


_MADE_OF: dict[tuple[str, str], Callable[[Any], Any]] = {  # what no pickle says
    ("argparse", "Namespace"): vars,
    ("types", "SimpleNamespace"): vars,
    ("collections", "UserList"): attrgetter("data"),
    ("collections", "UserDict"): attrgetter("data"),
    ("collections", "ChainMap"): attrgetter("maps"),
    ("builtins", "slice"): attrgetter("start", "stop", "step"),
    ("datetime", "datetime"): _moment,
    ("datetime", "time"): _moment,
    ("string", "Template"): vars,
    ("_struct", "Struct"): attrgetter("format"),
    ("functools", "KeyWrapper"): lambda value: [
        one for one in gc.get_referents(value) if not isinstance(one, type)
    ],  # of cmp_to_key
    ("functools", "partialmethod"): lambda value: (value.func, value.args, value.keywords),
    ("_contextvars", "ContextVar"): _default,
    ("builtins", "map"): lambda value: value.__reduce__()[1][0],
    ("builtins", "filter"): lambda value: value.__reduce__()[1][0],
}
_NESTED_MAX = 20
_BITS_MAX = 10_000


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
    """
    The texts of one function.

    `told` are the objects whose attributes have been told, by their addresses: each is told once, and kept, so that no other gets its address.
    """

    def __init__(self, told: Mapping[int, Any] | None = None) -> None:
        self.told = dict(told or {})

    def parts(self, value: Any, seen: frozenset[int]) -> Iterator[str]:
        """Texts that tell a value apart from others; `seen` are the addresses of those in which it stands."""
        if id(value) in seen:
            return
        seen |= {id(value)}
        if (name := _library_name(value)) is not None:
            yield name
            yield from self._made_by_library(value, seen)
        elif isinstance(value, CodeType):
            steps, constants = _steps(value)
            yield repr((steps, value.co_names, value.co_varnames, value.co_argcount, value.co_flags & ~_HAS_DOCSTRING))
            for constant in constants:
                yield from self.parts(constant, seen)
        elif isinstance(value, Enum):
            yield from self._enum_member(value, seen)
        elif isinstance(value, type):
            yield from self._class(value, seen)
        elif isinstance(value, (staticmethod, classmethod)):
            yield from self.parts(value.__func__, seen)
        elif getattr(value, "__func__", None) is not None:  # a method and its object
            yield from self.parts((value.__func__, value.__self__), seen)
            if not isinstance(value.__self__, type):
                yield from self.parts(type(value.__self__), seen)
        elif (owner := _owner(value)) is not None:
            yield f"{value.__name__}{SOMEWHERE}"  # what it does to its object is its own
            yield from self.parts(owner, seen)
        elif isinstance(getattr(value, "__code__", None), CodeType):
            yield from self._function(value, seen)
        elif isinstance(value, ModuleType):
            yield f"module {value.__name__}"
        elif isinstance(getattr(wrapped := getattr(value, "__wrapped__", None), "__code__", None), CodeType):  # functools.cache
            yield from self.parts(wrapped, seen)
        elif hasattr(value, "func") and hasattr(value, "keywords"):  # functools.partial
            yield from self.parts((value.func, value.args, sorted(value.keywords.items())), seen)
        else:
            yield from self._value(value, seen)

    def _value(self, value: Any, seen: frozenset[int]) -> Iterator[str]:
        """Texts that tell apart a value that is no code."""
        if isinstance(value, (set, frozenset)):
            yield self._in_any_order(lambda telling, item: telling.parts(item, seen), value)
            yield from self._own_kind(value, seen)
        elif isinstance(value, _SEQUENCES):
            yield f"{_sequence_name(value)} {len(value)}"
            for item in value:
                yield from self.parts(item, seen)
            yield from self._own_kind(value, seen)
        elif isinstance(value, (dict, MappingProxyType)):
            yield f"dict {len(value)}"
            for item in (*value.items(), *_factory(value)):
                yield from self.parts(item, seen)
            yield from self._own_kind(value, seen)
        elif isinstance(value, memoryview):
            yield repr(value.tobytes())
        elif _is_whole(value):
            yield f"{type_name(value)} {_text(value)}"
        elif (made_of := _made_of(value)) is not None:
            yield type_name(value)
            yield from self.parts(made_of, seen)
        elif isinstance(value, BaseException):
            yield type_name(value)
            yield from self.parts(value.args, seen)
            yield from self._own_kind(value, seen)
        elif is_array(value):  # their texts leave out the middle
            yield from self._array(value, seen)
        elif (values := _values_of(value)) is not None:
            yield type_name(value)
            yield from self.parts(values, seen)
        elif type(value).__module__ not in _TOLD_BY_THEIR_TEXT:
            yield from self._object(value, seen)
        else:
            yield f"{type_name(value)} {_ADDRESS.sub(SOMEWHERE, _text(value))}"

    def _array(self, value: Any, seen: frozenset[int]) -> Iterator[str]:
        """Its bytes, or the objects that it holds."""
        yield type_name(value)
        yield from self.parts(array_parts(value), seen)
        yield from self._own_kind(value, seen)

    def _enum_member(self, value: Enum, seen: frozenset[int]) -> Iterator[str]:
        """Its name, and, if the class is the user's own, the class, the value and the attributes; else the value."""
        kind = type(value)
        yield f"{_full_name(kind)} {value._name_}"
        if not _is_of_user(kind):
            yield from self.parts(value._value_, seen)
        elif id(value) not in self.told:
            self.told[id(value)] = value
            yield from self._class_once(kind, seen)
            for name, attribute in sorted(_attributes(value).items()):
                if name not in ("_name_", "_sort_order_"):
                    yield from _under(name, self._held(attribute, kind.__module__, seen))

    def _made_by_library(self, value: Any, seen: frozenset[int]) -> Iterator[str]:
        """What a function holds that a library made while it ran, such as the user's function below a decorator."""
        if not isinstance(value, FunctionType) or (value.__module__ == value.__globals__["__name__"] and _is_importable(value)):
            return
        yield from self.parts((value.__defaults__, value.__kwdefaults__), seen)
        yield from self._cells(value, seen)

    def _class(self, value: type, seen: frozenset[int]) -> Iterator[str]:
        """Its functions and its values, and those of its bases in the same module; two of one text are told apart by where they are."""
        yield f"class {value.__qualname__}{SOMEWHERE}"
        if _is_of_user(type(value)):
            yield from self._class_once(type(value), seen)
        for base in value.__mro__:
            if base.__module__ == value.__module__ and _library_name(base) is None:
                yield from self._members(base, seen)

    def _members(self, value: type, seen: frozenset[int]) -> Iterator[str]:
        for name, member in sorted(vars(value).items()):
            ways = (
                getattr(member, way, None) for way in ("fget", "__func__", "func")
            )  # of a property, of what belongs to the class
            if isinstance(member, partialmethod):
                yield from _under(name, self.parts((member.func, member.args, member.keywords), seen))
                continue
            function = next((one for one in (*ways, member) if isinstance(getattr(one, "__code__", None), CodeType)), None)
            if function is not None and not isinstance(member, partial):
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
        yield from self._cells(value, seen)

    def _cells(self, value: Any, seen: frozenset[int]) -> Iterator[str]:
        """The values that a function captured."""
        for cell in value.__closure__ or ():
            try:
                yield from self.parts(cell.cell_contents, seen)
            except ValueError:  # a name that is given its value later, such as the function's own below a decorator
                yield f"nothing yet{SOMEWHERE}"

    def _object(self, value: Any, seen: frozenset[int], text: str | None = None) -> Iterator[str]:
        """
        Its class and its plain attributes.

        Of one of a library its text, too, which may be that of another, as a fitted model's is.
        """
        if text is None:
            text = "" if _is_of_user(type(value)) or is_dataclass(value) else _ADDRESS.sub("", _text(value))
        yield f"{type_name(value)} {text}{SOMEWHERE}"
        if (known := _known_part(value)) is not None:
            yield known
        if id(value) in self.told or type(value).__module__.partition(".")[0] in _STANDARD:
            return
        self.told[id(value)] = value
        if isinstance(zone := getattr(value, "tzinfo", None), tzinfo):  # of a time of the user's own class
            yield from self._held(zone, type(value).__module__, seen)
        yield from self._class_once(type(value), seen)
        for name, attribute in sorted(_attributes(value).items()):
            yield from _under(name, self._held(attribute, type(value).__module__, seen))

    def _globals(self, function: Any, seen: frozenset[int]) -> Iterator[str]:
        """What a function uses under the names of its module; each of the functions and classes there is told once."""
        module = str(getattr(function, "__module__", None))
        for name in sorted(_names_in(function.__code__) & function.__globals__.keys()):
            value = function.__globals__[name]
            if name in _OF_A_FILE:
                continue
            if not _is_code(value):
                yield from _under(name, self._held(value, module, seen))
            elif not _is_of(value, module) and _is_importable(value):
                yield f"{name} {_full_name(value)}"  # what another module has may change with its version
            elif id(value) not in self.told:
                self.told[id(value)] = value
                yield from _under(name, self.parts(value, seen))

    def _held(self, value: Any, module: str, seen: frozenset[int]) -> Iterator[str]:
        """What can be told of a value that an object, or the module, holds; nothing of a lock, a connection, an object of a library."""
        if id(value) in seen:
            return
        if _is_code(value) or _is_plain(value) or isinstance(value, (CodeType, memoryview, ModuleType, BaseException)):
            yield from self.parts(value, seen)
        elif is_array(value):
            yield type_name(value)
            yield from self._held(array_parts(value), module, seen | {id(value)})
            yield from self._own_kind(value, seen)
        elif (owner := _owner(value)) is not None:
            yield value.__name__
            yield from self._held(owner, module, seen | {id(value)})
        elif isinstance(value, _SEQUENCES):
            yield f"{_sequence_name(value)} {len(value)}"
            for item in value:
                yield from _under("-", self._held(item, module, seen | {id(value)}))
            yield from self._own_kind(value, seen)
        elif isinstance(value, (set, frozenset)):
            yield self._in_any_order(lambda telling, item: telling._held(item, module, seen | {id(value)}), value)
            yield from self._own_kind(value, seen)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                yield from _under("key", self._held(key, module, seen | {id(value)}))
                yield from _under("value", self._held(item, module, seen | {id(value)}))
            yield from self._held(_factory(value), module, seen | {id(value)})
            yield from self._own_kind(value, seen)
        elif isinstance(value, partial):
            yield from self._held((value.func, value.args, value.keywords), module, seen | {id(value)})
        elif isinstance(value, tzinfo) and not _is_of_user(type(value)):
            yield _ADDRESS.sub("", _text(value))
        elif (made_of := _made_of(value)) is not None:
            yield type_name(value)
            yield from self._held(made_of, module, seen | {id(value)})
        elif type(value).__module__ == module or _is_of_user(type(value)):
            yield from self._object(value, seen | {id(value)}, text="")
        elif (values := _values_of(value)) is not None:
            yield type_name(value)
            yield from self._held(values, module, seen | {id(value)})

    def _in_any_order(self, tell: Callable[[_Telling, Any], Iterable[str]], items: Iterable[Any]) -> str:
        """Describe a set: describe each item as if it came first, and sort the descriptions."""
        known, texts = dict(self.told), []
        for item in items:
            telling = _Telling(known)
            texts.append("\n".join(tell(telling, item)))
            self.told |= telling.told
        return repr(sorted(texts))

    def _own_kind(self, value: Any, seen: frozenset[int]) -> Iterator[str]:
        """What a list or dict of the user's own class has beside its items: attributes and methods."""
        if _is_of_user(type(value)):
            yield from self._object(value, seen | {id(value)}, text="")

    def _class_once(self, value: type, seen: frozenset[int]) -> Iterator[str]:
        if id(value) not in self.told:
            self.told[id(value)] = value
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
    return _reduced(value)


def _reduced(value: Any) -> Any:
    """What an object says for pickles that it is made of; None if it does not."""
    try:
        reduced = value.__reduce_ex__(2)
    except Exception:  # noqa: BLE001  a lock, a socket
        return _options(value)
    if isinstance(reduced, str):
        return reduced
    maker, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    of_maker = (maker.args, maker.keywords) if isinstance(maker, partial) else ()
    own = [one for one in arguments if one is not type(value)]
    return own, state, [*(items or ())], [*(pairs or ())], of_maker


def _options(value: Any) -> Any:
    """Of options of Arrow, which cannot be pickled, their bytes or their text; None of others."""
    if not (type(value).__module__.startswith("pyarrow") and type_name(value).endswith("Options")):
        return None
    try:
        return value.serialize().to_pybytes()
    except Exception:  # noqa: BLE001  some have no bytes
        return _ADDRESS.sub("", _text(value))


def _values_of(value: Any) -> Any:
    """What an object of a library is made of, if it is a value: one that is equal to others by what it holds."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if package in _STANDARD or package in _OURS or isinstance(value, (Enum, type)) or hasattr(value, "__next__"):
        return None
    if (
        kind.__module__.startswith(_RANDOM)
        or _is_of_user(kind)
        or not (package in _VALUES or any("__eq__" in vars(base) for base in kind.__mro__[:-1]))
    ):
        return None
    has_text = kind.__module__ in _TEXTS and _ADDRESS.search(_text(value)) is None
    return None if has_text else _reduced(value)


def _known_part(value: Any) -> str | None:
    """Of an object of the user's own class that is a number, a text or a time, which."""
    bases = (base for base in type(value).__mro__[1:] if base is not object and not issubclass(base, BaseException))
    base = next((one for one in bases if one.__module__ in _TOLD_BY_THEIR_TEXT), None)
    if base is None or issubclass(base, (tuple, list, dict, set, frozenset, type)) or base.__repr__ is object.__repr__:
        return None
    return _ADDRESS.sub("", _text(value, base.__repr__))


def _sequence_name(value: Any) -> str:
    """By which a tuple is told from a list."""
    return "tuple" if isinstance(value, tuple) else "list" if isinstance(value, list) else type_name(value)


def _is_of(value: Any, module: str) -> bool:
    """Whether a function or class is of a module, or of text that no module has, as functions that `exec` made are."""
    name = getattr(value, "__module__", None)
    code = value if isinstance(value, FunctionType) else getattr(value, "__wrapped__", None)
    if name == module or not isinstance(code, FunctionType):
        return bool(name == module)
    if module in ("builtins", "None"):  # which is said of all that such text makes
        return _is_of_user_module(str(name))
    return code.__globals__ is not getattr(sys.modules.get(str(code.__module__)), "__dict__", None)


def _library_name(value: Any) -> str | None:
    """
    The name of a function or class of a library; None of the user's own, and of what is neither.

    It is the one rule for which of them are told by their names. A function is of the module whose names its code uses, not of the one
    that a decorator wrote on it.
    """
    if isinstance(value, FunctionType):
        module = value.__globals__.get("__name__")
    elif isinstance(value, MethodType) or _owner(value) is not None or not isinstance(getattr(value, "__qualname__", None), str):
        return None
    else:
        module = getattr(value, "__module__", None)
    if not isinstance(module, str) or _is_of_user_module(module):
        return None
    if isinstance(value, (FunctionType, BuiltinFunctionType)) or _is_importable(value):
        return f"{module} {value.__qualname__}"
    return None


def _is_importable(value: Any) -> bool:
    """Whether a function or class is found in its module by its name."""
    found: Any = sys.modules.get(str(getattr(value, "__module__", None)))
    for name in str(getattr(value, "__qualname__", "")).split("."):
        found = getattr(found, name, None)
    return found is value


def _is_whole(value: Any) -> bool:
    """Whether a value is a time of Python without a zone."""
    return type(value) in (datetime, time) and value.tzinfo is None


def _text(value: Any, text: Callable[[Any], str] = repr) -> str:
    """Its text, also of numbers of any length, which Python writes in tens only up to a limit."""
    if type(value) is int:
        return hex(value) if value.bit_length() > _BITS_MAX else repr(value)
    try:
        return text(value)
    except ValueError:
        digits = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(0)
        try:
            return text(value)
        finally:
            sys.set_int_max_str_digits(digits)


def _full_name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')} {getattr(value, '__qualname__', '')}"


_HAS_DOCSTRING = 0x4000000  # of Python 3.13


def _steps(code: CodeType) -> tuple[list[tuple[int, int]], list[Any]]:
    """The steps of code, and the constants that it uses in the order of their use: its docstring is none of them."""
    steps: list[tuple[int, int]] = []
    used: dict[int, int] = {}
    more = 0
    for step, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number = more << 8 | low
        more = number if step == dis.EXTENDED_ARG else 0
        if step in dis.hasconst:
            number = used.setdefault(number, len(used))
        if step != dis.EXTENDED_ARG:
            steps.append((step, number))
    return steps, [code.co_consts[place] for place in used]


def _is_of_user(kind: type) -> bool:
    """Whether a class is of the user's own modules."""
    return _is_of_user_module(kind.__module__)


def _is_of_user_module(module: str) -> bool:
    """Whether a module is the user's: not of Python, of StreamKit, or of an installed library."""
    package = module.partition(".")[0]
    if package in _STANDARD or package in _OURS:
        return False
    file = str(getattr(sys.modules.get(module), "__file__", None) or "")
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
    if is_dataclass(value) and not isinstance(value, type) and not _is_of_user(type(value)):
        return depth < _NESTED_MAX and all(_is_plain(getattr(value, one.name, None), depth + 1) for one in fields(value))
    if is_array(value):
        return False
    if isinstance(value, Enum) or isinstance(getattr(value, "__code__", None), CodeType) or _is_whole(value):
        return True
    if (type(value).__module__, type(value).__name__) in _MADE_OF or isinstance(value, ModuleType):
        return False
    return type(value).__module__ in _TEXTS and _ADDRESS.search(_text(value)) is None


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
