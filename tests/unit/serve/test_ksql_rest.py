"""ksqlDB's REST API: requests and answers as its documents show them."""

from __future__ import annotations

import json
import threading
from decimal import Decimal

import httpx
import pytest

import streamkit as sk
from streamkit.serve.forms import FORM
from streamkit.serve.ksql_rest import DELIMITED, V1, V2
from streamkit.serve.limits import ServeLimits
from tests.kit.waiting import wait_until
from tests.unit.serve.conftest import serving

CLICKS = "CREATE STREAM clicks (who STRING KEY, page STRING, n INT) WITH (PARTITIONS = 1);"
TOTALS = "CREATE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who;"
EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}


@pytest.fixture
def log():
    with sk.open_log(":memory:") as opened:
        yield opened


@pytest.fixture
def server(log):
    with serving(log, allows_changes=True) as client:
        yield client


@pytest.fixture
def ksql(server):
    """What /ksql answers to statements, which it executes."""

    def asked(text, status=200, **fields):
        answer = server.post("/ksql", json={"ksql": text, "streamsProperties": {}, **fields})
        assert answer.status_code == status, answer.text
        return answer.json()

    return asked


def inserted(client, target, *rows):
    content = "\n".join(json.dumps(one) for one in ({"target": target}, *rows))
    return client.post("/inserts-stream", content=content, headers={"Content-Type": V1})


def lines_of(client, path, body, accept="*/*", stop=None):
    """The lines of a stream as they come; `stop` is called with each, and reading ends when it says so."""
    found = []
    with client.stream("POST", path, json=body, headers={"Accept": accept}) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            found.append(line)
            if stop is not None and stop(line):
                break
    return found


def test_statements_are_executed(log, ksql):
    """Each that changes something has an object with its commandId and status; they are one transaction."""
    first, second = ksql(CLICKS + TOTALS)
    assert (first["@type"], first["commandId"], first["commandStatus"]["status"]) == (
        "currentStatus",
        "stream/`clicks`/create",
        "SUCCESS",
    )
    assert first["statementText"] == CLICKS and first["warnings"] == []
    assert second["warnings"] == [
        {
            "message": 'CTAS_TOTALS_1 waits for a session that runs it; open one as sk.SqlSession(log, engine="local"), '
            "as no server has a log in memory"
        }
    ]
    assert second["commandStatus"]["queryId"] == "CTAS_TOTALS_1" and second["commandId"] == "table/`totals`/create"
    assert first["commandSequenceNumber"] == second["commandSequenceNumber"] == 1
    assert ksql("INSERT INTO clicks VALUES ('ann', 'a', 1); SET 'auto.offset.reset' = 'earliest';") == []
    assert len(log.read("clicks")) == 1


def test_what_there_is_is_shown(ksql):
    """Streams, tables, queries, topics, properties, functions, types and variables have the objects that ksqlDB gives."""
    ksql(CLICKS + TOTALS + "CREATE TYPE pair AS STRUCT<a INT, b ARRAY<STRING>>;")
    found = ksql(
        "SHOW STREAMS; SHOW TABLES; SHOW QUERIES; SHOW TOPICS; SHOW PROPERTIES; SHOW FUNCTIONS; SHOW TYPES; SHOW VARIABLES; SHOW CONNECTORS;"
        "SHOW CONNECTOR PLUGINS;",
        sessionVariables={"place": "Rome"},
    )
    kinds = [one["@type"] for one in found]
    assert kinds == ["streams", "tables", "queries", "kafka_topics", "properties", "function_names", "type_list", "variables",
                     "connector_list", "connector_plugins_list"]  # fmt: skip
    streams, tables, queries, topics, properties, functions, types, variables, *_ = found
    assert streams["streams"] == [
        {"type": "STREAM", "name": "clicks", "topic": "clicks", "keyFormat": "NATIVE", "valueFormat": "NATIVE", "format": "NATIVE",
         "isWindowed": False}
    ]  # fmt: skip
    assert [(one["name"], one["type"]) for one in tables["tables"]] == [("totals", "TABLE")]
    (query,) = queries["queries"]
    assert (query["id"], query["sinks"], query["sinkKafkaTopics"], query["state"]) == (
        "CTAS_TOTALS_1",
        ["totals"],
        ["totals"],
        "WAITING",
    )
    assert {"name": "clicks", "replicaInfo": [1]} in topics["topics"]
    assert "streamkit.sql.dialect" in [one["name"] for one in properties["properties"]]
    assert {"name": "COUNT", "type": "AGGREGATE"} in functions["functions"]
    fields = types["types"]["pair"]["fields"]
    assert [(one["name"], one["schema"]["type"]) for one in fields] == [("a", "INTEGER"), ("b", "ARRAY")]
    assert fields[1]["schema"]["memberSchema"]["type"] == "STRING"
    assert variables["variables"] == [{"name": "place", "value": "Rome"}]


