"""HeaderFrom: columns become headers."""

from __future__ import annotations

from collections.abc import Iterable

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.headers import added, headers_of
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.texts import texts
from streamkit.connectors.transforms.transform import NULL_DEFAULT, PartTransform
from streamkit.errors import ConfigError
from streamkit.names import HEADERS


class HeaderFrom(PartTransform):
    """Copies or moves the columns `fields` into headers of the names `headers`, as texts."""

    NAME = "HeaderFrom"
    SETTINGS = (
        Setting("fields", "the columns", "list"),
        Setting("headers", "the names of their headers, in the same order", "list"),
        Setting("operation", "move removes the columns, copy keeps them", choices=("move", "copy")),
        NULL_DEFAULT,
    )

    @property
    def keeps_columns(self) -> bool:
        return str(self.settings["operation"]) == "copy"

    def check(self) -> None:
        fields, headers = self.settings["fields"], self.settings["headers"]
        if not fields or len(fields) != len(headers):
            raise ConfigError(
                self.said(f"found {len(fields)} fields and {len(headers)} headers; expected as many, and at least one")
            )

    def apply(self, records: Records) -> Iterable[Records]:
        part = records.part(self.side)
        self.need_struct(part, "making headers", may_be_null=False)
        if not part.is_struct or not records.count:
            yield records.with_part(self.side, self.changed(part, records))
            return
        missing = [name for name in self.settings["fields"] if name not in part.columns]
        if missing:
            raise self.unfit(f"there is no field {missing[0]!r}; found {', '.join(part.columns)}", part.valid)
        values = [texts(part.columns[name]) for name in self.settings["fields"]]
        headers = added(headers_of(records), self.settings["headers"], values)
        yield records.with_part(self.side, self.changed(part, records)).with_fact(HEADERS, headers)

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        if self.settings["operation"] == "copy" or not part.is_struct:
            return part
        return part.of({name: column for name, column in part.columns.items() if name not in self.settings["fields"]})
