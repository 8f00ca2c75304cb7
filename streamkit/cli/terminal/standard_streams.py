"""Standard input and output of the program: open, and left for an interrupt."""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from typing import Any, BinaryIO

from streamkit.errors import ConfigError

_LOOK_S = 0.2  # between two looks for an interrupt


def standard_input(interrupted: threading.Event) -> BinaryIO:
    """Standard input; to read it raises KeyboardInterrupt once the event is set, but only where nothing read is lost by that."""
    if sys.stdin is None or sys.stdin.name == os.devnull:
        raise ConfigError("standard input is closed; expected records there, or the name of a file")
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:
        return sys.stdin.buffer
    return io.BufferedReader(_Interruptible(descriptor, interrupted))


def check_standard_streams() -> None:
    """
    ConfigError if standard output is closed, so that nothing is lost there; a closed input is an empty one, a closed standard error drops all.

    The numbers of closed streams are taken, so that no file of a log is opened under one of them.
    """
    is_closed = sys.stdout is None
    while (descriptor := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if is_closed:
        raise ConfigError("standard output is closed; expected it open, as in > /dev/null")


class _Interruptible(io.RawIOBase):
    """The bytes of a descriptor; an interrupt ends the wait for them."""

    def __init__(self, descriptor: int, interrupted: threading.Event) -> None:
        self._descriptor = descriptor
        self._interrupted = interrupted
        self._is_seekable = _is_seekable(descriptor)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._is_seekable

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._descriptor, offset, whence)

    def readinto(self, buffer: Any) -> int:
        while not self._interrupted.is_set():
            if select.select([self._descriptor], [], [], _LOOK_S)[0]:
                return os.readv(self._descriptor, [buffer])
        raise KeyboardInterrupt


def _is_seekable(descriptor: int) -> bool:
    try:
        os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return False
    return True
