"""
A log of the present format, as it is kept for later versions to open, and what is in it.

    python -m tests.unit.log.golden        writes tests/unit/log/data/format-<number>.tar.gz, once, when a format is new
"""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import tarfile
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from streamkit.log.catalog.tables import FORMAT_VERSION
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from tests.kit import busy_database as busy

DATA = Path(__file__).parent / "data"
STEPS = 40
TYPES = (
    "k string, a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h binary, i date, j timestamp, k_ntz timestamp_ntz, "
    "l decimal(9,2), m decimal(38,0)"
)
AT = dt.datetime(2013, 1, 1, 12, 30, 15, 123_456, tzinfo=dt.timezone.utc)
FULL = {
    "k": "é", "a": True, "b": -1, "c": 2**15 - 1, "d": -(2**31), "e": 2**63 - 1, "f": 0.5, "g": -0.0, "h": b"\0\xff", "i": AT.date(), "j": AT,
    "k_ntz": AT.replace(tzinfo=None), "l": Decimal("-1.25"), "m": Decimal(10**37),
}  # fmt: skip


def file_of(version: int) -> Path:
    """Where the log of a format is kept."""
    return DATA / f"format-{version}.tar.gz"


def write_everything(log: Log) -> None:
    """Every type, compression and format, headers, deletions; and whatever else changes a catalog."""
    busy.create_topics(log)
    busy.work(log, random.Random(3), STEPS)
    for compression in ("none", "lz4", "zstd"):
        config = {"cleanup.policy": "compact", "compression.type": compression}
        log.create_topic(f"typed-{compression}", TYPES, key="k", timestamp="j", partitions=2, config=config)
        empty = {**dict.fromkeys(FULL), "k": "none", "j": AT}
        with log.producer() as producer:
            producer.send_batch(f"typed-{compression}", [FULL, empty, {**FULL, "k": "gone", "_headers": [("trace", b"1")]}])
            producer.delete(f"typed-{compression}", {"k": "gone"}, timestamp_ms=5)
    for name in ("json", "string", "bytes"):
        log.create_topic(f"opaque-{name}", format=name, partitions=1)
    with log.producer() as producer:
        producer.send("opaque-json", {"key": "a", "value": {"n": [1, None, "é"]}})
        producer.send("opaque-string", {"key": "a", "value": "é"})
        producer.send("opaque-bytes", {"key": b"a", "value": b"\xff"})


def contents(log: Log) -> dict[str, Any]:
    """What everybody can see of a log, as JSON has it."""
    found = {
        topic: {"schema": str(log.topic(topic).schema), "ends": log.end_offsets(topic), "rows": log.read(topic).to_pylist()}
        for topic in log.topics(internal=True)
    }
    groups = {group: [repr(place) for place in log.groups.describe(group).partitions] for group in log.groups.names()}
    return dict(json.loads(json.dumps({"topics": found, "groups": groups}, default=repr)))


def make() -> None:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(file_of(FORMAT_VERSION), "x:gz") as archive:
        with open_log(Path(folder) / "log") as log:
            write_everything(log)
            expected = json.dumps(contents(log)).encode()
        archive.add(Path(folder) / "log", "log", filter=_anonymous)
        entry = tarfile.TarInfo("contents.json")
        entry.size = len(expected)
        archive.addfile(entry, io.BytesIO(expected))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    make()
