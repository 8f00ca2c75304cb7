"""ExtractField: one field in place of the whole."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.field_path import steps_of
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.transform import NULL_DEFAULT, PartTransform
from streamkit.data_type import from_arrow


class ExtractField(PartTransform):
    """The key or value is the field from now on; as a column it keeps the field's name."""

    NAME = "ExtractField"
    SETTINGS = (
        Setting("field", "the field; with field.syntax.version=V2 a path such as a.b or a.`b.c`"),
        Setting("field.syntax.version", "V1: a name; V2: a path", default="V1", choices=("V1", "V2")),
        NULL_DEFAULT,
    )

    def check(self) -> None:
        field, is_path = self.settings["field"], self.settings["field.syntax.version"] == "V2"
        self._steps = steps_of(field, self.said) if is_path else [field]

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        self.need_struct(part, "field extraction")
        if not part.is_struct:
            return part
        found = self._found(part)
        if found is None:
            if not part.valid.true_count:
                return part
            raise self.unfit(
                f"there is no field {self.settings['field']!r}; the {self.side.lower()} has {', '.join(part.columns)}", part.valid
            )
        name = self._steps[-1]
        return part_of(name, found)

    def _found(self, part: RecordPart) -> pa.Array | None:
        found = part.columns.get(self._steps[0])
        for step in self._steps[1:]:
            if found is None:
                return None
            if not pa.types.is_struct(found.type):
                raise self.unfit(
                    f"{self.settings['field']!r} goes through {from_arrow(found.type)}; expected structs", part.valid
                )
            found = pc.struct_field(found, [step]) if found.type.get_field_index(step) >= 0 else None
        return found


def part_of(name: str, column: pa.Array) -> RecordPart:
    """A column as the whole key or value: a struct has its fields for columns."""
    if not pa.types.is_struct(column.type):
        return RecordPart.bare(name, column)
    fields = {field.name: pc.struct_field(column, [field.name]) for field in column.type}
    return RecordPart(fields, column.is_valid(), True, frozenset(fields))
