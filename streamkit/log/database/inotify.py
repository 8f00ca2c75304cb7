"""
Commits of a SQLite catalog as Linux tells of them: who has committed touches the file, and who waits hears of that by inotify.

SQLite's own writes are no sign of a commit. It writes a transaction into the write-ahead log, syncs it, and shows it to others only
then, by memory that they share, of which inotify tells nothing. Who is woken by the write looks too early, and misses the commit.

The touch sets the times of the file, which nobody reads, and opens nothing: to close a descriptor of the file would drop SQLite's locks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
from contextlib import suppress
from typing import final

from streamkit.log.database.waker import Waker, closing

_IN_ATTRIB = 0x00000004  # linux/inotify.h
_EVENTS_BYTES = 16 * 1024


def touch(path: str) -> None:
    """Tell those who listen at the file that something was committed; if that cannot be, they find it a little later."""
    with suppress(OSError):
        os.utime(path)


@final
class InotifyListener:
    """
    Hears when a file is touched, by any process of the host; idle, it costs nothing.

    OSError where the system or the file system has no inotify, or when no more are to be had (`fs.inotify.max_user_instances`).
    """

    def __init__(self, path: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self._inotify = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._close = closing(self, [self._inotify])
        _checked(libc.inotify_add_watch(self._inotify, os.fsencode(path), _IN_ATTRIB))
        self._waker = Waker()
        self._ready = select.poll()
        for descriptor in (self._inotify, self._waker.fileno()):
            self._ready.register(descriptor, select.POLLIN)
        os.utime(path)
        if not self.listen(0.0):
            raise OSError(errno.ENOSYS, "this file system has no inotify", path)

    def listen(self, timeout_s: float) -> bool:
        """Whether the file was touched since the call before; waits for that at most so long."""
        ready = [descriptor for descriptor, _ in self._ready.poll(timeout_s * 1000)]
        if self._waker.fileno() in ready:
            self._waker.clear()
        if self._inotify not in ready:
            return False
        with suppress(BlockingIOError):  # all is read
            while os.read(self._inotify, _EVENTS_BYTES):
                pass
        return True

    def interrupt(self) -> None:
        """End the call that is under way, or else the next one, at once."""
        self._waker.wake()

    def close(self) -> None:
        """Hear no more; a second call does nothing."""
        self._close()
        self._waker.close()

    def leave_to_parent(self) -> None:
        """Close the descriptors that a forked child has: what it read would be missing in the parent."""
        self.close()


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
