"""Queries that go on, and PRINT: rows as they come, until somebody ends it or a limit is reached."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import SchemaError, SqlError, StreamKitError, TopicNotFoundError
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until

CLICKS = "CREATE STREAM clicks (who STRING KEY, page STRING, n INT)"


def taken(rows, count):
    """So many rows of a subscription, as they come."""
    found = []
    for batch in rows:
        found += batch.to_pylist()
        if len(found) >= count:
            break
    return found


def send(log, *rows, topic="clicks"):
    with log.producer() as producer:
        for who, page, n in rows:
            producer.send(topic, {"who": who, "page": page, "n": n})


@pytest.fixture
def clicks(sql, log):
    sql.execute(f"{CLICKS}; INSERT INTO clicks VALUES ('old', 'home', 0)")
    return log


FAULTS = {
    "SELECT nope FROM clicks EMIT CHANGES": "there is no column 'NOPE'",
    "SELECT who FROM clickz EMIT CHANGES": "there is no stream, table or topic 'CLICKZ'; there are clicks, more; did you mean 'clicks'?",
    "SELECT NOSUCH(who) FROM clicks EMIT CHANGES LIMIT 1": "has no function",
    "SELECT page, SUM(nope) FROM clicks GROUP BY page EMIT CHANGES": "there is no column 'NOPE'",
    "SELECT page, COUNT(*) FROM clickz GROUP BY page EMIT CHANGES": "there is no stream, table or topic 'CLICKZ'; there are clicks, more; did you mean",
    "SELECT who FROM clicks EMIT FINAL": "EMIT FINAL",
    "SELECT c.who FROM clicks c JOIN clicks d WITHIN 1 HOUR ON c.who = d.whom EMIT CHANGES": "d has no column 'WHOM'",
    "EXPLAIN SELECT page, SUM(nope) FROM clicks GROUP BY page EMIT CHANGES": "there is no column 'NOPE'",
}


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize("text", FAULTS)
def test_the_check_of_a_text_is_that_of_queries_that_go_on_too(sql, clicks, dialect, text):
    """A wrong one is a fault at its place among those of other statements, and nothing of its text is done."""
    sql.execute(f"SET 'streamkit.sql.dialect' = '{dialect}'")
    before = clicks.topics(), clicks.end_offsets("clicks")
    with pytest.raises(SqlError) as caught:
        sql.execute(
            f"INSERT INTO clicks (who) VALUES ('ann');\nCREATE STREAM more (k INT KEY, v INT);\n{text};\nDROP STREAM gone"
        )

    (own, other) = caught.value.faults
    assert FAULTS[text].lower() in own.message.lower() and own.at.line == 3
    assert other.message.lower().startswith("there is no stream or table 'gone'") and other.at.line == 4
    assert (clicks.topics(), clicks.end_offsets("clicks")) == before


def test_a_query_that_goes_on_is_checked_with_what_its_text_makes(sql, log):
    """It reads a stream, a type and a column of a statement before it; one that is dropped before it is none any more."""
    made = "CREATE TYPE place AS STRUCT<x INT>; CREATE STREAM s (k INT KEY, v INT); ALTER STREAM s ADD COLUMN w INT;"
    results = sql.execute(
        f"{made} SELECT CAST(STRUCT(v) AS place) AS p FROM s EMIT CHANGES;"
        "SELECT w, count(*) AS n, CAST(STRUCT(count(*)) AS place) AS p FROM s GROUP BY w EMIT CHANGES; INSERT INTO s VALUES (1, 2, 3)"
    )
    assert [row["p"] for row in taken(results[3].subscription, 1)] == [{"x": 2}]
    assert [(row["w"], row["n"], row["p"]) for row in taken(results[4].subscription, 1)] == [(3, 1, {"x": 1})]
    with pytest.raises(SqlError, match="there is no stream, table or topic 's'"):
        sql.execute("DROP STREAM s DELETE TOPIC; SELECT v FROM s EMIT CHANGES")


def test_rows_come_from_the_moment_of_the_query_on(sql, clicks):
    """What was sent before is left out, and nothing that is sent behind the call, in whichever partition it is the first."""
    with sql.subscribe("SELECT who, n + 1 AS next FROM clicks WHERE page = 'home' EMIT CHANGES") as rows:
        send(clicks, *[(f"w{number}", "home", number) for number in range(20)], ("x", "cart", 1))
        found = taken(rows, 20)

    assert sorted(row["next"] for row in found) == list(range(1, 21))
    assert rows.schema == pa.schema([("who", pa.string()), ("next", pa.int32())])


def test_records_that_wait_are_merged_by_their_times(sql, log):
    """More records than a poll gives, in several partitions: none of them is late, and a group has them in the order of their times."""
    count = 150_000
    sql.execute("CREATE STREAM many (k INT KEY, n INT) WITH (PARTITIONS = 4, RETENTION_MS = -1)")
    sql.execute("SET 'auto.offset.reset' = 'earliest'")
    numbers = pa.array(range(count), pa.int32())
    times = pa.array(range(count), pa.int64()).cast(pa.timestamp("ms", "UTC"))
    with log.producer() as producer:
        producer.send_batch("many", pa.table({"k": numbers, "n": numbers, "_timestamp": times}))
    window = "WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS)"
    with sql.subscribe(f"SELECT 'all' AS g, count(*) AS c, last(n) AS l FROM many {window} GROUP BY 'all' EMIT FINAL") as rows:
        found = taken(rows, 14)
    assert [(row["c"], row["l"]) for row in found] == [(10_000, end - 1) for end in range(10_000, count, 10_000)]


def test_from_the_beginning(sql, clicks):
    """`auto.offset.reset` says that streams are read from their beginning."""
    sql.execute("SET 'auto.offset.reset' = 'earliest'")
    with sql.subscribe("SELECT who FROM clicks EMIT CHANGES") as rows:
        send(clicks, ("new", "home", 1))
        assert sorted(row["who"] for row in taken(rows, 2)) == ["new", "old"]


@pytest.mark.parametrize(
    "text",
    ["SELECT who, n FROM clicks EMIT CHANGES", "SELECT who, count(*) AS n FROM clicks GROUP BY who EMIT CHANGES", "PRINT clicks"],
)
@pytest.mark.parametrize("again", ["", CLICKS, "CREATE STREAM clicks (who STRING KEY, n ARRAY<INT>)"])
def test_a_topic_that_is_deleted_ends_its_queries(sql, clicks, text, again):
    """No row of a topic that got the name afterwards is given, and nobody waits for a topic that is gone."""
    (result,) = sql.execute(text)
    rows = result.subscription
    send(clicks, ("ann", "home", 1))
    taken(rows, 1)
    sql.execute(f"DROP STREAM clicks DELETE TOPIC; {again}")
    if again:
        sql.execute("INSERT INTO clicks (who) VALUES ('bob')")

    now = "a new one has its name" if again else "there is none of that name now"
    with pytest.raises(TopicNotFoundError, match=f"the topic clicks was deleted, and {now}; the query that reads it has ended"):
        taken(rows, 1)
    assert rows.is_closed


@pytest.mark.parametrize(
    "text",
    ["SELECT who, n FROM clicks EMIT CHANGES", "SELECT who, sum(n) AS n FROM clicks GROUP BY who EMIT CHANGES", "PRINT clicks"],
)
def test_a_column_of_another_type_ends_its_queries(sql, clicks, text):
    """Results have the types that they had at first; more columns change nothing."""
    (result,) = sql.execute(text)
    clicks.alter_topic("clicks", schema="who string, page string, n int, more int")
    sql.execute("INSERT INTO clicks (who, n) VALUES ('ann', 1)")
    assert taken(result.subscription, 1)[0]["n"] == 1
    clicks.alter_topic("clicks", schema="who string, page string, n bigint, more int")
    with clicks.producer() as producer:
        producer.send("clicks", {"who": "ann", "page": "home", "n": 5_000_000_000, "more": 1})

    with pytest.raises(
        SchemaError, match="the column n of the topic clicks is bigint now, and was int; the query that reads it has ended"
    ):
        taken(result.subscription, 1)
    assert result.subscription.is_closed


def test_groups_and_joins_go_on(sql, clicks):
    """A query with a store runs in memory: counts go up from the moment of the query, tables are there with their rows."""
    sql.execute(
        "CREATE TABLE users (who STRING PRIMARY KEY, city STRING); INSERT INTO users (_timestamp, who, city) VALUES (0, 'ann', 'Oslo')"
    )
    topics = clicks.topics(internal=True)
    with sql.subscribe("SELECT who, count(*) AS n FROM clicks GROUP BY who EMIT CHANGES") as counts:
        send(clicks, ("ann", "home", 1))
        assert taken(counts, 1)[0] | {"_deleted": False} == {"who": "ann", "n": 1, "_deleted": False}
        send(clicks, ("ann", "cart", 2))
        assert taken(counts, 1)[0]["n"] == 2
    with sql.subscribe("SELECT c.page, u.city FROM clicks c JOIN users u ON c.who = u.who EMIT CHANGES") as joined:
        send(clicks, ("ann", "cart", 1))
        (row,) = taken(joined, 1)
        assert (row["page"], row["city"]) == ("cart", "Oslo")
    assert clicks.topics(internal=True) == topics  # nothing is left


@pytest.mark.parametrize("reset", ["", "SET 'auto.offset.reset' = 'latest'; "])
@pytest.mark.parametrize("format", ["NATIVE", "JSON", "DELIMITED"])
@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_a_table_begins_with_its_rows(sql, log, dialect, format, reset):
    """In either dialect and every format: alone, behind WHERE, with its times, and beside a stream, of which only what comes now is read."""
    sql.execute(
        f"SET 'streamkit.sql.dialect' = '{dialect}'; {reset}CREATE STREAM s (k STRING KEY, v INT) WITH (VALUE_FORMAT = '{format}', PARTITIONS = 1);"
        f"CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (VALUE_FORMAT = '{format}', PARTITIONS = 1);"
        "INSERT INTO t VALUES ('a', 1), ('b', 2); INSERT INTO s VALUES ('a', 8)"
    )
    texts = {
        "SELECT v FROM t EMIT CHANGES": [1, 2],
        "SELECT v + 1 AS v FROM t WHERE v > 0 EMIT CHANGES": [2, 3],
        "SELECT s.v * 10 + t.v AS v FROM s JOIN t ON s.k = t.k EMIT CHANGES": [91],
        **({"SELECT v, ROWTIME AS at FROM t EMIT CHANGES": [1, 2]} if dialect == "ksql" else {}),
    }
    for text, expected in texts.items():
        with sql.subscribe(text) as rows:
            sql.execute("INSERT INTO s VALUES ('a', 9)")
            found = taken(rows, len(expected))
        name = next(one for one in found[0] if one.lower() == "v")
        assert sorted(row[name] for row in found) == expected


def test_a_table_says_which_keys_are_gone(sql, log):
    """Rows of a table come with those that are there; a deletion is a row that says so."""
    sql.execute("CREATE TABLE users (who STRING PRIMARY KEY, city STRING); INSERT INTO users VALUES ('ann', 'Oslo')")
    with sql.subscribe("SELECT * FROM users EMIT CHANGES") as rows:
        assert [(row["who"], row["_deleted"]) for row in taken(rows, 1)] == [("ann", False)]
        sql.execute("DELETE FROM users WHERE who = 'ann'")
        assert [(row["who"], row["_deleted"]) for row in taken(rows, 1)] == [("ann", True)]


def test_a_limit_ends_it(sql, clicks):
    """So many rows, and no more; then it is closed."""
    with sql.subscribe("SELECT who FROM clicks EMIT CHANGES LIMIT 3") as rows:
        send(clicks, *[("ann", "home", number) for number in range(9)])
        assert sum(batch.num_rows for batch in rows) == 3
        assert rows.is_closed and rows.poll(0.0) is None


def test_another_thread_may_close_it(sql, clicks):
    """An iteration ends when it is closed, by whoever; the end of the session closes all."""
    rows = sql.subscribe("SELECT who FROM clicks EMIT CHANGES")
    other = sql.subscribe("SELECT who, count(*) AS n FROM clicks GROUP BY who EMIT CHANGES")
    ended = threading.Event()

    def follow():
        for _ in rows:
            pass
        ended.set()

    thread = threading.Thread(target=follow)
    thread.start()
    rows.close()
    wait_until(ended.is_set)
    thread.join()
    sql.close()
    assert other.is_closed


def test_an_error_of_a_row_ends_it(sql, clicks):
    """A row that makes an expression fail raises, and the query is over."""
    with sql.subscribe("SELECT 1 / n AS x FROM clicks EMIT CHANGES") as rows:
        send(clicks, ("ann", "home", 0))
        with pytest.raises(StreamKitError, match="zero"):
            list(rows)
        assert rows.is_closed


def test_which_queries_go_on(sql, clicks):
    """`subscribe` wants EMIT, `query` wants none."""
    with pytest.raises(StreamKitError, match="expected EMIT CHANGES"):
        sql.subscribe("SELECT who FROM clicks")
    with pytest.raises(StreamKitError, match="expected no EMIT"):
        sql.query("SELECT who FROM clicks EMIT CHANGES")


def printed(sql, text, count):
    (result,) = sql.execute(text)
    with result.subscription as rows:
        return taken(rows, count)


def test_print(sql, clicks):
    """The records of a topic with their times and places; FROM BEGINNING, every n-th by INTERVAL, so many by LIMIT."""
    send(clicks, *[("ann", f"p{number}", number) for number in range(10)])

    (first,) = printed(sql, "PRINT clicks FROM BEGINNING LIMIT 1", 1)
    assert set(first) == {"_timestamp", "_partition", "_offset", "_deleted", "_headers", "who", "page", "n"}
    assert len(printed(sql, "PRINT 'clicks' FROM BEGINNING LIMIT 7", 7)) == 7
    (result,) = sql.execute("PRINT clicks FROM BEGINNING INTERVAL 5 LIMIT 2")
    with result.subscription as rows:
        assert sum(batch.num_rows for batch in rows) == 2
    (result,) = sql.execute("PRINT clicks")
    with result.subscription as rows:
        send(clicks, ("zoe", "later", 1))
        assert [row["who"] for row in taken(rows, 1)] == ["zoe"]


def test_print_of_bytes_and_names(sql, log):
    """Values are shown as their format reads them; a stream's name stands for its topic, and any other is told with the nearest."""
    sql.execute(
        "CREATE STREAM texts (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'raw', VALUE_FORMAT = 'JSON'); INSERT INTO texts VALUES ('a', 1)"
    )

    (row,) = printed(sql, "PRINT texts FROM BEGINNING LIMIT 1", 1)
    assert (row["key"], row["value"]) == ("a", '{"v": 1}')
    with pytest.raises(SqlError, match="there is no topic 'rawe'; did you mean 'raw'"):
        sql.execute("PRINT rawe")


