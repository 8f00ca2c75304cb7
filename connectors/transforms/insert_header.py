"""InsertHeader: a header of the same text for every record."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.headers import added, headers_of
from streamkit.connectors.transforms.records import Records
from streamkit.connectors.transforms.transform import Transform
from streamkit.names import HEADERS


class InsertHeader(Transform):
    """Adds the header `header`, whose bytes are the text `value.literal` as it is written."""

    NAME = "InsertHeader"
    SETTINGS = (Setting("header", "the header's name"), Setting("value.literal", "its text"))

    @property
    def keeps_columns(self) -> bool:
        return True

    def apply(self, records: Records) -> Iterable[Records]:
        value = pa.array([self.settings["value.literal"]] * records.count, pa.string())
        yield records.with_fact(HEADERS, added(headers_of(records), [self.settings["header"]], [value]))
