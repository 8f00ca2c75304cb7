"""What queries that are run once give: from streams, tables and stores, as of one moment."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import EvaluationError, SchemaError, TopologyError
from streamkit.formats.codec import declare_format
from streamkit.log.consume.reader import read_placed
from streamkit.log.topic.formats import OPAQUE_SCHEMA
from streamkit.plan.decoding import declared_decoding, decoded
from streamkit.plan.expression_text import typed_text
from streamkit.plan.kept_output import kept_output
from streamkit.plan.program import Input
from streamkit.schema import Schema
from streamkit.sql.pull.input import PullInput
from streamkit.sql.pull.source import StoreRows, TopicRows
from streamkit.sql.tree.query import Order, Query, SelectColumn, Within
from streamkit.sql.tree.span import Name
from tests.kit.pulled import Pulled, store_rows
from tests.kit.sql_queries import join, query, written

HOUR_MS = 3_600_000
CLICKS = "user string, page string, n int"


@pytest.fixture
def log():
    with sk.open_log(":memory:") as opened:
        opened.create_topic("clicks", CLICKS, key="user", partitions=2)
        opened.create_topic("users", "user string, city string", key="user", partitions=2, config={"cleanup.policy": "compact"})
        send(opened, "clicks", ("ann", "a", 1), ("bob", "b", 2), ("ann", "b", 3), (None, "d", None))
        send(opened, "users", ("ann", "Rome"), ("bob", "Oslo"), ("eve", None))
        yield opened


@pytest.fixture
def pulled(log):
    return Pulled(log)


def send(log, topic, *rows, timestamp_ms=None):
    names = log.topic(topic).schema.names
    with log.producer() as producer:
        for number, row in enumerate(rows):
            time_ms = number * HOUR_MS if timestamp_ms is None else timestamp_ms
            producer.send(topic, dict(zip(names, row, strict=True)), timestamp_ms=time_ms)


def frames_read(monkeypatch):
    """The frames that are read from now on."""
    frames = []

    def read(storage, topic, columns, extent, *offsets):
        frames.append(extent)
        return read_placed(storage, topic, columns, extent, *offsets)

    monkeypatch.setattr("streamkit.sql.pull.reading.read_placed", read)
    return frames


# Streams and tables


def test_a_stream_has_its_records(log, pulled):
    """All records that are there, with what is known of each beside its columns."""
    asked = query(["user", "_partition", "_offset", ("unix_millis(_timestamp)", "at"), ("size(_headers)", "headers")], "clicks")

    found = sorted(pulled.rows(asked), key=str)

    assert [(row[0], row[3], row[4]) for row in found] == [
        ("ann", 0, 0), ("ann", 2 * HOUR_MS, 0), ("bob", HOUR_MS, 0), (None, 3 * HOUR_MS, 0)
    ]  # fmt: skip
    assert {row[1:3] for row in found} == {
        (partition, offset) for partition, end in log.end_offsets("clicks").items() for offset in range(end)
    }


def test_a_stream_has_no_deletions(log, pulled):
    """A record that deletes its key has no values, so it is none of the stream's rows."""
    with log.producer() as producer:
        producer.delete("clicks", {"user": "ann"})

    assert len(pulled.rows(query(["*"], "clicks"))) == 4


def test_bounds_of_times_and_offsets_choose_what_is_read(log, pulled):
    """A condition on the time, partition or offset of records reads no other frames, and means what it says."""
    for number in range(4):
        send(log, "clicks", ("eve", "x", number), timestamp_ms=(10 + number) * HOUR_MS)
    asked = query(
        ["n"], "clicks", where="_timestamp >= timestamp'1970-01-01 11:00:00' and _timestamp < timestamp'1970-01-01 13:00:00'"
    )

    assert pulled.rows(asked) == [(1,), (2,)]
    assert pulled.paths(asked)[0].startswith("range of _timestamp >= 1970-01-01 11:00:00+00:00 and _timestamp < 1970-01-01 13")
    assert pulled.rows(query(["page"], "clicks", where="_offset < 1 and _partition in (0, 1) and user = 'ann'")) == [("a",)]


def test_a_limit_ends_the_reading(log, pulled, monkeypatch):
    """With LIMIT alone, no more frames are read than needed."""
    for _ in range(5):
        send(log, "clicks", ("ann", "x", 1))
    frames = frames_read(monkeypatch)

    assert len(pulled.rows(query(["page"], "clicks", where="user = 'ann'", limit=2))) == 2
    assert len(frames) < 4


