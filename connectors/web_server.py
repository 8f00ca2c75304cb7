"""A web server in a thread of its own: uvicorn, and HTTP/2; bytes that are no HTTP are answered in the words of what it serves."""

from __future__ import annotations

import ast
import asyncio
import logging
import re
import socket
import string
import sys
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

SILENCE_S = 30  # of a client that is to say something; then its connection is closed
UNREAD_S = 0.7  # for which a client may read nothing of its answer once the server stops
_CONNECTIONS_WAITING = 2_048
_LOOK_FOR_CLIENT_S = 30  # without a byte from it; then the system asks whether its host is there
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # with which a client of HTTP/2 begins, whether TLS has named the protocol or not
_UNREADABLE_LINE = re.compile(r"illegal request line: bytearray\((b.*)\)", re.DOTALL)
_LINE_SHOWN = 300  # characters
_logger = logging.getLogger(__name__)
_logger.setLevel(logging.ERROR)  # uvicorn warns of each request that is no HTTP, and its sender has the answer


class WebService(Protocol):
    """What a web server serves, by ASGI; it says errors in a form of its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

    def error(self, code: int, text: str) -> Response:
        """The answer to a request that is refused."""


@dataclass(frozen=True)
class TlsFiles:
    """The files with the certificate of a server, and with its key, unless that is in the same one."""

    certificate: str
    key: str | None = None


class WebServer:
    """Serves from when it is made until it is stopped."""

    def __init__(self, name: str, service: WebService, listener: socket.socket, tls: TlsFiles | None = None) -> None:
        self.address: tuple[str, int] = listener.getsockname()[:2]
        config = uvicorn.Config(
            service, http=_HttpProtocol, ws="none", loop="asyncio", lifespan="off", log_config=None, proxy_headers=False,
            server_header=False, timeout_keep_alive=SILENCE_S, timeout_graceful_shutdown=5,
            ssl_certfile=None if tls is None else tls.certificate, ssl_keyfile=None if tls is None else tls.key,
        )  # fmt: skip
        config.load()
        if config.ssl is not None:
            config.ssl.set_alpn_protocols(["h2", "http/1.1"])
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, args=([listener],), name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests; the server ends once those that it has are answered."""
        self._server.should_exit = True

    def has_ended(self, seconds: float | None = None) -> bool:
        """Wait so long, or as long as it takes, for the end."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


def listener_at(host: str, port: int) -> socket.socket:
    """A socket that takes connections; OSError or UnicodeError for a place that this machine has not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sends at once where it sees that it is TCP
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1
        )  # of each connection: a host that vanished reads no stream any more
        if hasattr(socket, "TCP_KEEPIDLE"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _LOOK_FOR_CLIENT_S)
        listener.bind(address)
        listener.listen(_CONNECTIONS_WAITING)
    except BaseException:
        listener.close()
        raise
    return listener


class BodyError(ValueError):
    """The request does not say how long its body is in a way that all servers understand alike."""


def length_of_body(headers: Headers) -> int | None:
    """
    The bytes that `Content-Length` says, None without; BodyError beside `Transfer-Encoding`.

    Lengths that differ, or are not written in digits, are refused before: such a request is no HTTP.
    """
    if coding := headers.get("Transfer-Encoding"):
        raise BodyError(f"found Transfer-Encoding: {coding}; expected a body as it is, with its Content-Length")
    length = headers.get("Content-Length")
    return None if length is None else int(length)


