"""`streamkit sql test`: files of statements, rows and assertions, each test on a log of its own in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamkit.cli.setting_option import SettingsOption, given_settings
from streamkit.errors import ConfigError, StreamKitError

JsonTestsOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def run_test_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of tests in SQL.")],
    settings: SettingsOption = None,
    as_json: JsonTestsOption = False,
) -> None:
    """
    Run tests in SQL: statements that create, INSERT, and ASSERT VALUES, ASSERT NULL VALUES, ASSERT STREAM, ASSERT TABLE or ASSERT TOPIC.

    Each test has a log of its own in memory, and no Spark. A comment `--@test: NAME` begins a test; each test begins with the statements before
    the first such comment. `--@expected.message: TEXT` says that the test has to fail with this text. The exit code is 1 if a test fails.
    """
    from streamkit.cli.terminal.rendering import counted, show_failure, show_json, show_line  # the prompt pays for none of these
    from streamkit.testing.sql_test import read_sql_tests

    given = given_settings(settings)
    results = list[dict[str, str]]()
    for file in files:
        try:
            tests = read_sql_tests(file, given)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            raise ConfigError(f"cannot read {str(file)!r}: {reason}; expected a file of tests in SQL") from None
        for test in tests:
            failure: StreamKitError | None = None
            try:
                test.run(given)
            except StreamKitError as error:
                failure = error
            results.append({"file": str(file), "test": test.name, "error": "" if failure is None else str(failure)})
            if not as_json:
                show_line(f"{'passed' if failure is None else 'FAILED'}  {file}: {test.name}")
                if failure is not None:
                    show_failure(failure)
    failed = sum(bool(one["error"]) for one in results)
    if as_json:
        show_json(results)
    else:
        show_line(f"{counted(len(results), 'test')}, {failed} failed")
    if failed:
        raise typer.Exit(1)
