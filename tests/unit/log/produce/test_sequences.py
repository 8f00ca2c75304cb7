"""Promises about sequence numbers that come late."""

from __future__ import annotations

import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError
from streamkit.log.catalog import producers
from streamkit.log.opening import open_log

WEEK_MS = 7 * 86_400_000


@pytest.fixture
def log(place):
    """A log with a topic, on every kind of catalog."""
    with open_log(place.location, HandClock(1000)) as found:
        found.create_topic("plain", "n bigint", partitions=3)
        yield found


def test_a_sequence_that_was_left_out_is_no_duplicate(log, monkeypatch):
    """Rows whose number was never committed are not taken for written: they are refused, by every instance, as long as that can be told."""

    def send(producer, sequence):
        return producer.send_batch("plain", [{"n": sequence}], sequence=sequence)

    monkeypatch.setattr(producers, "HISTORY_SEQUENCES", 3)
    with log.producer("loader") as producer:
        for sequence in (1, 3):
            send(producer, sequence)
        producer.flush()
        for left_out in (0, 2):
            with pytest.raises(
                ConfigError, match=f"sequence {left_out} of topic plain was left out, and 3 is committed; expected"
            ):
                send(producer, left_out)
        for sequence in (5, 7):
            send(producer, sequence)
    with log.producer("loader") as producer:
        with pytest.raises(ConfigError, match="sequence 6 of topic plain was left out, and 7 is committed"):
            send(producer, 6)
        assert all(send(producer, sequence).is_duplicate for sequence in (1, 2, 3, 5, 7))

    assert sorted(log.read("plain")["n"].to_pylist()) == [1, 3, 5, 7]


@pytest.mark.every_catalog
@pytest.mark.parametrize("deletion", ["retention", "records"])
def test_sequences_outlive_their_rows(log, deletion):
    """A batch whose rows were deleted since is still known: sent again, it gets its first offsets and is not written twice."""

    def send(sequence):
        return producer.send_batch("plain", [{"n": sequence}], sequence=sequence)

    with log.producer("loader") as producer:
        first = [send(sequence) for sequence in range(5)]
    if deletion == "retention":
        log.alter_topic("plain", config={"retention.ms": 1})
    else:
        log.delete_records("plain", -1)
    for _ in range(2):
        log.clock.advance(WEEK_MS)
        log.maintain()
    assert log.read("plain").num_rows == 0

    with log.producer("loader") as producer:
        again = [send(sequence) for sequence in range(6)]
    assert [receipt.is_duplicate for receipt in again] == [True] * 5 + [False]
    assert [receipt.offsets for receipt in again[:5]] == [receipt.offsets for receipt in first]
    assert log.read("plain")["n"].to_pylist() == [5]
