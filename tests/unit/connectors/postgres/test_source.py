"""Changes of tables of PostgreSQL: the contract, what a change becomes, deaths within a snapshot, and slots that lost changes."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import json
import os
import random
import select
import subprocess
import tempfile
import time
from itertools import pairwise, product
from pathlib import Path

import psycopg
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.postgres import PostgresSink, PostgresSource
from streamkit.connectors.postgres.connection import connect
from streamkit.connectors.postgres.own_name import former_name, own_name
from streamkit.connectors.postgres.replication import ReplicationConnection
from streamkit.connectors.runtime import positions, status
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError, SchemaError
from streamkit.failpoints import SimulatedCrash
from tests.kit.postgres import Server, binaries
from tests.kit.sampling import TAKES_ALL, combined, in_turn
from tests.kit.waiting import wait_until
from tests.unit.connectors.contract import SourceContract, dies
from tests.unit.connectors.postgres.odd_settings import set_oddly

pytestmark = pytest.mark.foreign("postgres")
MINUTE_SECONDS = 60
POINTS = ("connect.polled", "connect.staged", "connect.committed")
OWN_NAMES = ("_deleted", "_timestamp", "_row", "_offset")


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log" if TAKES_ALL else ":memory:") as log:
        yield log


@pytest.fixture
def database(url):
    """A connection that commits each statement."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


class TestContract(SourceContract):
    """A table whose rows are there before the source begins, or come as changes."""

    WAYS = ("snapshot", "stream")

    @pytest.fixture(autouse=True)
    def _table(self, url, database, way, log):
        self.url, self.database = url, database
        database.execute("CREATE TABLE numbers (n int PRIMARY KEY, text text)")
        if way == "stream":
            self.run(log)

    def make_again(self):
        self.database.execute("DROP TABLE numbers")
        self.database.execute("CREATE TABLE numbers (n int PRIMARY KEY, text text)")
        return True

    def source(self, **settings):
        return PostgresSource("in", {"connection.url": self.url, "tables": "numbers", "poll.rows": 17, **settings})

    def add(self, first, count):
        self.database.execute(
            "INSERT INTO numbers SELECT n, 'text ' || n FROM generate_series(%s::int, %s::int) n", (first, first + count - 1)
        )

    def expected(self, first, count):
        return [(n, f"text {n}") for n in range(first, first + count)]

    def found(self, log):
        rows = log.read("numbers", columns=["n", "text", "_deleted"]).to_pylist()
        return [(row["n"], row["text"]) for row in rows if not row["_deleted"]]


def source(url, tables, **settings):
    return PostgresSource("in", connection_url=url, tables=tables, **settings)


def rows(log, topic):
    """What the topic has, deletions marked."""
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in log.read(topic).to_pylist()]


def kept(log, topic):
    """The ids of rows that were not deleted since."""
    found = log.read(topic, columns=["id", "_deleted"]).to_pylist()
    return {id for id, is_deleted in {row["id"]: row["_deleted"] for row in found}.items() if not is_deleted}


def bring(log, one):
    run([one], log, once=True)


def times(is_example):
    """How often something is refused: an ordinary run asks a second time in one case of each kind."""
    return 2 if TAKES_ALL or is_example else 1


def test_changes_of_rows(log, url, database):
    """Insertions, updates, deletions and changes of the key come in their order, as rows and deletions by the key."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY, name text)")
    database.execute("INSERT INTO people VALUES (1, 'Ada')")
    bring(log, source(url, "people"))
    for statement in (
        "INSERT INTO people VALUES (2, 'Bob')",
        "UPDATE people SET name = 'Ada L.' WHERE id = 1",
        "UPDATE people SET id = 20 WHERE id = 2",
        "DELETE FROM people WHERE id = 1",
        "BEGIN; INSERT INTO people VALUES (3, 'gone'); ROLLBACK",
    ):
        database.execute(statement)
    bring(log, source(url, "people"))
    assert log.topic("people").key == ("id",)
    found = [
        (row["id"], row["name"], row["_deleted"]) for row in log.read("people", columns=["id", "name", "_deleted"]).to_pylist()
    ]
    expected = {1: [("Ada", False), ("Ada L.", False), (None, True)], 2: [("Bob", False), (None, True)], 20: [("Bob", False)]}
    assert {key: [row[1:] for row in found if row[0] == key] for key in (1, 2, 20, 3)} == {**expected, 3: []}


def test_types(log, url, database):
    """Each type has a column of its own kind, the same from a snapshot and from changes, whatever the database sets for its sessions."""
    columns = {
        "b": ("boolean", "true", True), "s": ("smallint", "-2", -2), "l": ("bigint", "1099511627776", 1 << 40), "f": ("real", "1.5", 1.5),
        "d": ("double precision", "'-Infinity'", float("-inf")), "n": ("numeric(12,2)", "12.3", decimal.Decimal("12.30")),
        "a": ("numeric", "12.345", decimal.Decimal("12.345")), "x": ("text", r"E'ä\n\t\\'", "ä\n\t\\"), "y": ("bytea", r"'\x00ff'", b"\0\xff"),
        "day": ("date", "'2020-02-29'", dt.date(2020, 2, 29)), "wall": ("timestamp", "'2020-01-01 12:00:00.5'", dt.datetime(2020, 1, 1, 12, 0, 0, 500_000)),
        "at": ("timestamptz", "'2020-01-01 12:00:00.000005+02'", dt.datetime(2020, 1, 1, 10, 0, 0, 5, dt.timezone.utc)),
        "tags": ("text[]", """'{a,NULL,"b \\"c\\\\",""}'""", ["a", None, 'b "c\\', ""]), "numbers": ("int[]", "'{1,2}'", [1, 2]), "none": ("int[]", "'{}'", []),
        "doc": ("jsonb", """'{"a": 1}'""", '{"a": 1}'), "id": ("uuid", "'6b9e1c1c-3c3a-4c3e-9d4e-0123456789ab'", "6b9e1c1c-3c3a-4c3e-9d4e-0123456789ab"),
        "mood": ("mood", "'glad'", "glad"), "age": ("years", "7", 7), "span": ("interval", "'1 day 2 hours'", "P1DT2H"), "c": ("char(3)", "'ab'", "ab "),
        "places": ("int2vector", "'1 2'", "1 2"), "oids": ("oidvector", "'3 4'", "3 4"),
    }  # fmt: skip
    database.execute("CREATE TYPE mood AS ENUM ('glad')")
    database.execute("CREATE DOMAIN years AS smallint")
    set_oddly(database)
    database.execute(f"CREATE TABLE kinds (k int PRIMARY KEY, {', '.join(f'{name} {one[0]}' for name, one in columns.items())})")
    values = ", ".join(one[1] for one in columns.values())
    database.execute(f"INSERT INTO kinds VALUES (1, {values})")
    database.execute("INSERT INTO kinds VALUES (2)")
    bring(log, source(url, "kinds"))
    database.execute(f"INSERT INTO kinds VALUES (3, {values})")
    database.execute("INSERT INTO kinds VALUES (4)")
    bring(log, source(url, "kinds"))
    found = {row.pop("k"): row for row in rows(log, "kinds")}
    wanted = {name: one[2] for name, one in columns.items()}
    assert found == {1: wanted, 2: dict.fromkeys(wanted), 3: wanted, 4: dict.fromkeys(wanted)}


def test_tables_and_their_topics(log, url, database):
    """Several tables, of other schemas and in partitions too, come into topics with the prefix; other tables stay."""
    database.execute("CREATE SCHEMA sales")
    database.execute("CREATE TABLE people (id int PRIMARY KEY)")
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    database.execute('CREATE TABLE sales.items (a int, "B c" text, PRIMARY KEY ("B c", a)) PARTITION BY RANGE (a)')
    database.execute("CREATE TABLE sales.low PARTITION OF sales.items FOR VALUES FROM (0) TO (10)")
    for first in (0, 1):
        database.execute(f"INSERT INTO people VALUES ({first})")
        database.execute(f"INSERT INTO other VALUES ({first})")
        database.execute(f"INSERT INTO sales.items VALUES ({first}, 'x')")
        bring(log, source(url, "people, sales.items", topic_prefix="db."))
    assert log.topics() == ["db.people", "db.sales.items"]
    assert sorted(row["id"] for row in rows(log, "db.people")) == [0, 1]
    assert sorted((row["a"], row["B c"]) for row in rows(log, "db.sales.items")) == [(0, "x"), (1, "x")]


def test_names_that_topics_cannot_have(log, url, database):
    """Quotes keep a dot within a name, what a topic's name cannot have is an underscore, and two tables do not share a topic so."""
    database.execute('CREATE SCHEMA "The Sales"')
    database.execute('CREATE TABLE "The Sales"."Order.Lines" (id int PRIMARY KEY)')
    database.execute('CREATE TABLE "All & more" (id int PRIMARY KEY)')
    for first in (0, 1):
        database.execute(f'INSERT INTO "The Sales"."Order.Lines" VALUES ({first})')
        database.execute(f'INSERT INTO "All & more" VALUES ({first})')
        bring(log, source(url, 'All & more, "The Sales"."Order.Lines"', topic_prefix="db."))
    assert log.topics() == ["db.All___more", "db.The_Sales.Order.Lines"]
    assert {row["id"] for topic in log.topics() for row in rows(log, topic)} == {0, 1}
    with pytest.raises(ConfigError, match=r"the tables a b and a_b into one topic, db\.a_b"):
        source(url, "a b, a_b", topic_prefix="db.")
    with pytest.raises(ConfigError, match=r"found the table 'a\.b\.c'; expected"):
        bring(log, PostgresSource("other", connection_url=url, tables="a.b.c"))


