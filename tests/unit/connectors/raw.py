"""A raw source and a raw sink that keep records in lists, and a sink of columns."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from streamkit.connectors import Polled, Sink, Source
from streamkit.connectors.position_form import WHOLE, PositionForm
from streamkit.names import DELETED, OFFSET, PARTITION, TOPIC

RECORDS: dict[str, list[tuple[bytes | None, bytes | None]]] = {}  # by connector: what its source brings
WRITTEN: dict[str, list[dict[str, Any]]] = {}  # by connector: what its sink was given


class RawSource(Source):
    """Brings the records of its name once, from the topic `FOREIGN`."""

    IS_RAW: ClassVar[bool] = True
    POSITION = PositionForm({"next": WHOLE}, {"next": 17})
    FOREIGN: ClassVar[str] = "foreign"

    def splits(self):
        return ["all"]

    def open(self, positions):
        self._is_mine = "all" in positions
        self._next = (positions.get("all") or {"next": 0})["next"]

    def poll(self, timeout):
        found = RECORDS[self.name][self._next :] if self._is_mine else []
        if not found:
            return None
        keys, values = ([pair[place] for pair in found] for place in (0, 1))
        places = list(range(self._next, self._next + len(found)))
        self._next += len(found)
        table = pa.table(
            {
                "key": pa.array(keys, pa.binary()),
                "value": pa.array(values, pa.binary()),
                DELETED: pa.array([value is None for value in values]),
                TOPIC: pa.array([self.FOREIGN] * len(found)),
                PARTITION: pa.array([0] * len(found), pa.int32()),
                OFFSET: pa.array(places, pa.int64()),
            }
        )
        return Polled({self.settings["topic"]: table}, {"all": {"next": self._next}})


class RawSink(Sink):
    """Keeps key and value bytes."""

    IS_RAW: ClassVar[bool] = True

    def open(self, generation, partitions):
        return None

    def put(self, rows, ends):
        WRITTEN.setdefault(self.name, []).extend(rows.to_pylist())


class ColumnSink(RawSink):
    """Keeps columns; `heard` is the topic as it was told of it."""

    IS_RAW: ClassVar[bool] = False
    heard: ClassVar[list[Any]] = []

    def topic(self, topic):
        self.heard.append(topic)
