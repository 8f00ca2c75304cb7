"""What a trace says of each record: the steps it took, what stores had before and after, what was left out and why."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from html.parser import HTMLParser

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, SchemaError
from streamkit.testing import TopologyTestDriver

START = dt.datetime(2026, 1, 1, 10, tzinfo=dt.UTC)
SCRIPT = "</script><script>alert(1)</script>"


def visits():
    """Clicks with the city of their user, counted by city and minute."""
    app = sk.Topology("visits")
    clicks = app.stream("clicks", schema="user string, page string", key="user")
    users = app.table("users", schema="user string, city string", key="user", store="users")
    joined = clicks.filter("page <> '/health'", name="pages").join(users, on="user", name="joined")
    windows = joined.group_by("city").windowed_by(sk.tumbling("1 minute", grace="10 seconds"))
    windows.agg(clicks=F.count("*"), store="per_city").emit("final").to("minutes", name="written")
    return app


def at(second, **row):
    return {**row, "_timestamp": START + dt.timedelta(seconds=second)}


USERS = [at(0, user="ann", city="Rome"), at(0, user="eve", city="Oslo")]
CLICKS = [
    at(5, user="ann", page="/a"),
    at(6, user="bob", page="/a"),
    at(7, user="ann", page="/health"),
    at(80, user="eve", page="/b"),
    at(30, user="ann", page="/late"),
]


def traced(**options):
    return sk.trace(visits(), [*(("users", row) for row in USERS), *(("clicks", row) for row in CLICKS)], **options)


def own(rows):
    """Rows without the columns of the record, and without windows."""
    return [{name: value for name, value in row.items() if not name.startswith(("_", "window"))} for row in rows]


def figures(epoch):
    return {one["step"]: (one["rows_in"], one["rows_out"]) for one in epoch["figures"] if one["rows_in"] or one["rows_out"]}


def test_each_record_shows_the_steps_it_took():
    """The rows that each step gave are there with all their columns, also with those that nobody reads further down."""
    epoch = traced().epochs[2]
    assert [(one["topic"], own([one["row"]])) for one in epoch["records"]] == [("clicks", [{"user": "ann", "page": "/a"}])]
    assert own(epoch["steps"]["joined"]) == [{"user": "ann", "page": "/a", "city": "Rome"}]
    assert figures(epoch) == {"stream-clicks": (1, 1), "pages": (1, 1), "joined": (1, 1), "aggregate-per_city": (1, 0)}
    assert epoch["stream_time"] == "2026-01-01T10:00:05Z" and epoch["error"] is None


def test_stores_show_before_and_after():
    """A change of a store has the row as it was and as it is; one that was not there, or is deleted, is none."""
    trace = sk.trace(visits(), [("users", USERS[0]), ("clicks", CLICKS[0]), ("clicks", at(9, user="ann", page="/c")),
                                ("users", at(10, user="ann", city=None, _deleted=True))])  # fmt: skip
    changes = [epoch["stores"] for epoch in trace.epochs]
    assert changes[0] == {"users": [[None, {"user": "ann", "city": "Rome"}]]}
    (((before, after),),) = [changes[2]["per_city"]]
    assert own([before, after]) == [{"city": "Rome", "clicks": 1}, {"city": "Rome", "clicks": 2}]
    assert changes[3] == {"users": [[{"user": "ann", "city": "Rome"}, None]]}


def test_what_is_left_out_has_its_reason():
    """A filter, a join without a partner, and a record that comes late are told apart, each at its step."""
    epochs = traced().epochs
    assert figures(epochs[3]) == {"stream-clicks": (1, 1), "pages": (1, 1), "joined": (1, 0)}
    assert epochs[4]["left_out"] == {"pages": {"filtered": 1}}
    assert epochs[6]["left_out"] == {"aggregate-per_city": {"late": 1}}


def test_results_are_those_of_the_topic():
    """What a record causes to be written is at that record; a drain writes the rest as an epoch without one."""
    epochs = traced(drain=True).epochs
    written = [(number, own(epoch["written"]["minutes"])) for number, epoch in enumerate(epochs) if epoch["written"]]
    assert written == [(5, [{"city": "Rome", "clicks": 1}]), (7, [{"city": "Oslo", "clicks": 1}])]
    assert epochs[7]["records"] == []


def test_rows_by_topic_are_taken_by_their_times():
    """Rows that are given by topic are taken as an application takes what waits: the user of the first click is there before it."""
    trace = sk.trace(visits(), {"clicks": CLICKS, "users": USERS})
    first = [(one["topic"], one["row"].get("page")) for epoch in trace.epochs for one in epoch["records"]]
    assert first == [("users", None), ("users", None), ("clicks", "/a"), ("clicks", "/a"), ("clicks", "/health"),
                     ("clicks", "/b"), ("clicks", "/late")]  # fmt: skip


def test_rows_before_are_not_traced():
    """Tables that are given before are there, whatever their times, and no epoch shows them."""
    later = [{**row, "_timestamp": START + dt.timedelta(days=1)} for row in USERS]
    trace = sk.trace(visits(), {"clicks": CLICKS}, before={"users": later})
    assert len(trace) == len(CLICKS)
    assert own(trace.epochs[0]["steps"]["joined"]) == [{"user": "ann", "page": "/a", "city": "Rome"}]


def test_no_more_records_than_asked_for():
    """A trace stops after so many records, and says that there were more."""
    cut = sk.trace(visits(), {"clicks": CLICKS, "users": USERS}, max_records=3)
    assert len(cut) == 3 and cut.is_cut
    assert "There were more records." in cut.to_html() and "there are more records" in cut.text()
    whole = sk.trace(visits(), {"clicks": CLICKS, "users": USERS}, max_records=7)
    assert len(whole) == 7 and not whole.is_cut
    with pytest.raises(ConfigError, match="max_records=0; expected 1 or more"):
        traced(max_records=0)


def test_an_error_ends_the_trace_and_is_shown():
    """The last epoch has what its record failed with, and the steps before; rows that no topic takes are an error at once."""
    app = sk.Topology("inverses")
    numbers = app.stream("numbers", schema="n int", key="n").filter("n < 9", name="small")
    numbers.map_values(inverse, "inverse double", name="inverted").to("out")
    trace = sk.trace(app, [("numbers", {"n": n}) for n in (4, 0, 2)])
    assert [epoch["error"] is None for epoch in trace.epochs] == [True, False]
    assert "the function inverse raised ZeroDivisionError: division by zero, called with n = 0" in trace.epochs[1]["error"]
    assert own(trace.epochs[1]["steps"]["small"]) == [{"n": 0}]
    assert trace.epochs[1]["written"] == {}
    with pytest.raises(SchemaError):
        sk.trace(app, [("numbers", {"n": "four"})])


def inverse(row):
    return {"inverse": 1 / row["n"]}


@pytest.mark.parametrize("piped", ["pairs", "by topic"])
def test_the_record_that_fails_is_shown(piped):
    """The epoch that failed has its record, the step that failed, and the rows of the steps before it."""
    app = sk.Topology("prices")
    app.stream("o", schema="id int, p string").filter("id > 0", name="known").map_values(price, "p double", name="priced").to(
        "out"
    )
    rows = [{"id": 7, "p": "1.5"}, {"id": 8, "p": "free"}]
    trace = sk.trace(app, {"o": rows} if piped == "by topic" else [("o", row) for row in rows])
    failed = trace.epochs[1]
    assert [own([one["row"]]) for one in failed["records"]] == [[{"id": 8, "p": "free"}]]
    assert failed["failed_step"] == "priced" and "could not convert" in failed["error"]
    assert figures(failed) == {"stream-o": (1, 1), "known": (1, 1), "priced": (1, 0)} and failed["left_out"] == {}
    assert "error in priced: " in trace.text() and "in    o: id=8 p=free" in trace.text()


def price(row):
    return {"p": float(row["p"])}


def test_a_step_that_runs_again_shows_its_rows_once():
    """A stage that fails runs again to leave out a row; what each step gave in the first run is not shown beside the second."""
    app = sk.Topology("prices")
    orders = app.stream("o", schema="id int, p string", key="id")
    priced = orders.map_values(price, "p double", name="priced", on_error=sk.dead_letter("refused"))
    priced.group_by("id").count(store="counts").to("out")
    trace = sk.trace(app, {"o": [{"id": 1, "p": "2"}, {"id": 2, "p": "free"}]})
    assert [len(epoch["steps"]["stream-o"]) for epoch in trace.epochs] == [1, 1]
    assert trace.epochs[1]["left_out"] == {"priced": {"error": 1}} and trace.epochs[1]["failed_step"] is None
    assert [len(epoch["written"].get("refused", [])) for epoch in trace.epochs] == [0, 1]


class Page(HTMLParser):
    """The elements of a page, and the texts of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self._inside = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts.append(data)


