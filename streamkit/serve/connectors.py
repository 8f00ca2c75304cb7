"""The connectors of the log: their tasks as values, and Kafka Connect's REST interface, which this server answers as a worker does."""

from __future__ import annotations

from typing import Any, final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from streamkit.connectors.runtime.rest import Rest
from streamkit.connectors.runtime.status import read_requests, read_status
from streamkit.log.log import Log
from streamkit.serve.forms import HTML
from streamkit.serve.resource import Asked, Resource
from streamkit.serve.safety import ANSWER_HEADERS, Safety

PREFIXES = ("/connectors", "/connector-plugins")
NAME = "streamkit-serve"  # as the worker of connectors that none has run


def tasks(asked: Asked) -> list[dict[str, Any]]:
    """The newest state of each task, and what its connector was asked to do last."""
    requests = read_requests(asked.log)
    found = [one.to_json() for one in read_status(asked.log)]
    for one in found:
        request = requests.get(one["connector"])
        one["asked"] = "stop" if request and request.is_stopped else "pause" if request and request.is_paused else "run"
    return found


@final
class ConnectInterface:
    """Kafka Connect's paths; what changes a connector is answered only where changes are allowed."""

    def __init__(self, log: Log, safety: Safety) -> None:
        self._rest, self._safety = Rest(log, NAME), safety

    def has(self, scope: Scope) -> bool:
        """Whether a request is for it; at the same paths a browser is shown pages."""
        path: str = scope["path"]
        wants_page = scope["method"] in ("GET", "HEAD") and HTML in Headers(scope=scope).get("Accept", "")
        return not wants_page and any(path == prefix or path.startswith(f"{prefix}/") for prefix in PREFIXES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, in Connect's form."""
        self._safety.check(Headers(scope=scope), is_open=False)
        if scope["method"] not in ("GET", "HEAD"):
            self._safety.check_change()

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(ANSWER_HEADERS)
            await send(message)

        await self._rest.answer(scope, receive, with_headers)


RESOURCES = (
    Resource(
        "/api/v1/connectors",
        "The tasks of the connectors, as streamkit connect status --json, and what was asked of each: to run, pause or stop.",
        tasks,
        list[dict[str, Any]],
    ),
)
