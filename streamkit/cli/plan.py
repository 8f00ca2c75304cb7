"""`streamkit plan`: what a start of the topology in a file would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamkit.cli.run import ApplicationFile
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.program_changes import subject_lines
from streamkit.cli.terminal.rendering import JsonOption, counted, show_json, show_line
from streamkit.cli.topology_file import load_topology
from streamkit.description.applications import is_running
from streamkit.dsl.topology import Topology
from streamkit.errors import StreamKitError
from streamkit.log.log import Log
from streamkit.log.opening import existing_location, open_existing_log

if TYPE_CHECKING:
    from streamkit.engine.runs.preview import Preview
    from streamkit.plan.refusal import RefusedTopic

REFUSED_CODE = 2


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

    The topology is compared with the one that the application of this name ran last in the log, and with the state that it left. Signs: = stays,
    + new, - gone, ~ changed, ! refused. The exit status is 0 if a start would be accepted, 2 if it would be refused, 1 if this cannot be said.
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
    from streamkit.plan.program_change import SUBJECTS

    known = found.known
    return {
        "application": found.application,
        "starts": not found.refusals,
        "refusals": list(found.refusals),
        "generation": 0 if known is None else known.generation,
        "epochs": 0 if known is None else known.epoch,
        "running": known is not None and is_running(log, known),
        **{subject: [change.to_json() for change in found.of(subject)] for subject in SUBJECTS},
    }


def _lines(shown: dict[str, Any]) -> Iterator[str]:
    yield f"{shown['application']}: {_standing(shown)}" if "generation" in shown else shown["application"]
    yield from subject_lines(shown)
    yield ""
    if shown["starts"]:
        yield f"A start would be accepted.{' It would end the run that is active now.' if shown['running'] else ''}"
    for refusal in shown["refusals"]:
        yield from f"A start would be refused: {refusal}".splitlines()


def _standing(shown: dict[str, Any]) -> str:
    if not shown["generation"]:
        return "new in this log"
    running = ", running now" if shown["running"] else ""
    return f"generation {shown['generation']} has committed {counted(shown['epochs'], 'epoch')}{running}"
