"""What is wrong with a script: all of it, each with its place and the nearest word."""

from __future__ import annotations

import pickle

import pytest

from streamkit.errors import Location, SqlError, TopologyError
from streamkit.sql.reader.script import read_script


def faults(text, **options):
    """The messages of the faults of a script."""
    with pytest.raises(SqlError) as caught:
        read_script(text, **options)
    return [fault.message for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELCT 1",
            "found SELCT; expected the first word of a statement, such as CREATE, INSERT or SELECT; did you mean SELECT?",
        ),
        ("SELECT a FORM t", "found FORM; did you mean FROM?"),
        ("SELECT a FROM t WEHRE a = 1", "found WEHRE; did you mean WHERE?"),
        ("SELECT a FROM t GRUOP BY a", "found GRUOP; did you mean GROUP?"),
        ("SELECT a FROM t GROUP YB a", "found YB behind GROUP; expected BY"),
        ("SELECT a FROM t WHERE a BEETWEEN 1 AND 2", "or the end of the statement; did you mean BETWEEN?"),
        ("CREATE STREM s", "found STREM; expected STREAM, TABLE, TYPE or CONNECTOR; did you mean STREAM?"),
        ("SELECT select FROM t", "found select; expected a value; write `select` in backticks if it is a name"),
        ("SELECT a, from FROM t", "found from; expected a value; write `from` in backticks if it is a name"),
        ("SELECT a AS from FROM t", "found from; expected a name; write `from` in backticks if it is a name"),
        ("SELECT case FROM t", "found FROM; expected a value; write `case` in backticks if it is a name"),
        ("SELECT a, interval, b FROM t", "a column of that name is written `interval`, in backticks"),
        ("SELECT distinct FROM t", "found FROM; expected a value; write `distinct` in backticks if it is a name"),
        (
            "SELECT a FROM 't'",
            "found 't'; expected the name of a stream or table; a name is written without quotes, or in backticks: `t`",
        ),
        (
            "SET a = 'b'",
            "found a; expected the name of a setting between quotes, as in SET 'auto.offset.reset' = 'earliest'; a text is written 'a'",
        ),
        ("SELECT a FROM t GROUP BY a WHERE b", "found WHERE behind GROUP BY; it belongs before GROUP BY"),
        ("SELECT a FROM t EMIT CHANGES WHERE b", "found WHERE behind EMIT; it belongs before EMIT"),
        ("SELECT a FROM t WHERE b JOIN u ON c", "found JOIN behind WHERE; it belongs before WHERE"),
        ("SELECT a FROM t WHERE b WHERE c", "found a second WHERE; join both conditions by AND"),
        ("SELECT a FROM t JOIN u ON b WITHIN 1 HOUR", "found WITHIN behind ON; it belongs before ON: JOIN … WITHIN 1 HOUR ON …"),
        (
            "SELECT a FROM t UNION ALL SELECT a FROM u",
            "there is no UNION of two queries; queries over streams write into one stream",
        ),
        ("SELECT a FROM t WHERE a > 1 EXCEPT SELECT a FROM u", "there is no EXCEPT of two queries"),
        ("SELECT a FROM (SELECT a FROM t union SELECT a FROM u) v", "there is no UNION of two queries"),
        (
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "there is no statement WITH; write the query in FROM: SELECT … FROM (SELECT …) name",
        ),
        ("UPDATE t SET a = 1", "there is no statement UPDATE; a row that is inserted into a table replaces the row of its key"),
        ("SELECT a FROM t LIMIT 1 OFFSET 1", "there is no OFFSET; let ORDER BY sort the rows"),
        ("SELECT a FROM t OFFSET 1", "there is no OFFSET"),
        ("SELECT a FROM t WHERE a > 1 FETCH FIRST 2 ROWS ONLY", "there is no FETCH; write LIMIT"),
        ("SELECT TOP 5 a FROM t", "there is no TOP; write LIMIT"),
        ("SELECT a FROM t NATURAL JOIN u", "there is no NATURAL JOIN; name the columns that are equal: JOIN … ON"),
        ("SELECT a FROM t CROSS JOIN u", "there is no CROSS JOIN"),
        ("CREATE STREAM s (a INT NOT NULL, b INT)", "there is no NOT NULL: the columns that SQL declares may be null"),
        ("CREATE TABLE s (a INT PRIMARY KEY NOT NULL)", "there is no NOT NULL"),
        (
            "CREATE TABLE s (a INT, b INT, PRIMARY KEY (a, b))",
            "PRIMARY KEY stands behind a column; expected it behind each column of the key",
        ),
        ("SELECT a -> b FROM t", "a field of a struct is written with a point, as in address.street"),
        ("SELECT a[1]->b FROM t", "a field of a struct is written with a point"),
        ("SELECT cnt(*) FROM t", "cnt(*): only count has a *, as in count(*)"),
        ("SELECT * EXCEPT (a) FROM t", "there is no * EXCEPT; name the columns one by one"),
        ("SELECT a FROM t GROUP BY ROLLUP(a)", "there is no ROLLUP of groups; write a query for each grouping"),
        ("SELECT a FROM t GROUP BY GROUPING SETS ((a), (b))", "there is no GROUPING of groups"),
        ("SELECT a FROM t JOIN u USING (a)", "there is no USING; name the columns that are equal: JOIN … ON"),
        ("SELECT a FROM t AS OF now()", "AS OF has a constant time behind it"),
        ("SELECT ARRAY[1, 2]", "ARRAY[…] is of the ksql dialect; an array is written array(1, 2) here"),
        ("SELECT STRUCT(a := 1)", "`:=` is of the ksql dialect; a struct is written named_struct"),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT 1",
            "there is no CREATE MATERIALIZED; a query that keeps its result up to date is CREATE",
        ),
        ("INSERT INTO t (a) SELECT a FROM u", "INSERT INTO of a query lists no columns"),
        ("DESC t", "there is no statement DESC; write DESCRIBE name"),
        ("SHOW COLUMNS FROM t", "there is no SHOW COLUMNS; DESCRIBE name shows columns"),
        ("SPOOL 'a'", "there is no statement SPOOL; let your shell keep"),
        (
            "CREATE CONNECTOR c WITH ('a' = 'b')",
            "a connector reads or writes; expected CREATE SOURCE CONNECTOR or CREATE SINK CONNECTOR",
        ),
        ("SELECT a FROM t EMIT CHANGE", "found CHANGE behind EMIT; expected CHANGES or FINAL; did you mean CHANGES?"),
        (
            "SELECT a FROM t WINDOW TUMBLNG (SIZE 1 HOUR)",
            "found TUMBLNG behind WINDOW; expected TUMBLING or HOPPING or SESSION; did you mean TUMBLING?",
        ),
        ("SELECT a FROM t WINDOW TUMBLING (SIZE 1 HUOR)", "DAYS or WEEKS; did you mean HOUR?"),
        ("SELECT a FROM t WINDOW TUMBLING (SIZE 1 MINTUES)", "DAYS or WEEKS; did you mean MINUTES?"),
        ("SET 'streamkit.sql.dialect' = 'ksq'", "expected spark or ksql; did you mean 'ksql'?"),
        ("SELECT a FROM t, u", "found ,; expected JOIN … ON between two sources"),
        ("SELECT a FROM t JOIN u", "found the end of the statement; expected ON"),
        ("SELECT a FROM t WINDOW TUMBLING (1 HOUR)", "found 1; expected SIZE"),
        (
            "SELECT a FROM t WINDOW HOPPING (SIZE 1 HOUR)",
            "a hopping window says how often one begins; expected ADVANCE BY behind its SIZE",
        ),
        (
            "SELECT a FROM t WINDOW TUMBLING (SIZE 1 FORTNIGHT)",
            "found FORTNIGHT; expected a unit of time: MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS",
        ),
        ("SELECT (SELECT 1)", "an expression sees one row, not a query; a SELECT may have the query in FROM, and join it"),
        ("SET streamkit.sql.dialect = 'ksql'", "a text is written 'streamkit.sql.dialect'"),
        ("SET streamkit . sql = 'ksql'", "a text is written 'streamkit'"),
        ("SELECT 1 + * FROM t", "* cannot be used in an expression; name the columns one by one"),
        ("CREATE STREAM s (a INT) WITH (A = 1, a = 2)", "A is given twice"),
        ("CREATE STREAM s (a MAP<MAP<INT, INT>, INT>)", "which a map cannot have"),
        ("CREATE STREAM s (a ARRAY<INT>>)", "there is a > too many"),
        ("CREATE STREAM s (a INT) AS SELECT 1", "found AS behind columns; the query of AS says which columns there are"),
        ("DROP STREAM s DELETE TOPIC CASCADE", "found CASCADE behind DELETE TOPIC; it belongs before DELETE TOPIC"),
        ("SET 'streamkit.sql.dialect' = 'mysql'", "there is no dialect 'mysql'; expected spark or ksql"),
        ("SELECT 'a", "a quote or a comment is not closed"),
        ("SELECT 1 /* a", "a quote or a comment is not closed"),
        ("SELECT 99999S", "99999S does not fit into smallint"),
        ("EXPLAIN EXPLAIN SELECT 1", "EXPLAIN explains a statement, and no other EXPLAIN"),
        ("ASSERT SCHEMA TIMEOUT 1 SECOND", "ASSERT SCHEMA names no schema; expected SUBJECT name, ID number or both"),
    ],
)
def test_faults_say_what_was_found_and_what_was_expected(text, message):
    """The message names the word, what could be there, and the nearest word or the way to write it."""
    (found,) = faults(text)

    assert message in found


