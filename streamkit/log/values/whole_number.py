"""
Whole numbers as programs give them: offsets, partitions, times, sizes.

Whatever Python takes for an index counts, so numpy's integers do; 1.5 does not, which the catalog would keep as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

from streamkit.errors import ConfigError

LEAST, MOST = -(1 << 63), (1 << 63) - 1  # what a database keeps


def as_whole_number(value: object) -> int | None:
    """The whole number that a value is, by its `__index__`; None for anything else, and for bools."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # which is what it finds out
    except TypeError:
        return None


def whole_number(what: str, value: object, least: int = 0, most: int = MOST) -> int:
    """The whole number that a value is; ConfigError, which says `what` it was given as, if it is not one or out of bounds."""
    number = as_whole_number(value)
    if number is None or not least <= number <= most:
        raise ConfigError(f"{what}={value!r}; expected a whole number from {least} to {most}")
    return number


def offset_of(topic: str, partition: int, value: object) -> int:
    """The offset that a value is; ConfigError names topic and partition if it is not one."""
    return whole_number(f"topic {topic}, partition {partition}: offset", value)


def offsets_by_topic(offsets: object) -> dict[str, dict[int, int]]:
    """Offsets by topic and partition; ConfigError names the one that is not an integer from 0 on."""
    shape = "offsets={!r}; expected offsets by topic and partition, such as {{'orders': {{0: 17}}}}"
    if not isinstance(offsets, Mapping):
        raise ConfigError(shape.format(offsets))
    found: dict[str, dict[int, int]] = {}
    for topic, at in offsets.items():
        if not isinstance(at, Mapping):
            raise ConfigError(f"topic {topic}: {shape.format(at)}")
        found[topic] = {
            whole_number(f"topic {topic}: partition", partition): offset_of(topic, partition, offset)
            for partition, offset in at.items()
        }
    return found
