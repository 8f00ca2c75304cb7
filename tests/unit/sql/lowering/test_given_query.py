"""`Topology.sql`: queries over handles, inside a topology in Python."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError


@pytest.fixture
def app():
    return sk.Topology("given")


@pytest.fixture
def clicks(app):
    return app.stream("clicks", schema="id int, user string, url string, n int", key="id")


def test_a_query_gives_a_stream_or_a_table(app, clicks):
    """What it makes decides; it is the handle that Python makes of the same."""
    users = app.table("users", schema="id string, name string", key="id")
    joined = app.sql("SELECT c.url, u.name FROM clicks c JOIN users u ON c.user = u.id", clicks=clicks, users=users)
    counted = app.sql("SELECT name, COUNT(*) AS n FROM joined GROUP BY name", joined=joined)

    assert joined == clicks.join(users, on={"user": "id"}).select("url", "name")
    assert counted == joined.group_by("name").agg(F.count(F.lit(1)).alias("n"))


def test_final_results_are_a_stream(app, clicks):
    """EMIT FINAL gives each result when its window closes."""
    text = "SELECT user, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 5 MINUTES) GROUP BY user EMIT FINAL"
    counts = clicks.group_by("user").windowed_by(sk.tumbling("1 hour", grace="5 minutes")).agg(F.count(F.lit(1)).alias("n"))

    assert app.sql(text, clicks=clicks) == counts.emit("final")


def test_columns_of_what_python_made_are_known(app, clicks):
    """Any handle whose sources declare their columns has known columns, whatever its steps are."""
    made = clicks.map_values(lambda row: {"length": len(row["url"])}, "length int").group_by("length").count()

    assert app.sql("SELECT * FROM made WHERE COUNT > 1", made=made) == made.filter(F.col("count") > 1)
    with pytest.raises(TopologyError, match="the columns are length, count; did you mean 'length'"):
        app.sql("SELECT lenght FROM made", made=made)


def test_errors_name_the_place_in_the_text_and_the_call(app, clicks):
    """The line of Python, and the word in the text."""
    with pytest.raises(TopologyError) as refused:
        app.sql("SELECT url,\n       urll\nFROM clicks", clicks=clicks)
    told = str(refused.value)

    assert "at line 2:8, in the text given at " in told
    assert f"{__file__}:" in told
    assert "       urll\n           ^^^^" in told


def test_the_compiler_points_into_the_text(app):
    """Of a source whose columns are known when the topology is compiled, errors point at the word."""
    clicks = app.stream("clicks")
    app.sql("SELECT url,\n  upper(urll) AS u FROM clicks", clicks=clicks).to("out")
    log = sk.open_log(":memory:")
    log.create_topic("clicks", "url string")

    with pytest.raises(TopologyError, match=r"there is no column 'urll'(.|\n)*line 2:9"):
        sk.compile(app, log)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE STREAM s AS SELECT * FROM clicks", r"sql\(\) of a topology is one query"),
        ("SELECT * FROM clicks; SELECT * FROM clicks", r"sql\(\) of a topology is one query"),
        ("SELECT 1 AS one", "expected FROM"),
        ("SELECT * FROM click", "there is no stream or table 'click' for this query; .*did you mean 'clicks'"),
    ],
)
def test_what_is_no_query_is_named(app, clicks, text, message):
    """One query over the given handles, and nothing else."""
    with pytest.raises(TopologyError, match=message):
        app.sql(text, clicks=clicks)


def test_handles_are_of_the_topology(app, clicks):
    """A handle of another topology, or something else, is no source."""
    with pytest.raises(TopologyError, match="another topology"):
        sk.Topology("other").sql("SELECT * FROM clicks", clicks=clicks)
    with pytest.raises(TopologyError, match="cannot read clicks from 'clicks'"):
        app.sql("SELECT * FROM clicks", clicks="clicks")
