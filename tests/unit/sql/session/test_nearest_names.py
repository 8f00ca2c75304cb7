"""What a message offers in the place of a wrong name or value, and the place that it points at."""

from __future__ import annotations

import pytest

from streamkit.dsl.topology import Topology
from streamkit.errors import SqlError, TopologyError
from streamkit.sql.reader.script import read_script
from streamkit.sql.script.topology import topology_of
from streamkit.sql.tree.statements import CreateSource

DECLARED = "CREATE STREAM o (id INT KEY, name STRING, addr STRUCT<street STRING, zip INT>, items ARRAY<STRUCT<sku STRING>>)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT addr.stret FROM o", "has no field 'stret'; did you mean 'street'?; its fields are street, zip"),
        ("SELECT items[1].skuu FROM o", "has no field 'skuu'; did you mean 'sku'?"),
        ("CREATE STREAM x (a VARCHR)", "there is no type VARCHR; did you mean varchar?"),
        ("CREATE STREAM x (a STRNG)", "there is no type STRNG; did you mean string?"),
        ("CREATE STREAM x (a TEXT)", "there is no type TEXT; did you mean STRING?"),
        ("CREATE STREAM x (a DATETIME)", "there is no type DATETIME; did you mean TIMESTAMP?"),
        ("SET 'auto.offset.reset' = 'earlyest'", "expected 'earliest' or 'latest'; did you mean 'earliest'?"),
        ("SET 'streamkit.on.error' = 'skp'", "did you mean 'skip'?"),
        ("SET 'streamkit.on.error' = 'dead_leter broken'", "did you mean 'dead_letter'?"),
        ("SET 'streamkit.engine' = 'Locl'", "expected 'local' or 'spark'; did you mean 'local'?"),
        ("SET 'ksql.persistence.wrap.single.values' = 'flase'", "expected true or false; did you mean 'false'?"),
        ("SET 'ksql.persistence.default.format.value' = 'JSN'", "did you mean 'JSON'?"),
        ("CREATE OR REPLACE STREAM o (id INT KEY, age INT)", "a column is added by ALTER STREAM o ADD COLUMN"),
        (
            "CREATE STREAM p (id INT KEY, b INT) WITH (KAFKA_TOPIC = 'o')",
            "by ALTER STREAM p ADD COLUMN once the stream is declared",
        ),
        ("SELECT name, COUNT(*) AS n FROM o GROUP BY name ORDER BY nn", "did you mean the result 'n'?"),
        ("SELECT name FROM o WHERE id > 1 && id < 3", "; conditions are joined by AND"),
        (
            "SELECT name FROM o WHERE COUNT(*) > 1",
            "WHERE has an aggregate, count(1), and looks at one row at a time; expected HAVING",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY); DELETE FROM t WHERE id = 'a'",
            "expected WHERE id = …, or id IN (…), with values of INT",
        ),
        ("SELECT DATE_FORMAT(_timestamp, 'YYYY-MM-DD') AS x FROM o", "a year is yyyy, and a day of a month dd"),
        (
            "SELECT name, COUNT(*) AS n FROM o WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 30 MINUTES) GROUP BY name EMIT CHANGES",
            "the retention 30 minutes is shorter than size and grace together (1 hour)",
        ),
        ("CREATE STREAM p (id INT) WITH (KEY = 'id')", "a column says that it is the key: KEY behind one of a stream"),
        (
            "SELECT 1 AS a EMIT CHANGES",
            "a query that goes on reads a stream or table; expected FROM. SELECT without FROM is run once",
        ),
    ],
)
def test_the_nearest_name_is_told(sql, text, message):
    """Of fields, types, values of settings; and the statement that does what was meant."""
    sql.execute(DECLARED)
    with pytest.raises(SqlError) as caught:
        sql.execute(text)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('SELECT id FROM `o` WHERE `name` = "Oslo"', "there is no column 'Oslo'; the columns are id, name, addr, items; a text is written 'Oslo'"),
        ('INSERT INTO `o` (`id`, `name`) VALUES (1, "ann")', "has the column 'ann'; a text is written 'ann'"),
        ("SELECT `name` FROM `o` WHERE `id` > 1 && `id` < 3", "; conditions are joined by AND"),
        ("CREATE STREAM orders (k INT KEY); PRINT 'orders'", "there is no topic 'orders'; did you mean 'ORDERS'?"),
        ("CREATE STREAM orders (k INT KEY); INSERT INTO `orders` VALUES (1)", "did you mean 'ORDERS'?"),
        ("SELECT TIMESTAMPTOSTRING(ROWTIME, 'YYYY-MM-DD') AS x FROM `o`", "a year is yyyy, and a day of a month dd"),
        ("SELECT CURRENT_TIMESTAMP FROM `o`", "the time of a record is _timestamp, and ROWTIME in the ksql dialect"),
        (
            "INSERT INTO `p` SELECT `name` FROM `o`",
            "has id besides; expected the columns name; the result has the key id of the rows, unless PARTITION BY gives another one",
        ),
    ],
)  # fmt: skip
def test_beginners_of_the_ksql_dialect_are_told(sql, text, message):
    """How a text is written, what the time of a record is called, and where a key comes from."""
    sql.execute(f"{DECLARED}; CREATE STREAM p (name STRING KEY); SET 'streamkit.sql.dialect' = 'ksql'")
    with pytest.raises(SqlError) as caught:
        sql.execute(text)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("function", "message"),
    [("UPPER(name)", "it has UCASE"), ("LOWER(name)", "it has LCASE"), ("LENGTH(name)", "it has LEN"), ("NOW()", "it has ROWTIME, the time of the record"),
     ("NVL(name, 'x')", "it has COALESCE"), ("UCAS(name)", "did you mean UCASE")],
)  # fmt: skip
def test_ksqldb_has_it_under_another_name(sql, function, message):
    """Functions of Spark and of other SQL that ksqlDB calls otherwise, before names that are only spelt alike; a field that is wrong, too."""
    sql.execute(f"{DECLARED}; SET 'streamkit.sql.dialect' = 'ksql'")
    with pytest.raises(SqlError) as caught:
        sql.execute(f"SELECT {function} FROM `o`; SELECT `addr`->stret FROM `o`")
    first, second = caught.value.faults
    assert message in first.message
    assert "has no field STRET; did you mean 'street'?" in second.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE SINK CONNECTOR c WITH ('connector.class' = 'PostgresSnk', ^'topics' = 'o')", ""),
        (
            "CREATE SINK CONNECTOR c WITH ('connector.class' = 'FileSink', 'topics' = 'o', ^'pth' = '/tmp/x')",
            "did you mean path?",
        ),
        ("DESCRIBE FUNCTION ^uppr", "did you mean upper?"),
        ("DESCRIBE CONNECTOR ^nosuch", "there is no connector 'nosuch'"),
        ("DROP TYPE ^nosuch", "there is no type 'nosuch'"),
    ],
)
def test_the_caret_is_at_the_word(sql, text, message):
    """And not at the whole statement."""
    sql.execute(DECLARED)
    if "Snk" in text:
        text, message = text.replace("^", "").replace("('connector", "(^'connector"), "did you mean 'PostgresSink'?"
    with pytest.raises(SqlError) as caught:
        sql.execute(text.replace("^", ""))
    assert message in caught.value.message
    assert caught.value.faults[0].at.column == text.index("^") + 1


