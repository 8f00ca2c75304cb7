"""A connection of a topology: a topic, and the connector that fills it from a foreign system or empties it into one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from streamkit.schema import Schema


@dataclass(frozen=True)
class Connection:
    """
    A connector that a topology asks for; `place` is the foreign end as people write it, without secrets.

    `settings` are as they were written, placeholders such as `${env:X}` too; nothing shows them. `schema` and `key` are those
    of a topic that must be there before the first rows are; None where the rows say them.
    """

    name: str
    topic: str
    place: str
    class_name: str
    is_source: bool
    settings: tuple[tuple[str, Any], ...] = field(repr=False)
    schema: Schema | None = None
    key: tuple[str, ...] | None = None

    def text(self) -> str:
        """From where to where, in one line."""
        ends = (self.place, self.topic) if self.is_source else (self.topic, self.place)
        return f"{' → '.join(ends)}  [{self.name}]"


def describe_connections(connections: Iterable[Connection]) -> list[str]:
    """The lines about connections below a topology's tree; none if it has none."""
    lines = [connection.text() for connection in connections]
    return ["connectors", *(f"  {line}" for line in lines)] if lines else []