@pytest.mark.parametrize("publication", ["", "everything"])
def test_a_table_that_is_new(log, url, database, publication):
    """A table that is added to the setting comes with what it has, and each later change once, published before or not."""
    database.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    for table in ("a", "b"):
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
        database.execute(f"INSERT INTO {table} VALUES (1)")
    bring(log, source(url, "a", publication_name=publication))
    database.execute("INSERT INTO a VALUES (2)")
    database.execute("INSERT INTO b VALUES (2)")
    bring(log, source(url, "a, b", publication_name=publication))
    database.execute("INSERT INTO b VALUES (3)")
    bring(log, source(url, "a, b", publication_name=publication))
    assert [sorted(row["id"] for row in rows(log, table)) for table in ("a", "b")] == [[1, 2], [1, 2, 3]]


def test_death_within_a_snapshot(log, url, database):
    """Changes while a snapshot is interrupted come once: those of keys that were read, and those of keys that were not."""
    database.execute("CREATE TABLE people (name text, id int, v int, PRIMARY KEY (name, id))")
    database.execute("INSERT INTO people SELECT chr(97 + n % 5), n, 0 FROM generate_series(0, 99) n")
    with dies("connect.committed", at=2), pytest.raises(SimulatedCrash):
        SourceTask(source(url, "people", poll_rows=20), 0, 1, log, is_once=True).run(Orders())
    assert len(rows(log, "people")) == 40
    database.execute("UPDATE people SET v = 1 WHERE id % 10 < 5")  # of both halves
    database.execute("DELETE FROM people WHERE id IN (1, 2, 3, 4)")
    database.execute("UPDATE people SET name = 'z' WHERE id = 10")  # from what was read to what was not
    database.execute("UPDATE people SET name = 'a' WHERE id = 14")  # and back
    database.execute("INSERT INTO people VALUES ('a', 1000, 0), ('y', 1001, 0)")
    with dies("connect.polled", at=2), pytest.raises(SimulatedCrash):
        SourceTask(source(url, "people", poll_rows=20), 0, 1, log, is_once=True).run(Orders())
    database.execute("UPDATE people SET v = 2 WHERE id % 10 = 7")
    bring(log, source(url, "people", poll_rows=20))
    seen: dict[tuple[object, ...], list[object]] = {}
    for row in log.read("people", columns=["name", "id", "v", "_deleted"]).to_pylist():
        seen.setdefault((row["name"], row["id"]), []).append(None if row["_deleted"] else row["v"])
    now = {tuple(row[:2]): row[2] for row in database.execute("SELECT name, id, v FROM people").fetchall()}
    assert {key: values[-1] for key, values in seen.items() if values[-1] is not None} == now
    assert all(first != then for values in seen.values() for first, then in pairwise(values))


def test_changes_that_follow_each_other_share_a_poll(url, database, monkeypatch):
    """A poll that finds a change there waits for those that follow, up to its bound of rows."""
    monkeypatch.setattr("streamkit.connectors.postgres.patience.SILENCE_SECONDS", 60.0)
    database.execute("CREATE TABLE numbers (n int PRIMARY KEY)")
    one = source(url, "numbers", poll_linger_ms=60_000, poll_rows=4)
    one.refused = []
    one.open({"streamkit_in": None})
    while not one.is_at_end():
        one.poll(0.0)
    one.poll(0.0)  # begins to read the stream
    numbers, message, sockets = iter(range(100)), ReplicationConnection.message, list[int]()

    def write_where_it_waits(self, timeout):
        sockets[:] = [self._socket]
        if timeout:
            database.execute("INSERT INTO numbers VALUES (%s)", (next(numbers),))
        return message(self, timeout)

    monkeypatch.setattr(ReplicationConnection, "message", write_where_it_waits)
    polled = one.poll(10.0)
    assert polled is not None and polled.tables["numbers"]["n"].to_pylist()[0] == 0
    done = polled.tables["numbers"].num_rows
    database.execute("INSERT INTO numbers VALUES (%s)", (next(numbers),))
    wait_until(lambda: select.select(sockets, [], [], 0)[0])
    polled = one.poll(10.0)
    one.close()
    assert polled is not None and polled.tables["numbers"]["n"].to_pylist() == list(range(done, done + 4))


def test_a_huge_transaction(log, url, database):
    """A transaction is cut, and a death between its parts leaves nothing out and brings nothing twice."""
    database.execute("CREATE TABLE numbers (n int PRIMARY KEY)")
    bring(log, source(url, "numbers"))
    database.execute("INSERT INTO numbers SELECT generate_series(0, 999)")
    for at in (2, 3):
        with dies("connect.committed", at=at), pytest.raises(SimulatedCrash):
            SourceTask(source(url, "numbers", poll_rows=100), 0, 1, log, is_once=True).run(Orders())
    assert len(rows(log, "numbers")) == 500
    bring(log, source(url, "numbers", poll_rows=100))
    assert sorted(row["n"] for row in rows(log, "numbers")) == list(range(1000))


def test_columns_that_come_change_and_go(log, url, database, caplog):
    """A new column is added to the topic, a wider type widens it, a column that goes leaves nulls and is said."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY, age smallint, city text)")
    database.execute("INSERT INTO people VALUES (1, 30, 'Rome')")
    bring(log, source(url, "people"))
    for statement in (
        "INSERT INTO people VALUES (2, 31, 'Oslo')",
        "ALTER TABLE people ADD COLUMN mail text",
        "INSERT INTO people VALUES (3, 32, 'Bern', 'x@y')",
        "ALTER TABLE people ALTER COLUMN age TYPE bigint",
        "INSERT INTO people VALUES (4, 1099511627776, 'Bonn', NULL)",
        "ALTER TABLE people DROP COLUMN city",
        "INSERT INTO people VALUES (5, 34, 'z')",
    ):
        database.execute(statement)
    bring(log, source(url, "people"))
    found = sorted((row["id"], row["age"], row["city"], row["mail"]) for row in rows(log, "people"))
    assert found == [
        (1, 30, "Rome", None),
        (2, 31, "Oslo", None),
        (3, 32, "Bern", "x@y"),
        (4, 1 << 40, "Bonn", None),
        (5, 34, None, "z"),
    ]
    assert "table people has no column city any more" in caplog.text
    database.execute("ALTER TABLE people ALTER COLUMN age TYPE text")
    database.execute("INSERT INTO people VALUES (6, 'old', 'z')")
    with pytest.raises(SchemaError, match=r"topic people.* column 'age': found 'old'"):
        bring(log, source(url, "people"))


def test_large_values_that_an_update_leaves_out(log, url, database):
    """An unchanged large value is refused, with what to do; read back if that is asked for; and is there under REPLICA IDENTITY FULL."""
    database.execute("CREATE TABLE pages (id int PRIMARY KEY, hits int, body text)")
    database.execute("ALTER TABLE pages ALTER COLUMN body SET STORAGE EXTERNAL")
    database.execute("INSERT INTO pages VALUES (1, 0, repeat('x', 9000))")
    bring(log, source(url, "pages"))
    database.execute("UPDATE pages SET hits = 1")
    with pytest.raises(SchemaError, match=r"leaves out the large value of 'body'.*REPLICA IDENTITY FULL.*toast\.mode=read"):
        bring(log, source(url, "pages"))
    bring(log, source(url, "pages", toast_mode="read"))
    database.execute("ALTER TABLE pages REPLICA IDENTITY FULL")
    database.execute("UPDATE pages SET hits = 2")
    database.execute("UPDATE pages SET id = 2")
    database.execute("DELETE FROM pages")
    bring(log, source(url, "pages"))
    found = log.read("pages", columns=["id", "hits", "body", "_deleted"]).to_pylist()
    by_key = {
        key: [(row["hits"], len(row["body"] or ""), row["_deleted"]) for row in found if row["id"] == key] for key in (1, 2)
    }
    assert by_key == {
        1: [(0, 9000, False), (1, 9000, False), (2, 9000, False), (None, 0, True)],
        2: [(2, 9000, False), (None, 0, True)],
    }


def test_truncate(log, url, database):
    """TRUNCATE stops the task, since a topic forgets by key alone; or the topic keeps its rows."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY)")
    bring(log, source(url, "people"))
    database.execute("INSERT INTO people VALUES (1)")
    database.execute("TRUNCATE people")
    database.execute("INSERT INTO people VALUES (2)")
    with pytest.raises(SchemaError, match=r"TRUNCATE emptied table people at .*truncate\.mode=skip"):
        bring(log, source(url, "people"))
    bring(log, source(url, "people", truncate_mode="skip"))
    assert sorted(row["id"] for row in rows(log, "people")) == [1, 2]


def test_a_table_without_a_key(log, url, database):
    """Its rows come in one piece, and insertions behind them; an update, which no key finds, is refused."""
    database.execute("CREATE TABLE notes (text text)")
    database.execute("INSERT INTO notes SELECT 'note' FROM generate_series(1, 40)")
    bring(log, source(url, "notes", poll_rows=10))
    database.execute("INSERT INTO notes VALUES ('note')")
    bring(log, source(url, "notes"))
    assert len(rows(log, "notes")) == 41
    database.execute("ALTER TABLE notes REPLICA IDENTITY FULL")
    database.execute("UPDATE notes SET text = 'other'")
    with pytest.raises(SchemaError, match="found an update, but no key says which row"):
        bring(log, source(url, "notes"))


