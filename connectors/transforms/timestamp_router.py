"""TimestampRouter: another topic, by the record's time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from streamkit.connectors.placeholders import check_names
from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.records import Records
from streamkit.connectors.transforms.simple_date_format import SimpleDateFormat
from streamkit.connectors.transforms.texts import milliseconds
from streamkit.connectors.transforms.transform import Transform
from streamkit.names import TIMESTAMP


class TimestampRouter(Transform):
    """The topic `topic.format`, where `${topic}` and `${timestamp}` stand for the topic and for the time as `timestamp.format` writes it."""

    NAME = "TimestampRouter"
    SETTINGS = (
        Setting("topic.format", "the name, with ${topic} and ${timestamp}", default="${topic}-${timestamp}"),
        Setting("timestamp.format", "a pattern of SimpleDateFormat, in UTC", default="yyyyMMdd"),
    )

    @property
    def keeps_columns(self) -> bool:
        return True

    def check(self) -> None:
        check_names("topic.format", self.settings["topic.format"], ("topic", "timestamp"))
        self._format = SimpleDateFormat(self.settings["timestamp.format"])

    def apply(self, records: Records) -> Iterable[Records]:
        times = records.fact(TIMESTAMP)
        is_missing = np.ones(records.count, bool) if times is None else np.asarray(times.is_null())
        if not records.count:
            yield records
            return
        if times is None or is_missing.any():
            raise self.refused("the record has no time", is_missing)
        named = pc.dictionary_encode(self._format.formatted(milliseconds(times)))
        indices = np.asarray(named.indices)
        for number, text in enumerate(named.dictionary.to_pylist()):
            topic = self.settings["topic.format"].replace("${topic}", records.topic).replace("${timestamp}", text)
            yield replace(records.take(np.flatnonzero(indices == number)), topic=topic)
