"""InsertField: columns that say where a record is from, or that are the same for all."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.transform import NULL_DEFAULT, PartTransform
from streamkit.data_type import ARROW_TYPES
from streamkit.errors import ConfigError
from streamkit.names import OFFSET, PARTITION, TIMESTAMP
from streamkit.recast import recast

_OPTIONAL = "; `!` behind it makes it required, `?` optional, which StreamKit's columns are anyway"
_PLACES = ("topic.field", "partition.field", "offset.field", "timestamp.field", "static.field")


class InsertField(PartTransform):
    """Adds a column for each setting that is given."""

    NAME = "InsertField"
    SETTINGS = (
        Setting("topic.field", f"the column for the topic{_OPTIONAL}", default=None),
        Setting("partition.field", f"the column for the partition{_OPTIONAL}", default=None),
        Setting("offset.field", f"the column for the offset, of sinks{_OPTIONAL}", default=None),
        Setting("timestamp.field", f"the column for the time{_OPTIONAL}", default=None),
        Setting("static.field", f"the column for static.value{_OPTIONAL}", default=None),
        Setting("static.value", "the text of static.field", default=None),
        NULL_DEFAULT,
    )

    def check(self) -> None:
        if all(self.settings[name] is None for name in _PLACES):
            raise ConfigError(self.said(f"nothing is to be inserted; expected one of {', '.join(_PLACES)}"))
        if self.settings["static.field"] is not None and self.settings["static.value"] is None:
            raise ConfigError(self.said("static.field has no static.value; expected its text"))

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        self.need_struct(part, "field insertion")
        if not part.is_struct:
            return part
        columns = dict(part.columns)
        inserted = []
        for name, column in self._inserted(records):
            if name in columns:
                raise self.unfit(f"there is a field {name!r} already", part.valid)
            columns[name] = pc.if_else(part.valid, column, pa.scalar(None, column.type)) if part.valid.false_count else column
            inserted.append(name)
        return part.of(columns, inserted)

    def _inserted(self, records: Records) -> Iterator[tuple[str, pa.Array]]:
        count = records.count
        for setting in _PLACES:
            if self.settings[setting] is None:
                continue
            name = self.settings[setting]
            name = name[:-1] if name.endswith(("!", "?")) else name
            if setting == "topic.field":
                yield name, pa.array([records.topic] * count, pa.string())
            elif setting == "static.field":
                yield name, pa.array([self.settings["static.value"]] * count, pa.string())
            elif setting == "partition.field":
                yield name, _fact(records, PARTITION, pa.int32())
            elif setting == "offset.field":
                yield name, _fact(records, OFFSET, pa.int64())
            else:
                yield name, _fact(records, TIMESTAMP, ARROW_TYPES["timestamp"])


def _fact(records: Records, name: str, kind: pa.DataType) -> pa.Array:
    found = records.fact(name)
    return pa.nulls(records.count, kind) if found is None else recast(found, kind)
