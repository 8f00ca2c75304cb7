"""`streamkit apps`."""

from __future__ import annotations

import json
import re

import pytest

import streamkit as sk
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError
from streamkit.log.upkeep import Upkeep


def test_list_shows_where_applications_stand(streamkit, application):
    """Every application is listed with its epochs, stream time, tasks and stores."""
    lines = [line.split() for line in streamkit("apps", "list").splitlines()]

    row = next(line for line in lines if line[:1] == [application])
    assert row[1:4] == ["stopped", "1", "2"]
    assert row[4].startswith("2023-11-14T22:15")
    assert row[5:] == ["0", "0", "2", "orders_of,", "hourly"]


def test_describe_shows_positions(streamkit, application):
    """A description has how far every partition was read, how many records wait, and each store's rows and changelog."""
    with sk.open_log(streamkit.root) as log, log.producer() as producer:
        producer.send("orders", {"customer": "eve", "number": 7, "amount": 1.0})
    lines = [line.split() for line in streamkit("apps", "describe", application).splitlines()]

    assert ["orders", "0", "3", "1"] in lines
    (hourly,) = [line for line in lines if line[:1] == ["hourly"] and line[2] == f"{application}-hourly-changelog"]
    assert int(hourly[1]) == int(streamkit("store", "count", application, "hourly")) > 0
    assert int(hourly[3]) > 0 and int(hourly[4].replace(",", "")) > 0
    assert ["lag", "1"] in lines and ["late", "0"] in lines and ["generation", "1"] in lines


def test_describe_shows_steps(streamkit, application):
    """A description has the rows of each step, and how long it was busy, as a run tells them."""
    steps = {one["step"]: one for one in json.loads(streamkit("apps", "describe", application, "--json"))["steps"]}
    assert steps["stream-orders"] | {"busy_us": 0} == {
        "step": "stream-orders",
        "rows_in": 3,
        "rows_out": 3,
        "busy_us": 0,
        "counts": {},
    }
    assert all(one["busy_us"] > 0 for one in steps.values() if one["rows_in"])
    assert ["stream-orders", "3", "3"] in [line.split()[:3] for line in streamkit("apps", "describe", application).splitlines()]


def test_history_shows_the_last_epochs(streamkit, application):
    """Each epoch has its records, its lag and its times; as many are shown as were asked for."""
    found = json.loads(streamkit("apps", "history", application, "--json"))
    assert [(one["epoch"], one["records"], one["lag"]) for one in found] == [(1, 3, {"orders": 0}), (2, 0, {"orders": 0})]
    assert found[0]["commit_ms"] > 0 and found[1]["commit_ms"] is None
    lines = [line.split() for line in streamkit("apps", "history", application, "--last", "1").splitlines()]
    assert [line[0] for line in lines if line and line[0].isdigit()] == ["2"]
    with pytest.raises(ConfigError, match="application 'nobody' does not exist; there are order-counts"):
        streamkit("apps", "history", "nobody")


@pytest.fixture
def changed(root):
    """The application `shop`, started with a program, with the same once more, and with another one."""
    with sk.open_log(root) as log:
        for amount, name in ((1, "all"), (1, "all"), (2, "all"), (2, "large")):
            app = sk.Topology("shop")
            app.stream("orders").filter(f"amount > {amount}", name=name).to("copies")
            start(log.catalog, log.storage, sk.compile(app, log), tasks=2)
    return "shop"


def test_programs_shows_the_starts_that_changed_one(streamkit, changed):
    """The newest start is first, each with the number of its changes; a start with the same program has no line."""
    lines = [line.split() for line in streamkit("apps", "programs", changed).splitlines()]
    assert [(line[0], line[2:]) for line in lines if line and line[0].isdigit()] == [
        ("4", ["2", "2"]),
        ("3", ["2", "1"]),
        ("1", ["2", "3"]),
    ]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT.*Z", line[1]) for line in lines if line and line[0].isdigit())
    with pytest.raises(ConfigError, match="application 'nobody' does not exist"):
        streamkit("apps", "programs", "nobody")


