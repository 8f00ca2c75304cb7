"""Flatten: fields within structs become columns."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.transform import PartTransform


class Flatten(PartTransform):
    """A field `b` of a column `a` becomes the column `a.b`; arrays stay as they are, and maps are refused."""

    NAME = "Flatten"
    SETTINGS = (Setting("delimiter", "what stands between the names", default="."),)

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        self.need_struct(part, "flattening")
        if not part.is_struct:
            return part
        columns: dict[str, pa.Array] = {}
        for name, column in part.columns.items():
            for long_name, leaf in self._leaves(name, column, part):
                if long_name in columns:
                    raise self.unfit(f"two fields would be called {long_name!r}", part.valid)
                columns[long_name] = leaf
        return part.of(columns, [name for name in columns if name not in part.columns])

    def _leaves(self, name: str, column: pa.Array, part: RecordPart) -> Iterator[tuple[str, pa.Array]]:
        if pa.types.is_map(column.type):
            raise self.unfit(f"the field {name!r} is a map, whose names only its values know", part.valid)
        if not pa.types.is_struct(column.type):
            yield name, column
            return
        for field in column.type:
            inner = pc.struct_field(column, [field.name])
            yield from self._leaves(f"{name}{self.settings['delimiter']}{field.name}", inner, part)
