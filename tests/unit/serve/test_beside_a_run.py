"""Pages that a run shows itself: as long as it lasts, and without changing anything."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import httpx
import pytest

import streamkit as sk
from streamkit.errors import ConfigError
from tests.unit.serve.conftest import ORDERS, totals

TOPOLOGY = """
import streamkit as sk

app = sk.Topology("copy")
app.stream("orders").to("copied")
if __name__ == "__main__":
    sk.main(app)
"""


def test_a_run_shows_its_pages_until_it_is_stopped(log):
    """`run.ui` is their address; they know the run, also after its end by itself, and nothing answers once it was stopped."""
    run = sk.run(totals(), log=log, engine="local", trigger="available_now", ui=0)
    assert run.ui is not None
    run.wait()
    (found,) = httpx.get(f"{run.ui}/api/v1/applications").json()
    assert (found["name"], sum(one["next_offset"] for one in found["inputs"])) == ("totals", ORDERS)
    assert httpx.get(f"{run.ui}/api/v1/server").json()["allows_changes"] is False
    address = run.ui
    run.stop()
    assert run.ui is None
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)
    assert sk.run(totals(), log=log, engine="local", trigger="available_now").ui is None


def test_a_port_that_cannot_be_had(log):
    """It is said, and the run does not go on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen at 127.0.0.1, port {port}"):
            sk.run(totals(), log=log, engine="local", ui=port)
    sk.run(totals(), log=log, engine="local", trigger="available_now").wait()
    for port in (-1, 70_000, "8180"):
        with pytest.raises(ConfigError, match="expected a port"):
            sk.run(totals(), log=log, engine="local", ui=port)  # type: ignore[call-overload]


def test_a_command_shows_its_pages(log, tmp_path):
    """`streamkit run FILE --ui PORT` says where, and ends with its pages."""
    (tmp_path / "copy_orders.py").write_text(TOPOLOGY)
    line = [
        sys.executable,
        "-m",
        "streamkit.cli",
        "run",
        str(tmp_path / "copy_orders.py"),
        "--local",
        "--ui",
        "0",
        "--log",
        log.location,
    ]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(text for text in process.stderr if text.startswith("pages at "))
        assert httpx.get(f"{said.split()[-1]}/health/ready").json() == {"status": "ready"}
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait() == 130