@pytest.mark.parametrize("behind", ["AS t", "5", "'UTC'"])
def test_an_operator_that_is_an_alias(behind):
    """A column called AT, behind which a comma is missing, is told of in the same words in both dialects."""
    messages = {tuple(faults(f"SELECT id at {behind} FROM t", dialect=dialect)) for dialect in ("ksql", "spark")}

    assert messages == {(f"found {behind.split()[0]}; expected the end of the statement",)}


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("SELECT a::INT FROM t", "found :; expected the end of the statement; a cast is written CAST(value AS type)"),
        ("SELECT a FROM t WHERE a == 1", "found =; expected a value; equality is written a = b"),
        ("SELECT a FROM t WHERE a ILIKE 'x%'", "ksqlDB has no ILIKE; write LCASE(value) LIKE"),
        ("SELECT a FROM t WHERE a REGEXP 'x'", "ksqlDB has no REGEXP; write REGEXP_EXTRACT"),
        ("SELECT SUM(a) OVER (ORDER BY b) AS n FROM t", "there is no window over other rows (OVER)"),
        (
            "SELECT COUNT(*) FILTER (WHERE a > 1) FROM t",
            "there is no FILTER; write the condition inside of the aggregate: SUM(CASE",
        ),
        ("SELECT COUNT(DISTINCT a) FROM t", "COUNT(DISTINCT …) cannot be used; expected COUNT_DISTINCT(…)"),
        (
            "SELECT a FROM t WHERE a > DATE '2026-01-31'",
            "write '2026-01-31' alone beside a DATE, else CAST('2026-01-31' AS DATE)",
        ),
        (
            "SELECT a + INTERVAL '1' DAY FROM t",
            "found '1'; expected the end of the statement; a time later is TIMESTAMPADD(DAYS, 1, time)",
        ),
        ("SELECT a - INTERVAL 1 DAY FROM t", "a time before is TIMESTAMPSUB(DAYS, 1, time), of a DATE DATESUB"),
        ("SELECT TIMESTAMP '' FROM t", "write '' alone beside a TIMESTAMP"),
        ("INSERT INTO t VALUES (1, TIMESTAMP '2026-01-31 10:00')", "write '2026-01-31T10:00' alone beside a TIMESTAMP"),
        ("SELECT COLLECT_LIST(DISTINCT a) FROM t", "expected COLLECT_SET(…)"),
        ("SELECT LAG(a) OVER w FROM t", "there is no window over other rows (OVER)"),
        ("SELECT a FROM t QUALIFY ROW_NUMBER() = 1", "there is no QUALIFY; group the rows by GROUP BY"),
        ("SELECT a FROM t LATERAL VIEW EXPLODE(b) x AS c", "there is no LATERAL VIEW; write EXPLODE(array)"),
        ("SELECT a FROM t JOIN u x USING (a)", "there is no USING; name the columns that are equal"),
        (
            "UPSERT INTO t VALUES (1)",
            "there is no statement UPSERT; a row that is inserted into a table replaces the row of its key",
        ),
        ("CREATE STREAM s (a STRING b INT)", "found b; expected a comma or )"),
        ("CREATE STREAM s WITH (A = 'x' B = 'y')", "found B; expected a comma or )"),
        ("SELECT a FROM t WINDOW TUMBLING (SIZE 1 HOUR GRACE PERIOD 1 HOUR)", "found GRACE; expected a comma or )"),
    ],
)
def test_operators_of_other_sql(text, advice):
    """The ksql dialect names what stands for them."""
    (message,) = faults(text, dialect="ksql")
    assert advice in message
    assert read_script("SELECT a over, b regexp, date filter FROM t qualify WHERE qualify.interval > 1", "ksql"), "a name is one"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAM s (DATE 'x')",
        "CREATE STREAM s (a INT) WITH (TIMESTAMP 'x')",
        "SELECT a * INTERVAL '1' DAY FROM t",
    ],
)
def test_names_of_times_are_no_literals_everywhere(text):
    """A column or property of that name, and an interval that is neither added nor subtracted, are told nothing of literals."""
    (message,) = faults(text, dialect="ksql")

    assert "write" not in message
    assert "a time" not in message


