"""The receiver and the webhook: what is answered is committed, repeats are told, refusals are said."""

from __future__ import annotations

import base64
import decimal
import json
import math
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.http import HttpSink, HttpSource
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError, SchemaError
from streamkit.failpoints import SimulatedCrash
from tests.kit.sampling import TAKES_ALL
from tests.kit.waiting import wait_until
from tests.unit.connectors.contract import RefusingContract, dies


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log" if TAKES_ALL else ":memory:") as log:
        yield log


@contextmanager
def receiving(log, topic="clicks", **settings):
    """A receiver at a free port, in a task of its own; gives a function that posts."""
    source = HttpSource("in", port=0, topic=topic, **settings)
    orders, task = Orders(), SourceTask(source, 0, 1, log)

    def run_task():
        with suppress(SimulatedCrash, ConnectionError):  # after which a worker starts it again
            task.run(orders)

    thread = threading.Thread(target=run_task, daemon=True)
    thread.start()
    wait_until(lambda: source._server is not None)

    def post(body, key=None, path="/", **headers):
        sent = headers | ({"Idempotency-Key": key} if key else {})
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{source.port}{path}", data, sent, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    post.__dict__["port"] = source.port
    try:
        yield post
    finally:
        orders.stop.set()
        thread.join()


def clicks(log):
    return [(row["user"], row["n"]) for row in log.read("clicks").to_pylist()] if "clicks" in log.topics() else []


SCHEMA = {"schema": "user string, n int"}


def test_an_answer_means_a_commit(log):
    """An object, a list and lines of objects are committed when the answer comes."""
    with receiving(log, **SCHEMA) as post:
        assert post({"user": "a", "n": 1}) == (200, {"records": 1})
        assert clicks(log) == [("a", 1)]
        assert post([{"user": "b", "n": 2}, {"user": "c", "n": 3}]) == (200, {"records": 2})
        assert post(b'{"user": "d", "n": 4}\n{"user": "e", "n": null}\n') == (200, {"records": 2})
        assert sorted(user for user, _ in clicks(log)) == list("abcde")


def test_any_json(log):
    """Without a schema the topic takes any objects, and nothing else: a null would be a deletion, and 1 has no columns for a reader."""
    with receiving(log) as post:
        assert post([{"a": 1}, {"b": [2]}])[0] == 200
        for other in ("null", "1", '"x"', "true", "[2]", "[[{}]]"):
            for body in (other, f"[{{}}, {other}]"):
                code, said = post(body.encode())
                assert (code, "expected an object" in said["error"]) == (400, True), body
    assert sorted(row["value"] for row in log.read("clicks").to_pylist()) == [b'{"a": 1}', b'{"b": [2]}']
    with receiving(log, errors_tolerance="all", errors_deadletterqueue_topic_name="bad") as post:
        assert post([{"c": 1}, 1, None, [{"d": 1}]])[0] == 200
    assert [row["value"] for row in log.read("bad").to_pylist()] == [b"1", b"null", b'[{"d": 1}]']
    assert log.read("clicks").num_rows == 3


WRITTEN = b'{"b": 12345678901234567.89,\r\n "a": "x\\ny"}'


@pytest.mark.parametrize("body", [WRITTEN, b' [%s ,{"a":1e2}]' % WRITTEN, WRITTEN + b'\n{"a":1e2}\n', b"\xef\xbb\xbf" + WRITTEN])
def test_records_are_kept_as_they_are_written(log, body):
    """A number keeps all its digits, and an object of several lines is one record, alone, in a list and among others."""
    with receiving(log) as post:
        assert post(body)[0] == 200
    expected = {WRITTEN.replace(b"\r\n", b"  ")} | ({b'{"a":1e2}'} if b"1e2" in body else set())
    assert {row["value"] for row in log.read("clicks").to_pylist()} == expected


def test_objects_that_lack_columns(log):
    """A column that an object lacks is null; a key is needed, and a decimal of a list keeps its digits."""
    with receiving(log, schema="id int NOT NULL, price decimal(38,2), note string", key="id") as post:
        assert post([{"id": 1}, {"id": 2, "note": "x"}])[0] == 200
        assert post(b'[{"id": 3,\n "price": 12345678901234567.89}]')[0] == 200
        code, said = post({"price": 1})
        assert (code, "no column 'id'" in said["error"]) == (400, True)
    found = {row["id"]: (row["price"], row["note"]) for row in log.read("clicks").to_pylist()}
    assert found == {1: (None, None), 2: (None, "x"), 3: (decimal.Decimal("12345678901234567.89"), None)}


