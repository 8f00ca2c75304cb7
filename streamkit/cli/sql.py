"""`streamkit sql`: statements in SQL on a log, typed at a prompt or given as a text or file."""

from __future__ import annotations

import sys
from contextlib import closing
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from streamkit.cli.prompt.line_editor import is_typed
from streamkit.cli.prompt.loaded_session import LoadedSession
from streamkit.cli.setting_option import SettingsOption, given_settings
from streamkit.cli.sql_server import serve_queries
from streamkit.cli.sql_test_files import run_test_files
from streamkit.cli.terminal.location import LogOption
from streamkit.errors import ConfigError, StreamKitError

JsonRowsOption = Annotated[bool, typer.Option("--json", help="Print one JSON object a row, and messages on standard error.")]
program = typer.Typer(rich_markup_mode=None)
program.command("serve")(serve_queries)
program.command("test")(run_test_files)


@program.callback(invoke_without_command=True)
def sql(
    context: typer.Context,
    text: Annotated[
        list[str] | None, typer.Option("-e", "--execute", metavar="TEXT", help="Execute these statements, and end.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="FILE", help="Execute the statements of a file, and end.")
    ] = None,
    settings: SettingsOption = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="local|spark", help="Also run the persistent queries of the log, until this command ends."
        ),
    ] = None,
    as_json: JsonRowsOption = False,
    log: LogOption = None,
) -> None:
    """
    Execute SQL on a log.

    Without -e and -f it asks for statements at a prompt, or reads them from standard input if that is no terminal. The log is made if there is
    none. The whole text is checked before its first statement is executed. SELECT … EMIT CHANGES prints rows as they come, until Ctrl-C.
    """
    if context.invoked_subcommand is not None:
        return
    if text and file is not None:
        raise typer.BadParameter("found -e, too; expected one of the two", param_hint="-f")
    with closing(LoadedSession(log, given_settings(settings), engine)) as session:
        if text or file is not None or not is_typed():
            _execute(session, text, file, is_json=as_json)
            return
        from streamkit.cli.prompt.prompt import run_prompt  # a script does not need it

        run_prompt(session, is_json=as_json)


def _execute(session: LoadedSession, texts: list[str] | None, file: Path | None, *, is_json: bool) -> None:
    """Execute given texts one after the other, a file, or standard input; the first error ends the program with 1."""
    from streamkit.cli.prompt.interrupted_statements import interrupted_results
    from streamkit.cli.prompt.result_output import ResultOutput
    from streamkit.cli.terminal.rendering import show_failure
    from streamkit.plan.location import IN_PYTHON

    output, opened = ResultOutput(is_json), session.get()
    name = IN_PYTHON if file is None else str(file)
    try:
        for text in texts or [_read(file or Path("-"))]:
            for result in interrupted_results(opened, text, name):
                output.show(result)
    except StreamKitError as error:
        show_failure(error)
        raise typer.Exit(1) from None


def _read(file: Path) -> str:
    """The text of a file, or of standard input for `-`, read in the same way: in UTF-8, with any line ends, with or without a mark in front."""
    try:
        if str(file) == "-":
            return TextIOWrapper(BytesIO(sys.stdin.buffer.read()), encoding="utf-8-sig").read()
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        name = "standard input" if str(file) == "-" else repr(str(file))
        raise ConfigError(f"cannot read {name}: {reason}; expected statements in SQL, of a file or of a pipe") from None
