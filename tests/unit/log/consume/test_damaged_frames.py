"""Promises of a consumer over damaged frames: what is sound is delivered, and the error says where it ends and how to go on."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import CorruptionError, SchemaError, StorageFailedError
from streamkit.log.consume import fetcher, reader
from streamkit.log.opening import open_log
from streamkit.log.slab.slab import SlabMissingError

pytestmark = pytest.mark.usefixtures("slabs_in_files")

POLLS = 12


@pytest.fixture
def log(tmp_path):
    """Three commits of a hundred rows over four partitions."""
    with open_log(str(tmp_path / "log"), HandClock(1000)) as found:
        found.create_topic("a", "n bigint", key="n", partitions=4)
        commit(found, "a", 3)
        yield found


def commit(log, topic, count):
    for number in range(count):
        with log.producer() as producer:
            producer.send_batch(topic, pa.table({"n": range(number * 100, number * 100 + 100)}))


def frames_of(log, partition, topic="a"):
    """The extents of a partition in the order of their offsets."""
    return log.catalog.manifest.extents(log.catalog.topics.get(topic).id, partition, 0, log.end_offsets(topic)[partition])


def flip(log, extent):
    """Change a byte in the payload of a frame."""
    file = Path(log.root) / extent.path
    data = bytearray(file.read_bytes())
    data[extent.position + 236] ^= 1
    file.chmod(0o644)
    file.write_bytes(data)


def rows_at(extent):
    return {(extent.partition, offset) for offset in range(extent.base_offset, extent.next_offset)}


def everything_but(log, *damaged):
    ends = log.end_offsets("a")
    rows = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    return sorted(rows.difference(*map(rows_at, damaged)))


def places_in(table):
    return [] if table is None else list(zip(table["_partition"].to_pylist(), table["_offset"].to_pylist()))


def polled(consumer, count=POLLS, on_error=lambda error: None):
    """What so many polls gave: the rows of each, or the error."""
    found = []
    for _ in range(count):
        try:
            found.append(places_in(consumer.poll(0)))
        except CorruptionError as error:
            found.append(error)
            on_error(error)
    return found


def rows_of(found):
    return [place for rows in found if isinstance(rows, list) for place in rows]


def errors_of(found):
    return [error for error in found if isinstance(error, CorruptionError)]


@pytest.mark.parametrize("partition", range(4))
@pytest.mark.parametrize("maximum", [1000, 7])
def test_what_is_sound_is_delivered(log, partition, maximum):
    """Rows of other partitions, and those before the damaged frame, come once and before the error; positions stand before it."""
    _, damaged, last = frames_of(log, partition)
    flip(log, damaged)
    with log.consumer("a", group="g", max_poll_records=maximum) as consumer:
        found = polled(consumer, 100)
        committed = consumer.commit()

    assert sorted(rows_of(found)) == everything_but(log, damaged, last)
    assert isinstance(found[0], list)
    assert committed[("a", partition)] == damaged.base_offset
    assert isinstance(found[-1], CorruptionError)


def test_the_error_says_where_and_what_to_do(log):
    """The first offset that cannot be read, where the next frame begins, and the calls that go on; also in another process."""
    _, damaged, _ = frames_of(log, 2)
    flip(log, damaged)
    with log.consumer("a") as consumer:
        error = errors_of(polled(consumer))[0]

    assert (error.topic, error.partition) == ("a", 2)
    assert (error.offset, error.next_offset) == (damaged.base_offset, damaged.next_offset)
    assert f"the frame of topic a, partition 2, offset {damaged.base_offset}, in {damaged.path}" in str(error)
    assert f"seek('a', 2, {damaged.next_offset})" in str(error)
    assert "pause([('a', 2)])" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (CorruptionError, str(error), vars(error))


@pytest.mark.parametrize("choice", ["seek", "pause"])
def test_a_program_reads_on(log, choice):
    """After `seek` behind the frame all other rows come, after `pause` those of all other partitions, and no error any more."""
    _, damaged, last = frames_of(log, 0)
    flip(log, damaged)
    with log.consumer("a", max_poll_records=30) as consumer:

        def go_on(error):
            if choice == "seek":
                consumer.seek(error.topic, error.partition, error.next_offset)
            else:
                consumer.pause([(error.topic, error.partition)])

        found = polled(consumer, 30, go_on)

    lost = [damaged] if choice == "seek" else [damaged, last]
    assert sorted(rows_of(found)) == everything_but(log, *lost)
    assert len(errors_of(found)) == 1


@pytest.mark.parametrize("maximum", [10, 1000])
def test_the_error_alternates_with_what_comes(log, maximum):
    """While rows go on coming elsewhere, neither are they kept back by the error nor is the error by them."""
    for partition in (1, 2):
        flip(log, frames_of(log, partition)[0])
    kinds = []
    with log.consumer("a", max_poll_records=maximum) as consumer:
        for _ in range(30):
            commit(log, "a", 1)
            kinds += [type(found).__name__ for found in polled(consumer, 1)]

    errors_between_rows = "".join("e" if kind == "CorruptionError" else " " for kind in kinds).split()
    assert max(map(len, errors_between_rows)) <= 2, kinds
    assert len(errors_between_rows) >= 3, kinds


def test_another_topic_is_not_held_up(log):
    """A consumer of several topics gets the rows of the others, whatever is damaged in one."""
    log.create_topic("b", "n bigint", key="n", partitions=4)
    commit(log, "b", 1)
    for partition in range(4):
        flip(log, frames_of(log, partition)[0])
    with log.consumer(["a", "b"]) as consumer:
        found = polled(consumer)

    assert len(rows_of(found)) == 100
    assert {error.partition for error in errors_of(found)} == {0, 1, 2, 3}


def test_a_slab_that_is_lost_is_passed_over_too(log):
    """The same of a file that is gone: each partition's error says where the rows after it begin."""
    lost = [frames_of(log, partition)[1] for partition in range(4)]
    (Path(log.root) / lost[0].path).unlink()
    with log.consumer("a") as consumer:
        found = polled(consumer, 20, lambda error: consumer.seek(error.topic, error.partition, error.next_offset))

    assert sorted(rows_of(found)) == everything_but(log, *lost)
    assert sorted((error.partition, error.offset, error.next_offset) for error in errors_of(found)) == [
        (extent.partition, extent.base_offset, extent.next_offset) for extent in lost
    ]
    assert {type(error) for error in errors_of(found)} == {SlabMissingError}