@pytest.mark.parametrize(
    "name", ["over", "filter", "ilike", "rlike", "regexp", "qualify", "lateral", "view", "offset", "top", "unnest", "tumble"]
)
def test_words_of_other_sql_are_names(name):
    """As a column, an alias with and without AS, a source and a field, also where a statement ends."""
    for text in (
        f"SELECT a {name} FROM t",
        f"SELECT a FROM t {name}",
        f"SELECT a AS {name}, {name}.a FROM t AS {name} WHERE {name}.b = 1",
        f"SELECT {name} FROM {name} EMIT CHANGES",
        f"SELECT a->{name} FROM t",
        f"CREATE STREAM {name} AS SELECT * FROM t {name}",
        f"SELECT a FROM t {name} JOIN {name} WITHIN (1 HOUR, 2 HOURS) ON t.a = {name}.a",
        f"SELECT a FROM {name} JOIN {name} ON t.a = {name}.a GROUP BY a",
        f"SELECT a FROM t {name} AS OF '2026-01-01'",
    ):
        assert read_script(text, "ksql"), text
    assert read_script("SELECT a within FROM t; SELECT a FROM t within GROUP BY a; SELECT a FROM t over GROUP BY a", "ksql")
    assert read_script("SELECT FILTER(a, x => x > 1), over(1) FROM t WHERE FILTER(a, x => x > 1) = a", "ksql")


