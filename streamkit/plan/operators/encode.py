"""Rows of columns as the bytes of an opaque topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from streamkit.formats.format import Format
from streamkit.names import HEADERS
from streamkit.plan.encoding import Encoded
from streamkit.plan.event_time import EventTime
from streamkit.plan.operator import Key, Names, Operator, RowStep
from streamkit.plan.operator_traits import EACH_ALONE, OperatorTraits
from streamkit.schema import Schema


@dataclass(frozen=True)
class Encode(Operator):
    """
    Key and value bytes in place of columns; `key` and `value` are the columns of each. A deletion has no value.

    Records have the time that a column says, if there is a `time`. A key of nulls alone is none, unless the format `writes_nulls` as one.
    """

    kind: ClassVar[str] = "encode"
    traits: ClassVar[OperatorTraits] = OperatorTraits(leaves_out=EACH_ALONE, stage_min=1)
    topic: str
    format: Format
    keys: Format
    key: Schema
    value: Schema
    time: EventTime | None = None
    writes_nulls: bool = False

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        return None

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        times = () if self.time is None else self.time.columns_read
        return frozenset((*self.key.names, *self.value.names, *times)) | (needed & {HEADERS})

    @property
    def row_step(self) -> RowStep:
        return RowStep()

    @property
    def bytes_made(self) -> Encoded:
        return Encoded(self.key, self.value, self.keys, self.format)

    def text(self) -> str:
        return f"encode {self.format.name}: {', '.join(self.value.names)}"
