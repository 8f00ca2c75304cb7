"""Tests in SQL: what an assertion sees, and what a test says that fails."""

from __future__ import annotations

import pytest

from streamkit.errors import StreamKitError, TopologyError
from streamkit.testing.sql_test import read_sql_tests

CLICKS = "CREATE STREAM clicks (who STRING KEY, n INT);\n"
DIALECT = "streamkit.sql.dialect"
KSQL = {DIALECT: "ksql"}


@pytest.fixture
def run(tmp_path):
    """Runs all tests of a text; the error of the first that fails."""

    def tested(text, **settings):
        file = tmp_path / "shop.sql"
        file.write_text(text)
        for test in read_sql_tests(file):
            test.run({name.replace("_", "."): value for name, value in settings.items()})

    return tested


def failure(run, text, **settings):
    with pytest.raises(StreamKitError) as caught:
        run(text, **settings)
    return caught.value


HOLD = {
    "each result of an aggregate": """
        CREATE TABLE totals AS SELECT who, sum(n) AS s FROM clicks GROUP BY who;
        INSERT INTO clicks VALUES ('ann', 1), ('ann', 2), ('bob', 5);
        ASSERT VALUES totals (who, s) VALUES ('ann', 1);
        ASSERT VALUES totals (who, s) VALUES ('ann', 3);
        INSERT INTO clicks VALUES ('ann', 4);
        ASSERT VALUES totals (s, who) VALUES (5, 'bob');
        ASSERT VALUES totals VALUES ('ann', 7);
    """,
    "a query behind a query": """
        CREATE STREAM large AS SELECT who, n * 10 AS m FROM clicks WHERE n > 1;
        CREATE STREAM larger AS SELECT who, m + 1 AS m FROM large;
        INSERT INTO clicks VALUES ('ann', 1), ('ann', 2);
        ASSERT VALUES larger (who, m) VALUES ('ann', 21);
    """,
    "rows in the order of the statements": """
        CREATE TABLE users (id STRING PRIMARY KEY, city STRING);
        CREATE STREAM o AS SELECT c.who, u.city FROM clicks c LEFT JOIN users u ON c.who = u.id;
        INSERT INTO clicks (who, n, _timestamp) VALUES ('ann', 1, 5);
        INSERT INTO users (id, city, _timestamp) VALUES ('ann', 'Bonn', 0);
        INSERT INTO clicks (who, n, _timestamp) VALUES ('ann', 2, 6);
        ASSERT VALUES o (who, city) VALUES ('ann', NULL);
        ASSERT VALUES o (who, city, _timestamp) VALUES ('ann', 'Bonn', 6);
    """,
    "deletions": """
        CREATE TABLE users (id STRING PRIMARY KEY, city STRING);
        CREATE TABLE inland AS SELECT id, city FROM users WHERE city <> 'Kiel';
        INSERT INTO users VALUES ('ann', 'Bonn'), ('ann', 'Kiel'), ('ann', 'Ulm');
        DELETE FROM users WHERE id = 'ann';
        ASSERT VALUES inland (id, city) VALUES ('ann', 'Bonn');
        ASSERT NULL VALUES inland (id) KEY ('ann');
        ASSERT VALUES inland (id, city) VALUES ('ann', 'Ulm');
        ASSERT NULL VALUES inland KEY ('ann');
        ASSERT VALUES users VALUES ('ann', 'Bonn');
    """,
    "windows, and final results": """
        CREATE TABLE t AS SELECT who, count(*) AS c FROM clicks WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY who EMIT FINAL;
        INSERT INTO clicks (who, n, _timestamp) VALUES ('ann', 1, 1000), ('ann', 2, 2000);
        INSERT INTO clicks (who, n, _timestamp) VALUES ('bob', 1, 20000);
        ASSERT VALUES t (who, window_start, window_end, c) VALUES ('ann', 0, 10000, 2);
    """,
    "a changed query": """
        CREATE STREAM o AS SELECT who, n FROM clicks;
        INSERT INTO clicks VALUES ('ann', 1);
        CREATE OR REPLACE STREAM o AS SELECT who, n + 100 AS n FROM clicks;
        INSERT INTO clicks VALUES ('ann', 2);
        ASSERT VALUES o VALUES ('ann', 1);
        ASSERT VALUES o VALUES ('ann', 102);
    """,
    "a paused query": """
        CREATE STREAM o AS SELECT who, n FROM clicks;
        PAUSE CSAS_O_1;
        INSERT INTO clicks VALUES ('ann', 1);
        RESUME CSAS_O_1;
        INSERT INTO clicks VALUES ('ann', 2);
        ASSERT VALUES o VALUES ('ann', 1);
        ASSERT VALUES o VALUES ('ann', 2);
    """,
    "all records, of a changed query that begins again": """
        CREATE TABLE o AS SELECT who, sum(n) AS s FROM clicks GROUP BY who;
        INSERT INTO clicks VALUES ('ann', 1), ('ann', 2);
        CREATE OR REPLACE TABLE o WITH (BACKFILL = true) AS SELECT n, count(*) AS c FROM clicks GROUP BY n;
        ASSERT TABLE o (n INT PRIMARY KEY, c BIGINT);
        ASSERT VALUES o (n, c) VALUES (1, 1);
    """,
    "numbers and nested values": """
        CREATE STREAM d (a ARRAY<INT>, m MAP<STRING, DOUBLE>, x DOUBLE, p DECIMAL(5, 2)) WITH (VALUE_FORMAT = 'JSON');
        INSERT INTO d VALUES (array(1, 2), map('a', 0.5), double('NaN'), 1.5);
        ASSERT VALUES d VALUES (array(1, 2), map('a', 0.5), double('NaN'), 1.5);
    """,
    "maps in any order": """
        CREATE STREAM d (m MAP<STRING, INT>, a ARRAY<STRUCT<m MAP<STRING, DOUBLE>>>) WITH (VALUE_FORMAT = 'JSON');
        INSERT INTO d VALUES (map('a', 1, 'b', 2), array(named_struct('m', map('x', 1.5, 'y', double('NaN')))));
        ASSERT VALUES d VALUES (map('b', 2, 'a', 1), array(named_struct('m', map('y', double('NaN'), 'x', 1.5))));
    """,
    "a topic that is made again": """
        CREATE STREAM o AS SELECT who, n FROM clicks;
        INSERT INTO clicks VALUES ('ann', 1), ('ann', 2);
        ASSERT VALUES o VALUES ('ann', 1);
        DROP STREAM o DELETE TOPIC;
        CREATE STREAM o AS SELECT who, n FROM clicks;
        INSERT INTO clicks VALUES ('bob', 3);
        ASSERT VALUES o VALUES ('ann', 1);
        ASSERT VALUES o VALUES ('ann', 2);
        ASSERT VALUES o VALUES ('bob', 3);
    """,
    "a loop that ends": """
        CREATE STREAM d AS SELECT who, n + 1 AS n FROM clicks WHERE n < 30;
        INSERT INTO clicks SELECT who, n FROM d;
        INSERT INTO clicks VALUES ('ann', 28);
        ASSERT VALUES d VALUES ('ann', 29);
        ASSERT VALUES d VALUES ('ann', 30);
    """,
    "queries of one application": """
        CREATE STREAM large WITH (APPLICATION = 'shop') AS SELECT who, n FROM clicks WHERE n > 1;
        CREATE TABLE totals WITH (APPLICATION = 'shop') AS SELECT who, sum(n) AS s FROM large GROUP BY who;
        INSERT INTO clicks VALUES ('ann', 1), ('ann', 2), ('ann', 3);
        ASSERT VALUES large VALUES ('ann', 2);
        ASSERT VALUES totals VALUES ('ann', 2);
        ASSERT VALUES totals VALUES ('ann', 5);
    """,
    "two applications at once": """
        CREATE STREAM a WITH (APPLICATION = 'one') AS SELECT who, n FROM clicks;
        CREATE STREAM b WITH (APPLICATION = 'other') AS SELECT who, n + 1 AS n FROM a;
        CREATE STREAM c WITH (APPLICATION = 'one') AS SELECT who, n + 2 AS n FROM a;
        INSERT INTO clicks VALUES ('ann', 1);
        ASSERT VALUES b VALUES ('ann', 2);
        ASSERT VALUES c VALUES ('ann', 3);
    """,
    "a name that is given to another topic": """
        CREATE STREAM o (n INT) WITH (KAFKA_TOPIC = 'first', VALUE_FORMAT = 'JSON');
        INSERT INTO o VALUES (1);
        ASSERT VALUES o VALUES (1);
        DROP STREAM o;
        CREATE STREAM o (n INT) WITH (KAFKA_TOPIC = 'second', VALUE_FORMAT = 'JSON');
        INSERT INTO o VALUES (2);
        ASSERT VALUES o VALUES (2);
    """,
}


