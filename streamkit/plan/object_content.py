"""
What objects are made of: plain values, and other objects, that tell one from another.

Plain values are told by a text. Some objects of Python say themselves what they are made of, for pickles, and so do values of libraries.
For others there are rules (`plan/content_rules.py`).
"""

from __future__ import annotations

import re
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Reversible
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from datetime import tzinfo
from enum import Enum
from functools import cached_property, partial
from inspect import getattr_static
from logging import Logger
from types import FunctionType, MappingProxyType
from typing import Any

from streamkit.plan.array_parts import array_parts
from streamkit.plan.content_rules import rule_of
from streamkit.plan.inspection import attribute
from streamkit.plan.own_code import is_own_class
from streamkit.plan.zone_parts import zone_parts

MUTABLE = (list, dict, set, deque, OrderedDict)  # what two names may share, and see each other's changes of
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (int, float, complex, str, bytes, bytearray, bool, type(None), type(...), range)
_PACKAGES_WITH_TEXTS = (
    "array",
    "builtins",
    "datetime",
    "decimal",
    "fractions",
    "ipaddress",
    "numpy",
    "pandas",
    "pathlib",
    "uuid",
    "zoneinfo",
)
_TEXTS = (
    "builtins",
    "collections",
    "datetime",
    "decimal",
    "fractions",
    "ipaddress",
    "numpy",
    "pathlib",
    "pathlib._local",
    "types",
    "uuid",
    "zoneinfo",
)
_STANDARD = sys.stdlib_module_names - {"__main__"}
_OURS = ("streamkit", "pyspark")
_CHANGING = (
    "random",
    "_random",
    "itertools",
    "weakref",
    "_weakref",
    "_weakrefset",
    "asyncio",
    "importlib",
    "_frozen_importlib_external",
)
_RANDOM = "numpy.random"
_VALUES = ("numpy", "pandas", "pyarrow")  # libraries whose objects are values
_SEQUENCES: tuple[type[Any], ...] = (tuple, list, deque, type({}.keys()), type({}.values()), type({}.items()))
_MAPPINGS: tuple[type[Any], ...] = (OrderedDict, dict, MappingProxyType)
_FUNCTIONS = (FunctionType, classmethod, staticmethod)
_BITS_MAX = 10_000
_OF_MEMBERS = ("_name_", "_value_", "_sort_order_", "_inverted_", "__objclass__")
_ABOUT = frozenset(  # what an object or a class says about itself, keeps for Python, or declares for checkers of types
    """
__module__ __name__ __qualname__ __doc__ __dict__ __weakref__ __firstlineno__ __static_attributes__ __slotnames__ _abc_impl
__annotations__ __annotate__ __annotate_func__ __annotations_cache__ __type_params__ __orig_bases__ __parameters__ __abstractmethods__
__protocol_attrs__ __non_callable_proto_members__ __signature__
__pydantic_core_schema__ __pydantic_validator__ __pydantic_serializer__ __pydantic_parent_namespace__ __pydantic_setattr_handlers__
__pydantic_complete__ __pydantic_fields_complete__ _attrs_cached_hash
    """.split()  # noqa: SIM905
)
_KEPT_BY_PANDAS = frozenset(
    ("_mgr", "_item_cache", "_cacher", "_cache", "_is_copy", "_name", "_flags", "_attrs", "_data", "_id", "_references")
)


class Unordered(tuple[Any, ...]):
    """Items whose order says nothing."""

    __slots__ = ()


def type_name(value: object) -> str:
    """The name of a value's class."""
    return value.__class__.__name__


def text_of(value: Any) -> str | None:
    """The text of a number, a text, a day, a zone or the like, the same in every process; None for other values."""
    kind = type(value)
    if kind in _PLAIN:
        return f"{kind.__name__} {_text(value)}"
    if is_own_class(kind) or rule_of(kind) is not None or issubclass(kind, (*_SEQUENCES, *_MAPPINGS, set, frozenset, Enum, type)):
        return None
    if issubclass(kind, tzinfo):
        return f"{kind.__name__} {_ADDRESS.sub('', _text(value))} {' '.join(zone_parts(value))}"
    if kind.__module__ not in _TEXTS or _is_array(value) or _ADDRESS.search(text := _text(value)):
        return None
    return f"{kind.__name__} {text}"


def content_of(value: Any) -> tuple[str, Any] | None:
    """A name and the values that an object is made of, beside its attributes; None if it does not say so."""
    kind = type(value)
    if (base := _base(kind, _SEQUENCES)) is not None:
        own = attribute(value, "__fields__" if kind.__module__.startswith("pyspark.") else "maxlen", "")
        return f"{base.__name__} {kind.__name__} {own}", tuple(base.__iter__(value))
    if (base := _base(kind, _MAPPINGS)) is not None:
        attributes = dict(vars(value)) if kind.__module__.partition(".")[0] in _STANDARD and hasattr(value, "__dict__") else {}
        return f"dict {kind.__name__}", (*base.items(value), attribute(value, "default_factory"), *attributes.items())
    if (rule := rule_of(kind)) is not None:
        return kind.__name__, rule(value)
    if _is_array(value):  # their texts leave out the middle
        return kind.__name__, array_parts(value)
    if is_own_class(kind):
        text = _known_part(value)
        return _below(value) if text is None else (kind.__name__, text)
    if issubclass(kind, (Mapping, AbstractSet)) and kind.__module__ not in _CHANGING:
        items = value.items() if issubclass(kind, Mapping) else value
        return kind.__name__, tuple(items) if issubclass(kind, Reversible) else Unordered(items)
    made_of = _made_of(value)
    if made_of is None:
        return _below(value)
    return kind.__name__, made_of


