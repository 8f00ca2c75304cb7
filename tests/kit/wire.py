"""The line between a client and a PostgreSQL server, which a test can cut around a COMMIT."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from tests.kit.postgres import Server

SOCKET = ".s.PGSQL.5432"
COMMIT = b"COMMIT\0"
NEVER_SENT = "never sent"  # the line is cut before the server hears of the commit
ANSWER_LOST = "answer lost"  # the server commits, and its answer is lost
HELD_BACK = "held back"  # the client's side is cut, and the commit reaches the server when `release` lets it
CUTS = (NEVER_SENT, ANSWER_LOST, HELD_BACK)


class Wire:
    """Passes everything on, but does `cut` to the next COMMIT when it is set; `folder` is the host for clients."""

    def __init__(self, server: Server) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="skwire-"))
        self.cut: str | None = None
        self._target = str(server.folder / SOCKET)
        self._held: list[tuple[socket.socket, bytes]] = []
        self._silenced: set[socket.socket] = set()
        self._answers: dict[socket.socket, threading.Thread] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / SOCKET))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def release(self) -> None:
        """Let what was held back reach the server, hang up, and wait until it has done with it."""
        for server, data in self._held:
            with suppress(OSError):
                server.sendall(data)
            _hang_up(server, socket.SHUT_WR)
            self._answers[server].join()
        self._held.clear()

    def close(self) -> None:
        self._listener.close()
        shutil.rmtree(self.folder)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    self._connect(client)
                except OSError:  # the server is not there
                    client.close()

    def _connect(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        self._answers[server] = threading.Thread(target=self._answer, args=(server, client), daemon=True)
        self._answers[server].start()
        threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if COMMIT in data and self.cut is not None:
                    self._cut(client, server, data)
                    return
                server.sendall(data)
            _hang_up(server)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if server not in self._silenced:
                    client.sendall(data)
        _hang_up(client)

    def _cut(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        kind, self.cut = self.cut, None
        self._silenced.add(server)
        self._held.append((server, data if kind != NEVER_SENT else b""))
        if kind != HELD_BACK:
            self.release()
        _hang_up(client)


def _hang_up(line: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with suppress(OSError):
        line.shutdown(how)