def test_a_table_follows_its_topic(log, pulled):
    """Each query sees the newest rows, deletions and keys that have come since the query before."""
    asked = query(["user", "city"], "users", order_by=(Order(written("user")),))
    assert pulled.rows(asked) == [("ann", "Rome"), ("bob", "Oslo"), ("eve", None)]
    send(log, "users", ("ann", "Bonn"), ("zed", "Rome"))
    with log.producer() as producer:
        producer.delete("users", {"user": "bob"})

    assert pulled.rows(asked) == [("ann", "Bonn"), ("eve", None), ("zed", "Rome")]
    assert pulled.rows(query(["city"], "users", where="user in ('ann', 'bob')")) == [("Bonn",)]
    assert pulled.paths(query(["city"], "users", where="user = 'ann'")) == [
        "look-up of 1 key in the table of the topic users, which has 3 rows"
    ]


def test_a_table_reads_its_topic_once(log, pulled, monkeypatch):
    """What was folded for a query stays for the next one, which reads what was committed since."""
    pulled.rows(query(["*"], "users"))
    frames = frames_read(monkeypatch)
    pulled.rows(query(["*"], "users"))
    assert frames == []
    send(log, "users", ("ann", "Bonn"))
    pulled.rows(query(["*"], "users"))

    assert len(frames) == 1


def test_a_topic_that_was_created_again_is_another_table(log, pulled):
    """Rows of a topic that was deleted are gone, though a topic of that name is there again."""
    pulled.rows(query(["*"], "users"))
    log.delete_topic("users")
    log.create_topic("users", "user string, city string", key="user", partitions=2, config={"cleanup.policy": "compact"})
    send(log, "users", ("new", "Rome"))

    assert pulled.rows(query(["*"], "users")) == [("new", "Rome")]


def test_a_table_is_folded_again_where_deletions_have_left(log, pulled):
    """Who stands before deletions that compaction has removed reads the topic from its beginning, since it would miss them."""
    log.alter_topic("users", config={"delete.retention.ms": 0})
    pulled.rows(query(["*"], "users"))
    with log.producer() as producer:
        producer.delete("users", {"user": "bob"})
    send(log, "users", ("zed", "Rome"))
    for _ in range(2):
        log.compact("users")
    assert any(log.catalog.manifest.purged_below(log.topic("users").id).values())

    assert sorted(pulled.rows(query(["user"], "users"))) == [("ann",), ("eve",), ("zed",)]


def test_times_in_the_past(log, pulled):
    """AS OF reads topics up to that event time; the table of now stays as it is."""
    log.create_topic("prices", "coin string, price int", key="coin", config={"cleanup.policy": "compact"})
    for number in range(3):
        send(log, "prices", ("EUR", number), timestamp_ms=number * HOUR_MS)
    past = query(["price"], "prices", as_of=written("timestamp'1970-01-01 01:30:00'"))

    assert pulled.rows(past) == [(1,)]
    assert pulled.rows(query(["price"], "prices")) == [(2,)]
    assert pulled.rows(query(["price"], "prices", as_of=written("0"))) == [(0,)]
    assert pulled.rows(query([("count(*)", "n")], "clicks", as_of=written("'1970-01-01T01:00:00Z'"))) == [(2,)]


def test_values_in_a_format(log):
    """Bytes of an opaque topic are read as columns; a value that is not of the format is an error that says where."""
    log.create_topic("orders", format="json", partitions=1)
    with log.producer() as producer:
        for key, value in (("o1", {"user": "ann", "amount": 2.5}), ("o2", {"user": "bob", "amount": 1.0}), ("o1", None)):
            producer.send("orders", {"key": key, "value": value})
    columns = Schema.parse("id string, user string, amount double")
    how = declared_decoding(
        declare_format("json", None, None, needs_schema=False), declare_format("string", None, None), columns, ("id",), None
    )
    found = decoded(how, Input("orders", "stream", OPAQUE_SCHEMA, ("key",)), None)
    schema = Schema((*found.key, *found.value))
    stream, table = (TopicRows("orders", schema, ("id",), is_stream, found) for is_stream in (True, False))
    pulled = Pulled(log, lines=table)

    assert pulled.rows(query(["id", "amount"], "lines")) == [("o2", 1.0)]
    assert pulled.reader.read([_input(stream, ("id", "user"))])[0].to_pylist() == [
        {"id": "o1", "user": "ann"},
        {"id": "o2", "user": "bob"},
    ]
    with log.producer() as producer:
        producer.send("orders", {"key": "o3", "value": [1]})
    with pytest.raises(SchemaError, match="topic orders: the value of a record cannot be read"):
        pulled.rows(query(["*"], "lines"))


