"""A process with all that it started: a driver, its JVM, and the workers of that."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import psutil


def family(pid: int) -> list[psutil.Process]:
    """The process and its descendants, itself first; empty if it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def is_java(process: psutil.Process) -> bool:
    try:
        return bool(process.name() == "java")
    except psutil.NoSuchProcess:
        return False


def kill(processes: Sequence[psutil.Process]) -> None:
    """End them by SIGKILL; those that have ended already are no matter."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def outliving(processes: Sequence[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that are still there after so many seconds."""
    end = time.monotonic() + seconds
    while (alive := [process for process in processes if _is_alive(process)]) and time.monotonic() < end:
        time.sleep(0.05)
    return alive


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
