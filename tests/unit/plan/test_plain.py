"""Values as JSON and back, steered by the types of fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from streamkit.plan.plain import from_plain, to_plain


class Point(NamedTuple):
    x: int
    name: str


@dataclass(frozen=True)
class Inner:
    text: str | None = None


@dataclass(frozen=True)
class Outer:
    number: int
    counts: Mapping[int, int]
    nested: Mapping[int, Mapping[int, int]]
    points: tuple[Point, ...]
    inner: dict[str, Inner]
    pair: tuple[int, str] = (0, "")
    later: Mapping[int, int] = field(default_factory=dict)


VALUE = Outer(1, {1: 2}, {3: {4: 5}, 6: {}}, (Point(7, "a"), Point(8, "b")), {"c": Inner("d"), "e": Inner()}, (9, "f"), {10: 11})
PLAIN = {
    "number": 1, "counts": {"1": 2}, "nested": {"3": {"4": 5}, "6": {}}, "points": [[7, "a"], [8, "b"]],
    "inner": {"c": {"text": "d"}, "e": {"text": None}}, "pair": [9, "f"], "later": {"10": 11},
}  # fmt: skip


def test_json_and_back():
    """Mappings with numbers for keys, named tuples and dataclasses within them survive JSON."""
    assert to_plain(VALUE) == PLAIN
    assert from_plain(Outer, json.loads(json.dumps(PLAIN))) == VALUE
    assert isinstance(from_plain(Outer, PLAIN).points[0], Point)


@dataclass(frozen=True)
class Nested:
    """Holds values of its own kind."""

    parts: tuple[Nested, ...] = ()
    any_value: object = None


def test_a_class_may_hold_itself():
    """A tree is written and read; a list where the type says nothing becomes a tuple, however deep."""
    tree = Nested((Nested(any_value=(1, (2, "a"))), Nested((Nested(),))))

    assert from_plain(Nested, json.loads(json.dumps(to_plain(tree)))) == tree


def test_a_missing_field_has_its_default():
    """What was written before there was a field is read; a field without a default must be there."""
    old = {name: value for name, value in PLAIN.items() if name not in ("pair", "later")}
    assert from_plain(Outer, old) == Outer(VALUE.number, VALUE.counts, VALUE.nested, VALUE.points, VALUE.inner)
    with pytest.raises(KeyError, match="counts"):
        from_plain(Outer, {name: value for name, value in PLAIN.items() if name != "counts"})


@dataclass(frozen=True)
class Checked:
    """Has a text of its own, which is checked on the way back."""

    share: int

    def to_json(self) -> str:
        return f"{self.share} %"

    @classmethod
    def from_json(cls, value: str) -> Checked:
        if not value.endswith(" %"):
            raise ValueError(f"{value!r} is no share")
        return cls(int(value.removesuffix(" %")))


@dataclass(frozen=True)
class Shares:
    one: Checked
    none: Checked | None
    some: tuple[Checked, ...]
    named: Mapping[str, Checked]


def test_a_value_may_say_itself_what_it_is():
    """A value with a `to_json` of its own is that wherever it lies, and is read by its own `from_json`, which may refuse."""
    shares = Shares(Checked(1), None, (Checked(2), Checked(3)), {"a": Checked(4)})
    plain = {"one": "1 %", "none": None, "some": ["2 %", "3 %"], "named": {"a": "4 %"}}

    assert to_plain(shares) == plain
    assert from_plain(Shares, json.loads(json.dumps(plain))) == shares
    with pytest.raises(ValueError, match="'3' is no share"):
        from_plain(Shares, {**plain, "some": ["2 %", "3"]})
