"""`streamkit connect`: run connectors, see how they are, and stop, resume and move them."""

from __future__ import annotations

import datetime as dt
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from streamkit.cli.terminal.interruption import interruption
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_json, show_line, show_note
from streamkit.cli.terminal.table import show_table
from streamkit.connectors.connector import Connector
from streamkit.connectors.connector_file import read_connectors
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.configurations import class_of_connector, topics_of_sink
from streamkit.connectors.runtime.converters import check_formats
from streamkit.connectors.runtime.declared_connectors import read_declared
from streamkit.connectors.runtime.declared_runner import DeclaredRunner
from streamkit.connectors.runtime.positions import change_positions, check_position, read_positions
from streamkit.connectors.runtime.sink_task import group_name, reset_group
from streamkit.connectors.runtime.status import TaskStatus
from streamkit.connectors.runtime.worker import Worker
from streamkit.connectors.source import Source
from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.log import Log
from streamkit.log.opening import open_existing_log, open_log

program = typer.Typer(help="Run connectors, and show their state.", no_args_is_help=True, rich_markup_mode=None)
offsets = typer.Typer(help="Show and set the positions of connectors.", no_args_is_help=True, rich_markup_mode=None)
program.add_typer(offsets, name="offsets")

ConnectorsFile = Annotated[Path, typer.Argument(metavar="FILE", help="The connectors, as JSON or properties.")]
OptionalConnectorsFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]",
        help="The connectors, as JSON or properties; without it the connectors of CREATE CONNECTOR.",
        show_default=False,
    ),
]
ConnectorArgument = Annotated[str, typer.Argument(metavar="CONNECTOR", help="The connector's name.")]
TopologyFile = Annotated[
    str, typer.Argument(metavar="TOPOLOGY", help="A Python file with one topology at module level, or a file in SQL.")
]
WAIT_SECONDS = 0.2
LINE_SECONDS = 10.0


