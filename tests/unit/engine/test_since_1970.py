"""`since_1970`: a time before 1970 in the column of a source or a result counts as none."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import StreamKitError
from streamkit.testing import TopologyTestDriver

TIMES = (5, -1, 0, -2_000, 3)
TOPICS = {"in": {"schema": "k string, at bigint", "key": "k"}}


def given(app, rows_of="out"):
    """The times of what comes out, in milliseconds, for records of all `TIMES`, each of a key of its own."""
    with TopologyTestDriver(app, topics=TOPICS) as driver:
        for number, time in enumerate(TIMES):
            driver.pipe("in", {"k": str(number), "at": time}, timestamp=number)
        return [round(row["_timestamp"].timestamp() * 1000) for row in driver.read(rows_of)]


@pytest.mark.parametrize("since_1970", [True, False])
def test_records_of_a_source_are_left_out(since_1970):
    """With it `on_error` is asked; without it such a time is one like others, as the pages say."""
    app = sk.Topology("app", on_error="skip")
    app.stream("in", timestamp="at", since_1970=since_1970).to("out")
    assert given(app) == [time for time in TIMES if time >= 0 or not since_1970]


def test_a_run_ends_at_such_a_record_unless_it_is_left_out():
    """The error says that times from 1970 on are expected."""
    app = sk.Topology("app")
    app.stream("in", timestamp="at", since_1970=True).to("out")
    with pytest.raises(StreamKitError, match="expected a time in each record, from 1970 on"):
        given(app)


def test_a_table_is_refused_such_a_record():
    """A record of a table cannot be left out."""
    app = sk.Topology("app", on_error="skip")
    app.table("in", timestamp="at", since_1970=True).to("out")
    with pytest.raises(StreamKitError, match="from 1970 on"):
        given(app)


@pytest.mark.parametrize("since_1970", [True, False])
def test_results_are_not_written_under_such_a_time(since_1970):
    """What is written as bytes has the time of the column, or is left out."""
    app = sk.Topology("app", on_error="skip")
    rows = app.stream("in").with_columns(at=F.col("at"))
    rows.to("out", value_format="json", timestamp="at", since_1970=since_1970)
    assert given(app) == [time for time in TIMES if time >= 0 or not since_1970]


@pytest.mark.parametrize("since_1970", [True, False])
def test_tables_are_not_written_under_such_a_time(since_1970):
    """So are the newest rows of a table, which stay in the topic as they were."""
    app = sk.Topology("app", on_error="skip")
    table = app.stream("in").group_by_key().agg(at=F.max("at"), store="newest")
    table.to("out", value_format="json", timestamp="at", since_1970=since_1970)
    assert given(app) == [time for time in TIMES if time >= 0 or not since_1970]
