"""
Run the tests that depend on time, over and over, while busy loops take the cores from them.

    python -m tests.harness.busy [PATH …] [--rounds N] [--loops N] [-- ARGUMENTS OF PYTEST]        20 rounds beside 6 loops; make test-busy

Without paths these are all files that sleep, measure time, send signals, or start threads or processes. A test passes there if it waits
for states: it ends as soon as they hold, and fails only long after they should have. The exit status is 1 if any round failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMED = re.compile(
    r"\btime\.(sleep|monotonic)\(|\bthreading\.|\bsignal\.SIG|\bsubprocess\.|wait_until\(|\bSiege\(|\btorture\(|\bstarted\("
)
LOOP = "while True: pass"


def timed_files() -> list[Path]:
    """The test files whose text shows that they depend on time, or on processes."""
    return [file for file in sorted((ROOT / "tests").rglob("test_*.py")) if TIMED.search(file.read_text(encoding="utf-8"))]


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes that compute all the time, ended in the end."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests that depend on time, over and over, beside busy loops.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or tests; all that depend on time, unless given")
    parser.add_argument("--rounds", type=int, default=20, help="how often (20)")
    parser.add_argument("--loops", type=int, default=6, help="how many processes that only compute (6)")
    own, theirs = split(sys.argv[1:])
    options = parser.parse_args(own)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(options.paths or map(str, timed_files())),
        *theirs,
    ]
    failures = 0
    with busy_loops(options.loops):
        for number in range(1, options.rounds + 1):
            begun = time.monotonic()
            failed = subprocess.run(command, cwd=ROOT, check=False).returncode != 0
            failures += failed
            verdict = "FAILED" if failed else "passed"
            print(
                f"round {number} of {options.rounds} {verdict}, {time.monotonic() - begun:,.0f} s; {failures} failed", flush=True
            )
    return int(failures > 0)


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Arguments of this program, and those behind -- of pytest."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:place], arguments[place + 1 :]


if __name__ == "__main__":
    raise SystemExit(main())
