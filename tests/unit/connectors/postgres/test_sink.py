"""Rows into tables of PostgreSQL: the contract, upserts and deletions, and what it refuses."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from functools import partial
from typing import Any

import psycopg
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.postgres import PostgresSink
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.sink_task import reset_group
from streamkit.errors import ConfigError, SchemaError
from tests.kit.sampling import TAKES_ALL
from tests.kit.waiting import wait_until
from tests.unit.connectors.contract import RefusingContract, SinkContract, UpsertContract, reason_of
from tests.unit.connectors.postgres.odd_settings import set_oddly

pytestmark = pytest.mark.foreign("postgres")


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log" if TAKES_ALL else ":memory:") as log:
        yield log


def rows_of(url, statement):
    """What a statement finds, however short a time the database gives to statements."""
    with psycopg.connect(url, options="-c statement_timeout=0 -c lock_timeout=0") as connection:
        return connection.execute(statement).fetchall()


class TestContract(SinkContract):
    """A table of the topic's name."""

    WAYS = ("insert", "upsert")

    @pytest.fixture(autouse=True)
    def _database(self, url, way):
        self.url, self.mode = url, way

    def sink(self, tasks=1):
        return PostgresSink("out", connection_url=self.url, topics="numbers", insert_mode=self.mode, tasks_max=tasks)

    def written(self):
        return rows_of(self.url, "SELECT * FROM numbers")

    def drop(self):
        self.execute("DROP TABLE numbers")
        return "DELETE FROM streamkit_positions"

    def forget(self):
        self.execute("DELETE FROM streamkit_positions WHERE connector = 'out'")

    def execute(self, statement):
        with psycopg.connect(self.url) as connection:
            connection.execute(statement)

    def test_a_table_of_another_oid(self, log):
        """One that was made again, and one that the setting `table` names by now; or it is said that the table has the rows."""
        self.add(log, 0, 20)
        self.run(log)
        self.execute("ALTER TABLE numbers RENAME TO former")
        self.execute("CREATE TABLE numbers AS SELECT * FROM former")
        self.execute("CREATE UNIQUE INDEX ON numbers (n)")
        self.add(log, 20, 20)
        with pytest.raises(ConfigError, match=r"and the table numbers has the oid .*DELETE FROM streamkit_targets WHERE"):
            self.run(log)
        self.execute("DELETE FROM streamkit_targets WHERE connector = 'out'")
        self.run(log)
        self.check(40)
        other = PostgresSink("out", connection_url=self.url, topics="numbers", table="other", insert_mode=self.mode)
        with pytest.raises(ConfigError, match="and the table other is not there"):
            run([other], log, once=True)


class TestRefused(RefusingContract):
    """A table with a condition."""

    WAYS = ("insert", "upsert")

    @pytest.fixture(autouse=True)
    def _database(self, url, way):
        self.url, self.mode = url, way

    def refusing(self, batch_rows, errors):
        return PostgresSink(
            "out", errors, connection_url=self.url, topics="numbers", insert_mode=self.mode, batch_rows=batch_rows
        )

    def begin(self, refused):
        with psycopg.connect(self.url) as connection:
            connection.execute(
                f"CREATE TABLE numbers (n bigint PRIMARY KEY CHECK (n NOT IN ({', '.join(map(str, refused))})), text text)"
            )

    def kept(self):
        return [n for (n,) in rows_of(self.url, "SELECT n FROM numbers")]


def upserting(url, topics, **settings):
    return PostgresSink("out", connection_url=url, topics=topics, insert_mode="upsert", delete_enabled=True, **settings)


class TestUpserts(UpsertContract):
    """A table with the topic's key."""

    @pytest.fixture(autouse=True)
    def _database(self, url):
        self.url = url

    def upserting(self, batch_rows):
        return upserting(self.url, "people", batch_rows=batch_rows)

    def kept(self):
        return rows_of(self.url, "SELECT id, city, name FROM people")


def test_types(log, url):
    """Every type arrives as what PostgreSQL has for it, whatever the database sets for its sessions; nested values as jsonb."""
    schema = (
        "k int NOT NULL, b boolean, t tinyint, s smallint, l bigint, f float, d double, x string, y binary, day date, at timestamp, "
        "wall timestamp_ntz, price decimal(12,2), tags array<string>, place struct<lat:double,names:map<string,int>>"
    )
    log.create_topic("kinds", schema, key="k")
    row = {
        "k": 1, "b": True, "t": -1, "s": 2, "l": 1 << 40, "f": 1.5, "d": 0.1, "x": "ä\n", "y": b"\0\xff", "day": dt.date(2020, 2, 29),
        "at": dt.datetime(2020, 1, 1, 12, 0, 0, 5, dt.timezone.utc), "wall": dt.datetime(2020, 1, 1), "price": decimal.Decimal("12.30"),
        "tags": ["a", None], "place": {"lat": 1.0, "names": {"x": 1}},
    }  # fmt: skip
    with log.producer() as producer:
        producer.send("kinds", row)
        producer.send("kinds", dict.fromkeys(row) | {"k": 2})
    with psycopg.connect(url, autocommit=True) as connection:
        set_oddly(connection)
        run([upserting(url, "kinds")], log, once=True)
        cursor = connection.execute("SELECT * FROM kinds ORDER BY k")
        names = [column.name for column in cursor.description or ()]
        one, other = cursor.fetchall()
    assert dict(zip(names, one, strict=True)) == row | {"place": {"lat": 1.0, "names": {"x": 1}}}
    assert other == (2, *[None] * 14)


