"""
Kill a run over and over, on Spark and in one process in turns, at random moments; compare what comes of it with one never killed.

    python tests/harness/crash/torture.py [KILLS] [--seed N] [--engines spark local]        50 kills unless given; make torture

Every life of the run ends by SIGKILL: of the driver, the JVM and all workers, of the JVM alone, or of the driver's Python
alone. The next life goes on at once, on any engine, now and then with another number of tasks and always with another size of
epochs. In the end, topics, changelogs, stores, positions and counts must equal those of one epoch in one process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from tests.kit import sales
from tests.kit.kill_tree import family, is_java, kill, outliving
from tests.kit.sales_outcome import Outcome, check, finish, outcome_of
from tests.kit.spark.class_archive import java_options

ROOT = Path(__file__).parents[3]
LIFE_SECONDS = 240  # more than any life takes on a busy machine
ENGINES = ("spark", "local")
DELAY_SECONDS = {"spark": 2.5, "local": 0.3}
EPOCH_RECORDS = {"spark": (30, 110), "local": (5, 40)}
RECORD_BYTES = 32.5  # of the sales, in the middle: an epoch that is bounded by bytes has some records more or less
CHUNKS_PER_KILL = 3
EVERYTHING = 1_000_000
TARGETS = ("all", "all", "jvm", "python")


@dataclass
class Report:
    """What was done to the run, and that it came out right."""

    seed: int
    started: float = field(default_factory=time.monotonic)
    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    epochs: int = 0
    rounds: int = 0

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of {target}" for target, count in sorted(self.kills.items()))
        topics = len((*sales.EXACT_TOPICS, *sales.FOLDED_TOPICS))
        return (
            f"seed {self.seed}: {self.kills.total()} kills ({kills}), {self.starts} starts, {self.epochs} epochs, "
            f"{time.monotonic() - self.started:,.0f} s; {self.rounds} times {topics} topics, {len(sales.STORES)} changelogs and stores "
            "equal those of a run that was never killed"
        )


@dataclass(frozen=True)
class Place:
    """Where a round happens: its log, and what the processes print."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"


@dataclass
class Life:
    """One process tree that runs the sales."""

    place: Place
    engine: str
    process: subprocess.Popen[bytes]
    family: list[psutil.Process] = field(default_factory=list)

    def is_over(self) -> bool:
        return self.process.poll() is not None

    def kill(self, target: str) -> None:
        """End a part of the tree at once; the rest must end by itself."""
        self.family = family(self.process.pid)
        java = [one for one in self.family if is_java(one)]
        kill({"all": self.family, "jvm": java or self.family, "python": self.family[:1]}[target])

    def end(self) -> None:
        """Wait until all of it is gone."""
        self.process.wait(LIFE_SECONDS)
        alive = outliving(self.family, LIFE_SECONDS)
        assert not alive, f"{alive} outlive their driver"


def torture(
    kills: int, seed: int, folder: Path, tell: Callable[[str], None] = lambda _: None, engines: Sequence[str] = ENGINES
) -> Report:
    """Kill the run `kills` times, each on one of the engines, and compare; AssertionError says what differs. `tell` hears of each."""
    report = Report(seed)
    while report.kills.total() < kills:
        place = Place(folder / f"round-{report.rounds}")
        chunks = CHUNKS_PER_KILL * (kills - report.kills.total()) + 2
        expected = prepared(place, chunks)
        live_until_done(place, kills, Random(f"{seed}-{report.rounds}"), report, tell, engines)
        found = finish(place.log)
        compare(found, expected, place)
        report.rounds += 1
        shutil.rmtree(place.folder)
    return report


def prepared(place: Place, chunks: int, later: int = 0) -> Outcome:
    """A log with the backlog; gives what one epoch in one process makes of it, and of so many chunks that come later."""
    with open_log(place.log) as log:
        sales.create_inputs(log)
        for number in range(chunks):
            sales.append_chunk(log, number)
    with open_log(shutil.copytree(place.log, place.folder / "expected")) as log:
        for number in range(chunks, chunks + later):
            sales.append_chunk(log, number)
        run_available(start(log.catalog, log.storage, sales.load_program(), tasks=1), drain=True)
        return outcome_of(log)


