"""Where the parts of typed expressions are written in a text of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from streamkit.errors import Location
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import typed_text
from streamkit.plan.location import TextLocation

NOTED_LENGTH_MAX = 1000  # characters of an expression whose parts are noted
ExpressionPlaces: TypeAlias = dict[Location, dict[str, TextLocation]]
"""By the place of a clause: the texts of the parts of its typed expressions, and the place of each."""
_noted: ContextVar[ExpressionPlaces | None] = ContextVar("_noted", default=None)


@contextmanager
def noted_places() -> Iterator[ExpressionPlaces]:
    """Where the expressions that are typed within the block are written, so that a failure of one at run time can point there."""
    found: ExpressionPlaces = {}
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def part_place(places: ExpressionPlaces, clause: Location | None, expression: str) -> Location | None:
    """Where a part of a clause is written, by its text; in another clause, if this one has none; else the clause itself."""
    own = {} if clause is None else places.get(clause, {})
    return next((one[expression] for one in (own, *places.values()) if expression in one), clause)


def note_place(clause: Location | None, at: Location | None, expression: TypedExpression) -> None:
    """The place of a typed expression within a clause, and of its parts that have no place of their own, such as casts that typing adds."""
    if (noted := _noted.get()) is None or clause is None or not isinstance(at, TextLocation):
        return
    if at.end - at.start > NOTED_LENGTH_MAX:  # the texts of all parts of a long one would be long together
        return
    places = noted.setdefault(clause, {})
    parts = [expression]
    while parts:
        part = parts.pop()
        if part.name not in ("column", "literal", "lambda") and (text := typed_text(part)) not in places:
            places[text] = at
            parts += part.arguments
        elif part.name == "lambda":
            parts += part.arguments
