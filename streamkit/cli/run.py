"""`streamkit run`, `streamkit standby` and `streamkit explain`: a topology in a file."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Annotated, Any

import typer

from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_json, show_note
from streamkit.cli.topology_file import load_topology
from streamkit.config import load_settings
from streamkit.dsl.topology import Topology
from streamkit.launch.arguments import Arguments, with_file
from streamkit.launch.main import run_command
from streamkit.log.log import Log
from streamkit.log.opening import existing_location, has_log, open_existing_log
from streamkit.plan.inputs import is_declared

HOW_RUNS_BEGIN_AND_END = ("once", "drain", "rebuild", "leader", "accept_loss")  # the options of a run that a standby refuses
ApplicationFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A Python file with one topology at module level, or a file in SQL.")
]


def run_file(file: str, arguments: Arguments) -> None:
    """
    Run the topology in a file until it is stopped.

    It runs on Spark, or with --local in this process.
    """
    existing_location(arguments.log)
    run_command(load_topology(file), arguments)


def stand_by_file(file: str, arguments: Arguments) -> None:
    """
    Take over the topology in a file when its run is gone.

    Until then it starts nothing but Spark (unless --local), and keeps the stores in this host's folder up to date. A run is gone
    when it has given no sign of life for 2 s; one that ended or was stopped is not followed. If a newer run fences
    the standby's own run, the standby waits again.
    """
    if arguments.options.is_bounded:
        raise typer.BadParameter("a run with --once or --drain ends by itself; expected neither of them for one that stands by")
    if arguments.rebuild or arguments.leader is not None:
        raise typer.BadParameter("--rebuild and --from say how a run begins; expected them with streamkit run")
    existing_location(arguments.log)
    run_command(load_topology(file), replace(arguments, stands_by=True))


run = with_file(run_file, ApplicationFile)
standby = with_file(stand_by_file, ApplicationFile, unlisted=HOW_RUNS_BEGIN_AND_END)


def explain(
    file: ApplicationFile,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark, and show the plan that it makes of it.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show what the topology in a file is compiled to.

    It shows each pass of the compiler, and runs nothing. JSON has the program as values, and texts. No log is needed if every source in the file has schema=.
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