@pytest.mark.parametrize("body", [b"[1 2]", b"[1,]", b"[1", b"[1] 2", b'{"a": NaN}', b"1,", b"\xff"])
def test_what_is_no_json(log, body):
    """Nothing of a body that is not JSON is kept."""
    with receiving(log) as post:
        code, said = post(body)
        assert (code, "is not JSON" in said["error"]) == (400, True)
        assert post(b"1", **{"Content-Encoding": "gzip"})[0] == 415
    assert clicks(log) == []


def test_what_is_refused(log):
    """A record that does not fit, another path, a large body, a wrong token: each has its answer, and nothing is kept."""
    with receiving(log, **SCHEMA, token="hush", max_body_bytes=100) as post:
        known = {"Authorization": "Bearer hush"}
        code, said = post([{"user": "a", "n": 1}, {"user": "b", "n": "x"}], **known)
        assert (code, "'n'" in said["error"]) == (400, True)
        assert post(b"no json", **known)[0] == 400
        assert post({"user": "a", "n": 1}, path="/other", **known)[0] == 404
        assert post({"user": "a", "n": 1})[0] == 401
        assert post({"user": "a" * 200, "n": 1}, **known)[0] == 413
        assert clicks(log) == []


def test_repeats(log):
    """A request that is sent again with its key is answered alike and written once, also by another instance."""
    with receiving(log, **SCHEMA) as post:
        assert post({"user": "a", "n": 1}, key="first")[0] == 200
        assert post({"user": "a", "n": 1}, key="first")[0] == 200
        assert post({"user": "a", "n": 1}, key="second")[0] == 200
    with receiving(log, **SCHEMA) as post:
        assert post({"user": "a", "n": 1}, key="first")[0] == 200
    assert clicks(log) == [("a", 1)] * 2


@pytest.mark.parametrize("point", ["connect.polled", "connect.staged", "connect.committed"])
def test_death(log, point):
    """A task that dies before its answer says 503; sent again with its key, the record is there once."""
    with receiving(log, **SCHEMA) as post:
        assert post({"user": "a", "n": 0}, key="before")[0] == 200
    with dies(point), receiving(log, **SCHEMA, commit_timeout_ms=3000) as post:
        assert post({"user": "a", "n": 1}, key="one")[0] == 503
    with receiving(log, **SCHEMA) as post:
        assert post({"user": "a", "n": 1}, key="one")[0] == 200
    assert sorted(clicks(log)) == [("a", 0), ("a", 1)]


