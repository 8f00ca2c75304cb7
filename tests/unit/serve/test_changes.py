"""Changes by HTTP: records written, dead letters sent again, groups reset; what is refused, and what happens when it is asked twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from random import Random

import httpx
import pyarrow as pa
import pytest

from streamkit.serve.cursors import topic_cursor
from streamkit.serve.forms import ARROW, JSON, LINES
from streamkit.serve.limits import ServeLimits
from streamkit.serve.routes import RESOURCES
from tests.unit.serve.conftest import ORDERS, letters_of, serving

RECORDS = "/api/v1/topics/orders/records"


@pytest.fixture
def changing(log):
    with serving(log, allows_changes=True) as client:
        yield client


def posted(client, path, content, form=JSON, **parameters):
    body = content if isinstance(content, bytes) else json.dumps(content)
    return client.post(path, content=body, headers={"Content-Type": form}, params=parameters)


def orders_of(log, first):
    return sorted((row for row in log.read("orders").to_pylist() if row["id"] >= first), key=lambda row: row["id"])


def test_records_of_each_form_are_written(log, changing):
    """An object, a list over several lines, lines and an Arrow stream; the answer has their places, and a wait for these is over then."""
    rows = [{"id": 1_000 + number, "customer": f"n{number}", "amount": number / 8} for number in range(8)]
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, pa.Table.from_pylist(rows[5:]).schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows[5:]))
    bodies = [
        (rows[0], JSON),
        (json.dumps(rows[1:3], indent=2).encode(), JSON),
        (b"".join(json.dumps(row).encode() + b"\n" for row in rows[3:5]), LINES),
        (bytes(stream.getvalue()), ARROW),
    ]
    written = [posted(changing, RECORDS, *body) for body in bodies]
    assert [answer.status_code for answer in written] == [200] * 4, [answer.text for answer in written]
    assert [answer.json()["records"] for answer in written] == [1, 2, 2, 3]
    assert [{name: row[name] for name in rows[0]} for row in orders_of(log, 1_000)] == rows
    last = written[-1].json()
    assert last["position"] == {"orders": {partition: end for partition, (_, end) in last["offsets"].items()}}
    ends = log.end_offsets("orders")
    assert all(end == ends[int(partition)] for partition, end in last["position"]["orders"].items())


def test_values_are_the_topics_own(log, changing):
    """Decimals of JSON keep their digits, a column that is left out is null, a deletion needs its key alone, times may be given."""
    log.create_topic("prices", "name string, price decimal(38, 10), at timestamp", key="name", partitions=1)
    rows = b"""[{"name": "a", "price": 1234567890123456789012345678.0123456789, "_timestamp": "2026-01-31T12:00:00Z"},
                {"name": "b", "_deleted": true}]"""
    assert posted(changing, "/api/v1/topics/prices/records", rows).json()["records"] == 2
    first, second = log.read("prices").to_pylist()
    assert (first["price"], first["at"]) == (Decimal("1234567890123456789012345678.0123456789"), None)
    assert (first["_timestamp"].isoformat()[:19], second["_deleted"]) == ("2026-01-31T12:00:00", True)


@pytest.mark.parametrize(
    ("body", "form", "status", "words"),
    [
        (b'[{"id": 1, "customer": "x", "amount": 1}, {"id": "one"}]', JSON, 422, "the body, "),
        (b'{"id": 1, "colour": "red"}', JSON, 422, "the unknown column 'colour'"),
        (b'{"id": 1', JSON, 400, "the body is no JSON"),
        (b'[{"id": 1}, {"id": 2}', JSON, 400, "the body is no JSON"),
        (b'[{"id": 1}, {"id": 2},', JSON, 400, "the body is no JSON"),
        (b'[{"id": 1}] x', JSON, 400, "the body is no JSON"),
        (b'{"id": 1}#', JSON, 400, "the body is no JSON"),
        (b'{"id": 1} {"id": 2}', JSON, 400, "the body is no JSON"),
        (b'[{"id": 1}]\0', JSON, 400, "the body is no JSON"),
        (b"[" * 100_000, JSON, 400, "the body nests too deep"),
        (b"", JSON, 400, "the body is no JSON"),
        (b'[{"id": 1}, 5]', JSON, 422, "record 1: found 5"),
        (b"7", JSON, 422, "record 0: found 7"),
        (b"no stream", ARROW, 422, "no Arrow IPC stream"),
        (b'{"id": 1}', "text/plain", 415, "expected application/json or"),
        (b'{"id": 1}', "", 415, "no Content-Type"),
    ],
)
def test_all_or_nothing(log, changing, body, form, status, words):
    """Where one record does not fit, none is written, and the answer says which and why."""
    answer = posted(changing, RECORDS, body, form)
    assert (answer.status_code, words in answer.json()["message"]) == (status, True), answer.text
    assert len(log.read("orders")) == ORDERS


def arrow_stream(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_an_arrow_stream_is_whole(log, changing):
    """Columns that can be null may be left out; a stream without its end, with another one behind it, or with damage writes nothing."""
    whole = arrow_stream(pa.table({"id": pa.array([1, 2], pa.int64()), "customer": ["a", "b"]}))
    for body in (whole + whole, whole + b"xxxx", whole[:-8], whole[:-20], b"", whole[:40] + b"\xff" * 16 + whole[56:]):
        answer = posted(changing, RECORDS, body, ARROW)
        assert (answer.status_code, "Arrow IPC stream" in answer.json()["message"]) == (422, True), answer.text
    random = Random(5)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        assert posted(changing, RECORDS, bytes(damaged), ARROW).status_code in (200, 422)
    before = len(log.read("orders"))
    assert posted(changing, RECORDS, whole, ARROW).json()["records"] == 2
    assert len(log.read("orders")) == before + 2


def test_lines_need_not_be_alike(log, changing):
    """Some have a time or headers, others have none, in whatever order and however the body is cut into blocks."""
    lines = [{"id": 10_000 + n, "customer": "x", "amount": 1.0} for n in range(40_000)]
    for at in (0, 5, 39_999):
        lines[at] |= {"_timestamp": 5, "_headers": [["a", "AP8="]]}
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert posted(changing, RECORDS, body, LINES).json()["records"] == 40_000
    times = {row["id"]: row["_timestamp"].year for row in log.read("orders").to_pylist() if row["id"] >= 10_000}
    assert {number for number, year in times.items() if year == 1970} == {10_000, 10_005, 49_999}


def test_a_long_list_is_written_soon(log, changing):
    """The time grows with the records, and not with their square: five megabytes in a list take a few seconds at most."""
    rows = [{"id": n, "customer": "c" * 300, "amount": 0.5} for n in range(15_000)]
    begun = time.monotonic()
    assert posted(changing, RECORDS, json.dumps(rows, indent=1).encode()).json()["records"] == 15_000
    assert time.monotonic() - begun < 15


def test_writing_leaves_no_producers(log, changing):
    """However many requests write, the catalog knows one producer more."""

    def producers():
        return log.catalog.read(lambda transaction: transaction.execute("SELECT count(*) FROM producer")[0][0])

    before = producers()
    for number in range(20):
        assert posted(changing, RECORDS, {"id": number, "customer": "n"}).status_code == 200
    assert producers() <= before + 1


def test_a_request_that_is_sent_again_writes_once(log, changing):
    """With a producer and a sequence number the second answer has the places of the first; half of the pair is refused."""
    row = {"id": 2_000, "customer": "n", "amount": 1.0}
    first, second, third = (posted(changing, RECORDS, row, producer="shop", sequence=number).json() for number in (1, 1, 2))
    assert first == second != third and first["records"] == 1
    assert len(orders_of(log, 2_000)) == 2
    assert posted(changing, RECORDS, row, producer="shop").status_code == 400


def test_nothing_changes_unless_it_is_allowed(api, log):
    """Each path that changes something says how it is allowed; a body that nobody reads closes its connection."""
    asking = {one.path for one in RESOURCES if one.method == "POST" and not one.is_change}
    paths = {path for path, item in api.get("/openapi.json").json()["paths"].items() if "post" in item} - asking
    assert len(paths) >= 3
    for path in paths:
        answer = posted(api, path.format(topic="orders", group="readers", app="totals", cluster="any"), {})
        assert (answer.status_code, answer.json()["error"], "--allow-changes" in answer.json()["hint"]) == (403, "ReadOnly", True)
    assert api.get("/api/v1/server").json()["allows_changes"] is False
    assert len(log.read("orders")) == ORDERS


def test_a_page_of_elsewhere_changes_nothing(log, changing):
    """Its Origin is refused, and a form, which needs no permission to be sent, is in none of the forms that are read."""
    row = json.dumps({"id": 3_000, "customer": "n", "amount": 1.0})
    for headers in (
        {"Origin": "http://evil.example", "Content-Type": JSON},
        {"Host": "evil.example", "Content-Type": JSON},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data"},
        {"Content-Type": "text/plain"},
    ):
        assert changing.post(RECORDS, content=row, headers=headers).status_code in (403, 415)
    assert len(log.read("orders")) == ORDERS


def test_a_body_is_bounded(log):
    """One that is longer than may be is refused before it is read."""
    with serving(log, allows_changes=True, limits=ServeLimits(body_bytes=100)) as client:
        answer = posted(client, RECORDS, b" " * 101)
        assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")
        assert posted(client, RECORDS, {"id": 1, "customer": "n", "amount": 1.0}).status_code == 200


def test_a_group_reads_on_from_elsewhere(log, changing, described):
    """As `streamkit groups reset`: a dry run commits nothing; a group that has a member is left alone: 409."""
    path = "/api/v1/groups/readers/offsets"
    fields = {"to": "latest", "topics": ["orders"], "dry_run": True}
    preview = posted(changing, path, fields).json()
    assert "readers" not in log.groups.names()
    done = posted(changing, path, {**fields, "dry_run": False}).json()
    assert done["partitions"] == preview["partitions"]
    assert {row["partition"]: row["after"] for row in done["partitions"]} == log.end_offsets("orders")
    back = posted(changing, path, {"to": 3}).json()
    assert [row["after"] for row in back["partitions"]] == [3, 3]
    assert back == described("groups", "reset", "readers", "--to", "3") | {"partitions": back["partitions"]}
    refused: tuple[object, ...] = (
        {},
        {"to": "noon"},
        {"to": "latest", "topic": "orders"},
        {"to": "latest", "dry_run": "yes"},
        {"to": "latest", "dry_run": None},
        {"to": "latest", "topics": []},
        {"to": "latest", "topics": "orders"},
        [],
    )
    for wrong in refused:
        assert posted(changing, path, wrong).status_code == 400, wrong
    with log.consumer("orders", group="readers") as consumer:
        consumer.poll(0)
        answer = posted(changing, path, {"to": "earliest"})
        assert (answer.status_code, "member" in answer.json()["message"]) == (409, True)
        assert posted(changing, path, {"to": "earliest", "dry_run": True}).status_code == 409


def test_dead_letters_are_sent_again_once(log, changing):
    """By a condition, then the rest, by two who ask at the same time, and again: each record is there twice, as it came and again."""
    letters_of(log, 200)
    path = "/api/v1/dead-letters/failed/replay"
    dry = posted(changing, path, {"dry_run": True}).json()
    assert (dry["sent"], len(log.read("texts"))) == ({"texts": 100}, 200)
    some = posted(changing, path, {"where": "offset < 80"}).json()["sent"]["texts"]
    assert 0 < some < 100
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda _: posted(changing, path, {}), range(2)))
    assert [answer.status_code for answer in both] == [200, 200]
    assert sorted(answer.json()["sent"].get("texts", 0) for answer in both) == [0, 100 - some]
    ids = sorted(row["id"] for row in log.read("texts").to_pylist())
    assert ids == sorted([*range(200), *range(1, 200, 2)])
    assert posted(changing, "/api/v1/dead-letters/orders/replay", {}).status_code == 422
    assert posted(changing, "/api/v1/dead-letters/nothing/replay", {}).status_code == 404


def test_what_comes_after_a_dry_run_is_not_sent_by_it(log, changing):
    """With the cursor of a dry run no more is sent than it has found; a cursor of another topic is refused."""
    letters_of(log, 20)
    path = "/api/v1/dead-letters/failed/replay"
    dry = posted(changing, path, {"dry_run": True}).json()
    letters_of(log, 20)  # ten more
    assert dry["sent"] == {"texts": 10} and posted(changing, path, {"dry_run": True}).json()["sent"] == {"texts": 20}
    done = posted(changing, path, {"cursor": dry["cursor"]}).json()
    assert done["sent"] == {"texts": 10} and done["cursor"] == dry["cursor"]
    assert posted(changing, path, {"dry_run": True}).json()["sent"] == {"texts": 10}
    log.create_topic("others", "n bigint")
    others = topic_cursor(log, log.topic("others"), ends={0: 9})
    for cursor, status in ((others, 410), ("none", 400)):
        refused = posted(changing, path, {"cursor": cursor})
        assert refused.status_code == status and '{"dry_run": true} again' in refused.text.replace("\\", "")


def test_a_server_that_is_killed_while_it_sends_again(log):
    """Killed at any time, and asked again by another server: each record was sent once."""
    letters_of(log, 2_000)
    path = "/api/v1/dead-letters/failed/replay"
    for delay_s in (0.05, 0.2):
        line = [sys.executable, "-m", "streamkit.cli", "serve", "--port", "0", "--allow-changes", "--log", log.location]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            with ThreadPoolExecutor(1) as threads, httpx.Client(base_url=address, timeout=30) as client:
                asked = threads.submit(posted, client, path, {})
                with suppress(TimeoutError):
                    asked.exception(delay_s)
                server.send_signal(signal.SIGKILL)
                server.wait()
    with serving(log, allows_changes=True) as client:
        assert posted(client, path, {}).status_code == 200
    ids = sorted(row["id"] for row in log.read("texts").to_pylist())
    assert ids == sorted([*range(2_000), *range(1, 2_000, 2)])