def test_a_table_that_does_not_fit(log, url):
    """A table that lacks a column, or needs one that the topic has not, is refused before anything is written."""
    log.create_topic("people", "id int NOT NULL, name string", key="id")
    for ddl, message in (
        ("CREATE TABLE people (id int PRIMARY KEY)", "the table people has no column 'name'"),
        ("CREATE TABLE people (id int PRIMARY KEY, name text, age int NOT NULL)", "needs a value for 'age'"),
        ("CREATE TABLE people (id int, name text)", r'several rows of a key.* ADD PRIMARY KEY \("id"\)'),
        ("CREATE TABLE people (id time PRIMARY KEY, name text)", "the column 'id' of the table people is time without time zone"),
    ):
        with psycopg.connect(url) as connection:
            connection.execute("DROP TABLE IF EXISTS people")
            connection.execute(ddl)
        with pytest.raises(SchemaError, match=message):
            run([upserting(url, "people")], log, once=True)
    with pytest.raises(ConfigError, match="there is no table nobody"):
        run([upserting(url, "people", table="nobody", auto_create=False)], log, once=True)


def test_names_that_postgresql_cuts(log):
    """Two topics whose names are one table, or two columns that are one, and columns that PostgreSQL has itself, are refused at the start."""
    log.create_topic("x" * 64, "id int NOT NULL", key="id")
    log.create_topic("columns", f"id int NOT NULL, {'c' * 64} int", key="id")
    log.create_topic("own", "id int NOT NULL, xmin int", key="id")
    for topic, said in (
        ("x" * 64, r"has 64 bytes; expected at most 63: PostgreSQL cuts longer names"),
        ("columns", r"column 'c{64}', and PostgreSQL takes names of at most 63 bytes"),
        ("own", r"column 'xmin', and PostgreSQL takes names .* other than ctid, xmin"),
    ):
        with pytest.raises(ConfigError, match=said):
            run([upserting("postgresql://127.0.0.1:1/none", topic)], log, once=True)


FITTING = "id bigint NOT NULL, `a.b` decimal(20,4), u string, j string, m string, d double, at timestamp"


def test_columns_of_other_types(log, url):
    """Texts become what the column is, times are UTC's; a name with dots or capitals is one name, and a key of another type deletes too."""
    log.create_topic("others", FITTING, key="u")
    row = {"id": 7, "a.b": decimal.Decimal("1.5"), "u": "A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11", "j": '{"a": 1}', "m": "ok", "d": 0.1 + 0.2,
           "at": dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone.utc)}  # fmt: skip
    with log.producer() as producer:
        producer.send("others", row)
        producer.send("others", row | {"u": "11111111-9c0b-4ef8-bb6d-6bb9bd380a11"})
        producer.delete("others", {"u": "11111111-9c0b-4ef8-bb6d-6bb9bd380a11"})
    with psycopg.connect(url) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET timezone = 'Asia/Tokyo'")
        connection.execute('CREATE SCHEMA "The Sales"')
        connection.execute("CREATE TYPE mood AS ENUM ('ok')")
        connection.execute(
            'CREATE TABLE "The Sales"."a.b" (id int, "a.b" numeric(9,2), u uuid UNIQUE, j jsonb, m mood, d numeric(9,2), at timestamp)'
        )
    run([upserting(url, "others", table='"The Sales"."a.b"')], log, once=True)
    found = rows_of(url, 'SELECT id, "a.b"::text, u::text, j, m::text, d::text, at::text FROM "The Sales"."a.b"')
    assert found == [(7, "1.50", str(row["u"]).lower(), {"a": 1}, "ok", "0.30", "2026-07-01 12:00:00")]


