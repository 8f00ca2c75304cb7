"""
Promises of a log whose files a user may not all read or write: an error that says what is missing and what to do, and nothing is lost.

One process does all the work as a user whom permissions hold for; `permission_process.py` says what.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from streamkit.log.opening import open_log
from tests.unit.log.permission_process import COMMANDS, NOBODY
from tests.unit.log.permissions import CASES

pytestmark = pytest.mark.usefixtures("slabs_in_files")

ROOT = Path(__file__).parents[3]
READABLE = {  # who may only read these, or needs not read them, still reads the log
    "slabs that may only be read",
    "journal that may only be read",
    "copies that may only be read",
    "heartbeats that may not be read",
}
WRITABLE = {"copies that may only be read", "heartbeats that may not be read", "slab that may not be read"}


@pytest.fixture(scope="module")
def found():
    """What came of everything, by case and work."""
    with TemporaryDirectory() as place:
        make_log(Path(place) / "log")
        if os.geteuid() == 0:
            for path in (Path(place), *Path(place).rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        command = [sys.executable, "-m", "tests.unit.log.permission_process", place]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def make_log(folder):
    with open_log(folder) as log:
        log.create_topic("t", "v bigint", partitions=1)
        log.create_topic("c", "k bigint, v bigint", key="k", partitions=1, config={"cleanup.policy": "compact"})
        with log.producer() as producer:
            producer.send_batch("t", [{"v": 1}, {"v": 2}])
            producer.send("c", {"k": 1, "v": 1})
        log.heartbeats.beat("somebody")
        log.copy_catalog()


def check_refusal(answer):
    """An error that names what the operating system says, what was expected, and what to do."""
    kind, message = answer
    assert kind == "StorageFailedError"
    assert "Permission denied" in message and "expected that the user" in message and "change their owner or mode" in message


@pytest.mark.parametrize("case", CASES)
def test_work_is_done_or_refused_clearly(found, case):
    """Reading and writing either work or are refused with what is to be done."""
    for work, works in (("read", case in READABLE), ("write", case in WRITABLE)):
        answer = found[case][work]
        if works:
            assert answer[0] == "done", answer
        else:
            check_refusal(answer)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost(found, case):
    """With the permissions back, everything is there that was before or was acknowledged, also that of a producer that had to wait."""
    done, met = found[case]["go on writing"]
    assert done == "done" and (met[0] == "done" or check_refusal(met) is None)
    written = [3] if found[case]["write"][0] == "done" else []
    assert found[case]["afterwards"] == ["done", [1, 2, *written, 4, 5]]


@pytest.mark.parametrize("case", CASES)
def test_no_command_shows_a_traceback(found, case):
    """Every command ends with 0 or with one error message; a check that could not look ends with 2, never with a finding."""
    for name in COMMANDS:
        code, out, err = found[case][name]
        assert "Traceback" not in err and code in ((0, 2) if name in ("fsck", "deep") else (0, 1)), (name, code, out, err)
        assert not code or err.strip().startswith("error: "), (name, err)
        assert not code or "Permission denied" in err or "heartbeats.db cannot be used" in err, (name, err)


@pytest.mark.parametrize("case", CASES)
def test_check_says_as_json_that_it_could_not_look(found, case):
    """`fsck --json` prints an object whatever happens."""
    code, out, err = found[case]["fsck"]
    answer = json.loads(out)
    assert (answer["clean"] is True) if code == 0 else (answer["error"] in err)
