"""What processes that run epochs do with memory that was used."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np, pyarrow as pa
from streamkit.engine.runs.memory import keep_memory

def epoch():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    columns = [np.ones(1_000_000, np.int64) for _ in range(8)]
    copies = [pa.array(column).filter(pa.array(column > 0)) for column in columns]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "kept":
    keep_memory()
print(*(epoch() for _ in range(4)))
"""


def faults(how: str) -> list[int]:
    # Without huge pages every page of 4 KiB is a fault of its own.
    environment = {"NUMPY_MADVISE_HUGEPAGE": "0"}
    program = [sys.executable, "-c", PROGRAM, how]
    return [int(number) for number in subprocess.run(program, env=environment, capture_output=True, check=True).stdout.split()]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator can be told")
def test_a_worker_keeps_what_an_epoch_used_for_the_next() -> None:
    """The epochs after the first fault in little, where they would fault in everything again."""
    kept, given_back = faults("kept"), faults("given back")
    assert sum(kept[1:]) * 5 < sum(given_back[1:]), (kept, given_back)