def test_arrays(log, url):
    """Lists go into jsonb, or into an array of the table in their order; an item that would be another is refused."""
    log.create_topic("lists", "id bigint NOT NULL, t array<string>, n array<decimal(20,4)>, j array<int>", key="id", partitions=1)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE lists (id bigint PRIMARY KEY, t text[], n numeric(6,2)[], j jsonb)")
    texts = ["b", None, "NULL", 'a,"{}\\', ""]
    with log.producer() as producer:
        producer.send("lists", {"id": 1, "t": texts, "n": [decimal.Decimal("1.5"), None], "j": [1]})
        producer.send("lists", {"id": 2, "t": [], "n": None, "j": None})
        producer.send("lists", {"id": 3, "t": None, "n": [decimal.Decimal("1.005")], "j": None})
    with pytest.raises(SchemaError, match=r"offset 2, TASK_PUT: the column 'n' of the table lists is numeric\(6,2\)\[\]"):
        run([upserting(url, "lists")], log, once=True)
    run([upserting(url, "lists", errors_tolerance="all")], log, once=True)
    assert rows_of(url, "SELECT id, t, n::text, j FROM lists ORDER BY id") == [
        (1, texts, "{1.50,NULL}", [1]),
        (2, [], None, None),
    ]


def test_values_that_would_be_others(log, url):
    """A value that the table's column would round or cut is refused by its row, and the column named; the others are written."""
    log.create_topic("others", FITTING, key="id", partitions=1)
    row = {
        "id": 0,
        "a.b": decimal.Decimal("1.5"),
        "u": "u",
        "j": "j",
        "m": "m",
        "d": 0.5,
        "at": dt.datetime(2026, 7, 1, tzinfo=dt.timezone.utc),
    }
    changes: list[dict[str, object]] = [
        {},
        {"a.b": decimal.Decimal("1.2345")}, {"d": 0.1}, {"at": dt.datetime(2026, 7, 1, 1, tzinfo=dt.timezone.utc)}, {"u": "u  "},
        {"m": "1.005"}, {"a.b": decimal.Decimal(1234567)}, {},
    ]  # fmt: skip
    with log.producer() as producer:
        producer.send_batch("others", [row | {"id": number, "m": "1.50"} | change for number, change in enumerate(changes)])
    with psycopg.connect(url) as connection:
        connection.execute(
            'CREATE TABLE others (id bigint PRIMARY KEY, "a.b" numeric(6,2), u varchar(2), j text, m numeric(6,2), d real, at date)'
        )
    with pytest.raises(
        SchemaError, match=r"offset 1, TASK_PUT: the column 'a.b' of the table others is numeric\(6,2\).* '1.2345'"
    ):
        run([upserting(url, "others")], log, once=True)
    run([upserting(url, "others", errors_tolerance="all")], log, once=True)
    assert rows_of(url, "SELECT id FROM others ORDER BY id") == [(0,), (7,)]