def test_a_sink_of_a_topic_that_is_not_there(sql):
    """It is declared, since the topic may come later; the answer says so, and has the nearest name. A placeholder is known where the sink runs."""
    sink = "CREATE SINK CONNECTOR {} WITH ('connector.class' = 'FileSink', 'path' = '/tmp/x', 'topics' = '{}')"
    (*_, made) = sql.execute(f"CREATE STREAM orders (id INT KEY); {sink.format('c', 'orders')}")
    assert "There is no topic" not in made.message
    (made,) = sql.execute(sink.format("d", "orders,order"))
    assert "There is no topic 'order' yet; did you mean 'orders'?; the sink fails, and is tried again" in made.message
    assert "There is no topic" not in sql.execute(sink.format("e", "${env:NO_SUCH_TOPIC}"))[0].message


def test_a_key_that_the_topic_lacks_is_not_added(sql):
    """ALTER adds columns, and none of the key."""
    sql.execute("CREATE TABLE customers (name STRING PRIMARY KEY, tier STRING)")
    with pytest.raises(SqlError, match="has no column 'k'; it has name, tier") as caught:
        sql.execute("CREATE SOURCE TABLE st (k STRING PRIMARY KEY, tier STRING) WITH (KAFKA_TOPIC = 'customers')")
    assert "ALTER" not in caught.value.message


def test_a_file_says_that_it_declares_what_it_reads():
    """The faults of a file are in the order of its lines, whichever is found first."""
    text = "CREATE STREAM a AS SELECT * FROM clicks;\nSELECT 1;\nCREATE STREAM b AS SELECT * FROM views;\nSET 'streamkit.time.zone' = 'Mars';"
    with pytest.raises(SqlError) as caught:
        topology_of(text, "shop")
    assert [fault.at.line for fault in caught.value.faults] == [1, 2, 3, 4]
    assert "A file declares what it reads: CREATE STREAM clicks (column type, …)" in caught.value.faults[0].message


def test_a_query_in_python_names_the_handle_that_it_lacks():
    """By the name that the text has, which is that of the argument."""
    app = Topology("shop")
    orders = app.stream("orders", schema="id int")
    with pytest.raises(
        TopologyError,
        match=r"there is no stream or table 'clicks' for this query; there are orders; expected it by its name, as in app.sql",
    ):
        app.sql("SELECT id FROM clicks", orders=orders)