def _input(source, columns):
    return PullInput("x", source, columns)


# Stores


@pytest.fixture
def counts(log):
    """An application that counts clicks by page, with a filter and a projection behind; and by hour."""
    app = sk.Topology("pages")
    by_page = app.stream("clicks").group_by("page")
    by_page.agg(n=F.count("*"), total=F.sum("n"), store="pages").filter("n > 0").select(
        key=F.col("page"), twice=F.col("n") * 2
    ).to("out")
    hours = sk.tumbling("1 hour", grace="0 s", retention="100 days")
    by_page.windowed_by(hours).count(store="hours").to("hourly")
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    return app


def test_a_store_is_looked_up_ranged_and_scanned(log, counts):
    """A condition on the whole key looks rows up, one on its beginning ranges, any other scans; all give what they say."""
    pulled = Pulled(log, pages=store_rows(log.store("pages", "pages")))

    assert pulled.rows(query(["n", "total"], "pages", where="page = 'b'")) == [(2, 5)]
    assert pulled.paths(query(["n"], "pages", where="page = 'b'")) == [
        "look-up of 1 key in the store pages of pages, which has 3 rows"
    ]
    assert sorted(pulled.rows(query(["page"], "pages", where="page >= 'b'"))) == [("b",), ("d",)]
    assert pulled.paths(query(["page"], "pages", where="page >= 'b'")) == [
        "range of page >= b in the store pages of pages, which has 3 rows"
    ]
    assert sorted(pulled.rows(query(["page"], "pages", where="n = 1"))) == [("a",), ("d",)]
    assert pulled.paths(query(["page"], "pages", where="n = 1")) == ["scan in the store pages of pages, which has 3 rows"]
    assert pulled.rows(query(["n"], "pages", where="page in ('a', 'x', 'b')")) == [(1,), (2,)]


def test_windows_are_found_by_key_and_by_time(log, counts):
    """The windows of a key, and those of a time, are read without the others."""
    pulled = Pulled(log, hours=store_rows(log.store("pages", "hours")))
    of_key = query([("hour(window_start)", "h")], "hours", where="page = 'b'")

    assert sorted(pulled.rows(of_key)) == [(1,), (2,)]
    assert pulled.paths(of_key) == ["look-up of the windows of 1 key in the store hours of pages, which has 4 rows"]
    of_time = query(["page"], "hours", where="window_start >= timestamp'1970-01-01 02:00:00'")
    assert sorted(pulled.rows(of_time)) == [("b",), ("d",)]
    assert pulled.paths(of_time)[0].startswith("range of window_start >= 1970-01-01 02:00:00")


def test_a_store_behind_filters_and_projections(log, counts):
    """Rows of a store pass the steps to the topic; a key that has another name is looked up under its own."""
    view = log.store("pages", "pages")
    kept = kept_output(view.program, "out")
    assert kept is not None
    source = StoreRows("pages", "pages", log.topic("out").schema, ("key",), kept.steps)
    pulled = Pulled(log, out=source)

    assert [typed_text(step.condition) for step in kept.steps if step.condition] == ["n > 0"]
    assert pulled.rows(query(["*"], "out", where="key = 'b'")) in ([("b", "b", 4)], [("b", 4)])
    assert pulled.paths(query(["twice"], "out", where="key = 'b'"))[0].startswith("look-up of 1 key")
    assert pulled.paths(query(["twice"], "out", where="twice = 4"))[0].startswith("scan")


def test_all_sources_are_of_one_moment(log, counts, monkeypatch):
    """A join of a store and a topic sees what one look into the catalog saw, whatever is committed while it reads."""
    pulled = Pulled(log, pages=store_rows(log.store("pages", "pages")))
    asked = query(
        [("count(c.n)", "records"), ("max(p.total)", "sums")],
        "clicks c",
        join("inner", "pages p", "c.page = p.page"),
        where="c.page = 'b'",
    )
    assert pulled.rows(asked) == [(2, 5)]
    rows_of_stream = pulled.reader._rows_of_stream

    def later(*given):
        send(log, "clicks", ("bob", "b", 100))
        sk.run(counts, log=log, engine="local", trigger="available_now").wait()
        return rows_of_stream(*given)

    monkeypatch.setattr(pulled.reader, "_rows_of_stream", later)
    assert pulled.rows(asked) == [(2, 5)]
    assert pulled.rows(asked) == [(3, 105)]