# Texts that a column of a type has all of, and texts that it would round, cut, or read as another moment each time.
TEXTS = {
    "timestamp": (
        [
            "2024-01-01 00:00:00",
            "2024-01-01T00:00:00Z",
            "2024-01-01 00:00+00",
            "infinity",
            "epoch",
            "2024-01-01 01:02:03.1234560",
        ],
        ["2024-01-01 00:00:00+05", "now", "today", " Tomorrow ", "2024-01-01 00:00:00.1234567", "<(1,2),3>", "1 2 3"],
    ),
    "timestamp(0)": (["2024-01-01 00:00:00"], ["2024-01-01 00:00:00.5"]),
    "timestamptz": (["2024-01-01 00:00:00+05", "2024-01-01"], ["now", "yesterday", "2024-01-01 00:00:00.1234567+00"]),
    "date": (
        ["2024-01-01", "2024-01-01T00:00:00Z", "January 8, 1999", "20240101", "01/02/2024", "2024.123", "0044-03-15 BC"],
        ["2024-01-01 12:00", "today", "2024-01-01 00:00:00+05", "<(1,2),3>", "{1,2,3}", "1 2 3"],
    ),
    "time": (
        ["12:00", "12:00:01.123456", "T12:00", "04:05 PM", "12:00:00Z"],
        ["12:00+05", "2024-01-01 12:00", "now", "12:00:00.1234567"],
    ),
    "timetz": (["12:00+05", "12:00:00.5-03:30"], ["2024-01-01 12:00+05", "12:00:00.1234567+00", "now"]),
    "interval": (
        ["1 day", "1.5 hours", "P1DT2H", "@ 1 day ago", "-1-2", "1.25 years", "P1.50Y"],
        ["1.0000001 sec", "1.23 years", "(1)", r"\000"],
    ),
    "double precision": (
        ["0.1", "1e300", "0.10000000000000001", "9007199254740992", "NaN", "-Infinity", "-0", "1.50"],
        ["9007199254740993", "0.1234567890123456789", "1.00000000000000000001"],
    ),
    "real": (["0.1", "0.100000001", "16777216", "3.1415927", "inf"], ["16777217", "0.123456789012"]),
    "numeric(6,2)": (["1.50"], ["1.505"]),
    "money": (
        ["$1.50", "1.5", "-3", "1,000.00", "(5)", "-$2,345,678.9", "($1.50)", ".5"],
        ["", "1.505", "1,5", "1,0000", "1,000.005", "(5", "5)", "(-5)", "1.000,5"],
    ),
    "oid": (["1", "4294967295"], ["-1"]),
    '"char"': (["a"], ["ab", "é"]),
    "name": (["abc"], ["x" * 100]),
    "varchar(2)": (["ab"], ["abc", "ab "]),
    "bit(3)": (["101"], ["1011"]),
    "bit(3)[]": (["{101}"], ["{1011}"]),
    "char(2)[]": (["{ab,c,NULL}"], ["{abc}"]),
    "date[]": (["{2024-01-01}"], ["{2024-01-01 12:00}", "{today}"]),
    "double precision[]": (["{{0.1,NULL},{1,2}}"], ["{1,9007199254740993}"]),
    "integer[]": (["{1,2}"], ["{x}"]),
    "tsrange": (["[2024-01-01,2024-02-01)"], ['["2024-01-01 00:00:00+05",)', "[now,)"]),
    "daterange": (["[2024-01-01,)"], ["[2024-01-01 12:00,)"]),
    "hstore": (["a=>1", r'"a=>b"=>1, c\"=>NULL', "a=>1,b=>1", ""], ["a=>", "a", "a=>1,a=>2", '"a"=>1, a=>1']),
    "jsonb": (
        [
            '{"a":1,"b":{"a":1}}',
            r'{"a:\"b":"x:y", "c:":[{"d":1},{"d":2}]}',
            "1",
            "[]",
            '"::"',
            '["-0", ",-0,", -0.5, 1e-0, -0.01, 0.0]',
        ],
        [
            '{"a":1,"a":1}',
            '[{"b":{"a":1,"c":2,"a":3}}]',
            r'{"a\"":1,"a\"":2}',
            "{",
            "-0",
            " -0.0e5 ",
            "[1,-0]",
            '{"a": -0.00}',
            r'["\"",-0]',
        ],
    ),
    "jsonb[]": ([r'{"{\"a\":1}"}'], [r'{"{\"a\":1,\"a\":1}"}']),
    "xid": (["0", " 17 ", "4294967295"], ["abc", "1.9", "", "-1", "0x1F", "010", "4294967296", "1e3"]),
    "xid8": (["0", "18446744073709551615"], ["abc", "1.9", "", "-1", "0x1F", "18446744073709551616"]),
    "cid": (["3"], ["x", "-1"]),
    "oidvector": (["1 2"], ["-1"]),
    "tid": (["(1,2)"], ["(,)", "(1,)", "<(1,2),3>", "(1,2),(3,4)"]),
    "cidr": (["10.0.0.0/8", "::/0", "10"], ["0x1F"]),
    "macaddr": (["08:00:2b:01:02:03", "08002B-010203", "0800.2b01.0203"], ["2020-01-01"]),
    "point": (["(1,2)", "0.1,1e-3"], ["(0.1234567890123456789,1)"]),
    "circle": (["<(1,2),3>"], ["<(1,2),9007199254740993>"]),
    "box": (["(1,2),(3,4)"], ["(1,2),(3,1.00000000000000000001)"]),
    "tsvector": (["'it''s:99999' a:1,16383B"], ["a:16384", "a:1,99999A", "'x"]),
    "tsquery": (["a & b"], ["a b"]),
    "jsonpath": (["$.a"], ["$."]),
    "regtype": (["integer"], ["no such", "nothing", "none.such"]),
    "regclass": (["pg_class"], ["nothing", "none.such", "a.b.c"]),
    "regproc": (["pg_backend_pid"], ["nothing", "upper"]),
    "regrole": (["streamkit"], ["nobody_here"]),
    "price": (["1.50"], ["1.505"]),
    "dear_price": (["1.50"], ["1.505"]),
    "dear_price[]": (["{1.50}"], ["{1.505}"]),
    "line_of_order": (['(1.50,"a b")'], ["(1.505,a)"]),
}
LISTS: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {
    ("string", "date[]"): (["2024-01-01"], ["2024-01-01 12:00"]),
    ("string", "char(2)[]"): (["ab"], ["abc"]),
    ("timestamp", "date[]"): ([dt.datetime(2024, 1, 1)], [dt.datetime(2024, 1, 1, 12)]),
    ("timestamp", "timestamptz[]"): ([dt.datetime(2024, 1, 1, 12)], []),
    ("double", "real[]"): ([0.5], [0.1]),
    ("float", "real[]"): ([0.5, 0.1], []),
    ("bigint", "double precision[]"): ([1 << 53], [(1 << 53) + 1]),
    ("int", "oid[]"): ([1], [-1]),
    ("double", "jsonb"): ([0.0, -0.5, 1e-300, -1.0], [-0.0]),
    ("float", "jsonb"): ([0.0, 0.1], [-0.0]),
    ("struct<a:string,b:map<string,float>>", "jsonb"): (
        [{"a": "-0.0", "b": {"-0.0": 0.0, "-0": 1.5}}],
        [{"a": "", "b": {"x": -0.0}}],
    ),
}