def test_values_that_do_not_fit(log, url, database):
    """A value that a column cannot hold stops the task and is named, or its row alone is a dead letter."""
    database.execute("CREATE TABLE days (id int PRIMARY KEY, at timestamptz, n numeric)")
    bring(log, source(url, "days"))
    database.execute("INSERT INTO days VALUES (1, 'infinity', 1), (2, '2020-01-01Z', 2), (3, '2020-01-01Z', 'NaN')")
    with pytest.raises(SchemaError, match=r"table days, LSN \w+/\w+, column 'at': 'infinity'"):
        bring(log, source(url, "days"))
    bring(log, source(url, "days", errors_tolerance="all", errors_deadletterqueue_topic_name="bad"))
    assert [row["id"] for row in rows(log, "days")] == [2]
    assert sorted(json.loads(row["value"])["id"] for row in log.read("bad").to_pylist()) == ["1", "3"]
    assert {row["_timestamp"] for row in log.read("bad").to_pylist()} == {
        row["_timestamp"] for row in log.read("days").to_pylist()
    }


NUMBERS = ["1.50", "NaN", "Infinity", "-Infinity", "123456789012345678901234567890.5", "0.0000000000000000000001"]
MODES: dict[tuple[str, str], list[str | float | None]] = {
    ("precise", "null"): ["1.50", None, None, None],
    ("string", "fail"): [*NUMBERS],
    ("double", "fail"): [float(one) for one in NUMBERS],
}


@pytest.mark.parametrize(("mode", "infinity"), MODES)
def test_numbers_and_times_that_few_types_hold(log, url, database, mode, infinity):
    """As the settings say, in the snapshot and in changes, within arrays and domains too."""
    database.execute("CREATE DOMAIN money2 AS numeric")
    database.execute("CREATE TABLE n (id int PRIMARY KEY, n numeric, d money2, a numeric[], f numeric(4,1))")
    values = [one for one, _ in zip(NUMBERS, MODES[mode, infinity], strict=False)]
    one = source(url, "n", decimal_handling_mode=mode, infinity_handling=infinity)
    expected = [decimal.Decimal(one) if isinstance(one, str) and mode == "precise" else one for one in MODES[mode, infinity]]
    for first in (0, 100):
        for number, value in enumerate(values):
            database.execute(
                "INSERT INTO n VALUES (%s, %s::numeric, %s::numeric, ARRAY[%s::numeric, NULL], 'NaN')",
                (first + number, value, value, value),
            )
        bring(log, one.again())
    assert len(rows(log, "n")) == 2 * len(values)
    for row in rows(log, "n"):
        wanted = expected[row["id"] % 100]
        for found in (row["n"], row["d"], row["a"][0]):
            assert found == wanted or str(found) == str(wanted), (row, wanted)
        assert str(row["f"]) == {"precise": "None", "string": "NaN", "double": "nan"}[mode]


def test_infinite_dates_and_times(log, url, database):
    """With infinity.handling=null they are null, and dates that are there are not."""
    database.execute("CREATE TABLE days (id int PRIMARY KEY, a date, b timestamp, c timestamptz, d date[])")
    database.execute("INSERT INTO days VALUES (1, 'infinity', '-infinity', 'infinity', '{infinity,2020-01-01}')")
    bring(log, source(url, "days", infinity_handling="null"))
    database.execute("INSERT INTO days VALUES (2, '2020-01-01', '-infinity', '2020-01-01Z', NULL)")
    bring(log, source(url, "days", infinity_handling="null"))
    first, second = sorted(rows(log, "days"), key=lambda row: row["id"])
    assert first == {"id": 1, "a": None, "b": None, "c": None, "d": [None, dt.date(2020, 1, 1)]}
    assert (second["a"], second["b"], second["c"].year) == (dt.date(2020, 1, 1), None, 2020)


def test_arrays_of_boxes(log, url, database):
    """Their elements have commas, and a semicolon between them."""
    database.execute("CREATE TABLE b (id int PRIMARY KEY, a box[])")
    database.execute("INSERT INTO b VALUES (1, '{(1,1),(0,0);(2,2),(1,1)}')")
    bring(log, source(url, "b"))
    assert rows(log, "b") == [{"id": 1, "a": ["(1,1),(0,0)", "(2,2),(1,1)"]}]


def test_tables_by_pattern(log, url, database):
    """All tables that fit come, each once; one that is made later comes with the next start, and one that none fits is an error."""
    for statement in (
        "CREATE SCHEMA sales", "CREATE TABLE sales.items (id int PRIMARY KEY)", 'CREATE TABLE sales."Odd.Name" (id int PRIMARY KEY)',
        "CREATE TABLE other (id int PRIMARY KEY)", "CREATE TABLE sales.itemsx (id int) PARTITION BY LIST (id)",
        "CREATE TABLE sales.itemsx1 PARTITION OF sales.itemsx FOR VALUES IN (1)", "CREATE VIEW sales.seen AS SELECT 1",
        'INSERT INTO sales.items VALUES (1); INSERT INTO sales."Odd.Name" VALUES (2); INSERT INTO sales.itemsx VALUES (1)',
    ):  # fmt: skip
        database.execute(statement)
    bring(log, source(url, "sales.*, sales.items"))
    bring(log, source(url, "sales.*, sales.items"))
    assert {name: [row["id"] for row in rows(log, name)] for name in log.topics() if name[0] != "_"} == {
        "sales.items": [1], "sales.itemsx": [1], "sales.Odd.Name": [2],
    }  # fmt: skip
    database.execute(
        "CREATE TABLE sales.later (id int PRIMARY KEY); INSERT INTO sales.later VALUES (5); INSERT INTO sales.items VALUES (7)"
    )
    bring(log, source(url, "sales.*, sales.items"))
    assert [row["id"] for row in rows(log, "sales.later")] == [5]
    assert sorted(row["id"] for row in rows(log, "sales.items")) == [1, 7]
    with pytest.raises(ConfigError, match=r"no table fits sales\.order_\* in `tables`"):
        PostgresSource("none", connection_url=url, tables="sales.order_*").open({"streamkit_none": None})
    with pytest.raises(ConfigError, match=r"expected topic\.prefix"):
        source(url, "sales.*", topic="x")


def test_changes_that_are_gone(log, url, database):
    """A slot that begins behind the position, is missing, or is another server's is refused: PostgreSQL itself would say nothing."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY)")
    bring(log, source(url, "people"))
    database.execute("INSERT INTO people VALUES (1)")
    wait_until(lambda: not database.execute("SELECT FROM pg_replication_slots WHERE active").fetchall())
    database.execute("SELECT pg_replication_slot_advance('streamkit_in', pg_current_wal_lsn())")
    with pytest.raises(ConfigError, match=r"slot streamkit_in begins at .*changes between them are gone.*offsets reset in"):
        bring(log, source(url, "people"))
    database.execute("SELECT pg_drop_replication_slot('streamkit_in')")
    with pytest.raises(ConfigError, match="no replication slot streamkit_in any more"):
        bring(log, source(url, "people"))
    (position,) = positions.read_positions(log, "in").values()
    positions.change_positions(log, "in", {"streamkit_in": {**position, "system": "7"}})
    with pytest.raises(ConfigError, match="with the identifier 7; this one has"):
        bring(log, source(url, "people"))
    positions.change_positions(log, "in", {"streamkit_in": None})
    bring(log, source(url, "people"))
    assert rows(log, "people") == [{"id": 1}]


def test_publications_that_lose_changes(log, url, database):
    """A publication of somebody else that leaves out a table, rows or operations is refused, with the statement that helps."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY)")
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    for ddl, message in (
        ("FOR TABLE other", r'has no table people; run: ALTER PUBLICATION "mine" ADD TABLE'),
        ("FOR TABLE people WITH (publish = 'insert')", r"leaves out operations"),
        ("FOR TABLE people WHERE (id > 3)", r"has only some rows or columns of people"),
    ):
        database.execute("DROP PUBLICATION IF EXISTS mine")
        database.execute(f"CREATE PUBLICATION mine {ddl}")
        with pytest.raises(ConfigError, match=message):
            bring(log, source(url, "people", publication_name="mine"))
    with pytest.raises(ConfigError, match="there is no table nobody; expected one of other, people"):
        bring(log, source(url, "nobody"))


def has_confirmed(database, lsn):
    """Whether PostgreSQL has heard that its log was read up to a place."""
    query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = 'streamkit_in'"
    return database.execute(query, (lsn,)).fetchone() == (True,)


def test_an_idle_slot_follows(log, url, database):
    """While only other tables change, PostgreSQL hears that it may forget its log, and after a cut of all connections too."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY)")
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")

    def written():
        database.execute("INSERT INTO other SELECT coalesce(max(id), 0) + 1 FROM other")
        return database.execute("SELECT pg_current_wal_flush_lsn()").fetchone()[0]

    with run([source(url, "people", heartbeat_interval_ms=50)], log):
        wait_until(lambda: has_confirmed(database, "0/0"))
        lsn = written()
        wait_until(lambda: has_confirmed(database, lsn))
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'target'"
        )
        database.execute("INSERT INTO people VALUES (1)")
        lsn = written()
        wait_until(lambda: has_confirmed(database, lsn))
    assert rows(log, "people") == [{"id": 1}]


def test_a_server_that_asks_how_far_its_log_was_read(log, url, database):
    """A server that shuts down or loses patience hears it soon, whatever the heartbeat: else its shutdown would wait for that."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY)")
    impatient = f"{url}&options=-c%20wal_sender_timeout%3D400"  # it asks after half of it
    with run([source(impatient, "people", heartbeat_interval_ms=3_600_000)], log):
        wait_until(lambda: has_confirmed(database, "0/0"))
        database.execute("CREATE TABLE other (id int PRIMARY KEY)")
        (lsn,) = database.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
        wait_until(lambda: has_confirmed(database, lsn))


