"""Nobody but an application writes the changelogs of its stores."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import ConfigError, TopologyError
from tests.engine.engine_run import fresh_log

ROW = {"key": b"\0\0k", "value": b"v"}


def run(app, log):
    sk.run(app, log=log, engine="local", trigger="available_now").wait()


@pytest.mark.parametrize(
    "send",
    [
        lambda producer, topic: producer.send(topic, ROW),
        lambda producer, topic: producer.send_batch(topic, [ROW]),
        lambda producer, topic: producer.delete(topic, {"key": ROW["key"]}),
    ],
    ids=["send", "send_batch", "delete"],
)
def test_producers_write_no_changelog(send):
    """A record in a changelog that its application did not write would end it at each start: it is refused, and the application goes on."""
    app = sk.Topology("spending")
    app.stream("orders").group_by_key().count(store="counts").to("counts")
    with fresh_log() as log:
        log.create_topic("orders", "customer string", key="customer")
        with log.producer() as producer:
            producer.send("orders", {"customer": "ann"})
        run(app, log)
        with log.producer() as producer:
            with pytest.raises(ConfigError, match="'spending-counts-changelog' is the changelog of an application's store"):
                send(producer, "spending-counts-changelog")
            producer.send("orders", {"customer": "ann"})
        run(app, log)
        assert log.store("spending", "counts").to_arrow().to_pylist() == [{"customer": "ann", "count": 2}]


def test_topologies_write_no_changelog():
    """Nor may a topology."""
    app = sk.Topology("spending")
    app.stream("orders").group_by_key().count(store="counts").to("counts")
    other = sk.Topology("other")
    other.stream("orders").to("spending-counts-changelog")
    with fresh_log() as log:
        log.create_topic("orders", "customer string", key="customer")
        run(app, log)
        with pytest.raises(TopologyError, match="changelog"):
            run(other, log)


def test_a_topic_may_be_called_like_a_changelog():
    """The name alone makes no changelog."""
    with fresh_log() as log:
        log.create_topic("my-changelog", "n int")
        with log.producer() as producer:
            producer.send("my-changelog", {"n": 1})
        assert log.read("my-changelog")["n"].to_pylist() == [1]
