"""
A part of Kafka Connect's REST interface, answered by a worker.

It shows the connectors of the log, and pauses, resumes, stops and restarts them; files say which there are, so none is made here.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit

from streamkit.connectors.classes import CLASS, class_of, known_classes
from streamkit.connectors.connector import Connector
from streamkit.connectors.placeholders import has_placeholder
from streamkit.connectors.redaction import Redaction
from streamkit.connectors.request_body import BodyError, length_of_body, whole_body
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.configurations import read_configurations
from streamkit.connectors.runtime.positions import read_positions
from streamkit.connectors.runtime.sink_task import group_name
from streamkit.connectors.runtime.status import TaskStatus
from streamkit.connectors.runtime.worker import Worker
from streamkit.connectors.setting import Setting, read_settings, secrets_of
from streamkit.connectors.sink import Sink
from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.log import Log

LOOPBACK = "127.0.0.1"
BODY_BYTES_MAX = 1 << 20
_CONNECT_VERSION = "4.3.0"  # whose answers these are
_TYPES = {"string": "STRING", "integer": "INT", "boolean": "BOOLEAN", "list": "LIST", "texts": "LIST"}
_STATES = {status.DONE: "STOPPED"}  # which Connect does not have


@dataclass(frozen=True)
class Answer:
    """What a request gets; a body of None is no body."""

    code: int
    body: Any = None


class NotFoundError(Exception):
    """There is nothing under that path."""


@contextmanager
def serve_rest(address: str, log: Log, worker: Worker) -> Iterator[ThreadingHTTPServer]:
    """Answer requests within the block; `address` is PORT or HOST:PORT. ConfigError if it cannot be listened at."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"--rest {address!r}; expected a port, or HOST:PORT")
    try:
        server = ThreadingHTTPServer((host.strip("[]") or LOOPBACK, int(port)), _handler(Rest(log, worker, [host])))
    except OSError as error:
        raise ConfigError(f"--rest {address}: cannot listen there: {error}") from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="connect-rest", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Rest:
    """The answers, by method and path."""

    def __init__(self, log: Log, worker: Worker, hosts: Sequence[str] = ()) -> None:
        self.hosts = hosts
        self._log = log
        self._worker = worker
        self._routes: list[tuple[str, re.Pattern[str], Callable[..., Answer]]] = [
            (method, re.compile(path), answer)
            for method, path, answer in (
                ("GET", r"/", self.root),
                ("GET", r"/connectors", self.connectors),
                ("GET", r"/connectors/([^/]+)", self.connector),
                ("GET", r"/connectors/([^/]+)/config", self.config),
                ("GET", r"/connectors/([^/]+)/status", self.status),
                ("GET", r"/connectors/([^/]+)/tasks", self.tasks),
                ("GET", r"/connectors/([^/]+)/tasks/(\d+)/status", self.task_status),
                ("GET", r"/connectors/([^/]+)/offsets", self.offsets),
                ("PUT", r"/connectors/([^/]+)/(pause|resume|stop)", self.change),
                ("POST", r"/connectors/([^/]+)/restart", self.restart),
                ("GET", r"/connector-plugins", self.plugins),
                ("PUT", r"/connector-plugins/([^/]+)/config/validate", self.validate),
            )
        ]

    def answer(self, method: str, path: str, body: Any) -> Answer:
        """The answer to a request; errors are answers too, in Connect's form."""
        plain = path.rstrip("/") or "/"
        found = [(verb, match, answer) for verb, pattern, answer in self._routes if (match := pattern.fullmatch(plain))]
        if not found:
            return _error(404, f"HTTP 404 Not Found: {path}")
        for verb, match, answer in found:
            if verb == method:
                try:
                    return answer(*map(unquote, match.groups()), **({} if body is None else {"body": body}))
                except NotFoundError as error:
                    return _error(404, str(error))
                except ConfigError as error:
                    return _error(400, str(error))
                except StreamKitError as error:
                    return _error(500, str(error))
        return _error(405, f"HTTP 405 Method Not Allowed: {method} {path}; files say which connectors there are")

    def root(self, body: Any = None) -> Answer:
        return Answer(200, {"version": _CONNECT_VERSION, "commit": "", "kafka_cluster_id": "streamkit"})

    def connectors(self, body: Any = None) -> Answer:
        return Answer(200, sorted(self._configurations()))

    def connector(self, name: str, body: Any = None) -> Answer:
        return Answer(
            200,
            {
                "name": name,
                "config": self._config(name),
                "tasks": [_task_id(one) for one in self._found(name)],
                "type": self._kind(name),
            },
        )

    def config(self, name: str, body: Any = None) -> Answer:
        return Answer(200, self._config(name))

    def status(self, name: str, body: Any = None) -> Answer:
        tasks = self._found(name)
        return Answer(
            200,
            {
                "name": name,
                "connector": {"state": self._connector_state(name), "worker_id": tasks[0].worker if tasks else self._worker.name},
                "tasks": [_task(one) for one in tasks],
                "type": self._kind(name),
            },
        )

    def tasks(self, name: str, body: Any = None) -> Answer:
        config = self._config(name)
        return Answer(200, [{"id": _task_id(one), "config": config} for one in self._found(name)])

    def task_status(self, name: str, task: str, body: Any = None) -> Answer:
        found = [one for one in self._found(name) if one.task == int(task)]
        if not found:
            raise NotFoundError(f"No status found for task {name}-{task}")
        return Answer(200, _task(found[0]))

    def offsets(self, name: str, body: Any = None) -> Answer:
        self._config(name)
        if group_name(name) in self._log.groups():
            places = self._log.describe_group(group_name(name)).partitions
            found = [
                {
                    "partition": {"kafka_topic": one.topic, "kafka_partition": one.partition},
                    "offset": {"kafka_offset": one.committed},
                }
                for one in places
            ]
        else:
            found = [
                {"partition": {"split": split}, "offset": dict(position)}
                for split, position in sorted(read_positions(self._log, name).items())
            ]
        return Answer(200, {"offsets": found})

    def change(self, name: str, to: str, body: Any = None) -> Answer:
        self._config(name)
        status.ask(self._log, name, is_paused=to == "pause", is_stopped=to == "stop")
        return Answer(204 if to == "stop" else 202)

    def restart(self, name: str, body: Any = None) -> Answer:
        self._config(name)
        status.ask_restart(self._log, name)
        return Answer(204)

    def plugins(self, body: Any = None) -> Answer:
        return Answer(
            200,
            [
                {"class": name, "type": "sink" if name.endswith("Sink") else "source", "version": _version()}
                for name in known_classes()
            ],
        )

    def validate(self, name: str, body: Any = None) -> Answer:
        if not isinstance(body, dict):
            raise ConfigError("expected the configuration as a JSON object")
        kind = self._class(str(body.get(CLASS, name)))
        config = {key: value for key, value in body.items() if key not in (CLASS, "name")}
        found = [_validated(one, config) for one in kind.declared() if not one.is_prefix]
        errors = [error for one in found for error in one["value"]["errors"]]
        if not errors and (said := _refusal(kind, config)):
            found.append({"definition": {"name": CLASS}, "value": {"name": CLASS, "value": kind.__name__, "errors": [said]}})
            errors.append(said)
        return Answer(200, {"name": kind.__name__, "error_count": len(errors), "groups": [], "configs": found})

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
        tasks = int(self._config(name)["tasks.max"])
        return [one for one in status.read_status(self._log) if one.connector == name and one.task < tasks]

    def _kind(self, name: str) -> str:
        return "sink" if issubclass(class_of(self._config(name)[CLASS]), Sink) else "source"

    def _connector_state(self, name: str) -> str:
        asked = status.read_requests(self._log).get(name, status.Request(name))
        return "STOPPED" if asked.is_stopped else "PAUSED" if asked.is_paused else "RUNNING"


def _task_id(one: TaskStatus) -> dict[str, Any]:
    return {"connector": one.connector, "task": one.task}


def _task(one: TaskStatus) -> dict[str, Any]:
    found = {"id": one.task, "state": _STATES.get(one.state, one.state), "worker_id": one.worker}
    return found | ({"trace": one.trace} if one.trace and one.state in (status.FAILED, status.RESTARTING) else {})


def _validated(setting: Setting, config: Mapping[str, Any]) -> dict[str, Any]:
    """A setting and its value, as Connect shows them."""
    written = config.get(setting.name)
    errors = []
    try:
        if not has_placeholder(written):  # nobody sees by an error what it stands for
            read_settings("the connector", [setting], {setting.name: written} if setting.name in config else {})
    except ConfigError as error:
        errors = [str(error)]
    is_required = type(setting.default).__name__ == "Required"
    default = None if is_required or setting.default is None else setting.default
    return {
        "definition": {
            "name": setting.name, "type": "PASSWORD" if setting.is_secret else _TYPES[setting.kind], "required": is_required,
            "default_value": _text(default), "importance": "HIGH" if is_required else "MEDIUM", "documentation": setting.doc,
            "group": None, "width": "NONE", "display_name": setting.name, "dependents": [], "order": -1,
        },
        "value": {
            "name": setting.name, "value": _hidden(setting, written if setting.name in config else _text(default)),
            "recommended_values": list(setting.choices), "errors": errors, "visible": True,
        },
    }  # fmt: skip


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _hidden(setting: Setting, value: Any) -> Any:
    return "[hidden]" if setting.is_secret and value is not None else value


