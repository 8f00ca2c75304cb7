"""A connection by HTTP/2: h2 reads and writes its frames, and each request in it is answered on its own, by ASGI."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, Event, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from starlette.types import ASGIApp, Message, Scope
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

REQUESTS_AT_ONCE = 100
WINDOW_BYTES = 1 << 20  # of bodies, which may come before somebody reads them: of one request, and of all of a connection
_OF_A_CONNECTION = (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
_FIRST_WINDOW_BYTES = 65_535
_logger = logging.getLogger(__name__)


class Http2Protocol(asyncio.Protocol):
    """
    Takes over from uvicorn's protocol where a client begins with the preface.

    It is closed when its client says nothing for so long and no answer is awaited, as by HTTP/1.1, and once the server stops, when its client
    takes nothing of its answers for so long.
    """

    def __init__(self, service: ASGIApp, server: ServerState, silence_s: float, unread_s: float) -> None:
        self.service, self.server, self._silence_s, self._unread_s = service, server, silence_s, unread_s
        self.frames = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self.frames.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: REQUESTS_AT_ONCE,
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: 1 << 16,
            },
        )
        self.is_writable = True
        self.moved = asyncio.Event()  # more may be written, or never again
        self._requests: dict[int, _Http2Request] = {}  # a request that the client has cancelled too, until its work has ended
        self._dropped: dict[int, int] = {}  # bytes of bodies that arrived after the answer
        self._is_ending = False
        self.sent_bytes, self.held = 0, 0  # of answers, and how many of these wait until the client takes more
        self._silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.server.connections.add(self)  # type: ignore[arg-type]  # uvicorn names its own classes, and calls shutdown
        self.frames.initiate_connection()
        self.frames.increment_flow_control_window(WINDOW_BYTES - _FIRST_WINDOW_BYTES)
        self.flush()
        self._hear()

    def data_received(self, data: bytes) -> None:
        self._hear()
        try:
            for event in self.frames.receive_data(data):
                self._take(event)
        except ProtocolError:  # h2 has written down why, for the client
            self.flush()
            self.transport.close()
            return
        self.flush()

    def pause_writing(self) -> None:
        """Read nothing from a client that reads nothing, since frames are answered by frames."""
        self.is_writable = False
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_writable = True
        self.moved.set()
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        if self._silence is not None:
            self._silence.cancel()
        for request in self._requests.values():
            request.lose()
        self.moved.set()

    def shutdown(self) -> None:
        """Answer what was asked, but do not wait for bodies; uvicorn calls this when the server stops."""
        self._is_ending = True
        self._drop_halves()
        self._close_if_done()
        self._drop_if_unread(-1)

    def _drop_if_unread(self, before_bytes: int) -> None:
        """Give up a client that has taken nothing of its answers since the last look, and look again while any goes on."""
        if self.transport.is_closing():
            return
        if self.held and self.sent_bytes == before_bytes:
            self.transport.abort()
        else:
            asyncio.get_running_loop().call_later(self._unread_s, self._drop_if_unread, self.sent_bytes)

    def flush(self) -> None:
        """Write the frames that are due."""
        if (data := self.frames.data_to_send()) and not self.transport.is_closing():
            self.transport.write(data)

    def reset(self, id: int, reason: ErrorCodes) -> None:
        """End a request before it is over, unless it has ended meanwhile."""
        try:
            self.frames.reset_stream(id, reason)
        except ProtocolError:
            return
        self.flush()

    def leave(self, request: _Http2Request, *, drops_body: bool) -> None:
        """Its work has ended; more of its body may still arrive."""
        del self._requests[request.id]
        if drops_body:
            self._dropped[request.id] = 0
        self._hear()
        self._close_if_done()

    def _take(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            if self._is_ending or len(self._requests) >= REQUESTS_AT_ONCE:
                self.reset(event.stream_id, ErrorCodes.REFUSED_STREAM)
                return
            request = _Http2Request(self, event.stream_id, dict(event.headers), list(event.headers))
            self._requests[event.stream_id] = request
            task = asyncio.get_running_loop().create_task(request.run())
            self.server.tasks.add(task)
            task.add_done_callback(self.server.tasks.discard)
        elif isinstance(event, ConnectionTerminated):
            self.transport.close()
        elif isinstance(event, DataReceived):
            if event.stream_id in self._requests:
                self._requests[event.stream_id].add(event.data, event.flow_controlled_length)
            else:
                self._drop(event)
        elif isinstance(event, StreamEnded | StreamReset):
            self._dropped.pop(event.stream_id, None)
            if event.stream_id in self._requests:
                self._requests[event.stream_id].end(is_whole=isinstance(event, StreamEnded))
        self.moved.set()  # a window may be wider, or a request is over

    def _drop(self, data: DataReceived) -> None:
        """
        Of a body that was answered before its end some is taken and dropped, then the client is told to stop.

        Clients that send all of a body before they read would otherwise never see the answer.
        """
        self.frames.acknowledge_received_data(data.flow_controlled_length, data.stream_id)
        if data.stream_id in self._dropped:
            self._dropped[data.stream_id] += len(data.data)
            if self._dropped[data.stream_id] > WINDOW_BYTES:
                del self._dropped[data.stream_id]
                self.reset(data.stream_id, ErrorCodes.NO_ERROR)

    def _hear(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        if not self.transport.is_closing():
            self._silence = asyncio.get_running_loop().call_later(self._silence_s, self._close_if_silent)

    def _close_if_silent(self) -> None:
        """Unless an answer is awaited; a body is not waited for."""
        if all(not one.is_whole for one in self._requests.values()):
            self._is_ending = True
            self.frames.close_connection()
            self.flush()
            self.transport.close()
        else:
            self._drop_halves()

    def _drop_halves(self) -> None:
        for id in self._dropped:
            self.reset(id, ErrorCodes.NO_ERROR)
        self._dropped = {}
        for request in self._requests.values():
            if not request.is_whole:
                self.reset(request.id, ErrorCodes.CANCEL)
                request.lose()

    def _close_if_done(self) -> None:
        if self._is_ending and not self._requests and not self.transport.is_closing():
            self.frames.close_connection()
            self.flush()
            self.transport.close()


class _Http2Request:
    """A request, and how far its answer is."""

    def __init__(self, connection: Http2Protocol, id: int, named: dict[bytes, bytes], headers: list[tuple[bytes, bytes]]) -> None:
        self.id, self.is_whole = id, False
        self._connection = connection
        self._body, self._unacknowledged = bytearray(), 0
        self._is_told = self._is_lost = self._is_answered = False  # whether the end of the body was told, …
        self._heard = asyncio.Event()
        path, _, query = named.get(b":path", b"").partition(b"?")
        fields = [(name, value) for name, value in headers if not name.startswith(b":")]
        if b"host" not in named:
            fields.append((b"host", named.get(b":authority", b"")))
        self._scope: Scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "2", "root_path": "",
            "server": get_local_addr(connection.transport), "client": get_remote_addr(connection.transport),
            "scheme": "https" if is_ssl(connection.transport) else "http", "method": named[b":method"].decode("latin-1"),
            "path": unquote(path.decode("latin-1")), "raw_path": path, "query_string": query, "headers": fields,
        }  # fmt: skip

    async def run(self) -> None:
        """Let the service answer; what it leaves open is closed."""
        try:
            await self._connection.service(self._scope, self._receive, self._send)
        except Exception:  # one request that fails ends no other
            _logger.exception("an answer failed by an unexpected error")
        finally:
            self._acknowledge()
            if not (self._is_lost or self._is_answered):
                self._connection.reset(self.id, ErrorCodes.INTERNAL_ERROR)
            self._connection.leave(self, drops_body=self._is_answered and not (self._is_lost or self.is_whole))

    def add(self, data: bytes, length: int) -> None:
        """A piece of the body came, in a frame of a length."""
        self._body += data
        self._unacknowledged += length
        self._heard.set()

    def end(self, *, is_whole: bool) -> None:
        """The body has ended, or the client has given the request up."""
        self.is_whole = self.is_whole or is_whole
        if not is_whole:
            self.lose()
        self._heard.set()

    def lose(self) -> None:
        """Nobody waits for the answer."""
        self._is_lost = True
        self._heard.set()

    async def _receive(self) -> Message:
        while not (self._unacknowledged or self._is_lost or self._is_answered or (self.is_whole and not self._is_told)):
            self._heard.clear()
            await self._heard.wait()
        if self._is_lost or self._is_answered:
            return {"type": "http.disconnect"}
        body, self._is_told = bytes(self._body), self.is_whole
        self._body.clear()
        self._acknowledge()
        return {"type": "http.request", "body": body, "more_body": not self._is_told}

    async def _send(self, message: Message) -> None:
        frames = self._connection.frames
        if self._is_lost or self._connection.transport.is_closing():
            return
        if message["type"] == "http.response.start":
            given: list[tuple[bytes, bytes]] = [*self._connection.server.default_headers, *message.get("headers", ())]
            headers = [(name.lower(), value) for name, value in given if name.lower() not in _OF_A_CONNECTION]
            frames.send_headers(self.id, [(b":status", str(message["status"]).encode()), *headers])
            self._connection.flush()
            return
        data = memoryview(b"" if self._scope["method"] == "HEAD" else message.get("body", b""))
        while data:
            size = min(len(data), frames.local_flow_control_window(self.id), frames.max_outbound_frame_size)
            if size > 0 and self._connection.is_writable:
                frames.send_data(self.id, bytes(data[:size]))
                self._connection.flush()
                self._connection.sent_bytes += size
                data = data[size:]
                continue
            self._connection.moved.clear()
            self._connection.held += 1
            try:
                await self._connection.moved.wait()
            finally:
                self._connection.held -= 1
            if self._is_lost or self._connection.transport.is_closing():
                return
        if not message.get("more_body", False):
            frames.end_stream(self.id)
            self._connection.flush()
            self._is_answered = True
            self._heard.set()

    def _acknowledge(self) -> None:
        """Tell the client that it may send as much again."""
        if self._unacknowledged and not self._connection.transport.is_closing():
            self._connection.frames.acknowledge_received_data(self._unacknowledged, self.id)
            self._connection.flush()
        self._unacknowledged = 0
