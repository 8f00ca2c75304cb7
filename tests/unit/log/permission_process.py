"""
What a user meets who may not do everything with the files of a log, as one JSON object: case, then work, then what came of it.

    python -m tests.unit.log.permission_process FOLDER       FOLDER has a log, `log`, that belongs to the user or to nobody

Permissions mean nothing to root, so root becomes nobody. Whatever raises anything but a StreamKitError ends it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest.mock import patch

import typer.main

from streamkit.cli.main import main as program
from streamkit.errors import StreamKitError
from streamkit.log.opening import open_log
from tests.unit.log.permissions import CASES, Case, allowed, denied

NOBODY = 65534
COMMANDS = {
    "topics": ("topics", "list"),
    "consume": ("consume", "t"),
    "stats": ("stats",),
    "maintain": ("maintain",),
    "compact": ("compact", "c"),
    "delete": ("topics", "delete", "c", "--yes"),
    "fsck": ("fsck", "--json"),
    "deep": ("fsck", "--deep"),
}


def main(folder: str) -> None:
    root = Path(folder)
    typer.main.get_command = cache(typer.main.get_command)  # the tree of all commands takes longer than most of them
    if os.geteuid() == 0:
        outcomes(root, lambda log: {})  # so that all modules are loaded, which nobody may not be able to read
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    print(json.dumps({name: outcomes(root, case) for name, case in CASES.items()}))


def outcomes(root: Path, case: Case) -> dict[str, list[object]]:
    """What each piece of work comes to while the permissions are lacking, and what a reader finds when they are back."""
    found = {}
    copy = shutil.copytree(root / "log", root / "copy")
    for name, work in {"read": read, "write": write, "go on writing": lambda copy: go_on_writing(copy, case)}.items():
        with denied(copy, case) if name != "go on writing" else contextlib.nullcontext():
            found[name] = outcome(work, copy)
    for name, arguments in COMMANDS.items():
        with denied(copy, case):
            found[name] = run(copy, arguments)
    found["afterwards"] = outcome(read, copy)
    shutil.rmtree(copy)
    return found


def outcome(work: Callable[[Path], object], copy: Path) -> list[object]:
    try:
        return ["done", work(copy)]
    except StreamKitError as error:
        return [type(error).__name__, str(error)]


def read(copy: Path) -> list[int]:
    with open_log(copy) as log:
        return sorted(log.read("t")["v"].to_pylist())


def write(copy: Path) -> list[int]:
    with open_log(copy) as log, log.producer() as producer:
        producer.send("t", {"v": 3})
    return [3]


def go_on_writing(copy: Path, case: Case) -> list[object]:
    """A producer that was open before commits when it may again, and what it met until then."""
    with open_log(copy) as log:
        producer = log.producer()
        producer.send("t", {"v": 4})
        producer.flush()
        with denied(copy, case):
            producer.send("t", {"v": 5})
            met = outcome(lambda _: producer.flush(), copy)
        producer.flush()
    return met


def run(copy: Path, arguments: tuple[str, ...]) -> list[object]:
    """A command's exit code, what it printed, and what it printed to standard error."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["streamkit", *arguments, "--log", str(copy)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            program()
        except SystemExit as end:
            return [end.code or 0, out.getvalue(), err.getvalue()]
    raise AssertionError("the program does not end")


if __name__ == "__main__":
    allowed(Path(sys.argv[1]))
    main(*sys.argv[1:])
