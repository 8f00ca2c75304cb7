"""The log that the crash tests start from, what must come of it, and the processes that die on the way."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streamkit.engine.epoch.report import TaskReport
from streamkit.engine.runs.local import run_available, run_next, run_tasks
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.start import start
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.opening import open_log
from streamkit.plan.plain import to_plain
from tests.harness.crash.processes import Processes
from tests.kit import sales
from tests.kit.places import all_slabs_in_files
from tests.kit.sales_outcome import outcome_of


@pytest.fixture(scope="module", autouse=True)
def slabs(slabs_in_files):
    """Slabs are files, unless a test says otherwise: each process is told by its order."""


@pytest.fixture(scope="session")
def loaded(fast_folder):
    """A log with all input and nothing done."""
    folder = fast_folder / "loaded"
    with all_slabs_in_files(), open_log(folder) as log:
        sales.create_inputs(log)
        for number in range(sales.CHUNKS):
            sales.append_chunk(log, number)
    return folder


@pytest.fixture(scope="session")
def expected(fast_folder, loaded):
    """What a run that never crashed makes of the input: one task, one epoch."""
    with open_log(shutil.copytree(loaded, fast_folder / "expected")) as log:
        run_available(start(log.catalog, log.storage, sales.load_program(), tasks=1))
        return outcome_of(log)


@pytest.fixture(scope="session")
def halfway(fast_folder, loaded):
    """
    A log with work behind it: generation 1 committed two of four epochs; generation 2 died with the third one staged.

    `catalog-of-epoch-1.db` beside the catalog is a backup of it.
    """
    folder = shutil.copytree(loaded, fast_folder / "halfway")
    with all_slabs_in_files(), open_log(folder) as log:
        planner = start(log.catalog, log.storage, sales.load_program(), tasks=2, records_max=sales.EPOCH_RECORDS)
        assert run_next(planner)
    shutil.copy(folder / "catalog.db", folder / "catalog-of-epoch-1.db")
    with all_slabs_in_files(), open_log(folder) as log:
        assert run_next(replace(planner, catalog=log.catalog, storage=log.storage))
        planner = start(log.catalog, log.storage, sales.load_program(), records_max=sales.EPOCH_RECORDS)
        with armed("commit.verified", crash), pytest.raises(SimulatedCrash):
            run_next(planner)
    return folder


def crash():
    raise SimulatedCrash


@dataclass(frozen=True)
class Staged:
    """A log whose next epoch has run in two attempts and waits for its commit; `reports.json` in it are those of the first."""

    folder: Path
    generation: Planner
    attempts: tuple[list[TaskReport], list[TaskReport]]

    @property
    def program(self):
        return self.generation.program

    def planner(self, log):
        """The planner of the generation that staged it, on a log opened again."""
        return replace(self.generation, catalog=log.catalog, storage=log.storage)


@pytest.fixture(scope="session")
def staged(fast_folder, halfway):
    folder = shutil.copytree(halfway, fast_folder / "staged")
    with all_slabs_in_files(), open_log(folder) as log:
        planner = start(log.catalog, log.storage, sales.load_program(), records_max=sales.EPOCH_RECORDS)
        before = planner.committed_end()
        end = planner.next_end(before)
        assert end is not None
        plan, parts = planner.plan(before, end, 2)
        first, second = (run_tasks(planner.program, plan, parts, planner.storage) for _ in range(2))
    (folder / "reports.json").write_text(json.dumps([to_plain(report) for report in first]))
    return Staged(folder, planner, (first, second))


@pytest.fixture
def copied(fast_folder):
    """Copies of a log, which are gone after the test."""
    made = []

    def copy(folder):
        made.append(Path(tempfile.mkdtemp(dir=fast_folder)) / "log")
        return shutil.copytree(folder, made[-1])

    yield copy
    for folder in made:
        shutil.rmtree(folder.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def processes(fast_folder):
    """The server of processes that end where a test says."""
    server = Processes(fast_folder / "processes.txt")
    yield server
    server.close()
