"""A transform: its settings, and what it makes of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from streamkit.connectors.setting import Setting, read_settings
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.data_type import from_arrow
from streamkit.errors import SchemaError

CONNECT = "org.apache.kafka.connect.transforms."
NULL_DEFAULT = Setting(
    "replace.null.with.default", "accepted without effect: columns of StreamKit have no defaults", "boolean", True
)


class UnfitColumnsError(SchemaError):
    """Columns that a transform's settings do not fit, whatever the values are."""


class TransformError(SchemaError):
    """
    Records that a transform refuses; `class_name` is Connect's name of the transform.

    `is_of_columns` says that the settings do not fit the columns of the records, whatever their values are.
    """

    def __init__(self, message: str, rows: tuple[int, ...], class_name: str, *, is_of_columns: bool = False) -> None:
        super().__init__(message, rows)
        self.class_name = class_name
        self.is_of_columns = is_of_columns


class Transform(ABC):
    """
    One transform of a chain. A subclass has Connect's name, settings and sides (`Key`, `Value`, or none).

    ConfigError for settings that it has not, or that do not go together.
    """

    NAME: ClassVar[str]
    PACKAGE: ClassVar[str] = CONNECT
    SIDES: ClassVar[tuple[str, ...]] = ()
    SETTINGS: ClassVar[tuple[Setting, ...]] = ()

    def __init__(self, alias: str, side: str, settings: Mapping[str, Any]) -> None:
        self.alias = alias
        self.side = side
        self.name = f"{self.NAME}${side}" if side else self.NAME
        self.settings = read_settings(f"the transform {alias} ({self.name})", self.SETTINGS, settings)
        self.check()

    @property
    def class_name(self) -> str:
        """Connect's whole name."""
        return self.PACKAGE + self.name

    @abstractmethod
    def apply(self, records: Records) -> Iterable[Records]:
        """The records by topic; SchemaError names the rows that it refuses."""

    @property
    def keeps_columns(self) -> bool:
        """Whether rows leave it with the columns that they came with: then those of a topic are those of values."""
        return False

    def check(self) -> None:  # noqa: B027  most have nothing to check
        """Raise ConfigError for settings that do not go together."""

    def said(self, message: str) -> str:
        """A message that names the transform."""
        return f"the transform {self.alias} ({self.name}): {message}"

    def refused(self, message: str, is_wrong: pa.BooleanArray | Sequence[bool]) -> SchemaError:
        """The error for the rows where a mask is true."""
        rows = np.flatnonzero(np.asarray(is_wrong, bool))
        return SchemaError(self.said(message), tuple(int(row) for row in rows))

    def unfit(self, message: str, is_wrong: pa.BooleanArray | Sequence[bool]) -> SchemaError:
        """The error where the settings do not fit the columns, so that all rows of these columns fail: those where a mask is true."""
        refused = self.refused(message, is_wrong)
        return UnfitColumnsError(str(refused), refused.rows)


class PartTransform(Transform):
    """A transform of the key or of the value alone."""

    SIDES: ClassVar[tuple[str, ...]] = ("Key", "Value")

    def apply(self, records: Records) -> Iterable[Records]:
        yield records.with_part(self.side, self.changed(records.part(self.side), records))

    @abstractmethod
    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        """What becomes of the part that the transform is for."""

    def need_struct(self, part: RecordPart, purpose: str, *, may_be_null: bool = True) -> None:
        """SchemaError unless the rows are structs; without `may_be_null` also for those that are null."""
        if not part.is_struct and part.valid.true_count:
            kind, side = from_arrow(part.whole.type), self.side.lower()
            schema = " and value.schema say" if side == "value" else " says"
            hint = f"; {side}.format{schema} how bytes are read" if kind == "binary" else ""
            raise self.unfit(f"{purpose} needs a {side} of columns; found one that is {kind}{hint}", part.valid)
        if not may_be_null and part.valid.false_count:
            raise self.refused(f"{purpose} needs a {self.side.lower()}; found null", _inverted(part.valid))


def _inverted(mask: pa.BooleanArray) -> Sequence[bool]:
    return list(~np.asarray(mask, bool))