def test_sessions_of_odd_settings(log, url):
    """Foreign keys and zones count as they do by themselves, and a commit outlives the server; a stricter one stays, whoever says it."""
    log.create_topic("child", "id int, parent int, at string", key="id")
    with log.producer() as producer:
        producer.send("child", {"id": 1, "parent": 1, "at": "2024-01-01 10:00 EST"})
        producer.send("child", {"id": 2, "parent": 99, "at": None})
    with psycopg.connect(url, autocommit=True) as connection:
        set_oddly(connection)
        connection.execute("CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1)")
        for level, kept in (("off", "on"), ("local", "local"), ("remote_write", "remote_write")):
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = '{level}'")
            connection.execute("DROP TABLE IF EXISTS child")
            connection.execute(
                "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, at timestamptz, "
                "level text DEFAULT current_setting('synchronous_commit'))"
            )
            settings = {"topics": "child", "insert.mode": "upsert", "errors.tolerance": "all"}
            run([PostgresSink(f"out-{level}", settings, connection_url=url)], log, once=True)
            found = connection.execute("SELECT id, at AT TIME ZONE 'UTC', level FROM child").fetchall()
            assert found == [(1, dt.datetime(2024, 1, 1, 15), kept)]
        connection.execute("CREATE ROLE plain")
        try:
            given = f"{url}&options=-c%20session_replication_role%3Dreplica%20-c%20role%3Dplain"
            with pytest.raises(ConfigError, match=r"sessions of plain have session_replication_role=replica.*RESET"):
                run([PostgresSink("other", settings, connection_url=given)], log, once=True)
        finally:
            connection.execute("DROP ROLE plain")


def test_texts_that_would_be_others(log, url):
    """
    Of each type: what it has all of is there, and all else a dead letter with its column; so of items of lists, and of numbers.

    The database has settings by which statements and texts would mean something else.
    """
    columns: dict[str, tuple[str, list[Any], list[Any]]] = {}
    with psycopg.connect(url) as connection:
        set_oddly(connection)
        connection.execute(
            "CREATE EXTENSION hstore; CREATE DOMAIN price AS numeric(6,2); CREATE DOMAIN dear_price AS price CHECK (VALUE > 1)"
        )
        connection.execute("CREATE TYPE line_of_order AS (price numeric(6,2), name text)")
        for type, (kept, refused) in TEXTS.items():
            columns[type] = ("string", list(kept), list(refused))
        for (inner, type), (items, others) in LISTS.items():
            columns[f"{type} of {inner}"] = (f"array<{inner}>", [[item] for item in items], [[item] for item in others])
        columns["oid of int"] = ("int", [1, 2**31 - 1], [-1, -(2**31)])
        names = {f"c{number}": type for number, type in enumerate(columns)}
        tables = [
            dict([*names.items()][first : first + 8]) for first in range(0, len(names), 8)
        ]  # narrow: each row that is refused is a statement
        for number, types in enumerate(tables):
            declared = ", ".join(f"{name} {type.partition(' of ')[0]}" for name, type in types.items())
            connection.execute(f"CREATE TABLE texts{number} (id int PRIMARY KEY, {declared})")
    wanted: set[int] = set()
    rows: list[dict[str, Any]] = []
    for number, types in enumerate(tables):
        fields = ", ".join(f"{name} {columns[type][0]}" for name, type in types.items())
        log.create_topic(f"texts{number}", f"id int NOT NULL, {fields}", key="id", partitions=1)
        first = len(rows)
        for is_kept in (True, False):  # so that few statements find those that are refused
            for name, type in types.items():
                for value in columns[type][1 if is_kept else 2]:
                    if is_kept:
                        wanted.add(len(rows))
                    rows.append({**dict.fromkeys(types), "id": len(rows), name: value})
        with log.producer() as producer:
            producer.send_batch(f"texts{number}", rows[first:])
    letters = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "dead"}
    run([upserting(url, ",".join(f"texts{number}" for number in range(len(tables))), **letters)], log, once=True)
    found = {id for number in range(len(tables)) for (id,) in rows_of(url, f"SELECT id FROM texts{number}")}
    assert found == wanted, [list(rows[number].values()) for number in sorted(found ^ wanted)]
    assert log.read("dead").num_rows == len(rows) - len(wanted)