def test_an_earlier_epoch_of_a_store(log, counts):
    """AS OF a time of the host reads the store as it was behind the epoch that was the newest then."""
    before = log.catalog.epochs.last(log.catalog.applications.get("pages").id)[-1].committed_ms
    send(log, "clicks", ("eve", "b", 7), timestamp_ms=0)
    while log.clock.now_ms() <= before:
        pass
    sk.run(counts, log=log, engine="local", trigger="available_now").wait()
    pulled = Pulled(log, pages=store_rows(log.store("pages", "pages")))

    assert pulled.rows(query(["n"], "pages", where="page = 'b'", as_of=written(str(before)))) == [(2,)]
    assert pulled.rows(query(["n"], "pages", where="page = 'b'")) == [(3,)]


def test_an_earlier_epoch_of_a_store_with_versions(log):
    """AS OF is a time of the host there, too: what the store had then, whatever the event times of its versions are."""
    log.create_topic("rates", "coin string, euros int", key="coin", partitions=1)
    app = sk.Topology("rating")
    app.table("rates", versioned="10 days", store="rates")
    send(log, "rates", ("USD", 1), timestamp_ms=2 * HOUR_MS)
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    before = log.catalog.epochs.last(log.catalog.applications.get("rating").id)[-1].committed_ms
    while log.clock.now_ms() <= before:
        pass
    send(log, "rates", ("USD", 2), timestamp_ms=3 * HOUR_MS)
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    pulled = Pulled(log, rates=store_rows(log.store("rating", "rates")))

    assert pulled.rows(query(["euros"], "rates", as_of=written(str(before)))) == [(1,)]
    assert pulled.rows(query(["euros"], "rates")) == [(2,)]
    assert log.store("rating", "rates").valid_at(3 * HOUR_MS - 1).to_pylist() == [{"coin": "USD", "euros": 1}]


# Queries


def test_joins_keep_rows_of_the_sides_that_they_name(pulled):
    """`*` has the column that both sides are joined by once; a side that has no row gives nulls."""
    inner = query(["*"], "clicks c", join("inner", "users u", "c.user = u.user"))
    full = query(["user", "c.user", "u.user", "page"], "clicks c", join("full", "users u", "c.user = u.user"))
    table = pulled.table(inner)

    assert table.column_names == ["user", "page", "n", "city"] and table.num_rows == 3
    assert pulled.table(query(["u.*"], "clicks c", join("left", "users u", "c.user = u.user"))).column_names == ["user", "city"]
    with pytest.raises(TopologyError, match="two results are called 'user'"):
        pulled.rows(full)
    full = query(["user", ("c.user", "c"), ("u.user", "u"), "page"], "clicks c", join("full", "users u", "c.user = u.user"))
    assert sorted(pulled.rows(full), key=str) == [
        ("ann", "ann", "ann", "a"), ("ann", "ann", "ann", "b"), ("bob", "bob", "bob", "b"), ("eve", None, "eve", None), (None, None, None, "d"),
    ]  # fmt: skip


def test_joins_of_three_and_of_queries(pulled):
    """More sides, and queries among them, are joined one after the other; a column of one name in all is one."""
    counted = (query(["user", ("count(*)", "c")], "clicks", group_by=["user"]), "k")
    asked = query(
        ["user", "city", "k.c"], "users u", join("inner", counted, "u.user = k.user"), join("left", "users v", "v.user = u.user")
    )
    with pytest.raises(TopologyError, match=r"the column 'city' is in u and in v; expected u\.city or v\.city"):
        pulled.rows(asked)
    asked = query(
        ["user", ("u.city", "city"), "k.c"],
        "users u",
        join("inner", counted, "u.user = k.user"),
        join("left", "users v", "v.user = u.user"),
    )

    assert sorted(pulled.rows(asked)) == [("ann", "Rome", 2), ("bob", "Oslo", 1)]


def test_joins_by_conditions_without_equality(pulled):
    """Rows that meet by any condition are found too; WITHIN compares the times of records."""
    crossed = query([("count(*)", "n")], "users u", join("inner", "users v", "u.user < v.user"))
    assert pulled.rows(crossed) == [(3,)]
    near = query(
        [("a.page", "x"), ("b.page", "y")], "clicks a", join("inner", "clicks b", "a.user = b.user", Within(0, 2 * HOUR_MS))
    )
    assert sorted(pulled.rows(near)) == [("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")]


