"""A topology file with `--local`: a process without Spark, its output, its signals, its codes; and how long a newcomer waits."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from streamkit import functions as F
from streamkit.dsl.topology import Topology
from streamkit.launch.main import main
from streamkit.log.opening import open_log
from tests.kit.program import Program
from tests.kit.waiting import wait_until
from tests.unit.spark.conftest import append_flights, assert_equals_pandas, flights_of, load_few
from topologies import flight_delays

ROOT = Path(__file__).parents[3]
FILE = Path(flight_delays.__file__)
WAIT_SECONDS = 100
PLANES = 3_322
NO_SPARK = "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None; "  # importing them fails from now on
COMMANDS = """
import json
from streamkit.cli.main import main

ends = []
for words in sys.argv[1:]:
    sys.argv[1:] = json.loads(words)
    try:
        main()
    except SystemExit as end:
        ends.append(end.code)
sys.exit(any(ends))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A log with the flights of two days, which is copied."""
    folder = tmp_path_factory.mktemp("loaded") / "log"
    load_few(folder, 2, 2)
    return folder


@pytest.fixture
def folder(loaded, tmp_path):
    """A log of the test's own with the flights of two days."""
    return str(shutil.copytree(loaded, tmp_path / "log"))


@pytest.fixture
def started(tmp_path):
    """Starts commands in process groups of their own; none outlives the test."""
    processes = []

    def start(*command):
        with (tmp_path / "output.txt").open("a") as output:
            processes.append(subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def finished(*command):
    """What a command printed; it must end with 0."""
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer


def has_committed_or_ended(folder, before, process):
    return epoch(folder) > before or process.poll() is not None


def epoch(folder):
    with open_log(folder) as log:
        states = log.catalog.applications.every()
    return states[0].epoch if states else 0


def test_a_file_runs_where_there_is_no_spark(folder):
    """
    `python FILE --local` and `streamkit run FILE --local` need no pyspark, and give what pandas gives.

    Nor does `streamkit explain FILE`, which shows every pass; Spark's plan is for who asks for it.
    """
    words = ["--local", "--drain", "--log", folder]
    run_file = f"{NO_SPARK}import runpy; sys.argv[1:] = {words!r}; runpy.run_path({str(FILE)!r}, run_name='__main__')"
    run_commands = f"{NO_SPARK}{COMMANDS}"
    said = finished(sys.executable, "-c", run_file).stderr
    with open_log(folder) as log:
        assert_equals_pandas(log, flights_of(2))
        append_flights(log, flights_of(3).iloc[len(flights_of(2)) :])
    explain = json.dumps(["explain", str(FILE), "--json", "--log", folder])
    again = finished(sys.executable, "-c", run_commands, explain, json.dumps(["run", str(FILE), *words]))

    shown = json.loads(again.stdout)
    assert list(shown) == ["program", "fingerprint", "passes"]
    assert "== infer_types ==" in shown["passes"]
    summary = r"^flight-delays: ([\d,]+) records? in this run, epoch (\d), \d+ tasks?((?:; since its first start: [\d,]+ late)?)$"
    assert re.findall(summary, said, re.MULTILINE) == [(f"{len(flights_of(2)) + PLANES:,}", "2", "")]
    assert re.search(summary, again.stderr, re.MULTILINE)


def test_signals(folder, started, tmp_path):
    """A signal ends a local run without a traceback, with the code that shells expect; whole epochs are left, and the next goes on."""
    for count, number in enumerate((signal.SIGTERM, signal.SIGINT), 1):
        before = epoch(folder)
        process = started(sys.executable, str(FILE), "--local", "--log", folder, "--max-records-per-epoch", "100")
        wait_until(partial(has_committed_or_ended, folder, before, process), WAIT_SECONDS)
        os.killpg(process.pid, number)

        assert process.wait(WAIT_SECONDS) == 128 + number
        output = (tmp_path / "output.txt").read_text()
        assert "Traceback" not in output and output.count("flight-delays: ") == count
    main(flight_delays.app, ["--local", "--drain", "--log", folder])
    with open_log(folder) as log:
        assert_equals_pandas(log, flights_of(2))


def test_a_rebuild(folder, capsys):
    """A store is filled again before the run, and a line says how far that is; the plan says it without doing it."""
    main(flight_delays.app, ["--local", "--drain", "--log", folder])
    with open_log(folder) as log:
        before = log.end_offsets("daily_delays")
    said = finished(sys.executable, "-m", "streamkit.cli", "plan", str(FILE), "--rebuild", "daily_delays", "--log", folder)
    assert "filled again from its topics" in said.stdout
    main(flight_delays.app, ["--local", "--drain", "--log", folder, "--rebuild", "daily_delays"])

    records = f"{len(flights_of(2)) + PLANES:,}"
    assert f"rebuilding daily_delays: {records} of {records} records" in capsys.readouterr().err
    with open_log(folder) as log:
        assert log.end_offsets("daily_delays") == before
        assert_equals_pandas(log, flights_of(2))


def test_a_second_version(folder, started, tmp_path):
    """One that runs beside the first writes nothing until it takes that one over; then it writes what the first would have."""

    def levels():
        with open_log(folder) as log:
            states = {state.name: state for state in log.catalog.applications.every()}
        found = [states[name].positions for name in ("flight-delays", "second") if name in states]
        return len(found) == 2 and found[0] == found[1]

    def writes():
        with open_log(folder) as log:
            return log.catalog.applications.get("second").took_over == "flight-delays"

    main(flight_delays.app, ["--local", "--once", "--log", folder])
    process = started(sys.executable, str(FILE), "--local", "--log", folder, "--as", "second", "--from", "flight-delays")
    wait_until(lambda: process.poll() is not None or levels(), WAIT_SECONDS)
    with open_log(folder) as log:
        before = log.end_offsets("daily_delays")
        log.catalog.applications.hand_over("second")
        append_flights(log, flights_of(3).iloc[len(flights_of(2)) :])
    wait_until(lambda: process.poll() is not None or writes(), WAIT_SECONDS)
    os.killpg(process.pid, signal.SIGTERM)

    assert process.wait(WAIT_SECONDS) == 128 + signal.SIGTERM
    output = (tmp_path / "output.txt").read_text()
    assert "second follows flight-delays" in output and "taking over flight-delays" in output and "Traceback" not in output
    main(flight_delays.app, ["--local", "--drain", "--log", folder, "--as", "second"])
    with open_log(folder) as log:
        assert_equals_pandas(log, flights_of(3))
        assert log.end_offsets("daily_delays") != before


HANGS = """
import pathlib, runpy, sys, time
from streamkit import failpoints

def hang():
    pathlib.Path(sys.argv[-1], "hangs").touch()
    time.sleep(1000)

failpoints._armed["kernel.in_operator"] = hang
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def test_a_second_signal_leaves_the_epoch(folder):
    """Where an epoch does not come to its end, a second signal ends the process at once, and nothing is committed."""
    process = Program(None, str(FILE), "--local", "--log", folder, code=HANGS)
    wait_until(Path(folder, "hangs").exists, WAIT_SECONDS)
    process.send_signal(signal.SIGTERM)
    with pytest.raises(AssertionError, match="does not end"):
        process.wait(0.5)
    process.send_signal(signal.SIGINT)

    assert process.wait(WAIT_SECONDS) == 130
    assert epoch(folder) == 0


def test_a_name_of_the_command_line_is_no_line_of_the_file(folder, capsys):
    """A name that no application can have is told by its option, without a line: the user wrote none."""
    for name, reason in (("a/b", "the topology name 'a/b' cannot be used"), ("a.rebuild", "fills stores")):
        with pytest.raises(SystemExit) as end:
            main(flight_delays.app, ["--as", name, "--local", "--once", "--log", folder])
        printed = capsys.readouterr().err
        assert end.value.code == 1
        assert f"--as {name}: " in printed and reason in printed and "  at " not in printed


def test_errors_end_it_with_1(folder, capsys):
    """An error is one message without a traceback, and the code 1; a log that does not exist is one."""
    with open_log(folder) as log:
        log.delete_topic("planes")
    for words, message in ((["--log", folder], "'planes'"), (["--log", f"{folder}/none"], "there is no log at")):
        with pytest.raises(SystemExit) as end:
            main(flight_delays.app, ["--local", "--drain", *words])
        said = capsys.readouterr().err

        assert end.value.code == 1
        assert message in said and "Traceback" not in said and "Spark" not in said


def test_it_returns_where_nothing_was_wrong(folder, capsys):
    """In a file or a notebook, `sk.main` returns when the run has ended, so that code behind it goes on."""
    main(flight_delays.app, ["--local", "--drain", "--log", folder])
    assert "flight-delays: " in capsys.readouterr().err


def test_what_a_run_has_written_for_itself_is_said(tmp_path, capsys):
    """An application that reads what it writes leaves that to the next run, and the last line says how much; once nothing waits, it does not."""
    with open_log(tmp_path / "log") as log:
        for name in ("raw", "clean"):
            log.create_topic(name, "id bigint", key="id")
        with log.producer() as producer:
            producer.send_batch("raw", [{"id": number} for number in range(12)])
    app = Topology("stages")
    app.stream("raw").filter("id > 1").to("clean")
    app.stream("clean").group_by("id").agg(n=F.count("*"), store="ids")
    words = ["--local", "--once", "--log", str(tmp_path / "log")]
    told = []
    for _ in range(2):
        main(app, words)
        told.append(capsys.readouterr().err.strip().splitlines()[-1])
    waits = "records that wait for the next run, because the application writes and reads their topics: 10 of clean"
    assert [line.endswith(waits) for line in told] == [True, False] and "wait" not in told[1]
