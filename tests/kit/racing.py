"""Programs that wait for each other, and then begin at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.kit.program import Program


def start_together(module: str, arguments: Iterable[Sequence[str]]) -> list[Program]:
    """Start a program once for each list of arguments; it prints `ready` and reads a line before it begins, which it is given once all are ready."""
    programs = [Program(module, *given) for given in arguments]
    for program in programs:
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        program.stdin.write("begin\n")
        program.stdin.flush()
    return programs


def said_by(programs: Sequence[Program]) -> list[list[str]]:
    """The lines of each program, once all have come to their ends."""
    said = [program.communicate()[0].splitlines() for program in programs]
    assert [program.returncode for program in programs] == [0] * len(programs)
    return said
