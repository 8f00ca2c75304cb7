"""The requests to an `HttpSource`: which of them are taken, and how each is answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from streamkit.connectors.web_server import BodyError, length_of_body
from streamkit.errors import RecordTooLargeError, SchemaError

if TYPE_CHECKING:
    from streamkit.connectors.http.source import HttpSource


class Receiver:
    """Answers by ASGI when the source has committed the records, or says why it has not."""

    def __init__(self, source: HttpSource) -> None:
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request by its head if that will do: its body is then not asked for, and not read."""
        request = Request(scope, receive)
        answer = self._refused_head(request)
        if answer is not None:
            answer.headers["Connection"] = "close"
        else:
            try:
                answer = await self._taken(request)
            except ClientDisconnect:
                return
        await answer(scope, receive, send)

    def error(self, code: int, text: str) -> Response:
        """The answer to a request that is refused."""
        return JSONResponse({"error": text}, code)

    def _refused_head(self, request: Request) -> Response | None:
        settings, headers = self._source.settings, request.headers
        if request.method != "POST":
            answer = self.error(405, f"records are posted to {settings['path']}")
            answer.headers["Allow"] = "POST"
            return answer
        try:
            length = length_of_body(headers)
        except BodyError as error:
            return self.error(400, str(error))
        if urlsplit(request.scope["raw_path"].decode()).path != settings["path"]:
            return self.error(404, f"records are posted to {settings['path']}")
        if not self._source.allows(headers.get("Authorization")):
            return self.error(401, "expected Authorization: Bearer and the token")
        if headers.get("Content-Encoding", "identity") != "identity":
            return self.error(
                415, f"found Content-Encoding: {headers['Content-Encoding']}, expected a body that is not compressed"
            )
        if length is None:
            return self.error(411, "expected a Content-Length")
        if length > settings["max.body.bytes"]:
            return self.error(413, f"found {length} bytes, expected at most {settings['max.body.bytes']}")
        if len({key.strip() for key in headers.getlist("Idempotency-Key")}) > 1:
            return self.error(400, "found several Idempotency-Key headers that differ; expected one key for the request")
        return None

    async def _taken(self, request: Request) -> Response:
        key = request.headers.get("Idempotency-Key", "").strip() or None
        body = await request.body()
        try:
            posted = await asyncio.to_thread(self._source.read, body, key)
            is_committed = await self._source.post(posted)
        except SchemaError as error:
            code = 413 if isinstance(error, RecordTooLargeError) else 400
            return self.error(code, self._source.redacted(str(error)))
        if not is_committed:
            return self.error(503, "the records could not be committed in time; send them again, with the same Idempotency-Key")
        return JSONResponse({"records": posted.rows.num_rows})
