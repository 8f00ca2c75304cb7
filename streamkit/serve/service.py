"""The server's answers, by ASGI: each request is checked, answered by a thread, and refused in words."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from streamkit.expressions.sql.dialect import SPARK
from streamkit.log.log import Log
from streamkit.serve.answers import Answer, StreamAnswer, problem_event, refusal_response
from streamkit.serve.asking import chosen_form, read_parameters
from streamkit.serve.body import read_body, read_fields
from streamkit.serve.connectors import ConnectInterface
from streamkit.serve.forms import EVENTS
from streamkit.serve.health import LogPresence
from streamkit.serve.limits import ServeLimits
from streamkit.serve.live import Live
from streamkit.serve.openapi import PATH as OPENAPI_PATH
from streamkit.serve.openapi import openapi
from streamkit.serve.pages import KINDS, PAGES, page_files
from streamkit.serve.position import position_headers, wait_for_position
from streamkit.serve.refusals import RefusedError, refusal_of
from streamkit.serve.resource import Asked, Resource
from streamkit.serve.routes import RESOURCES
from streamkit.serve.safety import ANSWER_HEADERS, Safety
from streamkit.serve.sql_sessions import SqlSessions
from streamkit.sql.pull.abandonment import AbandonedError, abandoned_unless

Result = TypeVar("Result")
EVENT_HEADERS = {"X-Accel-Buffering": "no"}  # a proxy that keeps events back until there are many shows nothing live
DESCRIPTION = Resource(OPENAPI_PATH, "This description.", lambda asked: openapi(), dict[str, Any])


@final
class Service:
    """Answers by paths; `end` ends streams, `close` gives back what answers needed."""

    def __init__(self, log: Log, safety: Safety, limits: ServeLimits | None = None, sql_dialect: str = SPARK.name) -> None:
        self._log, self._safety, self._sql_dialect = log, safety, sql_dialect
        self._limits = limits or ServeLimits()
        self._presence = LogPresence(log)
        self._connect = ConnectInterface(log, safety)
        self._live: Live | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams = 0
        self._routes = [(Route(one.path, _unused), one) for one in (*RESOURCES, DESCRIPTION, *PAGES)]
        self._made = threading.Lock()

    @property
    def live(self) -> Live:
        """The streams, and the threads of looks."""
        with self._made:
            if self._live is None:
                sql = SqlSessions(self._log, self._sql_dialect)
                self._live = Live(self._log, self._limits.looks, self._limits.changes, self._presence.check, sql)
            return self._live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self._loop = asyncio.get_running_loop()
        gone = asyncio.Event()

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        try:
            if self._connect.has(scope):
                self._presence.check()
                await self._connect(scope, receive, send)
                return
            response = await self._response(scope, heard, gone)
        except AbandonedError:
            return  # who asked has gone
        except Exception as error:  # noqa: BLE001  whatever it is, the sender gets words
            response = self._refused(refusal_of(error))
            if response.status_code == 404 and _is_of_a_person(scope):
                response = Response(
                    page_files()["index.html"], 404, ANSWER_HEADERS, KINDS["html"]
                )  # says that there is no such page
        try:
            await response(scope, heard, send)
        finally:
            if isinstance(response, _EventResponse):
                await response.leave()

    def error(self, code: int, text: str) -> Response:
        """The answer to bytes that are no HTTP."""
        return self._refused(
            RefusedError(
                code,
                "BadRequest",
                text,
                "curl -G --data-urlencode encodes what a URL may not have; other clients send HTTP/1.1 or HTTP/2",
            )
        )

    def end(self) -> None:
        """End all streams, from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.live.end)

    def close(self) -> None:
        """Give back the threads; who is at work is not waited for."""
        self.live.close()

    async def _response(self, scope: Scope, receive: Receive, gone: asyncio.Event) -> Response:
        headers = Headers(scope=scope)
        try:
            resource, names = self._found(scope)
        except RefusedError:
            self._safety.check(headers, is_open=False)  # who may not ask is not told what there is
            raise
        try:
            return await self._checked_response(resource, names, scope, receive, gone)
        except AbandonedError:
            raise
        except Exception as error:
            refused = refusal_of(error)
            if resource.error_facts is not None:
                refused.facts = {**resource.error_facts(refused), **refused.facts}
            raise refused from error

    async def _checked_response(
        self, resource: Resource, names: Mapping[str, str], scope: Scope, receive: Receive, gone: asyncio.Event
    ) -> Response:
        headers = Headers(scope=scope)
        self._safety.check(headers, is_open=resource.is_open)
        if resource.is_change:
            self._safety.check_change()
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, errors="replace")
        values, others = read_parameters(resource, query)
        form = chosen_form(headers.get("Accept"), resource.forms)
        if form == EVENTS and scope["method"] == "HEAD":
            raise RefusedError(
                405,
                "MethodNotAllowed",
                "a stream of events has no end, so it cannot answer HEAD",
                "expected GET",
                {"Allow": "GET"},
            )
        if resource.path != "/health/live" and resource not in PAGES:  # what is wrong with the log, a page says itself
            self._presence.check()
        body = None
        if resource.method != "GET":
            body = await read_body(headers, receive, resource, self._limits.body_bytes)
            values |= {} if resource.body_forms else read_fields(resource, body)
        over = threading.Event()  # where it took too long, nobody waits any longer
        asked = Asked(
            self._log,
            self._limits,
            names,
            values,
            others,
            form,
            self.live,
            headers.get("Last-Event-ID"),
            lambda: not (gone.is_set() or over.is_set()),
            body,
            self._safety.allows_changes,
        )
        listening = asyncio.create_task(_until_gone(receive, gone))
        try:
            return await self._answer(resource, asked, gone)
        except BaseException:
            over.set()
            raise
        finally:
            listening.cancel()

    def _found(self, scope: Scope) -> tuple[Resource, Mapping[str, str]]:
        """What answers the request, and the names in its path; RefusedError says which methods the path has, or that there is none."""
        path, method = scope["path"].rstrip("/") or "/", "GET" if scope["method"] == "HEAD" else scope["method"]
        methods: list[str] = []
        for route, resource in self._routes:
            match, found = route.matches({**scope, "path": path, "root_path": "", "method": "GET"})
            if match is Match.NONE:
                continue
            if resource.method == method:
                return resource, found["path_params"]
            methods += ["GET", "HEAD"] if resource.method == "GET" else [resource.method]
        if methods:
            allowed = ", ".join(methods)
            raise RefusedError(
                405,
                "MethodNotAllowed",
                f"found {scope['method']}; this path takes {allowed}",
                "/openapi.json has all paths",
                {"Allow": allowed},
            )
        raise RefusedError(404, "NotFound", f"there is nothing at {path[:200]}", f"{OPENAPI_PATH} has all paths")

    async def _answer(self, resource: Resource, asked: Asked, gone: asyncio.Event) -> Response:
        headers: dict[str, str] = {}
        if resource.is_of_application:
            application = asked.path["app"]
            if asked["wait_for"] is not None:
                waiting = wait_for_position(
                    asked.log, asked.live, asked.limits, application, asked["wait_for"], asked["wait_seconds"]
                )
                await _unless_gone(waiting, gone)
            headers = await self._looked(position_headers, asked.log, application)
        if resource.method == "GET" or resource.only_asks:
            found = await self._looked(_answer_while_waited_for, resource, asked)
        else:
            found = await self._changed(resource.answer, asked)
        if isinstance(found, StreamAnswer):
            return await self._stream(found)
        answer = found if hasattr(found, "response") else Answer(found)
        response: Response = await self._looked(answer.response, asked.form)
        if len(response.body) > 2 * asked.limits.bytes:
            raise RefusedError(
                413,
                "TooLarge",
                f"the answer has {len(response.body):,} bytes; expected at most {2 * asked.limits.bytes:,}",
                "ask for less at once",
            )
        response.headers.update({**headers, **ANSWER_HEADERS})
        return response

    async def _looked(self, work: Any, *arguments: Any) -> Any:
        """What a look gives, unless too many wait for one, or it takes too long."""
        if self.live.looks >= self._limits.looks + self._limits.waiting_looks:
            raise RefusedError(
                503,
                "Busy",
                f"the server answers {self._limits.looks} requests already, and {self._limits.waiting_looks} wait for their turn",
                "ask again in a moment",
                {"Retry-After": "1"},
            )
        try:
            return await asyncio.wait_for(self.live.run(work, *arguments), self._limits.answer_seconds)
        except asyncio.TimeoutError:
            raise RefusedError(
                504,
                "Timeout",
                f"the answer took longer than {self._limits.answer_seconds:g} seconds",
                "ask for less at once, or again later",
            ) from None

    async def _changed(self, work: Any, *arguments: Any) -> Any:
        """What a change gives; one that takes long goes on when its answer has ended."""
        if self.live.changes >= self._limits.changes + self._limits.waiting_changes:
            raise RefusedError(
                503,
                "Busy",
                f"the server makes {self._limits.changes} changes already, and {self._limits.waiting_changes} wait for their turn",
                "send it again in a moment; nothing was changed",
                {"Retry-After": "1"},
            )
        try:
            return await asyncio.wait_for(self.live.run_change(work, *arguments), self._limits.change_seconds)
        except asyncio.TimeoutError:
            raise RefusedError(
                504,
                "Timeout",
                f"the change takes longer than {self._limits.change_seconds:g} seconds, and goes on",
                "look at its effect before you send it again",
            ) from None

    async def _stream(self, answer: StreamAnswer) -> Response:
        if self.live.is_ending:  # whoever comes again at once would keep the server for seconds
            raise RefusedError(503, "ServerEnds", "the server ends", "ask again once a server is there", {"Retry-After": "5"})
        if self._streams >= self._limits.streams:
            raise RefusedError(
                429,
                "TooManyStreams",
                f"{self._streams} streams are open, and no more may be",
                "close one, or ask again later",
                {"Retry-After": "5"},
            )
        self._streams += 1
        events = answer.events()
        try:
            first = await anext(events)  # an error of the first look is an answer with a status of its own
        except BaseException:
            self._streams -= 1
            await events.aclose()  # type: ignore[attr-defined]
            raise
        return _EventResponse(self, first, events, answer.form)

    def _refused(self, refused: RefusedError) -> Response:
        response = refusal_response(refused)
        response.headers.update(ANSWER_HEADERS)
        return response

    def stream_has_ended(self) -> None:
        """One stream fewer is open."""
        self._streams -= 1


