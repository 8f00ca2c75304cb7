"""A process that works beside a measurement."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

END_SECONDS = 60.0


@contextmanager
def background_process(arguments: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python with these arguments until the block ends; `options` are those of `Popen`."""
    started = subprocess.Popen([sys.executable, *arguments], **options)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(END_SECONDS)
        finally:
            started.kill()
