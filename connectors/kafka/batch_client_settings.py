"""
Settings of librdkafka that the batch client knows, too; whoever gives another one is served by confluent-kafka.

They have librdkafka's names, values and defaults, so that `kafka.*` means the same whichever client reads it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any

from streamkit.connectors.setting import Setting
from streamkit.errors import ConfigError

_MS_MAX = 86_400_000
_BYTES_MAX = 2**31 - 1
_KNOWN = {
    one.name: one
    for one in (
        Setting("client.id", "the name by which brokers know the client", default=None),
        Setting("security.protocol", "", default="plaintext", choices=("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")),
        Setting("sasl.mechanisms", "", default="GSSAPI", choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        Setting("sasl.username", "", default=None),
        Setting("sasl.password", "", default=None, is_secret=True),
        Setting("ssl.ca.location", "a file or folder of certificates, or probe for those of the system", default="probe"),
        Setting("ssl.certificate.location", "", default=None),
        Setting("ssl.key.location", "", default=None),
        Setting("ssl.key.password", "", default=None, is_secret=True),
        Setting("ssl.crl.location", "", default=None),
        Setting("ssl.endpoint.identification.algorithm", "", default="https", choices=("https", "none")),
        Setting("enable.ssl.certificate.verification", "", "boolean", True),
        Setting("socket.timeout.ms", "for an answer", "integer", 60_000, least=10, most=_MS_MAX),
        Setting("socket.connection.setup.timeout.ms", "for a connection", "integer", 30_000, least=1_000, most=_MS_MAX),
        Setting("request.timeout.ms", "for the replicas of a record", "integer", 30_000, least=1, most=_MS_MAX),
        Setting("retry.backoff.ms", "before a request is sent again", "integer", 100, least=1, most=300_000),
        Setting("fetch.wait.max.ms", "how long a broker may wait for bytes", "integer", 500, least=0, most=300_000),
        Setting("fetch.min.bytes", "how many bytes it waits for", "integer", 1, least=1, most=100_000_000),
        Setting("fetch.max.bytes", "of an answer", "integer", 52_428_800, least=0, most=2_147_483_135),
        Setting("max.partition.fetch.bytes", "of a partition of an answer", "integer", 1_048_576, least=1, most=1_000_000_000),
        Setting("receive.message.max.bytes", "of any answer", "integer", 100_000_000, least=1_000, most=_BYTES_MAX),
        Setting("message.max.bytes", "of a record that is sent", "integer", 1_000_000, least=1_000, most=1_000_000_000),
        Setting("partitioner", "", default="murmur2_random", choices=("murmur2_random", "murmur2")),
        Setting("compression.codec", "", default="none", choices=("none", "gzip", "snappy", "lz4", "zstd")),
        Setting("check.crcs", "", "boolean", False),
        Setting("transaction.timeout.ms", "", "integer", 60_000, least=1_000, most=_BYTES_MAX),
    )
}  # fmt: skip
_OTHER_NAMES = {
    "sasl.mechanism": "sasl.mechanisms",
    "compression.type": "compression.codec",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
_AS_WRITTEN = ("client.id", "sasl.", "ssl.")  # how names begin whose values are not in lower case

# How librdkafka goes about what the batch client does once and at once, or always: such a setting has nothing to change here.
_WITHOUT_EFFECT = frozenset(
    {
        "acks", "api.version.request", "batch.num.messages", "batch.size", "connections.max.idle.ms", "enable.idempotence",
        "enable.sparse.connections", "fetch.error.backoff.ms", "fetch.queue.backoff.ms", "group.id", "linger.ms", "log_level",
        "max.in.flight", "max.in.flight.requests.per.connection", "message.send.max.retries", "metadata.max.age.ms",
        "queue.buffering.max.ms", "queued.max.messages.kbytes",
        "queued.min.messages", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.required.acks", "retries",
        "retry.backoff.max.ms", "socket.keepalive.enable", "socket.nagle.disable", "statistics.interval.ms",
        "topic.metadata.refresh.interval.ms",
    }
)  # fmt: skip


def unknown_settings(given: Mapping[str, str]) -> tuple[str, ...]:
    """The names of settings that the batch client cannot serve, in their order: unknown ones, and those with a value that it does not know."""
    found = []
    for name, written in given.items():
        known = _KNOWN.get(_OTHER_NAMES.get(name, name))
        if known is None and name not in _WITHOUT_EFFECT:
            found.append(name)
        elif known is not None:
            try:
                _read(known, written)
            except ConfigError:
                found.append(name)
    asks_name = str(given.get("security.protocol", "")).strip().lower().startswith("sasl")
    if asks_name and not any(name in given for name in ("sasl.mechanism", "sasl.mechanisms")):
        found.append("security.protocol")  # whose mechanism is GSSAPI then
    return tuple(found)


def read_batch_settings(given: Mapping[str, str]) -> dict[str, Any]:
    """Every setting of the batch client by the first of its names. A setting that is not given has librdkafka's default."""
    found: dict[str, Any] = {name: setting.default for name, setting in _KNOWN.items()}
    for name, written in given.items():
        known = _KNOWN.get(_OTHER_NAMES.get(name, name))
        if known is not None:
            found[known.name] = _read(known, written)
    return found


def _read(setting: Setting, written: str) -> Any:
    is_as_written = setting.name.startswith(_AS_WRITTEN) and setting.name != "ssl.endpoint.identification.algorithm"
    return setting.read(written if is_as_written else str(written).strip().lower())


def tls_context(where: str, settings: Mapping[str, Any]) -> ssl.SSLContext | None:
    """How connections are encrypted, None where they are not; ConfigError for files that cannot be read."""
    if not settings["security.protocol"].endswith("ssl"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    is_checked = settings["enable.ssl.certificate.verification"]
    context.check_hostname = is_checked and settings["ssl.endpoint.identification.algorithm"] == "https"
    context.verify_mode = ssl.CERT_REQUIRED if is_checked else ssl.CERT_NONE
    name, place = "", ""
    try:
        name, place = "ssl.ca.location", settings["ssl.ca.location"]
        if place == "probe":
            context.load_default_certs()
        else:
            context.load_verify_locations(**{"capath" if os.path.isdir(place) else "cafile": place})
        name, place = "ssl.crl.location", settings["ssl.crl.location"]
        if place is not None:
            context.load_verify_locations(cafile=place)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        name, place = "ssl.certificate.location", settings["ssl.certificate.location"]
        if place is not None:
            password = settings["ssl.key.password"]
            context.load_cert_chain(place, settings["ssl.key.location"], lambda: password or "")  # never asks at a terminal
    except OSError as error:  # ssl's own errors are such ones
        raise ConfigError(
            f"{where}: kafka.{name}={place!r} cannot be read: {error}; expected a file in PEM, and its key's password if it has one"
        ) from None
    return context