class Receiver:
    """A server that notes requests, and answers by a list of codes, then 200."""

    def __init__(self):
        self.requests: list[tuple[Any, ...]] = []
        self.headers: list[Message] = []
        self.bodies: list[bytes] = []
        self.codes: list[int] = []
        self.echoes = False
        self.refused: Sequence[int] = ()  # every n that gets 422, and itself as the reason
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the second write of an answer waits for the word of who asked

            def answer(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                row = json.loads(body)
                receiver.headers.append(self.headers)
                receiver.bodies.append(body)
                is_refused = row.get("n") in receiver.refused
                code = receiver.codes.pop(0) if receiver.codes else 422 if is_refused else 200
                receiver.requests.append((self.command, self.headers["Idempotency-Key"], row, code, self.headers["X-Token"]))
                said = str(row["n"]).encode() if is_refused else b"no"
                if receiver.echoes:  # an error has the first 200 letters
                    said = json.dumps({name: value for name, value in self.headers.items() if name != "Host"}).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_POST = do_DELETE = answer  # noqa: N815

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def people(log):
    log.create_topic("people", "id int NOT NULL, name string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send_batch("people", [{"id": n, "name": f"n{n}"} for n in range(3)])
        producer.delete("people", {"id": 1})


class TestRefused(RefusingContract):
    """A receiver that does not like some numbers."""

    CASES = ((60, 1_000, 8), (20, 7, 2), (20, 1_000, 1))  # of which an ordinary run takes two

    @pytest.fixture(autouse=True)
    def _receiver(self, receiver):
        self.receiver = receiver

    def refusing(self, batch_rows, errors):
        return HttpSink("out", errors, url=self.receiver.url, topics="numbers", batch_rows=batch_rows)

    def begin(self, refused):
        self.receiver.refused = refused

    def reason(self, n):
        return rf"answered 422: {n}$"

    def kept(self):
        return [body["n"] for _, _, body, code, _ in self.receiver.requests if code == 200]


def test_each_record_is_a_request(log, receiver, people):
    """Records come in their order, each with its key; deletions as DELETE; the next run sends nothing again."""
    for _ in range(2):
        run([HttpSink("out", {"url": receiver.url, "topics": "people", "headers.X-Token": "hush"})], log, once=True)
    keys = receiver.requests[0][1].rpartition("/")[0]
    assert re.fullmatch(r"out/people/[0-9a-f]{16}/0", keys)
    assert receiver.requests == [
        *(("POST", f"{keys}/{n}", {"id": n, "name": f"n{n}"}, 200, "hush") for n in range(3)),
        ("DELETE", f"{keys}/3", {"id": 1}, 200, "hush"),
    ]


def test_many_records_have_the_bodies_of_few(log, receiver):
    """Records that are written at once have the bodies that each has alone: nested values, nulls, deletions, letters beyond ASCII."""
    log.create_topic("many", "n int, t string, a array<double>", key="n", partitions=1)
    rows = [{"n": n, "t": ["é", None, '"'][n % 3], "a": [1e16, None] if n % 2 else None} for n in range(100)]
    with log.producer() as producer:
        producer.send_batch("many", rows)
        producer.delete("many", {"n": 7})

    run([HttpSink("out", {"url": receiver.url, "topics": "many"})], log, once=True)

    assert receiver.bodies == [json.dumps(row, ensure_ascii=False).encode() for row in [*rows, {"n": 7}]]
    assert [request[0] for request in receiver.requests] == ["POST"] * 100 + ["DELETE"]


def test_numbers_that_json_has_not(log, receiver):
    """NaN and the infinities are sent as the texts that every reader of JSON here takes."""
    log.create_topic("numbers", "id int, f double, a array<float>", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("numbers", {"id": 1, "f": math.nan, "a": [math.inf, -math.inf, 1.5]})
    run([HttpSink("out", {"url": receiver.url, "topics": "numbers"})], log, once=True)
    assert [request[2] for request in receiver.requests] == [{"id": 1, "f": "NaN", "a": ["Infinity", "-Infinity", 1.5]}]


def test_tries_and_refusals(log, receiver, people):
    """429 and 5xx are tried again; another answer is the record's error, behind which nothing is sent, or a dead letter, nothing sent twice."""
    receiver.codes = [503, 429, 200, 422]
    with pytest.raises(SchemaError, match=r"offset 1, TASK_PUT: the receiver answered 422: no"):
        run([HttpSink("out", url=receiver.url, topics="people")], log, once=True)
    assert [(key.rpartition("/0/")[2], code) for _, key, _, code, _ in receiver.requests] == [
        ("0", 503), ("0", 429), ("0", 200), ("1", 422),
    ]  # fmt: skip
    receiver.requests.clear()
    receiver.codes = [200, 422]
    run(
        [HttpSink("out", url=receiver.url, topics="people", errors_tolerance="all", errors_deadletterqueue_topic_name="bad")],
        log,
        once=True,
    )
    assert [(key.rpartition("/0/")[2], code) for _, key, _, code, _ in receiver.requests] == [
        ("0", 200), ("1", 422), ("2", 200), ("3", 200),
    ]  # fmt: skip
    assert [row["value"] for row in log.read("bad").to_pylist()] == [b'{"id": 1, "name": "n1"}']


def test_a_receiver_that_is_gone(log, people):
    """A receiver that does not answer is a connection that failed, and the message has no secrets of the URL's query."""
    sink = HttpSink("out", url="http://127.0.0.1:1/hook?token=hush", topics="people", retry_timeout_ms=200)
    with pytest.raises(ConnectionError, match=r"http://127\.0\.0\.1:1/hook does not accept records") as raised:
        run([sink], log, once=True)
    assert "hush" not in str(raised.value)


RENAMED = {"transforms": "t", "transforms.t.type": "ReplaceField$Value", "transforms.t.renames": "user:name"}


@pytest.mark.parametrize("settings", [{}, SCHEMA, {**SCHEMA, **{key.replace(".", "_"): value for key, value in RENAMED.items()}}])
def test_a_receiver_that_starts_again_takes_what_it_took(log, settings):
    """What the first request made of the topic says nothing of what later ones are: each start takes the same, with the same result."""
    for _ in range(2):
        with receiving(log, **settings) as post:
            assert post({"user": "a", "n": 1}) == (200, {"records": 1})
    found = log.read("clicks").select(log.topic("clicks").schema.names).to_pylist()
    assert found[0] == found[1] and None not in list(found[0].values())[1:]


@pytest.mark.parametrize("name", ["X-Api", "X-Tenant", "Authorization", "X-Sig", "From"])
def test_a_receiver_that_says_what_it_was_sent(log, receiver, people, name):
    """A receiver may echo its request: no header is shown, whatever its name; a type of content is."""
    receiver.codes = [400]
    receiver.echoes = True
    sink = HttpSink(
        "out",
        {"url": receiver.url, "topics": "people", f"headers.{name}": "zq9w LMNopq/7", "headers.Content-Type": "text/x-json"},
    )
    with pytest.raises(SchemaError, match=r"answered 400.*text/x-json") as raised:
        run([sink], log, once=True)
    assert not any(word in str(raised.value) for word in ("zq9w", "LMNopq"))


@pytest.mark.parametrize("place", ["h:http", "u:hush/x@h", "h:99999", "h:-1", "h:0", "a..b", "[::1", "u:hush[x@h"])
def test_addresses_that_are_none(place):
    """A port that is none is refused when the connector is made, by the connector's name, and nothing of a password is shown."""
    with pytest.raises(ConfigError, match=r"connector out: the url has no port .*expected something like") as raised:
        HttpSink("out", {"url": f"http://{place}/hook", "topics": "t"})
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("port", one) for one in ("65536", "-1")),
        *(("path", one) for one in ("", "x", "/x?y", "/x y", "/\u00e4", "/x#y", "//x", "/x/../y", "/.", "/x\n")),
        *(("schema", one) for one in ("", "k integr", "k int, k int", "_offset int", "k int, _deleted boolean")),
    ],
)
def test_places_that_are_none(name, value):
    """A port that no socket has, and a path that no request has, are refused when the connector is made."""
    with pytest.raises(ConfigError, match=f"{name}[= ].*(expected|empty|twice)"):
        HttpSource("in", {"topic": "t", name: value})


