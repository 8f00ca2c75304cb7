"""Where in the user's own code a step was written: a line of Python, or a place in a text of SQL."""

from __future__ import annotations

import bisect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from types import FrameType, MappingProxyType
from typing import Any

from streamkit.errors import IN_PYTHON, Location

__all__ = ["IN_PYTHON", "TextLocation", "by_language", "user_call", "user_location", "written_at"]

_PASSED = (
    "streamkit",
    "IPython",
)  # packages whose frames lie between the user's line and the question; magics of cells come by IPython
_BEGIN_THREADS = ("threading", "concurrent.futures.thread")  # of a thread of StreamKit, in which nobody has called it
SHOWN_LENGTH = 160  # of a line in a message
SHOWN_BEFORE_LENGTH = 100  # of it before the place
_NO_PLACES: Mapping[int, tuple[int, int]] = MappingProxyType({})
_written: ContextVar[TextLocation | None] = ContextVar("written", default=None)


@dataclass(frozen=True)
class TextLocation(Location):
    """
    The characters of a `text` from `start` to before `end`.

    `places` has where the parts of the expressions that stand there begin and end, by the `id` of each, so that an error about a part
    points at it. `called_at` is the line of Python that gave the text, and `is_ksql` says that the text is in ksqlDB's dialect.
    """

    text: str = field(default="", compare=False, repr=False)
    start: int = field(default=0, compare=False, repr=False)
    end: int = field(default=0, compare=False, repr=False)
    places: Mapping[int, tuple[int, int]] = field(default_factory=lambda: _NO_PLACES, compare=False, repr=False)
    called_at: Location | None = field(default=None, compare=False, repr=False)
    is_ksql: bool = field(default=False, compare=False, repr=False)

    @classmethod
    def of_text(
        cls,
        file: str,
        text: str,
        span: tuple[int, int],
        places: Mapping[int, tuple[int, int]] | None = None,
        called_at: Location | None = None,
        *,
        is_ksql: bool = False,
    ) -> TextLocation:
        """The place of a span, whose line and column are counted."""
        start = min(span[0], len(text))
        begins = _line_begins(text)
        line = bisect.bisect_right(begins, start)
        column = start - begins[line - 1] + 1
        return cls(file, line, column, text, start, span[1], places or _NO_PLACES, called_at, is_ksql)

    @property
    def keeps_case(self) -> bool:
        return self.is_ksql

    @property
    def shown(self) -> str:
        """The place, its line, and carets below the words; of a long line the part around them, and a box for what cannot be seen."""
        call = f", in the text given at {self.called_at}" if self.called_at else ""
        first = self.text.rfind("\n", 0, self.start) + 1
        ending = self.text.find("\n", self.start)
        ending = len(self.text) if ending < 0 else ending
        begin = max(first, self.start - SHOWN_BEFORE_LENGTH)
        end = min(ending, begin + SHOWN_LENGTH)
        width = max(min(self.end, end) - self.start, 1)
        before = "".join("\t" if character == "\t" else " " for character in self.text[begin : self.start])
        left, right = "…" * (begin > first), "…" * (end < ending)
        line = "".join(map(visible, self.text[begin:end].rstrip()))
        return f"{self}{call}\n    {left}{line}{right}\n    {' ' * len(left)}{before}{'^' * width}"

    def of(self, part: object) -> Location:
        span = self.places.get(id(part))
        if span is None or span == (self.start, self.end):
            return self
        return TextLocation.of_text(self.file, self.text, span, self.places, self.called_at, is_ksql=self.is_ksql)

    def __reduce__(self) -> tuple[type[Location], tuple[Any, ...]]:
        """A copy in another process is the place alone: the ids of the parts mean nothing there."""
        return Location, (self.file, self.line, self.column)


@lru_cache(maxsize=8)
def _line_begins(text: str) -> list[int]:
    """Where the lines of a text begin: a script of many statements is asked for many places."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def visible(character: str) -> str:
    """A character as a message shows it: a box for one that a screen does not show, or that would move others."""
    return character if character.isprintable() or character == "\t" else "\N{REPLACEMENT CHARACTER}"


def by_language(at: Location | None, in_python: str, in_sql: str) -> str:
    """The words for who wrote a step at a place: in Python, or in a text of SQL."""
    return in_python if at is None or at.column is None else in_sql


@contextmanager
def written_at(location: TextLocation) -> Iterator[None]:
    """Within the block `user_location` is this place, since what is declared there is written in a text."""
    before = _written.set(location)
    try:
        yield
    finally:
        _written.reset(before)


def user_location() -> Location | None:
    """The file and line of the innermost call that is not StreamKit's own, or the place in a text that is lowered; None when there is none."""
    if (written := _written.get()) is not None:
        return written
    frame = _user_frame()
    return Location(_file_of(frame), frame.f_lineno) if frame else None


def _file_of(frame: FrameType) -> str:
    """The file of a frame; of a cell of a notebook the cell as IPython numbers it, because its file has a name that nobody gave it."""
    shell = frame.f_globals.get("get_ipython")
    if shell is None or "IPython" not in sys.modules:
        return frame.f_code.co_filename
    named = getattr(getattr(shell(), "compile", None), "format_code_name", lambda _: None)(frame.f_code.co_filename)
    return " ".join(named) if named else frame.f_code.co_filename


def user_call() -> tuple[str, int, int] | None:
    """That call itself: its file, line, and place among the instructions, which tells two calls of a line apart; the same when it runs again."""
    if (written := _written.get()) is not None:
        return (str(written.called_at or written.file), written.line, written.start)
    frame = _user_frame()
    return (frame.f_code.co_filename, frame.f_lineno, frame.f_lasti) if frame else None


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _PASSED:
        frame = frame.f_back
    is_thread = frame is not None and frame.f_globals.get("__name__") in _BEGIN_THREADS
    return None if is_thread else frame