def _refusal(kind: type[Connector], config: Mapping[str, Any]) -> str | None:
    """Why the connector would refuse the configuration as a whole; None if it takes it, or if placeholders hide what it is."""
    if any(map(has_placeholder, config.values())):
        return None
    try:
        kind("validated", config)
    except ConfigError as error:
        return Redaction(secrets_of(kind.declared(), config))(str(error))
    return None


def _error(code: int, message: str) -> Answer:
    return Answer(code, {"error_code": code, "message": message})


def _version() -> str:
    import streamkit

    return streamkit.__version__


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _handler(rest: Rest) -> type[BaseHTTPRequestHandler]:
    class RestHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30  # of a client that says nothing

        def handle_request(self) -> None:
            try:
                length = length_of_body(self.headers) or 0
                if length > BODY_BYTES_MAX:
                    self.close_connection = True
                    self.reply(_error(413, f"expected a body of at most {BODY_BYTES_MAX} bytes"))
                    return
                body = whole_body(self.rfile, length)
            except BodyError as error:
                self.close_connection = True
                self.reply(_error(400, str(error)))
                return
            if not self.is_for_us():
                self.reply(_error(403, "the Host or Origin of the request is another one"))
                return
            try:
                value = json.loads(body) if body.strip() else None
            except ValueError as error:
                self.reply(_error(400, f"the body is not JSON: {error}"))
                return
            self.reply(rest.answer(self.command, urlsplit(self.path).path, value))

        def is_for_us(self) -> bool:
            """Whether no web page of elsewhere sent it: such a page can reach loopback by the user's browser, under a name of its own."""
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
            return self.headers.get("Origin") is None and (host == "localhost" or host in rest.hosts or _is_address(host))

        def reply(self, answer: Answer) -> None:
            body = b"" if answer.body is None else json.dumps(answer.body).encode()
            self.send_response(answer.code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Requests are not logged."""

    for verb in ("GET", "PUT", "POST", "DELETE", "PATCH"):
        setattr(RestHandler, f"do_{verb}", RestHandler.handle_request)
    return RestHandler
