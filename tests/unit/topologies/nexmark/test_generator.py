"""The events of Nexmark: the same for everybody, in the proportions and with the disorder that the public generator has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import streamkit as sk
from topologies.nexmark.generator import generate, load


@pytest.fixture(scope="module")
def events():
    return generate(20_000, seed=3)


def test_a_seed_says_all(events):
    """The same seed gives the same events, another one gives others."""
    assert generate(20_000, seed=3) == events
    assert generate(20_000, seed=4).bid["price"] != events.bid["price"]


def test_of_fifty_events_one_is_a_person_and_three_are_auctions(events):
    """The proportions are exact, ids follow each other, and every auction has a seller and an end behind its begin."""
    assert [len(table) for table in (events.person, events.auction, events.bid)] == [400, 1_200, 18_400]
    assert sorted(events.person["id"].to_pylist()) == list(range(1_000, 1_400))
    assert sorted(events.auction["id"].to_pylist()) == list(range(1_000, 2_200))
    assert pc.all(pc.greater(events.auction["expires"], events.auction["dateTime"])).as_py()
    assert pc.min(events.auction["category"]).as_py() == 10
    assert pc.max(events.auction["category"]).as_py() == 14


def test_hot_ones_are_named_more_often(events):
    """Half of the bids are for one auction in a hundred, three quarters by one person in a hundred; so are sellers."""
    for column, ratio, rest in (
        (events.bid["auction"], 0.5, 0),
        (events.bid["bidder"], 0.75, 1),
        (events.auction["seller"], 0.75, 0),
    ):
        is_hot = np.mean(column.to_numpy() % 100 == rest)
        assert ratio - 0.02 < is_hot < ratio + 0.05


def test_prices_are_spread_over_orders_of_magnitude(events):
    """As many bids are below a thousand dollars as above, none below one or above a million."""
    price = events.bid["price"].to_numpy()
    assert 100 <= price.min() and price.max() <= 100_000_000
    assert 0.48 < np.mean(price < 100_000) < 0.52


def test_events_arrive_within_a_group_of_where_they_belong(events):
    """A thousand events in a row are shuffled: times fall back by less than those last; with groups of one they never do."""
    at = events.bid["dateTime"].cast(pa.int64()).to_numpy()
    behind = np.maximum.accumulate(at) - at
    ms = 1000 if events.bid.schema.field("dateTime").type.unit == "us" else 1
    assert 50 * ms < behind.max() < 100 * ms

    ordered = generate(2_000, out_of_order_group=1).bid["dateTime"].cast(pa.int64()).to_numpy()
    assert (np.diff(ordered) >= 0).all()


def test_loading_twice_adds_nothing(events):
    """What was loaded is not loaded again; event times are those of the events, or with `by_arrival` those of the clock."""
    with sk.open_log(":memory:") as log:
        load(log, events)
        load(log, events)
        assert log.describe("bid")["rows"] == 18_400
        rows = log.read("bid", ["dateTime"])
        assert rows["_timestamp"].cast(rows["dateTime"].type) == rows["dateTime"]
    with sk.open_log(":memory:") as log:
        load(log, events, by_arrival=True)
        assert pc.min(log.read("bid")["_timestamp"]).as_py() > pc.max(events.bid["dateTime"]).as_py()
