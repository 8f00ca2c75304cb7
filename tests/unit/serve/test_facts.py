"""What the server says of topics, groups, dead letters and the log: the same as the program."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F

pytestmark = pytest.mark.usefixtures("worked")


def without_rates(value):
    """The value without what depends on the moment of the look."""
    if isinstance(value, dict):
        return {name: without_rates(one) for name, one in value.items() if name != "records_per_second"}
    return [without_rates(one) for one in value] if isinstance(value, list) else value


def test_topics(get, refused, described):
    """A list of those of users or of all, and one."""
    assert get("/api/v1/topics") == described("topics", "list")
    assert get("/api/v1/topics", all="true") == described("topics", "list", "--all")
    assert get("/api/v1/topics/orders") == described("topics", "describe", "orders")
    assert refused("/api/v1/topics/nothing")[0] == 404


def test_groups(get, refused, log, described):
    """Each with its lag."""
    log.groups.reset("readers", {"orders": {0: 1}})
    assert get("/api/v1/groups") == described("groups", "list")
    assert get("/api/v1/groups/readers") == described("groups", "describe", "readers")
    assert get("/api/v1/groups/readers")["lag"] > 0
    assert refused("/api/v1/groups/nobody")[0] == 404


def test_dead_letters(get, refused, log, described, printed):
    """How many there are of each step and error, and each."""
    app = sk.Topology("strict", on_error=sk.dead_letter("letters"))
    app.stream("orders").select("id", F.col("customer").cast("int").alias("number")).to("numbers")
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    assert get("/api/v1/dead-letters") == described("dlq", "list")
    assert sum(row["records"] for row in get("/api/v1/dead-letters")) == 60
    found = get("/api/v1/dead-letters/letters", limit=5)
    assert len(found) == 5
    assert found == get("/api/v1/dead-letters/letters", limit=100)[:5]
    chosen = get("/api/v1/dead-letters/letters", limit=100, where="operator is not null")
    assert len(chosen) == len(printed("dlq", "show", "letters").splitlines()) == 60
    assert refused("/api/v1/dead-letters/orders")[0] == 422
    assert refused("/api/v1/dead-letters/nothing")[0] == 404


def test_the_log(get, api, described):
    """Sizes and lags; and the metrics for Prometheus."""
    assert without_rates(get("/api/v1/log")) == without_rates(described("stats"))
    assert without_rates(get("/api/v1/log", topic="orders")) == without_rates(described("stats", "orders"))
    found = api.get("/metrics")
    assert found.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'streamkit_application_up{application="totals"}' in found.text


def test_paths_that_are_none(refused, api):
    """They are 404, and say where all paths are; a slash at the end of a path says nothing."""
    for path in ("/nothing", "/api", "/api/v2/topics", "/api/v1/topics/orders/record", "/<script>"):
        assert refused(path)[0] == 404
    assert api.get("/api/v1/topics/").json() == api.get("/api/v1/topics").json()


def test_many_topics(get, log):
    """Five hundred topics are listed."""
    for number in range(500):
        log.create_topic(f"topic-{number}", "n int", partitions=1)
    assert len(get("/api/v1/topics")) > 500
