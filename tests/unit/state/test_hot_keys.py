"""The load of a store: which key groups, tasks and keys its newest changes are about."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import StoreNotFoundError
from streamkit.log.opening import open_log
from streamkit.state import hot_keys
from streamkit.state.hot_keys import load_of

EPOCH = 10


@pytest.fixture
def log():
    """A log in memory with a topic of orders."""
    with open_log(":memory:") as opened:
        opened.create_topic("orders", "customer string, shop bigint", key="customer", partitions=2)
        yield opened


def run_over(log, *epochs, windows=None):
    """Count orders by customer and shop, an epoch for each list of customers."""
    app = sk.Topology("counts")
    orders = app.stream("orders").group_by("customer", "shop")
    (orders.windowed_by(windows) if windows else orders).count(store="orders_of").to("counts")
    for customers in epochs:
        with log.producer() as producer:
            producer.send_batch("orders", [{"customer": customer, "shop": 7} for customer in customers])
        sk.run(app, log=log, engine="local", tasks=3, trigger="available_now").wait()


def ordinary(epoch):
    return [f"c{epoch * EPOCH + number}" for number in range(EPOCH)]


def test_a_key_in_every_epoch_is_the_hottest(log):
    """A change is a key in an epoch: how often it comes within one does not count."""
    run_over(log, *(["hot"] * 20 + ordinary(epoch) for epoch in range(8)))
    load = load_of(log, "counts", "orders_of")
    assert load.changes == 8 * (EPOCH + 1) == sum(load.by_key_group) == sum(load.by_task)
    first, second, *_ = load.hottest
    assert first.key == {"customer": "hot", "shop": 7} and first.share == pytest.approx(1 / (EPOCH + 1))
    assert second.share == pytest.approx(1 / load.changes)
    assert load.hot_key_groups[0] == first.key_group
    assert load.by_key_group[first.key_group] >= 8
    assert load.busiest_task >= 1


def test_an_even_load_has_nothing_hot(log):
    """Where keys come once each, no key group stands out of so many."""
    run_over(log, [f"c{number}" for number in range(20_000)])
    load = load_of(log, "counts", "orders_of")
    assert load.changes == 20_000 and load.hot_key_groups == ()
    assert load.busiest_task < 1.1


def test_the_newest_changes_count(log, monkeypatch):
    """Of more changes than are looked at, the older ones are left out."""
    monkeypatch.setattr(hot_keys, "CHANGES_MAX", 5)
    run_over(log, ["before"] * 5 + ordinary(0), ["after"])
    load = load_of(log, "counts", "orders_of")
    assert "after" in {one.key["customer"] for one in load.hottest}
    assert load.changes < EPOCH + 2


@pytest.mark.parametrize(
    "windows",
    [
        sk.tumbling("1 minute", grace="0 seconds"),
        sk.sliding("1 minute", grace="0 seconds"),
        sk.session("1 minute", grace="0 seconds"),
    ],
)
def test_keys_of_windows(log, windows):
    """A windowed store has its keys without their windows."""
    run_over(log, *(["hot", *ordinary(epoch)] for epoch in range(3)), windows=windows)
    assert load_of(log, "counts", "orders_of").hottest[0].key == {"customer": "hot", "shop": 7}


def test_nothing_was_changed(log):
    """A store without changes has no hot key; an unknown one names those that there are."""
    run_over(log, [])
    assert load_of(log, "counts", "orders_of").hottest == ()
    with pytest.raises(StoreNotFoundError, match="orders_of"):
        load_of(log, "counts", "nothing")