@pytest.mark.parametrize(
    ("call", "instead"),
    [("ADD(a, 1)", "a + b"), ("ISNULL(a, 0)", "IFNULL"), ("`ISNOTNULL`(a)", "IS NOT NULL"), ("ARRAY(1, 2)", "ARRAY[")],
)
def test_operators_are_no_functions_of_ksqldb(call, instead):
    """A call by the name that trees have for an operator is refused in the ksql dialect, with the way to write it; a stored statement stays."""
    (message,) = faults(f"SELECT {call} FROM t", dialect="ksql")

    assert "ksqlDB has no function" in message
    assert instead in message
    assert read_script(f"SELECT {call} FROM t", "ksql", is_stored=True)


def test_words_of_other_sql_are_names_too():
    """A source or column may be called as what joins two queries elsewhere."""
    assert read_script("SELECT union, except.a FROM t union JOIN minus except ON union.a = except.a")


def test_all_faults_of_a_script_are_found():
    """After a fault, reading goes on behind the next semicolon that is in no quotes."""
    script = "SELCT ';' ;\nSELECT 1; CREATE STREM s;\n\nSELECT a FROM t WHERE"
    with pytest.raises(SqlError) as caught:
        read_script(script, file="shop.sql")

    assert [(fault.at.line, fault.at.column) for fault in caught.value.faults] == [(1, 1), (2, 18), (4, 22)]
    assert [fault.at.file for fault in caught.value.faults] == ["shop.sql"] * 3
    assert str(caught.value).startswith("the script has 3 faults\nfound SELCT")


def test_a_fault_shows_its_line_and_carets():
    """The text of the error has the place, the line, and carets below the words; it is an error of the topology as others are."""
    with pytest.raises(TopologyError) as caught:
        read_script("SELECT 1;\n\tSELECT a FORM t", file="shop.sql", called_at=Location("shop.py", 7))

    place, line, carets = str(caught.value).splitlines()[-3:]
    assert "shop.sql" in place and "2:11" in place and "shop.py:7" in place
    assert line.strip() == "SELECT a FORM t"
    assert carets == "    \t         ^^^^"


def test_many_faults_are_counted():
    """A text that is no script at all does not fill the screen."""
    with pytest.raises(SqlError) as caught:
        read_script("a;" * 1000)

    assert len(caught.value.faults) == 1000
    assert str(caught.value).endswith("… and 980 more")


def test_errors_travel_between_processes():
    """An error that was pickled says the same."""
    with pytest.raises(SqlError) as caught:
        read_script("a; b")

    copy = pickle.loads(pickle.dumps(caught.value))
    assert [fault.message for fault in copy.faults] == [fault.message for fault in caught.value.faults]


def test_of_a_long_line_the_part_around_the_place_is_shown():
    """A line of a megabyte is cut on both sides, and the caret is below the word."""
    with pytest.raises(SqlError) as caught:
        read_script(f"SELECT '{'x' * 500_000}', a FROM t WEHRE b = '{'y' * 500_000}'")
    place, line, carets = caught.value.faults[0].at.shown.split("\n")
    assert place == "line 1:500021"
    assert line.strip().startswith("…") and line.endswith("…") and len(line) < 170
    assert line[carets.index("^") :].startswith("WEHRE") and carets.count("^") == len("WEHRE")


@pytest.mark.parametrize("hidden", ["\ufeff", "\0", "\u202e", "\u200b"])
def test_what_cannot_be_seen_is_named(hidden):
    """A character without a picture is named by its number, and is a box in the line."""
    (message,) = faults(f"SELECT {hidden} FROM t")
    assert message == f"found U+{ord(hidden):04X}; expected a value"
    with pytest.raises(SqlError, match="SELECT \N{REPLACEMENT CHARACTER} FROM t"):
        read_script(f"SELECT {hidden} FROM t")