def test_a_publication_that_was_missing(log, url, database):
    """Changes of a time without the publication cannot be read: that is an error with the reason, which no waiting ends."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY)")
    bring(log, source(url, "people"))
    database.execute("DROP PUBLICATION streamkit_in")
    database.execute("INSERT INTO people VALUES (1)")
    with pytest.raises(ConfigError, match=r"there is no publication streamkit_in any more.*is lost.*offsets reset in"):
        bring(log, source(url, "people"))
    (position,) = positions.read_positions(log, "in").values()  # one of an earlier version does not say what it is of
    former = {name: value for name, value in position.items() if name not in ("publication", "relations")}
    positions.change_positions(log, "in", {"streamkit_in": former})
    missing = r'publication "streamkit_in" does not exist.*was missing when changes were made.*offsets reset in'
    with pytest.raises(ConfigError, match=missing):
        bring(log, source(url, "people"))
    positions.change_positions(log, "in", {"streamkit_in": None})
    bring(log, source(url, "people"))
    assert rows(log, "people") == [{"id": 1}]


@pytest.mark.parametrize("tables", ["people, items", "*"])
def test_another_prefix(log, url, database, tables):
    """Tables that went to topics of one prefix do not go on in those of another, also if a `*` names them; a table that is gone may be left out."""
    database.execute(
        "CREATE TABLE people (id int PRIMARY KEY); CREATE TABLE items (id int PRIMARY KEY); INSERT INTO people VALUES (1)"
    )
    bring(log, source(url, tables, topic_prefix="a."))
    database.execute("INSERT INTO people VALUES (2)")
    said = r"were written to topic a\.\w+, and from now on would be written to topic b\.\w+.*offsets reset in; to go on .*offsets set in streamkit_in"
    for _ in range(2):
        with pytest.raises(ConfigError, match=said):
            bring(log, source(url, tables, topic_prefix="b."))
    positions.change_positions(log, "in", positions.read_positions(log, "in"))  # as `offsets set` does
    bring(log, source(url, tables, topic_prefix="b."))
    assert (rows(log, "a.people"), rows(log, "b.people")) == ([{"id": 1}], [{"id": 2}])
    database.execute("DROP TABLE items")
    bring(log, source(url, "people" if tables != "*" else tables, topic_prefix="b."))


GAPS = {  # what happens between two starts, or while a task reads: changes that PostgreSQL never sends, and what is said
    "dropped": (
        "dropped and made again",
        "DROP TABLE people; CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people VALUES (2)",
    ),
    "swapped": (
        "swapped by renames",
        (
            "BEGIN; CREATE TABLE fresh (id int PRIMARY KEY); INSERT INTO fresh VALUES (1), (2); ALTER TABLE people RENAME TO former; "
            "ALTER TABLE fresh RENAME TO people; DROP TABLE former; COMMIT"
        ),
    ),
    "swapped_and_kept": (
        "swapped by renames",
        (
            "BEGIN; CREATE TABLE fresh (id int PRIMARY KEY); INSERT INTO fresh VALUES (1), (2); ALTER TABLE people RENAME TO former; "
            "ALTER TABLE fresh RENAME TO people; COMMIT"
        ),
    ),
    "out": (
        "the publication mine has no table people any more|people was out of the publication mine for a while",
        "ALTER PUBLICATION mine DROP TABLE people; INSERT INTO people VALUES (2)",
    ),
    "out_and_back": (
        "out of the publication mine for a while",
        "ALTER PUBLICATION mine DROP TABLE people; INSERT INTO people VALUES (2); ALTER PUBLICATION mine ADD TABLE people",
    ),
    "no_publication": ("there is no publication mine any more", "DROP PUBLICATION mine; INSERT INTO people VALUES (2)"),
    "another_publication": (
        "the publication mine, which has the table people, was altered, or dropped and made again",
        "DROP PUBLICATION mine; INSERT INTO people VALUES (2); CREATE PUBLICATION mine FOR TABLE people, other",
    ),
    "other_operations": (
        "was altered",
        (
            "ALTER PUBLICATION mine SET (publish = 'delete'); INSERT INTO people VALUES (2); "
            "ALTER PUBLICATION mine SET (publish = 'insert, update, delete, truncate')"
        ),
    ),
    "fewer_rows": (
        "out of the publication mine for a while.*or was altered there",
        "ALTER PUBLICATION mine SET TABLE people WHERE (id > 9), other; INSERT INTO people VALUES (2); ALTER PUBLICATION mine SET TABLE people, other",
    ),
}


OF_OWN = ("dropped", "swapped", "swapped_and_kept")  # an ordinary run has the others of a publication that somebody gives


@pytest.mark.parametrize(
    ("gap", "is_own"),
    [(gap, is_own) for gap in GAPS for is_own in (False, True) if TAKES_ALL or is_own == (gap in OF_OWN)],
)
def test_changes_that_no_message_tells(log, url, database, gap, is_own):
    """A table that is another one, or that the publication did not have for a while, is refused each time, or read from its beginning."""
    said, statements = GAPS[gap]
    name = "streamkit_in" if is_own else "mine"
    given = {} if is_own else {"publication_name": "mine"}
    database.execute(
        "CREATE TABLE people (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY); INSERT INTO people VALUES (1)"
    )
    database.execute(f"CREATE PUBLICATION {name} FOR TABLE people, other")
    bring(log, source(url, "people, other", **given))
    for statement in statements.replace("mine", name).split("; "):
        database.execute(statement)
    database.execute("INSERT INTO other VALUES (5)")
    for _ in range(times(gap in ("swapped", "out"))):
        with pytest.raises(
            ConfigError, match=rf"({said.replace('mine', name)}).*is lost.*recreated\.mode=begin.*offsets reset in"
        ):
            bring(log, source(url, "people, other", **given))
        if gap in ("dropped", "swapped", "swapped_and_kept", "out") and not is_own:
            with contextlib.suppress(psycopg.Error):
                database.execute("ALTER PUBLICATION mine ADD TABLE people")  # what a user would do
    if gap == "no_publication" and not is_own:
        database.execute("CREATE PUBLICATION mine FOR TABLE people, other")
    bring(log, source(url, "people, other", recreated_mode="begin", **given))
    database.execute("INSERT INTO people VALUES (3)")
    bring(log, source(url, "people, other", **given))
    assert kept(log, "people") == {row[0] for row in database.execute("SELECT id FROM people")}
    assert kept(log, "other") == {5}


COLUMNS = {  # what is done to the columns of people (id, v, w), with a row changed in between, and what is said
    "again": (
        "ALTER TABLE people DROP v; ALTER TABLE people ADD v int DEFAULT 4",
        "column v of the table people was dropped and added again",
    ),
    "swapped": (
        "ALTER TABLE people RENAME v TO x; ALTER TABLE people RENAME w TO v; ALTER TABLE people RENAME x TO w",
        "column [vw] of the table people was .*another column was given its name",
    ),
    "taken": ("ALTER TABLE people DROP v; ALTER TABLE people RENAME w TO v", "column v of the table people was .*given its name"),
    "and_back": (
        "ALTER TABLE people RENAME v TO x; UPDATE people SET x = 7; ALTER TABLE people RENAME x TO v; UPDATE people SET w = 8 WHERE id = 1",
        "column v of the table people was dropped and added again, or renamed and renamed back",
    ),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_of_a_former_name(log, url, database, case):
    """A name that stands for another column is refused each time, however often it was read between; or all rows come again."""
    statements, said = COLUMNS[case]
    database.execute("CREATE TABLE people (id int PRIMARY KEY, v int, w int); INSERT INTO people VALUES (1, 1, 1), (2, 2, 2)")
    bring(log, source(url, "people"))
    for statement in statements.split("; "):
        database.execute(statement)
    for _ in range(times(case == "again")):
        with pytest.raises(ConfigError, match=f"{said}.*offsets reset in"):
            bring(log, source(url, "people"))
    if case != "and_back":
        bring(log, source(url, "people", recreated_mode="begin"))
        database.execute("UPDATE people SET v = 5 WHERE id = 2")
        bring(log, source(url, "people"))
        newest = {row["id"]: row["v"] for row in rows(log, "people")}
        assert newest == dict(database.execute("SELECT id, v FROM people"))


@pytest.mark.parametrize(
    ("away", "back", "said"),
    [
        ("DROP v", "ADD v int", "dropped and added again.*its number was 2, and is 4"),
        ("RENAME v TO x", "RENAME x TO v", "renamed, and renamed back.*its number was 2, and is 2"),
    ],
    ids=["dropped", "renamed"],
)
def test_a_column_that_was_gone_for_some_starts(log, url, database, away, back, said):
    """The number of a column that is gone stays with the position: the topic has its values as long as a row does not change."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY, v int, w int); INSERT INTO people VALUES (1, 1, 1)")
    bring(log, source(url, "people"))
    for statement in (f"ALTER TABLE people {away}", "INSERT INTO people VALUES (2, 2)", "INSERT INTO people VALUES (3, 3)"):
        database.execute(statement)
        bring(log, source(url, "people"))
    database.execute(f"ALTER TABLE people {back}; INSERT INTO people VALUES (4, 4, 4)")
    with pytest.raises(ConfigError, match=f"column v of the table people was {said}"):
        bring(log, source(url, "people"))
    assert sorted(row["id"] for row in rows(log, "people")) == [1, 2, 3]


