"""
Processes that end where a test says: a server that has opened nothing forks one for each order.

    python -m tests.harness.crash.processes        orders as lines of JSON on stdin, wait statuses on stdout

A fork copies RocksDB's and SQLite's handles without what stands behind them, so the test's own process must not fork.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import rocksdict  # noqa: F401  so that no child pays for it

from streamkit.clock import HandClock
from streamkit.engine.epoch.report import TaskReport
from streamkit.engine.rows.exchange import Packed
from streamkit.engine.runs import local
from streamkit.engine.runs.commit import commit_epoch
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.start import start
from streamkit.engine.stage.kernel import run_inner_kernel, run_last_kernel
from streamkit.errors import StreamKitError
from streamkit.failpoints import armed
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.names import changelog_topic
from streamkit.plan.plain import from_plain
from streamkit.state import task_state
from streamkit.state.stores import ON_DISK
from streamkit.state.tiered_store import TieredStore
from tests.kit import sales
from tests.kit.commit_bugs import plant
from tests.kit.faults import FaultyVfs, end_process

ROOT = Path(__file__).parents[3]
VFS = "streamkit-crash"
IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))  # more of everything


class Processes:
    """The server, as a test sees it."""

    def __init__(self, errors: Path) -> None:
        self._errors = errors
        command = [sys.executable, "-m", "tests.harness.crash.processes"]
        with errors.open("w") as stderr:
            self._server = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )

    def run(self, work: str, **order: object) -> int:
        """The wait status of a process that did this work."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps({"work": work, **order}) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline() or -1)

    def is_killed(self, work: str, **order: object) -> bool:
        """Whether it was killed before it ended; it must not fail otherwise."""
        status = self.run(work, **order)
        assert os.WIFSIGNALED(status) or status == 0, self.errors()
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def errors(self) -> str:
        """What the processes wrote to stderr."""
        return self._errors.read_text()

    def close(self) -> None:
        self._server.communicate()


def after(calls: int, action: Callable[[], None]) -> Callable[[], None]:
    """The action at call number `calls`, and nothing at the others."""
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == calls:
            action()

    return count


def fail_to_sync() -> None:
    raise OSError(errno.EIO, "a fault on purpose")


def run(
    *,
    folder: str,
    point: str | None = None,
    at: int = 1,
    tasks: int = 2,
    records_max: int = sales.EPOCH_RECORDS,
    sync_fails: bool = False,
    commit_fails: bool = False,
    attempts: int = 1,
    compacts: bool = False,
    flushes: bool = False,
    holds: str = "",
    inline: bool = False,
    memory_bytes: int = 0,
    bug: str = "",
) -> None:
    """
    Run the application until nothing is left, or until it has come `at` times to `point`: there the process ends.

    With `compacts`, compaction runs between the epochs, and time flies so that it drops deletions too. With `flushes`, each
    write to a store is on its disk at once, as it is when a buffer is full, and so outlives the process. What `holds` says of a store is
    whether it stays open between epochs: "all", "some" at random, or none if it is empty. With `inline`,
    small slabs are in the catalog. With `memory_bytes` a store has so much memory. A `bug` makes it wrong.
    """
    os.environ["STREAMKIT_INLINE_SLAB_BYTES"] = str(1 << 16) if inline else "0"
    if memory_bytes:
        os.environ["STREAMKIT_STORE_MEMORY_BYTES"] = str(memory_bytes)
    if bug:
        plant(bug)
    if flushes:
        flush_every_write()
    task_state.CHANGES_PER_WRITE = 1
    vfs = FaultyVfs(VFS)
    actions: dict[str, Callable[[], None]] = {}
    if sync_fails:
        actions["storage.before_fsync"] = after(2, fail_to_sync)
    if commit_fails:
        actions["commit.before_commit"] = after(1, lambda: vfs.fault.arm("io", 1))
    if point is not None:
        actions[point] = after(at, end_process)
    with ExitStack() as stack:
        for name, action in actions.items():
            stack.enter_context(armed(name, action))
        if attempts == 2:
            run_every_kernel_twice()
        log = open_log(folder, LeapingClock() if compacts else None, VFS)
        planner = start(log.catalog, log.storage, sales.load_program(), tasks=tasks, records_max=records_max)
        try:
            run_epochs(planner, log if compacts else None, holds)
        except StreamKitError:
            assert commit_fails
            run_epochs(planner, None, holds)
        log.close()


