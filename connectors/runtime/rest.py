"""
A part of Kafka Connect's REST interface, answered by a worker.

It shows the connectors of the log, and pauses, resumes, stops and restarts them; files say which there are, so none is made here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from streamkit.connectors.classes import CLASS, class_of, known_classes
from streamkit.connectors.connector import Connector
from streamkit.connectors.placeholders import has_placeholder
from streamkit.connectors.redaction import Redaction
from streamkit.connectors.request_origin import is_from_elsewhere
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.configurations import read_configurations
from streamkit.connectors.runtime.converters import check_formats
from streamkit.connectors.runtime.positions import read_positions
from streamkit.connectors.runtime.sink_task import group_name
from streamkit.connectors.runtime.status import TaskStatus
from streamkit.connectors.setting import Setting, read_settings, secrets_of
from streamkit.connectors.sink import Sink
from streamkit.connectors.web_server import BodyError, WebServer, length_of_body, listener_at
from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.log import Log

LOOPBACK = "127.0.0.1"
BODY_BYTES_MAX = 1 << 20
_CONNECT_VERSION = "4.3.0"  # whose answers these are
_TYPES = {"string": "STRING", "integer": "INT", "boolean": "BOOLEAN", "list": "LIST", "texts": "LIST"}
_STATES = {status.DONE: "STOPPED"}  # which Connect does not have


class NotFoundError(Exception):
    """There is nothing under that path."""


@contextmanager
def serve_rest(address: str, log: Log, worker: str) -> Iterator[WebServer]:
    """Answer requests within the block; `address` is PORT or HOST:PORT, `worker` the name of who answers. ConfigError if it cannot be listened at."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"--rest {address!r}; expected a port, or HOST:PORT")
    try:
        listener = listener_at(host.strip("[]") or LOOPBACK, int(port))
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--rest {address}: cannot listen there: {error}") from None
    server = WebServer("connect-rest", Rest(log, worker, [host]), listener)
    try:
        yield server
    finally:
        server.stop()
        server.has_ended()


