"""`streamkit sql serve`: the persistent queries of a log run until it is interrupted."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamkit.cli.terminal.interruption import interruption
from streamkit.cli.terminal.location import LogOption

if TYPE_CHECKING:
    from streamkit.log.log import Log
    from streamkit.sql.running.server_settings import ServerSettings

JsonStatesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object a state.")]
LOOK_S = 0.2  # between two looks for an interrupt


def serve_queries(
    place: Annotated[
        str | None, typer.Argument(metavar="LOG", help="Where the log is, as --log says it.", show_default=False)
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="local|spark",
            help="Where queries without the setting streamkit.engine run; local unless given.",
            show_default=False,
        ),
    ] = None,
    connectors: Annotated[
        str | None,
        typer.Option(
            "--connectors",
            metavar="here|external",
            help="Where connectors of CREATE CONNECTOR run: here, in this command, unless given; or external, by streamkit connect run.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="Settings of the server, as properties: streamkit.engine, streamkit.connectors, streamkit.tasks, streamkit.trigger, "
            "streamkit.max.records.per.epoch.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonStatesOption = False,
    log: LogOption = None,
) -> None:
    """
    Run the persistent queries of a log, and the connectors of its statements, until interrupted.

    It starts, stops and starts again queries and connectors as statements in SQL say, and prints a line for each new state of a query. A query that fails is
    tried again after growing waits. A second server on the same log stands by for the queries that the first one runs.
    """
    from streamkit.log.opening import open_existing_log  # no other command pays for these, nor does the prompt
    from streamkit.sql.running.server_settings import CONNECTORS, ENGINE, ServerSettings, read_server_settings

    if place is not None and log is not None and place != log:
        raise typer.BadParameter(f"found {log!r} beside the argument {place!r}; expected one of the two", param_hint="--log")
    given = {} if settings is None else read_server_settings(settings)
    given |= {name: value for name, value in ((ENGINE, engine), (CONNECTORS, connectors)) if value is not None}
    server = ServerSettings.of(given)
    with open_existing_log(place if log is None else log) as opened:
        _run_until_interrupted(opened, server, as_json)


def _run_until_interrupted(log: Log, server: ServerSettings, as_json: bool) -> None:
    """Run the queries and connectors of a log, and print their states; CatalogLostError if the log is deleted meanwhile."""
    from streamkit.cli.query_states import QueryStateOutput
    from streamkit.connectors.runtime.declared_runner import DeclaredRunner
    from streamkit.errors import CatalogLostError
    from streamkit.serve.health import BRINGS_BACK, LogPresence
    from streamkit.sql.running.engines import SPARK_LOG
    from streamkit.sql.running.runner import QueryRunner

    output = QueryStateOutput(is_json=as_json)
    with interruption() as interrupted:
        connecting = DeclaredRunner(log) if server.connectors == "here" else nullcontext()
        with QueryRunner(log, server.engine, tell=output.show, options=server.options), connecting:
            output.say_begin(log.location, server.engine, Path(log.root, SPARK_LOG))
            presence = LogPresence(log)
            while not interrupted.wait(LOOK_S):
                if not presence.is_there:
                    raise CatalogLostError(f"{presence.what_is_gone}; {BRINGS_BACK}")
        output.say_end(log.location)