def test_the_page_needs_nothing_else(tmp_path):
    """The page is a file of its own: it names no other, and its data are the epochs; no value of a row can end an element of it."""
    trace = sk.trace(visits(), [("users", {"user": SCRIPT, "city": SCRIPT}), ("clicks", {"user": SCRIPT, "page": SCRIPT})])
    text = trace.to_html(tmp_path / "trace.html")
    assert (tmp_path / "trace.html").read_text() == text
    page = Page(text)
    assert not [attributes for _, attributes in page.elements if attributes.keys() & {"src", "href"}]
    assert not re.findall(r"https?://(?!www\.w3\.org)", text)
    data, _ = page.scripts
    assert json.loads(data) == list(trace.epochs) == json.loads(trace.to_json())
    assert [tag for tag, _ in page.elements].count("script") == 2


def test_a_notebook_shows_the_page():
    """In a notebook the page stands in a frame of its own; the text has the same epochs."""
    trace = traced()
    assert trace._repr_html_().startswith('<iframe srcdoc="<!doctype')
    assert trace.text().count("\n-- ") == len(trace) - 1
    assert repr(trace) == "Trace('visits', 7 epochs)"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have notes from Python 3.11 on")
def test_a_test_that_fails_shows_the_last_epochs():
    """An assertion that fails in the block of a driver says what the last epochs did; other errors stay as they are."""
    with pytest.raises(AssertionError) as failed, TopologyTestDriver(visits(), batching="one", traced_epochs=2) as driver:
        driver.pipe("users", USERS)
        driver.pipe("clicks", CLICKS)
        raise AssertionError("not so")
    (note,) = failed.value.__notes__
    assert note.count("-- in") == 2 and "aggregate-per_city: 1 in, 0 out, late 1" in note
    with pytest.raises(KeyError) as other, TopologyTestDriver(visits()) as driver:
        driver.pipe("users", USERS)
        raise KeyError("x")
    assert not hasattr(other.value, "__notes__")


