"""Where in the user's own code a step was written."""

from __future__ import annotations

import sys
from types import FrameType

from streamkit.errors import Location

_PACKAGE = "streamkit"


def user_location() -> Location | None:
    """The file and line of the innermost call that is not StreamKit's own; None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame else None
