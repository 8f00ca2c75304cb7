"""`streamkit run` and `streamkit explain`: a topology in a file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import streamkit
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_json
from streamkit.cli.topology_file import load_topology
from streamkit.log.opening import existing_location, open_existing_log

File = Annotated[str, typer.Argument(metavar="FILE", help="A Python file with one topology at module level.")]


def run(
    file: File,
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
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark says too; else a file has it.")] = False,
) -> None:
    """Run the topology in a file, on Spark or in this process, until it is stopped."""
    existing_location(log)
    topology = load_topology(file)
    given = {
        "--log": log,
        "--local": local,
        "--tasks": tasks,
        "--max-records-per-epoch": max_records_per_epoch,
        "--once": once,
        "--drain": drain,
        "--verbose": verbose,
    }
    streamkit.main(topology, _arguments(given))


def explain(
    file: File,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark, and show the plan that it makes of it.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show what the topology in a file is compiled to, pass by pass; nothing runs.

    JSON has the program as values, and texts.
    """
    from streamkit.engine.compile import explain_and_compile  # no other command pays for it

    topology = load_topology(file)
    with open_existing_log(log) as opened:
        passes, program = explain_and_compile(topology, opened)
    shown: dict[str, Any] = {"program": program.to_json(), "fingerprint": program.fingerprint, "passes": passes}
    if spark:
        from streamkit.spark.plan import explain_spark  # it loads pyspark

        shown["spark"] = explain_spark(program)
    if as_json:
        show_json(shown)
    else:
        print("\n\n== Spark ==\n".join(filter(None, (passes, shown.get("spark")))))


def _arguments(given: dict[str, Any]) -> list[str]:
    """Options as they would be written after `python FILE`."""
    words = []
    for option, value in given.items():
        if value is not None and value is not False:
            words += [option] if value is True else [option, str(value)]
    return words
