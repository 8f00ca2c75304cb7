"""`streamkit run` and `streamkit explain`: a topology in a file."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer

import streamkit
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_json, show_note
from streamkit.cli.topology_file import load_topology
from streamkit.config import load_settings
from streamkit.dsl.topology import Topology
from streamkit.log.log import Log
from streamkit.log.opening import existing_location, has_log, open_existing_log
from streamkit.plan.inputs import is_declared

ApplicationFile = Annotated[str, typer.Argument(metavar="FILE", help="A Python file with one topology at module level.")]


def run(
    file: ApplicationFile,
    log: LogOption = None,
    local: Annotated[bool, typer.Option("--local", help="Run in this process, without Spark.")] = False,
    tasks: Annotated[
        int | None, typer.Option("--tasks", metavar="N", min=1, help="Kernel tasks; else as many as before, at first the cores.")
    ] = None,
    max_records_per_epoch: Annotated[
        int | None, typer.Option("--max-records-per-epoch", metavar="N", min=1, help="Records an epoch takes at most.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is available, then stop.")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Process everything available, then close all windows and stop.")
    ] = False,
    connectors: Annotated[
        str | None,
        typer.Option("--connectors", metavar="here|external", help="Where the connectors run that the topology asks for."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark says too; else a file has it.")] = False,
) -> None:
    """
    Run the topology in a file until it is stopped.

    It runs on Spark, or with --local in this process.
    """
    existing_location(log)
    topology = load_topology(file)
    given = {
        "--log": log,
        "--local": local,
        "--tasks": tasks,
        "--max-records-per-epoch": max_records_per_epoch,
        "--once": once,
        "--drain": drain,
        "--connectors": connectors,
        "--verbose": verbose,
    }
    streamkit.main(topology, _arguments(given))


def explain(
    file: ApplicationFile,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark, and show the plan that it makes of it.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show what the topology in a file is compiled to.

    It goes pass by pass, and nothing runs. JSON has the program as values, and texts. No log is needed if every source in the file has schema=.
    """
    from streamkit.engine.runs.compile import explain_and_compile  # no other command pays for it

    topology = load_topology(file)
    with _log_to_compile_with(topology, log) as opened:
        passes, program = explain_and_compile(topology, opened)
    shown: dict[str, Any] = {"program": program.to_json(), "fingerprint": program.fingerprint, "passes": passes}
    if spark:
        from streamkit.spark.plan import explain_spark  # it loads pyspark

        shown["spark"] = explain_spark(program)
    if as_json:
        show_json(shown)
    else:
        print("\n\n== Spark ==\n".join(filter(None, (passes, shown.get("spark")))))


def _log_to_compile_with(topology: Topology, log: str | None) -> AbstractContextManager[Log | None]:
    """The log, or none where nobody named one with --log, there is none, and the topology says itself what its topics hold."""
    location = load_settings().log
    if log is not None or has_log(location) or not is_declared(topology.roots):
        return open_existing_log(log)
    show_note(f"there is no log at {location}; what the topics hold is what schema= says")
    return nullcontext()


def _arguments(given: dict[str, Any]) -> list[str]:
    """Options as they would be written after `python FILE`."""
    words = []
    for option, value in given.items():
        if value is not None and value is not False:
            words += [option] if value is True else [option, str(value)]
    return words
