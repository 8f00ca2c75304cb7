"""The options of `format("streamkit")`: what is understood, and what is refused with the reason."""

from __future__ import annotations

import pytest

from streamkit.errors import ConfigError, OffsetOutOfRangeError
from streamkit.log.topic.topic import declare_topic
from streamkit.spark.dataframe.options import (
    read_options,
    stream_options,
    stream_write_options,
    write_options,
)

TOPIC = declare_topic("orders", "user string", partitions=3)
BOUNDS = {0: (5, 20), 1: (0, 0), 2: (0, 7)}


def test_names_ignore_case():
    """Spark gives names in lower case."""
    found = read_options({"topic": "orders", "includeheaders": "true", "startingtimestamp": "12", "columns": "a, b"})
    assert (found.has_headers, found.start_ms, found.columns) == (True, 12, ("a", "b"))
    assert stream_options({"topic": "orders", "maxrecordspertrigger": "5", "checkpointlocation": "x"}).records_max == 5


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("earliest", {0: 5, 1: 0, 2: 0}),
        ("Latest", {0: 20, 1: 0, 2: 7}),
        ('{"0": 9, "2": -1}', {0: 9, 1: 0, 2: 7}),
        ('{"orders": {"0": -2, "2": 3}}', {0: 5, 1: 0, 2: 3}),
    ],
)
def test_starting_offsets(text, offsets):
    """Words, or JSON by partition, as in Kafka with the topic around it; partitions that are not named begin at the earliest."""
    assert stream_options({"topic": "orders", "startingoffsets": text}).start.offsets(TOPIC, BOUNDS) == offsets


def test_offsets_that_there_are_not():
    """An offset that retention has deleted is an error, and a partition that the topic does not have."""
    with pytest.raises(OffsetOutOfRangeError, match="offset 4 was deleted"):
        read_options({"topic": "orders", "startingoffsets": '{"0": 4}'}).start.offsets(TOPIC, BOUNDS)
    with pytest.raises(ConfigError, match="no partition 3"):
        read_options({"topic": "orders", "startingoffsets": '{"3": 4}'}).start.offsets(TOPIC, BOUNDS)


@pytest.mark.parametrize("text", ["2026-03-01T01:00:00+01:00", "2026-03-01T00:00:00Z", "1772323200000"])
def test_moments(text):
    """Milliseconds, or a time with its zone."""
    assert read_options({"topic": "orders", "endingtimestamp": text}).end_ms == 1_772_323_200_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no topic is named"),
        ({"topic": "orders", "startingoffset": "earliest"}, "did you mean startingOffsets"),
        ({"topic": "orders", "maxrecordspertrigger": "5"}, "unknown; a batch that reads"),
        ({"topic": "orders", "startingoffsets": "latest"}, "finds no records"),
        ({"topic": "orders", "endingoffsets": "earliest"}, "finds no records"),
        ({"topic": "orders", "startingoffsets": "yesterday"}, "expected earliest, latest, or JSON"),
        ({"topic": "orders", "startingoffsets": '{"0": "a"}'}, "for partition 0"),
        ({"topic": "orders", "startingtimestamp": "2026-03-01T00:00:00"}, "no zone"),
        ({"topic": "orders", "startingtimestamp": "soon"}, "expected milliseconds"),
        ({"topic": "orders", "includeheaders": "yes"}, "expected true or false"),
        ({"topic": "orders", "columns": "a,,b"}, "expected names"),
    ],
)
def test_refused_when_reading(options, message):
    """What is wrong is named, with what was expected."""
    with pytest.raises(ConfigError, match=message):
        read_options(options)


def test_refused_when_streaming():
    """A stream has no end, and reads at least one record at a time."""
    with pytest.raises(ConfigError, match="unknown; a stream"):
        stream_options({"topic": "orders", "endingoffsets": "latest"})
    with pytest.raises(ConfigError, match="at least 1"):
        stream_options({"topic": "orders", "maxrecordspertrigger": "0"})


def test_refused_when_writing():
    """A topic is appended to; a sequence needs the producer that counts, and so does a stream."""
    with pytest.raises(ConfigError, match="overwrite"):
        write_options({"topic": "orders"}, overwrite=True)
    with pytest.raises(ConfigError, match="complete"):
        stream_write_options({"topic": "orders", "id": "a"}, overwrite=True)
    with pytest.raises(ConfigError, match="sequence needs id"):
        write_options({"topic": "orders", "sequence": "3"}, overwrite=False)
    with pytest.raises(ConfigError, match="needs"):
        stream_write_options({"topic": "orders"}, overwrite=False)