def _is_of_a_person(scope: Scope) -> bool:
    """Whether a browser shows the answer as a page."""
    return "text/html" in Headers(scope=scope).get("Accept", "") and not scope["path"].startswith(("/api/", "/static/"))


def _answer_while_waited_for(resource: Resource, asked: Asked) -> Any:
    """The answer; a question that nobody waits for any more is not begun, and a query of SQL ends."""
    with abandoned_unless(asked.goes_on):
        return resource.answer(asked)


@final
class _EventResponse(StreamingResponse):
    """Server-sent events until they end, or their reader goes away."""

    def __init__(self, service: Service, first: str, events: AsyncIterator[str], form: str) -> None:
        self._service, self._events = service, events
        super().__init__(_all_of(first, events), headers={"Content-Type": form, **ANSWER_HEADERS, **EVENT_HEADERS})

    async def leave(self) -> None:
        """Nobody reads any more."""
        self._service.stream_has_ended()
        with suppress(RuntimeError):
            await self._events.aclose()  # type: ignore[attr-defined]


async def _all_of(first: str, events: AsyncIterator[str]) -> AsyncIterator[str]:
    """The events; an error that comes while they go on is the last of them."""
    yield first
    try:
        async for text in events:
            yield text
    except Exception as error:  # noqa: BLE001  whatever it is, the reader gets words
        yield problem_event(refusal_of(error))


async def _until_gone(receive: Receive, gone: asyncio.Event) -> None:
    while not gone.is_set():
        await receive()


async def _unless_gone(waiting: Awaitable[Result], gone: asyncio.Event) -> Result:
    """The result of a wait, which ends when nobody waits for it any more."""
    wait, leaving = asyncio.ensure_future(waiting), asyncio.ensure_future(gone.wait())
    try:
        await asyncio.wait((wait, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not wait.done():
            raise RefusedError(499, "Gone", "nobody waits any more", "")
        return wait.result()
    finally:
        wait.cancel()
        leaving.cancel()


async def _unused() -> None:
    """Stands in for what a route of Starlette calls: here only its match is asked."""
