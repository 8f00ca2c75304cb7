"""
Run a folder of conformance cases.

    python -m tests.harness.conformance DIR [--only TEXT] [--verbose]

DIR holds JSON files with a list of cases each, or is one such file. Each failing case is a line with its first difference; the
last line counts. The exit status is 0 only if none failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.harness.conformance.builder import Json
from tests.harness.conformance.kinds import difference


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments name, else those of the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.conformance", description="Run a folder of conformance cases.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder of JSON files with cases, or one such file")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name holds this text")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", "the subtractor .* does not undo")  # cases append what they take away
    passed = failed = 0
    for case in cases_in(options.folder):
        if options.only not in case["name"]:
            continue
        found = difference(case)
        if found is None:
            passed += 1
        else:
            failed += 1
            print(f"{case['name']}: {found}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def cases_in(folder: Path) -> Iterator[Json]:
    """The cases of a file, or of all JSON files of a folder, by name."""
    for file in [folder] if folder.is_file() else sorted(folder.glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        yield from (case for case in content if isinstance(case, dict) and "kind" in case)


if __name__ == "__main__":
    sys.exit(main())