def test_a_source_is_described(ksql):
    """Its columns with their types as objects, its queries, and with EXTENDED its partitions; a query is explained."""
    ksql(CLICKS.replace("n INT", "n DECIMAL(4, 2), m MAP<STRING, BIGINT>") + TOTALS)
    described, extended, explained = ksql("DESCRIBE clicks; DESCRIBE totals EXTENDED; EXPLAIN CTAS_TOTALS_1;")
    source = described["sourceDescription"]
    assert [(one["name"], one["schema"]["type"], one.get("type")) for one in source["fields"]] == [
        ("who", "STRING", "KEY"), ("page", "STRING", None), ("n", "DECIMAL", None), ("m", "MAP", None)
    ]  # fmt: skip
    assert source["fields"][2]["schema"]["parameters"] == {"precision": 4, "scale": 2}
    assert source["fields"][3]["schema"]["memberSchema"]["type"] == "BIGINT"
    assert [one["id"] for one in source["readQueries"]] == ["CTAS_TOTALS_1"] and source["writeQueries"] == []
    assert extended["sourceDescription"]["extended"] and extended["sourceDescription"]["partitions"] == 1
    assert explained["queryDescription"]["sources"] == ["clicks"] and "group by" in explained["queryDescription"]["topology"]


@pytest.mark.parametrize(
    ("window", "kind"),
    [
        ("TUMBLING (SIZE 1 MINUTE)", "TUMBLING"),
        ("HOPPING (SIZE 1 MINUTE, ADVANCE BY 1 SECOND)", "HOPPING"),
        ("SESSION (5 SECONDS)", "SESSION"),
    ],
)
def test_windows_are_no_columns_in_the_dialect_of_ksqldb(ksql, window, kind):
    """A table with windows has a type of windows, and no columns for their bounds, wherever it is described."""
    dialect = "SET 'streamkit.sql.dialect' = 'ksql';"
    ksql(
        f"{dialect} CREATE STREAM s (k STRING KEY, v INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
        f"CREATE TABLE w AS SELECT k, COUNT(*) AS c FROM s WINDOW {window} GROUP BY k;"
    )
    described, queries, explained = ksql(f"{dialect} DESCRIBE w; SHOW QUERIES EXTENDED; EXPLAIN CTAS_W_1;")
    assert described["sourceDescription"]["key"] == "K"
    for told in (described["sourceDescription"], *queries["queryDescriptions"], explained["queryDescription"]):
        assert ([one["name"] for one in told["fields"]], told["windowType"]) == (["K", "C"], kind)
    (declared,) = ksql(
        f"{dialect} CREATE STREAM d (k STRING KEY, c BIGINT) WITH (VALUE_FORMAT = 'JSON', KAFKA_TOPIC = 'W', WINDOW_TYPE = 'SESSION');"
        "DESCRIBE d;"
    )[1:]
    assert declared["sourceDescription"]["windowType"] == "SESSION"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("SELEC * FROM clicks;", 40_001, "did you mean SELECT?"),
        ("CREATE TABLE t AS SELECT x FROM nothing GROUP BY x;", 40_001, "nothing"),
        ("SELECT * FROM clicks;", 40_002, "expected other statements"),
        ("PRINT clicks;", 40_002, "expected other statements"),
        ("SET 'bogus' = '1';", 40_001, "bogus"),
    ],
)
def test_an_error_has_its_number(ksql, text, code, words):
    """Of a statement it has the kind, number and text that ksqlDB's clients read, beside our own words."""
    ksql(CLICKS)
    said = ksql(text, status=400)
    assert (said["@type"], said["error_code"]) == ("statement_error", code), said
    assert words in said["message"] and said["statementText"] and said["entities"] == [] and said["hint"]


def test_faults_have_places(ksql):
    """All faults of a script are told, with the characters that are wrong."""
    text = "SHOW STREAM;\nSELEC 1;"
    faults = ksql(text, status=400)["faults"]
    assert [(one["line"], text[one["start"] : one["end"]]) for one in faults] == [(1, "STREAM"), (2, "SELEC")]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"ksql": 5}, "expected {"), ({}, "expected {"), ([], "expected a JSON object"), ({"ksql": "", "colour": 1}, "colour"),
        ({"ksql": "SHOW STREAMS;", "streamsProperties": {"bogus": "1"}}, "bogus"),
        ({"ksql": "SHOW STREAMS;", "streamsProperties": []}, "streamsProperties"), ({"ksql": "SHOW STREAMS;", "requestProperties": 5}, "requestProperties"),
        ({"ksql": "SHOW STREAMS;", "commandSequenceNumber": "x"}, "commandSequenceNumber"),
        ({"ksql": "SHOW STREAMS;", "commandSequenceNumber": -1, "requestProperties": {"a": 1}, "streamsProperties": None}, None),
        ({"ksql": "SHOW STREAMS;", "streamsProperties": "x"}, "streamsProperties"),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_meant(server, body, words):
    """It is refused in words, as a generic error."""
    answer = server.post("/ksql", json=body)
    if words is None:
        assert answer.status_code == 200
        return
    said = answer.json()
    assert (answer.status_code, said["@type"], said["error_code"]) == (400, "generic_error", 40_000) and words in said[
        "message"
    ], said