@pytest.mark.parametrize("mode", ["fail", "begin"])
def test_a_column_of_a_former_name_while_a_task_reads(log, url, database, mode):
    """The same while a task reads, though the message tells names alone."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY, v int); INSERT INTO people VALUES (1, 1)")
    with run([source(url, "people", recreated_mode=mode)], log) as worker:
        wait_until(lambda: "people" in log.topics() and kept(log, "people") == {1})
        database.execute("ALTER TABLE people DROP v, ADD v int DEFAULT 4")
        if mode == "begin":
            wait_until(lambda: [row["v"] for row in rows(log, "people")][-1] == 4)
        else:
            wait_until(lambda: any(one.state == "FAILED" for one in worker.status()))
            assert "column v of the table people was dropped and added again" in worker.status()[0].trace


def test_changes_of_columns_while_nobody_reads_are_said(log, url, database, caplog):
    """The log says of each what becomes of it, whether a row was changed since or not, and once."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY, a int, b int, c int); INSERT INTO people VALUES (1, 1, 1, 1)")
    bring(log, source(url, "people"))
    for statement, said in (
        ("ALTER TABLE people ADD d int DEFAULT 7", "has the column d now; rows that were there before have null for it"),
        ("ALTER TABLE people RENAME a TO e", "has the column a by the name e now; topic people keeps a, with nulls from now on"),
        ("ALTER TABLE people DROP b", "has no column b any more; topic people has nulls there from now on"),
        ("ALTER TABLE people ALTER c TYPE bigint", "the column c of the table people is bigint now, and was integer"),
        ("ALTER TABLE people ADD f int; INSERT INTO people VALUES (2); ALTER TABLE people DROP f", "has no column f any more"),
    ):
        for one in statement.split("; "):
            database.execute(one)
        for is_said in (True, False):
            caplog.clear()
            bring(log, source(url, "people"))
            assert (said in caplog.text) is is_said
    assert {name: log.topic("people").schema[name].type for name in ("a", "e", "f")} == {"a": "int", "e": "int", "f": "int"}
    database.execute("ALTER TABLE people ADD f int")  # the topic has values of one that the catalog never showed
    with pytest.raises(
        ConfigError, match=r"column f of the table people was dropped and added again.*its number was another, and is 7"
    ):
        bring(log, source(url, "people"))


def test_positions_of_an_earlier_version_learn_the_columns(log, url, database):
    """They know no columns: those that are there at the next start are kept, and a name that stands for another one is told from then on."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY, v int); INSERT INTO people VALUES (1, 1)")
    bring(log, source(url, "people"))
    ((slot, position),) = positions.read_positions(log, "in").items()
    for one in position["relations"].values():
        del one["columns"]
    positions.change_positions(log, "in", {slot: position})
    bring(log, source(url, "people"))
    database.execute("ALTER TABLE people DROP v; ALTER TABLE people ADD v int")
    with pytest.raises(ConfigError, match="column v of the table people was dropped and added again"):
        bring(log, source(url, "people"))


@pytest.mark.parametrize(("gap", "mode"), in_turn(["dropped", "swapped", "out_and_back", "other_operations"], ["fail", "begin"]))
def test_changes_that_no_message_tells_a_task(log, url, database, gap, mode):
    """The same while a task reads: it notices within a second or so, and fails or reads the table from its beginning."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people VALUES (1)")
    statements = GAPS[gap][1].replace("mine", "streamkit_in")
    with run([source(url, "people", recreated_mode=mode)], log) as worker:
        wait_until(lambda: "people" in log.topics() and kept(log, "people") == {1})
        for statement in statements.split("; "):
            database.execute(statement)
        database.execute("INSERT INTO people VALUES (3)")
        if mode == "begin":
            there = {row[0] for row in database.execute("SELECT id FROM people")}
            wait_until(lambda: kept(log, "people") == there)
        else:
            wait_until(lambda: any(one.state == "FAILED" for one in worker.status()))
            assert "is lost" in worker.status()[0].trace


STARTS = {  # what is done to people (id, v) and its publication while a source begins; what it was must not be taken for what it is
    "swapped": (
        "BEGIN; CREATE TABLE fresh (id int PRIMARY KEY, v int); INSERT INTO fresh SELECT (SELECT max(id) FROM people) + n, n FROM generate_series(-1, 4) n; "
        "ALTER TABLE people RENAME TO former; ALTER TABLE fresh RENAME TO people; DROP TABLE former; COMMIT"
    ),
    "a column again": "ALTER TABLE people DROP v, ADD v int DEFAULT 9",
    "unpublished": (
        "BEGIN; ALTER PUBLICATION streamkit_in DROP TABLE people; COMMIT; INSERT INTO people SELECT max(id) + 1, 0 FROM people; "
        "ALTER PUBLICATION streamkit_in ADD TABLE people"
    ),
}  # fmt: skip


class Interrupted:
    """Runs statements before the given statement of the source; it counts those that ask or change something."""

    def __init__(self, monkeypatch, url):
        self.place, self.statements, self.count, self.has_changed, self._is_own = -1, "", 0, False, False
        execute, copy = psycopg.Connection.execute, psycopg.Cursor.copy

        def before(call):
            def called(one, query, *arguments, **given):
                if not self._is_own and not str(query).startswith("SET "):
                    self.count += 1
                    if self.count == self.place:
                        self._interrupt(url)
                return call(one, query, *arguments, **given)

            return called

        monkeypatch.setattr(psycopg.Connection, "execute", before(execute))
        monkeypatch.setattr(psycopg.Cursor, "copy", before(copy))

    def at(self, place, statements):
        self.place, self.statements, self.count, self.has_changed = place, statements, 0, False

    def _interrupt(self, url):
        self._is_own = True
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET lock_timeout = '50ms'")  # where the source holds a lock nothing can be changed
            with contextlib.suppress(psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedObject):  # or it is out already
                for statement in self.statements.split("; "):
                    connection.execute(statement)
                self.has_changed = True
        self._is_own = False


@pytest.mark.parametrize(("case", "mode"), [*product(STARTS, ["fail", "begin"])] if TAKES_ALL else [("swapped", "begin")])
def test_changes_at_each_statement_of_a_start(log, url, database, monkeypatch, case, mode):
    """Whenever a table becomes another one while a source begins: it is refused, or its rows come again; none is left out."""
    database.execute(
        "CREATE TABLE people (id int PRIMARY KEY, v int); INSERT INTO people SELECT n, n FROM generate_series(1, 7) n"
    )
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    interrupted = Interrupted(monkeypatch, url)
    bring(log, source(url, "people, other"))
    for place in range(1 if TAKES_ALL else 8, 100, 1 if TAKES_ALL else 9):
        if mode == "begin" and place % 2 == 0:  # so that it begins with the rows of a table that is another one already
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(STARTS["swapped"])
        database.execute("INSERT INTO people SELECT max(id) + 1, 0 FROM people")  # so that its position is kept
        interrupted.at(place, STARTS[case])
        attempts = [_error_of(log, source(url, "people, other", recreated_mode=mode))]
        database.execute("INSERT INTO people SELECT max(id) + 1, 0 FROM people")
        has_changed, count = interrupted.has_changed, interrupted.count
        interrupted.at(-1, "")
        attempts.append(_error_of(log, source(url, "people, other", recreated_mode=mode)))
        if mode == "fail" and has_changed:
            assert isinstance(attempts[-1], ConfigError), (place, attempts)
            bring(log, source(url, "people, other", recreated_mode="begin"))
        else:
            assert attempts[-1] is None, (place, attempts)
        newest = {row["id"]: row["v"] for row in rows(log, "people")}
        there = kept(log, "people")
        assert {id: v for id, v in newest.items() if id in there} == dict(database.execute("SELECT id, v FROM people")), place
        if count < place and (mode == "fail" or place % 2 == 0 or not TAKES_ALL):
            break
    assert place > 15


def _error_of(log, one):
    try:
        bring(log, one)
    except Exception as error:
        return error
    return None


def test_a_table_that_is_away_for_a_while(log, url, database):
    """Between its end and its next life a table that is to be read again is waited for; else its absence is an error."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people VALUES (1)")
    with run([source(url, "people", recreated_mode="begin")], log) as worker:
        wait_until(lambda: "people" in log.topics() and kept(log, "people") == {1})
        database.execute("DROP TABLE people")
        wait_until(lambda: _restarts(worker) > 1)
        database.execute("CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people VALUES (2)")
        wait_until(lambda: kept(log, "people") == {2})
    database.execute("DROP TABLE people")
    with pytest.raises(ConfigError, match="there is no table people"):
        bring(log, source(url, "people"))


def _restarts(worker):
    """How often the task of a worker began again after an error."""
    (found,) = worker._runs.values()
    return found.back_off.failures


def test_a_table_that_was_renamed_and_back(log, url, database):
    """A table is known by its oid: what was changed under another name comes, and an empty stand-in's changes do not."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY)")
    bring(log, source(url, "people"))
    for statement in (
        "ALTER TABLE people RENAME TO former",
        "INSERT INTO former VALUES (1)",
        "CREATE TABLE people (id int PRIMARY KEY)",
        "ALTER PUBLICATION streamkit_in ADD TABLE people",
        "INSERT INTO people VALUES (9)",
        "DROP TABLE people",
        "ALTER TABLE former RENAME TO people",
        "INSERT INTO people VALUES (2)",
    ):
        database.execute(statement)
    bring(log, source(url, "people"))
    assert sorted(row["id"] for row in rows(log, "people")) == [1, 2]