@pytest.mark.parametrize("token", ["", "hush\n", " hush", "hush\r\n", "hush\u00e4", "hush\tx"])
def test_tokens_that_are_none(token):
    """No request could have one, or any would do; it is not shown."""
    with pytest.raises(ConfigError, match="the token is empty, or") as raised:
        HttpSource("in", {"topic": "t", "token": token})
    assert "hush" not in str(raised.value)


CONTRADICTED = [
    ({"schema": "k string, v int"}, r"the column 'k' of type int, and schema says string"),
    ({"schema": "k int, v int, w int"}, r"has no column 'w', which schema has: it has k, v"),
    ({"schema": "k int, v int NOT NULL"}, r"accepts null in the column 'v', and schema says NOT NULL"),
    ({"schema": "k int, v int", "key": "v"}, r"has the key k, and the setting says key=v"),
    ({"key": "v"}, r"has the key k, and the setting says key=v"),
    ({"topic": "any", "schema": "k int"}, r"has no column 'k', which schema has: it has any JSON"),
    ({"topic": "any", "key": "k"}, r"topic any has any JSON, and no column for key=k"),
    ({"topic": "other", "key": "k"}, r"found key=k without schema"),
    ({"host": "no.such.invalid"}, r"cannot listen at host=no\.such\.invalid"),
    ({"host": "192.0.2.1"}, r"cannot listen at host=192\.0\.2\.1"),
]


@pytest.mark.parametrize(("settings", "said"), CONTRADICTED)
@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_settings_that_the_topic_contradicts(log, settings, said, tolerance):
    """They are refused at the start: each sender got 400, or they did nothing."""
    log.create_topic("rows", "k int, v int", key="k")
    log.create_topic("any", format="json")
    with pytest.raises(ConfigError, match=said):
        run([HttpSource("in", {"topic": "rows", "port": 0, "errors.tolerance": tolerance, **settings})], log, once=True)


def test_settings_that_the_topic_has(log):
    """Fewer columns, narrower ones, and the key that it has: requests are read in the columns of the topic."""
    log.create_topic("clicks", "k bigint, v int", key="k")
    for settings in ({"schema": "k int"}, {"schema": "k bigint, v int", "key": "k"}, {"key": "k"}, {}):
        with receiving(log, **settings) as post:
            assert post({"k": 1, "v": 2})[0] == 200
    with pytest.raises(ConfigError, match=r"schema has no column 'j' of key=j; it has k"):
        HttpSource("in", {"topic": "other", "schema": "k int", "key": "j"})


