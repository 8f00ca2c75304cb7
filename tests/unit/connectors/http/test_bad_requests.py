"""Requests that do not fit: each is refused with its reason, or lands; those beside it and behind it are taken."""

from __future__ import annotations

import json
import random
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

import streamkit as sk
from tests.kit.sampling import TAKES_ALL
from tests.unit.connectors.http.test_http import receiving

COLUMNS = {
    "id": "bigint",
    "v": "string",
    "n": "smallint",
    "f": "float",
    "price": "decimal(6,2)",
    "at": "timestamp",
    "day": "date",
    "ok": "boolean",
    "raw": "binary",
    "tags": "array<string>",
    "sizes": "map<string,int>",
    "place": "struct<x: double, y: array<int>>",
}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
GOOD = {
    "v": "7", "n": 7, "f": 1.5, "price": 12.34, "at": "2026-01-01T00:00:00Z", "day": "2026-01-01", "ok": True, "raw": "AAE=",
    "tags": ["a", None], "sizes": {"a": 1}, "place": {"x": 1.0, "y": [1]},
}  # fmt: skip
VALUES: tuple[object, ...] = (
    None, True, 0, -1, 1 << 15, 1 << 31, 1 << 63, 1 << 64, 10**40, 1.5, 1e300, 1e10, -0.0, "", "x", "é\0", "\ud800", "9999-12-31T00:00:00Z",
    "2026-13-01", "2099-01-01T00:00:00Z", "1815-01-01T00:00:00Z", "x" * 3_000, [], [[]], ["x"], [1], [None], [["a", "MQ=="]], [["a"]],
    [["a", "not base64"]], [["a", None]], {}, {"x": 1}, {"x": "y"}, {"x": None, "y": [None]}, {"a": 1 << 40}, {"a": None}, {"": ""},
    "12.345", "1e5", "NaN", "0x1", "AAE", [1, "x"], [{"x": 1}], {"x": {"x": {}}},
)  # fmt: skip
NAMES = (*COLUMNS, "_timestamp", "_deleted", "_headers", "_offset", "_partition", "_topic", "_row", "other", "")
RAW = (
    b"", b"{", b"[]", b"[{}]", b"{}", b"null", b"1", b'"x"', b"[1]", b"[null]", b"\xff", b'{"id":1,"v":"\xfc"}', b'{"id":1,"\xfc":1}', b"\0",
    b'{"id":1,"id":2}', b'{"id":1,"v":NaN}', b'{"id":1,"n":1e400}', b'{"id":01}', b'{"id":1}{"id":2}', b'{"id":1},{"id":2}', b'{"id":1}\n\n\n',
    b'{"id":1,"v":' + b"[" * 20_000 + b"]" * 20_000 + b"}", b"[" * 20_000, b'{"a":' * 20_000, b'{"id":' + b"9" * 5_000 + b"}",
    b'{"id":1,\n"n":"x"}', b'\xef\xbb\xbf{"id":1}', b'{"id":"1"}', b'[{"id":1},{"id":null}]', b'{"id":1}\n{"id":2,"v":3}\nx',
)  # fmt: skip
COMPACTED = {
    "topic.config.cleanup.policy": "compact",
    "topic.config.max.message.bytes": "2000",
    "topic.config.message.timestamp.before.max.ms": str(86_400_000 * 365 * 200),
    "key": "id",
}


def some_body(choose, number, good):
    """A body that may be good, and a token that tells its records from those of others."""
    if choose.random() < 0.15:
        return choose.choice(RAW)
    records = [
        {**good, "id": 1_000 + number, **{name: GOOD[name] for name in choose.sample(sorted(GOOD), 4)}}
        for _ in range(choose.randint(1, 3))
    ]
    for record in choose.sample(records, choose.choice((0, 1, 1, 1))):
        for _ in range(choose.choice((1, 1, 2))):
            record[choose.choice(NAMES)] = choose.choice(VALUES)
    if choose.random() < 0.1:
        records[0].pop("id")
    shape = choose.choice(("object", "list", "lines"))
    if shape == "lines":
        return b"\n".join(json.dumps(one).encode() for one in records)
    return json.dumps(records[0] if shape == "object" else records).encode()


