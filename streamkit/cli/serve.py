"""`streamkit serve`: a web server over the log, for programs and people."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from streamkit.cli.terminal.interruption import interruption
from streamkit.cli.terminal.location import LogOption
from streamkit.connectors.web_server import TlsFiles
from streamkit.expressions.sql.dialect import DIALECTS, SPARK
from streamkit.log.opening import open_existing_log
from streamkit.serve.safety import LOOPBACK
from streamkit.serve.server import PORT, Server

LOOK_S = 0.2  # between two looks for an interrupt


def serve(
    host: Annotated[str, typer.Option("--host", help="Where to listen; another address than loopback needs a token.")] = LOOPBACK,
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="The port; 0 chooses a free one.")] = PORT,
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="The file with the token that requests must have.")
    ] = None,
    certificate: Annotated[
        str | None, typer.Option("--tls-certificate", metavar="FILE", help="The certificate, in PEM; then it speaks HTTPS.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate, unless it is in the same file.")
    ] = None,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes",
            help="Also write records, send dead letters again, reset groups, pause connectors, execute SQL that changes.",
        ),
    ] = False,
    sql_dialect: Annotated[
        str, typer.Option("--sql-dialect", metavar="DIALECT", help="How SQL is meant that says nothing else: spark or ksql.")
    ] = SPARK.name,
    log: LogOption = None,
) -> None:
    """
    Answer questions about the log by HTTP, until interrupted.

    What applications, topics, stores and groups hold and do, whether applications run or not. Nothing is changed unless --allow-changes is
    given. The paths are those of /openapi.json, and docs/serve.md has examples.
    """
    if key is not None and certificate is None:
        raise typer.BadParameter("expected --tls-certificate beside it", param_hint="--tls-key")
    if sql_dialect not in DIALECTS:
        raise typer.BadParameter(f"found {sql_dialect!r}; expected {' or '.join(DIALECTS)}", param_hint="--sql-dialect")
    tls = None if certificate is None else TlsFiles(certificate, key)
    with open_existing_log(log) as opened, interruption() as interrupted:
        with Server(opened, host, port, token_file, tls, allows_changes=allow_changes, sql_dialect=sql_dialect) as server:
            print(f"StreamKit serves {opened.location} at {server.address}", flush=True)
            while not interrupted.wait(LOOK_S):
                pass
        if server.is_at_work:  # for which nobody waits: a look, or a change, which is made or not wherever it ends
            sys.stdout.flush()
            os._exit(0)
