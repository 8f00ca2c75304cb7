"""The life of the server: its address, its end, TLS, a log that goes away, and what it cannot do to an application."""

from __future__ import annotations

import datetime as dt
import shutil
import signal
import socket
import time

import httpx
import pytest

import streamkit as sk
from streamkit.connectors.web_server import TlsFiles
from streamkit.errors import ConfigError
from streamkit.serve.server import Server
from tests.kit.waiting import wait_until
from tests.unit.cli.command_process import CommandProcess
from tests.unit.serve.conftest import send_orders, serving, streaming, totals

RECORDS = "/api/v1/topics/orders/records"


def test_it_ends_at_once_with_streams_open(log):
    """Streams end when the server does, and nobody is connected any more; the log stays open."""
    with Server(log, port=0) as server, httpx.Client(base_url=server.address, timeout=30) as client:
        with streaming(client, RECORDS) as stream:
            next(stream)
            begun = time.monotonic()
            server.stop()
            assert all(event == "comment" for event, _ in stream)
            assert time.monotonic() - begun < 4
        with pytest.raises(httpx.ConnectError):
            client.get("/health/live")
    assert log.topics() == ["opaque", "orders"]


def test_places_that_cannot_be_listened_at(log):
    """A port that is taken, or that is none, is an error that says what is expected."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="cannot listen at 127"):
        Server(log, port=taken.getsockname()[1])


def certificate(folder):
    """The files of a certificate for localhost that signs itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - dt.timedelta(days=1), now + dt.timedelta(days=1))
    signed = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False).sign(
        key, hashes.SHA256()
    )
    (folder / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return TlsFiles(str(folder / "certificate.pem"), str(folder / "key.pem"))


def test_https(log, tmp_path):
    """With a certificate it speaks HTTPS, streams too; one that cannot be used is an error at the start."""
    files = certificate(tmp_path)
    with Server(log, "localhost", 0, tls=files) as server:
        assert server.address.startswith("https://localhost:")
        import ssl

        with httpx.Client(base_url=server.address, verify=ssl.create_default_context(cafile=files.certificate)) as client:
            assert client.get("/health/ready").json() == {"status": "ready"}
            with streaming(client, RECORDS, offset="earliest") as stream:
                assert [next(stream)[0] for _ in range(2)] == ["begun", "records"]
    for wrong in (TlsFiles(str(tmp_path / "nothing")), TlsFiles(files.certificate)):
        with pytest.raises(ConfigError, match="cannot be used"):
            Server(log, port=0, tls=wrong)


def test_a_log_that_is_deleted_underneath(tmp_path):
    """All answers say so, and so do streams; the server itself lives on, and answers once the log is back."""
    root = tmp_path / "deleted"
    with sk.open_log(root) as log, serving(log) as client:
        log.create_topic("orders", "n int")
        assert client.get("/health/ready").status_code == 200
        root.rename(tmp_path / "away")
        for path in ("/health/ready", "/api/v1/topics", RECORDS, "/metrics", "/api/v1/applications/x/events"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["error"], "was deleted" in answer.json()["message"]) == (
                503,
                "LogGone",
                True,
            )
        assert client.get("/health/live").status_code == 200
        root.mkdir()
        assert client.get("/health/ready").status_code == 503
        shutil.rmtree(root)
        (tmp_path / "away").rename(root)
        assert client.get("/health/ready").status_code == 200


def test_the_command(tmp_path, log):
    """It says where it listens, answers, and ends with 0 on an interrupt, within a moment, with a stream open."""
    process = CommandProcess(tmp_path / "log", "serve", "--port", "0")
    assert process.stdout is not None
    address = process.stdout.readline().split()[-1]
    with httpx.Client(base_url=address, timeout=30) as client, streaming(client, RECORDS) as stream:
        assert client.get("/health/ready").status_code == 200
        next(stream)
        begun = time.monotonic()
        process.end(signal.SIGTERM)
        assert time.monotonic() - begun < 5


def test_a_killed_server_hurts_nobody(tmp_path, log):
    """An application goes on to commit when the server is killed in the middle of its looks, and has all results."""
    process = CommandProcess(tmp_path / "log", "serve", "--port", "0")
    assert process.stdout is not None
    address = process.stdout.readline().split()[-1]
    run = sk.run(totals(), log=log, engine="local")
    try:
        wait_until(lambda: httpx.get(f"{address}/api/v1/applications/totals/stores/hourly/rows").status_code == 200)
        with httpx.Client(base_url=address) as client, streaming(client, "/api/v1/applications/totals/events") as stream:
            next(stream)
            process.kill()
        process.wait()
        send_orders(log, 60, 40)
        view = log.store("totals", "per_customer")
        wait_until(lambda: sum(row["n"] for row in view.to_rows()) == 100)
    finally:
        run.stop()
