"""Functions of one process: two are one only if they are provably the same, whatever digests say."""

from __future__ import annotations

import datetime as dt
import functools
import importlib
import threading
import types
import typing
import zoneinfo
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Row
from pyspark.sql.types import DecimalType

import streamkit as sk
from streamkit.plan.function_digest import digest_of
from streamkit.plan.python_function import python_function, renumbered
from streamkit.plan.same_function import is_same_function
from streamkit.testing import TopologyTestDriver


def using(captured: Any, use: Callable[[Any], Any] = str) -> Callable[..., Any]:
    """A function of one text that captured a value, and what it makes of it."""

    def function(row: Any) -> dict[str, Any]:
        return {"made": str(use(captured))}

    return function


def with_attribute(holder: Any, value: Any) -> Any:
    holder.attribute = value
    return holder


def zone(name: str) -> dt.tzinfo:
    with files("tzdata").joinpath("zoneinfo", "Europe", name).open("rb") as file:
        return zoneinfo.ZoneInfo.from_file(file, key="X")


def module(text: str) -> types.ModuleType:
    """As a plug-in that is loaded from its file, under a name that another one has, too."""
    found = types.ModuleType("rules")
    exec(text, found.__dict__)
    return found


# How a value of each kind is made from a number, and what a function makes of it.
HELD: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {
    "numbers": (lambda n: n, str),
    "equal numbers": (lambda n: 1, str),
    "equal lists": (lambda n: [1], str),
    "functions made by numpy": (lambda n: np.frompyfunc(lambda value: value * n, 1, 1), lambda call: call(5)),
    "modules of one name": (lambda n: module(f"def rate(): return {n}"), lambda rules: rules.rate()),
    "functions of modules of one name": (lambda n: module(f"def rate(): return {n}").rate, lambda call: call()),
    "zones from files": (lambda n: zone(["Berlin", "London"][n - 1]), lambda held: dt.datetime(2020, 7, 1, tzinfo=held)),
    "rows of Spark": (lambda n: Row(**{"ab"[n - 1]: 1}), repr),
    "types of Spark": (lambda n: DecimalType(10, n), repr),
    "errors": (lambda n: with_attribute(ValueError("a"), n), lambda error: error.attribute),
    "new types": (lambda n: typing.NewType("A", [int, str][n - 1]), lambda kind: kind.__supertype__),
    "memory of a thread": (lambda n: with_attribute(threading.local(), n), lambda held: held.attribute),
    "partials": (lambda n: functools.partial(pow, n), lambda call: call(2)),
}


@pytest.mark.parametrize("kind", HELD)
def test_functions_that_captured_values_of_their_own_are_two(kind: str) -> None:
    """However little of what they captured a digest tells: each runs for what takes it, also in a later topology of the process."""
    make, use = HELD[kind]
    first, second = (using(make(number), use) for number in (1, 2))
    expected = [call({})["made"] for call in (first, second)]
    assert results(first, second) + results(second) + results(first) == [*expected, *reversed(expected)]
    assert expected[0] != expected[1] or kind.startswith("equal")


def results(*calls: Callable[..., Any]) -> list[str]:
    """What a topology makes of one record by each of some functions, which are steps of one stream."""
    app = sk.Topology("shop")
    stream = app.stream("in", schema="k string", key="k")
    for number, call in enumerate(calls):
        stream.map_values(call, "made string").to(f"out{number}")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a"})
        return [driver.read(f"out{number}")[0]["made"] for number in range(len(calls))]


def test_a_variable_that_gets_its_value_later_is_its_function_s_own() -> None:
    """Both functions captured the same value when they were declared."""

    def made() -> tuple[Callable[..., Any], Callable[[str], None]]:
        chosen = "none"

        def choose(value: str) -> None:
            nonlocal chosen
            chosen = value

        return lambda row: {"made": chosen}, choose

    (first, choose_first), (second, choose_second) = made(), made()
    assert python_function(first, "row", "map") != python_function(second, "row", "map")
    choose_first("a")
    choose_second("b")
    assert results(first, second) == ["a", "b"]


