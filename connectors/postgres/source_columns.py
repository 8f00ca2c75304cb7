"""
The columns of a table as the catalog has them, and those that it had: which of them a name stands for.

PostgreSQL's messages and topics know a column by its name, the catalog by its number (attnum). A column that is dropped and
added again has the name and another number, and PostgreSQL sends nothing of rows that nobody changes: the topic would keep
the values of the former one. So a position has the numbers, those of columns that are gone, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

UNKNOWN = 0  # the number of a column that only a message had: it was gone before the catalog was asked


@dataclass(frozen=True)
class SourceColumns:
    """
    The columns that are there, by name with number and type; the numbers of those that are gone; the names that were read last.

    `streamed` has the names of the last message, or of the snapshot before the first one; it is None where nobody knows.
    """

    there: Mapping[str, tuple[int, str]]
    gone: Mapping[str, int] = field(default_factory=dict)
    streamed: frozenset[str] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "there": {name: list(one) for name, one in self.there.items()},
            "gone": dict(self.gone),
            "streamed": None if self.streamed is None else sorted(self.streamed),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> SourceColumns:
        streamed = found["streamed"]
        there = {name: (number, type) for name, (number, type) in found["there"].items()}
        return cls(there, found["gone"], None if streamed is None else frozenset(streamed))

    def followed_by(self, now: SourceColumns) -> SourceColumns:
        """Those of now, and what is known of these."""
        gone = {name: number for name, (number, _) in self.there.items() if name not in now.there}
        return replace(now, gone={**self.gone, **gone}, streamed=self.streamed)

    def read(self) -> SourceColumns:
        """The same where the rows before the first message have all columns that are there."""
        return replace(self, streamed=frozenset(self.there))

    def with_message(self, names: Collection[str]) -> SourceColumns:
        """The columns after a message with these names; the catalog may lack some of them by now."""
        lost = {name: UNKNOWN for name in names if name not in self.there and name not in self.gone}
        return replace(self, gone={**self.gone, **lost}, streamed=frozenset(names))

    def came_back(self, names: Collection[str]) -> list[str]:
        """
        The columns that the last message had, that one with these names has not, and that are there now.

        They were dropped and added again, or renamed and back.
        """
        return [name for name in sorted(self.streamed or ()) if name not in names and name in self.there]


def another_column(table: str, before: SourceColumns, now: SourceColumns) -> str | None:
    """What happened to a column whose name stands for another one now, or stood for none for a while; None if there is none such."""
    for name, (number, _) in now.there.items():
        was = before.there[name][0] if name in before.there else before.gone.get(name)
        if was is None or (was == number and name in before.there):
            continue
        how = "renamed, and renamed back" if was == number else "dropped and added again, or another column was given its name"
        return (
            f"the column {name} of the table {table} was {how} (its number was {was or 'another'}, and is {number}): the topic has the values "
            "that it had before, and PostgreSQL does not send those of rows that nobody changes"
        )
    return None


def said_of_columns(table: str, topic: str, before: SourceColumns, now: SourceColumns) -> Iterator[str]:
    """Sentences for the log about columns that were renamed, added or dropped, or have another type."""
    names = {number: name for name, (number, _) in before.there.items()}
    renamed = {name: names[number] for name, (number, _) in now.there.items() if names.get(number, name) != name}
    for name, former in renamed.items():
        yield (
            f"table {table} has the column {former} by the name {name} now; topic {topic} keeps {former}, with nulls from now on, and rows that "
            f"were there before have null for {name} until they change"
        )
    for name in now.there:
        if name not in before.there and name not in renamed:
            yield (
                f"table {table} has the column {name} now; rows that were there before have null for it in topic {topic} until they "
                "change, also if PostgreSQL gave them a default"
            )
    for name in before.there:
        if name not in now.there and name not in renamed.values():
            yield f"table {table} has no column {name} any more; topic {topic} has nulls there from now on"
    for name, (number, type) in now.there.items():
        if name in before.there and before.there[name] != (number, type) and name not in renamed:
            yield (
                f"the column {name} of the table {table} is {type} now, and was {before.there[name][1]}; rows that were there before "
                f"keep their values in topic {topic} until they change"
            )
