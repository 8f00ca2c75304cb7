"""
Run every harness at its full count, and write down what was tried.

    python -m tests.torture [HARNESS …] [--quick] [--workers N]       build/torture.json, build/torture.txt

`--quick` takes the counts of the ordinary suite. The exit status is that of the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import pytest

from tests.torture.report import Report

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
HARNESSES = {
    "damage": "tests/damage",
    "power": "tests/power",
    "faults": "tests/log/test_call_faults.py tests/log/test_step_faults.py tests/log/test_commit_faults.py",
    "machine": "tests/log/test_state_machine.py",
    "simulation": "tests/simulation",
    "siege": "tests/history",
    "groups": "tests/log/test_group_model.py tests/log/test_group_processes.py tests/log/test_read_process_write.py",
    "compaction": "tests/log/test_compaction_crashes.py tests/log/test_deletion_readers.py tests/state/test_compaction.py",
    "maintenance": "tests/log/test_maintenance_model.py tests/crash/test_maintenance_points.py",
    "loss": "tests/log/test_fsck.py tests/log/test_backup.py tests/log/test_journal.py tests/log/test_rebuild.py tests/log/test_salvage.py "
    "tests/crash/test_rebuild.py",
    "postgres": "tests/crash/test_postgres.py",
    "engine": "tests/crash/test_points.py tests/crash/test_commit_faults.py tests/crash/test_random.py tests/crash/test_power.py",
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every harness at its full count, and write down what was tried.")
    parser.add_argument("harnesses", nargs="*", metavar="HARNESS", help=", ".join(HARNESSES))
    parser.add_argument("--quick", action="store_true", help="the counts of the ordinary suite")
    parser.add_argument("--workers", type=int, default=2, help="processes that share the tests (2)")
    options = parser.parse_args()
    if unknown := set(options.harnesses) - set(HARNESSES):
        parser.error(f"there is no harness {', '.join(sorted(unknown))}; choose from {', '.join(HARNESSES)}")
    if not options.quick:
        os.environ["STREAMKIT_TORTURE"] = "1"
    report = Report()
    status = 0
    for name in options.harnesses or HARNESSES:
        status |= _run(name, report, options.workers)
    BUILD.mkdir(exist_ok=True)
    (BUILD / "torture.json").write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
    (BUILD / "torture.txt").write_text(f"{report}\n", encoding="utf-8")
    print(report)
    return status


def _run(name: str, report: Report, workers: int) -> int:
    harness = report.harness(name)
    begun = time.monotonic()
    arguments = ["-q", "-p", "no:cacheprovider", "--durations=0", "-n", str(workers), "--dist", "worksteal"]
    paths = [str(ROOT / path) for path in HARNESSES[name].split()]
    harness.status = int(pytest.main([*arguments, *paths], plugins=[harness]))
    harness.seconds = time.monotonic() - begun
    return harness.status or int(not harness.passed)


if __name__ == "__main__":
    raise SystemExit(main())