def test_functions_of_two_packages_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One text, which imports from modules of one last name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for place in ("testeu", "testus"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "rates.py").write_text(f"def rate(): return {place!r}\n")
        (tmp_path / place / "steps.py").write_text("from .rates import rate\ndef step(row): return {'made': rate()}\n")
    calls = [importlib.import_module(f"{place}.steps").step for place in ("testeu", "testus")]
    assert results(*calls) == ["testeu", "testus"]
    assert digest_of(calls[0]) != digest_of(calls[1])


def step(row: Any, rate: Any = (1, "a", frozenset({2.0}))) -> Any:
    return rate


class Rates:
    """An object whose method is a function."""

    def of(self, row: Any) -> Any:
        return self


def counted() -> Callable[..., Any]:
    return lambda row, rate=(1, "a", frozenset({2.0})): step(row, rate)


def test_what_is_provably_the_same_is_one() -> None:
    """Also where Python makes a new object of it at each use."""
    rates, table = Rates(), {1: 2}
    makes: list[Callable[[], Any]] = [
        lambda: step,
        counted,
        lambda: rates.of,
        lambda: table.get,
        lambda: (5).__add__,
        lambda: rates,
    ]
    for make in makes:
        one, other = (python_function(make(), "row", "map") for _ in range(2))
        assert one == other
        assert hash(one) == hash(other)
        assert one.known_as == other.known_as
        assert one != replace(other, style="batch")


@pytest.mark.parametrize(
    "make",
    [
        lambda value: lambda row, held=value: held,
        lambda value: with_attribute(counted(), value),
        lambda value: Rates().of,
        lambda value: {}.get,
        lambda value: functools.partial(print, 1),
        lambda value: Rates(),
    ],
)
def test_equal_objects_make_two_functions_of_one_digest(make: Callable[[Any], Any]) -> None:
    """A list may change later; so may a partial and an object."""
    one, other = (python_function(make([1]), "row", "map") for _ in range(2))
    assert one.id == other.id
    assert one != other
    assert one.known_as != other.known_as


@pytest.mark.parametrize(
    ("one", "other"), [(0.0, -0.0), (1, True), ((1,), (1.0,)), (frozenset({1}), frozenset({True})), ("a", "b")]
)
def test_equal_defaults_of_other_kinds_make_two_functions(one: Any, other: Any) -> None:
    """0.0 and -0.0 are equal, and 1 / x is not."""

    def made(value: Any) -> Any:
        return lambda row, held=value: held

    assert is_same_function(made(one), made(one))
    assert not is_same_function(made(one), made(other))


def test_a_function_used_twice_is_one_step() -> None:
    """Branches with one function after one stream share its step; equal functions that were made apart do not."""
    for calls, count in (([step] * 3, 1), ([counted(), counted()], 1), ([using([1]), using([1])], 2)):
        app = sk.Topology("shop")
        stream = app.stream("in", schema="k string", key="k")
        for number, call in enumerate(calls):
            stream.map_values(call, "made string").to(f"out{number}")
        assert len([name for name in sk.compile(app).structures.steps if name.startswith("map_values")]) == count


def test_a_program_has_one_fingerprint_however_often_it_was_compiled() -> None:
    """Functions have numbers in a process; within a program they count from the first."""
    ends = ":0123456789abcdef", ":fedcba9876543210"
    first = f'["f{ends[0]}~7", "g{ends[1]}", "f{ends[0]}", "f{ends[0]}~7", "~5"]'
    assert renumbered(first) == f'["f{ends[0]}", "g{ends[1]}", "f{ends[0]}~2", "f{ends[0]}", "~5"]'
    found = set()
    for _ in range(2):
        app = sk.Topology("shop")
        stream = app.stream("in", schema="k string", key="k")
        for topic in "ab":
            stream.map_values(using([1]), "made string").to(topic)
        found.add(sk.compile(app).fingerprint)
    assert len(found) == 1
