"""HTTP/2 beside HTTP/1.1: requests side by side on one connection, bodies and answers within their windows, and clients that behave badly."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import ssl
import threading
from contextlib import contextmanager, suppress

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from streamkit.connectors import web_server
from streamkit.connectors.web_server import WebServer, listener_at
from tests.kit.waiting import wait_until
from tests.unit.serve.test_server import certificate

h2_connection, h2_config, h2_events = (pytest.importorskip(f"h2.{name}") for name in ("connection", "config", "events"))
from streamkit.connectors.http2_protocol import REQUESTS_AT_ONCE, WINDOW_BYTES  # noqa: E402  which needs h2

LONG = 5 * WINDOW_BYTES


class Answering:
    """
    Answers with what it was asked, and the number of bytes of the body.

    To /slow it does so when it may; /long is a long answer, /lines one that goes on, and /early one that does not wait for the body.
    """

    def __init__(self):
        self.may_answer = threading.Event()
        self.waiting = self.left = self.sent = 0

    async def __call__(self, scope, receive, send):
        request = Request(scope, receive)
        if request.url.path == "/lines":
            await StreamingResponse(self._lines())(scope, receive, send)
            return
        if request.url.path == "/long":
            await Response(b"x" * LONG)(scope, receive, send)
            self.sent += 1
            return
        try:
            body = b"" if request.url.path == "/early" else await request.body()
        except ClientDisconnect:
            self.left += 1
            return
        if request.url.path == "/slow":
            self.waiting += 1
            await asyncio.to_thread(self.may_answer.wait)
        if request.url.path == "/wrong":
            raise ValueError("wrong")
        found = {
            "bytes": len(body),
            "version": scope["http_version"],
            "host": request.headers["Host"],
            "query": request.url.query,
        }
        headers = {"Connection": "close", "Cookie-Seen": request.headers.get("Cookie", "")}
        await JSONResponse(found, headers=headers)(scope, receive, send)

    async def _lines(self):
        try:
            while not self.may_answer.is_set():
                yield "line\n"
                await asyncio.sleep(0.01)
        finally:
            self.left += 1

    def error(self, code, text):
        return JSONResponse({"said": text}, code)


@pytest.fixture
def answering():
    return Answering()


@contextmanager
def serving(answering, tls=None):
    server = WebServer("answering", answering, listener_at("127.0.0.1", 0), tls)
    try:
        yield server
    finally:
        answering.may_answer.set()
        server.stop()
        assert server.has_ended(30)


@pytest.fixture
def server(answering):
    with serving(answering) as server:
        yield server


@pytest.fixture
def client(server):
    with httpx.Client(http1=False, http2=True, base_url="http://{}:{}".format(*server.address), timeout=60) as client:
        yield client


class Speaking:
    """A client that says frame by frame what a test wants, and keeps the events of what it hears."""

    def __init__(self, connection):
        self.connection, self.heard, self.is_closed = connection, [], False
        self.frames = h2_connection.H2Connection(h2_config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.frames.initiate_connection()

    def ask(self, path, body=None, *, is_whole=True, **headers):
        """Send a request, whose body may miss its end; returns its number."""
        number = self.frames.get_next_available_stream_id()
        method = "GET" if body is None else "POST"
        head = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "somewhere"), *headers.items()]
        self.frames.send_headers(number, head, end_stream=body is None and is_whole)
        if body is not None:
            self.frames.send_data(number, body, end_stream=is_whole)
        self.say()
        return number

    def say(self):
        self.connection.sendall(self.frames.data_to_send())

    def _received(self):
        with suppress(ConnectionError):
            return self.connection.recv(1 << 16)
        return b""

    def hear(self, is_enough, *, acknowledges=True):
        """Listen until the events are enough, or the server has closed the connection; returns the data of each request."""
        while not self.is_closed and not is_enough(self.heard):
            data = self._received()
            self.is_closed = not data
            for event in self.frames.receive_data(data):
                self.heard.append(event)
                if acknowledges and isinstance(event, h2_events.DataReceived):
                    self.frames.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            with suppress(ConnectionError):  # the server has closed it behind what it said
                self.say()
        found: dict[int, bytes] = {}
        for event in self.heard:
            if isinstance(event, h2_events.DataReceived):
                found[event.stream_id] = found.get(event.stream_id, b"") + event.data
        return found


def ended(number):
    """Whether an answer has ended."""
    return lambda heard: any(
        isinstance(one, h2_events.StreamEnded | h2_events.StreamReset) and one.stream_id == number for one in heard
    )


def closed(heard):
    return False


@contextmanager
def speaking(server):
    with socket.create_connection(server.address, 30) as connection:
        yield Speaking(connection)


def test_requests_are_answered(client):
    """Path, parameters, host and body arrive as by HTTP/1.1; an answer has neither a body for HEAD nor headers of a connection."""
    answer = client.post("/a%20b?c=d", content=b"123", headers={"Cookie": "a=1; b=2"})
    assert answer.http_version == "HTTP/2"
    host = f"{client.base_url.host}:{client.base_url.port}"
    assert answer.json() == {"bytes": 3, "version": "2", "host": host, "query": "c=d"}
    assert "Connection" not in answer.headers and answer.headers["Date"] and answer.headers["Cookie-Seen"] == "a=1; b=2"
    assert client.head("/").content == b""


def test_a_url_that_is_not_encoded(server):
    """It is refused in the words of HTTP/1.1, since its texts would be other ones."""
    with speaking(server) as client:
        for path in ("/x?city=Łódź", "/a b", "/x?city=%C5%81"):
            number = client.ask(path)
            said = json.loads(client.hear(ended(number))[number])
            is_encoded = " " not in path and path.isascii()
            assert is_encoded == ("said" not in said)
            assert is_encoded or said["said"].startswith(f"found the URL '{path}'; expected it percent-encoded, as /")


def test_bodies_and_answers_are_longer_than_a_window(client):
    """Both come whole, whatever the client and the server allow each other to send at once."""
    assert client.post("/", content=b"x" * LONG).json()["bytes"] == LONG
    assert len(client.get("/long").content) == LONG


def test_requests_of_one_connection_do_not_wait_for_each_other(answering, server):
    """One that is slow holds no other up."""
    with speaking(server) as client:
        slow = client.ask("/slow")
        fast = client.ask("/fast", b"12")
        found = client.hear(ended(fast))
        assert json.loads(found[fast])["bytes"] == 2 and slow not in found
        answering.may_answer.set()
        assert json.loads(client.hear(ended(slow))[slow])["bytes"] == 0


def test_a_body_without_its_length(server):
    """It ends with its last frame."""
    with speaking(server) as client:
        number = client.ask("/", b"1234", is_whole=False)
        client.frames.send_data(number, b"5", end_stream=True)
        client.say()
        assert json.loads(client.hear(ended(number))[number])["bytes"] == 5


def test_the_first_bytes_may_come_one_by_one(server):
    """It is HTTP/2 as soon as that is clear."""
    with speaking(server) as client:
        number = client.frames.get_next_available_stream_id()
        client.frames.send_headers(
            number, [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "x")], end_stream=True
        )
        for byte in client.frames.data_to_send():
            client.connection.sendall(bytes([byte]))
        assert json.loads(client.hear(ended(number))[number])["host"] == "x"


def test_who_reads_slowly_is_waited_for(answering, server):
    """No more is sent than the client has room for, and the rest once it has; other answers go on beside it."""
    with speaking(server) as client:
        long = client.ask("/long")
        found = client.hear(
            lambda heard: sum(len(one.data) for one in heard if isinstance(one, h2_events.DataReceived)) >= 65_535,
            acknowledges=False,
        )
        assert len(found[long]) == 65_535 and answering.sent == 0
        client.frames.increment_flow_control_window(2 * LONG)
        client.say()
        fast = client.ask("/fast")
        assert json.loads(client.hear(ended(fast))[fast])["bytes"] == 0 and answering.sent == 0
        client.frames.increment_flow_control_window(2 * LONG, long)
        client.say()
        assert len(client.hear(ended(long))[long]) == LONG


def test_a_request_that_is_given_up(answering, server):
    """What answers it is told, and the connection goes on."""
    with speaking(server) as client:
        lines, half = client.ask("/lines"), client.ask("/", b"1", is_whole=False)
        client.hear(lambda heard: any(isinstance(one, h2_events.DataReceived) for one in heard))
        for number in (lines, half):
            client.frames.reset_stream(number)
        client.say()
        wait_until(lambda: answering.left == 2)
        number = client.ask("/")
        assert client.hear(ended(number))[number]


def test_a_client_that_goes_away(answering, server):
    """What answers it is told."""
    with speaking(server) as client:
        client.ask("/lines")
        client.hear(lambda heard: any(isinstance(one, h2_events.DataReceived) for one in heard))
    wait_until(lambda: answering.left == 1)


def test_an_answer_before_the_body(server):
    """The client may send the rest, which is dropped; of very much it is told to stop, and the window of the connection is as wide as before."""
    piece = b"x" * 16_384
    with speaking(server) as client:

        def is_reset(number):
            return any(isinstance(one, h2_events.StreamReset) and one.stream_id == number for one in client.heard)

        for pieces in (3, 2 * WINDOW_BYTES // len(piece)):
            number = client.ask("/early", piece, is_whole=False)
            assert json.loads(client.hear(ended(number))[number])["bytes"] == 0
            for _ in range(pieces):
                if not is_reset(number):
                    client.hear(
                        lambda _, number=number: is_reset(number) or client.frames.local_flow_control_window(number) >= len(piece)
                    )
                if not is_reset(number):
                    client.frames.send_data(number, piece)
                    client.say()
            assert is_reset(number) == (pieces > 3)
            if pieces == 3:
                client.frames.end_stream(number)
                client.say()
        number = client.ask("/", piece)
        assert json.loads(client.hear(ended(number))[number])["bytes"] == len(piece)


def test_an_answer_that_fails(server):
    """Its request is reset, and no other."""
    with speaking(server) as client:
        number = client.ask("/wrong")
        client.hear(ended(number))
        assert [one.error_code for one in client.heard if isinstance(one, h2_events.StreamReset)] == [2]
        number = client.ask("/")
        assert client.hear(ended(number))[number]


def test_too_many_requests_at_once(answering, server):
    """Those beyond the limit are refused, also if the client gives up those before, whose work goes on."""
    with speaking(server) as client:
        slow = [client.ask("/slow") for _ in range(REQUESTS_AT_ONCE)]
        wait_until(lambda: answering.waiting == REQUESTS_AT_ONCE)
        for number in slow:
            client.frames.reset_stream(number)
        client.say()
        number = client.ask("/")
        client.hear(ended(number))
        assert [(one.stream_id, one.error_code) for one in client.heard if isinstance(one, h2_events.StreamReset)] == [
            (number, 7)
        ]
        answering.may_answer.set()

        def is_answered():
            again = client.ask("/")
            return again in client.hear(ended(again))

        wait_until(is_answered)


@pytest.mark.parametrize("said", ["nothing", "half"])
def test_a_client_that_says_nothing_more(answering, monkeypatch, said):
    """Its connection is closed after a while, wherever it stopped; one whose answer takes longer gets it."""
    monkeypatch.setattr(web_server, "SILENCE_S", 0.2)
    with serving(answering) as server, speaking(server) as silent, speaking(server) as patient:
        slow = patient.ask("/slow")
        half = patient.ask("/", b"1", is_whole=False)
        if said == "half":
            silent.ask("/", b"1", is_whole=False)
        else:
            silent.say()
        silent.hear(closed)
        assert silent.is_closed
        patient.hear(ended(half))
        assert any(isinstance(one, h2_events.StreamReset) and one.stream_id == half for one in patient.heard)
        answering.may_answer.set()
        assert json.loads(patient.hear(ended(slow))[slow])["bytes"] == 0


def test_what_is_no_http2(server):
    """Frames that break the protocol end the connection, and the client is told the reason."""
    with speaking(server) as client:
        client.say()
        client.connection.sendall(b"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + bytes(4))  # a window that grows by nothing
        client.hear(lambda heard: any(isinstance(one, h2_events.ConnectionTerminated) for one in heard))
        assert client.heard[-1].error_code == 1


def test_it_ends_when_requests_are_answered(answering, server):
    """A stop waits for the answers to whole requests, not for the other half of one, and takes no more."""
    with speaking(server) as client:
        slow, half = client.ask("/slow"), client.ask("/", b"1", is_whole=False)
        wait_until(lambda: answering.waiting == 1)
        server.stop()
        client.hear(ended(half))
        late = client.ask("/")
        client.hear(ended(late))
        assert not server.has_ended(0.3)
        answering.may_answer.set()
        found = client.hear(closed)
        assert client.is_closed and json.loads(found[slow])["bytes"] == 0 and late not in found and half not in found
        assert server.has_ended(30)


def test_tls_names_the_protocol(answering, tmp_path):
    """A client that speaks both gets HTTP/2, and one that speaks HTTP/1.1 that."""
    files = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=files.certificate)
    with serving(answering, files) as server:
        for is_new in (True, False):
            with httpx.Client(http2=is_new, verify=trusting) as client:
                answer = client.post(f"https://localhost:{server.address[1]}/", content=b"x" * LONG)
            assert (answer.http_version, answer.json()["bytes"]) == ("HTTP/2" if is_new else "HTTP/1.1", LONG)


def test_damaged_frames_end_at_most_their_connection(server, caplog):
    """Whatever becomes of the bytes of three requests, the server answers the next client, and keeps no connection and no request."""
    with speaking(server) as client:
        for _ in range(3):
            number = client.frames.get_next_available_stream_id()
            client.frames.send_headers(number, [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "x")])
            client.frames.send_data(number, b"x" * 50, end_stream=True)
        whole = client.frames.data_to_send()
    chance = random.Random(7)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.choice([1, 2, 20])):
            place = chance.randrange(24, len(damaged))  # behind the preface
            damaged[place : place + chance.choice([0, 1, 9])] = chance.randbytes(chance.choice([0, 1, 9]))
        with speaking(server) as client:
            client.connection.sendall(damaged)
    with speaking(server) as client:
        number = client.ask("/", b"12")
        assert json.loads(client.hear(ended(number))[number])["bytes"] == 2
    state = server._server.server_state
    wait_until(lambda: not state.connections and not state.tasks)
    assert caplog.records == []
