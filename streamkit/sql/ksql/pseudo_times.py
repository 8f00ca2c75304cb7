"""Texts beside ROWTIME, WINDOWSTART and WINDOWEND: these count milliseconds, and a text is a time; its last parts may be missing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.expressions.ksql.iso_times import moments
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import Expression, Literal, Reference

MILLIS = frozenset(("ROWTIME", "WINDOWSTART", "WINDOWEND"))


def as_millis(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The arguments of a comparison; if one is such a column, constant texts among them as milliseconds. Other texts stay."""
    if not any(isinstance(one, Reference) and parts_of(one.name)[-1] in MILLIS for one in arguments):
        return arguments
    return tuple(map(_millis, arguments))


def _millis(argument: Expression) -> Expression:
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        return argument
    found, sound = moments(pa.array([argument.value]))
    return Literal(int(np.asarray(found)[0])) if sound[0] else argument