@pytest.mark.parametrize("name", HOLD)
def test_what_holds(run, name):
    """Assertions see the records of a stream or table one after the other, as the statements before them have left them."""
    run(CLICKS + HOLD[name])


FAIL = {
    "another value": (
        "ASSERT VALUES o (who, n) VALUES ('ann', 2)",
        "the next record of o is who = 'ann', n = 1, _timestamp = 2020-01-01T",
    ),
    "another key": ("ASSERT VALUES o (who) VALUES ('bob')", "expected who = 'bob'"),
    "no record": (
        "ASSERT VALUES o VALUES ('ann', 1);\nASSERT VALUES o VALUES ('ann', 1)",
        "o has no more records; expected who = 'ann', n = 1",
    ),
    "no deletion": ("ASSERT NULL VALUES o KEY ('ann')", "expected a deletion of who = 'ann'"),
    "no column": ("ASSERT VALUES o (whom) VALUES ('ann')", "o has no column 'whom'; it has who, n; did you mean 'who'?"),
    "no stream": ("ASSERT VALUES oo (who) VALUES ('ann')", "there is no stream or table 'oo'; there are clicks, o"),
    "a column twice": ("ASSERT VALUES o (who, n, N) VALUES ('ann', 2, 1)", "the column n is there twice"),
    "too many values": ("ASSERT VALUES o (who) VALUES ('ann', 1)", "2 values for 1 columns; expected as many"),
    "another time": ("ASSERT VALUES o (_timestamp) VALUES (5)", "expected _timestamp = 1970-01-01T00:00:00.005000+00:00"),
    "a question": ("SELECT * FROM o", "a test creates, inserts and asserts"),
    "a declaration": ("ASSERT STREAM o (who STRING KEY)", "the columns of o are who string key, n int; expected who string key"),
}


