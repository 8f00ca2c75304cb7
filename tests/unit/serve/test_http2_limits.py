"""What holds for requests by HTTP/1.1 holds for those by HTTP/2: who may ask, how long bodies may be, how many streams are open, and the end."""

from __future__ import annotations

import json
import logging
import socket
import threading
from contextlib import closing

import httpx
import pytest

from streamkit.serve.limits import ServeLimits
from streamkit.serve.server import Server
from tests.kit.waiting import wait_until
from tests.unit.serve.conftest import events_of

h2 = pytest.importorskip("h2.connection")
RECORDS, EVENTS = "/api/v1/topics/orders/records", {"Accept": "text/event-stream"}
TOKEN = "0123456789abcdef0123456789abcdef"


def client_of(server):
    return httpx.Client(base_url=server.address, http1=False, http2=True, timeout=30)


def test_who_may_ask(log, tmp_path):
    """Pages of elsewhere get nothing, nor does who has not the token; names that point here count as by HTTP/1.1."""
    with Server(log, port=0) as server, client_of(server) as client:
        assert client.get("/api/v1/topics").http_version == "HTTP/2"
        for headers in ({"Origin": "http://elsewhere.test"}, {"Host": "elsewhere.test"}):
            assert client.get("/api/v1/topics", headers=headers).status_code == 403
    (tmp_path / "token").write_text(TOKEN)
    with Server(log, port=0, token_file=str(tmp_path / "token")) as server, client_of(server) as client:
        assert client.get("/api/v1/topics").status_code == 401
        assert client.get("/api/v1/topics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/api/v1/topics", headers={"Cookie": f"a=b; streamkit_token={TOKEN}"}).status_code == 200


def test_a_body_that_does_not_say_its_length(log):
    """It is read if it is short enough; else the answer says so before all of it has come, and the connection goes on."""
    with Server(log, port=0, allows_changes=True, limits=ServeLimits(body_bytes=200_000)) as server, client_of(server) as client:
        for pieces, status in ((3, 200), (30, 413), (3, 200)):
            lines = (b'{"id": 1, "customer": "%s"}\n' % (b"x" * 10_000) for _ in range(pieces))
            answer = client.post(RECORDS, content=lines, headers={"Content-Type": "application/x-ndjson"})
            assert answer.status_code == status, answer.text
        assert (
            "more than 200,000 bytes"
            in client.post(RECORDS, content=iter([b"1" * 300_000]), headers={"Content-Type": "application/json"}).text
        )


def test_streams_of_one_connection_are_limited_and_end(log):
    """As many are open as the server allows, however few connections they have, and a place is free once one is left."""
    seen, events = threading.Event(), []
    with Server(log, port=0, limits=ServeLimits(streams=2)) as server, client_of(server) as client:
        with (
            client_of(server) as leaving,
            leaving.stream("GET", RECORDS, headers=EVENTS) as first,
            leaving.stream("GET", RECORDS, headers=EVENTS) as second,
        ):
            assert {next(events_of(one.iter_lines()))[0] for one in (first, second)} == {"begun"}
            assert client.get(RECORDS, headers=EVENTS).status_code == 429

        def begin():
            with client.stream("GET", RECORDS, headers=EVENTS) as stream:
                return stream.status_code == 200

        wait_until(begin)

        def read():
            with client_of(server) as last, last.stream("GET", RECORDS, headers=EVENTS) as stream:
                for event, _ in events_of(stream.iter_lines()):
                    events.append(event)
                    seen.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert seen.wait(30)
    reader.join(30)
    assert not reader.is_alive() and set(events) <= {"begun", "comment"}


def test_requests_that_are_given_up_are_no_errors(log, caplog):
    """Queries whose requests are reset as soon as they are sent end without a word in the log of the server, which goes on."""
    query = json.dumps({"sql": "SELECT * FROM orders"}).encode()
    with Server(log, port=0) as server, client_of(server) as client:
        host, _, port = server.address.removeprefix("http://").rpartition(":")
        connection = h2.H2Connection()
        with closing(socket.create_connection((host, int(port)))) as other:
            connection.initiate_connection()
            for _ in range(200):
                id = connection.get_next_available_stream_id()
                fields = {":method": "POST", ":scheme": "http", ":path": "/query-stream", ":authority": f"{host}:{port}"}
                connection.send_headers(id, [*fields.items()])
                connection.send_data(id, query, end_stream=True)
                other.sendall(connection.data_to_send())
                connection.reset_stream(id)
                other.sendall(connection.data_to_send())
        wait_until(lambda: client.post("/query-stream", content=query).status_code == 200)
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []
