"""Digests of functions of users: what changes what a function does changes its digest, in every process alike."""

from __future__ import annotations

import argparse
import collections
import contextvars
import datetime as dt
import decimal
import functools
import itertools
import math
import operator
import os
import pathlib
import random
import re
import string
import struct
import subprocess
import sys
import threading
import types
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamkit.plan.function_digest import digest_of


class Rate:
    """An object with one attribute, that is called or whose method is."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, row: Any) -> Any:
        return self.value

    def of(self, row: Any) -> Any:
        return self.value


class Slotted:
    """As Rate, in slots, one of them hidden."""

    __slots__ = ("__value",)

    def __init__(self, value: Any) -> None:
        self.__value = value

    def __call__(self, row: Any) -> Any:
        return self.__value


@dataclass(frozen=True)
class Frozen:
    """A data class whose text tells nothing."""

    value: Any = field(repr=False)

    def __call__(self, row: Any) -> Any:
        return self.value


class Named(dict[str, Any]):
    """A dict that has attributes."""


class Pair(NamedTuple):
    one: Any
    other: int = 0


class Money(float):
    """A number of the user's own."""


class Word(str):
    """A text of the user's own."""

    __slots__ = ("attribute",)


class Day(dt.date):
    """A day of the user's own."""


class WrongError(ValueError):
    """An error of the user's own."""


class Measured(np.ndarray):
    """An array that has attributes."""


def measured(unit: str) -> Any:
    return with_attribute(np.arange(3).view(Measured), unit)


class Colour(Enum):
    RED = 1
    BLUE = 2


def captured(value: Any) -> Callable[..., Any]:
    rate = Rate(value)
    return lambda row: [rate.of(row)]


def with_attribute(holder: Any, value: Any) -> Any:
    holder.attribute = value
    return holder


def using(value: Any, text: str = "lambda row: USED", before: str = "") -> Callable[..., Any]:
    """A function of a module whose global USED is this value."""
    names: dict[str, Any] = {"__name__": __name__, "USED": value}
    exec(f"{before}call = {text}", names)
    call: Callable[..., Any] = names["call"]
    return call


def no_module(value: Any) -> Any:
    names: dict[str, Any] = {"USED": value}
    exec("def made(): return USED", names)
    return names["made"]