def attributes_of(value: Any) -> dict[str, Any]:
    """What an object holds under names, in slots or not, without what its cached properties keep."""
    kind = type(value)
    if issubclass(kind, Logger):  # no result depends on what it is called and where it writes
        return {}
    try:
        held = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        held = {}
    is_told = _text_base(kind) is not None or _is_array(value)
    is_of_pandas = any(base.__module__.partition(".")[0] == "pandas" for base in kind.__mro__)
    for base in kind.__mro__:
        if is_told and not is_own_class(base):  # what it keeps for itself, such as its hash once it was asked for
            continue
        slots = vars(base).get("__slots__", ())
        for slot in [slots] if isinstance(slots, str) else slots:
            is_hidden = slot.startswith("__") and not slot.endswith("__")
            name = f"_{base.__name__.lstrip('_')}{slot}" if is_hidden else slot
            try:
                held[name] = vars(base)[name].__get__(value)
            except (AttributeError, KeyError):
                continue
    return {
        name: one
        for name, one in held.items()
        if name not in _ABOUT
        and not (is_told and name in _KEPT_BY_PANDAS and is_of_pandas)
        and not isinstance(getattr_static(kind, name, None), cached_property)
    }


def members_of(kind: type) -> dict[str, Any]:
    """What a class itself has under names: its functions and its values; of an enumeration also the members that were declared."""
    found = {name: one for name, one in vars(kind).items() if name not in _ABOUT}
    given = found.get("__hash__")
    if type(given) is FunctionType and given.__code__.co_filename.startswith("<attrs generated"):
        found["__hash__"] = "of attrs"  # whose code has a number of its own in each process
    if issubclass(kind, Enum):
        kept = kind._member_map_
        found = {
            name: one for name, one in found.items() if name not in kept and (not _is_sunder(name) or type(one) in _FUNCTIONS)
        }
        return {**found, "_member_map_": dict(kept), "_boundary_": attribute(kind, "_boundary_")}
    if attribute(kind, "_is_protocol") is not None and type(found.get("__init__")) is not FunctionType:
        found.pop("__init__", None)  # Python sets it at the first use
    return found


def member_parts(value: Enum) -> tuple[str | None, Any, dict[str, Any]]:
    """The name, the value and the attributes of a member of an enumeration."""
    held = {name: one for name, one in attributes_of(value).items() if name not in _OF_MEMBERS}
    return value._name_, value._value_, held


def _is_sunder(name: str) -> bool:
    return name.startswith("_") and name.endswith("_") and not name.startswith("__")


def _base(kind: type, bases: tuple[type[Any], ...]) -> type[Any] | None:
    return next((one for one in bases if issubclass(kind, one)), None)


def _is_array(value: Any) -> bool:
    """Whether a value is an array of a library, or of a class of the user's below it."""
    ways = ("__array__", "__arrow_c_stream__")
    libraries = (base for base in type(value).__mro__ if not is_own_class(base))
    return not isinstance(value, type) and any(way in vars(base) for base in libraries for way in ways)


def _made_of(value: Any) -> Any:
    """What an object of Python's own library, or a value of another, says for pickles that it is made of; None if it does not."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if (
        package in _CHANGING
        or kind.__module__.startswith(_RANDOM)
        or hasattr(kind, "__next__")
        or isinstance(value, (Enum, type))
    ):
        return None
    if package in _TEXTS and package not in _VALUES:
        return None
    is_value = package in _VALUES or any("__eq__" in vars(base) for base in kind.__mro__[:-1])
    if package in _STANDARD:
        says = any(getattr(kind, way) is not getattr(object, way) for way in ("__reduce__", "__reduce_ex__"))
        return _reduced(value) if says or is_value else None
    if package in _OURS and not is_dataclass(value):
        return value.json() if any(base.__name__ == "DataType" for base in kind.__mro__) else None
    if package not in _VALUES and _is_hashed_by_address(value):
        return None
    return _reduced(value) if is_value else None


def _is_hashed_by_address(value: Any) -> bool:
    """Whether an object says that it is equal to itself alone, whatever it compares."""
    try:
        return hash(value) in (id(value), object.__hash__(value))
    except Exception:  # noqa: BLE001  it has no hash
        return False


def _below(value: Any) -> tuple[str, Any] | None:
    """The function below an object that wraps it, as `functools.wraps` and the library wrapt leave it, and what wraps it."""
    if getattr_static(value, "__wrapped__", None) is None:
        return None
    return type(value).__name__, (attribute(value, "__wrapped__"), attribute(value, "_self_wrapper"))


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


def _known_part(value: Any) -> str | None:
    """Of an object of the user's own class that is a number, a text or a day, which."""
    base = _text_base(type(value))
    return None if base is None else _ADDRESS.sub("", _text(value, base.__repr__))  # type: ignore[arg-type]


def _text_base(kind: type) -> type | None:
    """The class of Python, numpy or pandas whose text says what an object of the user's own class below it is."""
    bases = (base for base in kind.__mro__[1:] if base is not object)
    base = next((one for one in bases if one.__module__.partition(".")[0] in _PACKAGES_WITH_TEXTS), None)
    if base is None or issubclass(base, (set, frozenset, type)) or base.__repr__ is object.__repr__:
        return None
    return base


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
