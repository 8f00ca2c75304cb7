"""Promises of samples of topics: how many rows, from where, and always the same."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.clock import HandClock
from streamkit.errors import ConfigError, SchemaError, TopicNotFoundError
from streamkit.log.consume.reader import Reader
from streamkit.query.sample import _chosen

COMMITS, ROWS = 20, 50


@pytest.fixture
def log():
    """A topic of twenty frames a partition; one partition has far more rows than the others."""
    with sk.open_log(":memory:", HandClock(1_700_000_000_000)) as opened:
        opened.settings = replace(opened.settings, inline_slab_bytes=0)
        opened.create_topic("orders", "id bigint, customer string", key="customer", partitions=3)
        with opened.producer() as producer:
            for commit in range(COMMITS):
                rows = [{"id": commit * ROWS + n, "customer": "often" if n % 2 else f"c{n}"} for n in range(ROWS)]
                producer.send_batch("orders", rows)
                producer.flush()
        yield opened


def test_a_sample_is_spread_over_partitions_and_time(log):
    """Each partition gives its share, each tenth of the time about a tenth of the rows, and the rows are those that lie there."""
    found, whole = log.topic("orders").sample(100).to_pandas(), log.read("orders").to_pandas()

    assert len(found) == len(found.drop_duplicates(["_partition", "_offset"])) == 100
    shares = found["_partition"].value_counts() / whole["_partition"].value_counts()
    assert shares.min() > 0.08 and shares.max() < 0.12
    tenths = (found["id"] // (COMMITS * ROWS // 10)).value_counts()
    assert len(tenths) == 10 and tenths.min() >= 6
    rows = whole.set_index(["_partition", "_offset"]).loc[list(zip(found["_partition"], found["_offset"]))]
    assert rows["id"].tolist() == found["id"].tolist()


def test_a_sample_is_the_same_until_something_is_written(log):
    """Two samples are equal; all rows come if there are no more than asked for, with the columns that were asked for."""
    topic = log.topic("orders")

    assert topic.sample(7).equals(topic.sample(7))
    assert topic.sample(COMMITS * ROWS).equals(log.read("orders"))
    assert topic.sample(5_000, ["id"]).equals(log.read("orders", ["id"]))
    log.create_topic("empty", "id bigint")
    assert log.topic("empty").sample().equals(log.read("empty"))


def test_frames_that_are_merged_meanwhile_give_the_same_rows(log):
    """Files that go between the look at the catalog and the read of the rows lose none of them."""
    before = log.topic("orders").sample(40)
    reader = Reader(log.storage, log.catalog, log.topic("orders"))
    log.merge("orders")
    log.clock.advance(log.settings.file_delete_delay_ms + 1)
    log.maintain()
    assert not all(log.storage.files.exists(extent.path) for extent in reader.extents)

    found = pa.Table.from_batches(_chosen(reader, 40)).drop_columns(["_deleted"])
    assert found.sort_by([("_partition", "ascending"), ("_offset", "ascending")]).equals(before)


def test_rows_behind_holes_are_found():
    """A compacted topic, most of whose offsets have no row, gives as many rows as were asked for."""
    with sk.open_log(":memory:") as log:
        log.create_topic("t", "k string, v bigint", key="k", partitions=1, config={"cleanup.policy": "compact"})
        with log.producer() as producer:
            producer.send_batch("t", [{"k": f"k{n % 30}", "v": n} for n in range(3_000)])
            producer.delete("t", {"k": "k7"})
        log.compact("t")
        found = log.topic("t").sample(10)
        assert found.num_rows == 10 and "_deleted" not in found.column_names
        assert log.topic("t").sample(30)["_deleted"].to_pylist() == [False] * 29 + [True]


def test_what_cannot_be_sampled_is_said(log):
    """A number out of range, a column or topic that is not there, and a topic that no log has given."""
    topic = log.topic("orders")
    for rows in (0, 10_001, 2.5, True):
        with pytest.raises(ConfigError, match=r"found a sample of .* rows; expected 1 to 10,000"):
            topic.sample(rows)
    with pytest.raises(SchemaError, match="no column 'city'"):
        topic.sample(columns=["city"])
    log.delete_topic("orders")
    with pytest.raises(TopicNotFoundError):
        topic.sample()


def test_a_topic_that_travels_knows_no_log(log):
    """A topic is equal wherever it is, and travels without the log, which belongs to its process."""
    topic = log.topic("orders")
    travelled = pickle.loads(pickle.dumps(topic))

    assert travelled == topic and hash(travelled) == hash(topic) and travelled.log is None
    with pytest.raises(ConfigError, match=r"belongs to no log, .*; expected log.topic\('orders'\)"):
        travelled.profile()
