"""
What happens to the Python processes that Spark starts.

In all of them fail points lead to `strike`, which does nothing unless a test left a file with the name of the place; the file
holds the name of the function that strikes there. So the same processes serve all tests: starting others takes seconds.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

FOLDER = "STREAMKIT_FAULT_FOLDER"
PLACES = {
    "epoch.planned": "planned",
    "state.before_open": "before_open",
    "kernel.in_operator": "in_operator",
    "kernel.slab_durable": "slab_durable",
    "kernel.finished": "finished",
    "commit.after_commit": "committed",
}
TEST_FOLDER = "test_folder"


def strike(place):
    """Do what a test ordered for this place."""
    try:
        action = (folder() / place).read_text()
    except FileNotFoundError:
        return
    globals()[action]()


planned = partial(strike, "epoch.planned")
before_open = partial(strike, "state.before_open")
in_operator = partial(strike, "kernel.in_operator")
slab_durable = partial(strike, "kernel.slab_durable")
finished = partial(strike, "kernel.finished")
committed = partial(strike, "commit.after_commit")


def settings(place, module, names=tuple(PLACES)):
    """The environment variables that lead fail points here, by the name under which the processes import this module."""
    from streamkit.failpoints import VARIABLE

    return {VARIABLE: ",".join(f"{name}={module}:{PLACES[name]}" for name in names), FOLDER: str(place)}


def order(place, actions, test_folder):
    """Forget earlier orders, and leave these: actions by fail point."""
    for file in Path(place).iterdir():
        file.unlink()
    for name, action in actions.items():
        (Path(place) / name.replace("__", ".")).write_text(action.__name__)
    (Path(place) / TEST_FOLDER).write_text(str(test_folder))


def folder():
    return Path(os.environ[FOLDER])


def is_first(name):
    """Whether no process has come here before, under this name."""
    return is_number(name, 1)


def is_number(name, number):
    """Whether this is the call with that number, over all processes."""
    for count in range(1, number + 1):
        try:
            os.close(os.open(folder() / f"{name}-{count}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return count == number
    return False


def struck(place):
    """The names of the faults that struck."""
    return {path.name for path in Path(place).glob("*-[0-9]")}


def wait_until(holds, seconds=60):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not hold within {seconds} s"
        time.sleep(0.02)


def raise_in_operator():
    if is_first("raise_in_operator"):
        raise ValueError("a fault on purpose, before anything was staged")


def raise_after_slab():
    if is_first("raise_after_slab"):
        raise ValueError("a fault on purpose, after the slab was staged")


def die_when_finished():
    if is_first("die_when_finished"):
        os.kill(os.getpid(), signal.SIGKILL)


def die_once():
    if is_first("die_once"):
        os.kill(os.getpid(), signal.SIGKILL)


def die_twice():
    if is_first("die_twice") or is_first("die_twice_again"):
        os.kill(os.getpid(), signal.SIGKILL)


def lose_slabs():
    """Delete every slab of the application, as if the disk of an executor had gone with it; called in the first epoch."""
    if is_number("lose_slabs", 3):  # a task of the second kernel
        for slab in Path((folder() / TEST_FOLDER).read_text()).glob("log-*/slabs/a*/1/1-*.slab"):
            slab.unlink()


def outlive_the_job():
    """Go on only when the test says so, when the job is long cancelled."""
    if is_first("outlive_the_job"):
        wait_until((folder() / "cancelled").exists)


def note_finished():
    is_number("finished", 1_000)


def kill_executor():
    """
    Kill this executor's JVM, the parent of the daemon that forked this process, between the two kernels of the first epoch.

    It has run an inner kernel and begun a last one; the other executor has done its last one with what this one sent.
    The first inner kernel waits for the second, which it keeps from its own core: so there are two executors from then on.
    """
    if not is_number("kill_executor", 3):
        wait_until((folder() / "kill_executor-2").exists, 200)
    else:
        wait_until((folder() / "finished-3").exists)
        os.kill(parent_of(os.getppid()), signal.SIGKILL)


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def hold_restores():
    """The next restore in each worker tells at once how far it is, and stands still until the test lets it go on."""
    from streamkit.state.restoring import RestoreReport

    advance = RestoreReport.advance

    def held(report, changes):
        setattr(RestoreReport, "advance", advance)  # noqa: B010  (only the next one)
        report._tell_at = 0.0
        advance(report, changes)
        wait_until((folder() / "go_on").exists)

    setattr(RestoreReport, "advance", held)  # noqa: B010