def test_a_result_that_does_not_fit_its_topic(sql):
    """The caret is at the name, and the message says what statements can do."""
    sql.execute(f"{DECLARED}; CREATE TABLE big AS SELECT name, count(*) AS n FROM o GROUP BY name")
    text = "DROP TABLE big; CREATE TABLE big AS SELECT name, max(id) AS m FROM o GROUP BY name"
    with pytest.raises(SqlError) as caught:
        sql.execute(text)
    assert caught.value.faults[0].at.column == text.index("big AS") + 1
    assert "exists and does not fit: it has no column 'm'" in caught.value.message
    assert (
        "WITH (KAFKA_TOPIC = 'another') behind the name writes to another topic; DROP … DELETE TOPIC deletes"
        in caught.value.message
    )
    sql.execute("DROP TABLE big DELETE TOPIC; CREATE TABLE big AS SELECT name, max(id) AS m FROM o GROUP BY name")


def test_a_setting_of_the_other_dialect_says_so(sql):
    """It is set, and counts once the dialect is chosen; UNSET and the dialect itself say nothing more."""
    name = "ksql.functions.collect_list.limit"
    told = "It counts in the ksql dialect alone"
    messages = [
        one.message
        for one in sql.execute(f"SET '{name}' = '3'; UNSET '{name}'; SET 'streamkit.sql.dialect' = 'ksql'; SET '{name}' = '3'")
    ]
    assert [told in one for one in messages] == [True, False, False, False]


KSQL = "SET 'streamkit.sql.dialect' = 'ksql'; CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAM x (a {}) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON')",
        "CREATE STREAM x (k INT KEY, a STRUCT<b ARRAY<{}>>) WITH (KAFKA_TOPIC='x', VALUE_FORMAT='JSON')",
        "CREATE TYPE made AS MAP<STRING, {}>",
        "SELECT CAST(v AS {}) AS x FROM s",
        "SELECT CAST(v AS {}) AS x FROM s EMIT CHANGES",
        "CREATE STREAM x AS SELECT k, CAST(v AS {}) AS x FROM s",
        "ALTER STREAM s ADD COLUMN w {}",
    ],
)
@pytest.mark.parametrize(
    ("type", "meant"),
    [
        ("FLOAT", "DOUBLE"),
        ("real", "DOUBLE"),
        ("TINYINT", "INTEGER"),
        ("SMALLINT", "INTEGER"),
        ("LONG", "BIGINT"),
        ("TIMESTAMP_NTZ", "TIMESTAMP"),
        ("BINARY", "BYTES"),
        ("TEXT", "STRING"),
        ("INTT", "INT"),
        ("NUMERIC", "DECIMAL"),
        ("NUMERIC(3, 1)", "DECIMAL"),
    ],
)
def test_types_that_ksqldb_does_not_have(sql, text, type, meant):
    """A type of Spark or of other SQL is refused where the statement names it, since no operation of the ksql dialect is for its values."""
    sql.execute(KSQL)
    with pytest.raises(SqlError) as caught:
        sql.execute(text.format(type))
    name = type.partition("(")[0].upper()
    assert f"there is no type {name}; did you mean {meant}?" in caught.value.message
    if "CREATE TYPE makes one" in caught.value.message:
        sql.execute(f"CREATE TYPE {name} AS STRING")
    else:
        with pytest.raises(SqlError, match=f"^{name} is the name of a type of Spark or ksqlDB"):
            sql.execute(f"CREATE TYPE {name} AS STRING")


def test_a_type_that_is_made_may_have_a_name_of_other_sql(sql, rows):
    """CREATE TYPE may make a type whose name only other SQL has, and all its types are listed for a name that is like none."""
    sql.execute(KSQL + "CREATE TYPE text AS STRING; ALTER STREAM s ADD COLUMN w TEXT; INSERT INTO s VALUES (1, 2, 'x')")
    assert rows("SELECT CAST(v AS text) AS x, w FROM s") == [("2", "x")]
    with pytest.raises(SqlError, match=r"there is no type QQQ; there are ARRAY, .*VARCHAR, and CREATE TYPE has made TEXT"):
        sql.execute("SELECT CAST(v AS qqq) AS x FROM s")


def test_statements_that_a_log_has_keep_their_types():
    """A statement that was stored when the dialect had FLOAT is read as it was then."""
    (statement,) = read_script("CREATE STREAM x (a FLOAT, b DECIMAL(3, 1))", "ksql", is_stored=True)
    assert isinstance(statement, CreateSource)
    assert [one.type for one in statement.columns] == ["float", "decimal(3,1)"]


@pytest.mark.parametrize("value", ["dead_letter", "dead_letter a b"])
def test_a_word_that_is_right_is_not_advised(sql, value):
    """A setting without the name of a topic, or with two, is refused with an example; the word before it is right, and the error does not advise it."""
    with pytest.raises(SqlError, match="as in 'dead_letter broken'") as caught:
        sql.execute(f"SET 'streamkit.on.error' = '{value}'")
    assert "did you mean" not in str(caught.value)
