"""`streamkit plan`: what a start of the topology in a file would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamkit.cli.run import ApplicationFile
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, counted, show_json, show_line
from streamkit.cli.topology_file import load_topology
from streamkit.description.applications import is_running
from streamkit.dsl.topology import Topology
from streamkit.errors import StreamKitError
from streamkit.log.log import Log
from streamkit.log.opening import existing_location, open_existing_log

if TYPE_CHECKING:
    from streamkit.engine.runs.preview import Preview, ProgramChange
    from streamkit.plan.refusal import RefusedTopic

REFUSED_CODE = 2
_SIGNS = {"same": "=", "added": "+", "gone": "-", "changed": "~", "refused": "!"}


def plan(
    file: ApplicationFile,
    tasks: Annotated[
        int | None, typer.Option("--tasks", metavar="N", min=1, help="Kernel tasks that the start would ask for.")
    ] = None,
    rebuild: Annotated[
        list[str] | None,
        typer.Option("--rebuild", metavar="STORE", help="A store that the start would fill again from its topics."),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show what a start would change, and change nothing.

    It is compared with what the application of that name last ran in the log, and with the state that this left. Signs: = stays,
    + new, - gone, ~ changed, ! refused. The exit status is 0 if a start would go on, 2 if it would be refused, 1 if there is no telling.
    """
    existing_location(log)
    topology = load_topology(file)
    with open_existing_log(log) as opened:
        shown = _shown(topology, opened, tasks, rebuild or ())
    if as_json:
        show_json(shown)
    else:
        for line in _lines(shown):
            show_line(line)
    if not shown["starts"]:
        raise typer.Exit(REFUSED_CODE)


def _shown(topology: Topology, log: Log, tasks: int | None, rebuild: Sequence[str]) -> dict[str, Any]:
    """The preview of a start as plain values; of a topology from which no program can be made on this log, the reasons alone."""
    from streamkit.engine.runs.compile import compile_passing_over  # no other command pays for it
    from streamkit.engine.runs.preview import preview

    refused: list[RefusedTopic] = []
    try:
        program = compile_passing_over(topology, log, refused.append)
        found = preview(log.catalog, program, tasks, refused, rebuild)
    except StreamKitError as error:
        reasons = dict.fromkeys(str(one) for one in (*(one.error for one in refused), error))
        return {"application": topology.name, "starts": False, "refusals": list(reasons)}
    return _described(found, log)


def _described(found: Preview, log: Log) -> dict[str, Any]:
    from streamkit.engine.runs.preview import SUBJECTS

    known = found.known
    return {
        "application": found.application,
        "starts": not found.refusals,
        "refusals": list(found.refusals),
        "generation": 0 if known is None else known.generation,
        "epochs": 0 if known is None else known.epoch,
        "running": known is not None and is_running(log, known),
        **{subject: [_change(change) for change in found.of(subject)] for subject in SUBJECTS},
    }


def _change(change: ProgramChange) -> dict[str, str]:
    return {name: value for name, value in asdict(change).items() if name != "subject"}


def _lines(shown: dict[str, Any]) -> Iterator[str]:
    yield f"{shown['application']}: {_standing(shown)}" if "generation" in shown else shown["application"]
    for subject, changes in shown.items():
        if isinstance(changes, list) and changes and subject != "refusals":
            yield from ("", subject, *_change_lines(subject, changes))
    yield ""
    if shown["starts"]:
        yield f"A start would go on.{' It would end the run that goes on now.' if shown['running'] else ''}"
    for refusal in shown["refusals"]:
        yield from f"A start would be refused: {refusal}".splitlines()


def _standing(shown: dict[str, Any]) -> str:
    if not shown["generation"]:
        return "new in this log"
    running = ", running now" if shown["running"] else ""
    return f"generation {shown['generation']} has committed {counted(shown['epochs'], 'epoch')}{running}"


def _change_lines(subject: str, changes: list[dict[str, str]]) -> Iterator[str]:
    """A line each; steps that stay are only counted, for there are many."""
    listed = [change for change in changes if subject != "steps" or change["fate"] != "same"]
    width = max((len(change["name"]) for change in listed), default=0)
    for change in listed:
        start, now = f"  {_SIGNS[change['fate']]} {change['name']:<{width}}  ", change["text"]
        yield from (
            [f"{start}- {change['before']}", f"{' ' * len(start)}+ {now}"] if change["before"] else [f"{start}{now}".rstrip()]
        )
    if len(listed) < len(changes):
        yield f"  = {counted(len(changes) - len(listed), 'step')} as before"