def live_until_done(
    place: Place, kills: int, random: Random, report: Report, tell: Callable[[str], None], engines: Sequence[str]
) -> None:
    """Start and kill, until the run has ended by itself, or has been killed often enough and ends undisturbed."""
    dying: list[Life] = []
    epochs = 0
    while True:
        last = report.kills.total() >= kills
        engine = random.choice(engines)
        life = started(place, engine, random, EVERYTHING if last else random.randint(*EPOCH_RECORDS[engine]))
        report.starts += 1
        if last:
            life.process.wait(LIFE_SECONDS)
        killed = "" if last else killed_life(life, random, report)
        with open_log(place.log) as log:
            committed = _epoch(log) - epochs
            check_started(log)
        epochs += committed
        report.epochs += committed
        if not killed:
            assert life.process.returncode == 0, _tail(place)
            break
        tell(f"kill {report.kills.total()}: {killed}, {committed} epochs committed in this life")
        dying.append(life)
    for life in dying:
        life.end()


def started(place: Place, engine: str, random: Random, records_max: int, end: str = "drain") -> Life:
    """A life that has just begun; it ends when all is processed, or `never`."""
    tasks = random.choice([0, 0, 0, 1, 2, 3])
    command = [sys.executable, "-m", "tests.harness.crash.kill_run", str(place.log), engine, str(tasks), str(records_max), end]
    environment = {"JDK_JAVA_OPTIONS": java_options(), **mixture(random), **os.environ}
    with place.output.open("a") as output:
        return Life(place, engine, subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output))


def mixture(random: Random) -> dict[str, str]:
    """Settings by which all epochs of a life on Spark are large, or all small, or each the one or the other: half of them have more records."""
    ways = [(0, EVERYTHING), (EVERYTHING, EVERYTHING)]
    records = random.randint(20, 80)
    limit, size = random.choice([*ways, *[(records, round(records * RECORD_BYTES))] * 2])
    return {"STREAMKIT_LOCAL_EPOCH_RECORDS": str(limit), "STREAMKIT_MAX_BYTES_PER_EPOCH": str(size)}


def killed_life(life: Life, random: Random, report: Report) -> str:
    """Kill the life at a random moment and say how; empty if it ended before."""
    of_catalog, moment = random.choice([(_generation, "its start"), (_epoch, "its first epoch"), (_epoch, "its first epoch")])
    delay, target = random.uniform(0, DELAY_SECONDS[life.engine]), random.choice(TARGETS)
    if not _wait_for_more(life, of_catalog) or _ends_within(life, delay):
        return ""
    life.kill(target)
    report.kills[f"{target} on spark" if life.engine == "spark" else "local"] += 1
    return f"{life.engine}, {target}, {delay:.2f} s after {moment}"


def _wait_for_more(life: Life, of_catalog: Callable[[Log], int]) -> bool:
    """Wait until a number in the catalog grows; False if the life is over."""
    with open_log(life.place.log) as log:
        before = of_catalog(log)
    end = time.monotonic() + LIFE_SECONDS
    while not life.is_over():
        with open_log(life.place.log) as log:
            if of_catalog(log) > before:
                return True
        assert time.monotonic() < end, f"nothing happened within {LIFE_SECONDS} s\n{_tail(life.place)}"
        time.sleep(0.05)
    return False


def _ends_within(life: Life, seconds: float) -> bool:
    try:
        life.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _generation(log: Log) -> int:
    return max((state.generation for state in log.catalog.applications.every()), default=0)


def _epoch(log: Log) -> int:
    return max((state.epoch for state in log.catalog.applications.every()), default=0)


def check_started(log: Log) -> None:
    """What must hold at any time."""
    if log.catalog.applications.every():
        check(log)


def compare(found: Outcome, expected: Outcome, place: Place) -> None:
    for name, value in vars(expected).items():
        assert getattr(found, name) == value, f"{name} differ from those of a run that was never killed; the log is {place.log}"


def _tail(place: Place) -> str:
    return place.output.read_text(errors="replace")[-4_000:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Kill a run at random moments, on Spark and in one process in turns, and compare what comes of it."
    )
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="streamkit-torture-"))
    print(f"seed {options.seed}, logs in {folder}", flush=True)
    print(torture(options.kills, options.seed, folder, tell=lambda line: print(line, flush=True), engines=options.engines))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
