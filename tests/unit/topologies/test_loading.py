"""Loading the demo's data into a log."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import SchemaError, TopicExistsError
from tests.kit.sampling import first
from topologies import flight_data
from topologies.flight_data import FLIGHTS, TOPICS

READ = flight_data.read
ROWS = {"airlines": 16, "planes": 3_322, "flights": 336_776}


@pytest.fixture(scope="module", autouse=True)
def _read_once():
    """Each file is read once for all tests: that takes longer than loading it."""
    known = {}

    def read(topic, *, raw_order=False):
        if (topic.name, raw_order) not in known:
            known[topic.name, raw_order] = READ(topic, raw_order=raw_order)
        return known[topic.name, raw_order]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flight_data, "read", read)
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A log with the data, loaded in one go."""
    root = tmp_path_factory.mktemp("flights") / "log"
    with sk.open_log(root) as log:
        assert flight_data.load(log, progress=False) == ROWS
    return root


@pytest.fixture
def log(root):
    with sk.open_log(root) as log:
        yield log


def test_every_row_is_in_its_topic(log):
    """The topics hold each row of the files once, under the schema and key declared."""
    assert {name: log.describe(name)["rows"] for name in log.topics()} == ROWS
    assert {name: tuple(log.describe(name)["key"]) for name in log.topics()} == {topic.name: topic.key for topic in TOPICS}
    assert log.describe("flights")["schema"] == str(FLIGHTS.schema)


def test_event_times(log):
    """A flight's event time is its hour of departure; planes and airlines carry the first instant of 2013."""
    flights = log.read("flights", columns=["time_hour"])

    assert flights["_timestamp"].cast("int64").equals(flights["time_hour"].cast(pa.timestamp("ms", "UTC")).cast("int64"))
    for topic in ("planes", "airlines"):
        assert log.read(topic)["_timestamp"].unique().to_pylist() == [dt.datetime(2013, 1, 1, tzinfo=dt.timezone.utc)]


def test_one_partition_keeps_the_order_of_the_file(tmp_path):
    """In one partition the flights stand in the order they were read in, also if that is the raw one."""
    for raw_order in first(1, (True, False)):
        with sk.open_log(tmp_path / str(raw_order)) as log:
            flight_data.load(log, partitions=1, raw_order=raw_order, progress=False)

            found = log.read("flights").select(FLIGHTS.schema.names)
            assert found.equals(flight_data.read(FLIGHTS, raw_order=raw_order).cast(found.schema))


def test_loading_twice_changes_nothing(log):
    """A second load appends nothing."""
    before = {topic: log.end_offsets(topic) for topic in log.topics()}

    assert flight_data.load(log, progress=False) == ROWS
    assert {topic: log.end_offsets(topic) for topic in log.topics()} == before


def test_interrupted_load_is_completed(tmp_path, log):
    """A load that broke off between two commits goes on where it was: in the end every record is there once, in its place."""
    with sk.open_log(tmp_path / "log") as broken:
        config = {"retention.ms": -1}
        broken.create_topic(FLIGHTS.name, FLIGHTS.schema, FLIGHTS.key, FLIGHTS.timestamp, partitions=4, config=config)
        rows = flight_data.read(FLIGHTS)
        with broken.producer(id="load-flights") as producer:
            for sequence, start in enumerate(range(0, 5 * flight_data.BATCH_ROWS, flight_data.BATCH_ROWS)):
                producer.send_batch("flights", rows.slice(start, flight_data.BATCH_ROWS), sequence=sequence)
        assert broken.describe("flights")["rows"] == 5 * flight_data.BATCH_ROWS
        flight_data.load(broken, progress=False)

        assert broken.read("flights").equals(log.read("flights"))


def test_other_number_of_partitions_is_refused(log):
    """A log that was loaded with four partitions is not loaded again with one."""
    with pytest.raises(TopicExistsError, match=r"asked for .* 1 partitions"):
        flight_data.load(log, partitions=1, progress=False)


def test_bad_file_leaves_nothing_behind(tmp_path, monkeypatch):
    """A file with a row that does not fit is refused whole; the other topics stay readable."""
    whole = flight_data._content

    def damaged(file):
        return whole(file).replace(b",1998,", b",MCMXCVIII,", 1) if file == "planes.csv" else whole(file)

    monkeypatch.setattr(flight_data, "_content", damaged)
    monkeypatch.setattr(flight_data, "read", READ)
    with sk.open_log(tmp_path / "log") as log:
        with pytest.raises(SchemaError, match=r"planes\.csv, line 3, column year: found 'MCMXCVIII'; expected int"):
            flight_data.load(log, progress=False)

        assert log.topics() == ["airlines"]
        assert log.read("airlines").num_rows == ROWS["airlines"]
