"""`streamkit topics`."""

from __future__ import annotations


def test_list_shows_sizes(streamkit):
    """Every topic is listed with its key, partitions and records."""
    lines = [line.split() for line in streamkit("topics", "list").splitlines()]

    assert ["orders", "number", "1", "3"] in [line[:4] for line in lines]
    assert ["customers", "name", "2", "2"] in [line[:4] for line in lines]


def test_describe_shows_schema_and_partitions(streamkit):
    """A description has the key, the settings given, every column with its type, every partition with its offsets."""
    output = streamkit("topics", "describe", "customers")
    lines = [line.split() for line in output.splitlines()]

    assert ["key", "name"] in lines
    assert ["settings", "cleanup.policy=compact"] in lines
    assert ["city", "string", "yes"] in lines
    assert sum(line[:1] in (["0"], ["1"]) and len(line) == 5 for line in lines) == 2