def test_a_key_that_moved_while_nobody_read(log, url, database):
    """Another primary key is refused: rows that change the former one would stay under both."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY, a int NOT NULL)")
    database.execute("INSERT INTO people VALUES (1, 1)")
    bring(log, source(url, "people"))
    database.execute("ALTER TABLE people DROP CONSTRAINT people_pkey; ALTER TABLE people ADD PRIMARY KEY (a)")
    database.execute("UPDATE people SET id = 99 WHERE a = 1")
    said = r"the key of table people was \(id\), and is \(a\) from a change on; the key of topic people cannot change.*offsets reset in"
    for _ in range(2):
        with pytest.raises(SchemaError, match=said):
            bring(log, source(url, "people"))
    database.execute("ALTER TABLE people DROP CONSTRAINT people_pkey; ALTER TABLE people ADD PRIMARY KEY (id)")
    with pytest.raises(SchemaError, match=said):
        bring(log, source(url, "people"))
    assert rows(log, "people") == [{"id": 1, "a": 1}]


def test_row_level_security(log, url, database):
    """A user from whom policies hide rows is refused; one that sees all of them is not."""
    database.execute("CREATE ROLE narrow LOGIN REPLICATION PASSWORD 'x'")
    database.execute(
        "CREATE TABLE people (id int PRIMARY KEY, owner text); INSERT INTO people VALUES (1, 'narrow'), (2, 'other')"
    )
    database.execute("ALTER TABLE people ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON people USING (owner = current_user)")
    database.execute("GRANT SELECT ON people TO narrow; CREATE PUBLICATION mine FOR TABLE people")
    narrow = url.replace("streamkit@", "narrow:x@")
    try:
        with pytest.raises(ConfigError, match=r"row level security hides rows of table people from narrow.*BYPASSRLS"):
            bring(log, source(narrow, "people", publication_name="mine"))
        database.execute("ALTER ROLE narrow BYPASSRLS")
        bring(log, source(narrow, "people", publication_name="mine"))
        assert sorted(row["id"] for row in rows(log, "people")) == [1, 2]
    finally:
        database.execute("DROP OWNED BY narrow; DROP ROLE narrow")


@pytest.mark.parametrize("column", OWN_NAMES if TAKES_ALL else OWN_NAMES[:1])
def test_columns_with_names_of_our_own(log, url, database, column):
    """A column whose values would vanish is refused before anything is read, and when it comes later."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY, fine text)")
    for name in OWN_NAMES:
        database.execute(f'ALTER TABLE people RENAME COLUMN fine TO "{name}"')
        with pytest.raises(
            ConfigError, match=f"the table people has the column '{name}', a name that StreamKit's own columns have"
        ):
            bring(log, source(url, "people"))
        database.execute(f'ALTER TABLE people RENAME COLUMN "{name}" TO fine')
    bring(log, source(url, "people"))
    database.execute(f'ALTER TABLE people RENAME COLUMN fine TO "{column}"; INSERT INTO people VALUES (1, NULL)')
    database.execute(f'ALTER TABLE people RENAME COLUMN "{column}" TO fine')
    with pytest.raises(SchemaError, match=f"the table people has the column '{column}'"):
        bring(log, source(url, "people"))


def test_rows_that_nobody_changes_stay(log, url, database):
    """The topic of a table with a key is compacted and has no retention; without a key it keeps all; settings count more."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY); CREATE TABLE notes (text text)")
    database.execute("INSERT INTO people VALUES (1); INSERT INTO notes VALUES ('x')")
    bring(log, source(url, "people, notes"))
    found = {name: log.topic(name) for name in ("people", "notes")}
    assert {name: (topic.is_compacted, dict(topic.config)["retention.ms"]) for name, topic in found.items()} == {
        "people": (True, "-1"), "notes": (False, "-1"),
    }  # fmt: skip


def test_a_network_that_is_cut_is_noticed(url):
    """Connections have keep-alives and time limits of minutes, where the address says no others."""
    with connect(url) as connection:
        found = connection.info.get_parameters()
    with connect(f"{url}&keepalives_idle=5") as connection:
        given = connection.info.get_parameters()
    assert (found["tcp_user_timeout"], found["keepalives_idle"], given["keepalives_idle"]) == ("60000", "30", "5")


def test_a_slot_that_is_lost(log, url, database):
    """Changes whose log PostgreSQL has removed, since nobody read it for too long, are an error with what to do."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY)")
    bring(log, source(url, "people"))
    database.execute("INSERT INTO people VALUES (1)")
    database.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    try:
        database.execute("SELECT pg_reload_conf()")
        for _ in range(3):
            database.execute("SELECT pg_switch_wal()")
            database.execute("INSERT INTO people SELECT max(id) + 1 FROM people")
        database.execute("CHECKPOINT")
        with pytest.raises(ConfigError, match=r"removed log that the replication slot streamkit_in needed.*offsets reset in"):
            bring(log, source(url, "people"))
    finally:
        database.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        database.execute("SELECT pg_reload_conf()")


STATEMENTS = (
    "INSERT INTO items SELECT {word}, {n}, {v} ON CONFLICT DO NOTHING",
    "INSERT INTO items SELECT chr(97 + n % 7), n, {v} FROM generate_series({n}, {n} + 9) n ON CONFLICT DO NOTHING",
    "UPDATE items SET v = v + 1 WHERE n % 5 = {v} % 5",
    (
        "UPDATE items SET word = {word} WHERE n = {n} AND word = (SELECT min(word) FROM items WHERE n = {n}) "
        "AND NOT EXISTS (SELECT FROM items WHERE n = {n} AND word = {word})"
    ),
    "DELETE FROM items WHERE n % 11 = {v} % 11",
    "DELETE FROM items WHERE word = {word}",
    "BEGIN; UPDATE items SET v = -1; ROLLBACK",
)
AUDIT = """
CREATE TABLE audit (place serial, word text, n int, v int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF TG_OP <> 'INSERT' AND (TG_OP = 'DELETE' OR (OLD.word, OLD.n) <> (NEW.word, NEW.n)) THEN
INSERT INTO audit (word, n, v) VALUES (OLD.word, OLD.n, NULL); END IF;
IF TG_OP <> 'DELETE' THEN INSERT INTO audit (word, n, v) VALUES (NEW.word, NEW.n, NEW.v); END IF;
RETURN NULL; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON items FOR EACH ROW EXECUTE FUNCTION note();
"""


@pytest.mark.parametrize("seed", range(40 if TAKES_ALL else 1))
def test_any_deaths(log, url, database, seed):
    """Whatever changes, and dies when: the history of each key is an end of what a trigger saw, and ends with what the table has."""
    chance = random.Random(seed)
    database.execute("CREATE TABLE items (word text, n int, v int NOT NULL, PRIMARY KEY (word, n))")
    database.execute(AUDIT)

    def change(count):
        for _ in range(count):
            word, n, v = f"'{chance.choice('abcdefg')}'", chance.randrange(60), chance.randrange(1000)
            database.execute(chance.choice(STATEMENTS).format(word=word, n=n, v=v))

    def step():
        task = SourceTask(source(url, "items", poll_rows=chance.randrange(1, 10)), 0, 1, log, is_once=True)
        with contextlib.suppress(SimulatedCrash), dies(chance.choice(POINTS), at=chance.randrange(1, 6)):
            task.run(Orders())

    change(40)
    for _ in range(6):
        step()
        change(chance.randrange(12))
    bring(log, source(url, "items"))
    seen: dict[tuple[str, int], list[object]] = {}
    audit: dict[tuple[str, int], list[object]] = {}
    for row in log.read("items", columns=["word", "n", "v", "_deleted"]).to_pylist():
        seen.setdefault((row["word"], row["n"]), []).append(None if row["_deleted"] else row["v"])
    for word, n, v in database.execute("SELECT word, n, v FROM audit ORDER BY place").fetchall():
        audit.setdefault((word, n), []).append(v)
    now = {(word, n): v for word, n, v in database.execute("SELECT word, n, v FROM items").fetchall()}
    assert {key: history[-1] for key, history in seen.items() if history[-1] is not None} == now
    assert [key for key, history in seen.items() if history != audit[key][-len(history) :]] == []


@pytest.fixture
def server():
    """A server of its own, on a small disk where one can be mounted."""
    folder = Path(tempfile.mkdtemp(prefix="skdisk-"))  # which another user may enter
    folder.chmod(0o755)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=120m,mode=755", "none", folder], capture_output=True, check=False
    )
    programs = binaries()
    assert programs is not None
    found = Server(programs, parent=str(folder))
    yield found
    found.stop()
    if not mounted.returncode:
        subprocess.run(["umount", "-l", folder], check=True)
    folder.rmdir()


