"""A descriptor that becomes readable when somebody says so, for a thread that waits for others as well."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import final


@final
class Waker:
    """A pipe to oneself; any thread may `wake` who waits until `fileno` can be read."""

    def __init__(self) -> None:
        self._ends = os.pipe()
        self._close = closing(self, self._ends)
        for end in self._ends:
            os.set_blocking(end, False)

    def fileno(self) -> int:
        return self._ends[0]

    def wake(self) -> None:
        """Make `fileno` readable until `clear`."""
        with suppress(BlockingIOError):  # it is full: it can be read already
            os.write(self._ends[1], b"\0")

    def clear(self) -> None:
        """Take back what `wake` did."""
        with suppress(BlockingIOError):
            os.read(self._ends[0], 4096)

    def close(self) -> None:
        """Close both ends; a second call does nothing."""
        self._close()


def closing(owner: object, descriptors: Sequence[int]) -> weakref.finalize[[Sequence[int]], object]:
    """What closes descriptors when it is called, or else when their owner is gone."""
    found = weakref.finalize(owner, _close_all, descriptors)
    found.atexit = False  # threads that nobody waits for use them to the end of the process
    return found


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
