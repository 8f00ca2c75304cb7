"""Many small attempts in processes of their own: what came of them, and which of them ended the process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class Tally:
    """Counts by kind of result, what failed in words, and the numbers at which a process died of a signal."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    signals: list[str] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return self.counts.total()


def run(module: str, first: int, last: int, *arguments: str) -> Tally:
    """Run the attempts from `first` to before `last` of a module, with its further arguments; one that kills its process is noted, and the next goes on."""
    tally = Tally()
    while first < last:
        command = [sys.executable, "-m", module, str(first), str(last), *arguments]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if child.returncode >= 0:
            assert child.returncode == 0, child.stderr[-2_000:]
            found = json.loads(child.stdout)
            tally.counts.update(found["counts"])
            tally.failures += found["failures"]
            break
        number = int(child.stderr.split()[-1])
        tally.signals.append(f"{module} {number}: signal {-child.returncode}")
        first = number + 1
    return tally