@pytest.mark.parametrize("name", FAIL)
def test_what_does_not_hold(run, name):
    """The error says both, at the line of the statement."""
    statement, message = FAIL[name]
    text = f"{CLICKS}CREATE STREAM o AS SELECT who, n FROM clicks;\nINSERT INTO clicks VALUES ('ann', 1);\n{statement};\n"
    error = failure(run, text)
    assert message in str(error)
    assert f"shop.sql:{4 + statement.count(chr(10))}:" in str(error)


def test_a_query_that_fails(run):
    """What ends a query ends the test, with the place in the query's text."""
    error = failure(run, f"{CLICKS}CREATE STREAM o AS SELECT who, 1 / n AS q FROM clicks;\nINSERT INTO clicks VALUES ('ann', 0);")
    assert "divi" in str(error).lower()


def test_tests_of_a_file(tmp_path):
    """A mark begins a test on an empty log; what is before the first mark begins each of them, and lines are those of the file."""
    file = tmp_path / "a.sql"
    file.write_text(
        f"{CLICKS}--@test: one\nINSERT INTO clicks VALUES ('ann', 1);\nASSERT VALUES clicks VALUES ('ann', 1);\n"
        "--@test: two\nASSERT VALUES clicks VALUES ('ann', 1);\n"
        "--@test: three\n--@expected.message: there is no stream\nCREATE STREAM x AS SELECT * FROM nothing;\n"
        "--@test: four\n--@expected.message: there is no stream\nASSERT TOPIC clicks;\n"
        "--@test: five\n--@expected.message: there is no cat\nCREATE STREAM x AS SELECT * FROM nothing;\n"
    )
    one, two, three, four, five = read_sql_tests(file)
    assert [test.name for test in (one, two, three, four, five)] == ["one", "two", "three", "four", "five"]
    one.run({})
    with pytest.raises(TopologyError, match=r"a\.sql:6:1"):
        two.run({})
    three.run({})
    with pytest.raises(TopologyError, match="no statement has failed; expected the message 'there is no stream'"):
        four.run({})
    with pytest.raises(StreamKitError, match="there is no stream or table 'nothing'"):
        five.run({})