class LeapingClock:
    """A clock that is past every `delete.retention.ms` when it is read again."""

    def __init__(self) -> None:
        self._reads = 0

    def now_ms(self) -> int:
        self._reads += 1
        return sales.START_MS + self._reads * 30 * 86_400_000


def run_epochs(planner: Planner, compacts: Log | None, holds: str) -> None:
    """
    Run epochs until nothing is left, and compact what they keep newest rows in after each if a log is given for that.

    Held stores are closed before an epoch that opens its own, as they are where some epochs run in one process and some on Spark.
    """
    compacted = [*(changelog_topic(sales.APPLICATION, store) for store in sales.STORES), *sales.FOLDED_TOPICS]
    random, held = Random(planner.application.generation), local.held_stores(planner, 1)
    while True:
        is_held = holds == "all" or (holds == "some" and random.random() < 0.6)
        if not is_held:
            held.close()
        if local.run_next(planner, stores=held if is_held else ON_DISK) is None:
            break
        planner = planner.with_near_anchor()
        if compacts is not None:
            for topic in compacted * 2:
                compacts.compact(topic)
    held.close()


def run_every_kernel_twice() -> None:
    """Two attempts of every kernel finish; the tasks downstream hear of different ones, and of the last the second wins."""

    def run_inner_twice(*arguments: Any, in_process: bool) -> Iterator[Packed]:
        assert in_process, "and yet as between processes, where attempts are compared"
        first, second = list(run_inner_kernel(*arguments)), list(run_inner_kernel(*arguments))
        yield from (row for row in first if row.task % 2)
        yield from (row for row in second if not row.task % 2)

    def run_last_twice(*arguments: Any) -> TaskReport | None:
        run_last_kernel(*arguments)
        return run_last_kernel(*arguments)

    vars(local).update(run_inner_kernel=run_inner_twice, run_last_kernel=run_last_twice)


def flush_every_write() -> None:
    original = TieredStore.write

    def write(store: TieredStore, *arguments: Any) -> None:
        original(store, *arguments)
        store.flush()

    TieredStore.write = write  # type: ignore[assignment, method-assign]


def commit(*, folder: str, reports: str, kind: str, at: int, bug: str = "") -> None:
    """Commit an epoch by its reports, while the catalog's disk fails at call number `at` from COMMIT on."""
    if bug:
        plant(bug)
    found = [from_plain(TaskReport, report) for report in json.loads(Path(reports).read_text(encoding="utf-8"))]
    vfs = FaultyVfs(VFS)
    log = open_log(folder, vfs=VFS)
    with armed("commit.before_commit", lambda: vfs.fault.arm(kind, at)):
        commit_epoch(log.catalog, log.storage, sales.load_program(), found)
    os._exit(0)  # without the checkpoint of a close


def maintain(*, folder: str, now_ms: int, point: str | None = None, at: int = 1, bug: str = "") -> None:
    """Two passes of maintenance, the second when the trash may be emptied, or until it has come `at` times to `point`."""
    if bug:
        plant(bug)
    clock = HandClock(now_ms)
    with open_log(folder, clock) as log, ExitStack() as stack:
        if point is not None:
            stack.enter_context(armed(point, after(at, end_process)))
        log.maintain()
        clock.advance(log.settings.file_delete_delay_ms + 1)
        log.maintain()


WORKS: dict[str, Callable[..., None]] = {"run": run, "commit": commit, "maintain": maintain}


def serve() -> None:
    for line in sys.stdin:
        if not (child := os.fork()):
            status = 1
            try:
                order = json.loads(line)
                WORKS[order.pop("work")](**order)
                status = 0
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(status)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    serve()
