"""A program at a terminal of its own, as somebody sits before it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

from tests.kit.waiting import WAIT_SECONDS

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07|\r")
COLUMNS, LINES = 240, 40
CTRL_C, CTRL_D, TAB, UP, LEFT, ENTER, ALT_ENTER = "\x03", "\x04", "\t", "\x1b[A", "\x1b[D", "\r", "\x1b\r"


@final
class Terminal:
    """`python program arguments` at a pseudo terminal; use it in a `with` block, which kills what has not ended."""

    def __init__(
        self, program: Sequence[str], *arguments: str, environment: Mapping[str, str], folder: Path | None = None
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        known = {
            **{name: value for name, value in os.environ.items() if name != "STREAMKIT_LOG"},
            "TERM": "xterm",
            "COLUMNS": "160",
            "LINES": "40",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            **environment,
        }
        self._process = subprocess.Popen(
            [sys.executable, *program, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=known, start_new_session=True,
            cwd=folder, preexec_fn=_own_terminal,  # noqa: PLW1509  it calls the system alone
        )  # fmt: skip
        os.close(theirs)
        self._shown = ""
        self._seen = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._ours)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._ours, text.encode())

    def until(self, text: str) -> str:
        """Wait until a text is shown behind what was waited for before; returns what was shown up to it."""
        self._wait(lambda shown: text in shown, text)
        place = self._shown.index(text, self._seen)
        found = self._shown[self._seen : place + len(text)]
        self._seen = place + len(text)
        return found

    def until_lines(self, lines: Sequence[str]) -> None:
        """Wait until lines of these words are shown, in any order, behind what was waited for before."""
        wanted = {" ".join(line.split()) for line in lines}
        self._wait(lambda shown: wanted <= {" ".join(line.split()) for line in shown.splitlines()}, "\n".join(wanted))

    def _wait(self, is_so: Callable[[str], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_so(self._shown[self._seen :]):
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._ours], [], [], max(left, 0))
            assert ready, f"{what!r} was not shown; there is {self._shown[self._seen :]!r}"
            assert self._read(), f"the program ended before {what!r}; there is {self._shown[self._seen :]!r}"

    def end(self) -> int:
        """Wait until the program has ended; its code."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            ready, _, _ = select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"the program did not end; there is {self._shown[self._seen :]!r}"
            if not self._read():
                return self._process.wait(WAIT_SECONDS)

    def _read(self) -> bool:
        try:
            found = os.read(self._ours, 1 << 16)
        except OSError:  # nobody has the other end any more
            return False
        self._shown += ESCAPES.sub("", found.decode(errors="replace"))
        return bool(found)


def _own_terminal() -> None:
    """Let the terminal be the one that Ctrl-C comes from."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