class _HttpProtocol(H11Protocol):
    """
    A connection of uvicorn, with what it leaves open.

    A client may close its side and wait for the answer. One that says nothing is not waited for. A request that is no HTTP gets its reason.
    One that begins as HTTP/2 does is spoken to by HTTP/2.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.logger = _logger
        self.access_log = False  # requests may hold what nobody may see
        self._silence: asyncio.TimerHandle | None = None
        self._first: bytes | None = b""  # what came, until it is clear whether it is HTTP/2
        self.app = partial(_answer, self.app)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._hear()

    def data_received(self, data: bytes) -> None:
        if self._first is not None:
            data = self._first + data
            if len(data) < len(_PREFACE) and _PREFACE.startswith(data):
                self._first = data
                self._hear()
                return
            self._first = None
            if data.startswith(_PREFACE):
                self._speak_http2(data)
                return
        super().data_received(data)
        self._hear()

    def _speak_http2(self, data: bytes) -> None:
        """Leave the connection to another protocol, with all that came."""
        from streamkit.connectors.http2_protocol import Http2Protocol  # with a library that few need

        if self._silence is not None:
            self._silence.cancel()
        self.connections.discard(self)
        protocol = Http2Protocol(self.app, self.server_state, SILENCE_S, UNREAD_S)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a request that is whole, and then close; asyncio would close before. Who reads a stream has gone: a silent one would not notice."""
        if self.cycle is None or self.cycle.response_complete or self.transport.get_extra_info("sslcontext"):
            return False  # TLS has no half-closed connections
        if self.cycle.response_started:
            return False  # other answers are begun and ended in one step
        self.cycle.keep_alive = False
        if self.cycle.more_body:
            self.conn.receive_data(b"")  # h11's word for the end: its error says how much of the body came
            self.handle_events()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._silence is not None:
            self._silence.cancel()

    def shutdown(self) -> None:
        """Do not wait for a body when the server stops, nor for a client that does not read."""
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self.transport.close()
        else:
            super().shutdown()
        self._drop_if_unread(0)

    def _drop_if_unread(self, before_bytes: int) -> None:
        """Give up what waits for a client that has read nothing of it since the last look, and look again while anything waits."""
        waiting_bytes = self.transport.get_write_buffer_size()
        if 0 < before_bytes <= waiting_bytes:
            self.transport.abort()
        elif waiting_bytes or not self.transport.is_closing():
            self.loop.call_later(UNREAD_S, self._drop_if_unread, waiting_bytes)

    def send_400_response(self, msg: str) -> None:
        """Say what h11 found wrong, which uvicorn leaves out, in the service's form."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        answer = self.config.app.error(400, _reason(str(sys.exc_info()[1] or msg)))  # type: ignore[union-attr]  # a WebService
        headers = [*answer.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=answer.body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _hear(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self.loop.call_later(SILENCE_S, self._close_if_silent)

    def _close_if_silent(self) -> None:
        """Unless the answer is awaited, or uvicorn waits for the next request."""
        is_answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if not is_answering and self.timeout_keep_alive_task is None:
            self.transport.close()


def _reason(text: str) -> str:
    """What h11 has found wrong. It gives a line that it cannot read as bytes of Python, and does not know what one who typed the URL would have to do."""
    found = _UNREADABLE_LINE.fullmatch(text)
    if found is None:
        return text
    line: bytes = ast.literal_eval(found[1])
    method, _, rest = line.partition(b" ")
    url, _, version = rest.rpartition(b" ")
    if method.isalpha() and version.startswith(b"HTTP/") and (unencoded := _unencoded(url)):
        return unencoded
    return f"found {_shown(line)}; expected a line such as GET /path HTTP/1.1"


def _unencoded(url: bytes) -> str | None:
    """What to say of a URL that is not percent-encoded."""
    encoded = quote(url, safe=string.punctuation)
    return (
        None
        if encoded.encode() == url
        else f"found the URL {_shown(url)}; expected it percent-encoded, as {encoded[:_LINE_SHOWN]}"
    )


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", "backslashreplace")[:_LINE_SHOWN])


async def _answer(service: WebService, scope: Scope, receive: Receive, send: Send) -> None:
    """
    Let the service answer under the path alone, also where a request names its whole address, as to a proxy.

    HTTP/2 carries a URL that is not percent-encoded, whose texts nobody would find again: it is refused, as h11 refuses it in HTTP/1.1.
    """
    query: bytes = scope["query_string"]
    if unencoded := _unencoded(scope["raw_path"] + (b"?" + query if query else b"")):
        await service.error(400, unencoded)(scope, receive, send)
        return
    if not scope["path"].startswith("/"):
        path = urlsplit(scope["raw_path"].decode("latin-1")).path or "/"
        scope = {**scope, "path": unquote(path), "raw_path": path.encode("latin-1")}
    await service(scope, receive, send)
