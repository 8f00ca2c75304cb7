"""Promises of the log's surface: opening, topics, reading."""

from __future__ import annotations

import datetime as dt
import gc
import os
import pickle
import stat

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, CorruptionError, SchemaError, StreamKitError, TopicExistsError, TopicNotFoundError
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from streamkit.names import HEADERS

pytestmark = pytest.mark.usefixtures("slabs_in_files")

UTC = dt.timezone.utc


@pytest.fixture
def log(place):
    """A log with a topic in several frames, on every kind of catalog."""
    found = open_log(place.location, HandClock(1000))
    found.create_topic("t", "user string, n bigint", key="user", partitions=2)
    producer = Producer(found.storage, found.catalog, found.clock, frame_rows=4)
    for start in range(0, 30, 10):
        producer.send_batch("t", pa.table({"user": [f"u{n}" for n in range(start, start + 10)], "n": range(start, start + 10)}))
        producer.flush()
    yield found
    found.close()


def test_a_log_is_a_private_directory(tmp_path, monkeypatch):
    """Opening makes the directory for its owner alone, and an absolute path of it."""
    monkeypatch.chdir(tmp_path)
    with open_log("some/log") as log:
        assert log.root == str(tmp_path / "some/log")
        assert stat.S_IMODE(os.stat(log.root).st_mode) == 0o700
        assert repr(log) == f"Log({log.root!r})"


@pytest.mark.parametrize(("variable", "expected"), [("elsewhere", "elsewhere"), (None, ".streamkit")])
def test_the_place_has_defaults(tmp_path, monkeypatch, variable, expected):
    """Without an argument the environment decides, else it is .streamkit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMKIT_LOG", raising=False)
    if variable:
        monkeypatch.setenv("STREAMKIT_LOG", variable)
    with open_log() as log:
        assert log.root == str(tmp_path / expected)


@pytest.mark.parametrize("place", ["mysql://host/db", "s3://bucket/log"])
def test_other_places_are_refused(place, tmp_path, monkeypatch):
    """What is not supported yet says so, and no folder of that name appears."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="not supported yet"):
        open_log(place)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("place", ["", "file://", "\0", "a\0b", "\ud800", b"log", 3, ["log"]], ids=ascii)