class Rest:
    """The answers, by ASGI, for each method and path; errors are answers too, in Connect's form. `worker` is the name of who answers."""

    def __init__(self, log: Log, worker: str, hosts: Sequence[str] = ()) -> None:
        self._hosts = hosts
        self._log = log
        self._worker = worker
        self.routes = [
            _route("GET", "/", self.root),
            _route("GET", "/connectors", self.connectors),
            _route("GET", "/connectors/{name}", self.connector),
            _route("GET", "/connectors/{name}/config", self.config),
            _route("GET", "/connectors/{name}/status", self.status),
            _route("GET", "/connectors/{name}/tasks", self.tasks),
            _route("GET", "/connectors/{name}/tasks/{task:int}/status", self.task_status),
            _route("GET", "/connectors/{name}/offsets", self.offsets),
            *(_route("PUT", f"/connectors/{{name}}/{to}", partial(self.change, to=to)) for to in ("pause", "resume", "stop")),
            _route("POST", "/connectors/{name}/restart", self.restart, takes={"includeTasks": "true", "onlyFailed": "false"}),
            _route("GET", "/connector-plugins", self.plugins),
            _route("PUT", "/connector-plugins/{name}/config/validate", self.validate, takes_body=True),
        ]
        errors = (HTTPException, BodyError, NotFoundError, StreamKitError)
        self._answers = Starlette(routes=self.routes, exception_handlers=dict.fromkeys(errors, self._refused))
        self._answers.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, unless a web page of elsewhere sent it; a slash at the end of its path says nothing."""
        if is_from_elsewhere(Headers(scope=scope), self._hosts):
            await self.error(403, "the Host or Origin of the request is another one")(scope, receive, send)
            return
        await self.answer(scope, receive, send)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whoever sent it."""
        await self._answers({**scope, "path": urlsplit(scope["path"]).path.rstrip("/") or "/"}, receive, send)

    def error(self, code: int, text: str) -> Response:
        """The answer to a request that is refused."""
        return JSONResponse({"error_code": code, "message": text}, code)

    async def _refused(self, request: Request, error: Exception) -> Response:
        """What was raised, as an answer."""
        path = request.scope["path"]
        match error:
            case HTTPException(status_code=404):
                return self.error(404, f"HTTP 404 Not Found: {path}")
            case HTTPException(status_code=405):
                answer = self.error(
                    405, f"HTTP 405 Method Not Allowed: {request.method} {path}; connectors are declared in files"
                )
            case HTTPException():
                answer = self.error(error.status_code, error.detail)
            case NotFoundError():
                return self.error(404, str(error))
            case BodyError() | ConfigError():
                return self.error(400, str(error))
            case _:
                return self.error(500, str(error))
        answer.headers.update(error.headers or {})
        return answer

    def root(self) -> Any:
        return {"version": _CONNECT_VERSION, "commit": "", "kafka_cluster_id": "streamkit"}

    def connectors(self) -> Any:
        return sorted(self._configurations())

    def connector(self, name: str) -> Any:
        tasks = [_task_id(one) for one in self._found(name)]
        return {"name": name, "config": self._config(name), "tasks": tasks, "type": self._kind(name)}

    def config(self, name: str) -> Any:
        return self._config(name)

    def status(self, name: str) -> Any:
        tasks = self._found(name)
        worker = tasks[0].worker if tasks else self._worker
        return {
            "name": name,
            "connector": {"state": self._connector_state(name, tasks), "worker_id": worker},
            "tasks": [_task(one) for one in tasks],
            "type": self._kind(name),
        }

    def tasks(self, name: str) -> Any:
        config = self._config(name)
        return [{"id": _task_id(one), "config": config} for one in self._found(name)]

    def task_status(self, name: str, task: int) -> Any:
        found = [one for one in self._found(name) if one.task == task]
        if not found:
            raise NotFoundError(f"No status found for task {name}-{task}")
        return _task(found[0])

    def offsets(self, name: str) -> Any:
        self._config(name)
        if group_name(name) not in self._log.groups.names():
            positions = sorted(read_positions(self._log, name).items())
            return {"offsets": [{"partition": {"split": split}, "offset": dict(position)} for split, position in positions]}
        places = self._log.groups.describe(group_name(name)).partitions
        return {
            "offsets": [
                {
                    "partition": {"kafka_topic": one.topic, "kafka_partition": one.partition},
                    "offset": {"kafka_offset": one.committed},
                }
                for one in places
            ]
        }

    def change(self, name: str, to: str) -> Response:
        self._config(name)
        status.ask(self._log, name, is_paused=to == "pause", is_stopped=to == "stop")
        return Response(status_code=204 if to == "stop" else 202)

    def restart(self, name: str) -> Response:
        self._config(name)
        status.ask_restart(self._log, name)
        return Response(status_code=204)

    def plugins(self) -> Any:
        return [
            {"class": name, "type": "sink" if name.endswith("Sink") else "source", "version": _version()}
            for name in known_classes()
        ]

    def validate(self, name: str, body: Any) -> Any:
        if not isinstance(body, dict):
            raise ConfigError("expected the configuration as a JSON object")
        kind = self._class(name)
        if CLASS in body and self._class(str(body[CLASS])) is not kind:
            raise ConfigError(f"found {CLASS}={body[CLASS]}, and the path of {name}; expected the same class in both")
        config = {key: value for key, value in body.items() if key not in (CLASS, "name")}
        redacted = Redaction(secrets_of(kind.declared(), config))
        found = [_validated(one, config, redacted) for one in kind.declared() if not one.is_prefix]
        errors = [error for one in found for error in one["value"]["errors"]]
        if not errors and (said := _refusal(kind, config, redacted)):
            found.append({"definition": {"name": CLASS}, "value": {"name": CLASS, "value": kind.__name__, "errors": [said]}})
            errors.append(said)
        return {"name": kind.__name__, "error_count": len(errors), "groups": [], "configs": found}

    def _class(self, text: str) -> type[Connector]:
        """A class that is StreamKit's own or runs on the log: a request makes no others be imported."""
        known = [*known_classes(), *(config[CLASS] for config in self._configurations().values())]
        if text not in known:
            raise ConfigError(f"there is no class {text!r}; expected one of {', '.join(sorted(set(known)))}")
        return class_of(text)

    def _configurations(self) -> Mapping[str, dict[str, str]]:
        return read_configurations(self._log)

    def _config(self, name: str) -> dict[str, str]:
        found = self._configurations().get(name)
        if found is None:
            raise NotFoundError(f"Connector {name} not found")
        return {"name": name, **found}

    def _found(self, name: str) -> list[TaskStatus]:
        self._config(name)
        return [one for one in status.read_status(self._log) if one.connector == name]

    def _kind(self, name: str) -> str:
        return "sink" if issubclass(class_of(self._config(name)[CLASS]), Sink) else "source"

    def _connector_state(self, name: str, tasks: Sequence[TaskStatus]) -> str:
        """What was asked of it; where that is to run, and no worker has any of its tasks, that nobody does it."""
        asked = status.read_requests(self._log).get(name, status.Request(name))
        is_left = bool(tasks) and all(one.state == status.UNASSIGNED for one in tasks)
        return "STOPPED" if asked.is_stopped else "PAUSED" if asked.is_paused else "UNASSIGNED" if is_left else "RUNNING"


def _task_id(one: TaskStatus) -> dict[str, Any]:
    return {"connector": one.connector, "task": one.task}


def _task(one: TaskStatus) -> dict[str, Any]:
    found = {"id": one.task, "state": _STATES.get(one.state, one.state), "worker_id": one.worker}
    return found | ({"trace": one.trace} if one.trace and one.state in (status.FAILED, status.RESTARTING) else {})


def _validated(setting: Setting, config: Mapping[str, Any], redacted: Redaction) -> dict[str, Any]:
    """A setting and its value, as Connect shows them, without secrets."""
    written = config.get(setting.name)
    errors = []
    try:
        if not has_placeholder(written):  # nobody sees by an error what it stands for
            read_settings("the connector", [setting], {setting.name: written} if setting.name in config else {})
    except ConfigError as error:
        errors = [redacted(str(error))]
    is_required = type(setting.default).__name__ == "Required"
    default = None if is_required or setting.default is None else setting.default
    return {
        "definition": {
            "name": setting.name, "type": "PASSWORD" if setting.is_secret else _TYPES[setting.kind], "required": is_required,
            "default_value": _text(default), "importance": "HIGH" if is_required else "MEDIUM", "documentation": setting.doc,
            "group": None, "width": "NONE", "display_name": setting.name, "dependents": [], "order": -1,
        },
        "value": {
            "name": setting.name, "value": _shown(setting, written if setting.name in config else _text(default), redacted),
            "recommended_values": list(setting.choices), "errors": errors, "visible": True,
        },
    }  # fmt: skip


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _shown(setting: Setting, value: Any, redacted: Redaction) -> Any:
    """A value without what is secret in it, such as the password of an address."""
    if setting.is_secret and value is not None:
        return "[hidden]"
    return redacted(value) if isinstance(value, str) else value


def _refusal(kind: type[Connector], config: Mapping[str, Any], redacted: Redaction) -> str | None:
    """Why the connector would refuse the configuration as a whole; None if it takes it, or if placeholders hide what it is."""
    if any(map(has_placeholder, config.values())):
        return None
    try:
        check_formats(kind("validated", config))
    except ConfigError as error:
        return redacted(str(error))
    return None


def _version() -> str:
    import streamkit

    return streamkit.__version__


def _route(
    verb: str, path: str, answer: Callable[..., Any], *, takes_body: bool = False, takes: Mapping[str, str] = MappingProxyType({})
) -> Route:
    """A route whose answer is computed by a thread, since it reads the log; it `takes` parameters with the one value that says what it does."""

    async def endpoint(request: Request) -> Response:
        _check_parameters(request, f"{verb} {path}", takes)
        body = await _json_of(request)
        found = await asyncio.to_thread(answer, **request.path_params, **({"body": body} if takes_body else {}))
        return found if isinstance(found, Response) else JSONResponse(found)

    return Route(path, endpoint, methods=[verb])


def _check_parameters(request: Request, route: str, takes: Mapping[str, str]) -> None:
    """Refuse a request that asks for something which its answer would not heed."""
    for name, value in request.query_params.multi_items():
        if name not in takes:
            raise HTTPException(
                400, f"the parameter {name!r} is not known to {route}; expected {' or '.join(takes) or 'no parameters'}"
            )
        if value.lower() != takes[name]:
            raise HTTPException(
                400, f"found {name}={value!r}; {route} does only what {name}={takes[name]} says, so expected that, or nothing"
            )


async def _json_of(request: Request) -> Any:
    """The value of the body, None without."""
    if (length_of_body(request.headers) or 0) > BODY_BYTES_MAX:
        raise HTTPException(413, f"expected a body of at most {BODY_BYTES_MAX} bytes", {"Connection": "close"})
    try:
        body = await request.body()
        return json.loads(body) if body.strip() else None
    except ClientDisconnect:
        raise BodyError("the body has not come") from None
    except ValueError as error:
        raise BodyError(f"the body is not JSON: {error}") from None
