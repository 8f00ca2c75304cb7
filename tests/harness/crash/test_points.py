"""
A process that dies at any named point leaves a log from which the next one comes to the same results (table of crash points).

Each point is hit, some while the application recovers from another one; under torture each is hit again in its own recovery, and once
at many visits.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest

from streamkit.errors import StreamKitError
from streamkit.failpoints import POINTS
from tests.harness.crash.processes import IS_TORTURE
from tests.harness.crash.test_maintenance_points import MAINTENANCE_POINTS
from tests.kit.sales_outcome import finish


@dataclass(frozen=True)
class Scenario:
    """How a run comes to a point: crash points it stands for, the visit at which to die, and what else goes wrong."""

    crash_points: tuple[int, ...]
    at: int = 1
    again_at: int = 1
    rolled_back: bool = False
    order: dict[str, Any] = field(default_factory=dict)


SCENARIOS = {
    "start.before_commit": Scenario((1,)),
    "start.after_commit": Scenario((2,)),
    "orphans.between_deletions": Scenario((3,), at=2),
    "epoch.planned": Scenario((4,), at=2),
    "state.before_open": Scenario((7,), at=6, again_at=2),
    "state.between_writes": Scenario((8,), at=3, again_at=5, order={"flushes": True}),
    "state.moved_down": Scenario((), at=3, again_at=5, order={"memory_bytes": 1}),
    "kernel.in_operator": Scenario((9,), at=20, again_at=50),
    "storage.half_written": Scenario((10,), at=9, again_at=30),
    "storage.before_fsync": Scenario((11,), at=4, again_at=2),
    "storage.after_fsync": Scenario((12,), at=3, again_at=5),
    "slab.write_failed": Scenario((13,), order={"sync_fails": True}),
    "kernel.slab_durable": Scenario((14,), at=4, again_at=1),
    "kernel.finished": Scenario((16,), at=2, again_at=8, order={"attempts": 2}),
    "commit.verified": Scenario((18,)),
    "commit.before_commit": Scenario((19,)),
    "journal.entered": Scenario((), at=3),
    "commit.outcome_unknown": Scenario((21,), order={"commit_fails": True}),
    "journal.before_mark": Scenario((), at=2),
    "commit.after_commit": Scenario((22,)),
    "epoch.returned": Scenario((26,)),
    "state.untrusted": Scenario((24, 28), rolled_back=True),
    "compaction.slab_durable": Scenario((31,), at=3, again_at=20, order={"compacts": True}),
    "compaction.run_swapped": Scenario((), at=5, again_at=9, order={"compacts": True}),
    "compaction.swapped": Scenario((), at=8, again_at=30, order={"compacts": True}),
}
HOLDS = ("all", "some", "")  # whether stores stay open between epochs
CHAINS = 6  # of points where one life after the other ends
BUGS = {  # and where they show
    "positions are committed before what was made of them": "commit.before_commit",
    "a store says that it has caught up before it has": "state.between_writes",
    "a store that is held takes what is not committed yet": "commit.before_commit",
}
OF_COMMANDS = ("backup.between_slabs", "backup.before_catalog", "rebuild.executed", "rebuild.set_aside")  # in tests/unit/log
OF_STARTS = ("migration.slab_durable", "migration.after_commit")  # in tests/unit/engine/evolution/test_migration.py
OF_FOLLOWING = ("follow.epoch", "follow.led")  # in tests/unit/engine/runs/test_following.py
OF_REBUILDS = ("replay.epoch", "replay.ended", "replay.adopted")  # in tests/unit/engine/runs/test_rebuild.py
OF_SCRIPTS = ("sql.dropped", "sql.written", "sql.committed")  # in tests/unit/sql/session/test_execute.py
OF_RUNNERS = (
    "sql.starting",
    "sql.started",
    "sql.stopped",
    "sql.swapping",
    "sql.swapped",
)  # in tests/harness/crash/test_query_runner.py
OF_DATAFRAMES = ("dataframe.staged", "dataframe.committed")  # in tests/unit/spark/dataframe
ROOT = Path(__file__).parents[3]
CALL = re.compile(r'\breach\("([^"]+)"\)$', re.MULTILINE)
ELSEWHERE = {
    5: "tests/unit/spark",  # Spark's own checkpoint is lost
    6: "tests/unit/spark",
    15: "tests/unit/spark",  # an executor dies
    17: "tests/unit/spark",  # a cancelled job writes on
    20: "tests/harness/crash/test_commit_faults.py",
    23: "tests/unit/spark",
    25: "tests/unit/spark",
    27: "tests/harness/crash/test_compaction.py",
    31: "tests/harness/crash/test_maintenance_points.py",
    32: "tests/harness/crash/test_maintenance_points.py",
    38: "tests/harness/crash/test_rebuild.py",
}


def test_no_crash_point_was_missed():
    """Every crash point up to the last of an epoch, and that of compaction, has a scenario here, or tests elsewhere."""
    covered = [number for scenario in SCENARIOS.values() for number in scenario.crash_points]
    assert sorted({*covered, *ELSEWHERE}) == [*range(1, 29), 31, 32, 38]


def test_every_point_has_a_scenario():
    """Each declared point belongs to a scenario here, to those of maintenance, to a command's, a start's, or a DataFrame's."""
    assert sorted(
        [
            *SCENARIOS,
            *MAINTENANCE_POINTS,
            *OF_COMMANDS,
            *OF_STARTS,
            *OF_FOLLOWING,
            *OF_REBUILDS,
            *OF_DATAFRAMES,
            *OF_SCRIPTS,
            *OF_RUNNERS,
        ]
    ) == sorted(POINTS)


def test_every_point_is_in_the_code_once():
    """The declared points are those that the code calls, each in one place."""
    files = [
        *(ROOT / "state").rglob("*.py"),
        *(ROOT / "streamkit" / "log").rglob("*.py"),
        *(ROOT / "streamkit" / "engine").rglob("*.py"),
        *(ROOT / "streamkit" / "spark" / "dataframe").rglob("*.py"),
        *(ROOT / "streamkit" / "sql").rglob("*.py"),
    ]
    assert sorted(name for file in files for name in CALL.findall(file.read_text(encoding="utf-8"))) == sorted(POINTS)


@pytest.mark.parametrize("point", SCENARIOS if IS_TORTURE else ["state.between_writes"])
def test_death_at_a_point(point, halfway, copied, processes, expected):
    """
    Killed at the point, started again: the same results, nothing left over, stores equal to their changelogs.

    Under torture it dies at every one of the first visits of each point and many later ones, else at one visit of few points.
    """
    scenario, deaths = SCENARIOS[point], 0
    for at in chain(range(1, 30), count(30, 17)) if IS_TORTURE else (scenario.at,):
        folder = prepared(scenario, copied(halfway))
        if not processes.is_killed(
            "run", folder=str(folder), point=point, at=at, holds=HOLDS[at % 3], inline=takes_inline(point, at), **scenario.order
        ):
            break
        deaths += 1
        assert finish(folder) == expected, at
        shutil.rmtree(folder)
    assert deaths


def takes_inline(point, number):
    """Whether small slabs are in the catalog in a run that is to come to the point: in every other one, unless only the writing of files has it."""
    return bool(number % 2) and not point.startswith(("storage.", "slab.", "compaction.", "orphans."))


def chains():
    """Each point twice under torture; else each once, behind others of an epoch, so that few runs have to come to their end."""
    points = sorted(SCENARIOS, key=lambda point: not SCENARIOS[point].rolled_back)  # which comes before any other run
    return [(point, point) for point in points] if IS_TORTURE else [tuple(points[first::CHAINS]) for first in range(CHAINS)]


@pytest.mark.parametrize("points", chains(), ids=", ".join)
def test_death_at_a_point_and_again_in_the_recovery(points, halfway, copied, processes, expected):
    """Killed at the point, and the run that recovers is killed too, at the same or at another: still the same results."""
    folder = copied(halfway)
    for number, point in enumerate(points):
        scenario = SCENARIOS[point]
        at = scenario.again_at if number else scenario.at
        prepared(scenario, folder)
        holds = HOLDS[number % 3]
        assert processes.is_killed(
            "run", folder=str(folder), point=point, at=at, holds=holds, inline=takes_inline(point, number), **scenario.order
        ), point
    assert finish(folder) == expected


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_engine_is_caught(bug, halfway, copied, processes, expected):
    """What an engine that is wrong in one way leaves when it dies shows in what a sound one makes of it."""
    point, folder = BUGS[bug], copied(halfway)
    order = {"flushes": True, "holds": "all"}
    assert processes.is_killed("run", folder=str(folder), point=point, at=SCENARIOS[point].at, bug=bug, **order)

    with pytest.raises((AssertionError, StreamKitError)):
        assert finish(folder) == expected


def prepared(scenario, folder):
    if scenario.rolled_back:
        shutil.copy(folder / "catalog-of-epoch-1.db", folder / "catalog.db")
        shutil.rmtree(folder / "journal")  # with which it would not be opened
    return folder
