"""Runs, deaths, restarts, deleted stores and new input in any order come to what one undisturbed run makes of the input."""

from __future__ import annotations

import shutil
from random import Random

import pytest

from streamkit.errors import StreamKitError
from streamkit.log.opening import open_log
from tests.harness.crash.processes import IS_TORTURE
from tests.harness.crash.test_points import HOLDS, SCENARIOS
from tests.kit import sales
from tests.kit.sales_outcome import finish

SEEDS = range(200 if IS_TORTURE else 1)
STEPS = 6
POINTS = tuple(SCENARIOS)  # those that a run may come to
ALWAYS = (
    "start.after_commit",
    "epoch.planned",
    "kernel.in_operator",
    "storage.half_written",
    "commit.before_commit",
    "epoch.returned",
)

BUGS = {  # and the seed of a schedule in which they show
    "positions are committed before what was made of them": 5,
    "a store that was lost begins empty": 0,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_any_schedule(seed, copied, empty, processes, expected):
    """Whatever happened before, the run that comes to the end of the same input comes to the same results."""
    random, folder = Random(seed), copied(empty)
    play(random, folder, processes)
    assert finish(folder, tasks=random.choice((None, 1, 3)), records_max=random.choice((40, 1000))) == expected


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_engine_is_caught(bug, copied, empty, processes, expected):
    """What an engine that is wrong in one way has made of its input shows in the end."""
    random, folder = Random(BUGS[bug]), copied(empty)
    play(random, folder, processes, bug)
    with pytest.raises((AssertionError, StreamKitError)):
        assert finish(folder) == expected


def play(random, folder, processes, bug=""):
    """Runs and deaths, until all input is there."""
    chunks = append(folder, 0, 1)
    assert processes.is_killed("run", folder=str(folder), point=random.choice(ALWAYS), bug=bug)
    for _ in range(STEPS):
        chunks = append(folder, chunks, min(chunks + random.randint(0, 1), sales.CHUNKS))
        if random.random() < 0.3:
            delete_a_store(folder, random)
        processes.is_killed("run", folder=str(folder), bug=bug, **order(random))
    append(folder, chunks, sales.CHUNKS)


def order(random):
    """A run with a death at a random visit of a random point, if it comes so far."""
    point, compacts, at = random.choice(POINTS), random.random() < 0.2, random.choice((1, 1, 2, 3, 5, 8, 20))
    return {
        "point": point,
        "compacts": compacts,
        "at": at,
        "tasks": random.choice((1, 2, 2, 2, 3)),
        "records_max": random.choice((25, sales.EPOCH_RECORDS, 150, 1000)),
        "sync_fails": random.random() < 0.2,
        "commit_fails": random.random() < 0.1,
        "attempts": random.choice((1, 1, 2)),
        "flushes": random.random() < 0.5,
        "holds": HOLDS[at % len(HOLDS)],
        "inline": random.random() < 0.5,
        "memory_bytes": random.choice([0, 1, 2_000]),
    }


def append(folder, done, wanted):
    with open_log(folder) as log:
        for number in range(done, wanted):
            sales.append_chunk(log, number)
    return wanted


def delete_a_store(folder, random):
    stores = sorted(folder.glob("stores/sales/*/*"))
    if stores:
        shutil.rmtree(random.choice(stores))


@pytest.fixture(scope="module")
def empty(fast_folder):
    folder = fast_folder / "empty"
    with open_log(folder) as log:
        sales.create_inputs(log)
    return folder