FORMS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "an object that is called": Rate,
    "a method": lambda value: Rate(value).of,
    "slots": Slotted,
    "a data class": Frozen,
    "an object that a function captured": captured,
    "an object behind another": lambda value: Rate(Rate(value)),
    "a method behind partial": lambda value: functools.partial(Rate(value).of),
    "a list of objects": lambda value: Rate([Rate(value)]),
    "a tuple of objects": lambda value: Rate((1, Rate(value))),
    "a dict of objects": lambda value: Rate({"a": Rate(value)}),
    "objects beside a lock": lambda value: Rate([threading.Lock(), {"a": Rate(value)}]),
    "an attribute that is partial": lambda value: Rate(functools.partial(print, value)),
    "a global": using,
    "a global object": lambda value: using(Rate(value)),
    "a method of a global object": lambda value: using(Rate(value).of),
    "a global list of objects": lambda value: using([Rate(value), threading.Lock()]),
    "a global dict": lambda value: using({"a": {"b": value}}),
    "a global partial": lambda value: using(functools.partial(print, a=value)),
    "a global of an inner function": lambda value: using(value, "lambda row: [(lambda: USED)() for _ in row]"),
    "a global of a global function": lambda value: using(value, "lambda row: function(row)", "def function(row): return USED\n"),
    "a global of a cached function": lambda value: using(
        value, "lambda row: function(row)", "from functools import cache\n@cache\ndef function(row): return USED\n"
    ),
    "a global of a class": lambda value: using(
        value, "lambda row: Made().of(row)", "class Made:\n  def of(self, row): return USED\n"
    ),
    "a method that Python made": lambda value: using({1: value}.get),
    "a method that Python made, as the function": lambda value: {1: value}.get,
    "a method that Python made, captured": lambda value: captured([value].__getitem__),
    "a global itemgetter": lambda value: using(operator.methodcaller("get", value)),
    "what a dict gives for the missing": lambda value: using(collections.defaultdict(functools.partial(print, value), {1: 2})),
    "arguments of a command": lambda value: using(argparse.Namespace(value=value)),
    "an attribute of the function": lambda value: with_attribute(using(1), value),
    "an attribute of a global function": lambda value: using(with_attribute(lambda: None, value)),
    "a nested class": lambda value: using(value, "lambda row: C.D.n", "class C:\n  class D:\n    def n(self): return USED\n"),
    "a property kept": lambda value: using(
        value, "lambda row: C().n", "import functools\nclass C:\n  @functools.cached_property\n  def n(self): return USED\n"
    ),
    "an attribute of a class's class": lambda value: using(
        value, "lambda row: C.n", "class M(type):\n  def n(self): return USED\nclass C(metaclass=M): pass\n"
    ),
    "a list with methods": lambda value: using(
        value, "lambda row: MADE.n()", "class C(list):\n  def n(self): return USED\nMADE = C([1])\n"
    ),
    "a dict with attributes": lambda value: using(with_attribute(Named(a=1), value)),
    "a descriptor": lambda value: using(type("Described", (), {"__module__": __name__, "n": Rate(value)})),
    "a method with an argument": lambda value: using(
        value,
        "lambda row: C().n",
        "import functools\nclass C:\n  def m(self, one): return one\n  n = functools.partialmethod(m, (USED,))\n",
    ),
    "a function for each": lambda value: using(map(captured(value), [1])),
    "an order": lambda value: using(functools.cmp_to_key(captured(value))),
    "a vectorised function": lambda value: using(np.vectorize(captured(value))),
    "a context": lambda value: using(contextvars.ContextVar("name", default=value)),
    "a static function": lambda value: using(staticmethod(captured(value))),
    "a set": lambda value: using({Rate(value), Rate(1)}),
    "a function of no module": lambda value: using(no_module(value)),
    "a class with another base": type("Child", (Rate,), {"__module__": __name__}),
}
VALUES: dict[str, tuple[Any, Any]] = {
    "numbers": (1, 2),
    "fractions": (1.5, 1.25),
    "texts": ("a", "b"),
    "bytes": (b"a", b"b"),
    "nothing": (None, 0),
    "lists": ([1, [2]], [1, [3]]),
    "tuples": ((1, "a"), (1, "b")),
    "named tuples": (Pair(1), Pair(2)),
    "dicts": ({"a": {"b": 1}}, {"a": {"b": 2}}),
    "read-only dicts": (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})),
    "sets": ({"a", "b", "c"}, {"a", "b", "d"}),
    "frozen sets": (frozenset("ab"), frozenset("ac")),
    "deques": (collections.deque([1]), collections.deque([2])),
    "times": (dt.timedelta(1), dt.timedelta(2)),
    "decimals": (decimal.Decimal("1.0"), decimal.Decimal("1.1")),
    "members of enumerations": (Colour.RED, Colour.BLUE),
    "patterns": (re.compile("a"), re.compile("b")),
    "paths": (pathlib.PurePosixPath("/a"), pathlib.PurePosixPath("/b")),
    "arrays": (np.arange(2_000), np.append(np.arange(1_999), 0)),
    "data classes": (Frozen(1), Frozen(2)),
    "data classes in lists": ([Frozen((1,))], [Frozen((2,))]),
    "arrays of Python": (array("i", [1]), array("i", [2])),
    "views of bytes": (memoryview(b"a"), memoryview(b"b")),
    "layouts of bytes": (struct.Struct("b"), struct.Struct("h")),
    "texts with places": (string.Template("$a"), string.Template("$b")),
    "functions of Python": (math.floor, math.ceil),
    "methods of texts": ("a{}".format, "b{}".format),
    "itemgetters": (operator.itemgetter("a"), operator.itemgetter("b")),
    "named dicts": (Named(a=1), Named(a=2)),
    "functions": (lambda row: 1, lambda row: 2),
}
OTHERS: dict[str, tuple[Any, Any]] = {  # in some forms only
    "times of pandas": (pd.Timestamp("2024-01-01"), pd.Timestamp("2025-01-01")),
    "intervals of pandas": (pd.Interval(1, 2), pd.Interval(1, 3)),
    "offsets of pandas": (pd.offsets.Day(1), pd.offsets.Day(2)),
    "values of Arrow": (pa.scalar(1), pa.scalar(2)),
    "types of Arrow": (pa.list_(pa.int8()), pa.list_(pa.int16())),
    "own numbers": (Money(1), Money(2)),
    "own texts": (Word("a"), Word("b")),
    "own days": (Day(2024, 1, 1), Day(2024, 1, 2)),
    "own errors": (WrongError("a"), WrongError("b")),
    "errors": (ValueError("a"), ValueError("b")),
    "own arrays": (measured("m"), measured("ft")),
    "named arguments": (operator.methodcaller("of", row=1), operator.methodcaller("of", row=2)),
    "a list for a tuple": ((1, 2), [1, 2]),
    "lists of other lengths": ([[1], [2]], [[1, 2]]),
    "modules": (math, operator),
    "sets of named tuples": ({Pair("a"), Pair("b"), Pair("c")}, {Pair("a"), Pair("b"), Pair("d")}),
    "read-only dicts of sets": (types.MappingProxyType({1: set("abcdef")}), types.MappingProxyType({1: set("abcdeg")})),
    "arrays of sets": (np.array([set("abcdef")], object), np.array([set("abcdeg")], object)),
    "columns of sets": (pd.Series([set("abcdef")]), pd.Series([set("abcdeg")])),
    "tables of sets": (pd.DataFrame({"a": [set("abcdef")]}), pd.DataFrame({"a": [set("abcdeg")]})),
    "sets of objects": ({Rate(one) for one in "abcd"}, {Rate(one) for one in "abce"}),
    "views of sets": ({"a": set("abcdef")}.values(), {"a": set("abcdeg")}.values()),
    "classes": (Rate, Slotted),
}


