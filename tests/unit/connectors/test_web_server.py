"""The web server: what it does with clients that say nothing, half of a request, several at once, or no HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from streamkit.connectors import web_server
from streamkit.connectors.web_server import WebServer, length_of_body, listener_at
from tests.kit.waiting import wait_until

POST = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


class Counting:
    """Answers with the number of bytes of the body; to /slow when it may."""

    def __init__(self):
        self.may_answer = threading.Event()
        self.waiting = 0
        self.left = 0

    async def __call__(self, scope, receive, send):
        request = Request(scope, receive)
        try:
            body = await request.body()
        except ClientDisconnect:
            self.left += 1
            return
        if request.scope["path"] == "/slow":
            self.waiting += 1
            await asyncio.to_thread(self.may_answer.wait)
        assert length_of_body(request.headers) in (None, len(body))
        await JSONResponse({"bytes": len(body)})(scope, receive, send)

    def error(self, code, text):
        return JSONResponse({"said": text}, code)


@pytest.fixture
def counting():
    return Counting()


@contextmanager
def serving(counting):
    server = WebServer("counting", counting, listener_at("127.0.0.1", 0))
    try:
        yield server
    finally:
        counting.may_answer.set()
        server.stop()
        assert server.has_ended(30)


@pytest.fixture
def server(counting):
    with serving(counting) as server:
        yield server


@pytest.fixture
def impatient(counting, monkeypatch):
    """A server that waits for nobody longer than a moment."""
    monkeypatch.setattr(web_server, "SILENCE_S", 0.2)
    with serving(counting) as server:
        yield server


@contextmanager
def connected(server):
    with socket.create_connection(server.address, 10) as connection:
        yield connection


def rest_of(connection):
    """All that comes until the server closes its side; nothing more if it resets the connection, as it may with what it has not read."""
    found = b""
    while piece := connection.recv(1 << 16):
        found += piece
    return found


def values_of(answers):
    """The bodies, of which each is one object."""
    return [json.loads(one.partition(b"\r\n\r\n")[2]) for one in answers.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize(
    ("said", "is_begun"), [(b"", 0), (b"POST / HT", 0), (POST % (b"/", 8), 1), (POST % (b"/", 8) + b"1234", 1)]
)
def test_a_client_that_says_nothing_more(counting, impatient, said, is_begun):
    """Its connection is closed after a while, wherever it stopped; one whose answer takes longer gets it."""
    with connected(impatient) as silent, connected(impatient) as patient:
        patient.sendall(POST % (b"/slow", 2) + b"12")
        silent.sendall(said)
        assert rest_of(silent) == b""
        wait_until(lambda: counting.left == is_begun)
        counting.may_answer.set()
        assert values_of(rest_of(patient)) == [{"bytes": 2}]


class Large(Counting):
    """Answers with more than a connection has room for, or with a stream that goes on."""

    async def __call__(self, scope, receive, send):
        async def pieces():
            while True:
                yield b"x" * 1_000_000
                await asyncio.sleep(0)

        answer = StreamingResponse(pieces()) if scope["path"] == "/stream" else Response(b"x" * 50_000_000)
        await answer(scope, receive, send)


@pytest.mark.parametrize("path", [b"/stream", b"/"])
def test_a_client_that_does_not_read_is_not_waited_for(caplog, path):
    """A server that stops gives up what such a client has not read, before uvicorn would break off all that goes on."""
    server = WebServer("large", Large(), listener_at("127.0.0.1", 0))
    with connected(server) as connection:
        connection.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        server.stop()
        assert server.has_ended(60)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("path", ["/stream", "/"])
@pytest.mark.parametrize("reads", [True, False])
def test_a_client_of_http2_without_room_is_not_waited_for(caplog, path, reads):
    """A client that gives no window, or does not read, is given up as one of HTTP/1.1 is."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    client.send_headers(1, [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", path)], end_stream=True)
    server = WebServer("large", Large(), listener_at("127.0.0.1", 0))
    with connected(server) as connection:
        connection.sendall(client.data_to_send())
        taken = 0
        while (taken < 65_535 and reads) or not taken:
            taken += sum(
                len(event.data) for event in client.receive_data(connection.recv(65_536)) if isinstance(event, DataReceived)
            )
        server.stop()
        assert server.has_ended(60)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_client_that_closes_its_side(server):
    """It gets its answers if its requests are whole, all of them; else the reason."""
    for requests, bytes_of_bodies in ((1, [3]), (3, [3, 3, 3])):
        with connected(server) as connection:
            connection.sendall((POST % (b"/", 3) + b"123") * requests)
            connection.shutdown(socket.SHUT_WR)
            assert values_of(rest_of(connection)) == [{"bytes": one} for one in bytes_of_bodies]
    with connected(server) as connection:
        connection.sendall(POST % (b"/", 3) + b"12")
        connection.shutdown(socket.SHUT_WR)
        answer = rest_of(connection)
    assert answer.startswith(b"HTTP/1.1 400 ") and "received 2 bytes, expected 3" in values_of(answer)[0]["said"]


def test_what_is_no_http(server):
    """It gets the reason in the service's form, and its connection is closed; requests before it are answered."""
    with connected(server) as connection:
        connection.sendall(POST % (b"/", 3) + b"123" + b"no HTTP\r\n\r\n")
        first, second = values_of(rest_of(connection))
    assert first == {"bytes": 3} and second["said"].startswith("found 'no HTTP'; expected a line such as")


def test_it_ends_when_requests_are_answered(counting, server):
    """A stop waits for the answers to whole requests, not for the other half of one, and nobody is connected any more."""
    with connected(server) as whole, connected(server) as half:
        whole.sendall(POST % (b"/slow", 2) + b"12")
        half.sendall(POST % (b"/", 2) + b"1")
        wait_until(lambda: counting.waiting == 1)
        server.stop()
        assert rest_of(half) == b""
        assert not server.has_ended(0.5)
        counting.may_answer.set()
        assert values_of(rest_of(whole)) == [{"bytes": 2}]
        assert server.has_ended(30)
    with pytest.raises(OSError):
        socket.create_connection(server.address, 30)


def test_places_that_this_machine_has_not():
    """They are errors of the system, and leave no socket open."""
    for host, port in (("no.such.invalid", 0), ("192.0.2.1", 0), ("a..b", 0)):
        with pytest.raises((OSError, UnicodeError)):
            listener_at(host, port)
    with listener_at("127.0.0.1", 0) as first, pytest.raises(OSError):
        listener_at("127.0.0.1", first.getsockname()[1])


def test_answers_on_one_connection_come_at_once(server):
    """The body of an answer does not wait until the client has acknowledged its headers, which clients delay by 40 ms."""
    took = []
    with connected(server) as connection:
        for _ in range(50):
            begun = time.perf_counter()
            connection.sendall(POST % (b"/", 3) + b"123")
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(1 << 16)
            took.append(time.perf_counter() - begun)
    assert min(took[30:]) < 0.03, took  # the first ones are acknowledged at once
