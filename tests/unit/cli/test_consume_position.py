"""`streamkit consume` from a position on, and what a condition spares it."""

from __future__ import annotations

import json
import shutil

import pytest

import streamkit as sk
from streamkit.errors import ConfigError, CorruptionError, OffsetOutOfRangeError
from tests.kit.sampling import first as taken
from tests.unit.cli.test_consume_live import Following, numbers, send

pytestmark = pytest.mark.usefixtures("slabs_in_files")


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A log with records in three partitions, event times a minute apart, every record in a frame and a file of its own."""
    root = tmp_path_factory.mktemp("template") / "log"
    with sk.open_log(root) as log:
        log.create_topic("spread", "number int", key="number", partitions=3)
        with log.producer() as producer:
            for number in range(40):
                producer.send("spread", {"number": number}, timestamp_ms=60_000 * number)
                producer.flush()
    return root


@pytest.fixture
def spread(root, template):
    """The topic of the template, in a log of its own."""
    shutil.rmtree(root)
    shutil.copytree(template, root)
    return "spread"


def places(root, topic="spread"):
    with sk.open_log(root) as log:
        rows = log.read(topic).to_pylist()
    return {row["number"]: (row["_partition"], row["_offset"]) for row in rows}


def ruin(root, topic, is_ruined):
    """Damage the files of the frames for which this holds; reading one of them is an error from then on."""
    with sk.open_log(root) as log:
        found = log.topic(topic)
        extents = [
            extent for partition in range(found.partitions) for extent in log.catalog.manifest.extents(found.id, partition)
        ]
    paths = {extent.path for extent in extents if is_ruined(extent)}
    kept = {extent.path for extent in extents if not is_ruined(extent)}
    assert paths and kept and not paths & kept
    for path in paths:
        (root / path).write_bytes(b"\0" * (root / path).stat().st_size)


@pytest.mark.parametrize(
    ("where", "is_outside", "expected"),
    [
        ("_offset >= 5", lambda frame: frame.next_offset <= 5, lambda number, partition, offset: offset >= 5),
        ("number >= 0 and 2 > _offset", lambda frame: frame.base_offset >= 2, lambda number, partition, offset: offset < 2),
        ("_offset between 3 and 4", lambda frame: frame.base_offset not in (3, 4), lambda number, partition, offset: offset in (3, 4)),
        (
            "_timestamp > '1970-01-01T00:10:00Z' and _timestamp <= '1970-01-01T00:20:00Z'",
            lambda frame: not 600_000 < frame.min_timestamp <= 1_200_000,
            lambda number, partition, offset: 10 < number <= 20,
        ),
        (
            "_partition = 1 and _offset > 0",
            lambda frame: frame.partition != 1 or frame.base_offset == 0,
            lambda number, partition, offset: partition == 1 and offset > 0,
        ),
    ],
    ids=range(5),
)  # fmt: skip
def test_frames_outside_a_condition_are_not_read(streamkit, root, spread, where, is_outside, expected):
    """Bounds on offset, partition or time spare reading: damage outside of them goes unnoticed, without them it does not."""
    wanted = sorted(number for number, (partition, offset) in places(root).items() if expected(number, partition, offset))
    ruin(root, spread, is_outside)

    assert wanted
    assert sorted(numbers(streamkit("consume", spread, "--where", where, "--json"))) == wanted
    with pytest.raises(CorruptionError):
        streamkit("consume", spread, "--where", f"{where} or number = 0", "--json")


def test_a_condition_below_what_retention_left_is_no_error(streamkit, root, spread):
    """A condition asks for what there is: offsets that were deleted simply are not."""
    with sk.open_log(root) as log:
        log.delete_records(spread, {0: 2, 1: 2, 2: 2})

    left = sorted(number for number, (_, offset) in places(root).items() if offset < 4)
    assert sorted(numbers(streamkit("consume", spread, "--where", "_offset >= 0 and _offset < 4", "--json"))) == left


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--partition", "1"), lambda partition, offset, number: partition == 1),
        (("--partition", "1", "--partition", "2"), lambda partition, offset, number: partition > 0),
        (("--partition", "1", "--offset", "3"), lambda partition, offset, number: partition == 1 and offset >= 3),
        (("--offset", "earliest"), lambda partition, offset, number: True),
        (("--partition", "0", "--offset", "3", "--where", "_offset < 5"), lambda partition, offset, number: partition == 0 and 3 <= offset < 5),
        (("--since", "1970-01-01T00:20:00Z"), lambda partition, offset, number: number >= 20),
        (("--since", "1970-01-01T01:20:00+01:00", "--partition", "2"), lambda partition, offset, number: number >= 20 and partition == 2),
        (("--since", "2999-01-01"), lambda partition, offset, number: False),
        (("--partition", "2", "--where", "_partition = 1"), lambda partition, offset, number: False),
    ],
    ids=range(9),
)  # fmt: skip
def test_reading_from_a_position_on(streamkit, root, spread, arguments, expected):
    """Partitions, an offset and a time say where to begin, as for Kafka's console consumer; a condition narrows further."""
    wanted = sorted(number for number, place in places(root).items() if expected(*place, number))

    assert sorted(numbers(streamkit("consume", spread, "--json", *arguments))) == wanted


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("--offset", "3"), ConfigError, r"offsets count within a partition, and topic spread has 3; name the partition too"),
        (("--offset", "99", "--partition", "0"), OffsetOutOfRangeError, r"partition 0: offset 99 is not there; the earliest is 0, the next one to come"),
        (("--offset", "yesterday"), ConfigError, r"found the offset 'yesterday'; expected a whole number from 0, earliest or latest"),
        (("--since", "yesterday"), ConfigError, r"found the time 'yesterday'"),
        (("--partition", "7"), ConfigError, r"topic spread has no partition 7; it has 0 to 2"),
        (("--partition", "7", "--follow"), ConfigError, r"topic spread has no partition 7; it has 0 to 2"),
        (("--partition", "7", "--where", "_partition = 1"), ConfigError, r"topic spread has no partition 7; it has 0 to 2"),
    ],
    ids=range(7),
)  # fmt: skip
def test_a_position_that_is_not_there_is_refused(streamkit, spread, arguments, error, message):
    """What cannot be begun at is named, with what there is."""
    with pytest.raises(error, match=message):
        streamkit("consume", spread, *arguments)