def test_a_driver_can_be_stepped_through():
    """One record after the other is processed, in canonical order, until there is none."""
    with TopologyTestDriver(visits(), batching="all") as driver:
        driver.pipe("clicks", CLICKS)
        driver.pipe("users", USERS)
        taken = []
        while driver.step():
            ((topic, _),) = driver.traced()[-1].records
            taken.append(topic)
    assert taken == ["users"] * 2 + ["clicks"] * 5


@pytest.mark.parametrize("kind", ["sliding", "session", "suppressed", "versioned", "joined", "distinct"])
def test_stores_of_each_kind_are_shown(kind):
    """The rows of any store are shown before and after; lists of windows are no rows."""
    app = sk.Topology("kinds")
    events = app.stream("events", schema="k string, n int", key="k")
    match kind:
        case "sliding" | "session":
            windows = {"sliding": sk.sliding, "session": sk.session}[kind]("10 seconds", grace="5 seconds")
            events.group_by("k").windowed_by(windows).agg(n=F.sum("n"), store="kept").to("out")
        case "suppressed":
            events.group_by("k").agg(n=F.sum("n"), store="kept").suppress(sk.time_limit("5 seconds")).to("out")
        case "versioned":
            events.to_table("kept", versioned="1 minute").to("out")
        case "joined":
            events.join(events.filter("n > 1"), within=sk.within(before="5 s", after="5 s", grace="5 s"), suffix="_2").to("out")
        case _:
            events.distinct(within="10 seconds", name="kept").to("out")
    trace = sk.trace(app, [("events", at(second, k=f"k{second % 2}", n=second % 3)) for second in range(8)], drain=True)
    assert json.loads(trace.to_json()) and all(epoch["error"] is None for epoch in trace.epochs)
    assert any("kept" in epoch["stores"] for epoch in trace.epochs) or kind in ("joined", "distinct")
