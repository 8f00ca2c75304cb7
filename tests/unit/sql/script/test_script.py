"""A script in SQL is one topology."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, StreamKitError, TopologyError
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.opening import open_log
from streamkit.sql.script.topology import load_sql, topology_of
from streamkit.testing import TopologyTestDriver

CLICKS = "CREATE STREAM clicks (id INT KEY, user STRING, url STRING, n INT);\n"
USERS = "CREATE TABLE users (id STRING PRIMARY KEY, name STRING, city STRING);\n"
CLICKS_SCHEMA, USERS_SCHEMA = "id int, user string, url string, n int", "id string, name string, city string"


def script(text, name="shop"):
    return topology_of(text, name, f"{name}.sql")


def shop(name="shop"):
    """A topology with the topics of CLICKS and USERS, and their handles."""
    app = sk.Topology(name)
    app.add_topic("clicks", CLICKS_SCHEMA, key="id")
    app.add_topic("users", USERS_SCHEMA, key="id", config={"cleanup.policy": "compact"})
    clicks = app.stream("clicks", schema=CLICKS_SCHEMA, key="id")
    return app, clicks, app.table("users", schema=USERS_SCHEMA, key="id")


def test_queries_write_the_topics_of_their_names():
    """CREATE declares topics, CREATE … AS writes them: the steps are those of the same in Python."""
    found = script(
        CLICKS
        + USERS
        + "CREATE STREAM visits AS SELECT c.url, u.name FROM clicks c JOIN users u ON c.user = u.id;"
        + "CREATE TABLE per_name WITH (PARTITIONS = 2) AS SELECT name, COUNT(*) AS n FROM visits GROUP BY name HAVING COUNT(*) > 1;"
    )
    app, clicks, users = shop()
    visits = clicks.join(users, on={"user": "id"}).select("url", "name")
    visits.to("visits")
    visits.group_by("name").agg(F.count(F.lit(1)).alias("n")).filter(F.col("n") > 1).to("per_name", partitions=2)

    assert found == app
    assert found.describe() == app.describe()


def test_the_topics_of_a_script_are_created_when_it_starts():
    """With the partitions and settings that WITH says; results have theirs, too."""
    found = script(
        "CREATE STREAM clicks (id INT KEY, n INT) WITH (KAFKA_TOPIC = 'raw-clicks', PARTITIONS = 3, RETENTION_MS = 1000);"
        "CREATE STREAM large WITH (PARTITIONS = 2, RETENTION_MS = '5000') AS SELECT * FROM clicks WHERE n > 10;"
        "CREATE TABLE per_n WITH (CLEANUP_POLICY = 'compact,delete') AS SELECT n, COUNT(*) AS clicks FROM large GROUP BY n;"
    )
    with open_log(IN_MEMORY) as log:
        sk.run(found, log=log, engine="local", trigger="available_now").wait(60)
        topics = {name: log.topic(name) for name in log.topics()}

    assert {name: topic.partitions for name, topic in topics.items()} == {"raw-clicks": 3, "large": 2, "per_n": 3}
    assert topics["raw-clicks"].setting("retention.ms") == "1000"
    assert topics["large"].setting("retention.ms") == "5000"
    assert topics["per_n"].setting("cleanup.policy") == "compact,delete"


def test_a_script_runs():
    """Records go from the declared topic to the last result in one application."""
    found = script(
        CLICKS
        + "CREATE TABLE per_user AS SELECT user, COUNT(*) AS clicks, MAX(n) AS most FROM clicks GROUP BY user EMIT CHANGES;"
    )
    with TopologyTestDriver(found) as driver:
        driver.pipe("clicks", [{"id": n, "user": "ab"[n % 2], "url": "/", "n": n} for n in range(5)])
        assert driver.newest("per_user") == {
            "a": {"user": "a", "clicks": 3, "most": 4, "_timestamp": driver.now},
            "b": {"user": "b", "clicks": 2, "most": 3, "_timestamp": driver.now},
        }


def test_final_results_are_written_once_and_read_as_a_table():
    """EMIT FINAL writes each result when its window closes; a query over it reads a table of final results."""
    found = script(
        CLICKS
        + "CREATE TABLE hourly AS SELECT user, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY user EMIT FINAL;"
        + "CREATE TABLE busy AS SELECT * FROM hourly WHERE n > 1;"
    )
    app, clicks, _ = shop()
    counts = clicks.group_by("user").windowed_by(sk.tumbling("1 hour", grace="0 s")).agg(F.count(F.lit(1)).alias("n"))
    counts.emit("final").to("hourly")
    counts.suppress(sk.window_closes()).filter(F.col("n") > 1).to("busy")

    assert set(found.sinks) == set(app.sinks)


def test_what_is_inserted_into_a_result_is_read_with_it():
    """INSERT INTO a stream that a query makes merges both, before all queries that read it; columns get its order and types."""
    found = script(
        CLICKS
        + "CREATE STREAM other (id INT KEY, page STRING, n SMALLINT);"
        + "CREATE STREAM everything AS SELECT id, url, n FROM clicks;"
        + "CREATE STREAM large AS SELECT * FROM everything WHERE n > 5;"
        + "INSERT INTO everything SELECT id, n, page AS url FROM other;"
    )
    with TopologyTestDriver(found) as driver:
        driver.pipe("clicks", {"id": 1, "user": "a", "url": "/a", "n": 9})
        driver.pipe("other", {"id": 2, "page": "/b", "n": 8})
        expected = [{"id": 1, "url": "/a", "n": 9}, {"id": 2, "url": "/b", "n": 8}]
        assert driver.read("everything", "id", "url", "n") == expected
        assert driver.read("large", "id", "url", "n") == expected


def test_what_is_inserted_into_a_topic_is_read_by_its_topic():
    """A stream that CREATE declares is its topic, which others may write, too."""
    found = script(
        CLICKS
        + "CREATE STREAM all_clicks (id INT KEY, n INT);"
        + "INSERT INTO all_clicks SELECT id, n FROM clicks;"
        + "CREATE STREAM large AS SELECT * FROM all_clicks WHERE n > 5;"
    )
    with TopologyTestDriver(found) as driver:
        driver.pipe("clicks", {"id": 1, "user": "a", "url": "/a", "n": 9})
        driver.pipe("all_clicks", {"id": 2, "n": 7})
        assert [row["id"] for row in driver.read("large", "id")] == [1, 2]


def test_types_have_names():
    """CREATE TYPE names a type, also inside of others; a field of that name stays a field."""
    found = script(
        "CREATE TYPE address AS STRUCT<street STRING, city STRING>;"
        "CREATE STREAM people (id INT KEY, home address, others ARRAY<address>, more STRUCT<address INT, at address>);"
        "CREATE STREAM cities AS SELECT id, home.city, more.at.street, more.address FROM people;"
    )
    address = "struct<street:string,city:string>"

    assert str(found.added_topics[0].schema) == (
        f"id int, home {address}, others array<{address}>, more struct<address:int,at:{address}>"
    )


def test_event_times_and_headers():
    """TIMESTAMP names the column of the event time; HEADERS columns are those of each record."""
    found = script(
        "CREATE STREAM clicks (id INT KEY, at BIGINT, h ARRAY<STRUCT<key STRING, value BINARY>> HEADERS, trace BINARY HEADER('trace'))"
        " WITH (TIMESTAMP = 'at');"
        "CREATE STREAM traced AS SELECT id, trace, SIZE(h) AS headers, _timestamp AS clicked FROM clicks;"
    )
    with TopologyTestDriver(found) as driver:
        driver.pipe("clicks", {"id": 1, "at": 0}, headers={"trace": b"one", "other": b"x"})
        (row,) = driver.read("traced", "id", "trace", "headers", "clicked")
        assert (row["trace"], row["headers"], row["clicked"].timestamp()) == (b"one", 2, 0)


def test_formats():
    """VALUE_FORMAT reads and writes bytes; a key of several columns is JSON."""
    found = script(
        "CREATE STREAM clicks (user STRING KEY, n INT) WITH (VALUE_FORMAT = 'JSON');"
        "CREATE STREAM lines WITH (VALUE_FORMAT = 'DELIMITED', VALUE_DELIMITER = '|') AS SELECT user, n + 1 AS n FROM clicks;"
    )
    with TopologyTestDriver(found) as driver:
        driver.pipe("clicks", {"key": "a", "value": {"n": 3}})
        assert driver.log.read("lines").select(["key", "value"]).to_pylist() == [{"key": b"a", "value": b"a|4"}]


def test_tables_of_windows():
    """WINDOW_TYPE says that the keys of a topic have windows, as results of windows write them."""
    found = script(
        "CREATE TABLE hourly (user STRING PRIMARY KEY, n BIGINT) WITH (WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '1 HOUR');"
        "CREATE TABLE busy AS SELECT user, window_start, n FROM hourly WHERE n > 3;"
    )

    assert found.added_topics[0].key == ("user", "window_start", "window_end")
    sk.compile(found)


def test_settings_are_those_of_the_application():
    """SET gives the application its name, its time zone, and what becomes of failing records."""
    found = script(
        "SET 'streamkit.application' = 'shop-2'; SET 'streamkit.time.zone' = 'Europe/Berlin'; SET 'streamkit.on.error' = 'skip';"
        + CLICKS
        + "CREATE STREAM copy AS SELECT * FROM clicks;"
    )

    assert (found.name, found.time_zone, found.on_error) == ("shop-2", "Europe/Berlin", "skip")


REFUSED = {
    "SELECT * FROM clicks;": "a query without CREATE has its results on a screen",
    "INSERT INTO clicks (id) VALUES (1);": "INSERT … VALUES writes a record now",
    "DROP STREAM clicks;": "DROP belongs to `streamkit sql`",
    "SHOW STREAMS;": "SHOW belongs to `streamkit sql`",
    "CREATE STREAM copy AS SELECT * FROM click;": "there is no stream or table 'click'; there are clicks, users; did you mean 'clicks'",
    "CREATE TABLE copy AS SELECT * FROM clicks;": "makes a stream, and copy is to be a table",
    "CREATE STREAM copy AS SELECT * FROM users;": "makes a table, whose rows change, and copy is to be a stream",
    "CREATE STREAM clicks (id INT);": "there is a stream or table clicks already",
    "CREATE TABLE keyless (id INT);": "the table keyless has no key",
    "CREATE STREAM other (id INT PRIMARY KEY);": "a stream has PRIMARY KEY columns here; expected KEY",
    "CREATE STREAM other (id INT, ID STRING);": "two columns are called 'ID'",
    "CREATE STREAM other (id INTT);": "there is no type INTT; did you mean int",
    "CREATE STREAM other (id INT) WITH (PARTITION = 3);": "there is no property PARTITION; .*did you mean PARTITIONS",
    "CREATE STREAM other (id INT) WITH (PARTITIONS = 0);": "PARTITIONS is 0; expected a whole number from 1 on",
    "CREATE STREAM other (id INT) WITH (VALUE_FORMAT = 'JASON');": "there is no format 'JASON'; .*did you mean JSON",
    "CREATE STREAM other (id INT) WITH (KEY_FORMAT = 'JSON');": "KEY_FORMAT = 'JSON' is for topics of bytes",
    "CREATE STREAM other (id INT) WITH (TIMESTAMP = 'at');": "there is no column 'at'; the columns are id",
    "CREATE STREAM other (id STRING) WITH (TIMESTAMP = 'id');": "id is string; expected a column of type TIMESTAMP",
    "CREATE STREAM other (id INT) WITH (WRAP_SINGLE_VALUE = FALSE);": "cannot be done yet",
    "CREATE STREAM other (id INT) WITH (WINDOW_SIZE = '1 HOUR');": "stands without WINDOW_TYPE",
    "CREATE STREAM copy WITH (TIMESTAMP = 'n') AS SELECT * FROM clicks;": "TIMESTAMP of a result is for values in a format",
    "CREATE TYPE a AS INT; CREATE TYPE a AS STRING;": "there is a type a already",
    "CREATE STREAM other (id INT) WITH (CLEANUP_POLICY = 'compct');": "CLEANUP_POLICY is 'compct'; expected one or more of compact, delete",
    "INSERT INTO users SELECT * FROM clicks;": "users is a table",
    "INSERT INTO clicks WITH (QUERYID = 'z') SELECT * FROM clicks;": "there is no property QUERYID; there are QUERY_ID; did you mean QUERY_ID",
    "INSERT INTO clicks WITH (PARTITIONS = 7) SELECT * FROM clicks;": "there is no property PARTITIONS; there are QUERY_ID",
    "INSERT INTO clicks WITH (APPLICATION = 'a') SELECT * FROM clicks;": "APPLICATION belongs to a session",
    "INSERT INTO clicks SELECT id, url FROM clicks;": "INSERT INTO clicks lacks user and lacks n",
    "INSERT INTO clicks SELECT id, user, url, CAST(n AS STRING) AS n FROM clicks;": "n is string, and does not become int without loss",
    "CREATE STREAM a AS SELECT * FROM b; CREATE STREAM b AS SELECT * FROM a;": "is made of itself here",
    "SET 'streamkit.aplication' = 'x';": "there is no setting 'streamkit.aplication'; .*did you mean 'streamkit.application'",
    "SET 'auto.offset.reset' = 'latest';": "reads its topics from their beginning",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_script_cannot_have_is_named(text):
    """With the place in the file."""
    with pytest.raises(TopologyError, match=REFUSED[text]) as refused:
        script(CLICKS + USERS + text)
    assert "shop.sql line 3" in str(refused.value) or "shop.sql:3:" in str(refused.value)


def test_all_faults_are_told_at_once():
    """Each statement has its own; what reads a stream that could not be made adds none."""
    with pytest.raises(TopologyError) as refused:
        script(
            CLICKS
            + "CREATE STREAM one AS SELECT urll FROM clicks;\n"
            + "CREATE STREAM two AS SELECT nn FROM clicks;\n"
            + "CREATE STREAM three AS SELECT anything FROM one;\n"
        )
    told = str(refused.value)

    assert "'urll'" in told
    assert "'nn'" in told
    assert "anything" not in told


def test_a_column_that_is_missing_is_pointed_at():
    """The place is that of the word, with carets below it."""
    with pytest.raises(TopologyError) as refused:
        script(CLICKS + "CREATE STREAM copy AS\n  SELECT url,\n    urll\n  FROM clicks;")

    assert "    urll\n        ^^^^" in str(refused.value)


def test_the_engine_points_into_the_text():
    """What only a compilation finds has its place in the file, too."""
    text = CLICKS + "CREATE TABLE t AS SELECT user, COUNT(*) AS n FROM clicks GROUP BY user;"
    found = script(text)
    program = sk.compile(found)

    assert program.lines["to-t"].startswith("shop.sql:2:")
    assert program.lines["aggregate-clicks-by-user"].startswith("shop.sql:2:")


def test_a_file_is_named_after_itself(tmp_path):
    """The application has the name of the file; a file that is not there is an error."""
    (tmp_path / "shop.sql").write_text(CLICKS + "CREATE STREAM copy AS SELECT * FROM clicks;", encoding="utf-8")

    assert load_sql(tmp_path / "shop.sql").name == "shop"
    assert sk.load_sql(str(tmp_path / "shop.sql")).outputs[0].topic == "copy"
    with pytest.raises(ConfigError, match="the file of load_sql is 5; expected its path"):
        sk.load_sql(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"cannot read .*none\.sql'"):
        load_sql(tmp_path / "none.sql")


@pytest.mark.parametrize("name", ["int", "`INT`", "varchar", "Array", "timestamp"])
def test_types_that_are_there_keep_their_names(name):
    """CREATE TYPE makes no other type of a name that means one already."""
    with pytest.raises(TopologyError, match=r"is the name of a type of Spark or ksqlDB; expected another name"):
        script(f"CREATE TYPE {name} AS STRING; {CLICKS}")


def test_a_time_zone_is_checked_where_it_is_set():
    """A zone that there is not is an error at SET, and not at the first use."""
    with pytest.raises(TopologyError, match=r"streamkit.time.zone is 'Mars': there is no time zone 'Mars'"):
        script(f"SET 'streamkit.time.zone' = 'Mars'; {CLICKS}")
    found = script(f"SET 'streamkit.time.zone' = 'Europe/Berlin'; {CLICKS} CREATE STREAM s AS SELECT * FROM clicks;")
    assert found.time_zone == "Europe/Berlin"


@pytest.mark.parametrize("text", ["", "-- nothing", CLICKS])
def test_a_file_without_a_query_says_so(tmp_path, text):
    """What declares topics alone runs nothing; the message names the statements that do."""
    (tmp_path / "shop.sql").write_text(text)
    with pytest.raises(ConfigError, match=r"shop.sql' has no query that goes on.* expected CREATE STREAM … AS SELECT"):
        load_sql(tmp_path / "shop.sql")


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    """An editor may begin a file with one."""
    (tmp_path / "shop.sql").write_text(f"{CLICKS} CREATE STREAM s AS SELECT * FROM clicks;", encoding="utf-8-sig")
    assert load_sql(tmp_path / "shop.sql") == script(f"{CLICKS} CREATE STREAM s AS SELECT * FROM clicks;")


@pytest.mark.parametrize("said", ["APPLICATION = 'shop'", "BACKFILL = true"])
def test_what_belongs_to_a_session_says_so(said: str) -> None:
    """A property of the queries that a session keeps is refused in a file, with what a file has in its place."""
    text = f"CREATE STREAM clicks (who STRING, n INT); CREATE STREAM large WITH ({said}) AS SELECT who FROM clicks WHERE n > 1;"

    with pytest.raises(StreamKitError, match=f"{said.split(maxsplit=1)[0]} belongs to a session.*streamkit.application"):
        topology_of(text, "shop")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM s (k INT KEY, t STRING) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', {0});",
        "CREATE STREAM s (k INT KEY, t STRING) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON'); CREATE STREAM r WITH ({0}) AS SELECT * FROM s;",
    ],
)
def test_the_pattern_of_times_needs_their_column(statement: str) -> None:
    """As in a session, in the ksql dialect, where a pattern is known; with the column it is right."""
    said = "TIMESTAMP_FORMAT = 'yyyy-MM-dd'"
    text = f"SET 'streamkit.sql.dialect' = 'ksql'; {statement}"
    with pytest.raises(TopologyError, match="and there is no TIMESTAMP; expected both, or none of them") as refused:
        script(text.format(said) + " CREATE STREAM o AS SELECT * FROM s;")
    assert f"shop.sql:1:{text.format(said).index('TIMESTAMP_FORMAT') + 1}" in str(refused.value)
    assert script(text.format(f"TIMESTAMP = 't', {said}") + " CREATE STREAM o AS SELECT * FROM s;").outputs
