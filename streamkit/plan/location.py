"""Where in the user's own code a step was written."""

from __future__ import annotations

import sys
from types import FrameType

from streamkit.errors import Location

_PACKAGE = "streamkit"


def user_location() -> Location | None:
    """The file and line of the innermost call that is not StreamKit's own; None when there is none."""
    frame = _user_frame()
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame else None


def user_call() -> tuple[str, int, int] | None:
    """That call itself: its file, line, and place among the instructions, which tells two calls of a line apart; the same when it runs again."""
    frame = _user_frame()
    return (frame.f_code.co_filename, frame.f_lineno, frame.f_lasti) if frame else None


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame
