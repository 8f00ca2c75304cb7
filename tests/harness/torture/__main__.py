"""
Run every harness at its full count, and write down what was tried.

    python -m tests.harness.torture [HARNESS …] [--quick] [--workers N]       build/torture.json, build/torture.txt

`--quick` takes the counts of the ordinary suite, but all seeded bugs. All harnesses share the workers, so that none waits for another; the report is
written after every test, so that it says what was tried even of a run that was ended. Of harnesses that passed, `caught.json` is told,
so that the ordinary suite takes one seeded bug of each until they, or what they guard, have changed. The exit status is that of the tests.
"""

from __future__ import annotations

import argparse
import os

import pytest

from tests.harness.torture.harnesses import HARNESSES, ROOT, digest, write_caught
from tests.harness.torture.report import Harness, Report


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
    before = {name: digest(name) for name in HARNESSES}
    report = Report([Harness(name, tuple(HARNESSES[name].split())) for name in options.harnesses or HARNESSES], ROOT / "build")
    report.write()
    arguments = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--all",
        "--durations=0",
        "-n",
        str(options.workers),
        "--rootdir",
        str(ROOT),
    ]
    paths = [str(ROOT / path) for harness in report.harnesses for path in harness.paths]
    status = int(pytest.main([*arguments, *paths], plugins=[report]))
    print(report)
    write_caught(one.name for one in report.harnesses if one.is_done and digest(one.name) == before[one.name])
    return status or int(not report.is_done)


if __name__ == "__main__":
    raise SystemExit(main())
