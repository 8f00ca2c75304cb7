"""SetSchemaMetadata: the name and the version of a schema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.records import Records
from streamkit.connectors.transforms.transform import NULL_DEFAULT, Transform
from streamkit.errors import ConfigError


class SetSchemaMetadata(Transform):
    """Notes `key.schema.name`, `value.schema.version` and the like in the metadata of the rows' Arrow schema, for formats that have names."""

    NAME = "SetSchemaMetadata"
    SIDES = ("Key", "Value")
    SETTINGS = (
        Setting("schema.name", "the name", default=None),
        Setting("schema.version", "the version", "integer", None),
        NULL_DEFAULT,
    )

    @property
    def keeps_columns(self) -> bool:
        return True

    def check(self) -> None:
        if self.settings["schema.name"] is None and self.settings["schema.version"] is None:
            raise ConfigError(self.said("found neither schema.name nor schema.version; expected one of them, or both"))

    def apply(self, records: Records) -> Iterable[Records]:
        said = {
            f"{self.side.lower()}.{name}": str(self.settings[name])
            for name in ("schema.name", "schema.version")
            if self.settings[name] is not None
        }
        yield replace(records, notes={**records.notes, **said})