def test_print_of_what_cannot_be_read(log):
    """A record that cannot be read is shown by its bytes, and those around it as always; keys and values each by themselves."""
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as ksql:
        ksql.execute(
            "CREATE STREAM S (K INT KEY, V INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'AVRO', KEY_FORMAT = 'JSON', PARTITIONS = 1);"
            "INSERT INTO S VALUES (1, 1), (2, 2), (3, 3);"
        )
        with log.producer() as producer:
            for key, value in ((b"4", b"\xff"), (b"{x", b"{y"), (b"{z", None)):
                producer.send("s", {"key": key, "value": value})
        ksql.execute("INSERT INTO S VALUES (7, 7)")
        rows = printed(ksql, "PRINT S FROM BEGINNING LIMIT 7", 7)

    assert [(row["key"], row["value"]) for row in rows] == [
        ("1", '{"V": 1}'), ("2", '{"V": 2}'), ("3", '{"V": 3}'), ("4", "ff"), ("{x", "{y"), ("{z", None), ("7", '{"V": 7}'),
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_aggregates_of_all_rows(clicks, sql, dialect):
    """Aggregates without GROUP BY are those of one group of all rows, as in a query that is run once, also by windows."""
    sql.execute(f"SET 'streamkit.sql.dialect' = '{dialect}'; SET 'auto.offset.reset' = 'earliest'")
    send(clicks, ("ann", "home", 1), ("bob", "cart", 2))
    for rest in ("", " WINDOW TUMBLING (SIZE 1000 DAYS)", " HAVING COUNT(*) = 3"):
        with sql.subscribe(f"SELECT COUNT(*) AS c, SUM(`n`) AS s FROM clicks{rest} EMIT CHANGES") as rows:
            names = {name.lower(): value for name, value in taken(rows, 1)[-1].items()}
            assert (names["c"], names["s"]) == (3, 3)
    with pytest.raises(StreamKitError, match="neither grouped by nor inside of an aggregate"):
        sql.subscribe("SELECT `who`, COUNT(*) AS c FROM clicks EMIT CHANGES")


def test_a_limit_counts_what_is_given(clicks, sql):
    """Deletions are rows that LIMIT counts, unless they are left out."""
    sql.execute("CREATE TABLE users (id STRING PRIMARY KEY, age INT) WITH (PARTITIONS = 1)")
    sql.execute("INSERT INTO users VALUES ('a', 1), ('b', 2), ('c', 3), ('d', 4), ('e', 5)")
    query = "SELECT id, age FROM users WHERE age > 2 EMIT CHANGES LIMIT 2"
    with sql.subscribe(query) as rows:
        assert len([one for batch in rows for one in batch.to_pylist()]) == 2
    with sql.subscribe(query) as rows:
        rows.leave_out_deletions()
        found = [one for batch in rows for one in batch.to_pylist()]
    assert [one["_deleted"] for one in found] == [False, False] and {one["id"] for one in found} < {"c", "d", "e"}


FOLLOWED = """
    CREATE STREAM clicks (who STRING KEY, page STRING, n INT, at TIMESTAMP, tags ARRAY<STRING>, place STRUCT<x INT>, m MAP<STRING, INT>)
        WITH (PARTITIONS = 1, RETENTION_MS = -1);
    CREATE TABLE users (who STRING PRIMARY KEY, age INT);
    CREATE TABLE totals AS SELECT page, COUNT(*) AS c, COLLECT_LIST(n) AS l FROM clicks GROUP BY page;
    CREATE TABLE largest AS SELECT page, MAX(n) AS c FROM clicks GROUP BY page;
    CREATE TABLE daily AS SELECT page, COUNT(*) AS c FROM clicks WINDOW TUMBLING (SIZE 1 DAY) GROUP BY page;
    CREATE STREAM next AS SELECT who, n + 1 AS c, COALESCE(n, 0) AS d FROM clicks;
    INSERT INTO clicks (_timestamp, who, page) VALUES (1000, 'eve', 'old');
    INSERT INTO clicks (who, page, n, tags) VALUES ('ann', 'home', 1, ARRAY('x')), ('bob', 'cart', 2, ARRAY('y', 'z'));
    INSERT INTO users VALUES ('ann', 30);
    SET 'auto.offset.reset' = 'earliest'
"""
QUERIES_THAT_GO_ON = (
    "SELECT * FROM totals EMIT CHANGES",
    "SELECT c FROM totals EMIT CHANGES",
    "SELECT c + 1 AS x FROM totals EMIT CHANGES",
    "SELECT page, c FROM totals WHERE c > 0 EMIT CHANGES",
    "SELECT page, c AS _c, l FROM totals EMIT CHANGES LIMIT 1",
    "SELECT * FROM largest EMIT CHANGES",
    "SELECT * FROM daily EMIT CHANGES",
    "SELECT window_start AS s, window_end AS e, c FROM daily EMIT CHANGES",
    "SELECT * FROM users EMIT CHANGES",
    "SELECT * FROM clicks EMIT CHANGES",
    "SELECT *, _timestamp, _offset, _partition, _headers FROM clicks EMIT CHANGES",
    "SELECT * FROM next EMIT CHANGES",
    "SELECT 1 AS one, TRUE AS yes, 'x' AS text, who FROM clicks EMIT CHANGES",
    "SELECT who, ARRAY(1, 2) AS a, STRUCT(n AS x, 1 AS y) AS s, MAP('k', 1) AS m FROM clicks EMIT CHANGES",
    "SELECT who, EXPLODE(tags) AS tag FROM clicks EMIT CHANGES",
    "SELECT who, n FROM clicks PARTITION BY n EMIT CHANGES",
    "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page EMIT CHANGES",
    "SELECT page, COUNT(*) AS n, ARRAY(COUNT(*)) AS a FROM clicks GROUP BY page HAVING COUNT(*) > 0 EMIT CHANGES",
    "SELECT page, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 DAY) GROUP BY page EMIT CHANGES",
    "SELECT page, COUNT(*) AS n, window_start, window_end FROM clicks WINDOW SESSION (1 HOUR) GROUP BY page EMIT CHANGES",
    "SELECT page, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 DAY, GRACE PERIOD 0 SECONDS) GROUP BY page EMIT FINAL",
    "SELECT COUNT(*) AS n FROM clicks EMIT CHANGES",
    "SELECT t.page, t.c, m.c AS d FROM totals t JOIN largest m ON t.page = m.page EMIT CHANGES",
    "SELECT t.page, t.c, m.c AS d FROM totals t FULL JOIN largest m ON t.page = m.page EMIT CHANGES",
    "SELECT c.who, u.age FROM clicks c LEFT JOIN users u ON c.who = u.who EMIT CHANGES",
    "SELECT c.page, t.c FROM clicks c JOIN totals t ON c.page = t.page EMIT CHANGES",
    "SELECT c.who, d.c FROM clicks c JOIN next d WITHIN 1 DAY ON c.who = d.who EMIT CHANGES",
    "PRINT clicks FROM BEGINNING",
    "PRINT totals FROM BEGINNING",
)


@pytest.fixture(scope="module")
def followed():
    """A session whose queries have filled streams and tables."""
    with sk.open_log(":memory:") as log, SqlSession(log, engine="local") as session:
        session.execute(FOLLOWED)
        assert session.catch_up(60)
        yield session


@pytest.mark.parametrize("text", QUERIES_THAT_GO_ON)
def test_batches_have_the_columns_that_are_announced(followed, text):
    """Whatever makes them: so they are one table, all of whose columns may be null, as deletions have them; also once it is closed."""
    (result,) = followed.execute(text)
    with result.subscription as rows:
        announced = rows.schema
        batch = next(one for one in iter(lambda: rows.poll(10.0), None) if one.num_rows)
        assert pa.Table.from_batches([batch], announced).num_rows
        assert all(field.nullable for field in announced)
    assert rows.schema == announced == batch.schema