def test_a_file_without_marks(tmp_path):
    """It is one test, called as the file, which may have to fail, too."""
    file = tmp_path / "shop.sql"
    file.write_text("--@expected.message: no stream\nCREATE STREAM x AS SELECT * FROM nothing;\n")
    (test,) = read_sql_tests(file)
    assert test.name == "shop"
    test.run({})


LOOPS = {
    "of two queries": (
        "CREATE STREAM d AS SELECT who, n + 1 AS n FROM clicks;\nINSERT INTO clicks SELECT who, n FROM d;",
        "clicks -> d -> clicks",
    ),
    "of one query": ("INSERT INTO clicks SELECT who, n + 1 AS n FROM clicks;", "clicks -> clicks"),
    "that grows": (
        "CREATE STREAM d AS SELECT who, explode(array(n, n)) AS n FROM clicks;\nINSERT INTO clicks SELECT who, n FROM d;",
        "clicks -> d -> clicks",
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_does_not_end(tmp_path, name):
    """The error names the test and the topics of the loop, at the statement whose rows go round."""
    queries, topics = LOOPS[name]
    file = tmp_path / "a.sql"
    file.write_text(f"{CLICKS}--@test: round and round\n{queries}\nINSERT INTO clicks VALUES ('ann', 1);\n")
    (test,) = read_sql_tests(file)
    with pytest.raises(
        TopologyError, match="the test 'round and round' does not end: its queries write what they read, "
    ) as caught:
        test.run({})
    ring = topics.split(" -> ")[1:]
    assert topics in caught.value.message or " -> ".join([*ring, ring[0]]) in caught.value.message
    assert caught.value.at is not None and caught.value.at.line == file.read_text().count("\n")


MARKS = [
    "  --@test: two",
    "--@TEST: two",
    "-- @test: two",
    "--@test:two",
    "--\t@ test : two  ",
    "ASSERT TOPIC clicks; --@test: two",
]


@pytest.mark.parametrize("mark", MARKS)
def test_ways_to_write_a_mark(tmp_path, mark):
    """A comment that begins with the word is a mark, however it is indented and spelt, and whatever is before it in its line."""
    file = tmp_path / "a.sql"
    file.write_text(
        f"{CLICKS}--@test: one\nASSERT TOPIC clicks;\n{mark}\n-- @Expected.Message: there is no stream\nCREATE STREAM x AS SELECT * FROM y;"
    )
    assert [(one.name, one.messages) for one in read_sql_tests(file)] == [("one", ()), ("two", ("there is no stream",))]


TEXTS = {
    "a text": "INSERT INTO clicks VALUES ('\n--@test: two\n', 1);",
    "a name": "CREATE STREAM x AS SELECT who AS `--@test: two` FROM clicks;",
    "a comment": "/*\n--@test: two\n--@unknown: three\n*/ ASSERT TOPIC clicks;",
    "a text behind a comment": "ASSERT TOPIC clicks; -- it's one\nINSERT INTO clicks VALUES ('--@test: two', 1);",
    "a word behind @": "-- @ann wrote this\nASSERT TOPIC clicks;",
    "a comment behind other words": "-- see @test: two\nASSERT TOPIC clicks;",
}
IN_SPARK = {
    "a comment in a comment": "/* /* */\n--@test: two\n*/ ASSERT TOPIC clicks;",
    "an escaped quote": "INSERT INTO clicks VALUES ('\\'\n--@test: two\n', 1);",
}


@pytest.mark.parametrize("what", [*TEXTS, *IN_SPARK])
def test_what_is_no_mark(tmp_path, what):
    """Within quotes and comments of several lines there are no marks, as the dialect reads these."""
    file = tmp_path / "a.sql"
    file.write_text(f"{CLICKS}--@test: one\n{(TEXTS | IN_SPARK)[what]}\n--@test: last\nASSERT TOPIC clicks;")
    one, last = read_sql_tests(file)
    assert (one.name, last.name) == ("one", "last")
    one.run({})
    last.run({})


def test_the_dialect_of_marks(tmp_path):
    """Each test is read in the dialect in which its beginning left it, or in that of the settings."""
    text = f"%s\n--@test: one\nINSERT INTO s VALUES ('\\');\nSET '{DIALECT}' = 'spark';\n--@test: two\nINSERT INTO s VALUES ('\\');\n--@test: three\n"
    file = tmp_path / "a.sql"
    for before, settings in ((f"SET '{DIALECT}' = 'ksql';", {}), ("", KSQL)):
        file.write_text(text % before)
        assert [one.name for one in read_sql_tests(file, settings)] == ["one", "two", "three"]
    file.write_text(text % "")
    assert [one.name for one in read_sql_tests(file)] == ["one"]  # Spark's text ends at a later quote


REFUSED = {
    "--@tset: two": "there is no mark --@tset: of tests; there are --@test: and --@expected.message:; did you mean --@test: ?",
    "-- @expected.error: KsqlException": "it is a class of ksqlDB, which is not here; expected --@expected.message: TEXT",
    "--@author: ann": "a comment is written without @",
    "--@test:": "--@test says nothing; expected a name",
    "--@test two": "--@test says nothing; expected a name",
    "--@expected.message:  ": "--@expected.message says nothing; expected a text",
}


@pytest.mark.parametrize("mark", REFUSED)
def test_marks_that_are_refused(tmp_path, mark):
    """A mark that says nothing of a test is an error with its place."""
    file = tmp_path / "a.sql"
    file.write_text(f"{CLICKS}--@test: one\nASSERT TOPIC clicks;\n  {mark}\nASSERT TOPIC clicks;")
    with pytest.raises(TopologyError) as caught:
        read_sql_tests(file)
    assert REFUSED[mark] in caught.value.message
    assert str(caught.value.at) == f"{file}:4:3"


def test_a_message_before_the_first_test(tmp_path):
    """It belongs to no test, so it is refused; in a file of one test it is that test's."""
    file = tmp_path / "a.sql"
    file.write_text(f"{CLICKS}--@expected.message: there\n--@test: one\nASSERT TOPIC clicks;")
    with pytest.raises(TopologyError, match="a message is expected before the first test"):
        read_sql_tests(file)


def test_two_messages(tmp_path):
    """All texts have to be in the message."""
    file = tmp_path / "a.sql"
    marks = "--@expected.message: there is no stream\n--@expected.message: %s\n"
    statement = "CREATE STREAM x AS SELECT * FROM y;\n"
    file.write_text("".join(f"--@test: of {name}\n{marks % name}{statement}" for name in ("'y'", "'z'")))
    one, two = read_sql_tests(file)
    one.run({})
    with pytest.raises(StreamKitError, match="there is no stream"):
        two.run({})


@pytest.mark.parametrize(
    "before",
    [
        "SELECT bad bad bad FROM;",
        "CREATE STREAM bad AS SELECT * FROM bad;",
        "RUN SCRIPT 'bad.sql';",
        "CREATE STREAM s (a INT); ASSERT VALUES s (bad) VALUES (1);",
    ],
)
def test_an_error_before_all_tests(tmp_path, before):
    """No test expects it, whatever message it expects, and the error says where it is."""
    file = tmp_path / "a.sql"
    file.write_text(f"{before}\n--@test: one\n--@expected.message: bad\nCREATE STREAM bad AS SELECT * FROM bad;")
    (test,) = read_sql_tests(file)
    with pytest.raises(
        StreamKitError, match=r"bad.*\n  at .*a.sql:1:(.|\n)*this is before the first test, so each test of the file fails$"
    ):
        test.run({})


@pytest.mark.parametrize("expected", ["nothing of mine", "shop.sql"])
def test_a_message_is_not_looked_for_in_the_place(tmp_path, expected):
    """Neither the name of the file nor the line that is shown below the message holds what is expected of it."""
    file = tmp_path / "shop.sql"
    file.write_text(
        f"--@expected.message: {expected}\n{CLICKS}CREATE STREAM x AS SELECT whom AS `nothing of mine` FROM clicks;\n"
    )
    (test,) = read_sql_tests(file)
    with pytest.raises(TopologyError, match="there is no column"):
        test.run({})


def test_other_files(run, tmp_path):
    """RUN SCRIPT puts the statements of a file in its place."""
    (tmp_path / "clicks.sql").write_text(CLICKS)
    run("RUN SCRIPT 'clicks.sql'; INSERT INTO clicks VALUES ('ann', 1); ASSERT VALUES clicks VALUES ('ann', 1);")


HEADERS = "STRUCT<KEY STRING, VALUE BYTES>"


@pytest.mark.parametrize(
    ("declared", "asserted"),
    [
        (f"h ARRAY<{HEADERS}> HEADERS", f"h ARRAY<{HEADERS}> KEY"),
        ("h BYTES HEADER('a')", "h BYTES HEADER('b')"),
        ("h BYTES HEADER('a')", "h BYTES KEY"),
    ],
)
def test_headers_are_no_keys(run, declared, asserted):
    """A declaration with another header, or with a key in place of it, is another one; its own holds."""
    source = f"CREATE STREAM s (k INT KEY, {declared}) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
    run(f"{source} ASSERT STREAM s (k INT KEY, {declared});", streamkit_sql_dialect="ksql")
    with pytest.raises(TopologyError, match="the assertion does not hold: the columns of S are"):
        run(f"{source} ASSERT STREAM s (k INT KEY, {asserted});", streamkit_sql_dialect="ksql")


def test_the_ksql_dialect(run):
    """Names are in capitals, times are numbers, and formats are ksqlDB's."""
    run(
        """
        CREATE STREAM s (id INT KEY, v INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 3);
        CREATE TABLE t AS SELECT id, COUNT(*) AS c, LATEST_BY_OFFSET(v) AS l FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY id;
        INSERT INTO s (id, v, ROWTIME) VALUES (1, 2, 1010);
        INSERT INTO s (id, v, ROWTIME) VALUES (2, 3, 1020);
        ASSERT VALUES s (id, v, rowtime) VALUES (1, 2, 1010);
        ASSERT VALUES t (id, WINDOWSTART, WINDOWEND, c, l) VALUES (1, 1000, 2000, 1, 2);
        ASSERT VALUES t (id, c, ROWTIME) VALUES (2, 1, 1020);
        ASSERT TABLE t (id INT PRIMARY KEY, c BIGINT, l INT) WITH (KAFKA_TOPIC = 'T', VALUE_FORMAT = 'JSON');
        """,
        streamkit_sql_dialect="ksql",
    )


def test_columns_that_are_called_as_times_are(run):
    """They are those columns in assertions; the bounds of a window are there only where a table has windows."""
    run(
        """
        CREATE STREAM s (id INT KEY, rowtime INT, windowstart INT, window_end STRING);
        INSERT INTO s (id, rowtime, windowstart, window_end, _timestamp) VALUES (1, 2, 3, 'x', 1010);
        ASSERT VALUES s (rowtime, windowstart, window_end, _timestamp) VALUES (2, 3, 'x', 1010);
        """
    )
    with pytest.raises(TopologyError, match="s has no column 'window_start'"):
        run("CREATE STREAM s (id INT KEY); INSERT INTO s VALUES (1); ASSERT VALUES s (id, window_start) VALUES (1, 3);")
