"""ValueToKey: columns of the value are the key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.replace_field import check_distinct
from streamkit.connectors.transforms.transform import NULL_DEFAULT, PartTransform


class ValueToKey(PartTransform):
    """The key has the columns `fields` of the value; a topic that is created has them as its key columns."""

    NAME = "ValueToKey"
    SIDES = ()
    SETTINGS = (Setting("fields", "the columns", "list"), NULL_DEFAULT)

    @property
    def keeps_columns(self) -> bool:
        return True

    def check(self) -> None:
        self.side = "Value"
        check_distinct(self, "fields", self.settings["fields"], may_be_empty=False)

    def apply(self, records: Records) -> Iterable[Records]:
        yield replace(records, key=self.changed(records.value, records))

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        self.need_struct(part, "copying fields from value to key", may_be_null=False)
        missing = [name for name in self.settings["fields"] if name not in part.columns]
        if missing and records.count:
            raise self.unfit(f"there is no field {missing[0]!r}; the value has {', '.join(part.columns)}", part.valid)
        return RecordPart({name: part.columns[name] for name in self.settings["fields"] if name in part.columns}, part.valid)
