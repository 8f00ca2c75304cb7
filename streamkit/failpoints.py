"""
Named places where a crash test may stop the engine.

A place is a call of `reach("name")`, which does nothing unless a test armed a name in this process. The names are declared
here in the order in which a run comes to them, so that tests can show that each of them was hit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module

VARIABLE = "STREAMKIT_FAILPOINT"

POINTS = (
    "start.before_commit",  # a new generation, not yet in the catalog
    "start.after_commit",
    "orphans.between_deletions",
    "epoch.planned",
    "state.before_open",
    "state.untrusted",  # a store was discarded and not yet restored
    "state.between_writes",  # of the changes that a store lacked
    "state.moved_down",  # the runs of a store are in RocksDB, and still in their files
    "kernel.in_operator",
    "storage.half_written",
    "storage.before_fsync",  # of the file
    "storage.after_fsync",  # of the file, not yet of its folder
    "slab.write_failed",  # and not yet written again
    "kernel.slab_durable",
    "kernel.finished",
    "commit.verified",
    "commit.before_commit",  # all statements of the transaction are done
    "journal.entered",  # and not yet committed
    "commit.outcome_unknown",
    "journal.before_mark",  # committed, and not yet marked as such
    "commit.after_commit",
    "epoch.returned",
    "replay.epoch",  # one of those that fill stores again is committed
    "replay.ended",  # all that the application has read was read again, and nothing taken over
    "migration.slab_durable",  # of state that is converted at a start
    "migration.after_commit",
    "replay.adopted",  # by the application, and what was replayed is still there
    "follow.epoch",  # of a second version, beside the first
    "follow.led",  # it may write, and has not yet begun to
    "segment.frame_written",  # of a merge or a compaction
    "compaction.slab_durable",
    "compaction.run_swapped",  # and not yet the next one
    "compaction.swapped",  # all runs of a partition, not yet noted
    "merge.slab_durable",  # and not yet in the place of what it was made of
    "merge.swapped",
    "flush.slab_durable",  # and small commits still in the catalog
    "flush.swapped",
    "retention.trimmed",
    "trash.file_deleted",  # and its row still there
    "trash.files_deleted",
    "backup.between_slabs",
    "backup.before_catalog",  # every slab is there, the catalog not yet
    "dataframe.staged",  # by the tasks of a write of Spark, and not yet committed
    "dataframe.committed",  # and Spark not yet told
    "sql.dropped",  # by a script of SQL, whose new sources and queries are not yet there
    "sql.written",  # all of a script, not yet committed
    "sql.committed",  # a script, and the files of topics that it has deleted are still there
    "sql.starting",  # an application of queries, by their runner
    "sql.started",  # and the runner has not noted that yet
    "sql.stopped",  # since its queries were paused, changed or terminated, or the runner ends
    "sql.swapping",  # what was built beside a query has read as much, and is not yet in its place
    "sql.swapped",
    "rebuild.executed",  # the new catalog is complete, beside the old one
    "rebuild.set_aside",  # the old catalog has another name, and the new one not yet its place
)

CONNECTOR_POINTS = (  # of a connector's task; each kind of task, and each target, comes to its own
    "connect.polled",  # by a connector's task, from the foreign system or from the log
    "connect.staged",  # in a source's transaction, not yet committed
    "connect.committed",  # a source's transaction, and the foreign system not yet told
    "connect.in_target",  # written within the target's transaction, not yet committed
    "connect.target_committed",  # and the group in the log not yet
)

_armed: dict[str, Callable[[], None]] = {}


class SimulatedCrash(BaseException):
    """The process would be dead now; nothing may catch it to go on."""


def reach(name: str) -> None:
    """Run what a test armed at this place, if anything."""
    if _armed:
        assert name in (*POINTS, *CONNECTOR_POINTS), f"the fail point {name!r} is not declared"
        if name in _armed:
            _armed[name]()


@contextmanager
def armed(name: str, action: Callable[[], None]) -> Iterator[None]:
    """Arm one place for the length of a with block; an undeclared name is refused."""
    _check_declared(name)
    _armed[name] = action
    try:
        yield
    finally:
        del _armed[name]


def arm_from(environment: Mapping[str, str]) -> None:
    """Arm the places that `STREAMKIT_FAILPOINT=place=module:function,…` names, in processes that a test does not start itself."""
    for order in filter(None, environment.get(VARIABLE, "").split(",")):
        name, _, action = order.partition("=")
        _check_declared(name)
        _armed[name] = partial(_call, *action.split(":"))


def _call(module: str, function: str) -> None:
    getattr(import_module(module), function)()


def _check_declared(name: str) -> None:
    if name not in (*POINTS, *CONNECTOR_POINTS):
        raise KeyError(f"there is no fail point {name!r}; the declared ones are {', '.join((*POINTS, *CONNECTOR_POINTS))}")


arm_from(os.environ)
