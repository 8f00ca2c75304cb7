"""Many small attempts in processes of their own: what came of them, and which of them ended the process."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.program import Program

ROOT = Path(__file__).parents[3]


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
        child = Program(module, str(first), str(last), *arguments)
        said = child.communicate()[0].splitlines()
        code = child.wait()
        if code >= 0:
            assert code == 0, f"{module} {first} {last} fails after {said[-1:]}"
            found = json.loads(said[-1])
            tally.counts.update(found["counts"])
            tally.failures += found["failures"]
            break
        number = int(said[-1])
        tally.signals.append(f"{module} {number}: signal {-code}")
        first = number + 1
    return tally
