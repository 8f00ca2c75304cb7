"""DropHeaders: leave headers out."""

from __future__ import annotations

from collections.abc import Iterable

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.headers import headers_of, without
from streamkit.connectors.transforms.records import Records
from streamkit.connectors.transforms.transform import Transform
from streamkit.errors import ConfigError
from streamkit.names import HEADERS


class DropHeaders(Transform):
    """Leaves out all headers of the names `headers`."""

    NAME = "DropHeaders"
    SETTINGS = (Setting("headers", "the names of the headers", "list"),)

    @property
    def keeps_columns(self) -> bool:
        return True

    def check(self) -> None:
        if not self.settings["headers"]:
            raise ConfigError(self.said("headers is empty; expected at least one name"))

    def apply(self, records: Records) -> Iterable[Records]:
        if records.fact(HEADERS) is None:
            yield records
        else:
            yield records.with_fact(HEADERS, without(headers_of(records), self.settings["headers"]))