WAYS = {
    "columns": {"schema": SCHEMA, **COMPACTED},
    "not null": {"schema": SCHEMA + ", needed int NOT NULL", "topic.config.message.timestamp.type": "LogAppendTime"},
    "a time column": {"schema": SCHEMA, "topic.config.message.timestamp.after.max.ms": "1000"},
    "any JSON": {"topic.config.max.message.bytes": "2000"},
    "transforms": {
        "schema": SCHEMA, **COMPACTED, "transforms": "c,e", "transforms.c.type": "Cast$Value", "transforms.c.spec": "v:int32",
        "transforms.e.type": "expr", "transforms.e.select": "*, 10 div n AS part",
    },
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_random_requests(tmp_path, way):
    """Ten at once, good and bad in any way: each lands whole or is refused with its reason, the next is taken, the task goes on."""
    choose = random.Random(None if TAKES_ALL else way)
    with sk.open_log(tmp_path / "log") as log, ThreadPoolExecutor(10) as threads, receiving(log, **WAYS[way]) as post:
        if way == "a time column":
            log.create_topic("clicks", SCHEMA, timestamp="at")
        good = {"id": 1, "v": "1", "n": 5} | (
            {"needed": 1} if way == "not null" else {"at": GOOD["at"]} if way == "a time column" else {}
        )
        taken: list[int] = []
        refused = 0
        for first in range(0, 1_000 if TAKES_ALL else 20, 10):
            bodies = [some_body(choose, first + number, good) for number in range(10)]
            for body, (code, said) in zip(bodies, threads.map(post, bodies), strict=True):
                assert code in (200, 400, 413), (body, said)
                refused += code != 200
                taken += [said["records"]] if code == 200 else []
                assert code == 200 or ("record " in said["error"] or "request" in said["error"]), (body, said)
            assert post(good) == (200, {"records": 1}), bodies
        assert refused and len(taken) >= 3
        rows = log.read("clicks").num_rows
        assert rows == sum(taken) + (first // 10 + 1)


LINES = b'{"id": 1, "n": 1}\n{"id": 2, "n": "x"}\n'
REFUSED = [
    ({"v": "x"}, 400, "record 1 of the request: topic clicks: column 'id': found null"),
    ([{"id": 1}, {"id": None}], 400, "record 2 of the request: topic clicks: column 'id': found null"),
    ([{"id": 1}, {"id": 2, "v": "x" * 3_000}], 413, "record 2 of the request: topic clicks: it takes 3059 bytes"),
    (
        {"id": 1, "_timestamp": "2099-01-01T00:00:00Z"},
        400,
        "record 1 of the request: topic clicks: column '_timestamp': its event time",
    ),
    ({"id": 1, "_headers": "q"}, 400, "request, line 1"),
    ({"id": 1, "n": 1 << 15}, 400, "request, line 1"),
    ([{"id": 1, "n": 1}, {"id": 2, "n": "x"}], 400, "request, line 2"),
    (LINES, 400, "request, line 2"),
    ({"id": 1, "other": 1}, 400, "request, line 1"),
]


def test_reasons(tmp_path):
    """Each names the record, and what is wrong with it; nothing of its request is kept."""
    with sk.open_log(tmp_path / "log") as log, receiving(log, **WAYS["columns"]) as post:
        for body, code, reason in REFUSED:
            found, said = post(body)
            assert found == code and reason in said["error"], said
        assert post({"id": 9}) == (200, {"records": 1})
        assert [row["id"] for row in log.read("clicks").to_pylist()] == [9]


def test_a_refused_key_of_idempotency_is_not_remembered(tmp_path):
    """A request that was refused, corrected and sent again with its key is taken, once."""
    with sk.open_log(tmp_path / "log") as log, receiving(log, **WAYS["columns"]) as post:
        assert post({"id": None}, key="k")[0] == 400
        assert [post({"id": 5}, key="k")[0] for _ in range(2)] == [200, 200]
        assert log.read("clicks").num_rows == 1


TOLERANT = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}


@pytest.mark.parametrize("way", ["columns", "any JSON", "transforms"])
def test_random_requests_of_a_tolerant_source(tmp_path, way):
    """The same where records that do not fit are left out: only what is not JSON is refused, and the task goes on."""
    choose = random.Random(None if TAKES_ALL else way)
    with sk.open_log(tmp_path / "log") as log, ThreadPoolExecutor(10) as threads:
        with receiving(log, **WAYS[way], **TOLERANT) as post:
            good = {"id": 1, "v": "1", "n": 5}
            for first in range(0, 1_000 if TAKES_ALL else 20, 10):
                bodies = [some_body(choose, first + number, good) for number in range(10)]
                for body, (code, said) in zip(bodies, threads.map(post, bodies), strict=True):
                    assert code == 200 or (code == 400 and "is not JSON" in said["error"]), (body, said)
                assert post(good) == (200, {"records": 1}), bodies
        assert log.read("bad").num_rows or way == "any JSON"


@pytest.mark.parametrize("has_schema", [True, False])
def test_records_that_alone_are_left_out(tmp_path, has_schema):
    """Of a list and of lines; what is left out is a dead letter as it was sent, also where it is no UTF-8 or too large."""
    settings = {**TOLERANT, **({"schema": "id bigint, v string"} if has_schema else {})}
    with sk.open_log(tmp_path / "log") as log, receiving(log, **settings) as post:
        assert post(b'[{"id": 1}, {"id": 2, "v": "\xff"}, {"id": 3}]')[0] == 200
        assert post(b'{"id": 4}\n{"id": 5, "v": "\xff"}\n{"id": 6}')[0] == 200
        assert post(b'{"id": 7, "v": "\xff"}')[0] == 200
        assert post({"id": 8, "v": "x" * 2_000_000})[0] == 200
        assert post([{"id": "x"}, {"id": 9}])[0] == 200
        rows, letters = log.read("clicks").to_pylist(), log.read("bad").to_pylist()
    if has_schema:
        assert sorted(row["id"] for row in rows) == [1, 3, 4, 6, 9]
    assert len(letters) == (5 if has_schema else 4)
    assert sum(b"\xff" in row["value"] or b"xff" in row["value"] for row in letters) == 3
    assert all(len(row["value"]) < 1 << 20 for row in letters)


@pytest.mark.parametrize("between", [b"", b" ", b"\n", b"\r\n\r\n", b" \n "])
def test_objects_one_behind_the_other(tmp_path, between):
    """Whatever blanks stand between them, and within."""
    objects = [b'{"id": 1}', b'{"id": 2,\n "place": {"x": 1}\n}', b'{"place": {"x": 1}\n, "id": 3}']
    with sk.open_log(tmp_path / "log") as log, receiving(log, **WAYS["columns"]) as post:
        assert post(between.join(objects)) == (200, {"records": 3})
        assert post(between.join(objects[::-1])) == (200, {"records": 3})
        assert sorted(row["id"] for row in log.read("clicks").to_pylist()) == [1, 1, 2, 2, 3, 3]


LENGTHS = {
    "ends before": (b"Content-Length: 16", 400),
    "two lengths": (b"Content-Length: 8\r\nContent-Length: 9", 400),
    "a list of lengths": (b"Content-Length: 8, 9", 400),
    "chunked, with a length": (b"Transfer-Encoding: chunked\r\nContent-Length: 8", 400),
    "chunked": (b"Transfer-Encoding: chunked", 400),
    "other digits": ("Content-Length: \u00b2".encode("iso-8859-1"), 400),
    "digits of other countries": ("Content-Length: \u0668".encode(), 400),
    "a sign": (b"Content-Length: +8", 400),
    "below nothing": (b"Content-Length: -8", 400),
    "hexadecimal": (b"Content-Length: 0x8", 400),
    "no number": (b"Content-Length:", 400),
    "huge": (b"Content-Length: " + b"9" * 18, 413),
    "no length has so many digits": (b"Content-Length: " + b"9" * 5_000, 400),
    "none": (b"X: y", 411),
}


def said_to(port, head, body):
    """The answers to one request as it is, behind which nothing comes."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s" % (head, body))
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


HEADS = {  # heads of requests, with the code, and whether their body is asked for
    "large": (b"Content-Length: 5000", 413, False),
    "too large to be sent": (b"Content-Length: 900000000", 413, False),
    "two keys": (b"Content-Length: 8\r\nIdempotency-Key: a\r\nIdempotency-Key: b", 400, False),
    "a key and none": (b"Content-Length: 8\r\nIdempotency-Key: a\r\nIdempotency-Key: ", 400, False),
    "one key twice": (b"Content-Length: 8\r\nIdempotency-Key: a\r\nIdempotency-Key: a ", 200, True),
    "fine": (b"Content-Length: 8", 200, True),
    "compressed": (b"Content-Length: 8\r\nContent-Encoding: gzip", 415, False),
    "two lengths": (b"Content-Length: 8\r\nContent-Length: 9", 400, False),
    "a line that is no header": (b"Content-Length: 8\r\nX Bad\r\nIdempotency-Key: k", 400, False),
    "one before chunks": (b"Content-Length: 8\r\nX Bad\r\nTransfer-Encoding: chunked", 400, False),
    "a blank before the colon": (b"Content-Length: 8\r\nIdempotency-Key : k", 400, False),
    "one in the length": (b"Content-Length : 8", 400, False),
    "no name": (b"Content-Length: 8\r\n: x", 400, False),
    "a CR within": (b"Content-Length: 8\r\nIdempotency-Key: k\rx", 400, False),
}


@pytest.mark.parametrize("expects", [True, False])
def test_heads_that_are_refused(tmp_path, expects):
    """A body of such a request is not asked for by 100, and nothing is kept; several keys that differ are no key."""
    with sk.open_log(tmp_path / "log") as log, receiving(log, **{"max.body.bytes": 1000}) as post:
        for name, (head, code, is_asked) in HEADS.items():
            answer = said_to(post.port, head + (b"\r\nExpect: 100-continue" if expects else b""), b'{"id":1}')
            assert answer.startswith(b"HTTP/1.1 100 ") is (is_asked and expects), name
            assert b"HTTP/1.1 %d " % code in answer, name
            assert answer.count(b"HTTP/1.1 ") == 1 + (is_asked and expects), name
        assert log.read("clicks").num_rows == 2


def test_headers_over_several_lines(tmp_path):
    """A line that begins with a blank goes on with the header above it: a key has its value there, and is none within another header."""
    with sk.open_log(tmp_path / "log") as log, receiving(log) as post:
        for head, count in ((b"Idempotency-Key:\r\n k", 1), (b"Idempotency-Key: k", 1), (b"X: y\r\n Idempotency-Key: k", 3)):
            for _ in range(2):
                assert b" 200 " in said_to(post.port, b"Content-Length: 8\r\n" + head, b'{"id":1}'), head
            assert log.read("clicks").num_rows == count, head


@pytest.mark.parametrize("has_schema", [True, False])
def test_lengths_that_are_not_those_of_the_body(tmp_path, has_schema):
    """Nothing of such a request is kept, nor is its key: the whole body is taken when it comes; a length that is said twice alike is one."""
    settings = {"schema": "id bigint"} if has_schema else {}
    body = b'{"id":1}'
    with sk.open_log(tmp_path / "log") as log, receiving(log, **settings) as post:
        for head, code in LENGTHS.values():
            said = said_to(post.port, b"Idempotency-Key: k\r\n" + head, body)
            assert said.startswith(b"HTTP/1.1 %d " % code) and said.count(b"HTTP/1.1") == 1 and b"close" in said, (head, said)
        assert "clicks" not in log.topics() or not log.read("clicks").num_rows
        assert post(b'{"id":1}\n{"id":2}', key="k") == (200, {"records": 2})
        assert b" 200 " in said_to(post.port, b"Content-Length: 8\r\nContent-Length: 8", body)
        assert log.read("clicks").num_rows == 3


@pytest.mark.parametrize("key", ["", " "])
def test_an_empty_key_of_idempotency(tmp_path, key):
    """It is none: each request is one of its own."""
    with sk.open_log(tmp_path / "log") as log, receiving(log, **WAYS["columns"]) as post:
        assert [post({"id": n}, **{"Idempotency-Key": key})[0] for n in range(3)] == [200] * 3
        assert log.read("clicks").num_rows == 3