def test_an_offset_that_was_deleted_is_refused(streamkit, root, spread):
    """There is no silent jump over what retention took."""
    with sk.open_log(root) as log:
        log.delete_records(spread, {0: 2})
    with pytest.raises(OffsetOutOfRangeError, match=r"partition 0: offset 1 is not there; the earliest is 2"):
        streamkit("consume", spread, "--partition", "0", "--offset", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--offset", "1", "--since", "2020-01-01"), "expected one of them"),
        (("--offset", "latest"), "add --follow"),
        (("--group", "g", "--offset", "1"), "streamkit groups reset"),
        (("--group", "g", "--partition", "0"), "streamkit groups reset"),
        (("--json", "--format", "csv"), "expected one of the two"),
    ],
)
def test_options_that_contradict_each_other(as_program, arguments, message):
    """Options that cannot be meant together are a usage error, and nothing is read."""
    code, out, err = as_program("consume", "orders", *arguments)

    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())


POSITIONS = [  # and what is there from them on; the last is what --from-beginning is too
    (("--offset", "1", "--partition", "0"), [1002, 1003]),
    (("--since", "2023-11-14T22:15:20Z"), [1003]),
    (("--offset", "earliest"), [1001, 1002, 1003]),
]


@pytest.mark.parametrize(("arguments", "first"), taken(2, POSITIONS))
def test_following_from_a_position_on(root, arguments, first):
    """With --follow, what is there from the position on is printed, then what comes."""
    following = Following(root, "--json", *arguments)
    assert [json.loads(following.line())["number"] for _ in first] == first
    send(root, 2001)
    assert json.loads(following.line())["number"] == 2001
    assert following.end() == ("", "")


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("_offset > 99999999999999999999", 0),
        ("_offset >= 9223372036854775808", 0),
        ("_offset = 9223372036854775807", 0),
        ("_offset > -99999999999999999999", 40),
        ("_offset < 99999999999999999999", 40),
        ("_offset < -99999999999999999999", 0),
        ("_partition > 99999999999999999999", 0),
        ("_partition <= 1e400", 40),
        ("_timestamp > '9999-12-31T23:59:59.999999Z'", 0),
        ("_timestamp < '9999-12-31T23:59:59-14:00'", 40),
        ("_timestamp >= '0001-01-01'", 40),
    ],
)
@pytest.mark.parametrize("options", [(), ("--offset", "earliest"), ("--since", "1970-01-01")])
def test_bounds_that_no_record_reaches(streamkit, spread, where, count, options):
    """A condition on place or time may name any number: records beyond it are none, or all."""
    assert len(streamkit("consume", spread, "--json", "--where", where, *options).splitlines()) == count
