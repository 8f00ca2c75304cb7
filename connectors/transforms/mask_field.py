"""MaskField: values are hidden behind the empty one of their type, or behind a replacement."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.java_numbers import floats, wrapped
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.replace_field import check_distinct
from streamkit.connectors.transforms.transform import NULL_DEFAULT, PartTransform
from streamkit.data_type import from_arrow
from streamkit.errors import ConfigError


class MaskField(PartTransform):
    """Gives `fields` the value 0, false, an empty text, 1970-01-01, an empty list or map; or `replacement`. Nulls stay."""

    NAME = "MaskField"
    SETTINGS = (
        Setting("fields", "the columns", "list"),
        Setting("replacement", "the value in place of the masked one, for numbers and texts", default=None),
        NULL_DEFAULT,
    )

    @property
    def keeps_columns(self) -> bool:
        return True

    def check(self) -> None:
        check_distinct(self, "fields", self.settings["fields"], may_be_empty=False)
        if self.settings["replacement"] == "":
            raise ConfigError(self.said("replacement is empty; leave it out for the empty value of each type"))

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        self.need_struct(part, "masking of fields", may_be_null=False)
        if not part.is_struct:
            return part
        fields = self.settings["fields"]
        columns = {name: self._masked(name, column) if name in fields else column for name, column in part.columns.items()}
        return part.of(columns, [name for name in columns if name in fields])

    def _masked(self, name: str, column: pa.Array) -> pa.Array:
        if not column.null_count < len(column):
            return column
        value = self._empty(name, column) if self.settings["replacement"] is None else self._replacement(name, column)
        return pc.if_else(column.is_valid(), pa.scalar(value, column.type), pa.scalar(None, column.type))

    def _empty(self, name: str, column: pa.Array) -> Any:
        kind = column.type
        if pa.types.is_boolean(kind):
            return False
        if _is_number(kind) or pa.types.is_temporal(kind):
            return decimal.Decimal(0) if pa.types.is_decimal(kind) else 0
        if pa.types.is_string(kind):
            return ""
        if pa.types.is_list(kind) or pa.types.is_map(kind):
            return []
        raise self._not_maskable(name, column, "")

    def _replacement(self, name: str, column: pa.Array) -> Any:
        kind, text = column.type, self.settings["replacement"]
        if pa.types.is_string(kind):
            return text
        if not _is_number(kind):
            raise self._not_maskable(name, column, " with a replacement")
        try:
            if pa.types.is_floating(kind):
                values, is_wrong = floats(pa.array([text]), kind)
                if is_wrong[0].as_py():
                    raise ValueError(text)
                return values[0].as_py()
            number = decimal.Decimal(text)
            return number if pa.types.is_decimal(kind) else wrapped(int(number), kind.bit_width)
        except (ValueError, ArithmeticError):
            valid = np.asarray(column.is_valid())
            raise self.unfit(f"the replacement {text!r} is no {from_arrow(kind)}, as the field {name!r} is", valid) from None

    def _not_maskable(self, name: str, column: pa.Array, how: str) -> Exception:
        return self.unfit(f"the field {name!r} is {from_arrow(column.type)}, which cannot be masked{how}", column.is_valid())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
