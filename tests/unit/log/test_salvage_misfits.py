"""Rows that are whole and fit into no topic with the others are reported, and keep nothing else from being salvaged."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from streamkit.log.opening import open_log
from streamkit.log.rows import conversion
from streamkit.log.salvage import salvage

TOO_FAR = pa.array([10**9], pa.int32()).view(pa.date32())


def test_a_date_too_far_for_the_wider_type_is_reported(tmp_path, monkeypatch):
    """A frame with a date that no timestamp can hold, of a topic whose dates became timestamps, is named; all others come."""
    monkeypatch.setattr(conversion, "DAYS_MAX", 1 << 31)  # as it was taken once
    with open_log(tmp_path / "log") as log, log.producer() as producer:
        log.create_topic("dates", "d date", partitions=1)
        log.create_topic("others", "x int", partitions=1)
        for days in (pa.array([dt.date(2020, 1, 1)]), TOO_FAR):
            producer.send_batch("dates", pa.table({"d": days}))
            producer.flush()
        producer.send("others", {"x": 1})
        producer.flush()
        log.alter_topic("dates", schema="d timestamp_ntz")
        too_far = log.catalog.manifest.extents(1, 0)[1]
    with open_log(tmp_path / "log") as log, log.producer() as producer:
        producer.send("dates", {"d": dt.datetime(2021, 1, 1)})

    found = salvage(str(tmp_path / "log"), str(tmp_path / "new"))
    (misfit,) = found.unreadable
    assert (misfit.path, misfit.position, found.frames, found.is_complete) == (too_far.path, too_far.position, 3, False)
    assert "does not fit in timestamp" in misfit.reason
    with open_log(tmp_path / "new") as log:
        assert log.read("recovered-1")["d"].to_pylist() == [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)]
        assert log.read("recovered-2")["x"].to_pylist() == [1]
