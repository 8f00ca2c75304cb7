"""
Run every harness at its full count, and write down what was tried.

    python -m tests.torture [HARNESS …] [--quick] [--workers N]       build/torture.json, build/torture.txt

`--quick` takes the counts of the ordinary suite. All harnesses share the workers, so that none waits for another; the report is
written after every test, so that it says what was tried even of a run that was ended. The exit status is that of the tests.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from tests.torture.report import Harness, Report

ROOT = Path(__file__).parents[2]
HARNESSES = {  # what takes long in one test comes first, so that no worker is alone in the end
    "maintenance": "tests/log/maintenance/test_maintenance_model.py tests/log/test_clock_jumps.py tests/crash/test_maintenance_points.py",
    "groups": "tests/log/consume/test_group_model.py tests/log/consume/test_group_processes.py tests/log/produce/test_read_process_write.py",
    "machine": "tests/log/test_state_machine.py",
    "compaction": "tests/log/maintenance/test_compaction_crashes.py tests/log/maintenance/test_deletion_readers.py tests/state/test_compaction.py",
    "damage": "tests/damage",
    "faults": "tests/log/test_call_faults.py tests/log/test_step_faults.py tests/log/catalog/test_commit_faults.py "
    "tests/log/produce/test_interrupts.py tests/log/produce/test_interrupts_bugs.py",
    "loss": "tests/log/rescue/test_fsck.py tests/log/rescue/test_backup.py tests/log/catalog/test_journal.py "
    "tests/log/rescue/test_rebuild.py tests/log/test_salvage.py tests/crash/test_rebuild.py tests/log/rescue/test_fsck_bugs.py tests/log/test_salvage_bugs.py",
    "postgres": "tests/crash/test_postgres.py",
    "siege": "tests/history tests/log/database/test_contention.py",
    "engine": "tests/crash/test_points.py tests/crash/test_commit_faults.py tests/crash/test_random.py tests/crash/test_power.py",
    "simulation": "tests/simulation",
    "power": "tests/power",
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
    report = Report([Harness(name, tuple(HARNESSES[name].split())) for name in options.harnesses or HARNESSES], ROOT / "build")
    report.write()
    arguments = ["-q", "-p", "no:cacheprovider", "--durations=0", "-n", str(options.workers), "--rootdir", str(ROOT)]
    paths = [str(ROOT / path) for harness in report.harnesses for path in harness.paths]
    status = int(pytest.main([*arguments, *paths], plugins=[report]))
    print(report)
    return status or int(not report.is_done)


if __name__ == "__main__":
    raise SystemExit(main())
