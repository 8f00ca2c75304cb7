"""The end of a process that works for an application."""

from __future__ import annotations

import threading
import time

from streamkit.background_process import BackgroundProcess
from tests.kit.waiting import wait_until

NEVER_READY = """
import pathlib, threading


def serve(begin):
    pathlib.Path(begin["begun"]).touch()
    threading.Event().wait()
"""


def test_a_process_that_is_not_ready_is_not_waited_for(tmp_path, monkeypatch):
    """It has done nothing yet, so an application that stops while its processes begin stops at once."""
    (tmp_path / "never_ready.py").write_text(NEVER_READY)
    monkeypatch.syspath_prepend(tmp_path)
    begun = tmp_path / "begun"
    process = BackgroundProcess("never_ready", {"begun": str(begun)})
    started: list[bool] = []
    starts = threading.Thread(target=lambda: started.append(process.start()))
    starts.start()
    wait_until(begun.exists)
    before = time.monotonic()
    process.close(600.0)
    starts.join()
    assert time.monotonic() - before < 60
    assert started == [False]
