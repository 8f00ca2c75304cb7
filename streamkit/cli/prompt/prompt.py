"""The prompt: it asks for statements, executes them and prints their results, until somebody ends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamkit.cli.prompt.line_editor import editor
from streamkit.cli.prompt.loaded_session import LoadedSession
from streamkit.cli.prompt.statement_text import ENDS, HELPS, is_whole, word_for_prompt
from streamkit.errors import StreamKitError

if TYPE_CHECKING:
    from streamkit.sql.completion.word_completion import ExpectedWord

GREETING = "StreamKit SQL. A statement ends with ;  help says more, exit ends."
HELP = """A statement ends with a semicolon, and may have several lines.
  SHOW TOPICS;  SHOW STREAMS;  SHOW TABLES;  SHOW QUERIES;  DESCRIBE name;
  CREATE STREAM clicks (user STRING KEY, page STRING);
  INSERT INTO clicks VALUES ('ann', 'home');
  SELECT * FROM clicks;                        rows that are there
  SELECT * FROM clicks EMIT CHANGES;           rows as they come; Ctrl-C ends the query
  CREATE TABLE totals AS SELECT user, count(*) AS n FROM clicks GROUP BY user;
Enter executes what ends with a semicolon, wherever the cursor is; Alt-Enter begins a line at the cursor.
Tab completes words and names, the arrows go through the history, Ctrl-C forgets what is typed.
exit, quit or Ctrl-D end the prompt."""


def run_prompt(session: LoadedSession, *, is_json: bool) -> None:
    """Ask for statements and execute them, until exit, quit or Ctrl-D; an error ends a text and not the prompt."""
    asked = editor(lambda text: is_whole(text, _dialect(session)), lambda text, place: _completions(session, text, place))
    print(GREETING)
    while True:
        try:
            text = asked.text()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        word = word_for_prompt(text)
        if word in ENDS:
            return
        if word == HELPS:
            print(HELP)
        elif text.strip():
            _execute(session, text, is_json=is_json)


def _execute(session: LoadedSession, text: str, *, is_json: bool) -> None:
    from streamkit.cli.prompt.interrupted_statements import interrupted_results
    from streamkit.cli.prompt.result_output import ResultOutput
    from streamkit.cli.terminal.rendering import show_failure, show_note
    from streamkit.plan.location import IN_PYTHON

    opened = session.get()
    try:
        output = ResultOutput(is_json)
        for result in interrupted_results(opened, text, IN_PYTHON):
            output.show(result)
    except (StreamKitError, OSError) as error:
        show_failure(error)
    except KeyboardInterrupt:
        show_note("interrupted")


def _dialect(session: LoadedSession) -> str:
    """The dialect of the next text; the one without settings while nobody has set any."""
    return session.get().settings.script.meaning.name if session.is_there else "spark"


def _completions(session: LoadedSession, text: str, place: int) -> Iterator[ExpectedWord]:
    """What a text may go on with; nothing while the session is loaded."""
    if not session.is_there:
        return
    from streamkit.sql.completion.word_completion import completions

    yield from completions(session.get(), text, place)