@pytest.mark.parametrize("error", [StorageFailedError("no more open files"), SchemaError("a newer version")])
def test_whatever_keeps_a_frame_from_being_read_stops_its_partition_alone(log, monkeypatch, error):
    """Not only damage: a refusal of the system or rows of a newer schema come as they are, once what is before them was given."""
    refused = frames_of(log, 2)[1]
    read = reader.read_placed

    def refusing(storage, topic, columns, extent, *bounds):
        if extent == refused:
            raise error
        return read(storage, topic, columns, extent, *bounds)

    monkeypatch.setattr(fetcher, "read_placed", refusing)
    with log.consumer("a") as consumer:
        first = places_in(consumer.poll(0))
        with pytest.raises(type(error)) as raised:
            consumer.poll(0)

    assert sorted(first) == everything_but(log, *frames_of(log, 2)[1:])
    assert raised.value is error


def test_a_file_that_is_restored_is_read_on(log):
    """Nothing has to be opened again: once the file is whole again, the next turn of its partition gives its rows."""
    _, damaged, _ = frames_of(log, 3)
    flip(log, damaged)
    with log.consumer("a") as consumer:
        before = polled(consumer, 3)
        flip(log, damaged)
        after = polled(consumer, 3)

    assert errors_of(before)
    assert not errors_of(after)
    assert sorted(rows_of(before) + rows_of(after)) == everything_but(log)


def test_a_reader_of_other_partitions_does_not_notice(log):
    """`read` of sound partitions gives all of them; of the damaged one it raises with the frame's place."""
    _, damaged, _ = frames_of(log, 1)
    flip(log, damaged)

    assert sorted(places_in(log.read("a", partitions=[0, 2, 3]))) == [place for place in everything_but(log) if place[0] != 1]
    with pytest.raises(CorruptionError) as raised:
        log.read("a")
    error = raised.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == (
        "a", 1, damaged.base_offset, damaged.next_offset,
    )  # fmt: skip
