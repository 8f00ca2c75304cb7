"""A line as it is typed: with history and completion where prompt-toolkit is installed, else as the terminal has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from streamkit.sql.completion.word_completion import ExpectedWord

PROMPT, GOES_ON = "sql> ", "...> "
HISTORY_FILE = "~/.streamkit_sql_history"
HISTORY_LENGTH = 1_000  # lines that are kept without prompt-toolkit

Completions = Callable[[str, int], "Iterable[ExpectedWord]"]
IsWhole = Callable[[str], bool]


class LineEditor(Protocol):
    """What gives the texts that somebody types."""

    def text(self) -> str:
        """The next text; KeyboardInterrupt for Ctrl-C, EOFError for the end."""
        ...


def editor(is_whole: IsWhole, completions: Completions) -> LineEditor:
    """The editor that can be had: that of prompt-toolkit, which the extra `sql` installs, else a plain one."""
    try:
        import prompt_toolkit  # noqa: F401
    except ImportError:
        return PlainEditor(is_whole)
    return ToolkitEditor(is_whole, completions)


class PlainEditor:
    """Lines by `input()`, with the history of readline where there is one."""

    def __init__(self, is_whole: IsWhole) -> None:
        self._is_whole = is_whole
        with suppress(ImportError, OSError):
            import atexit
            import readline

            path = os.path.expanduser(HISTORY_FILE)
            with suppress(FileNotFoundError):
                readline.read_history_file(path)
            readline.set_history_length(HISTORY_LENGTH)
            atexit.register(_keep_history, readline, path)

    def text(self) -> str:
        """Lines up to the end of a statement."""
        lines = [input(PROMPT)]
        while not self._is_whole("\n".join(lines)):
            lines.append(input(GOES_ON))
        return "\n".join(lines)


def _keep_history(readline: Any, path: str) -> None:
    with suppress(OSError):
        readline.write_history_file(path)


class ToolkitEditor:
    """
    Texts of several lines by prompt-toolkit: Enter ends one that is whole, wherever the cursor is, and else the line.

    Alt-Enter puts a line end at the cursor, Tab completes, and arrows go through the history.
    """

    def __init__(self, is_whole: IsWhole, completions: Completions) -> None:
        from prompt_toolkit import PromptSession

        self._session: Any = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=GOES_ON,
            history=_history(),
            completer=_completer(completions),
            complete_while_typing=False,
            key_bindings=_keys(is_whole),
            enable_history_search=False,
        )

    def text(self) -> str:
        """The next text."""
        return str(self._session.prompt())


def _history() -> Any:
    """The history of the user, or one in memory where none can be kept."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = os.path.expanduser(HISTORY_FILE)
    try:
        with open(path, "a", encoding="utf-8"):
            return FileHistory(path)
    except OSError:
        return InMemoryHistory()


def _completer(completions: Completions) -> Any:
    from prompt_toolkit.completion import Completer, Completion, ThreadedCompleter

    class Words(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterable[Any]:
            for word in completions(document.text, document.cursor_position):
                yield Completion(word.text, -word.begun, display_meta=word.kind)

    return ThreadedCompleter(Words())


def _keys(is_whole: IsWhole) -> Any:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _end_or_go_on(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.cursor_position += buffer.document.get_end_of_line_position()  # a word that was corrected stays one
            buffer.insert_text("\n")

    @keys.add("escape", "enter")
    def _split(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def is_typed() -> bool:
    """Whether somebody types, and no file or program gives the text."""
    return sys.stdin.isatty()
