"""Programs in processes of their own that begin at once: they are forked off one that has loaded the log and opened nothing."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import TextIO

LOADED = (  # what the programs of the tests have in common, so that it is loaded once for all of them
    "pandas",  # by Arrow, once it meets Python values
    "streamkit.cli.consume",
    "streamkit.cli.main",
    "streamkit.cli.produce",
    "streamkit.log.opening",
    "streamkit.log.database.postgres",
    "tests.harness.history.programs",
    "tests.harness.history.members",
    "tests.kit.log_bugs",
    "tests.kit.places",
)


def context() -> ForkServerContext:
    """Where the processes of this one are forked off; it starts with the first of them."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload([*LOADED])
    return found


class Program:
    """
    What `python -m module arguments` would do, or `python -c code arguments`, in a process like that of `subprocess.Popen`, with text.

    It can be killed and stopped like any other. Its environment is that of this process now, and `environment`; nothing else that a test
    has patched is so in it. With `has_errors` its errors are read from here, and not printed.
    """

    def __init__(
        self,
        module: str | None,
        *arguments: str,
        code: str | None = None,
        environment: Mapping[str, str] | None = None,
        has_errors: bool = False,
    ) -> None:
        (child_in, parent_in), (parent_out, child_out) = multiprocessing.Pipe(duplex=False), multiprocessing.Pipe(duplex=False)
        parent_errors, child_errors = multiprocessing.Pipe(duplex=False) if has_errors else (None, None)
        streams = (child_in, child_out, child_errors)
        self._process = context().Process(
            target=_run, args=(module, code, arguments, dict(os.environ) | dict(environment or {}), *streams)
        )
        self._process.start()
        self.stdin: TextIO = _text_of(parent_in, "w")
        self.stdout: TextIO = _text_of(parent_out, "r")
        self.stderr: TextIO | None = None if parent_errors is None else _text_of(parent_errors, "r")
        for stream in filter(None, streams):
            stream.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended; negative for a signal."""
        self._process.join(timeout)
        assert self.returncode is not None, f"process {self.pid} does not end within {timeout} s"
        return self.returncode

    def ended(self) -> tuple[int, str, str]:
        """Its exit code once it has ended, what it printed, and its errors."""
        said, _ = self.communicate()
        assert self.stderr is not None and self.returncode is not None
        with self.stderr:
            return self.returncode, said, self.stderr.read()

    def communicate(self, text: str = "") -> tuple[str, None]:
        """Give it a last text; what it still prints until it has ended, nothing the second time."""
        if self.stdout.closed:
            return "", None
        with suppress(BrokenPipeError):
            self.stdin.write(text)
            self.stdin.close()
        with self.stdout:
            said = self.stdout.read()
        self.wait()
        return said, None


def _text_of(end: Connection, mode: str) -> TextIO:
    """The file of one end of a pipe, to which it belongs from now on."""
    descriptor = os.dup(end.fileno())
    end.close()
    return os.fdopen(descriptor, mode, encoding="utf-8")  # type: ignore[return-value]


def _run(
    module: str | None, code: str | None, arguments: tuple[str, ...], environment: dict[str, str], *streams: Connection | None
) -> None:
    for number, stream in enumerate(streams):
        if stream is not None:
            os.dup2(stream.fileno(), number)
            stream.close()
    os.environ.clear()
    os.environ |= environment
    sys.argv = [module or "-c", *arguments]
    if streams[-1] is not None:
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8", closefd=False), os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if module is not None:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        exec(compile(code or "", "<program>", "exec"), {"__name__": "__main__"})
    sys.stdout.flush()
