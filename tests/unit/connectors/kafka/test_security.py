"""Settings of TLS and SASL, which connectors pass through to Kafka's client: who is let in, who is not, and that nobody hears a secret."""

from __future__ import annotations

import subprocess

import pytest

import streamkit as sk
from streamkit.connectors.kafka import KafkaSink, KafkaSource
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError
from tests.kit.sampling import TAKES_ALL
from tests.kit.servers.kafka import start_broker

pytestmark = [
    pytest.mark.foreign("kafka"),
    pytest.mark.skipif(not TAKES_ALL, reason="starts a broker of its own: make torture"),
]
SECRET = "hunter2"


def keytool(*arguments):
    subprocess.run(["keytool", *map(str, arguments), "-storepass", "storepass"], check=True, capture_output=True)


def make_store(folder, name):
    """A key store of Java with a key of its own, and its certificate for clients."""
    store, certificate = folder / f"{name}.p12", folder / f"{name}.pem"
    keytool(
        "-genkeypair", "-keyalg", "RSA", "-alias", "broker", "-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1", "-ext", "bc:c",
        "-storetype", "PKCS12", "-keystore", store,
    )  # fmt: skip
    keytool("-exportcert", "-rfc", "-alias", "broker", "-keystore", store, "-file", certificate)
    return store, certificate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def certificate(folder):
    return make_store(folder, "broker")[1]


@pytest.fixture(scope="module")
def secured(folder, certificate):
    """A broker that encrypts, and asks for a password."""
    found = start_broker(folder / "broker.p12")
    if found is None:
        pytest.skip("no Kafka here: Java, Maven or its artifacts are missing")
    yield found
    found.stop()


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("out", format="bytes", partitions=1)
        with log.producer() as producer:
            producer.send("out", {"key": b"k", "value": b"v"})
        yield log


def settings(broker, certificate, password=SECRET):
    return {
        "bootstrap.servers": broker.secured_address, "kafka.security.protocol": "SASL_SSL", "kafka.ssl.ca.location": str(certificate),
        "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "me", "kafka.sasl.password": password, "kafka.topic": "encrypted",
    }  # fmt: skip


def test_a_record_out_and_in(secured, certificate, log):
    """With the certificate and the password a record goes out and comes back."""
    config = settings(secured, certificate)
    SinkTask(KafkaSink("out", config, topics="out"), 0, 1, log, is_once=True).run(Orders())
    SourceTask(KafkaSource("in", config, topic="back"), 0, 1, log, is_once=True).run(Orders())
    assert [(row["key"], row["value"]) for row in log.read("back").to_pylist()] == [(b"k", b"v")]


@pytest.mark.parametrize("is_source", [True, False], ids=["source", "sink"])
@pytest.mark.parametrize("wrong", ["certificate", "password"])
def test_who_is_not_let_in(secured, certificate, folder, log, wrong, is_source):
    """A wrong certificate or password stops the task, and the error says which settings to look at, not what they hold."""
    config = settings(secured, certificate, "swordfish" if wrong == "password" else SECRET)
    if wrong == "certificate":
        config["kafka.ssl.ca.location"] = str(make_store(folder, f"other-{is_source}")[1])
    task = (
        SourceTask(KafkaSource("in", config, topic="back"), 0, 1, log, is_once=True)
        if is_source
        else SinkTask(KafkaSink("out", config, topics="out"), 0, 1, log, is_once=True)
    )
    with pytest.raises(ConfigError, match=r"refuses the connector's login: .*kafka\.security\.protocol") as raised:
        task.run(Orders())
    assert SECRET not in str(raised.value) and "swordfish" not in str(raised.value)