def test_what_is_no_path_is_no_place(place, tmp_path, monkeypatch):
    """A log is at a path: the folder one happens to be in is not meant by an empty one, and nothing appears there."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"it is not a path; expected one such as|as the place of a log; expected a directory"):
        open_log(place)
    assert os.listdir(tmp_path) == []


def test_a_file_is_no_log(tmp_path):
    """A path that is a file, or goes through one, is named, and a folder expected."""
    (tmp_path / "file").write_text("x")
    for place in ("file", "file/log"):
        with pytest.raises(ConfigError, match=f"{place} cannot be used: {tmp_path}/file is a file; expected a folder"):
            open_log(tmp_path / place)


def test_a_link_to_nothing_is_no_log(tmp_path):
    """A path that is a link to a disk which is not mounted, or goes through one, is named, with what it leads to."""
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    for place in ("link", "link/log"):
        with pytest.raises(
            ConfigError, match=f"{place} cannot be used: {tmp_path}/link is a link to {tmp_path}/disk, which does not exist"
        ):
            open_log(tmp_path / place)


def test_a_log_stays_where_it_was_opened(tmp_path):
    """A log does not travel to tasks, its storage does; after closing, use is an error."""
    with open_log(tmp_path) as log:
        with pytest.raises(TypeError, match="cannot be sent to another process"):
            pickle.dumps(log)
        log.storage.create("slabs/a", [b"x"])
        assert pickle.loads(pickle.dumps(log.storage.files)).map("slabs/a").to_pybytes() == b"x"
    with pytest.raises(StreamKitError, match="open the log again"):
        log.topics()


def test_data_outlive_the_process_that_wrote_them(tmp_path):
    """A log that is closed and opened again has all that was flushed."""
    with open_log(tmp_path) as log:
        log.create_topic("t", "n bigint")
        with log.producer() as producer:
            producer.send("t", {"n": 7})
    with open_log(tmp_path) as log:
        assert log.read("t")["n"].to_pylist() == [7]


def test_topics_are_listed_and_found(log):
    """Names come sorted, without those of applications unless asked for; unknown names are answered with the known ones."""
    log.create_topic("a", "n int")

    assert log.topics() == ["a", "t"]
    assert log.topic("a").schema.names == ("n",)
    with pytest.raises(TopicNotFoundError, match="topic 'b' does not exist; there are a, t"):
        log.read("b")


def test_creating_twice_is_no_error_but_otherwise_is(log):
    """The same declaration finds the topic that is there; another one is refused with both."""
    assert log.create_topic("t", "user string, n bigint", key="user", partitions=2) == log.topic("t")
    with pytest.raises(TopicExistsError, match=r"found schema .user string, n bigint.*; asked for schema .user string."):
        log.create_topic("t", "user string", key="user", partitions=2)


def test_a_description_adds_up(log):
    """A description has what was declared, every setting, and offsets, rows and bytes by partition and in all."""
    found = log.describe("t")

    assert (found["name"], found["schema"], found["key"], found["rows"]) == ("t", "user string, n bigint", ["user"], 30)
    assert found["config"]["cleanup.policy"] == "delete"
    ends = log.end_offsets("t")
    assert [(p["partition"], p["start_offset"], p["end_offset"], p["rows"]) for p in found["partitions"]] == [
        (0, 0, ends[0], ends[0]),
        (1, 0, ends[1], ends[1]),
    ]
    assert found["bytes"] == sum(p["bytes"] for p in found["partitions"]) > 0


def test_a_deleted_topic_is_gone_with_its_files(log):
    """Deleting removes rows and files; a topic of the same name begins at zero."""
    log.delete_topic("t")

    assert log.storage.list("slabs") == ()
    log.create_topic("t", "user string, n bigint", key="user", partitions=2)
    assert (log.read("t").num_rows, log.end_offsets("t")) == (0, {0: 0, 1: 0})


@pytest.mark.every_catalog
def test_rows_are_read_in_order(log):
    """All rows, by partition and offset, with their place beside the columns."""
    table = log.read("t")

    assert table.schema.names == ["user", "n", "_timestamp", "_partition", "_offset"]
    assert table.schema.types[2:] == [pa.timestamp("ms", tz="UTC"), pa.int32(), pa.int64()]
    places = list(zip(table["_partition"].to_pylist(), table["_offset"].to_pylist()))
    assert places == [(p, offset) for p, end in log.end_offsets("t").items() for offset in range(end)]
    assert sorted(table["n"].to_pylist()) == list(range(30))


def test_ranges_are_cut_at_the_row(log):
    """Any range of offsets gives exactly its rows, whatever the frames are."""
    every = log.read("t", partitions=[1])
    for start in range(every.num_rows + 2):
        for end in (None, 0, start, start + 3, every.num_rows):
            found = log.read("t", partitions=[1], start=start, end=end)
            assert found.equals(every.slice(start, max(0, (every.num_rows if end is None else end) - start))), (start, end)


def test_bounds_are_by_partition_too(log):
    """Bounds may differ by partition; one that is left out is not bound."""
    ends = log.end_offsets("t")
    table = log.read("t", ["n"], start={0: ends[0] - 1}, end={1: 2})

    assert table["_partition"].to_pylist() == [0, 1, 1]
    assert table["_offset"].to_pylist() == [ends[0] - 1, 0, 1]


def test_columns_are_chosen(log):
    """Only what is asked for is read, in the order asked, and what identifies the rows."""
    assert log.read("t", ["n", "user"]).schema.names == ["n", "user", "_timestamp", "_partition", "_offset"]
    assert log.read("t", []).schema.names == ["_timestamp", "_partition", "_offset"]
    assert log.read("t", ["_offset", "_deleted", HEADERS]).schema.names == [
        HEADERS,
        "_timestamp",
        "_partition",
        "_offset",
        "_deleted",
    ]


def test_scans_give_the_same_rows(log):
    """A scan is the read in pieces, one frame each, and of one schema."""
    batches = list(log.scan("t"))

    assert all(batch.num_rows <= 4 for batch in batches)
    assert pa.Table.from_batches(batches).drop_columns(["_deleted"]).equals(log.read("t"))


def test_an_empty_topic_reads_as_no_rows(log):
    """No rows have a schema too."""
    log.create_topic("empty", "d decimal(10,2), s string")

    assert log.read("empty").schema.types[:2] == [pa.decimal128(10, 2), pa.string()]
    assert list(log.scan("empty")) == []


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"columns": ["x"]}, SchemaError, "no column 'x'; it has user string, n bigint"),
        ({"partitions": [2]}, ConfigError, "no partition 2; it has 0 to 1"),
        ({"start": -1}, ConfigError, "start=-1"),
        ({"end": {5: 1}}, ConfigError, "no partition 5; it has 0 to 1"),
        ({"start": {0: "1"}}, ConfigError, "partition 0: start='1'; expected a whole number from 0"),
    ],
)
def test_what_cannot_be_read_is_refused(log, arguments, error, reason):
    """Unknown columns, partitions and offsets say what there is."""
    with pytest.raises(error, match=reason):
        log.read("t", **arguments)


def test_a_scan_is_one_snapshot(log):
    """Rows that are written while a scan runs are not in it."""
    scan = log.scan("t")
    with log.producer() as producer:
        producer.send("t", {"user": "late", "n": 99})

    assert 99 not in [n for batch in scan for n in batch.column("n").to_pylist()]
    assert 99 in log.read("t")["n"].to_pylist()


def test_a_scan_of_a_topic_that_was_deleted_names_it(log):
    """Rows that went with their topic before a scan came to them are an error that says which topic it was."""
    scan = log.scan("t")
    log.delete_topic("t")

    log.maintain()
    with pytest.raises(TopicNotFoundError, match="topic 't' does not exist any more; it was deleted"):
        list(scan)


def test_damage_is_confined(tmp_path):
    """A damaged frame is refused by its full address; other partitions stay readable."""
    with open_log(tmp_path) as log:
        log.create_topic("t", "user string, n bigint", key="user", partitions=2)
        with log.producer() as producer:
            producer.send_batch("t", pa.table({"user": [f"u{n}" for n in range(20)], "n": range(20)}))
        sound, damaged = (log.catalog.manifest.extents(log.topic("t").id, partition)[0] for partition in (0, 1))
        with open(tmp_path / damaged.path, "r+b") as file:
            file.seek(damaged.position + 300)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 4]))

        with pytest.raises(
            CorruptionError, match=rf"topic t, partition 1, offset 0, in {damaged.path} at position {damaged.position}"
        ):
            log.read("t")
        assert log.read("t", partitions=[0]).num_rows == sound.rows


def test_compression_is_invisible(tmp_path):
    """Topics of each compression read the same, in less room."""
    sizes = {}
    with open_log(tmp_path) as log:
        for kind in ("none", "lz4", "zstd"):
            log.create_topic(kind, "s string", partitions=1, config={"compression.type": kind})
            with log.producer() as producer:
                producer.send_batch(kind, pa.table({"s": ["again and again"] * 5000}))
            assert log.read(kind)["s"].to_pylist() == ["again and again"] * 5000
            sizes[kind] = log.describe(kind)["bytes"]
    assert sizes["none"] > sizes["lz4"] > sizes["zstd"]


@pytest.fixture
def timed():
    """A topic of five frames with a hundred rows each, whose times overlap, and the times by value."""
    with open_log(":memory:") as log:
        log.create_topic("timed", "n bigint", partitions=2)
        times: dict[int, int] = {}
        with log.producer() as producer:
            for frame in range(5):
                rows = {n: frame * 1_000 + (n * 37) % 1_500 for n in range(frame * 100, frame * 100 + 100)}
                producer.send_batch(
                    "timed", [{"n": n, "_timestamp": dt.datetime.fromtimestamp(ms / 1000, UTC)} for n, ms in rows.items()]
                )
                producer.flush()
                times |= rows
        yield log, times


@pytest.mark.parametrize(
    ("start", "end"), [(None, None), (1_000, None), (None, 2_500), (1_700, 1_701), (9_000, None), (2_000, 4_000)]
)
def test_rows_are_chosen_by_time(timed, start, end):
    """A range of times gives just the rows in it, its end excluded, also together with offsets and without the column itself."""
    log, times = timed
    expected = {n for n, ms in times.items() if (start is None or ms >= start) and (end is None or ms < end)}
    assert set(log.read("timed", start_time=start, end_time=end)["n"].to_pylist()) == expected
    scanned = [n for batch in log.scan("timed", ["n"], start_time=start, end_time=end, start=10) for n in batch["n"].to_pylist()]
    offsets = dict(zip(*(log.read("timed")[name].to_pylist() for name in ("n", "_offset")), strict=True))
    assert set(scanned) == {n for n in expected if offsets[n] >= 10}


def test_a_moment_has_a_zone(timed):
    """Times are given in ms or as a datetime with a zone; without one they are refused."""
    log, times = timed
    moment = dt.datetime.fromtimestamp(1.7, UTC)
    assert log.read("timed", end_time=moment).num_rows == sum(ms < 1_700 for ms in times.values())
    with pytest.raises(ConfigError, match="has no zone"):
        log.read("timed", start_time=moment.replace(tzinfo=None))


def test_frames_outside_of_the_times_are_not_read(timed):
    """Files whose frames lie outside of the range may even be gone."""
    log, times = timed
    for extent in log.catalog.manifest.cut([log.topic("timed").id], {}).extents:
        if extent.max_timestamp < 4_000:
            log.storage.delete(extent.path)
    assert log.read("timed", start_time=4_000).num_rows == sum(ms >= 4_000 for ms in times.values())


def test_a_log_that_nobody_closes_keeps_no_file_open(tmp_path):
    """Its descriptors go with it, the one of its journal too."""
    for number in range(3):
        log = open_log(tmp_path / "log")
        if number == 0:
            log.create_topic("t", "v bigint", partitions=1)
        with log.producer() as producer:
            producer.send("t", {"v": number})
        del log, producer
        gc.collect()

    opened = [
        os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")
    ]
    assert [path for path in opened if path.startswith(str(tmp_path))] == []
