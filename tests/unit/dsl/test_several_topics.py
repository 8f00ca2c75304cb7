"""A stream of several topics, and what is said where Kafka Streams takes a pattern or a function instead of names."""

from __future__ import annotations

import re
from typing import Any

import pytest

import streamkit as sk
from streamkit.errors import ConfigError, TopologyError
from streamkit.testing.driver import TopologyTestDriver

SCHEMA: dict[str, Any] = {"schema": "k string, v int", "key": "k"}


def test_several_topics_are_one_stream() -> None:
    """Records of all topics of a list come as one stream, in the order of time, and it is the stream that `merge` gives."""
    app = sk.Topology("several")
    both = app.stream(["web", "phone"], **SCHEMA)
    both.to("out")
    assert both == app.stream("web", **SCHEMA).merge(app.stream("phone", **SCHEMA))
    assert app.stream(["web"], **SCHEMA) == app.stream("web", **SCHEMA)
    with TopologyTestDriver(app, batching="all") as driver:
        for topic, v, time in (("web", 1, 10), ("phone", 2, 5), ("web", 3, 20)):
            driver.pipe(topic, {"k": "a", "v": v}, timestamp=time)
        assert [row["v"] for row in driver.read("out")] == [2, 1, 3]


def test_a_stream_of_several_topics_goes_by_its_name() -> None:
    """The name is that of the stream, and the sources keep their own."""
    app = sk.Topology("several")
    app.stream(("web", "phone"), **SCHEMA, name="orders").to("out")
    text = app.describe()
    assert "merge web, phone  [orders]" in text and "stream web" in text and "stream phone" in text


def test_topics_of_other_columns_are_refused() -> None:
    """What `merge` refuses is refused: topics whose columns differ."""
    app = sk.Topology("several")
    app.stream(["web", "phone"]).to("out")
    with pytest.raises(TopologyError, match="merge"), TopologyTestDriver(app, topics={"web": "k string", "phone": "k int"}):
        pass


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda app: app.stream(re.compile("web-.*")), r"the pattern 'web-\.\*'.*expected stream\(\[\"one\", \"other\"\]\)"),
        (lambda app: app.stream([]), "stream\\(\\) was given no topic"),
        (lambda app: app.stream(["web", "web"]), "the topic 'web' twice"),
        (lambda app: app.stream(["web", 3]), "the topic name 3 cannot be used"),
        (lambda app: app.table(["web", "phone"]), r"a table reads one topic.*stream\(\[…\]\).to_table\(\)"),
        (lambda app: app.global_table(re.compile("web")), "a table reads one topic"),
        (lambda app: app.stream("web").to(lambda row: row["k"]), r"to\(\) was given a function.*split\(\).branch\(.*to\(\"topic\"\) of each"),
        (lambda app: app.table("web").to(lambda row: row["k"]), r"to\(\) was given a function"),
    ],
    ids=["a pattern", "none", "twice", "no name", "a table of two", "a global table of a pattern", "a function", "a table to a function"],
)  # fmt: skip
def test_what_has_no_name_is_refused_with_what_to_do(declare: Any, message: str) -> None:
    """A pattern, a function and lists that are no list of topics say what to call instead, at the user's line."""
    with pytest.raises((TopologyError, ConfigError), match=f"(?s){message}.*at {re.escape(__file__)}"):
        declare(sk.Topology("refused"))
