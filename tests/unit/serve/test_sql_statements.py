"""What the SQL page asks for: results of statements, faults, words, rows that come, sources and queries."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import streamkit as sk
from streamkit.serve.limits import ServeLimits
from tests.kit.waiting import wait_until
from tests.unit.serve.conftest import serving, streaming

CLICKS = "CREATE STREAM clicks (who STRING KEY, page STRING, n INT) WITH (PARTITIONS = 1);"
TOTALS = "CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who;"


@pytest.fixture
def log():
    with sk.open_log(":memory:") as opened:
        yield opened


@pytest.fixture
def server(log):
    with serving(log, allows_changes=True) as client:
        yield client


@pytest.fixture
def sql(server):
    """The answer to a text, at one of the paths of SQL."""

    def asked(text, path="statements", status=200, **fields):
        answer = server.post(f"/api/v1/sql/{path}", json={"text": text, **fields})
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


def test_results_of_statements(sql):
    """A message, or columns with their types and rows; one that goes on is only said to."""
    created, rows = sql(CLICKS + "INSERT INTO clicks VALUES ('ann', 'a', 1), ('bob', NULL, 2); SELECT who, n FROM clicks")[::2]
    assert "clicks" in created["message"] and created["columns"] == []
    assert rows["columns"] == [
        {"name": "who", "type": "STRING", "is_number": False},
        {"name": "n", "type": "INTEGER", "is_number": True},
    ]
    assert (rows["rows"], rows["total"], rows["goes_on"]) == ([["ann", 1], ["bob", 2]], 2, False)
    (live,) = sql("SELECT * FROM clicks EMIT CHANGES")
    assert live["goes_on"] and live["rows"] == []
    assert "alone" in sql("SHOW STREAMS; SELECT * FROM clicks EMIT CHANGES", status=400)["message"]


def test_what_only_asks(log, server, sql):
    """A text that is opened by its address changes nothing: that waits for who has read it."""
    (waiting,) = sql(CLICKS, only_asks=True)
    assert waiting["waits"] and not log.catalog.sql.objects().sources
    assert sql("SHOW STREAMS", only_asks=True)[0]["rows"] == []
    with serving(log) as reading:
        said = reading.post("/api/v1/sql/statements", json={"text": CLICKS})
        assert (said.status_code, said.json()["error"]) == (403, "ReadOnly")


def test_faults_of_a_text(sql):
    """Each has its characters; a text without faults has none, in the dialect that is asked for."""
    text = "SHOW STREAMS;\nSELEC 1"
    (fault,) = sql(text, "faults")
    assert (fault["line"], text[fault["start"] : fault["end"]]) == (2, "SELEC")
    assert sql('SELECT "a" FROM s WHERE b->c = 1', "faults", dialect="ksql") == []
    assert sql("SELECT a FROM s WHERE b->c = 1", "faults", dialect="spark")
    assert "dialect" in sql("", "faults", status=400, dialect="latin")["message"]


def test_words_that_may_follow(sql):
    """Names of what there is before keywords, and how many letters of each are there."""
    sql(CLICKS)
    assert sql("SELECT * FROM cl", "words", place=16)[0] == {"text": "clicks", "begun": 2, "kind": "source"}
    assert {"who", "page", "n"} <= {one["text"] for one in sql("SELECT  FROM clicks", "words", place=7)}
    assert sql("SELECT * FR", "words", place=99)[0]["text"] == "FROM"


def test_rows_come_as_events(server, sql):
    """First the columns, then rows as they are sent, and the end at LIMIT."""
    sql(CLICKS + "INSERT INTO clicks VALUES ('ann', 'a', 1)")
    text = "SELECT who, count(*) AS c FROM clicks GROUP BY who EMIT CHANGES LIMIT 2"
    with streaming(server, "/api/v1/sql/rows", text=text, offset_reset="earliest") as events:
        assert [one["name"] for one in next(events)[1]] == ["who", "c", "_deleted"]
        assert next(events) == ("rows", [["ann", 1, False]])
        sql("INSERT INTO clicks VALUES ('ann', 'a', 1)")
        assert next(events) == ("rows", [["ann", 2, False]])
        assert next(events) == ("end", {})


@pytest.mark.parametrize("text", ["SHOW STREAMS", "SELECT 1", "SELECT * FROM nothing EMIT CHANGES", "SELEC"])
def test_rows_that_do_not_come(server, text):
    """What does not go on, or cannot be read, is refused in words."""
    answer = server.get("/api/v1/sql/rows", params={"text": text}, headers={"Accept": "text/event-stream"})
    assert answer.status_code == 400 and answer.json()["message"], answer.text


def test_an_error_of_a_query_ends_its_rows(log, server, sql):
    """It is the last event."""
    log.create_topic("numbers", "n int", partitions=1)
    with streaming(server, "/api/v1/sql/rows", text="SELECT 10 DIV n AS x FROM numbers EMIT CHANGES") as events:
        assert next(events)[0] == "columns"
        sql("INSERT INTO numbers VALUES (0)")
        kind, said = next(events)
        assert kind == "problem" and said["message"]


def test_sources_and_queries(server, sql):
    """As SHOW gives them."""
    sql(CLICKS + TOTALS)
    sql("CREATE STREAM `select` (n INT) WITH (PARTITIONS=1)")
    for dialect, written in (("spark", ["clicks", "`select`", "totals"]), ("ksql", ["`clicks`", "`select`", "`totals`"])):
        sources = server.get("/api/v1/sql/sources", params={"dialect": dialect}).json()
        assert [one["name"] for one in sources] == ["clicks", "select", "totals"]
        assert [one["written"] for one in sources] == written
    assert server.get("/api/v1/sql/sources", params={"dialect": "other"}).status_code == 400
    (query,) = server.get("/api/v1/sql/queries").json()
    assert (query["query"], query["state"], query["fills"]) == ("CTAS_TOTALS_1", "WAITING", "totals")
    sql("PAUSE `CTAS_TOTALS_1`")
    assert server.get("/api/v1/sql/queries").json()[0]["state"] == "PAUSED"
    assert json.loads(server.get("/api/v1/sql/queries").text)


def test_a_query_that_takes_too_long_ends(log):
    """Who asked has 504, and the query makes room for other questions; one that waited behind it, and has its 504 too, is not begun."""
    log.create_topic("big", "id bigint, t string", partitions=1)
    with log.producer() as producer:
        producer.send_batch("big", [{"id": number, "t": f"text {number}"} for number in range(4_000)])
    heavy = (
        "SELECT count(*) AS n FROM big a JOIN big b ON length('x') = length('y') WHERE sha2(concat(a.t, b.t), 512) LIKE '%abcd'"
    )
    limits = ServeLimits(looks=1, waiting_looks=4, answer_seconds=1.0, change_seconds=1.0)
    with serving(log, limits=limits) as api, ThreadPoolExecutor(3) as readers:
        asked = [
            readers.submit(api.post, "/api/v1/sql/statements", json={"text": heavy, "only_asks": True}),
            readers.submit(api.post, "/query-stream", json={"sql": heavy}),
            readers.submit(api.post, "/query", json={"ksql": heavy}),
        ]
        assert {one.result().status_code for one in asked} <= {503, 504}
        wait_until(lambda: api.get("/api/v1/topics").status_code == 200)
