"""What the server says of applications, running and not."""

from __future__ import annotations

import json
import time

import pytest

import streamkit as sk
from streamkit import functions as F
from tests.kit.waiting import wait_until
from tests.unit.serve.conftest import ORDERS, send_orders, streaming, totals

APP = "/api/v1/applications/totals"


@pytest.mark.usefixtures("worked")
def test_the_program_says_the_same(get, described):
    """A description, the list and the epochs are what --json of the command line prints."""
    assert get("/api/v1/applications") == described("apps", "list")
    found = get(APP)
    assert found == described("apps", "describe", "totals")
    assert sum(one["next_offset"] for one in found["inputs"]) == ORDERS
    assert get(f"{APP}/steps") == found["steps"]
    assert next(one for one in found["steps"] if one["step"] == "stream-orders")["rows_in"] == ORDERS
    assert get(f"{APP}/epochs", last=1) == described("apps", "history", "totals", "--last", "1")
    assert len(get(f"{APP}/epochs")) == found["epochs"]


@pytest.mark.usefixtures("worked")
def test_answers_say_at_which_epoch(api, get):
    """The headers have the epoch and the position, which a later request may wait for."""
    answer = api.get(APP)
    assert int(answer.headers["X-StreamKit-Epoch"]) == answer.json()["epochs"]
    position = json.loads(answer.headers["X-StreamKit-Position"])
    assert sum(position["orders"].values()) == ORDERS
    assert get(APP, wait_for=answer.headers["X-StreamKit-Position"]) == answer.json()


def test_a_running_application(log, api, get, described):
    """Figures of the server and of the program agree within one epoch; an answer waits until what was sent is in it."""
    run = sk.run(totals(), log=log, engine="local")
    try:
        wait_until(lambda: api.get(APP).status_code == 200)
        assert get(APP)["running"] is True
        send_orders(log, ORDERS, 40)
        ends = {"orders": {str(one): offset for one, offset in log.end_offsets("orders").items()}}
        rows = get(f"{APP}/stores/per_customer/rows", wait_for=json.dumps(ends))["rows"]
        assert sum(row["n"] for row in rows) == ORDERS + 40
        before, said, after = get(APP)["epochs"], described("apps", "describe", "totals")["epochs"], get(APP)["epochs"]
        assert before <= said <= after
    finally:
        run.stop()
    assert get(APP)["running"] is False


@pytest.mark.usefixtures("worked")
def test_a_wait_that_is_too_long(api, refused):
    """It ends with 504 in words, a wait for what cannot come with 400, and one that nobody may ask for with 413."""
    epochs = api.get(APP).json()["epochs"]
    begun = time.monotonic()
    status, said = refused(APP, wait_for=epochs + 1, wait_seconds="0.3")
    assert (status, f"it has committed epoch {epochs} of {epochs + 1}" in said) == (504, True)
    assert time.monotonic() - begun >= 0.3
    assert refused(APP, wait_for=1, wait_seconds=10_000)[0] == 413
    assert refused(APP, wait_for=1, wait_seconds="nan")[0] == 400
    for wrong in ("soon", "[1]", '{"orders": 1}', "[" * 10_000):
        assert refused(APP, wait_for=wrong)[0] == 400
    assert "does not read the topic 'totals'" in refused(APP, wait_for='{"totals": {"0": 1}}')[1]
    assert refused(APP, wait_for='{"orders": {"7": 1}}')[0] == 400
    assert "found the partition 7 of 'orders'; expected one of 0 to 1" in refused(APP, wait_for='{"orders": {"7": 1}}')[1]
    assert refused("/api/v1/applications/nobody", wait_for=1)[0] == 404


def test_events_tell_a_state_a_second(log, api):
    """Two who watch get the same states, in which the lag grows with what is sent."""
    sk.run(totals(), log=log, engine="local", trigger="available_now").wait()
    with streaming(api, f"{APP}/events") as first, streaming(api, f"{APP}/events") as second:
        event, state = next(first)
        assert (event, sum(one["lag"] for one in state["inputs"])) == ("state", 0)
        assert state["newest_epoch"]["epoch"] == state["epochs"]
        send_orders(log, ORDERS, 5)
        for stream in (first, second):
            lags = (sum(one["lag"] for one in state["inputs"]) for event, state in stream if event == "state")
            assert next(lag for lag in lags if lag) == 5


def changed_totals(log):
    """The application once more, with a condition and without the output of its hours."""
    app = sk.Topology("totals")
    orders = app.stream("orders")
    large = orders.filter("amount > 1", name="large")
    large.group_by("customer").agg(n=F.count("*"), total=F.sum("amount"), store="per_customer").to("totals")
    hours = orders.group_by("customer").windowed_by(sk.tumbling("1 hour", grace="0 s", retention="400 days"))
    hours.agg(n=F.count("*"), store="hourly")
    sk.run(app, log=log, engine="local", trigger="available_now").wait()


def test_programs_tell_what_a_start_changed(worked, get, described, refused):
    """The list has the starts that changed the program, newest first, and each its changes, as --json of the command line prints them."""
    changed_totals(worked)
    found = get(f"{APP}/programs")
    assert found == described("apps", "programs", "totals")
    assert [one["generation"] for one in found] == [2, 1]
    newest = get(f"{APP}/programs/2")
    assert newest == described("apps", "programs", "totals", "2")
    assert (newest["application"], newest["generation_before"], newest["changes"]) == ("totals", 1, found[0]["changes"])
    fates = {
        subject: {one["name"]: one["fate"] for one in newest[subject]} for subject in ("inputs", "outputs", "stores", "steps")
    }
    assert (fates["inputs"], fates["outputs"]) == ({"orders": "same"}, {"totals": "same", "by_hour": "gone"})
    assert fates["steps"]["large"] == "added" and fates["steps"]["aggregate-per_customer"] == "same"
    counted = [fate for subject in fates.values() for fate in subject.values() if fate != "same"]
    assert len(counted) == newest["changes"] > 1
    assert get(f"{APP}/programs/1")["generation_before"] is None
    status, said = refused(f"{APP}/programs/3")
    assert (status, "expected one of 2, 1" in said) == (404, True)
    for wrong in ("-1", "two", "9" * 30, "1.5"):
        assert refused(f"{APP}/programs/{wrong}")[0] == 400


@pytest.mark.usefixtures("worked")
def test_what_is_not_there(refused):
    """An application that has never run is 404, which names those that have."""
    for path in ("", "/steps", "/epochs", "/programs", "/programs/1", "/events", "/stores", "/stores/x", "/stores/x/rows"):
        status, said = refused(f"/api/v1/applications/nobody{path}")
        assert (status, "there are totals" in said) == (404, True)
    assert refused(f"{APP}/epochs", last=0)[0] == 400
    assert refused(f"{APP}/epochs", last=10**9)[0] == 413
