"""What functions of users take: that which a decorator left of it, whatever the function below takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.plan.inspection import attribute, parameters, signature
from streamkit.testing import TopologyTestDriver


def with_rate(function: Callable[..., Any]) -> Any:
    """Supplies the last argument."""

    @functools.wraps(function)
    def one(value: Any) -> Any:
        return function(value, 3)

    return one


def with_context(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def two(record: Any, context: Any) -> Any:
        return function(record, context, 3)

    return two


def logged(function: Callable[..., Any]) -> Any:
    """Takes anything, and gives it on."""

    @functools.wraps(function)
    def anything(*values: Any, **named: Any) -> Any:
        return function(*values, **named)

    return anything


def times(value: Any, rate: int) -> Any:
    return value * rate


class Hiding:
    """A function with a `__getattr__` that has no attribute, and says so by another error."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __call__(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("function", "called", "taken"),
    [
        (times, "value rate", "value rate"),
        (with_rate(times), "value", "value"),
        (functools.cache(times), "value rate", "value rate"),
        (with_rate(functools.cache(times)), "value", "value"),
        (logged(times), "values named", "value rate"),
        (functools.partial(times, rate=3), "value rate", "value rate"),
        (Hiding(), None, None),
        (max, None, None),
    ],
    ids=["plain", "with rate", "cached", "cached with rate", "logged", "partial", "hiding", "built in"],
)
def test_a_function_takes_what_its_decorator_takes(function: Any, called: str | None, taken: str | None) -> None:
    """A decorator that takes anything says nothing, so the function below it does; a function in C may say nothing at all."""
    told = signature(function)
    found = parameters(function)
    assert (None if told is None else " ".join(told.parameters)) == called
    assert (None if found is None else " ".join(one.name for one in found)) == taken


def test_no_attribute_is_none_whatever_error_says_so() -> None:
    """As of a dict whose keys are attributes."""
    assert attribute(Hiding(), "__name__", "hidden") == "hidden"
    assert attribute(times, "__name__") == "times"


def test_a_decorator_may_supply_arguments_wherever_a_function_is_given() -> None:
    """To a step, as a function of columns, as a processor, and to a function of arrays."""
    app = sk.Topology("decorated")
    stream = app.stream("in", schema="k string, v bigint, a array<bigint>", key="k")
    stream.map_values(with_rate(lambda row, rate: {"n": row["v"] * rate}), "n bigint").to("steps")
    stream.select("k", n=F.udf(with_rate(times), "bigint")("v")).to("columns")
    stream.process(with_context(lambda record, context, rate: context.forward({"n": record["v"] * rate})), "n bigint").to(
        "records"
    )
    stream.select("k", n=F.transform("a", with_rate(times))[0]).to("arrays")
    stream.select("k", n=F.transform("a", logged(lambda one: one * 3))[0]).to("anything")
    stream.map_values(Hiding(), "v bigint, a array<bigint>").to("hiding")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "v": 2, "a": [2]})
        for topic in ("steps", "columns", "records", "arrays", "anything"):
            assert [row["n"] for row in driver.read(topic)] == [6], topic
        assert [row["v"] for row in driver.read("hiding")] == [2]


def test_a_function_in_c_is_no_function_of_columns() -> None:
    """It says nothing about what it takes."""
    with pytest.raises(TopologyError, match="the arguments of <built-in function max> cannot be seen"):
        F.transform("a", max)
