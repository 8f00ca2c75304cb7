"""What a user waits for: a compiled topology, its explanation, the result of a local run. `python -m tests.bench.start` measures it alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.bench.row import Row

if TYPE_CHECKING:
    from streamkit.dsl.topology import Topology
    from streamkit.log.log import Log

ROOT = Path(__file__).parents[2]
DEMO = "topologies/flight_delays.py"
DATA = "topologies/flight_data.py"
OUTPUT = "daily_delays"
ROUNDS = 3
COMPILATIONS = 20


def start_rows(folder: Path) -> Iterator[Row]:
    """Each round in processes of its own, over a log that holds the flights of the demo and no application yet."""
    rounds = [_round(folder / f"start-{turn}") for turn in range(ROUNDS)]
    compiled, again, explained, ran = (median(values) for values in zip(*rounds, strict=True))
    load = os.getloadavg()[0]
    yield Row("import to compiled topology of the demo", compiled, "s", "-", None, None, "< 1", load)
    yield Row("the topology of the demo compiled again", again * 1000, "ms", "-", None, None, "< 50", load)
    yield Row("streamkit explain, whole command", explained, "s", "-", None, None, "< 1.5", load)
    yield Row("streamkit run --local --drain, 336,776 flights", ran, "s", "-", None, None, "< 10", load)


def _round(log: Path) -> tuple[float, float, float, float]:
    """Seconds until the topology is compiled, of another compilation, of the command `explain`, and of the command `run`."""
    _output(log, DATA)
    compiled, again = json.loads(_output(log, "-m", "tests.bench.start", "compile"))
    explained = _seconds(log, "explain", DEMO)
    ran = _seconds(log, "run", "--local", "--drain", DEMO)
    _check_result(log)
    shutil.rmtree(log)
    return compiled, again, explained, ran


def _seconds(log: Path, *command: str) -> float:
    """The time from a command of `streamkit` to its end."""
    begun = time.perf_counter()
    _output(log, "-m", "streamkit.cli", *command)
    return time.perf_counter() - begun


def _output(log: Path, *arguments: str) -> str:
    """What a Python process prints; CalledProcessError if it fails."""
    environment = {**os.environ, "STREAMKIT_LOG": str(log), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, cwd=ROOT, env=environment).stdout


def _check_result(folder: Path) -> None:
    """AssertionError unless the local run counted every flight that has an airline and an origin, which all have."""
    from streamkit.log.opening import open_log

    with open_log(folder) as log:
        flights, counted = log.read("flights", []).num_rows, sum(log.read(OUTPUT)["flights"].to_pylist())
    assert flights == counted > 0, f"{flights} flights, {counted} in the result"


def compilations() -> tuple[float, float]:
    """Seconds from the first import to the compiled topology of the demo, and the median of compiling it again."""
    begun = time.perf_counter()
    import streamkit as sk
    from topologies.flight_delays import app

    with sk.open_log(os.environ["STREAMKIT_LOG"]) as log:
        sk.compile(app, log)
        first = time.perf_counter() - begun
        return first, median(_compilation(app, log) for _ in range(COMPILATIONS))


def _compilation(app: Topology, log: Log) -> float:
    from streamkit.engine.runs.compile import compile

    begun = time.perf_counter()
    compile(app, log)
    return time.perf_counter() - begun


def main() -> None:
    """Print the rows, measured in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="streamkit-bench-") as folder:
        for row in start_rows(Path(folder)):
            print(f"{row.work}: {row.value:,.2f} {row.unit} (wanted {row.wanted}, load {row.load_average:.1f})")


if __name__ == "__main__":
    if sys.argv[1:] == ["compile"]:
        print(json.dumps(compilations()))
    else:
        main()