def test_statements_that_no_row_is_to_blame_for(log, url):
    """A column or table that went while a task writes, and a trigger that is broken, end the task, whatever is tolerated."""
    log.create_topic("people", "id int NOT NULL, kind string", key="id", partitions=1)
    letters = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "dead"}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE people (id int PRIMARY KEY, kind regtype)")
        connection.execute(
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO nothing VALUES (1); RETURN new; END'; "
            "CREATE TRIGGER broken BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION broken()"
        )
        with log.producer() as producer:
            producer.send_batch("people", [{"id": 1, "kind": "integer"}, {"id": 2, "kind": "integer"}])
        with pytest.raises(Exception, match='relation "nothing" does not exist'):
            run([upserting(url, "people", **letters)], log, once=True)
        connection.execute("DROP TRIGGER broken ON people")
        with run([upserting(url, "people", **letters)], log) as worker:
            wait_until(lambda: len(rows_of(url, "SELECT FROM people")) == 2)
            connection.execute("ALTER TABLE people DROP COLUMN kind")
            with log.producer() as producer:
                producer.send_batch("people", [{"id": 3, "kind": "integer"}, {"id": 4, "kind": "none such"}])
            wait_until(lambda: any(one.state == "FAILED" for one in worker.status()))
            assert 'column "kind" of relation "people" does not exist' in worker.status()[0].trace
    assert "dead" not in log.topics() or log.read("dead").num_rows == 0


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize("what", ["rule", "trigger"])
def test_tables_that_take_fewer_rows(log, url, caplog, what, mode):
    """A rule or a trigger may swallow rows without an error: the log says how many, once a task."""
    log.create_topic("people", "id int NOT NULL, age int", key="id", partitions=1)
    with log.producer() as producer:
        producer.send_batch("people", [{"id": id, "age": id} for id in range(10)])
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE people (id int PRIMARY KEY, age int)")
        if what == "rule":
            connection.execute("CREATE RULE few AS ON INSERT TO people WHERE new.id % 5 = 0 DO INSTEAD NOTHING")
        else:
            connection.execute(
                "CREATE FUNCTION few() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF new.id % 5 = 0 THEN RETURN NULL; END IF; RETURN new; END'; "
                "CREATE TRIGGER few BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION few()"
            )
    run([PostgresSink("out", connection_url=url, topics="people", insert_mode=mode, batch_rows=5)], log, once=True)
    assert [id for (id,) in rows_of(url, "SELECT id FROM people ORDER BY id")] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert caplog.text.count("the table people took 4 of 5 rows; a trigger or a rule of it left out the others") == 1


