"""HoistField: the whole becomes a field."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.transform import PartTransform


class HoistField(PartTransform):
    """The key or value is a struct with one field, which holds what it was; a null too, so that a tombstone is none any more."""

    NAME = "HoistField"
    SETTINGS = (Setting("field", "the name of the field"),)

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        field = self.settings["field"]
        return RecordPart({field: part.whole}, pa.array(np.ones(records.count, bool)), True, frozenset((field,)))
