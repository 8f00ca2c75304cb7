"""`streamkit compact`."""

from __future__ import annotations

import json
from random import Random

import pytest

import streamkit as sk
from streamkit.errors import ConfigError, TopicNotFoundError


@pytest.fixture
def fuller(root):
    """The log, with ten more records of two customers."""
    with sk.open_log(root) as log, log.producer() as producer:
        for number in range(10):
            city = Random(number).randbytes(400).hex()  # more than the header that a small commit writes for all partitions
            producer.send("customers", {"name": f"c{number % 2}", "city": city})


def test_it_shows_what_is_left(streamkit, fuller):
    """Each partition is listed with its records and bytes before and after, and the sum below."""
    output = streamkit("compact", "customers")
    lines = [line.split() for line in output.splitlines()]

    assert sum(line[:1] in (["0"], ["1"]) and len(line) == 7 for line in lines) == 2
    assert "3 of 12 records of customers are left" in output


def test_it_speaks_json(streamkit, fuller):
    """With --json the report is one object, whose sums add up; a second run finds nothing more."""
    report = json.loads(streamkit("compact", "customers", "--json"))

    assert (report["topic"], report["rows_before"], report["rows_after"]) == ("customers", 12, 3)
    assert report["bytes_after"] == sum(one["bytes_after"] for one in report["partitions"]) < report["bytes_before"]
    assert json.loads(streamkit("compact", "customers", "--json"))["rows_before"] == 3


def test_it_refuses_what_cannot_be_compacted(streamkit):
    """A topic in which every record counts, or that is not there, is an error."""
    with pytest.raises(ConfigError, match="so every record counts"):
        streamkit("compact", "orders")
    with pytest.raises(TopicNotFoundError):
        streamkit("compact", "nothing")
