"""The command line in a process of its own, which begins at once."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from tests.kit.program import Program
from tests.kit.waiting import WAIT_SECONDS

CODE = "from streamkit.cli.main import main; main()"


class CommandProcess(Program):
    """`streamkit` with these arguments, pointed at a log; it is killed if it takes very long."""

    def __init__(self, root: Path, *arguments: str) -> None:
        super().__init__(None, *arguments, code=CODE, environment={"STREAMKIT_LOG": str(root)}, has_errors=True)
        self._guard = threading.Timer(WAIT_SECONDS, self.kill)
        self._guard.start()

    def rest(self, text: str = "") -> tuple[int, str, str]:
        """Give it a last text; its exit code once it has ended, what it still printed, and its errors."""
        said, _ = self.communicate(text)
        assert self.stderr is not None and self.returncode is not None
        with self.stderr:
            errors = self.stderr.read()
        self._guard.cancel()
        return self.returncode, said, errors

    def end(self, number: int = signal.SIGINT) -> tuple[str, str]:
        """Interrupt it, which is no error; the rest it printed, and its errors."""
        self.send_signal(number)
        code, said, errors = self.rest()
        assert code == 0, (said, errors)
        return said, errors