@pytest.mark.parametrize(
    ("user", "sent"),
    [("u:p%40ss:w", "u:p@ss:w"), ("u", "u:"), ("%C3%BC:p%2Fs", "\u00fc:p/s"), ("", None), (":p", ":p")],
)
def test_a_user_in_the_address(log, receiver, people, user, sent):
    """Each request sends the user as HTTP Basic. If the receiver repeats it in an answer, no error shows it."""
    receiver.codes, receiver.echoes = [400], True
    url = receiver.url.replace("://", f"://{user}@" if user else "://")
    settings = {"url": url, "topics": "people", "headers.content-type": "text/x-json"}
    with pytest.raises(SchemaError, match=r"answered 400.*text/x-json") as raised:
        run([HttpSink("out", settings)], log, once=True)
    expected = None if sent is None else f"Basic {base64.b64encode(sent.encode()).decode()}"
    assert receiver.headers[-1].get_all("Authorization") == (None if expected is None else [expected])
    assert receiver.headers[-1].get_all("Content-Type") == ["text/x-json"]
    if sent is not None and not sent.endswith(":"):
        assert expected is not None and expected.partition(" ")[2] not in str(raised.value)
    receiver.codes, receiver.echoes = [], False
    run([HttpSink("out", settings)], log, once=True)
    assert {one["Authorization"] for one in receiver.headers} == {expected}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"headers.X-A": "1", "headers.x-a": "2"}, "headers.X-A and headers.x-a, which are one header"),
        ({"url": "http://u:p@h/", "headers.authorization": "Bearer x"}, "a user in the url"),
        ({"headers.content-encoding": "gzip"}, "bodies are not compressed"),
        ({"headers.Content-Type": "text/plain; charset=latin-1"}, "bodies are UTF-8"),
        ({"headers.Upgrade": "h2c"}, "which each request"),
        ({"url": "http://h/\u00e4"}, "percent-encoded"),
        ({"url": "http://h/?q=\u00e4"}, "percent-encoded"),
        ({"url": "http://a%3Ab:p@h/"}, "a : in the name of its user"),
        *(
            ({"url": f"http://{user}@h/"}, "not percent-encoded")
            for user in ("u%zz:p", "u:p%", "u:%4", "u:p%FF", "%fc:p", "u:%4é")
        ),
    ],
)
def test_requests_that_nobody_could_mean(settings, said):
    """They are refused when the connector is made."""
    with pytest.raises(ConfigError, match=said):
        HttpSink("out", {"url": "http://h/", "topics": "t", **settings})
    HttpSink("out", {"url": "http://h/", "topics": "t", "headers.Content-Type": 'text/plain; charset="UTF-8"'})


@pytest.mark.parametrize("value", ["hush-hush\n", "hush-hush\nsecond", "hush-hush\0", "hush-hush\u20ac", "hush-hush\r"])
def test_headers_that_are_none(value):
    """They are refused when the connector is made, and not shown."""
    with pytest.raises(ConfigError, match=r"headers\.X-Api has a line end") as raised:
        HttpSink("out", {"url": "http://h/", "topics": "t", "headers.X-Api": value})
    assert "hush" not in str(raised.value)
    with pytest.raises(ConfigError, match="expected a name"):
        HttpSink("out", {"url": "http://h/", "topics": "t", "headers.X Api": "a"})
    with pytest.raises(ConfigError, match=r"found headers\.Content-Length, which each request"):
        HttpSink("out", {"url": "http://h/", "topics": "t", "headers.Content-Length": "5"})


def test_many_requests_wait_at_once(log):
    """More than a server has threads: one commit answers them all."""
    source = HttpSource("in", port=0, topic="clicks", **SCHEMA)
    source.open(dict.fromkeys(source.splits()))
    url = f"http://127.0.0.1:{source.port}/"

    def post(n):
        with urllib.request.urlopen(urllib.request.Request(url, b'{"n": %d}' % n), timeout=30) as answer:
            return answer.status

    try:
        with ThreadPoolExecutor(200) as threads:
            answers = threads.map(post, range(200))
            wait_until(lambda: source._posted.qsize() == 200)
            polled = source.poll(0)
            assert polled is not None and isinstance(polled.tables["clicks"], pa.Table)
            assert sorted(polled.tables["clicks"]["n"].to_pylist()) == [*range(200)]
            source.committed({})
            assert [*answers] == [200] * 200
    finally:
        source.close()
