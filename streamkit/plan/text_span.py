"""Where in a text something is written."""

from __future__ import annotations

from typing import NamedTuple


class TextSpan(NamedTuple):
    """The characters of a text from `start` to before `end`, counted from 0."""

    start: int
    end: int


NOWHERE = TextSpan(0, 0)
