"""Which inputs carry the places of their rows, and their order keys, out of the log."""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.testing import TopologyTestDriver

SCHEMA = "k string, v int"


def test_streams_that_are_folded_together_have_places_or_none() -> None:
    """A merge of two streams is counted while one of them also goes to a topic, for which its rows need their places."""
    app = sk.Topology("counted")
    one, other = (app.stream(topic, schema=SCHEMA, key="k") for topic in ("one", "other"))
    one.merge(other).group_by("v").agg(n=F.count("*")).emit("latest").to("counts")
    one.to("copy")
    with TopologyTestDriver(app, batching="all") as driver:
        driver.pipe("one", {"k": "a", "v": 1})
        driver.pipe("other", {"k": "b", "v": 1})
        assert driver.read("counts", "v", "n") == [{"v": 1, "n": 2}]
        assert driver.read("copy", "k", "v") == [{"k": "a", "v": 1}]


def test_order_keys_are_read_where_something_needs_them() -> None:
    """Counted words need none; windows and merged streams do, and so does a stream that is written."""
    for number, (is_ordered, use) in enumerate(
        [
            (False, lambda rows: rows.filter("v > 1").group_by("k").agg(n=F.count("*")).emit("latest")),
            (
                True,
                lambda rows: rows.group_by("k").windowed_by(sk.tumbling("1 s", grace="0 s")).agg(n=F.count("*")).emit("latest"),
            ),
            (True, lambda rows: rows.merge(rows.filter("v > 1")).group_by("k").agg(n=F.count("*")).emit("latest")),
            (True, lambda rows: rows),
        ]
    ):
        app = sk.Topology(f"ordered-{number}")
        use(app.stream("one", schema=SCHEMA, key="k")).to("result")
        assert (0 in compile(app).ordered_inputs) == is_ordered, number
