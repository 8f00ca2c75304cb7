"""The text that is lowered, and the places of the parts of its expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streamkit.errors import Location, TopologyError
from streamkit.plan.expression import Expression
from streamkit.plan.location import IN_PYTHON, TextLocation
from streamkit.sql.tree.span import TextSpan, Written


class PartPlaces(dict[int, tuple[int, int]]):
    """
    Where the parts of expressions stand, by the `id` of each.

    The parts are held, so that no other object gets the id of one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: list[object] = []

    def put(self, part: object, place: tuple[int, int]) -> None:
        """Note where a part stands."""
        self[id(part)] = place
        self._held.append(part)

    def put_written(self, written: Written) -> None:
        """Note where all parts of an expression stand, as its reader found them."""
        self._held.append(written.expression)
        for part, span in written.places.items():
            self[part] = (span.start, span.end)
        self.setdefault(id(written.expression), (written.span.start, written.span.end))

    def replaced(self, new: Expression, old: Expression) -> Expression:
        """A part that takes the place of another one."""
        place = self.get(id(old))
        if place is not None and new is not old:
            self.put(new, place)
        return new


@dataclass(frozen=True)
class ScriptText:
    """A text in SQL: its file, the line of Python that gave it, if any, and whether it is in ksqlDB's dialect."""

    text: str
    file: str = IN_PYTHON
    called_at: Location | None = None
    places: PartPlaces = field(default_factory=PartPlaces, compare=False, repr=False)
    is_ksql: bool = False

    def in_dialect(self, *, is_ksql: bool) -> ScriptText:
        """The same text, read in ksqlDB's dialect or in Spark's; names of ksqlDB's may differ in case only."""
        return self if self.is_ksql == is_ksql else replace(self, is_ksql=is_ksql)

    def at(self, span: TextSpan) -> TextLocation:
        """The place of a clause, which knows the places of the parts of its expressions."""
        return self._location((span.start, span.end), self.places)

    def at_part(self, part: object, around: TextSpan) -> TextLocation:
        """The place of a part of an expression; the clause around it if that is not known."""
        return self._location(self.places.get(id(part), (around.start, around.end)), self.places)

    def at_function(self, call: object, around: TextSpan) -> TextLocation:
        """The place of the name of a function that is called."""
        start, end = self.places.get(id(call), (around.start, around.end))
        opening = self.text.find("(", start, end)
        return self._location((start, opening if opening > start else end), self.places)

    def quoting_hint(self, part: object) -> str:
        """A hint to use single quotes, if a name is in double quotes; else nothing."""
        start, end = self.places.get(id(part), (0, 0))
        quoted = self.text[start:end]
        return f"; a text is written '{quoted[1:-1]}'" if quoted.startswith('"') else ""

    def error(self, message: str, span: TextSpan) -> TopologyError:
        """The error that something is wrong in a clause."""
        return TopologyError(message, self.at(span))

    def _location(self, span: tuple[int, int], places: Mapping[int, tuple[int, int]]) -> TextLocation:
        return TextLocation.of_text(self.file, self.text, span, places, self.called_at, is_ksql=self.is_ksql)
