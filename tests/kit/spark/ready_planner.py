"""
The process that plans a query, for the session of the tests: forked off one that has loaded what it needs.

Spark starts a Python of its own for each query, which loads for most of a second. Here its `python` is a small program,
which hands over to a server that forks, and lives as long as what was forked: if Spark ends one of the two, the other ends.
Sessions that tests start in other processes have Spark's own.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

MODULE = "pyspark.sql.streaming.python_streaming_source_runner"
SCRIPT = """#!/bin/sh
[ "$2" = {module} ] && exec {python} -I -S {here} {place}
exec {python} "$@"
"""
LOADED = (MODULE, "streamkit.spark.epochs", "streamkit.spark.source")
START_SECONDS = 120


def start(folder: Path, environment: dict[str, str]) -> tuple[str, subprocess.Popen[bytes]]:
    """The path of a Python for Spark, and the server, which ends when its standard input does."""
    place, python = folder / "planner.socket", folder / "planner.python"
    python.write_text(SCRIPT.format(module=MODULE, python=sys.executable, here=__file__, place=place), encoding="utf-8")
    python.chmod(0o755)
    command = [sys.executable, "-c", f"from {__name__} import serve; serve({str(place)!r})"]
    return str(python), subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | {"PYTHONHASHSEED": "0"} | environment)


def hand_over(place: str) -> None:
    """Let the server fork a process with the environment, the folder and the output of this one, and wait for its end."""
    told = json.dumps({"environment": dict(os.environ), "folder": os.getcwd()}).encode()
    end = time.monotonic() + START_SECONDS
    with socket.socket(socket.AF_UNIX) as client:
        while client.connect_ex(place) != 0:  # it loads
            assert time.monotonic() < end, f"nobody listens at {place}"
            time.sleep(0.05)
        socket.send_fds(client, [len(told).to_bytes(4, "big")], [1, 2])
        client.sendall(told)
        client.recv(1)


def serve(place: str) -> None:
    """Fork a process for each client."""
    for module in LOADED:
        import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        while server in select.select([server, sys.stdin], [], [])[0]:
            client, _ = server.accept()
            with client:
                if os.fork() == 0:
                    server.close()
                    run_for(client)
                    return


def run_for(client: socket.socket) -> None:
    """Be the process that a client asks for."""
    size, streams, _, _ = socket.recv_fds(client, 4, 2)
    with client.makefile("rb") as file:
        told = json.loads(file.read(int.from_bytes(size, "big")))
    for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(told["environment"])
    os.chdir(told["folder"])
    threading.Thread(target=end_with, args=(client,), daemon=True).start()
    del sys.modules[MODULE]
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


def end_with(client: socket.socket) -> None:
    """End at once when Spark has ended the process that it knows."""
    client.recv(1)
    os._exit(1)


if __name__ == "__main__":
    hand_over(sys.argv[1])
