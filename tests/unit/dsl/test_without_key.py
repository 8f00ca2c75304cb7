"""Streams without a key."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import TopologyError
from streamkit.testing import TopologyTestDriver


def test_the_columns_of_the_key_become_values():
    """A new topic has no key, and a deletion leaves a record without values."""
    app = sk.Topology("keyless")
    app.stream("orders", schema="id int, amount int", key="id").without_key().select("amount").to("amounts")

    with TopologyTestDriver(app) as driver:
        driver.pipe("orders", {"id": 1, "amount": 5})
        driver.delete("orders", {"id": 1})
        assert driver.log.topic("amounts").key == ()
        assert driver.read("amounts", "amount", "_deleted") == [
            {"amount": 5, "_deleted": False},
            {"amount": None, "_deleted": True},
        ]


def test_what_groups_needs_columns():
    """A stream without a key cannot be grouped by it; by columns it can."""
    app = sk.Topology("keyless")
    orders = app.stream("orders", schema="id int, amount int", key="id").without_key()
    orders.group_by("amount").count().to("counts")
    sk.compile(app)
    orders.group_by_key().count().to("others")

    with pytest.raises(TopologyError, match="needs a key"):
        sk.compile(app)


def test_a_key_without_columns_is_named():
    """select_key() says which verb takes the key away."""
    with pytest.raises(TopologyError, match=r"expected at least one, or without_key\(\)"):
        sk.Topology("keyless").stream("orders").select_key()
