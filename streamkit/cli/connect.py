"""`streamkit connect`: run connectors, see how they are, and stop, resume and move them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from streamkit.cli.terminal.interruption import interruption
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_json, show_line
from streamkit.cli.terminal.table import show_table
from streamkit.connectors.connector import Connector
from streamkit.connectors.connector_file import read_connectors
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.positions import change_positions, read_positions
from streamkit.connectors.runtime.sink_task import group_name
from streamkit.connectors.runtime.status import TaskStatus
from streamkit.connectors.runtime.worker import Worker
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.log.opening import open_existing_log, open_log

program = typer.Typer(help="Run connectors, and show how they are.", no_args_is_help=True, rich_markup_mode=None)
offsets = typer.Typer(help="Show and move how far connectors have come.", no_args_is_help=True, rich_markup_mode=None)
program.add_typer(offsets, name="offsets")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The connectors, as JSON or properties.")]
Name = Annotated[str, typer.Argument(metavar="CONNECTOR", help="The connector's name.")]
TopologyFile = Annotated[str, typer.Argument(metavar="TOPOLOGY", help="A Python file with one topology at module level.")]
WAIT_SECONDS = 0.2


@program.command("run")
def run_connectors(
    file: File,
    once: Annotated[bool, typer.Option("--once", help="Move what is there now, then stop.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Run the connectors of a file until interrupted.

    Other workers with the same file share their tasks. FILE is {"name": …, "config": {…}}, a list of such, or properties.
    """
    connectors = _read(file)
    with open_log(log) as opened, interruption() as interrupted:
        worker = Worker(connectors, opened, is_once=once).start()
        failure: BaseException | None = None
        try:
            while not interrupted.is_set() and not worker.wait(WAIT_SECONDS):
                pass
            worker.stop()
        except Exception as error:  # noqa: BLE001  said after the table
            failure = error
        _show(worker.status(), as_json)
    if failure is not None:
        raise failure


@program.command("export")
def export(file: TopologyFile) -> None:
    """
    Print the connectors that the topology in a file asks for, as `connect run` takes them.

    For topologies that run with --connectors external. Placeholders such as ${env:X} stay; a secret that is written out is refused.
    """
    from streamkit.cli.topology_file import load_topology
    from streamkit.launch.connections import exported

    show_json(exported(load_topology(file)))


