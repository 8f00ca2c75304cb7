"""`streamkit sql` at a terminal: what is typed is completed, executed and answered, and the prompt stays until somebody ends it."""

from __future__ import annotations

import sys

import pytest

import streamkit as sk
from tests.kit.terminal import ALT_ENTER, CTRL_C, CTRL_D, ENTER, LEFT, TAB, UP, Terminal

pytestmark = pytest.mark.slow

PROMPT = "sql>"
WITHOUT_TOOLKIT = """
import sys

sys.modules["prompt_toolkit"] = None  # as if it were not installed
from streamkit.cli.main import main

main()
"""


@pytest.fixture
def terminal(tmp_path):
    """Begins a prompt on the log of this test."""

    def begin(*arguments, code=None):
        environment = {"HOME": str(tmp_path), "STREAMKIT_LOG": str(tmp_path / "log")}
        return Terminal(["-c", code] if code else ["-m", "streamkit.cli"], "sql", *arguments, environment=environment)

    return begin


def test_statements_are_typed_completed_and_answered(terminal, tmp_path):
    """Statements of several lines, Tab, errors with their place, rows as they come until Ctrl-C, and the history of the last prompt."""
    with terminal() as prompt:
        prompt.until(PROMPT)
        prompt.type(f"CREATE STREAM clicks (who STRING KEY,{ENTER}")
        prompt.until("...>")
        prompt.type(f"page STRING);{ENTER}")
        prompt.until("Stream clicks reads the topic clicks")
        prompt.until(PROMPT)
        prompt.type("INSERT INTO cl" + TAB)
        prompt.until("cks")  # the letters that were missing
        prompt.type(f" VALUES ('ann', 'home');{ENTER}")
        prompt.until("1 row for clicks.")
        prompt.until(PROMPT)
        prompt.type(f"SELECT who, paage FROM clicks;{ENTER}")
        prompt.until("SqlError: there is no column 'paage'")
        prompt.until("at line 1:13")
        prompt.until("^^^^^")
        prompt.until(PROMPT)
        prompt.type(f"SELECT who, page FROM clicks EMIT CHANGES;{ENTER}")
        prompt.until("Ctrl-C ends the query")
        with sk.open_log(tmp_path / "log") as log, log.producer() as producer:
            producer.send("clicks", {"who": "zoe", "page": "basket"})
        prompt.until("basket")
        prompt.type(CTRL_C)
        prompt.until(PROMPT)
        prompt.type("half a statement")
        _forget(prompt, "half a statement")
        prompt.type(CTRL_D)
        assert prompt.end() == 0
    with terminal() as prompt:
        prompt.until(PROMPT)
        prompt.type(UP)
        _forget(prompt, "EMIT CHANGES;")
        prompt.type(f"help{ENTER}")
        prompt.until("exit, quit or Ctrl-D")
        prompt.until(PROMPT)
        prompt.type(f"quit{ENTER}")
        assert prompt.end() == 0


def _forget(prompt, typed):
    """Forget by Ctrl-C what is typed: it is drawn once more, behind a prompt, and only the prompt behind it reads what is typed next."""
    prompt.until(typed)
    prompt.type(CTRL_C)
    prompt.until(typed)
    prompt.until(PROMPT)


def test_a_word_in_the_middle_is_corrected(terminal):
    """Enter executes a statement whose cursor is within a word, splits no word of one that goes on, and Alt-Enter begins a line there."""
    with terminal() as prompt:
        prompt.until(PROMPT)
        prompt.type(f"SELECT uper('ab') AS x;{ENTER}")
        prompt.until("did you mean")
        prompt.until(PROMPT)
        prompt.type(UP)
        prompt.until("AS x;")
        prompt.type(LEFT * len("per('ab') AS x;") + f"p{ENTER}")
        prompt.until("AB")
        prompt.until(PROMPT)
        prompt.type("SELECT loer('CD')" + LEFT * len("er('CD')") + f"w{ENTER}AS y;{ENTER}")
        prompt.until("cd")
        prompt.until(PROMPT)
        prompt.type("SELECT 7 AS seven" + LEFT * len(" AS seven") + ALT_ENTER)
        prompt.until("...>")
        prompt.type(ENTER + f";{ENTER}")
        prompt.until("1 row")
        prompt.until(PROMPT)
        prompt.type(CTRL_D)
        assert prompt.end() == 0


def test_a_prompt_without_prompt_toolkit(terminal):
    """Without the extra the lines are those of Python's input()."""
    with terminal(code=WITHOUT_TOOLKIT) as prompt:
        prompt.until(PROMPT)
        prompt.type("SELECT 1 + 1\n")
        prompt.until("...>")
        prompt.type("AS two;\n")
        prompt.until("1 row")
        prompt.until(PROMPT)
        prompt.type(CTRL_D)
        assert prompt.end() == 0


def test_a_log_that_cannot_be_opened_ends_the_prompt(terminal, tmp_path):
    """A log that cannot be is told in words when the first statement needs it, with code 1."""
    (tmp_path / "file").write_text("no log")
    with terminal("--log", str(tmp_path / "file")) as prompt:
        prompt.until(PROMPT)
        prompt.type(f"SHOW TOPICS;{ENTER}")
        prompt.until("error: ")
        assert prompt.end() == 1


def test_what_the_prompt_needs_at_once_is_little():
    """The prompt is there before Arrow and the session are loaded."""
    import subprocess

    code = (
        "import sys, streamkit.cli.sql, streamkit.cli.prompt.prompt\n"
        "print([name for name in ('pyarrow', 'pandas', 'streamkit.sql.session') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_a_query_that_nobody_runs_is_told_of(terminal):
    """Where no query of the log runs, the prompt names the server; a session that runs queries is one."""
    made = "CREATE STREAM s (k STRING KEY); CREATE STREAM u AS SELECT k FROM s;"
    with terminal() as prompt:
        prompt.until(PROMPT)
        prompt.type(f"{made}{ENTER}")
        prompt.until("note: CSAS_U_1 waits for a server; start `streamkit sql serve` unless one runs already")
        prompt.until(PROMPT)
        prompt.type(CTRL_D)
        assert prompt.end() == 0
    with terminal("--engine", "local") as prompt:
        prompt.until(PROMPT)
        prompt.type(f"CREATE STREAM w AS SELECT k FROM s;{ENTER}")
        assert "waits" not in prompt.until(f"\n{PROMPT}")
        prompt.type(CTRL_D)
        assert prompt.end() == 0
