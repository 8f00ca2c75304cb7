"""`streamkit run` and `streamkit explain`."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import TopicNotFoundError

COUNTS = """
import streamkit as sk

app = sk.Topology("order-counts")
app.stream("orders").group_by("customer").count(store="orders_of").to("counts")
"""


@pytest.fixture
def file(tmp_path):
    """A file with a topology over the topic orders."""
    file = tmp_path / "order_counts.py"
    file.write_text(COUNTS)
    return str(file)


def test_explain_shows_every_pass(streamkit, file, spark):
    """An explanation goes from the topology to the program, and runs nothing."""
    output = streamkit("explain", file)
    assert "StreamingRelation streamkit_epochs" in output.partition("== Spark ==")[2]

    assert (
        output.index("== topology ==")
        < output.index("== program ==")
        < output.index("changelog order-counts-orders_of-changelog")
    )
    assert "application" in streamkit("apps", "list")
    assert "order-counts" not in streamkit("apps", "list")


def test_explain_needs_the_topics(streamkit, file, spark, tmp_path):
    """A topology over a topic that is not there cannot be explained; the topics that are there are named."""
    (tmp_path / "order_counts.py").write_text(COUNTS.replace('"orders"', '"order"'))

    with pytest.raises(TopicNotFoundError, match=r"'order'.*customers, orders"):
        streamkit("explain", file)


def test_options_reach_the_run(streamkit, file, monkeypatch):
    """The options of `run` are those a topology file takes itself; what was not given is not handed on."""
    given = []
    monkeypatch.setitem(vars(sk), "main", lambda topology, arguments: given.append((topology.name, arguments)))
    streamkit("run", file, "--tasks", "3", "--drain", "--log", "/data")
    streamkit("run", file, "--max-records-per-epoch", "1000", "--once")

    assert given == [
        ("order-counts", ["--log", "/data", "--tasks", "3", "--drain"]),
        ("order-counts", ["--max-records-per-epoch", "1000", "--once"]),
    ]
