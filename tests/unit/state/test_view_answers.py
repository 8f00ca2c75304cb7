"""What a view says of its store: what has expired, in the stream time of the operator that keeps it, and keys of another type."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError
from streamkit.testing import TopologyTestDriver

DAY = 86_400_000
TOPICS = {name: {"schema": "k string, v int", "key": "k"} for name in ("a", "b")}


class Keeps(sk.Processor):
    def init(self, context: Any) -> None:
        self.store = context.store("kept")

    def process(self, record: Any) -> None:
        self.store.put(record["k"], {"v": record["v"]}, record.timestamp)


def aggregate(stream: sk.Stream) -> None:
    windows = stream.group_by_key().windowed_by(sk.tumbling("10 s", grace="0 s"))
    windows.agg(n=F.count("*"), store="kept").emit("every").to("out")


def sessions(stream: sk.Stream) -> None:
    windows = stream.group_by_key().windowed_by(sk.session("10 s", grace="0 s"))
    windows.agg(n=F.count("*"), store="kept").emit("every").to("out")


def folded(stream: sk.Stream) -> None:
    windows = stream.group_by_key().windowed_by(sk.tumbling("10 s", grace="0 s"))
    windows.aggregate({"n": 0}, lambda state, row: {"n": state["n"] + 1}, "n int", store="kept").emit("every").to("out")


def processor(stream: sk.Stream) -> None:
    store = sk.window_store("kept", key="k string", value="v int", size="10 s", retention="20 s")
    stream.process(Keeps, stores=[store])


@pytest.mark.parametrize("keep", [aggregate, sessions, folded, processor])
def test_no_other_input_expires_a_store(keep: Any) -> None:
    """A topic that is days ahead moves no store's time but its own; a record of the store's own topic does."""
    app = sk.Topology("expiry")
    keep(app.stream("a"))
    app.stream("b").to("copy")
    with TopologyTestDriver(app, topics=TOPICS) as driver:
        driver.pipe("a", {"k": "x", "v": 1}, timestamp=0)
        driver.pipe("b", {"k": "x", "v": 1}, timestamp=10 * DAY)
        view = driver.store("kept")
        assert len(view.to_arrow()) == 1
        expiry = view.expiry()
        assert expiry is None or not expiry.has_taken(0)
        driver.pipe("a", {"k": "x", "v": 1}, timestamp=DAY)
        expiry = driver.store("kept").expiry()
        assert expiry is None or expiry.has_taken(0)


@pytest.mark.parametrize("key", ["x", 1.5, [1], {"a": 1}, 2**40, b"x"])
def test_a_key_of_another_type_is_an_error_that_names_both(key: Any) -> None:
    """A view says which type the column of its key has, and what was given."""
    app = sk.Topology("keys")
    app.stream("in", schema="k int, v int", key="k").group_by_key().agg(n=F.count("*"), store="kept").emit("every").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": 1, "v": 1})
        with pytest.raises(ConfigError, match=r"found the key k = .*; the store 'kept' has k int"):
            driver.store("kept").get(key)
        assert driver.store("kept").get(1) == {"k": 1, "n": 1}
