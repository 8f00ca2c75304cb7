"""Cast: columns, or the whole, as another type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.java_numbers import floats, integers, narrowed
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.texts import milliseconds, texts
from streamkit.connectors.transforms.transform import NULL_DEFAULT, PartTransform
from streamkit.data_type import from_arrow
from streamkit.errors import ConfigError

TYPES = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "float32": pa.float32(),
    "float64": pa.float64(), "boolean": pa.bool_(), "string": pa.string(),
}  # fmt: skip


class CastTransform(PartTransform):
    """Casts as Java does: integers wrap around, floats stop at the limits, bytes become base 64; a text that is no number is refused."""

    NAME = "Cast"
    SETTINGS = (Setting("spec", "column:type with commas between, or one type for the whole", "list"), NULL_DEFAULT)

    def check(self) -> None:
        if not self.settings["spec"]:
            raise ConfigError(self.said("spec is empty; expected column:type, or one type"))
        self._whole: pa.DataType | None = None
        self._types: dict[str, pa.DataType] = {}
        for text in self.settings["spec"]:
            name, _, kind = (one.strip() for one in text.rpartition(":"))
            if kind.lower() not in TYPES or name.count(":"):
                raise ConfigError(self.said(f"spec has {text!r}; expected column:type with a type of {', '.join(TYPES)}"))
            if name:
                self._types[name] = TYPES[kind.lower()]
            else:
                self._whole = TYPES[kind.lower()]
        if self._whole is not None and len(self.settings["spec"]) > 1:
            raise ConfigError(self.said("spec has a type for the whole and others; expected either"))

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        if self._whole is not None:
            if part.is_struct and not part.valid.true_count:
                return part
            name = next(iter(part.columns), "") if not part.is_struct else self.side.lower()
            return RecordPart.bare(name, self._cast(part.whole, self._whole))
        self.need_struct(part, "casting of columns")
        if not part.is_struct:
            return part
        columns = {
            name: self._cast(column, self._types[name], f" in the field {name!r}") if name in self._types else column
            for name, column in part.columns.items()
        }
        return part.of(columns, [name for name in columns if name in self._types])

    def _cast(self, column: pa.Array, target: pa.DataType, where: str = "") -> pa.Array:
        found = self._castable(column, target, where)
        if pa.types.is_string(target):
            return texts(found)
        if pa.types.is_string(found.type):
            if pa.types.is_boolean(target):
                return pc.equal(pc.utf8_lower(found), "true")
            values, is_wrong = (floats if pa.types.is_floating(target) else integers)(found, target)
            if is_wrong.true_count:
                first = found.filter(is_wrong)[0].as_py()
                raise self.refused(f"{first!r}{where} is no {from_arrow(target)}", is_wrong)
            return values
        if pa.types.is_boolean(target):
            return found if pa.types.is_boolean(found.type) else pc.not_equal(narrowed(found, pa.int64()), 0)
        numbers = pc.cast(found, pa.int8()) if pa.types.is_boolean(found.type) else found
        return narrowed(numbers, target)

    def _castable(self, column: pa.Array, target: pa.DataType, where: str) -> pa.Array:
        """The column as numbers, booleans or texts; times are numbers unless they become texts."""
        kind = column.type
        is_text = pa.types.is_string(target)
        if pa.types.is_timestamp(kind):
            return column if is_text else milliseconds(column)
        if pa.types.is_date(kind):
            return column if is_text else pc.cast(column, pa.int32())
        if pa.types.is_null(kind):
            return pc.cast(column, target)
        is_known = pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_decimal(kind)
        if not is_known and not (pa.types.is_binary(kind) and is_text):
            valid = np.asarray(column.is_valid())
            if valid.any():
                raise self.unfit(f"a {from_arrow(kind)}{where} cannot be cast to {from_arrow(target)}", valid)
            return pa.nulls(len(column), target)
        return column
