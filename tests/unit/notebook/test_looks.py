"""Promises of looks: when they come, when they end, and that nothing is left of them."""

from __future__ import annotations

import threading

import streamkit as sk
from streamkit.log.log import Log
from streamkit.notebook import looks as looks_module
from streamkit.notebook.looks import Looks
from streamkit.notebook.open_watches import WATCHES_MAX, Execution, _open, forget, keep_open
from tests.kit.forked import outcome_in_child
from tests.kit.waiting import WAIT_SECONDS, wait_until


def threads():
    return [one for one in threading.enumerate() if one.name.startswith("streamkit-watch-")]


def looks_at(log, look, left, is_over=lambda: False):
    return Looks(log, look, lambda: left.append(log), is_over, "test")


def test_looks_end_when_there_is_nothing_more_to_see(log):
    """Looks come until one says that it was the last; they have a connection of their own, and leave while it is open."""
    seen: list[Log] = []
    left: list[object] = []

    def look(own):
        seen.append(own)
        return len(seen) < 2

    looks = looks_at(log, look, left)
    looks.start()
    wait_until(lambda: not threads())
    assert len(seen) == 2 and seen[0] is not log and len(left) == 1 and not looks.is_alive
    assert seen[0].is_closed and not log.is_closed


def test_looks_are_stopped(log):
    """Who stops them waits for the look under way, and no thread is left."""
    seen: list[object] = []

    def look(own):
        seen.append(own)
        return True

    looks = looks_at(log, look, [])
    looks.start()
    wait_until(lambda: seen)
    looks.stop()
    looks.stop()
    assert not threads() and not looks.is_alive


def test_the_last_look_comes_at_once(log, monkeypatch):
    """Where the end is known a look does not wait for its turn."""
    monkeypatch.setattr(looks_module, "PAUSE_SECONDS", WAIT_SECONDS)
    seen: list[object] = []

    def look(own):
        seen.append(own)
        return len(seen) < 2

    looks_at(log, look, [], lambda: len(seen) == 1).start()
    wait_until(lambda: not threads(), WAIT_SECONDS / 2)
    assert len(seen) == 2


def test_a_log_in_memory_is_shared():
    """A log that cannot be opened twice is looked at as it is."""
    with sk.open_log(":memory:") as log:
        seen: list[object] = []
        looks = looks_at(log, seen.append, [])
        looks.start()
        wait_until(lambda: not threads())
        assert seen == [log] and not log.is_closed


def test_a_fork_has_no_looks(log, worked):
    """A process that was forked has neither the thread nor the log: stopping does nothing there, and a watch says why it stands still."""
    watch = worked.watch()
    repr(watch)
    looks = looks_at(log, lambda own: True, [])
    looks.start()
    with watch._at_work:  # as if a look went on in a thread while the process forks
        told = outcome_in_child(lambda: f"{looks.is_alive} {looks.stop()} {watch!r}")
    assert told.startswith("False None RunWatch('totals': ended") and "forked" in told
    assert looks.is_alive
    looks.stop()


class Ended:
    """Notes that it was closed."""

    is_closed = False

    def close(self):
        self.is_closed = True
        forget(self)


def test_a_cell_that_runs_again_ends_what_it_began():
    """Watches of an earlier run of the same cell end; those of other cells, and of the same run, go on; the oldest one too many ends."""
    first, beside, other, later = Ended(), Ended(), Ended(), Ended()
    keep_open(first, Execution("a", "1"))
    keep_open(beside, Execution("a", "1"))
    keep_open(other, Execution("b", "2"))
    assert not (first.is_closed or beside.is_closed)
    keep_open(later, Execution("a", "3"))
    assert first.is_closed and beside.is_closed and not (other.is_closed or later.is_closed)
    unknown = [Ended() for _ in range(WATCHES_MAX)]
    for one in unknown:
        keep_open(one, Execution(None, None))
    assert other.is_closed and later.is_closed and not any(one.is_closed for one in unknown)
    for one in unknown:
        forget(one)
    assert _open == []