@pytest.mark.parametrize("definition", ["age int GENERATED ALWAYS AS (id + 1) STORED", "age int GENERATED ALWAYS AS IDENTITY"])
def test_columns_that_take_no_values(log, url, definition):
    """PostgreSQL makes these values itself: refused before anything is written; a column that takes a default or a value is not."""
    log.create_topic("people", "id int NOT NULL, age int", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("people", {"id": 1, "age": 7})
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE people (id int PRIMARY KEY, {definition})")
        with pytest.raises(SchemaError, match=r"column 'age' of the table people is (a generated|GENERATED).*ReplaceField"):
            run([upserting(url, "people", errors_tolerance="all")], log, once=True)
        connection.execute(
            "DROP TABLE people; CREATE TABLE people (id int PRIMARY KEY, age int GENERATED BY DEFAULT AS IDENTITY)"
        )
    run([upserting(url, "people")], log, once=True)
    assert rows_of(url, "SELECT age FROM people") == [(7,)]


def test_rows_that_are_refused(log, url):
    """A row that breaks a constraint stops the task and is named; or it is a dead letter, and all others are written."""
    log.create_topic("people", "id int NOT NULL, age int", key="id", partitions=1)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE people (id int PRIMARY KEY, age int CHECK (age >= 0))")
    with log.producer() as producer:
        producer.send_batch("people", [{"id": n, "age": -1 if n in (3, 77) else n} for n in range(100)])
    with pytest.raises(SchemaError, match=r"topic people, partition 0, offset 3, TASK_PUT"):
        run([upserting(url, "people")], log, once=True)
    run([upserting(url, "people", errors_tolerance="all", errors_deadletterqueue_topic_name="bad")], log, once=True)
    assert {row[0] for row in rows_of(url, "SELECT id FROM people")} == set(range(100)) - {3, 77}
    assert sorted(row["value"] for row in log.read("bad").to_pylist()) == [b'{"id": 3, "age": -1}', b'{"id": 77, "age": -1}']


TOGETHER = {  # a table, whether it is upserted, the rows (id, other), those that are refused, and what the table has then
    "the second of two that are alike": (
        "id int PRIMARY KEY, other text", False, [(1, "a"), (2, "b"), (1, "c"), (3, "d"), (2, "e")],
        {(1, "c"): "(id)=(1) already exists", (2, "e"): "(id)=(2) already exists"}, [(1, "a"), (2, "b"), (3, "d")],
    ),
    "at the commit": (
        "id int, other text, UNIQUE (other) DEFERRABLE INITIALLY DEFERRED", False, [(1, "a"), (2, "b"), (3, "a"), (4, "c")],
        {(3, "a"): "(other)=(a) already exists"}, [(1, "a"), (2, "b"), (4, "c")],
    ),
    "a child before its parent": (
        "id int PRIMARY KEY, other text, parent int GENERATED ALWAYS AS (CASE WHEN other ~ '^[0-9]+$' THEN other::int END) STORED REFERENCES t",
        False, [(1, "6"), (2, "1"), (3, "9"), (4, "x"), (5, "3"), (6, "x"), (7, "x")],
        {(3, "9"): "(parent)=(9) is not present", (5, "3"): "(parent)=(3) is not present"}, [(1, "6"), (2, "1"), (4, "x"), (6, "x"), (7, "x")],
    ),
    "rows that need each other": (
        "id int PRIMARY KEY, other text, parent int GENERATED ALWAYS AS (CASE WHEN other ~ '^[0-9]+$' THEN other::int END) STORED REFERENCES t",
        True, [(1, "2"), (3, "99"), (2, "1"), (4, "5"), (7, "3"), (5, "6"), (8, "4"), (9, "9"), (6, "4"), (10, "11"), (11, "7")],
        {(3, "99"): "(parent)=(99) is not", (7, "3"): "(parent)=(3) is not", (10, "11"): "(parent)=(11) is not", (11, "7"): "(parent)=(7) is not"},
        [(1, "2"), (2, "1"), (4, "5"), (5, "6"), (6, "4"), (8, "4"), (9, "9")],
    ),
    "rows that need each other at the commit": (
        (
            "id int PRIMARY KEY, other text, parent int GENERATED ALWAYS AS (CASE WHEN other ~ '^[0-9]+$' THEN other::int END) STORED "
            "REFERENCES t DEFERRABLE INITIALLY DEFERRED"
        ),
        True, [(1, "2"), (2, "1"), (3, "99")], {(3, "99"): "(parent)=(99) is not"}, [(1, "2"), (2, "1")],
    ),
    "two keys that are one": (
        "id int, other numeric(9,0) UNIQUE", True, [(1, "1.0"), (2, "2"), (3, "1"), (4, "3")],
        {}, [(2, "2"), (3, "1"), (4, "3")],
    ),
    "bytes that are no text, and a trigger": (
        "id int, other text", False, [(1, "a"), (2, "no\0"), (3, "raise"), (4, "b"), (5, "")],
        {(2, "no\0"): "0x00", (3, "raise"): "row 3 is not liked"}, [(1, "a"), (4, "b"), (5, "")],
    ),
    "an older row of a key": (
        "id int PRIMARY KEY CHECK (id <> 5), other text UNIQUE CHECK (other <> 'bad')", True, [(1, "a"), (1, "bad"), (2, "bad"), (2, "b"), (5, "c")],
        {(1, "bad"): "violates check", (5, "c"): "violates check"}, [(1, "a"), (2, "b")],
    ),
}  # fmt: skip
RAISING = """
CREATE FUNCTION dislike() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF NEW.other::text = 'raise' THEN RAISE 'row % is not liked', NEW.id; END IF; RETURN NEW; END $$;
CREATE TRIGGER dislike BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION dislike();
"""


@pytest.mark.parametrize("case", list(TOGETHER))
def test_rows_that_are_refused_for_others_of_their_batch(log, url, case):
    """What depends on other rows of a put, or shows at the commit alone: the guilty rows are left out, with what PostgreSQL says of each."""
    columns, is_upsert, rows, refused, kept = TOGETHER[case]
    key = ("other" if "two keys" in case else "id") if is_upsert else None
    log.create_topic("t", f"id int NOT NULL, other {'string NOT NULL' if key == 'other' else 'string'}", key=key, partitions=1)
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE t ({columns})")
        connection.execute(RAISING)
    with log.producer() as producer:
        producer.send_batch("t", [{"id": number, "other": other} for number, other in rows])
    settings = {**RefusingContract.ERRORS, "insert.mode": "upsert" if is_upsert else "insert"}
    run([PostgresSink("out", settings, connection_url=url, topics="t")], log, once=True)
    assert rows_of(url, "SELECT id, other::text FROM t ORDER BY id") == kept
    letters = log.read("bad", columns=["value", "_headers"]).to_pylist()
    said = {tuple(json.loads(one["value"]).values()): reason_of(one) for one in letters}
    assert sorted(said) == sorted(refused)
    assert all(refused[row] in text for row, text in said.items()), said


def test_dead_letters_of_a_put_stand_in_its_order(log, url):
    """Whoever refuses a row, the sink before PostgreSQL or PostgreSQL itself, and however the rows were cut into batches."""
    log.create_topic("t", "id int NOT NULL, n string, v int", key="id", partitions=1)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric(6,2), v int CHECK (v <> 3))")
    with log.producer() as producer:
        producer.send_batch(
            "t", [{"id": id, "n": n, "v": v} for id, n, v in [(1, "1.5", 3), (1, "1.234", 1), (2, "1", 3), (2, "1.005", 3)]]
        )
    for cut in (1, 1000):
        log.create_topic(f"bad{cut}", format="bytes", partitions=1)
        errors = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": f"bad{cut}"}
        sink = PostgresSink(f"by{cut}", connection_url=url, topics="t", insert_mode="upsert", batch_rows=cut, **errors)
        run([sink], log, once=True)
        assert [json.loads(one["value"])["n"] for one in log.read(f"bad{cut}").to_pylist()] == ["1.5", "1.234", "1", "1.005"]


