"""Who may ask, and what is said to those who may not."""

from __future__ import annotations

import base64
import json
import socket

import pytest

from streamkit.errors import ConfigError
from streamkit.serve.safety import Safety
from streamkit.serve.server import Server
from tests.unit.serve.conftest import serving

TOKEN = "0123456789abcdef0123"
TOPICS = "/api/v1/topics"


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return str(path)


def test_pages_of_elsewhere_get_nothing(api):
    """A Host or an Origin that is not the server's own is refused; its own pages and programs are answered."""
    own = str(api.base_url).rstrip("/")
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "[::1"}):
        answer = api.get(TOPICS, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden")
    for headers in ({}, {"Origin": own}, {"Host": "localhost:1"}, {"Host": "127.0.0.1"}, {"Host": "[::1]:80"}):
        assert api.get(TOPICS, headers=headers).status_code == 200


def test_what_browsers_may_do_with_answers(api):
    """All answers, errors too, let a browser load nothing from elsewhere, guess no type, and keep nothing."""
    for path in (TOPICS, "/nothing", "/api/v1/topics/nothing", "/metrics", "/health/live", "/openapi.json"):
        headers = api.get(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
        assert "Access-Control-Allow-Origin" not in headers


def test_who_has_the_token(log, token_file):
    """By header or by cookie; without it, only whether the server lives is told, not even which paths there are."""
    with serving(log, token_file=token_file) as client:
        for path in (TOPICS, "/nothing", "/metrics", "/openapi.json", "/api/v1/applications/x/events"):
            for headers in (
                {},
                {"Authorization": f"Bearer {TOKEN}x"},
                {"Authorization": f"Bearer {TOKEN[:-1]}"},
                {"Authorization": f"Basic {TOKEN}"},
                {"Authorization": f"Basic {base64.b64encode(f'{TOKEN}:'.encode()).decode()}"},
                {"Authorization": "Basic ="},
                {"Cookie": "streamkit_token=no"},
            ):
                answer = client.get(path, headers=headers)
                assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
                assert TOKEN not in answer.text
        basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
        for headers in (
            {"Authorization": f"Bearer {TOKEN}"},
            {"Authorization": f"Basic {basic}"},
            {"Cookie": f"a=b; streamkit_token={TOKEN}"},
        ):
            assert client.get(TOPICS, headers=headers).status_code == 200
            assert client.get(TOPICS, headers={**headers, "Host": "shop.example"}).status_code == 200
            assert client.get(TOPICS, headers={**headers, "Origin": "http://evil.example"}).status_code == 403
        assert client.get("/health/live").status_code == client.get("/health/ready").status_code == 200


def test_others_reach_it_only_with_a_token(log, token_file):
    """An address that is not loopback is refused without a token, in words that say what to do."""
    for host in ("0.0.0.0", "::", "192.0.2.1", "shop.example"):
        with pytest.raises(ConfigError, match=r"can be reached by others.*--token-file FILE"):
            Server(log, host, 0)
    with serving(log, host="0.0.0.0", token_file=token_file) as client:
        assert client.get(TOPICS, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("text", ["", "short", "two words of some length", "é" * 20])
def test_a_token_that_is_none(tmp_path, text):
    """A file without one good word is refused, and what it holds is not told."""
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigError, match="has no good token") as error:
        Safety.of("127.0.0.1", str(tmp_path / "token"))
    assert not text or text not in str(error.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        Safety.of("127.0.0.1", str(tmp_path / "nothing"))


def test_it_only_reads(api):
    """Every other method is refused, and says which are not."""
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        answer = api.request(method, TOPICS)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    answer = api.head(TOPICS)
    assert (answer.status_code, answer.content) == (200, b"")


def test_what_is_no_http(api):
    """It gets the reason in the form of all errors."""
    with socket.create_connection((api.base_url.host, api.base_url.port), 10) as connection:
        connection.sendall(b"no HTTP\r\n\r\n")
        said = b""
        while piece := connection.recv(1 << 16):
            said += piece
    assert said.startswith(b"HTTP/1.1 400") and b'"hint"' in said and b"default-src 'self'" in said


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "GET /x?city=Łódź&n=%20 HTTP/1.1",
            "found the URL '/x?city=Łódź&n=%20'; expected it percent-encoded, as /x?city=%C5%81%C3%B3d%C5%BA&n=%20",
        ),
        ("GET /x?where=a > 1 HTTP/1.1", "found the URL '/x?where=a > 1'; expected it percent-encoded, as /x?where=a%20>%201"),
        ("hello there", "found 'hello there'; expected a line such as GET /path HTTP/1.1"),
        ("GET /x", "found 'GET /x'; expected a line such as GET /path HTTP/1.1"),
        (b"GET /\xff HTTP/1.1", r"found the URL '/\\xff'; expected it percent-encoded, as /%FF"),
    ],
)
def test_a_url_that_is_not_encoded(api, line, words):
    """It is shown as it was typed, and as it has to be, as is a line that is no request at all."""
    with socket.create_connection((api.base_url.host, api.base_url.port), 10) as connection:
        connection.sendall((line if isinstance(line, bytes) else line.encode()) + b"\r\nHost: x\r\n\r\n")
        said = b""
        while piece := connection.recv(1 << 16):
            said += piece
    answer = json.loads(said.partition(b"\r\n\r\n")[2])
    assert answer["message"] == words and "--data-urlencode" in answer["hint"]
