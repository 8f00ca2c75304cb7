"""
Waiting for commits, in place of looking for them over and over.

Who waits for something in the catalog makes a watch, looks, and waits on the watch if it found nothing:

    watch = catalog.watch()             # before the look, so that a commit meanwhile is not missed
    while not take_what_is_there():
        watch.wait(0.5)                 # until there may have been a commit since the watch was made, or since it was waited on before

A wake-up is a hint and never truth: there may have been no commit, or one of no interest. A hint may be lost too, as when a process
dies right after its commit. So waits have a bound, and what is there is found by looking.

In a log where others commit all the time most hints are for nothing. So a watch that goes on hearing of commits, while its holder goes on
to find nothing, wakes it less and less often: the first hint at once, later ones up to 16 ms late.

What an open database hears of commits, its own and those of others, is one count (`HeardCommits`). So many commits wake a waiter
once, and any number of waiters need one place to listen. One of those who wait listens for all of them:

    a file of SQLite                inotify on the file, which who committed touches once the commit can be seen (`inotify.py`)
    where there is no inotify       a look at SQLite's number of commits every few ms (`data_version.py`)
    PostgreSQL                      LISTEN on a session of its own (`postgres_listener.py`)
    in memory                       nothing: who commits is in this process, and says so
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol, final

SIGNAL_SECONDS = 0.5  # how late a signal may be noticed that the system hands to another thread
PAUSES_SECONDS = (0.001, 0.016)  # from the second hint of a watch to the end of the wait, and the most from later ones
LOOK_SECONDS = 0.05  # between two looks of those who wait where commits cannot be heard of


class CommitListener(Protocol):
    """A place to hear of commits. One thread at a time listens."""

    def listen(self, timeout_s: float) -> bool:
        """Whether there may have been a commit since the call before; waits for one at most so long. Raises nothing."""

    def interrupt(self) -> None:
        """End the call that is under way, or else the next one, at once."""

    def close(self) -> None:
        """Hear no more; nobody listens."""

    def leave_to_parent(self) -> None:
        """In a forked child: let go of what can be let go of without an effect on the parent, for which it goes on."""


@final
class HeardCommits:
    """
    What one open database hears of commits, as a count that grows; for any number of threads.

    `open_listener` opens the place to listen at the first wait, which therefore ends at once: what was committed before it is not
    known. None if all who commit call `tell`.
    """

    def __init__(self, open_listener: Callable[[], CommitListener] | None = None) -> None:
        self._open_listener = open_listener
        self._listener: CommitListener | None = None
        self._count = 0
        self._is_listening = False  # whether one of those who wait listens
        self._is_closed = False
        self._changed = threading.Condition()
        _all_heard.add(self)

    def watch(self) -> CommitWatch:
        """A watch that begins now."""
        return CommitWatch(self)

    def now(self) -> int:
        """The count, with all that can be heard by now."""
        with self._changed:
            if self._listener is not None and not self._is_listening:
                self._count += self._listener.listen(0.0)
            return self._count

    def tell(self) -> None:
        """End all waits: there was a commit, or there is something else to look at, such as an order to stop."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()
            if self._is_listening and self._listener is not None:
                self._listener.interrupt()

    def wait(self, since: int, timeout_s: float) -> bool:
        """Wait until the count is another than `since`, at most so long; whether it is. Ends at once when the database is closed."""
        end = time.monotonic() + timeout_s
        while True:
            with self._changed:
                left_s = min(end - time.monotonic(), SIGNAL_SECONDS)
                if self._count != since or self._is_closed or left_s <= 0:
                    return self._count != since
                if self._is_listening or self._open_listener is None:
                    self._changed.wait(left_s)
                    continue
                self._is_listening = True
            self._listen(self._open_listener, left_s)

    def close(self) -> None:
        """End all waits, and listen no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            if not self._is_listening:
                self._close_listener()
            elif self._listener is not None:
                self._listener.interrupt()

    def _listen(self, open_listener: Callable[[], CommitListener], timeout_s: float) -> None:
        """Listen for all who wait, without the lock, since others may make watches and commit meanwhile."""
        heard = True  # unless it is known that there was none
        try:
            if self._listener is not None:
                heard = self._listener.listen(timeout_s)
            else:
                try:
                    self._listener = open_listener()
                except OSError:  # no room for one more descriptor, say
                    time.sleep(min(timeout_s, LOOK_SECONDS))
        finally:
            with self._changed:
                self._is_listening = False
                self._count += heard
                self._changed.notify_all()
                if self._is_closed:
                    self._close_listener()

    def _close_listener(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def _leave_to_parent(self) -> None:
        self._changed = threading.Condition()  # a thread that does not exist here may have held it
        self._is_listening = False
        listener, self._listener = self._listener, None
        if listener is not None:
            _of_parents.append(listener)
            listener.leave_to_parent()


@final
class CommitWatch:
    """A moment from which on a commit ends a wait; for one thread, and one search for something."""

    def __init__(self, heard: HeardCommits) -> None:
        self._heard = heard
        self._since = heard.now()
        self._pause_s = 0.0  # from a hint to the end of the wait

    def wait(self, timeout_s: float) -> bool:
        """
        Wait until there may have been a commit since the watch was made, or since the wait before ended, at most so many seconds.

        Returns whether there may have been one.
        """
        end = time.monotonic() + timeout_s
        has_heard = self._heard.wait(self._since, timeout_s)
        if has_heard:
            time.sleep(max(0.0, min(self._pause_s, end - time.monotonic())))
            self._pause_s = min(max(2 * self._pause_s, PAUSES_SECONDS[0]), PAUSES_SECONDS[1])
        self._since = self._heard.now()  # before the look that follows
        return has_heard


_of_parents: list[CommitListener] = []  # kept for ever: the end of a connection here would be one in the parent, too
_all_heard: weakref.WeakSet[HeardCommits] = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    for heard in list(_all_heard):
        heard._leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)