def test_a_deletion_that_is_not_wanted(log, url):
    """Without delete.enabled a deletion is an error, not a row of nulls."""
    log.create_topic("people", "id int NOT NULL, name string", key="id")
    with log.producer() as producer:
        producer.delete("people", {"id": 1})
    with pytest.raises(SchemaError, match=r"delete\.enabled=true"):
        run([PostgresSink("out", connection_url=url, topics="people")], log, once=True)


def test_a_target_that_lost_rows(log, url):
    """A target that knows less than the group has committed was restored from a backup: an error, not a gap."""
    log.create_topic("people", "id int NOT NULL, name string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send_batch("people", [{"id": n, "name": "n"} for n in range(5)])
    run([upserting(url, "people")], log, once=True)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE streamkit_positions SET next_offset = 3")
    with pytest.raises(ConfigError, match="offset 3, but 5 was committed: it has lost rows"):
        run([upserting(url, "people")], log, once=True)
    reset_group(log, "out", ["people"])
    run([upserting(url, "people")], log, once=True)
    assert len(rows_of(url, "SELECT * FROM people")) == 5


def has_rows(connection, count):
    return connection.execute("SELECT count(*) > %s FROM people", (count,)).fetchone() == (True,)


def test_the_connection_is_cut(log, url):
    """A server that ends all connections for a while is waited for, and every row is there once."""
    log.create_topic("people", "id int NOT NULL, name string", key="id")
    with psycopg.connect(url, autocommit=True) as connection, log.producer() as producer:
        connection.execute("CREATE TABLE people (id int, name text)")
        with run([PostgresSink("out", connection_url=url, topics="people", batch_rows=10)], log):
            for number in range(3):
                producer.send_batch("people", [{"id": 100 * number + n, "name": "n"} for n in range(100)])
                producer.flush()
                wait_until(partial(has_rows, connection, 50 + 100 * number))
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'target'"
                )
            wait_until(lambda: connection.execute("SELECT count(*), count(DISTINCT id) FROM people").fetchall() == [(300, 300)])


FULL = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
RAISE 'could not extend file "base/5/16384": No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON people FOR EACH STATEMENT EXECUTE FUNCTION refuse();
"""


def test_a_server_without_room(log, url):
    """A server whose disk is full is waited for; the state says the table, the place and what to do, and every row is there once."""
    log.create_topic("people", "id int NOT NULL, name string", key="id", partitions=1)
    with psycopg.connect(url, autocommit=True) as connection, log.producer() as producer:
        connection.execute("CREATE TABLE people (id int, name text)")
        connection.execute(FULL)
        producer.send_batch("people", [{"id": n, "name": "n"} for n in range(50)])
        producer.flush()

        def waits():
            return any(
                one.state == status.RESTARTING
                and "StorageFullError: connector out: PostgreSQL, table people has no room for rows of topic people, partition 0, offset 0"
                in one.trace
                for one in status.read_status(log)
            )

        with run([PostgresSink("out", connection_url=url, topics="people")], log):
            wait_until(waits)
            assert connection.execute("SELECT count(*) FROM people").fetchone() == (0,)
            connection.execute("DROP TRIGGER refuse ON people")
            wait_until(partial(has_rows, connection, 49))
        assert connection.execute("SELECT count(*), count(DISTINCT id) FROM people").fetchall() == [(50, 50)]


def test_passwords_are_not_shown(log):
    """A server that cannot be reached is named without the password."""
    log.create_topic("people", "id int NOT NULL, name string", key="id")
    sink = PostgresSink("out", connection_url="postgresql://me:hunter2@127.0.0.1:1/none", topics="people")
    with pytest.raises(Exception, match="onnect"):
        run([sink], log, once=True)
    assert "hunter2" not in str([one.to_json() for one in status.read_status(log)])
