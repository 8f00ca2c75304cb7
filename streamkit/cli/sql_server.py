"""`streamkit sql serve`: the persistent queries of a log run until it is interrupted."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from streamkit.cli.terminal.interruption import interruption
from streamkit.cli.terminal.location import LogOption

JsonStatesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object a state.")]
LOOK_S = 0.2  # between two looks for an interrupt


def serve_queries(
    place: Annotated[
        str | None, typer.Argument(metavar="LOG", help="Where the log is, as --log says it.", show_default=False)
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", metavar="local|spark", help="Where queries run whose setting streamkit.engine says nothing."),
    ] = "local",
    connectors: Annotated[
        str,
        typer.Option(
            "--connectors",
            metavar="here|external",
            help="Where connectors run that CREATE CONNECTOR has declared: beside this command, or by streamkit connect run.",
        ),
    ] = "here",
    as_json: JsonStatesOption = False,
    log: LogOption = None,
) -> None:
    """
    Run the persistent queries of a log, and the connectors of its statements, until interrupted.

    It starts, stops and starts again what statements in SQL ask for, and prints a line for each new state of a query. A query that fails is
    tried again after growing waits. A second server on the same log stands by for the queries that the first one runs.
    """
    from streamkit.cli.query_states import QueryStateOutput  # no other command pays for these, nor does the prompt
    from streamkit.connectors.runtime.declared_runner import DeclaredRunner
    from streamkit.launch.connections import PLACES
    from streamkit.log.opening import open_existing_log
    from streamkit.sql.running.runner import QueryRunner

    if place is not None and log is not None and place != log:
        raise typer.BadParameter(f"found {log!r} beside the argument {place!r}; expected one of the two", param_hint="--log")
    if connectors not in PLACES:
        raise typer.BadParameter(f"found {connectors!r}; expected {' or '.join(PLACES)}", param_hint="--connectors")
    output = QueryStateOutput(is_json=as_json)
    with open_existing_log(place if log is None else log) as opened, interruption() as interrupted:
        with QueryRunner(opened, engine, tell=output.show), DeclaredRunner(opened) if connectors == "here" else nullcontext():
            output.say_begin(opened.location, engine)
            while not interrupted.wait(LOOK_S):
                pass
        output.say_end(opened.location)
