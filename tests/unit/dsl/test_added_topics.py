"""Topics that a topology adds, and a start creates."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.engine.runs.compile import compile_passing_over, compile_with_settings
from streamkit.engine.runs.preview import preview
from streamkit.errors import TopologyError
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.opening import open_log
from streamkit.plan.program import Program
from streamkit.testing import TopologyTestDriver


def adding(**options):
    app = sk.Topology("adding")
    app.add_topic("orders", "id int, amount double", key="id", **options)
    app.stream("orders").filter("amount > 1").to("large")
    return app


def ran(app, log):
    sk.run(app, log=log, engine="local", trigger="available_now").wait(60)


def test_a_start_creates_what_does_not_exist():
    """A topic has the partitions and settings that were given, else those of the log; one that exists stays as it is."""
    with open_log(IN_MEMORY) as log:
        ran(adding(config={"retention.ms": 1000}), log)
        created = log.topic("orders")
        ran(adding(partitions=9), log)

        assert (str(created.schema), created.key, created.setting("retention.ms")) == ("id int, amount double", ("id",), "1000")
        assert created.partitions == log.settings.topic_partitions
        assert log.topic("orders") == created
    with open_log(IN_MEMORY) as log:
        ran(adding(partitions=9), log)
        assert log.topic("orders").partitions == 9


def test_what_is_read_must_fit_the_topic_that_exists():
    """An added topic is no way past the checks of what is read."""
    with open_log(IN_MEMORY) as log:
        log.create_topic("orders", "id int", key="id")
        with pytest.raises(TopologyError, match="there is no column 'amount'"):
            ran(adding(), log)


def test_topics_with_a_format_are_added_too():
    """The bytes of such a topic are read by the stream."""
    app = sk.Topology("encoded")
    app.add_topic("orders", format="json")
    app.stream("orders", value_format="json", schema="id int, amount int", key="id", key_format="json").to("read")
    with open_log(IN_MEMORY) as log:
        ran(app, log)
        format = log.topic("orders").format

        assert format is not None
        assert format.name == "json"


def test_a_plan_says_what_would_be_created():
    """The preview of a start finds the added topic new, creates nothing, and refuses nothing."""
    with open_log(IN_MEMORY) as log:
        refused: list[object] = []
        program = compile_passing_over(adding(), log, refused.append)
        found = preview(log.catalog, program)

        assert (refused, found.refusals, list(log.topics())) == ([], (), [])
        assert [(one.name, one.text) for one in found.of("inputs")] == [
            ("orders", "stream, read from its beginning; topic is created")
        ]


def test_a_program_keeps_its_added_topics():
    """They go along as JSON; a program without any is written as before, and what it does is told apart by neither."""
    with open_log(IN_MEMORY) as log:
        with_topics = compile_with_settings(adding(), log)
        log.create_topic("orders", "id int, amount double", key="id")
        app = sk.Topology("adding")
        app.stream("orders").filter("amount > 1").to("large")
        without = compile_with_settings(app, log)

    assert Program.from_json(with_topics.to_json()).topics == with_topics.topics
    assert "topics" not in without.to_json()
    assert with_topics.fingerprint == without.fingerprint


def test_the_driver_makes_added_topics():
    """A test needs no schema= where the topology adds the topic."""
    with TopologyTestDriver(adding()) as driver:
        driver.pipe("orders", [{"id": 1, "amount": 0.5}, {"id": 2, "amount": 2.0}])
        assert driver.read("large", "id") == [{"id": 2}]


def test_one_name_is_one_topic():
    """The same declaration may stand twice; another one is an error. Topologies that add other topics are not equal."""
    app = adding()
    app.add_topic("orders", "id int, amount double", key="id")

    with pytest.raises(TopologyError, match="adds the topic 'orders' already"):
        app.add_topic("orders", "id int", key="id")
    assert app == adding()
    assert app != adding(partitions=3)
