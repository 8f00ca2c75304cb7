"""TimestampConverter: times as texts, numbers or times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.simple_date_format import SimpleDateFormat
from streamkit.connectors.transforms.texts import milliseconds
from streamkit.connectors.transforms.transform import NULL_DEFAULT, PartTransform
from streamkit.data_type import ARROW_TYPES, from_arrow
from streamkit.errors import ConfigError

_DAY_MS = 86_400_000
PRECISIONS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1, "nanoseconds": None}  # in microseconds
TARGETS = ("string", "unix", "Date", "Time", "Timestamp")


class TimestampConverter(PartTransform):
    """
    Reads a text by `format`, a bigint by `unix.precision`, a date or a timestamp, and writes it as `target.type`.

    `Time` is the milliseconds of the day, as int: StreamKit's columns have no time of day.
    """

    NAME = "TimestampConverter"
    SETTINGS = (
        Setting("field", "the column; the whole key or value unless given", default=""),
        Setting("target.type", "what it becomes", choices=TARGETS),
        Setting("format", "a pattern of SimpleDateFormat, in UTC", default=""),
        Setting("unix.precision", "what a number counts", default="milliseconds", choices=tuple(PRECISIONS)),
        NULL_DEFAULT,
    )

    def check(self) -> None:
        pattern = self.settings["format"]
        if self.settings["target.type"] == "string" and not pattern.strip():
            raise ConfigError(self.said("target.type=string needs format, a pattern of SimpleDateFormat"))
        self._format = SimpleDateFormat(pattern) if pattern.strip() else None

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        field = self.settings["field"]
        if not field:
            if part.is_struct:
                if part.valid.true_count:
                    raise self.unfit("without field the whole must be a time; found columns", part.valid)
                return part
            return RecordPart.bare(next(iter(part.columns)), self._converted(part.whole, part))
        self.need_struct(part, "converting of times")
        if not part.is_struct or field not in part.columns:
            return part
        return part.of({**part.columns, field: self._converted(part.columns[field], part)}, [field])

    def _converted(self, column: pa.Array, part: RecordPart) -> pa.Array:
        return self._written(self._read(column, part))

    def _read(self, column: pa.Array, part: RecordPart) -> pa.Array:
        """Microseconds since 1970."""
        kind = column.type
        if pa.types.is_timestamp(kind):
            return pc.cast(pc.cast(column, pa.timestamp("us", kind.tz), safe=False), pa.int64())
        if pa.types.is_date(kind):
            return pc.multiply(milliseconds(column), 1_000)
        if pa.types.is_int64(kind):
            factor = PRECISIONS[self.settings["unix.precision"]]
            return pc.divide(column, 1_000) if factor is None else pc.multiply(column, factor)
        if pa.types.is_string(kind) and self._format is not None:
            numbers, is_wrong = self._format.parsed(column)
            if is_wrong.true_count:
                first = column.filter(is_wrong)[0].as_py()
                raise self.refused(f"{first!r} does not fit the pattern {self._format.pattern!r}", is_wrong)
            return pc.multiply(numbers, 1_000)
        if pa.types.is_null(kind) or not part.valid.true_count:
            return pa.nulls(len(column), pa.int64())
        hint = "; a text needs format" if pa.types.is_string(kind) else ""
        raise self.unfit(f"a {from_arrow(kind)} is no time; expected string, bigint, date or timestamp{hint}", column.is_valid())

    def _written(self, numbers: pa.Array) -> pa.Array:
        target = self.settings["target.type"]
        if target == "Timestamp":
            return pc.cast(numbers, ARROW_TYPES["timestamp"])
        if target == "unix":
            factor = PRECISIONS[self.settings["unix.precision"]]
            return pc.multiply(numbers, 1_000) if factor is None else pc.divide(numbers, factor)
        filled = np.asarray(numbers.fill_null(0)) // 1_000
        is_null = np.asarray(numbers.is_null())
        if target == "Date":
            return pc.cast(pa.array((filled // _DAY_MS).astype(np.int32), pa.int32(), mask=is_null), pa.date32())
        if target == "Time":
            return pa.array((filled % _DAY_MS).astype(np.int32), pa.int32(), mask=is_null)
        assert self._format is not None
        return self._format.formatted(pa.array(filled, pa.int64(), mask=is_null))
