"""The newest records that a page has room for."""

from __future__ import annotations

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.log.log import Log
from streamkit.log.values.keys import partitions
from streamkit.query.position import LATEST
from streamkit.query.record_page import PageLimits, PageReader
from streamkit.query.tail import TailPage, newest_page
from streamkit.query.wanted import Wanted


def page_of(texts: dict[int, list[str]], limits: PageLimits) -> TailPage:
    """The newest page of a topic whose partitions have these texts."""
    with sk.open_log(":memory:") as log:
        _filled(log, texts)
        topic = log.topic("t")
        reader = PageReader(log, Wanted(topic, ("text",), None, LATEST, None), limits)
        ends = log.end_offsets("t")
        return newest_page(reader, dict.fromkeys(ends, 0), ends, limits.rows)


def _filled(log: Log, texts: dict[int, list[str]]) -> None:
    count = max(texts) + 1
    log.create_topic("t", "place int, text string", key="place", partitions=count)
    keys = {int(place): key for key, place in enumerate(partitions([pa.array(range(100), pa.int32())], count))}
    with log.producer() as producer:
        for partition, values in texts.items():
            if values:
                producer.send_batch("t", [{"place": keys[partition], "text": text} for text in values])


def counts(page: TailPage) -> list[int]:
    """How many records of each partition are there, which are the last ones."""
    found = page.rows.select(["_partition", "_offset"]).to_pylist()
    for partition, start in page.starts.items():
        offsets = [row["_offset"] for row in found if row["_partition"] == partition]
        assert offsets == [*range(start, start + len(offsets))]
    return [sum(row["_partition"] == one for row in found) for one in sorted(page.starts)]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [([90, 20], [80, 20]), ([20, 90], [20, 80]), ([90, 90], [50, 50]), ([3, 4], [3, 4]), ([0, 200], [0, 100])],
)
def test_what_one_partition_does_not_need_is_for_the_others(lengths: list[int], expected: list[int]) -> None:
    """A page of a hundred rows is full where there are as many, however they lie."""
    page = page_of({place: ["x"] * length for place, length in enumerate(lengths)}, PageLimits(100, 1 << 20, 60.0))

    assert counts(page) == expected
    assert [(one.start, one.end) for one in page.older] == [
        (0, length - count) for length, count in zip(lengths, expected, strict=True) if length > count
    ]


def test_large_records_in_front_leave_room_for_small_ones() -> None:
    """Records that are larger than the page, older than all others, are left out, and nearly all of the others are there."""
    page = page_of({0: ["x" * 100_000] * 20 + ["x"] * 500}, PageLimits(1000, 1 << 20, 60.0))

    (count,) = counts(page)
    assert 480 <= count <= 511