def test_settings_of_ksqldb_that_mean_nothing_here(ksql):
    """What only tunes ksqlDB or Kafka Streams is accepted and left out."""
    tuning = {"ksql.streams.commit.interval.ms": 100, "ksql.query.pull.table.scan.enabled": True, **EARLIEST}
    (found,) = ksql("SHOW PROPERTIES;", streamsProperties=tuning)
    assert {"name": "auto.offset.reset", "scope": "KSQL", "value": "earliest"} in found["properties"]


def test_a_query_is_run_once(server, ksql):
    """Its columns and rows, in each of the forms; /query has objects, /query-stream arrays."""
    ksql(CLICKS + "INSERT INTO clicks VALUES ('ann', 'a', 1), ('bob', NULL, 2);")
    body = {"sql": "SELECT who, page, n FROM clicks"}
    answer = server.post("/query-stream", json=body)
    assert answer.headers["Content-Type"] == DELIMITED
    head, *rows = map(json.loads, answer.text.splitlines())
    assert head == {"columnNames": ["who", "page", "n"], "columnTypes": ["STRING", "STRING", "INTEGER"]}
    assert rows == [["ann", "a", 1], ["bob", None, 2]]
    whole = server.post("/query-stream", json=body, headers={"Accept": "application/json"})
    assert whole.json() == [head, *rows] and whole.headers["Content-Type"] == "application/json"
    answer = server.post("/query", json={"ksql": body["sql"] + ";"})
    assert answer.headers["Content-Type"] == V1
    header, *found, last = answer.json()
    assert header["header"]["schema"] == "`who` STRING, `page` STRING, `n` INTEGER"
    assert [one["row"]["columns"] for one in found] == rows and last == {"finalMessage": "Query Completed"}
    curl = server.post("/query", content=json.dumps(body), headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert curl.json() == answer.json()


def test_a_query_of_no_source(server):
    """A SELECT without FROM has one row; values are as --json prints them."""
    answer = server.post("/query-stream", json={"sql": "SELECT 1 AS a, ARRAY('x', NULL) AS b, DATE '2026-01-31' AS c"})
    head, row = map(json.loads, answer.text.splitlines())
    assert head["columnTypes"] == ["INTEGER", "ARRAY<STRING>", "DATE"]
    assert row == [1, ["x", None], "2026-01-31"]


def test_decimals_are_numbers(server):
    """They are so with all their digits, and within arrays, maps and structs."""
    digits = "12345678901234567890.123456789"
    text = f"SELECT {digits} AS a, ARRAY(1.50, NULL) AS b, MAP('x \"y', 2.50) AS c, STRUCT(0.01 AS d, 'e' AS f) AS g, CAST(NULL AS DECIMAL(3, 1)) AS h"
    for path, shown in (("/query-stream", "{row}"), ("/query", '"columns": {row}')):
        answer = server.post(path, json={"sql": text})
        row = f'[{digits}, [1.50, null], {{"x \\"y": 2.50}}, {{"d": 0.01, "f": "e"}}, null]'
        assert shown.format(row=row) in answer.text, answer.text
        json.loads(answer.text.splitlines()[1].rstrip(","))


def test_a_statement_of_another_kind_is_no_query(server):
    """It is shown, as several are counted."""
    for text, found in (("SHOW STREAMS;", "found SHOW STREAMS"), ("SELECT 1; SELECT 2;", "found 2 statements")):
        assert found in server.post("/query", json={"ksql": text}).json()["message"]


def test_names_and_types_of_columns_can_be_read_again(server):
    """A backtick in a name is doubled, and a column of nothing but null has a type."""
    header, *_ = server.post("/query", json={"ksql": "SELECT 1 AS `a``b`, NULL AS n, STRUCT(1 AS `c``d`) AS s;"}).json()
    assert header["header"]["schema"] == "`a``b` INTEGER, `n` VOID, `s` STRUCT<`c``d` INTEGER>"


def test_a_query_goes_on(log, server, ksql):
    """Rows come as they are sent, and end at LIMIT; each query has an id of its own."""
    ksql(CLICKS)
    sent: list[int] = []

    def more(line):
        if len(sent) < 2:
            sent.append(inserted(server, "clicks", {"who": "ann", "page": "a", "n": len(sent)}).status_code)

    body = {"sql": "SELECT who, count(*) AS c FROM clicks GROUP BY who EMIT CHANGES LIMIT 2", "properties": EARLIEST}
    head, *rows = map(json.loads, lines_of(server, "/query-stream", body, stop=more))
    assert head["columnNames"] == ["who", "c"] and head["queryId"] and rows == [["ann", 1], ["ann", 2]] and sent == [200, 200]


def test_a_query_is_closed(server, ksql):
    """By its id, after which its stream ends and says so; an id that there is not is an error."""
    ksql(CLICKS)
    inserted(server, "clicks", {"who": "ann"})
    seen = []

    def close(line):
        seen.append(line)
        if len(seen) == 2:
            id = json.loads(seen[0].rstrip(",") + "]")[0]["header"]["queryId"]
            assert server.post("/close-query", json={"queryId": id}).status_code == 200

    lines = lines_of(
        server, "/query", {"ksql": "SELECT who FROM clicks EMIT CHANGES;", "streamsProperties": EARLIEST}, stop=close
    )
    assert json.loads("\n".join(lines))[1:] == [{"row": {"columns": ["ann"]}}, {"finalMessage": "Query Completed"}]
    said = server.post("/close-query", json={"queryId": "nobody"})
    assert said.status_code == 400 and said.json()["error_code"] == 40_000


def test_deletions_are_told_where_a_client_knows_them(server, ksql):
    """In the second version of /query a row says that it is a tombstone; elsewhere it is left out."""
    ksql(CLICKS)
    text = "SELECT who, max(n) AS m FROM clicks GROUP BY who HAVING max(n) < 5 EMIT CHANGES LIMIT 2;"
    inserted(server, "clicks", {"who": "ann", "n": 1})

    def more(line):
        if '"ann", 1' in line:
            inserted(server, "clicks", {"who": "ann", "n": 7})

    found = json.loads("\n".join(lines_of(server, "/query", {"ksql": text, "streamsProperties": EARLIEST}, V2, more)))
    assert found[1:3] == [{"row": {"columns": ["ann", 1]}}, {"row": {"columns": ["ann", None], "tombstone": True}}]
    assert found[3] == {"finalMessage": "Limit Reached"}


def test_a_limit_counts_the_rows_that_a_client_gets(server, ksql):
    """Where deletions are left out, LIMIT does not count them: a row that WHERE drops first is no end of the query."""
    ksql("CREATE TABLE users (id STRING PRIMARY KEY, age INT) WITH (PARTITIONS = 1);")
    ksql("INSERT INTO users VALUES ('a', 1); INSERT INTO users VALUES ('b', 3);")
    text = "SELECT id FROM users WHERE age = 3 EMIT CHANGES LIMIT 1;"
    _, *rows = map(json.loads, lines_of(server, "/query-stream", {"sql": text, "properties": EARLIEST}))
    assert rows == [["b"]]


def test_print_shows_records(server, ksql):
    """PRINT is a query that goes on."""
    ksql(CLICKS)
    inserted(server, "clicks", {"who": "ann", "n": 1})
    found = json.loads("\n".join(lines_of(server, "/query", {"ksql": "PRINT clicks FROM BEGINNING LIMIT 1;"})))
    assert "ann" in str(found[1]["row"]["columns"])


def test_who_leaves_ends_the_query(server, ksql):
    """A stream whose reader goes away leaves no query behind, so its place is free for the next."""
    ksql(CLICKS)
    body = {"sql": "SELECT * FROM clicks EMIT CHANGES"}
    ids = [json.loads(lines_of(server, "/query-stream", body, stop=lambda line: True)[0])["queryId"] for _ in range(3)]
    for id in ids:
        while server.post("/close-query", json={"queryId": id}).status_code == 200:
            pass
    assert len(set(ids)) == 3


def test_rows_are_inserted(log, server, ksql):
    """Each is acknowledged once all are durable; names of columns and of the stream have no case, and a column that is left out is null."""
    ksql(CLICKS)
    answer = inserted(server, "CLICKS", {"WHO": "ann", "Page": "a", "n": 1}, {"who": "bob", "ROWTIME": "2026-01-31T12:00:00Z"})
    assert [json.loads(line) for line in answer.text.splitlines()] == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    rows = log.read("clicks").select(["who", "page", "n", "_timestamp"]).to_pylist()
    assert [tuple(row.values())[:3] for row in rows] == [("ann", "a", 1), ("bob", None, None)]
    assert rows[1]["_timestamp"].isoformat().startswith("2026-01-31T12:00")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"target": "nothing"}', "{}"], "there is no stream or table 'nothing'"),
        (['{"to": "clicks"}'], "names no target"),
        (['{"target": "clicks"}', '{"who": "ann"}', '{"pag": "a"}'], "the body, line 3: clicks has no column 'pag'"),
        (['{"target": "clicks"}', '{"who": "ann"}', "", '{"n": "much"}'], "the body, line 4: column 'n'"),
        (['{"target": "clicks"}', '{"who": "ann"}', "[1]"], "the body, line 3"),
        (['{"target": "clicks"}', '{"who": "ann"}', '{"who": "bob", "WHO": "bob"}'], "the body, line 3: the name 'who' is twice"),
        (['{"target": "clicks"}', '{"who": NaN}'], "the body, line 2 is no JSON: found NaN"),
        (['{"target": "clicks"}', '{"who": "ann",}'], "the body, line 2 is no JSON"),
        (['{"target": "clicks", "colour": 1}', '{"who": "ann"}'], "the field 'colour' is not known"),
        (['{"target": "clicks", "properties": {"auto.offset.reset": "bad"}}', '{"who": "ann"}'], "'bad'"),
        (['{"target": NaN}'], "the body, line 1 is no JSON"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit(log, server, ksql, lines, words):
    """They are named, and nothing of the request is written."""
    ksql(CLICKS)
    answer = server.post("/inserts-stream", content="\n".join(lines), headers={"Content-Type": DELIMITED})
    assert answer.status_code in (400, 422) and words in answer.json()["message"], answer.text
    assert answer.json()["@type"] == "generic_error" and len(log.read("clicks")) == 0


def test_values_that_are_inserted_are_as_they_were_written(log, server, ksql):
    """Numbers keep their digits; blanks, nested values and texts with all that may stand in a text are as in any JSON."""
    ksql("CREATE STREAM wide (who STRING, amount DECIMAL(29, 9), parts ARRAY<STRUCT<a INT>>) WITH (PARTITIONS = 1);")
    row = r' { "WHO" : "a \" , \u00e9}", "amount":12345678901234567890.123456789 , "parts" :[ {"a" : 1}, null ] }'
    answer = server.post("/inserts-stream", content=f'{{"target": "wide"}}\r\n{row}\r\n{{ }}', headers={"Content-Type": V1})
    assert answer.text.count("ok") == 2, answer.text
    (found, empty) = log.read("wide").select(["who", "amount", "parts"]).to_pylist()
    assert found == {"who": 'a " , é}', "amount": Decimal("12345678901234567890.123456789"), "parts": [{"a": 1}, None]}
    assert set(empty.values()) == {None}


def test_a_time_of_the_day_is_a_text_or_milliseconds(log, server, ksql):
    """As INSERT … VALUES takes it; a text that is none is refused with its line."""
    ksql(
        "SET 'streamkit.sql.dialect' = 'ksql'; CREATE STREAM hours_of (who STRING, at TIME) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
    )
    rows = [
        '{"who": "a", "at": "03:04:05"}',
        '{"who": "b", "AT": 11045123}',
        '{"who": "c", "at": null}',
        '{"at": "23:59:59.999"}',
    ]
    assert server.post("/inserts-stream", content="\n".join(['{"target": "hours_of"}', *rows])).text.count("ok") == 4
    with sk.SqlSession(log, engine=None) as session:
        assert session.query("SELECT `AT` FROM `HOURS_OF`")["AT"].to_pylist() == [11_045_000, 11_045_123, None, 86_399_999]
    for wrong in ('"noon"', '"12:00:00+02:00"', '"12"', "86400000", "-1"):
        refused = server.post("/inserts-stream", content=f'{{"target": "hours_of"}}\n{{"at": {wrong}}}')
        assert refused.status_code == 400, wrong
        assert f"line 2: column 'AT': found {wrong}; expected a time" in refused.json()["message"]


def test_times_of_the_day_within_a_value_are_texts_or_milliseconds(log, server, ksql):
    """In a STRUCT, an ARRAY and a MAP, beside numbers with all of their digits."""
    ksql(
        "SET 'streamkit.sql.dialect' = 'ksql'; CREATE STREAM shifts (who STRING, at STRUCT<n DECIMAL(30, 9), l ARRAY<TIME>>, "
        "m MAP<STRING, TIME>) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
    )
    rows = [
        '{"at": {"N": 123456789012345678901.5, "L": ["03:04:05", 1, null]}, "m": {"a, \\"}": "00:01", "": null}}',
        '{"at": {"L": [ ]}, "m": {}}',
        '{"at": null, "m": [ ["a", "00:01"], ["b" , 3] ]}',
    ]
    assert server.post("/inserts-stream", content="\n".join(['{"target": "shifts"}', *rows])).text.count("ok") == 3
    with sk.SqlSession(log, engine=None) as session:
        found = session.query("SELECT `AT`, M FROM `SHIFTS`").to_pylist()
    assert found[0] == {
        "AT": {"N": Decimal("123456789012345678901.500000000"), "L": [11_045_000, 1, None]},
        "M": [('a, "}', 60_000), ("", None)],
    }
    assert found[1:] == [{"AT": {"N": None, "L": []}, "M": []}, {"AT": None, "M": [("a", 60_000), ("b", 3)]}]
    for wrong in ('"noon"', '"1\uff12:00"', "86400000", "-1"):
        for value in (f'{{"at": {{"L": ["12:00", {wrong}]}}}}', f'{{"m": {{"a": {wrong}}}}}', f'{{"m": [["a", {wrong}]]}}'):
            refused = server.post("/inserts-stream", content=f'{{"target": "shifts"}}\n{value}')
            assert refused.status_code == 400 and f"found {wrong}; expected a time" in refused.json()["message"], value
    assert server.post("/inserts-stream", content='{"target": "shifts"}\n{"at": ["12:00"]}').status_code == 422


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_rows_are_acknowledged_in_one_array(log, server, ksql, rows):
    """If a client asks for JSON: an object for each row, or none."""
    ksql(CLICKS)
    lines = ['{"target": "clicks"}', *['{"who": "ann"}'] * rows]
    answer = server.post("/inserts-stream", content="\n".join(lines), headers={"Accept": "application/json"})
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == [{"status": "ok", "seq": number} for number in range(rows)] and len(log.read("clicks")) == rows


@pytest.mark.parametrize("form", [{"Content-Type": FORM}, {}])
def test_rows_are_inserted_as_curl_sends_them(log, server, ksql, form):
    """So are statements, queries and their ends: a body whose form nobody named is read all the same."""
    ksql(CLICKS)
    for path, body in (("inserts-stream", '{"target": "clicks"}\n{"who": "ann"}'), ("ksql", '{"ksql": "SHOW STREAMS;"}')):
        assert server.post(path, content=body.encode(), headers=form).status_code == 200
    assert len(log.read("clicks")) == 1
    elsewhere = server.post(
        "/ksql", content=b'{"ksql": "DROP STREAM clicks;"}', headers={**form, "Origin": "http://elsewhere.test"}
    )
    assert elsewhere.status_code == 403 and ksql("SHOW STREAMS;")[0]["streams"]


def test_rows_of_a_stream_in_a_format(log, server, ksql):
    """They are inserted as INSERT INTO does it: with their values, as the format writes them."""
    dialect = {"streamkit.sql.dialect": "ksql"}
    ksql(
        "CREATE STREAM orders (id STRING KEY, place STRING, n INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1);",
        streamsProperties=dialect,
    )
    assert inserted(server, "ORDERS", {"ID": "a", "PLACE": "Rome", "N": 1}, {"ID": "b"}).text.count("ok") == 2
    assert [row["value"] for row in log.read("ORDERS").to_pylist()] == [b'{"PLACE":"Rome","N":1}', b'{"PLACE":null,"N":null}']


@pytest.mark.parametrize(
    "form",
    ["VALUE_FORMAT = 'JSON'", "FORMAT = 'JSON'", "VALUE_FORMAT = 'DELIMITED'", "KEY_FORMAT = 'NONE', VALUE_FORMAT = 'JSON'"],
)
def test_rows_of_a_stream_without_a_key(log, server, ksql, form):
    """They are inserted with no key, by either way, and read again."""
    dialect = {"streamkit.sql.dialect": "ksql"}
    ksql(
        f"CREATE STREAM s (a INT, b STRING) WITH ({form}, PARTITIONS = 1); INSERT INTO s (a) VALUES (1);",
        streamsProperties=dialect,
    )
    assert "ok" in inserted(server, "S", {"A": 2, "B": "x"}).text
    assert [row["key"] for row in log.read("S").to_pylist()] == [None, None]
    answer = server.post("/query-stream", json={"sql": "SELECT * FROM s;", "properties": dialect})
    assert [json.loads(line) for line in answer.text.splitlines()[1:]] == [[1, None], [2, "x"]]


def test_a_name_within_backticks_is_found_as_it_is_written(log, ksql, server):
    """Two names of one column in a row are an error, and one in another case is shown as it is."""
    ksql("CREATE STREAM s (NAME STRING) WITH (PARTITIONS = 1);")
    for row, words in (({"name": "a", "`NAME`": "b"}, "'NAME' is twice"), ({"`name`": "a"}, "did you mean NAME?")):
        answer = inserted(server, "s", row)
        assert answer.status_code in (400, 422) and words in answer.json()["message"]
    assert "ok" in inserted(server, "s", {"`NAME`": "b"}).text and log.read("s").to_pylist()[0]["NAME"] == "b"


def test_assertions_hold_or_fail(log, ksql):
    """ASSERT TOPIC and ASSERT SCHEMA only ask, so every server executes them, but waits no longer than for anything else."""
    ksql(CLICKS)
    (found,) = ksql("ASSERT TOPIC clicks WITH (PARTITIONS = 1);")
    assert (found["@type"], found["topicName"], found["exists"]) == ("assert_topic", "clicks", True)
    assert "no topic nothing" in ksql("ASSERT TOPIC nothing TIMEOUT 0 SECONDS;", status=400)["message"]
    assert "no registry" in ksql("ASSERT SCHEMA SUBJECT s TIMEOUT 0 SECONDS;", status=400)["message"]
    assert "expected at most 30" in ksql("ASSERT TOPIC nothing TIMEOUT 1 HOURS;", status=400)["message"]
    assert "belong to a test" in ksql("ASSERT VALUES clicks (who) VALUES ('a');", status=400)["message"]
    with serving(log) as reader:
        assert reader.post("/ksql", json={"ksql": "ASSERT NOT EXISTS TOPIC nothing;"}).json()[0]["exists"] is False
        said = reader.post("/api/v1/sql/statements", json={"text": "ASSERT TOPIC clicks", "only_asks": True}).json()
        assert said[0]["message"] and not said[0]["waits"]


def test_why_a_query_has_failed(log, server, ksql):
    """SHOW QUERIES, EXTENDED or not, EXPLAIN and DESCRIBE … EXTENDED say it in full."""
    ksql("CREATE STREAM numbers (n INT) WITH (PARTITIONS = 1); CREATE STREAM parts AS SELECT 10 DIV n AS part FROM numbers;")
    assert ksql("SHOW QUERIES;")[0]["queries"][0]["queryErrors"] == []
    inserted(server, "numbers", {"n": 5}, {"n": 0})
    with sk.SqlSession(log, engine="local"):
        wait_until(lambda: ksql("SHOW QUERIES;")[0]["queries"][0]["state"] == "ERROR")
    shown, extended, explained, described = ksql(
        "SHOW QUERIES; SHOW QUERIES EXTENDED; EXPLAIN CSAS_PARTS_1; DESCRIBE parts EXTENDED;"
    )
    (error,) = shown["queries"][0]["queryErrors"]
    assert error["errorMessage"].startswith("EvaluationError: topic numbers, partition 0, offset 1: ")
    assert error["errorMessage"].splitlines()[1:] == [
        "  at CSAS_PARTS_1:1:31",
        "    CREATE STREAM parts AS SELECT 10 DIV n AS part FROM numbers",
        f"    {' ' * 30}^^^^^^^^",
    ]
    (query,) = extended["queryDescriptions"]
    assert (query["id"], query["state"], query["queryErrors"], query["sinks"]) == ("CSAS_PARTS_1", "ERROR", [error], ["parts"])
    assert explained["queryDescription"]["queryErrors"] == [error] and explained["queryDescription"]["topology"]
    source = described["sourceDescription"]
    assert (
        error["errorMessage"] in source["errorStats"]
        and "records read" in source["statistics"]
        and source["writeQueries"][0]["queryErrors"]
    )


def test_settings_of_ksqldb_that_mean_something_here(ksql, log):
    """They count for the statements of the request, and one that is written nearly like one of them is an error."""
    given = {"streamkit.sql.dialect": "ksql", "ksql.persistence.default.format.value": "DELIMITED"}
    ksql("CREATE STREAM lines (a STRING) WITH (PARTITIONS = 1);", streamsProperties=given)
    (found,) = ksql("SHOW STREAMS;", streamsProperties=given)
    assert found["streams"][0]["valueFormat"] == "DELIMITED"
    assert (
        "did you mean"
        in ksql("SHOW STREAMS;", 400, streamsProperties={"ksql.persistence.default.format.valu": "JSON"})["message"]
    )


def test_which_settings_there_are(server):
    """Those of ksqlDB and ours may be set, whether they do anything here or not; others are errors with the nearest."""
    for name in (
        "auto.offset.reset",
        "ksql.streams.auto.offset.reset",
        "ksql.streams.num.stream.threads",
        "streamkit.sql.dialect",
        "commit.interval.ms",
    ):
        assert server.get(f"/is_valid_property/{name}").json() is True
    for name in ("streamkit.sql.dialec", "bogus", "streamkit.application"):
        said = server.get(f"/is_valid_property/{name}")
        assert (said.status_code, said.json()["error_code"]) == (400, 40_000) and name in said.json()["message"]


def test_everything_is_ended(log, server, ksql):
    """All queries end, and all streams and tables are forgotten; topics are deleted if a query filled them and they are named."""
    ksql(CLICKS + TOTALS + "CREATE STREAM kept AS SELECT who FROM clicks; CREATE STREAM gone AS SELECT who FROM clicks;")
    assert server.post("/ksql/terminate", json={"deleteTopicList": ["(", "x"]}).status_code == 400
    assert server.post("/ksql/terminate", json={"deleteTopicList": 5}).status_code == 400
    assert len(ksql("SHOW QUERIES;")[0]["queries"]) == 3
    with serving(log) as reader:
        assert reader.post("/ksql/terminate", json={}).status_code == 403
    answer = server.post("/ksql/terminate", json={"deleteTopicList": ["tot.*", "gone", "click.", "clicks"]})
    assert {one["commandStatus"]["status"] for one in answer.json()} == {"SUCCESS"}
    found = log.catalog.sql.objects()
    assert (found.sources, found.queries) == ((), ()) and log.topics() == ["clicks", "kept"]
    assert server.post("/ksql/terminate").status_code == 200


def test_what_the_server_is(server, ksql):
    """Its version, its health, its queries, and what became of a statement."""
    ksql(CLICKS + TOTALS)
    assert server.get("/info").json()["KsqlServerInfo"]["serverStatus"] == "RUNNING"
    assert server.get("/healthcheck").json()["isHealthy"]
    (host,) = server.get("/clusterStatus").json()["clusterStatus"].values()
    assert host["activeStandbyPerQuery"]["CTAS_TOTALS_1"]["activePartitions"] == [{"topic": "clicks", "partition": 0}]
    assert server.get("/status/stream/`clicks`/create").json()["status"] == "SUCCESS"
    for command in (
        "stream/`other`/create",
        "stream/`other`/drop",
        "table/`clicks`/create",
        "stream/`clicks`/nothing",
        "terminate/CTAS_TOTALS_1/execute",
    ):
        assert server.get(f"/status/{command}").status_code == 404
    ids = [one["commandId"] for one in ksql("TERMINATE CTAS_TOTALS_1; DROP TABLE totals;")]
    assert [server.get(f"/status/{id}").json()["status"] for id in ids] == ["SUCCESS"] * 2


def test_a_server_that_changes_nothing(log):
    """It answers queries, and shows what there is; what would change something is refused, and done by nobody."""
    log.create_topic("orders", "id bigint", partitions=1)
    with serving(log) as client:
        assert client.post("/query-stream", json={"sql": "SELECT * FROM orders"}).status_code == 200
        assert client.post("/ksql", json={"ksql": "SHOW TOPICS;"}).status_code == 200
        refused = [
            client.post("/ksql", json={"ksql": text}) for text in (CLICKS, "SHOW STREAMS; DROP STREAM orders;", "TERMINATE ALL;")
        ]
        refused.append(client.post("/ksql", json={"ksql": "SET 'schema.registry.url' = 'http://127.0.0.1:1';"}))
        refused.append(
            client.post("/query", json={"ksql": "SELECT 1", "streamsProperties": {"schema.registry.url": "http://127.0.0.1:1"}})
        )
        refused.append(inserted(client, "orders", {"id": 1}))
        for answer in refused:
            said = answer.json()
            assert (answer.status_code, said["error_code"], said["@type"]) == (403, 40_300, "generic_error"), said
    assert len(log.read("orders")) == 0 and not log.catalog.sql.objects().sources


@pytest.mark.parametrize(
    "text", ["RUN SCRIPT '/etc/hostname';", "CREATE SOURCE CONNECTOR c WITH ('connector.class' = 'FileSource');"]
)
def test_what_a_server_does_not_execute(ksql, text):
    """No statement lets who asks read its files or start programs, even where changes are allowed."""
    assert "reads its files or starts programs" in ksql(text, status=403)["message"]


def test_where_the_request_comes_from(log):
    """A page of elsewhere gets nothing, as from any other path; nor does who has not the token."""
    with serving(log) as client:
        assert client.post("/query", json={"ksql": "SELECT 1"}, headers={"Origin": "http://elsewhere.test"}).status_code == 403
        assert client.post("/ksql", content="{}", headers={"Content-Type": "text/plain"}).status_code == 415


def test_limits_are_said(log):
    """Rows of an answer and open streams are as many as the server allows."""
    log.create_topic("orders", "id bigint", partitions=1)
    with log.producer() as producer:
        producer.send_batch("orders", [{"id": number} for number in range(4)])
    with serving(log, limits=ServeLimits(rows=3, streams=1)) as client:
        answer = client.post("/query", json={"ksql": "SELECT * FROM orders"})
        assert (answer.status_code, answer.json()["error_code"]) == (413, 41_300) and "add LIMIT" in answer.json()["hint"]
        body = {"sql": "SELECT * FROM orders EMIT CHANGES"}
        with client.stream("POST", "/query-stream", json=body) as first:
            lines = first.iter_lines()  # which is kept, since without it the reader has gone
            next(lines)
            second = client.post("/query-stream", json=body)
            assert (second.status_code, second.json()["error_code"]) == (429, 42_900)


def test_the_end_of_the_server_ends_its_queries(log):
    """Who reads a stream is told why it ends, and that not all has come; the server does not wait for it."""
    log.create_topic("orders", "id bigint", partitions=1)
    lines, begun = [], threading.Event()
    with serving(log) as client:

        def read():
            url = f"{client.base_url}/query"
            with httpx.stream("POST", url, json={"ksql": "SELECT * FROM orders EMIT CHANGES"}, timeout=60) as answer:
                for line in answer.iter_lines():
                    lines.append(line)
                    begun.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert begun.wait(60)
    reader.join(60)
    assert not reader.is_alive()
    last = json.loads("\n".join(lines))[-1]
    assert last["errorMessage"]["error_code"] == 50_300 and "the server ends" in last["errorMessage"]["message"]


def test_json_that_python_does_not_read(server):
    """What is too deep or too long is refused in words about the body, and not about the reader."""
    for text, words in (("[" * 100_000, "nests too deep"), ("9" * 5_000, "too many digits")):
        for path in ("/ksql", "/api/v1/sql/statements", "/close-query"):
            said = server.post(path, content=f'{{"ksql": {text}}}'.encode(), headers={"Content-Type": "application/json"})
            assert said.status_code == 400 and words in said.json()["message"], said.text


def test_what_is_described_is_the_one_that_is_named(ksql):
    """Of two streams whose names differ in case only it is the one that the statement writes."""
    ksql(
        "SET 'streamkit.sql.dialect' = 'ksql'; CREATE STREAM s (k STRING KEY, v INT) WITH (VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
        "CREATE STREAM `s` (k STRING KEY, w INT) WITH (VALUE_FORMAT = 'JSON', KAFKA_TOPIC = 'other', PARTITIONS = 1);"
    )
    large, small = ksql("SET 'streamkit.sql.dialect' = 'ksql'; DESCRIBE s; DESCRIBE `s` EXTENDED;")
    for entity, topic, column in ((large, "S", "V"), (small, "other", "W")):
        told = entity["sourceDescription"]
        assert (told["topic"], [one["name"] for one in told["fields"]]) == (topic, ["K", column])
