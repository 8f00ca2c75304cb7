"""A process that works beside a measurement."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

END_SECONDS = 60.0


def background_process(arguments: Sequence[str], **options: Any) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run Python with these arguments until the block ends; `options` are those of `Popen`."""
    return background_program([sys.executable, *arguments], **options)


@contextmanager
def background_program(line: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends; `options` are those of `Popen`."""
    started = subprocess.Popen(line, **options)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(END_SECONDS)
        finally:
            started.kill()
