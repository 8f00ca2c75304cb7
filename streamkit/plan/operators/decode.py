"""The bytes of an opaque topic as columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.errors import Location
from streamkit.formats.format import Format
from streamkit.names import HEADERS
from streamkit.plan.decoding import KEY, DecodedSchema, Decoding, decoded
from streamkit.plan.operator import Key, Names, Operator, listed
from streamkit.plan.operator_traits import EACH_ALONE, OperatorTraits
from streamkit.plan.origin import Origin
from streamkit.plan.program import Input
from streamkit.plan.steps import Step, with_operator
from streamkit.schema import Schema

VALUE = "value"


@dataclass(frozen=True)
class Decode(Operator):
    """
    Rows of typed columns in place of key and value bytes; `key` and `value` are the columns of each.

    A value is decoded also if none of its columns is used, so that a record that does not decode is found whoever reads it; so is a key in
    the formats of ksqlDB.
    """

    kind: ClassVar[str] = "decode"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True, leaves_out=EACH_ALONE)
    topic: str
    format: Format
    keys: Format
    key: Schema
    value: Schema
    columns: Key

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        """By the key, if each of its bytes is one value of the key."""
        is_same = self.keys.name in ("string", "bytes") and all(column.type in ("string", "binary") for column in self.key)
        return self.key.names if inputs[0] == (KEY,) and is_same and set(self.key.names) <= set(self.columns) else None

    def reads_keys(self, needed: Collection[str]) -> bool:
        """Whether keys are decoded if these columns are used."""
        found = DecodedSchema(self.key, self.value, self.keys, self.format)
        return found.reads_each_key or not set(self.key.names).isdisjoint(needed)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        bytes = {VALUE} | ({KEY} if self.reads_keys(needed) else set())
        return frozenset(bytes) | (needed & {HEADERS})

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        columns = tuple(name for name in self.columns if name in needed)
        return with_operator(step, step.schema.select(columns), columns=columns)

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        (rows,) = above
        return rows.but(f"{rows.rows} as {self.format.name}", {})

    def text(self) -> str:
        return f"decode {self.format.name}: {listed(self.columns)}"


def decode_step(decoding: Decoding, source: Input, rows: Step, at: Location | None) -> Step:
    """The step that decodes the rows of an opaque topic."""
    topic = source.topic
    found = decoded(decoding, source, at)
    schema = Schema((*found.key, *found.value))
    operator = Decode(
        f"{rows.id}:decode", rows.stage, (rows.id,), topic, found.format, found.keys, found.key, found.value, schema.names
    )
    partition_by = operator.partitioning([rows.partition_by]) or found.key.names
    return replace(rows, operator=operator, schema=schema, key=found.key.names, partition_by=partition_by, at=at)