def test_programs_shows_what_a_start_changed(streamkit, changed):
    """With a generation the changes have the signs and words of a plan, both texts of a step, and what they are compared with."""
    output = streamkit("apps", "programs", changed, "3")
    assert output.startswith("shop: generation 3 started at 20")
    expected = """
inputs
  = orders  stream

outputs
  = copies

steps
  ~ all  - filter: amount > 1.0
         + filter: amount > 2.0

1 change since the program of generation 1.
"""
    assert output.partition("\n")[2] == expected
    renamed = streamkit("apps", "programs", changed, "4")
    assert "+ large  filter: amount > 2.0" in renamed and "- all    filter: amount > 2.0" in renamed
    assert streamkit("apps", "programs", changed, "1").endswith("It was the first start.\n")
    with pytest.raises(
        ConfigError, match="generation 2 of 'shop' is not known to have changed the program; expected one of 4, 3, 1"
    ):
        streamkit("apps", "programs", changed, "2")


def test_a_program_before_that_is_forgotten_is_told(streamkit, root, changed):
    """Of the oldest start that is known nothing is compared, since the program before it is not known any more."""
    with sk.open_log(root) as log:
        state = log.catalog.applications.get(changed)
        with log.catalog.database.write() as transaction:
            transaction.execute("DELETE FROM application_program WHERE generation = 1")
    found = json.loads(streamkit("apps", "programs", changed, "3", "--json"))
    assert (found["changes"], found["generation_before"], found["steps"], state.generation) == (None, None, [], 4)
    assert streamkit("apps", "programs", changed, "3").endswith("The program before it is not known any more.\n")


def test_programs_of_another_version_are_not_compared(streamkit, root, changed):
    """A program that another version of StreamKit has made is listed, and nothing is said of what it changed."""
    with sk.open_log(root) as log, log.catalog.database.write() as transaction:
        transaction.execute("UPDATE application_program SET program = '{\"format\": 99}' WHERE generation = 3")
    found = json.loads(streamkit("apps", "programs", changed, "--json"))
    assert [(one["generation"], one["changes"]) for one in found] == [(4, None), (3, None), (1, 3)]


def test_a_running_application_is_told_from_others(streamkit, application):
    """An application whose driver is alive is running, since its first commit; once it has ended, it is stopped."""
    with sk.open_log(streamkit.root) as log:
        state = log.catalog.applications.get(application)
        upkeep = Upkeep(log, state.id, state.generation)
        try:
            assert re.search(rf"{application} +running since 20\d\d-\d\d-\d\dT", streamkit("apps", "list"))
            assert json.loads(streamkit("apps", "describe", application, "--json"))["running"] is True
        finally:
            upkeep.close()
    assert re.search(r"state +stopped", streamkit("apps", "describe", application))


def test_reset_asks_first(streamkit, application):
    """Without a yes, nothing is forgotten."""
    assert "Forget the 2 epochs" in streamkit("apps", "reset", application, answer="n\n", code=1)
    assert ["orders", "0", "3", "0"] in [line.split() for line in streamkit("apps", "describe", application).splitlines()]


def test_reset_forgets_all_but_topics(streamkit, application):
    """After a reset the application has no epochs, stores, changelogs and local state; its inputs and outputs are as they were."""
    before = streamkit("consume", "counts")
    (streamkit.root / "checkpoints" / application).mkdir(parents=True)
    streamkit("apps", "reset", application, "--yes")

    assert [line.split()[3:] for line in streamkit("apps", "list").splitlines() if application in line] == [
        ["0", "3", "0", "2"]
    ]  # which wait
    assert "changelog" not in streamkit("topics", "list", "--all")
    assert not (streamkit.root / "stores" / application).exists()
    assert not (streamkit.root / "checkpoints" / application).exists()
    assert streamkit("consume", "counts") == before


def test_take_over_asks_first(streamkit, application):
    """A second version takes the first over once that is confirmed; lists and descriptions say who follows whom."""
    with sk.open_log(streamkit.root) as log:
        log.catalog.applications.start(
            "second", tasks=None, default_tasks=1, key_groups=128, program_hash="", stores=[], follows=application
        )
    assert ["follows", application] in [line.split() for line in streamkit("apps", "describe", "second").splitlines()]
    asked = streamkit("apps", "take-over", "second", answer="n\n", code=1)
    assert f"Fence {application} for good? second does not run now" in asked
    assert re.search(rf"second +stopped, follows {application}", streamkit("apps", "list"))
    assert json.loads(streamkit("apps", "take-over", "second", "--yes", "--json")) == {
        "taken_over": application,
        "by": "second",
        "records_left": 3,
    }
    assert re.search(rf"{application} +taken over by second", streamkit("apps", "list"))
    with pytest.raises(ConfigError, match="follows no other one"):
        streamkit("apps", "take-over", application, "--yes")