@program.command("validate")
def validate(file: File, as_json: JsonOption = False) -> None:
    """Check every setting of a file's connectors; nothing is opened."""
    found = [
        {"name": one.name, "class": type(one).__name__, "tasks": one.settings["tasks.max"], "settings": _shown(one)}
        for one in _read(file)
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
    """Show the tasks of connectors, and why those failed that did."""
    with open_existing_log(log) as opened:
        found = status.read_status(opened)
        if connector is not None:
            found = _of(found, connector)
    _show(found, as_json)
    if not as_json:
        for one in found:
            if one.trace and one.state in (status.FAILED, status.RESTARTING):
                show_line(f"\n{one.connector}, task {one.task}:\n{one.trace.rstrip()}")


@program.command("pause")
def pause(connector: Name, log: LogOption = None) -> None:
    """Ask the workers to pause a connector; tasks keep what they have open."""
    _ask(log, connector, "is asked to pause", pause=True)


@program.command("resume")
def resume(connector: Name, log: LogOption = None) -> None:
    """Ask the workers to go on with a connector."""
    _ask(log, connector, "is asked to go on", pause=False)


@program.command("restart")
def restart(connector: Name, log: LogOption = None) -> None:
    """Ask the workers to start a connector's tasks again."""
    _ask(log, connector, "is asked to start its tasks again", restart=True)


@offsets.command("show")
def show_offsets(connector: Name, as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show the position of each split, or the offsets of each partition."""
    with open_existing_log(log) as opened:
        found = _positions(opened, connector)
    if as_json:
        show_json(found)
        return
    show_table(("split", "position"), [(split, json.dumps(position)) for split, position in sorted(found.items())])


@offsets.command("set")
def set_offsets(
    connector: Name,
    split: Annotated[str, typer.Argument(metavar="SPLIT", help="The split, as `offsets show` names it.")],
    position: Annotated[str, typer.Argument(metavar="POSITION", help="The position, as JSON.")],
    log: LogOption = None,
) -> None:
    """Set the position of a source's split; it must not run."""
    try:
        value = json.loads(position)
    except json.JSONDecodeError as error:
        raise ConfigError(f"the position {position!r} is not JSON: {error}; expected such as '{{\"offset\": 17}}'") from None
    with open_existing_log(log) as opened:
        _check_stopped(opened, connector)
        if not isinstance(value, dict):
            raise ConfigError(f"the position {position} is no object; expected such as '{{\"offset\": 17}}'")
        change_positions(opened, connector, {split: value})
    show_line(f"{connector}: {split} is at {json.dumps(value)}")


@offsets.command("reset")
def reset_offsets(connector: Name, log: LogOption = None) -> None:
    """
    Forget how far a connector has come; it must not run.

    A source begins at the beginning. A sink begins where its target says; one whose target keeps no positions, at the beginning.
    """
    with open_existing_log(log) as opened:
        _check_stopped(opened, connector)
        if group_name(connector) in opened.groups():
            opened.delete_group(group_name(connector))
        change_positions(opened, connector, dict.fromkeys(read_positions(opened, connector)))
    show_line(f"{connector}: its positions are forgotten")


def _read(file: Path) -> list[Connector]:
    """The connectors; classes of third parties are looked for beside the file and in the working directory."""
    for folder in (str(file.resolve().parent), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    return read_connectors(file)


def _shown(connector: Connector) -> dict[str, Any]:
    return {name: json.loads(connector.redacted(json.dumps(value))) for name, value in connector.config.items()}


def _summary(name: str, tasks: list[TaskStatus]) -> dict[str, Any]:
    states = ", ".join(sorted({task.state for task in tasks}))
    return {"connector": name, "class": tasks[0].class_name.rpartition(".")[2], "tasks": len(tasks), "states": states}


def _show(found: list[TaskStatus], as_json: bool) -> None:
    plain = [one.to_json() for one in found]
    if as_json:
        show_json(plain)
        return
    names = ("connector", "task", "state", "rows", "failed_rows", "lag", "worker")
    show_table([name.replace("_", " ") for name in names], [tuple(one.get(name) for name in names) for one in plain])


def _of(found: list[TaskStatus], connector: str) -> list[TaskStatus]:
    tasks = [one for one in found if one.connector == connector]
    if not tasks:
        known = ", ".join(sorted({one.connector for one in found})) or "none"
        raise ConfigError(f"there is no connector {connector!r}; those that have run are: {known}")
    return tasks


def _ask(log: str | None, connector: str, said: str, *, pause: bool | None = None, restart: bool = False) -> None:
    with open_existing_log(log) as opened:
        _of(status.read_status(opened), connector)
        status.ask(opened, connector, pause=pause, restart=restart)
    show_line(f"{connector} {said}")


def _positions(log: Log, connector: str) -> dict[str, Any]:
    _of(status.read_status(log), connector)
    if group_name(connector) not in log.groups():
        return dict(read_positions(log, connector))
    rows = log.describe_group(group_name(connector)).partitions
    return {f"{row.topic}-{row.partition}": {"offset": row.committed, "end": row.end_offset} for row in rows}


def _check_stopped(log: Log, connector: str) -> None:
    running = [
        one for one in _of(status.read_status(log), connector) if one.state in (status.RUNNING, status.PAUSED, status.RESTARTING)
    ]
    alive = [one for one in running if log.clock.now_ms() - one.at_ms < status.ALIVE_MS]
    if alive:
        raise ConfigError(f"the connector {connector} runs on the worker {alive[0].worker}; stop it first")
