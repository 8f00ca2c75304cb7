"""What positions of a source look like: the names of their fields, and which values each may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Fits: TypeAlias = Callable[[Any], bool]
_WHOLE_MAX = 2**63 - 1


@dataclass(frozen=True)
class PositionField:
    """A value of a position: what it is in words, and whether a value of JSON is one."""

    words: str
    fits: Fits


@dataclass(frozen=True)
class PositionForm:
    """
    The fields of a position, and those that it may also have.

    `example` is a position as `offsets set` accepts it.
    """

    fields: Mapping[str, PositionField]
    example: Mapping[str, Any]
    optional: Mapping[str, PositionField] = field(default_factory=dict)

    def fault(self, position: object) -> str | None:
        """What is wrong with a position, with what is expected; None if nothing is."""
        if not isinstance(position, Mapping):
            return f"it is no object; expected {self._expected}"
        known = {**self.fields, **self.optional}
        missing = [name for name in self.fields if name not in position]
        unknown = [name for name in position if name not in known]
        if missing or unknown:
            said = [f"it has no {name!r}" for name in missing] + [f"it has {name!r}, which is no field" for name in unknown]
            return f"{' and '.join(said)}; expected {self._expected}"
        wrong = next((name for name, value in position.items() if not known[name].fits(value)), None)
        return None if wrong is None else f"{wrong!r} is {position[wrong]!r}; expected {known[wrong].words}"

    @property
    def _expected(self) -> str:
        optional = f", and maybe {_listed(self.optional)}" if self.optional else ""
        return f"{_listed(self.fields)}{optional}"


def is_whole(value: object) -> bool:
    """Whether a value is a whole number that a bigint holds, and not negative; a boolean is none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _WHOLE_MAX


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def list_of(fits: Fits) -> Fits:
    """Whether a value is a list of such values."""
    return lambda value: isinstance(value, list) and all(map(fits, value))


def tuple_of(*each: Fits) -> Fits:
    """Whether a value is a list of as many values, each as the check at its place says."""
    return lambda value: (
        isinstance(value, list) and len(value) == len(each) and all(fits(one) for fits, one in zip(each, value, strict=True))
    )


def map_of(fits: Fits) -> Fits:
    """Whether a value is an object whose values are such."""
    return lambda value: isinstance(value, Mapping) and all(map(fits, value.values()))


def or_none(fits: Fits) -> Fits:
    """Whether a value is null, or such a value."""
    return lambda value: value is None or fits(value)


def record_of(fields: Mapping[str, Fits], optional: Mapping[str, Fits] | None = None) -> Fits:
    """Whether a value is an object with these fields, and none but the `optional` ones beside them."""
    known = {**fields, **(optional or {})}
    return lambda value: (
        isinstance(value, Mapping)
        and fields.keys() <= value.keys() <= known.keys()
        and all(known[name](one) for name, one in value.items())
    )


WHOLE = PositionField(f"a whole number from 0 to {_WHOLE_MAX}", is_whole)
TEXT = PositionField("a text", is_text)
TRUTH = PositionField("true or false", lambda value: isinstance(value, bool))


def _listed(fields: Mapping[str, PositionField]) -> str:
    return ", ".join(f"{name!r}, {one.words}" for name, one in fields.items())