IN_SOME = (
    "an object that is called",
    "an object that a function captured",
    "a global",
    "a global dict",
    "a set",
    "a method with an argument",
)


@pytest.mark.parametrize("form", FORMS)
def test_an_attribute_that_changes_makes_another_function(form: str) -> None:
    """Equal values give equal digests, whatever holds them; other values give others."""
    make = FORMS[form]
    found = {kind: (digest_of(make(one)), digest_of(make(one)), digest_of(make(other))) for kind, (one, other) in VALUES.items()}
    assert [kind for kind, (one, again, other) in found.items() if one != again or one == other] == []


@pytest.mark.parametrize("form", IN_SOME)
def test_values_of_libraries_and_of_own_kinds_are_told(form: str) -> None:
    """As a global as well as where a function captured them."""
    make = FORMS[form]
    found = {kind: (digest_of(make(one)), digest_of(make(one)), digest_of(make(other))) for kind, (one, other) in OTHERS.items()}
    assert [kind for kind, (one, again, other) in found.items() if one != again or one == other] == []


def test_texts_about_a_function_do_not_count() -> None:
    """Docstrings, of the function, of those that it uses and of methods, and where the file lies."""

    def made(doc: str, file: str) -> Callable[..., Any]:
        helper = f"def helper(row):\n  {doc}\n  return row or 1\n"
        kind = f"class C:\n  {doc}\n  def of(self):\n    {doc}\n    return 2, None, 'doc'\n"
        return using(
            file,
            "function",
            f"__file__ = USED\n{helper}{kind}def function(row):\n  {doc}\n  return helper(row), C().of(), __file__\n",
        )

    found = {digest_of(made(doc, file)) for doc, file in (("'one'", "/a"), ("'another'", "/a"), ("", "/a"), ("'one'", "/b"))}
    assert len(found) == 1