@program.command("run")
def run_connectors(
    file: OptionalConnectorsFile = None,
    once: Annotated[bool, typer.Option("--once", help="Move the rows that are there now, then stop.")] = False,
    rest: Annotated[
        str | None,
        typer.Option(
            "--rest",
            metavar="[HOST:]PORT",
            help="Also answer a part of Kafka Connect's REST interface; HOST is 127.0.0.1 unless given.",
        ),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Run the connectors of a file, or of statements in SQL, until interrupted.

    Other workers with the same file share their tasks. FILE is {"name": …, "config": {…}}, a list of such, or properties. Without FILE it
    runs the connectors that CREATE CONNECTOR has declared in the log, and follows statements that add and drop them.
    """
    if file is None:
        _run_declared(log, rest, once, as_json)
        return
    _run_once_or_on(_read(file), open_log(log), once, rest, as_json)


def _run_declared(location: str | None, rest: str | None, once: bool, as_json: bool) -> None:
    """Run the connectors of statements; with `once` only the present ones."""
    log = open_existing_log(location)
    if once:
        connectors = [one.made() for one in read_declared(log).values()]
        _run_once_or_on(connectors, log, once, rest, as_json)
        return
    with log, interruption() as interrupted, _answering(rest, log, socket.gethostname()), DeclaredRunner(log):
        while not interrupted.wait(WAIT_SECONDS):
            pass


def _run_once_or_on(connectors: list[Connector], log: Log, once: bool, rest: str | None, as_json: bool) -> None:
    """Run connectors with one worker, to the end of the present rows or until interrupted, and show how they ended."""
    with log as opened, interruption() as interrupted:
        worker = Worker(connectors, opened, is_once=once)
        failure: BaseException | None = None
        with _answering(rest, opened, worker.name):
            try:
                worker.start()
                _follow(worker, interrupted)
                worker.stop()
            except Exception as error:  # noqa: BLE001  said after the table
                failure = error
        _show(worker.status(), as_json)
    if failure is not None:
        raise _for_users(failure, worker)


def _answering(rest: str | None, log: Log, worker: str) -> AbstractContextManager[object]:
    """A block in which REST is answered, if an address is given; the web server is loaded only then."""
    if rest is None:
        return nullcontext()
    from streamkit.connectors.runtime.rest import serve_rest

    return serve_rest(rest, log, worker)


def _for_users(error: BaseException, worker: Worker) -> BaseException:
    """An error as it may be shown: without secrets, and in place of a foreign library's traceback what it says."""
    text = worker.redacted(str(error))
    if isinstance(error, StreamKitError) and text == str(error):
        return error
    return StreamKitError(f"{type(error).__name__}: {text}; `streamkit connect status` shows where it was raised")


def _follow(worker: Worker, interrupted: Event) -> None:
    """Wait for the end of a worker, or an interrupt; on a terminal, say now and then how far it is."""
    said = time.monotonic()
    while not interrupted.is_set() and not worker.wait(WAIT_SECONDS):
        if sys.stderr.isatty() and time.monotonic() - said >= LINE_SECONDS:
            show_note(progress_line(worker.status()))
            said = time.monotonic()


def progress_line(found: list[TaskStatus]) -> str:
    """Where the tasks of a worker stand, in one line: each connector with its states, rows, rate and lag."""
    parts = []
    for name in dict.fromkeys(one.connector for one in found):
        tasks = [one.to_json() for one in found if one.connector == name]
        rows, rate = (sum(task.get(key, 0) for task in tasks) for key in ("rows", "rows_per_s"))
        lags = [task["lag"] for task in tasks if task.get("lag") is not None]
        lag = f", lag {sum(lags):,}" if lags else ""
        states = "/".join(sorted({task["state"].lower() for task in tasks}))
        parts.append(f"{name} {states}, {rows:,} rows, {rate:,.0f} rows/s{lag}")
    return "; ".join(parts) or "no tasks here: other workers have them"


@program.command("export")
def export(file: TopologyFile) -> None:
    """
    Print the connectors of a topology, in the form that `connect run` reads.

    For topologies that run with --connectors external. Placeholders such as ${env:X} stay; a secret that is written out is refused.
    """
    from streamkit.cli.topology_file import load_topology
    from streamkit.launch.connections import exported

    show_json(exported(load_topology(file)))


@program.command("validate")
def validate(file: ConnectorsFile, as_json: JsonOption = False) -> None:
    """Check every setting of a file's connectors, those of clients and formats too; nothing is connected to."""
    connectors = _read(file)
    for connector in connectors:
        check_formats(connector)
        connector.check_client()
    found = [
        {"name": one.name, "class": type(one).__name__, "tasks": one.settings["tasks.max"], "settings": _shown(one)}
        for one in connectors
    ]
    if as_json:
        show_json(found)
        return
    for one in found:
        show_line(f"{one['name']}: {one['class']}, {one['tasks']} task(s), every setting is known and well-formed")


@program.command("list")
def list_connectors(as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show the connectors that have run on the log."""
    with open_existing_log(log) as opened:
        found = status.read_status(opened)
    names = sorted({one.connector for one in found})
    rows = [_summary(name, [one for one in found if one.connector == name]) for name in names]
    if as_json:
        show_json(rows)
        return
    show_table(("connector", "class", "tasks", "states"), [tuple(row.values()) for row in rows])


@program.command("status")
def show_status(
    connector: Annotated[
        str | None, typer.Argument(metavar="CONNECTOR", help="One connector; else all.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """Show the tasks of connectors, and why failed ones failed."""
    with open_existing_log(log) as opened:
        found = status.read_status(opened)
        if connector is not None:
            found = _of(found, connector)
    _show(found, as_json)
    if not as_json:
        for one in found:
            if one.trace and one.state in (status.FAILED, status.RESTARTING):
                for line in ("", f"{one.connector}, task {one.task}:", *one.trace.rstrip().splitlines()):
                    show_line(line)


@program.command("pause")
def pause(connector: ConnectorArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """
    Ask the workers to pause a connector.

    Its tasks keep their connections, and process no rows until they are resumed.
    """
    with _known(log, connector) as opened:
        status.ask(opened, connector, is_paused=True)
    _say(connector, "is asked to pause", as_json, asked="pause")


@program.command("stop")
def stop(connector: ConnectorArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """
    Ask the workers to stop a connector.

    Its tasks close all connections; then `offsets set` and `offsets reset` are possible.
    """
    with _known(log, connector) as opened:
        status.ask(opened, connector, is_stopped=True)
    _say(connector, "is asked to stop", as_json, asked="stop")


@program.command("resume")
def resume(connector: ConnectorArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """
    Ask the workers to go on with a connector.

    It was paused or stopped.
    """
    with _known(log, connector) as opened:
        status.ask(opened, connector)
    _say(connector, "is asked to go on", as_json, asked="resume")


@program.command("restart")
def restart(connector: ConnectorArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """Ask the workers to start a connector's tasks again."""
    with _known(log, connector) as opened:
        status.ask_restart(opened, connector)
    _say(connector, "is asked to start its tasks again", as_json, asked="restart")


@offsets.command("show")
def show_offsets(connector: ConnectorArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show the position of each split, or the offsets of each partition."""
    with open_existing_log(log) as opened:
        found = _positions(opened, connector)
    if as_json:
        show_json(found)
        return
    show_table(("split", "position"), [(split, json.dumps(position)) for split, position in sorted(found.items())])


@offsets.command("set")
def set_offsets(
    connector: ConnectorArgument,
    split: Annotated[str, typer.Argument(metavar="SPLIT", help="The split, as `offsets show` names it.")],
    position: Annotated[str, typer.Argument(metavar="POSITION", help="The position, as JSON.")],
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """Set the position of a source's split; it must not run."""
    try:
        value = json.loads(position)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"the position {position!r} is not JSON: {error}; expected something like '{{\"offset\": 17}}'"
        ) from None
    if not isinstance(value, dict):
        raise ConfigError(f"the position {position} is no object; expected something like '{{\"offset\": 17}}'")
    with open_existing_log(log) as opened:
        _check_stopped(opened, connector)
        _check_split(opened, connector, split)
        kind = class_of_connector(opened, connector)
        if kind is not None and issubclass(kind, Source):
            check_position(kind, connector, split, value)
        change_positions(opened, connector, {split: value})
    _say(connector, f"is at {json.dumps(value)} in {split}", as_json, split=split, position=value)


def _check_split(log: Log, connector: str, split: str) -> None:
    if group_name(connector) in log.groups.names():
        raise ConfigError(f"{connector} is a sink, which keeps its positions in its target; expected a source")
    known = read_positions(log, connector)
    if known and split not in known:
        raise ConfigError(f"{connector} has no split {split!r}; it has {', '.join(sorted(known))}")


@offsets.command("reset")
def reset_offsets(connector: ConnectorArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """
    Forget the positions of a connector; it must not run.

    A source begins at the beginning. A sink begins at the position that its target has; if its target keeps no positions, it begins at the beginning.
    """
    with open_existing_log(log) as opened:
        _check_stopped(opened, connector)
        topics = topics_of_sink(opened, connector)
        if topics:
            reset_group(opened, connector, [topic for topic in topics if topic in opened.topics()])
        change_positions(opened, connector, dict.fromkeys(read_positions(opened, connector)))
    said = (
        "begins where its target says, or at the beginning if that keeps no positions" if topics else "has no positions any more"
    )
    _say(connector, said, as_json, positions={})


def _say(connector: str, said: str, as_json: bool, **facts: Any) -> None:
    """What was done, as a line or as JSON."""
    if as_json:
        show_json({"connector": connector, **facts})
    else:
        show_line(f"{connector} {said}")


def _read(file: Path) -> list[Connector]:
    """The connectors; classes of third parties are looked for beside the file and in the working directory."""
    for folder in (str(file.resolve().parent), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    return read_connectors(file)


def _shown(connector: Connector) -> dict[str, Any]:
    return {
        name: connector.redacted(value) if isinstance(value, str) else json.loads(connector.redacted(json.dumps(value)))
        for name, value in connector.config.items()
    }


def _summary(name: str, tasks: list[TaskStatus]) -> dict[str, Any]:
    states = ", ".join(sorted({task.state for task in tasks}))
    return {"connector": name, "class": tasks[0].class_name.rpartition(".")[2], "tasks": len(tasks), "states": states}


def _show(found: list[TaskStatus], as_json: bool) -> None:
    plain = [one.to_json() for one in found]
    if as_json:
        show_json(plain)
        return
    columns = {
        "connector": "connector", "task": "task", "state": "state", "rows": "rows", "failed_rows": "failed rows",
        "rows_per_s": "rows/s", "lag": "lag", "committed": "last commit", "worker": "worker",
    }  # fmt: skip
    rows = [one | {"committed": _moment(one.get("committed_at_ms"))} for one in plain]
    show_table(list(columns.values()), [tuple(one.get(name) for name in columns) for one in rows])


def _moment(time_ms: int | None) -> str | None:
    """A moment as tables show it, in UTC."""
    return None if time_ms is None else f"{dt.datetime.fromtimestamp(time_ms // 1000, dt.timezone.utc):%Y-%m-%d %H:%M:%S}"


def _of(found: list[TaskStatus], connector: str) -> list[TaskStatus]:
    tasks = [one for one in found if one.connector == connector]
    if not tasks:
        known = ", ".join(sorted({one.connector for one in found})) or "none"
        raise ConfigError(f"there is no connector {connector!r}; connectors that have run: {known}")
    return tasks


@contextmanager
def _known(log: str | None, connector: str) -> Iterator[Log]:
    """The log, on which the connector has run."""
    with open_existing_log(log) as opened:
        _of(status.read_status(opened), connector)
        yield opened


def _positions(log: Log, connector: str) -> dict[str, Any]:
    _of(status.read_status(log), connector)
    if group_name(connector) not in log.groups.names():
        return dict(read_positions(log, connector))
    rows = log.groups.describe(group_name(connector)).partitions
    return {f"{row.topic}-{row.partition}": {"offset": row.committed, "end": row.end_offset} for row in rows}


def _check_stopped(log: Log, connector: str) -> None:
    running = [
        one for one in _of(status.read_status(log), connector) if one.state in (status.RUNNING, status.PAUSED, status.RESTARTING)
    ]
    if running:
        raise ConfigError(
            f"the connector {connector} runs on the worker {running[0].worker}; first: streamkit connect stop {connector}"
        )
