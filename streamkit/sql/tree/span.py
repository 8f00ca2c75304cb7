"""Where in a script something is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamkit.plan.expression import Expression
from streamkit.plan.text_span import NOWHERE, TextSpan

__all__ = ["NOWHERE", "Name", "TextSpan", "Written"]


@dataclass(frozen=True)
class Name:
    """A name as the dialect reads it: as it is written, or in capitals."""

    text: str
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Written:
    """
    An expression, and where it is written.

    `places` has the spans of its parts, by the `id` of each node, so that an error about a column or a function points at that word. Equal
    trees may be written at different places, so spans take no part in comparisons.
    """

    expression: Expression
    span: TextSpan = field(default=NOWHERE, compare=False, repr=False)
    places: Mapping[int, TextSpan] = field(default_factory=dict, compare=False, repr=False)
