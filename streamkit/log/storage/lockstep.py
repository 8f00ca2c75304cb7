"""The parts of a file, handed to several writers in step, so that no more of them are in memory than one load."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from streamkit.log.storage.storage import FilePart

LOAD_BYTES = 8 * 1024 * 1024


class NoMorePartsError(Exception):
    """The parts that a writer waits for will not come: making them failed, or the work was given up."""


class Lockstep:
    """
    Parts for writers in threads of their own: no writer gets the next load before all that are left have asked for it.

    The parts are made in the thread that asks last. An error while they are made is the `failure`.
    """

    def __init__(self, parts: Iterable[FilePart], writers: Iterable[int]) -> None:
        self.failure: BaseException | None = None
        self._loads = _loads(parts)
        self._load: tuple[FilePart, ...] = ()
        self._count = 0
        self._writers = set(writers)
        self._asking: set[int] = set()
        self._is_over = False
        self._changed = threading.Condition()

    def parts(self, writer: int) -> Iterator[FilePart]:
        """The parts for one of the writers; NoMorePartsError once there was a failure, or the work was given up."""
        while load := self._next(writer):
            yield from load

    def leave(self, writer: int) -> None:
        """Let the others go on without this writer, which is done or has failed."""
        with self._changed:
            self._writers.discard(writer)
            self._go_on()

    def give_up(self) -> None:
        """Let whoever asks, or waits now, give up."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _next(self, writer: int) -> tuple[FilePart, ...]:
        with self._changed:
            asked_at = self._count
            self._asking.add(writer)
            self._go_on()
            self._changed.wait_for(lambda: self._is_over or self._count > asked_at)
            if self._is_over:
                raise NoMorePartsError
            return self._load

    def _go_on(self) -> None:
        """Make the next load, if all writers that are left ask for it."""
        if self._is_over or not self._writers or self._asking != self._writers:
            return
        self._asking.clear()
        self._load = ()  # which may go before the next is made
        try:
            self._load = next(self._loads, ())
        except BaseException as error:  # noqa: BLE001  whoever waits for the writers raises it
            self.failure, self._is_over = error, True
        self._count += 1
        self._changed.notify_all()


def _loads(parts: Iterable[FilePart]) -> Iterator[tuple[FilePart, ...]]:
    """The parts in groups of `LOAD_BYTES` or somewhat more; the last may have less."""
    load: list[FilePart] = []
    size = 0
    for part in parts:
        load.append(part)
        size += memoryview(part).nbytes
        if size >= LOAD_BYTES:
            yield tuple(load)
            load, size = [], 0
    if load:
        yield tuple(load)
