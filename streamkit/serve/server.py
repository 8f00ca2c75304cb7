"""Starting and stopping the server over a log: in a thread, so that a command or a run may have one beside it."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import final

from streamkit.connectors.web_server import TlsFiles, WebServer, listener_at
from streamkit.errors import ConfigError
from streamkit.expressions.sql.dialect import SPARK
from streamkit.log.log import Log
from streamkit.serve.limits import ServeLimits
from streamkit.serve.safety import LOOPBACK, Safety
from streamkit.serve.service import Service

PORT = 8180


@final
class Server:
    """
    Serves a log from when it is made until it is stopped; use it in a `with` block. The log stays open.

    ConfigError if it cannot be listened there, or if others could reach it without a token.
    """

    def __init__(
        self,
        log: Log,
        host: str = LOOPBACK,
        port: int = PORT,
        token_file: str | None = None,
        tls: TlsFiles | None = None,
        limits: ServeLimits | None = None,
        *,
        allows_changes: bool = False,
        sql_dialect: str = SPARK.name,
    ) -> None:
        safety = Safety.of(host, token_file, allows_changes=allows_changes)
        _check_tls(tls)
        try:
            listener = listener_at(host.strip("[]"), port)
        except (OSError, UnicodeError, OverflowError) as error:
            raise ConfigError(
                f"cannot listen at {host}, port {port}: {error}; expected a free port of this machine (--host, --port)"
            ) from None
        self._service = Service(log, safety, limits, sql_dialect)
        self._server = WebServer("streamkit-serve", self._service, listener, tls)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{'http' if tls is None else 'https'}://{shown}:{self._server.address[1]}"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End all streams, answer what was asked, and take nothing more."""
        self._service.end()
        self._server.stop()
        self._server.has_ended()
        self._service.close()

    @property
    def is_at_work(self) -> bool:
        """Whether a look for which nobody waits any more still goes on."""
        return self._service.live.is_at_work


def _check_tls(tls: TlsFiles | None) -> None:
    if tls is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"the certificate {tls.certificate!r} with the key {tls.key or tls.certificate!r} cannot be used: {error}"
            ) from error
