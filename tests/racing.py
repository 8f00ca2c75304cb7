"""Processes that wait for each other, and then begin at the same time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def start_together(commands: Sequence[Sequence[str]]) -> list[subprocess.Popen[str]]:
    """Start processes that print `ready` and read a line before they begin; they are told to once all are ready."""
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("begin\n")
        process.stdin.flush()
    return processes


def said_by(processes: Sequence[subprocess.Popen[str]]) -> list[list[str]]:
    """The lines of each process, once all have come to their ends."""
    said = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return said
