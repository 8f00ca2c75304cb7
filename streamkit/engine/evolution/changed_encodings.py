"""Outputs whose keys or values the program before wrote otherwise: one key would be two in a table, and for compaction."""

from __future__ import annotations

from collections.abc import Container, Iterator

from streamkit.errors import TopologyError
from streamkit.formats.format import Format
from streamkit.formats.written_types import why_unwritable
from streamkit.plan.encoding import other_keys
from streamkit.plan.operators.encode import Encode
from streamkit.plan.program import Program
from streamkit.schema import Schema


def changed_encodings(before: Program, program: Program, written: Container[str]) -> Iterator[TopologyError]:
    """A refusal for each output that is `written`, which means it has records, and whose keys or values would get another form."""
    earlier = _encodings(before)
    for topic, now in _encodings(program).items():
        if topic in earlier and topic in written and (reason := _reason(earlier[topic], now)):
            yield TopologyError(
                f"the topic {topic!r} has records that {program.application!r} wrote in another form: {reason}; expected to() as before, or "
                f"another topic; or delete this topic (streamkit topics delete {topic})" + _line(program, now)
            )


def _encodings(program: Program) -> dict[str, Encode]:
    return {one.topic: one for one in program.operators if isinstance(one, Encode)}


def _reason(before: Encode, now: Encode) -> str | None:
    return other_keys(before.bytes_made, now.bytes_made) or _other_values(before.format, before.value, now)


def _other_values(before: Format, columns: Schema, now: Encode) -> str | None:
    """Which column readers of earlier values of JSON would not read any more; the schema of other formats is the topic's, and compared there."""
    if before.name != "json" or now.format.name != "json" or now.format.schema is not None:
        return None
    for column in now.value:
        if column.name in columns and why_unwritable(now.format, column.type, columns[column.name].type, (column.name,), {}):
            return f"the column {column.name!r} of its values is {columns[column.name].type}, and would be {column.type}"
    return None


def _line(program: Program, operator: Encode) -> str:
    line = program.lines.get(operator.id) or program.lines.get(operator.id.partition(":")[0])
    return f"\n  at {line}" if line else ""