@pytest.mark.skipif(not TAKES_ALL, reason="runs a server of its own: make torture")
class TestServer:
    """A server that crashes, restarts, stands still or is full is waited for, and each change comes once."""

    @pytest.fixture(autouse=True)
    def _begin(self, server, log):
        self.server, self.log, self.url, self.count = server, log, f"postgresql://streamkit@/postgres?host={server.folder}", 0
        self.execute("CREATE TABLE people (id int PRIMARY KEY, text text)")
        with run([source(self.url, "people", poll_rows=50, heartbeat_interval_ms=3_600_000)], log):
            self.add(1000)
            wait_until(lambda: "people" in log.topics())
            yield
            wait_until(lambda: log.read("people").num_rows >= self.count)
        assert sorted(row["id"] for row in rows(log, "people")) == list(range(self.count))

    def execute(self, *statements):
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def add(self, count):
        first, self.count = self.count, self.count + count
        self.execute(f"INSERT INTO people SELECT n, repeat('x', 100) FROM generate_series({first}, {self.count - 1}) n")

    def wait_for_error(self, error):
        """Wait until the task waits for an error to pass."""
        wait_until(lambda: any(one.state == status.RESTARTING and error in one.trace for one in status.read_status(self.log)))

    def test_crashes(self):
        """It ends without a word while it sends, and is gone for a while."""
        for _ in range(3):
            self.add(1000)
            wait_until(lambda: self.log.read("people").num_rows > self.count - 1000)
            self.server.crash()
            self.wait_for_error("OperationalError: connection")
            self.server.start()

    def test_away_for_a_minute(self):
        """It is gone for a minute, for what reads it and for what writes to it; then both go on, and nothing is lost or doubled."""

        def copied():
            with psycopg.connect(self.url) as connection:
                return [one for (one,) in connection.execute("SELECT id FROM copies ORDER BY id")]

        self.execute("CREATE TABLE copies (id int, text text)")
        with run([PostgresSink("out", connection_url=self.url, topics="people", table="copies")], self.log):
            wait_until(lambda: len(copied()) == self.count)
            self.server.crash()
            time.sleep(MINUTE_SECONDS)
            self.server.start()
            self.add(1000)
            wait_until(lambda: len(copied()) >= self.count)
            assert copied() == list(range(self.count))

    def test_restarts(self):
        """Its shutdown does not wait for the heartbeat where others have changed what the connector does not read."""
        wait_until(lambda: self.log.read("people").num_rows == self.count)
        self.execute("CREATE TABLE other AS SELECT generate_series(1, 1000)")
        self.server.shut_down()
        self.wait_for_error("OperationalError: connection")
        self.server.start()
        self.add(1000)

    def test_stands_still(self):
        """It answers nobody for a while, in the midst of its changes."""
        for _ in range(3):
            self.add(1000)
            with self.server.standing_still():
                time.sleep(2)

    def test_full(self):
        """It has no room to decode a large transaction."""
        disk = self.server.folder.parent
        if not disk.is_mount():
            pytest.skip("no disk can be mounted here")
        wait_until(lambda: self.log.read("people").num_rows == self.count)
        self.execute("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'", "SELECT pg_reload_conf()")
        ballast = disk / "ballast"
        with contextlib.suppress(OSError), open(ballast, "ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(ballast, ballast.stat().st_size - 2_000_000)
        self.add(5000)
        self.wait_for_error("StorageFullError: PostgreSQL ended the stream of slot streamkit_in: ERROR: could not write")
        ballast.unlink()


def test_passwords_are_not_shown(log):
    """A server that cannot be reached is named without the password, also where the address is not whole."""
    one = PostgresSource("in", connection_url="postgresql://me:hunter2@127.0.0.1:1/none", tables="people")
    assert "hunter2" not in one.redacted("password=hunter2") + one.redacted(one.settings["connection.url"])
    with pytest.raises(psycopg.OperationalError) as failure:
        SourceTask(one, 0, 1, log, is_once=True).run(Orders())
    assert "hunter2" not in str(failure.value)


@pytest.mark.parametrize(("at", "point"), combined([1, 2, 3], POINTS, together=1))
def test_death_while_a_table_is_taken_again(log, url, database, point, at):
    """A task that dies while it deletes what a former table had, or reads the new one, leaves the topic as the table is all the same."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people SELECT generate_series(1, 5)")
    database.execute("CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1)")
    bring(log, source(url, "other, people"))
    database.execute("DROP TABLE people, other")
    database.execute("CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people SELECT generate_series(4, 9)")
    database.execute("CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (2)")
    again = source(url, "other, people", recreated_mode="begin", poll_rows=2)
    with dies(point, at), contextlib.suppress(SimulatedCrash):
        SourceTask(again, 0, 1, log, is_once=True).run(Orders())
    bring(log, source(url, "other, people", recreated_mode="begin", poll_rows=2))
    assert (kept(log, "people"), kept(log, "other")) == (set(range(4, 10)), {2})


def test_a_given_publication_that_the_connector_made(log, url, database):
    """It has new tables, and tables that were made again, as one of the connector's own name has; not after somebody made another one."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people VALUES (1), (2)")
    given = {"publication_name": "Mine, 'all'", "recreated_mode": "begin"}
    bring(log, source(url, "people", **given))
    database.execute("DROP TABLE people; CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people VALUES (2), (3)")
    database.execute("CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (5)")
    bring(log, source(url, "people, other", **given))
    database.execute("INSERT INTO people VALUES (4)")
    bring(log, source(url, "people, other", **given))
    assert (kept(log, "people"), kept(log, "other")) == ({2, 3, 4}, {5})
    with pytest.raises(ConfigError, match="has no table third; run: ALTER PUBLICATION"):
        database.execute("CREATE TABLE third (id int PRIMARY KEY)")
        bring(log, PostgresSource("else", connection_url=url, tables="third", publication_name="Mine, 'all'"))


@pytest.mark.parametrize("name", ["Shop", "shop-1", "shop 1", "é", "a" * 64, "a.b"])
def test_names_that_postgresql_does_not_take(name):
    """They are refused when the connector is made."""
    with pytest.raises(ConfigError, match=r"slot\.name='.*'; expected what PostgreSQL takes"):
        PostgresSource("in", connection_url="postgresql://h/d", tables="t", slot_name=name)
    with pytest.raises(ConfigError, match=r"publication\.name"):
        PostgresSource("in", connection_url="postgresql://h/d", tables="t", publication_name="é" * 32)


def test_connectors_whose_names_are_one_for_postgresql():
    """Their slots and publications are others all the same; so is a table's name that PostgreSQL would cut refused."""
    names = ["a-b", "a_b", "a.b", "Shop", "shop", "L" * 60 + "x", "l" * 60 + "x", "l" * 60 + "y", "l" * 53, "l" * 54]
    made = [PostgresSource(name, connection_url="postgresql://h/d", tables="t") for name in names]
    assert len({slot for one in made for slot in one.splits()}) == len({own_name(name) for name in names}) == len(names)
    assert made[1].splits() == ["streamkit_a_b"]
    for table in ("t" * 64, "public." + "é" * 32):
        with pytest.raises(ConfigError, match=r"has 64 bytes; expected at most 63: PostgreSQL cuts longer names"):
            PostgresSource("in", connection_url="postgresql://h/d", tables=table)


def test_a_slot_that_an_earlier_version_named(log, url, database, monkeypatch):
    """A connector that has a position keeps its slot and its publication; only another one gets names with a digest."""
    database.execute("CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people VALUES (1)")
    with monkeypatch.context() as earlier:
        earlier.setattr("streamkit.connectors.postgres.source.own_name", former_name)
        bring(log, PostgresSource("a-b", connection_url=url, tables="people"))
    database.execute("INSERT INTO people VALUES (2)")
    bring(log, PostgresSource("a-b", connection_url=url, tables="people"))
    bring(log, PostgresSource("a.b", connection_url=url, tables="people", topic_prefix="other."))
    assert [row["id"] for row in rows(log, "people")] == [1, 2] == sorted(row["id"] for row in rows(log, "other.people"))
    for query in ("SELECT slot_name FROM pg_replication_slots", "SELECT pubname FROM pg_publication"):
        assert {name for (name,) in database.execute(query).fetchall()} == {"streamkit_a_b", own_name("a.b")}


def test_keys_that_a_double_takes_for_one(log, url, database):
    """Numerics of a key that may have more digits than a double are refused as doubles, at the start and later; shorter ones are not."""
    database.execute("CREATE DOMAIN number AS numeric")
    double = {"decimal_handling_mode": "double"}
    for table, kind in (("long", "numeric(20,0)"), ("any", "numeric"), ("domain", "number")):
        database.execute(f'CREATE TABLE "{table}" (id {kind} PRIMARY KEY, n numeric)')
        with pytest.raises(
            ConfigError, match=rf"the key column 'id' of the table {table} is a numeric .* would make one row of two"
        ):
            bring(log, source(url, table, **double))
    database.execute("CREATE TABLE short (id numeric(15,2) PRIMARY KEY, n numeric); INSERT INTO short VALUES (1.5, 1)")
    bring(log, source(url, "short", **double))
    assert rows(log, "short") == [{"id": 1.5, "n": 1.0}]
    database.execute("ALTER TABLE short ALTER COLUMN id TYPE numeric; INSERT INTO short VALUES (1.50000000000000001, 1)")
    with pytest.raises(ConfigError, match="the key column 'id' of the table short is a numeric"):
        bring(log, source(url, "short", **double))


def test_the_key_that_a_topology_says(log, url, database):
    """It may be said, as a topology does beside its columns, and must be that of the table."""
    database.execute(
        "CREATE TABLE stock (place text, id int, n int, PRIMARY KEY (id, place)); INSERT INTO stock VALUES ('a', 1, 5)"
    )
    app = sk.Topology("stock")
    app.stream(
        sk.postgres("stock", topic="stock", connection_url=url),
        schema="place string NOT NULL, id int NOT NULL, n int",
        key=("place", "id"),
    ).to("copied")
    sk.run(app, log=log, drain=True, engine="local").wait()
    assert rows(log, "copied") == [{"place": "a", "id": 1, "n": 5}]
    with pytest.raises(ConfigError, match=r"the connector other has key=n, and the key of table stock is \(place, id\)"):
        bring(log, PostgresSource("other", {"connection.url": url, "tables": "stock", "topic": "others", "key": "n"}))


ANOTHER = {
    "key": (
        "k int PRIMARY KEY, id int, s text",
        "INSERT INTO people VALUES (1, 7, 'a'), (2, 7, 'b')",
        "the key of table people was",
    ),
    "no_key": ("id int, s text", "INSERT INTO people VALUES (7, 'a'), (7, 'b')", "the key of table people was"),
    "longer_key": (
        "id int, s text, PRIMARY KEY (id, s)",
        "INSERT INTO people VALUES (7, 'a'), (7, 'b')",
        "the key of table people was",
    ),
    "key_type": ("id bigint PRIMARY KEY, s text", "INSERT INTO people VALUES (9999999999, 'a')", "'id' as bigint; expected int"),
    "type": ("id int PRIMARY KEY, s int", "INSERT INTO people VALUES (9, 4)", "'s' as int; expected string"),
}


@pytest.mark.parametrize("another", ANOTHER)
def test_a_table_made_again_that_does_not_fit(log, url, database, another):
    """It is refused before the former rows are deleted, each time; without the topic it is read."""
    columns, insert, said = ANOTHER[another]
    database.execute("CREATE TABLE people (id int PRIMARY KEY, s text); INSERT INTO people VALUES (1, 'x'), (2, 'y')")
    bring(log, source(url, "people"))
    database.execute(f"DROP TABLE people; CREATE TABLE people ({columns}); {insert}")
    for _ in range(times(another == "key")):
        with pytest.raises(SchemaError, match=said):
            bring(log, source(url, "people", recreated_mode="begin"))
        assert kept(log, "people") == {1, 2}
    log.delete_topic("people")
    bring(log, source(url, "people", recreated_mode="begin"))
    assert log.read("people").num_rows == database.execute("SELECT count(*) FROM people").fetchone()[0]


def test_a_table_made_again_with_nulls(log, url, database):
    """So is one that has a null where the topic has none."""
    log.create_topic("people", "id int NOT NULL, s string NOT NULL", key="id")
    database.execute("CREATE TABLE people (id int PRIMARY KEY, s text); INSERT INTO people VALUES (1, 'x')")
    bring(log, source(url, "people"))
    for columns, said in (("s text", "has null in the column 's'"), ("t text", "has no column 's'")):
        database.execute(f"DROP TABLE people; CREATE TABLE people (id int PRIMARY KEY, {columns}); INSERT INTO people VALUES (2)")
        with pytest.raises(SchemaError, match=said):
            bring(log, source(url, "people", recreated_mode="begin"))
        assert kept(log, "people") == {1}


def test_a_topic_of_another_key(log, url, database):
    """A table does not come into a topic whose key is another one: rows would replace each other. Nothing is made for it."""
    log.create_topic("people", "id int NOT NULL, k int", key="id")
    database.execute("CREATE TABLE people (k int PRIMARY KEY, id int); INSERT INTO people VALUES (1, 7), (2, 7)")
    with pytest.raises(SchemaError, match=r"the key of table people is \(k\), and that of topic people is \(id\)"):
        bring(log, source(url, "people"))
    assert database.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()").fetchone() == (0,)


def test_a_topic_that_forgets_rows_of_a_table(log, url, database, caplog):
    """A topic that was there before and has retention is left as it is, and the log says what it loses and how to keep it."""
    log.create_topic("people", "id int NOT NULL", key="id")
    database.execute("CREATE TABLE people (id int PRIMARY KEY); INSERT INTO people VALUES (1)")
    bring(log, source(url, "people"))
    assert "topic people forgets rows after retention.ms=604800000" in caplog.text
    assert not log.topic("people").is_compacted


def test_rows_that_postgresql_never_sends(log, url, database, caplog):
    """Rows of a child, and those that have a new column's default: the log says so, and the topic has neither."""
    database.execute("CREATE TABLE parents (id int PRIMARY KEY)")
    database.execute("CREATE TABLE children () INHERITS (parents)")
    database.execute("INSERT INTO parents VALUES (1)")
    database.execute("INSERT INTO children VALUES (2)")
    source = {"connection.url": url, "tables": "parents"}
    run([PostgresSource("in", source)], log, once=True)
    assert "table parents has the child children, whose rows are not read with it" in caplog.text
    database.execute("UPDATE ONLY parents SET id = 3")
    database.execute("ALTER TABLE ONLY children NO INHERIT parents")
    run([PostgresSource("in", source)], log, once=True)
    database.execute("INSERT INTO parents VALUES (4)")
    database.execute("ALTER TABLE parents ADD COLUMN w int DEFAULT 7")
    database.execute("INSERT INTO parents VALUES (5)")
    run([PostgresSource("in", source)], log, once=True)
    assert "table parents has the column w now; rows that were there before have null for it in topic parents" in caplog.text
    found = {row["id"]: row["w"] for row in log.read("parents").to_pylist() if not row.get("_deleted")}
    assert (found[3], found[5], 2 in found) == (None, 7, False)


@pytest.mark.parametrize("kind", [PostgresSource, PostgresSink])
@pytest.mark.parametrize(
    "address",
    ["postgresql://u:hush@h:abc/d", "postgresql://u:hush@h:0/d", "postgresql://u:hush@h:1,h:70000/d", "host=h port=x password=hush", "hush",
     "postgresql://u:hu/sh@h/d", "", "postgresql://u:hush@h/d?sslmode=bogus", "host=h password=hush keepalives=x",
     "postgresql://u:hush@h,i/d?target_session_attrs=bogus", "postgresql://u:hush@h/d?connect_timeout=soon",
     "postgresql://u:hush@h/d?channel_binding=x", "postgresql://u:hush@h/d?gssencmode=x", "host=h,i,j port=1,2 password=hush",
     "postgresql://u:hush@h/d?ssl_min_protocol_version=x", "postgresql://u:hush@h/d?replication=database", "host=h replication=true"],
)  # fmt: skip
def test_addresses_that_can_be_none(kind, address):
    """They are refused when the connector is made, and nothing of them is shown: an @ or a / may have been in a password."""
    given = {"tables": "t"} if kind is PostgresSource else {"topics": "t"}
    with pytest.raises(ConfigError, match=r"connection\.url (is no address|is empty|has an? )") as caught:
        kind("in", connection_url=address, **given)
    assert "hu" not in str(caught.value)
    kind("in", connection_url="postgresql://u:hush@h:5433,i/d", **given)
    kind(
        "in",
        connection_url="host=h,i sslmode=verify-full keepalives=0 target_session_attrs=read-write connect_timeout=5",
        **given,
    )


def test_settings_of_an_address_that_are_wrong_are_not_tried_again(log, url, monkeypatch):
    """Neither those of the environment: the library says so without asking the server, and the task fails at once."""
    log.create_topic("t", "id int")
    ones = (source(url, "people"), PostgresSink("out", connection_url=url, topics="t"))
    monkeypatch.setenv("PGSSLMODE", "nope")
    for one in ones:
        with run([one], log) as worker:
            wait_until(lambda: any(found.state == "FAILED" for found in worker.status()))
            (failed,) = (found for found in worker.status() if found.state == "FAILED")
            assert "sslmode" in str(failed), failed


def test_a_database_whose_texts_are_of_no_encoding(log, url):
    """It is refused with what to do: a text that is no UTF-8 would have stopped the source for ever."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS no_encoding")
        connection.execute("CREATE DATABASE no_encoding ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
        other = url.replace("/target", "/no_encoding")
        try:
            with pytest.raises(ConfigError, match=r"the database no_encoding has the encoding SQL_ASCII.*ENCODING 'UTF8'"):
                run([PostgresSource("in", {"connection.url": other, "tables": "t"})], log, once=True)
        finally:
            connection.execute("DROP DATABASE no_encoding WITH (FORCE)")


@pytest.mark.parametrize("name", ["pg_class", "pg_catalog.pg_class", "information_schema.sql_features"])
def test_tables_of_the_system(log, url, name):
    """They are refused with the reason; an error of the library came through."""
    with pytest.raises(ConfigError, match=f"{name} is a table of PostgreSQL's own"):
        bring(log, source(url, name))


@pytest.mark.parametrize(("definition", "said"), [
    ("TABLE odd ()", "the table odd has no columns"),
    ("TABLE odd (a int GENERATED ALWAYS AS (1) STORED)", "the table odd has no columns"),
    ("UNLOGGED TABLE odd (id int PRIMARY KEY)", "the table odd is unlogged or temporary.*SET LOGGED"),
])  # fmt: skip
def test_tables_that_send_nothing(log, url, database, definition, said):
    """They are refused with the reason when the task starts."""
    database.execute(f"CREATE {definition}")
    with pytest.raises(ConfigError, match=said):
        bring(log, source(url, "odd"))