def test_annotations_of_a_module_do_not_count_for_a_class_in_a_function() -> None:
    """The body of such a class names `__annotations__`, which `__main__` has from the beginning, and another module with its first annotation."""
    text = "def call(row):\n  class Row:\n    value: str\n    unit: str = 'm'\n  return Row\n"

    def digest(text: str, **names: Any) -> str:
        exec(text, names)
        return digest_of(names["call"])

    modules: list[dict[str, Any]] = [{}, {"__annotations__": {}}, {"__annotations__": {"limit": int}}]
    assert len({digest(text, **names) for names in modules}) == 1
    assert digest(text) != digest(text.replace("'m'", "'km'"))


def test_a_function_of_another_module_counts_by_both_names() -> None:
    """Two modules may have a function of one name."""
    assert digest_of(using(math.pow)) != digest_of(using(operator.pow))


def test_what_no_text_tells_is_left_out() -> None:
    """A start is not refused because of a lock, a generator, or an object of a library: those are others in every process."""
    for make in (
        threading.Lock,
        object,
        threading.local,
        lambda: (one for one in "a"),
        lambda: sys.modules[__name__],
        pa.default_memory_pool,
    ):
        assert digest_of(Rate(make())) == digest_of(Rate(make()))
        assert digest_of(Rate({"a": make()})) == digest_of(Rate({"a": make()}))
        assert digest_of(using(make())) == digest_of(using(make()))
        assert digest_of(using([make(), {"a": make()}])) == digest_of(using([make(), {"a": make()}]))
        assert digest_of(using(make)) == digest_of(using(make))


def test_what_changes_while_it_is_used_is_left_out() -> None:
    """A generator of random numbers, a counter, the memory of a cache."""
    for make in (random.Random, itertools.count, lambda: itertools.repeat(1), lambda: functools.cache(Rate)):
        one, other = make(), make()
        next(one) if hasattr(one, "__next__") else one.random() if hasattr(one, "random") else one(1)
        assert digest_of(using(one)) == digest_of(using(other))


def test_the_code_of_an_object_counts() -> None:
    """That of its class, of what it inherits there, of static methods and properties, and the constants beside them."""

    def made(text: str) -> Callable[..., Any]:
        names: dict[str, Any] = {"__name__": "mine"}
        exec(text, names)
        called: Callable[..., Any] = names["C"]()
        return called

    text = (
        "class B:\n  N = 1\n  @staticmethod\n  def s(): return 2\n  @property\n  def p(self): return 3\n"
        "class C(B):\n  def __call__(self, row): return self.s() + self.p + self.N + 4\n"
    )
    assert digest_of(made(text)) == digest_of(made(text))
    assert len({digest_of(made(text.replace(number, "7"))) for number in ("1", "2", "3", "4", "none")}) == 5


def test_objects_that_know_each_other_are_told() -> None:
    """Each is told once, so the telling ends."""
    one, other = Rate(None), Rate(None)
    one.value, other.value = [other], {"back": one}
    assert digest_of(one) == digest_of(one)


def test_a_digest_is_the_same_in_every_process() -> None:
    """Whatever order hashes give to sets."""
    other = subprocess.run(
        [sys.executable, "-c", "from tests.unit.plan.test_function_digest import *\nprint(repr(digests()))"],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout == f"{digests()!r}\n"


def digests() -> list[str]:
    """Of functions of all forms, which capture a set, and values of all kinds."""
    sets = [digest_of(make(value)) for make in FORMS.values() for value in (1, {"a", "b", "c"})]
    some = [FORMS[form] for form in IN_SOME[1:3]]
    return sets + [digest_of(make(value)) for make in some for one in (*VALUES.values(), *OTHERS.values()) for value in one]