def test_aggregates_are_streamkits_own(pulled):
    """Aggregates that go by the order of records have it; one group is there without GROUP BY, also of no records."""
    asked = query(
        ["user", ("first(page)", "f"), ("last(page)", "l"), ("collect_list(n)", "ns")],
        "clicks",
        group_by=["user"],
        where="user = 'ann'",
    )
    assert pulled.rows(asked) == [("ann", "a", "b", [1, 3])]
    assert pulled.rows(query([("count(*)", "n"), ("sum(n)", "s")], "clicks", where="n > 99")) == [(0, None)]
    assert pulled.rows(query([("count(*) + 1", "n")], "users")) == [(4,)]
    with pytest.raises(TopologyError, match="first goes by the order of records"):
        pulled.rows(query([("first(city)", "f")], "users"))


def test_selects_without_from(pulled):
    """A query without FROM has one row."""
    asked = Query((SelectColumn(written("1 + 1"), Name("two")), SelectColumn(written("null"), Name("nothing"))))
    assert pulled.rows(asked) == [(2, None)]


def test_orders(pulled):
    """By a result, its number, or an expression that is no result; nulls first as they ascend, unless the query says otherwise."""
    assert pulled.rows(query(["page"], "clicks", order_by=(Order(written("n"), True),), limit=2)) == [("b",), ("b",)]
    assert pulled.rows(query(["n", "page"], "clicks", order_by=(Order(written("1")),)))[0] == (None, "d")
    assert pulled.rows(
        query([("upper(page)", "p")], "clicks", order_by=(Order(written("P"), True), Order(written("n"))), limit=2)
    ) == [("D",), ("B",)]
    by_count = query(["page"], "clicks", group_by=["page"], order_by=(Order(written("count(*)"), True), Order(written("page"))))
    assert pulled.rows(by_count) == [("b",), ("a",), ("d",)]


def test_rows_that_fail(pulled):
    """A row that makes an expression fail ends the query, with the expression and its values."""
    with pytest.raises(EvaluationError, match="divide by zero"):
        pulled.rows(query([("1 / (n - 1)", "x")], "clicks"))


WRONG = {
    "an unknown source": (query(["*"], "klicks"), "there is no stream, table or topic 'klicks'; there are clicks, users; did you mean 'clicks'?"),
    "an unknown column": (query(["pag"], "clicks"), "there is no column 'pag'; the columns are user, page, n; did you mean 'page'?"),
    "a column of a table's records": (query(["_offset"], "users"), "_offset is a column of a stream's records, and this is a table"),
    "an aggregate in WHERE": (query(["*"], "clicks", where="count(*) > 1"), r"WHERE has an aggregate, count\(1\)"),
    "a condition that is none": (query(["*"], "clicks", where="n"), "a condition must be boolean; 'n' is int"),
    "a column that is not grouped": (query(["page", ("count(*)", "n")], "clicks", group_by=["user"]), "'page' is neither grouped by"),
    "EMIT": (query(["*"], "clicks", emit="changes"), "EMIT CHANGES belongs to a query that goes on, and this one is run once"),
    "PARTITION BY": (query(["*"], "clicks", partition_by=["page"]), "PARTITION BY gives a stream another key"),
    "a number behind the last": (query(["n"], "clicks", order_by=(Order(written("2")),)), "ORDER BY 2 is the number of a result, and SELECT has 1"),
    "an order beside distinct rows": (
        query(["page"], "clicks", is_distinct=True, order_by=(Order(written("n")),)),
        "SELECT DISTINCT has one row for several, so it can be ordered by its results alone",
    ),
    "a join with itself": (query(["*"], "clicks", join("inner", "clicks", "clicks.n = clicks.n")), "two sources of the join are called 'clicks'"),
    "WITHIN of a table": (
        query(["*"], "clicks c", join("inner", "users u", "c.user = u.user", Within(1, 1))),
        "WITHIN is about the times of the records of two streams",
    ),
    "a time that is none": (query(["*"], "users", as_of=written("'yesterday'")), "AS OF needs a time"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_asked(pulled, wrong):
    """Each is an error before anything is read, and says what was found and what to write."""
    asked, message = WRONG[wrong]
    with pytest.raises(TopologyError, match=message):
        pulled.rows(asked)
