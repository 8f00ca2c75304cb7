"""
A private PostgreSQL server for tests: in a folder of its own, on a Unix socket only, as an unprivileged user.

    PATH and /usr/lib/postgresql/*/bin are searched for `initdb` and `postgres`
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any

USER = "streamkit"
PORT = 5432
START_SECONDS = 30.0
SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "16MB",
    "max_connections": "40",
    "max_wal_size": "128MB",
    "autovacuum": "off",
    "jit": "off",
    "restart_after_crash": "on",
    "log_min_messages": "fatal",
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
}
ACCESS = f"local all {USER} trust\nhost all {USER} 127.0.0.1/32 trust\nlocal all all scram-sha-256\n"


def binaries() -> Path | None:
    """The folder with the programs of the newest PostgreSQL that is installed here; None if there is none."""
    found = sorted(glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(Path(path).parent.name))
    places = [os.path.dirname(os.path.realpath(path)) for path in [shutil.which("postgres")] if path]
    for place in [*places, *reversed(found)]:
        if all(os.access(os.path.join(place, name), os.X_OK) for name in ("initdb", "postgres")):
            return Path(place)
    return None


def _unprivileged() -> dict[str, Any]:
    """How to start a process that PostgreSQL agrees to run in: not as root."""
    if os.geteuid() != 0:
        return {}
    users = [entry for entry in pwd.getpwall() if entry.pw_name in ("postgres", "nobody")]
    user = max(users, key=lambda entry: entry.pw_name)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class Server:
    """
    A cluster and the server that runs it; `is_synced` False leaves out fsync, which the death of processes cannot tell.

    With a `port` it listens on the loopback too.
    """

    def __init__(self, programs: Path, *, is_synced: bool = False, parent: str | None = None, port: int | None = None) -> None:
        self.programs = programs
        self.port = port or PORT  # the socket's name has it too
        in_memory = os.environ.get("PYTEST_DEBUG_TEMPROOT")  # where that has room: ten thousands of small files
        self.folder = Path(tempfile.mkdtemp(prefix="skpg-", dir=parent or in_memory))
        self._identity = _unprivileged()
        if self._identity:
            os.chown(self.folder, self._identity["user"], self._identity["group"])
        self._settings = SETTINGS | {"unix_socket_directories": str(self.folder), "fsync": "on" if is_synced else "off"}
        if port is not None:
            self._settings |= {"listen_addresses": "127.0.0.1", "port": str(port)}
        self._schemas = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._initialise()
        self.start()

    def url(self, schema: str | None = None, **options: object) -> str:
        """A catalog's URL; in a schema that nobody has used yet unless one is named."""
        self._schemas += 1
        values = {"host": self.folder, "schema": schema or f"log_{self._schemas}", **options}
        return f"postgresql://{USER}@/postgres?" + "&".join(f"{name}={value}" for name, value in values.items())

    def start(self) -> None:
        """Start the server and wait until it lets clients in."""
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        with (self.folder / "server.txt").open("ab") as output:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", *options],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder, **self._identity,
            )  # fmt: skip
        end = time.monotonic() + START_SECONDS
        while not self._is_ready():
            assert self.process.poll() is None and time.monotonic() < end, (self.folder / "server.txt").read_text()
            time.sleep(0.02)

    def crash(self) -> None:
        """End all processes at once, without a checkpoint, as a crash would."""
        self._end(signal.SIGQUIT)

    def shut_down(self) -> None:
        """End the server in good order: clients are let go, and who reads its log has all of it."""
        self._end(signal.SIGINT)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """All processes answer nobody."""
        assert self.process is not None
        parent = self.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()
        processes = [parent, *map(int, children)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def stop(self) -> None:
        """End the server and remove its folder."""
        self._end(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(START_SECONDS)

    def _initialise(self) -> None:
        arguments = ["--username", USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        subprocess.run(
            [self.programs / "initdb", "-D", self.folder / "data", *arguments],
            check=True, capture_output=True, cwd=self.folder, **self._identity,
        )  # fmt: skip
        (self.folder / "data" / "pg_hba.conf").write_text(ACCESS)

    def _is_ready(self) -> bool:
        """`postmaster.pid` says so in its last line."""
        try:
            return (self.folder / "data" / "postmaster.pid").read_text().rstrip().endswith("ready")
        except OSError:
            return False
