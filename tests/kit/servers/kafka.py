"""A Kafka broker on the loopback, alone or with others, started once a run from Maven artifacts; Connect's jars lie beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.kit.kafka_requests import raise_feature
from tests.kit.waiting import wait_until

VERSION = "4.3.0"
TRANSACTION_VERSION = 2
START_SECONDS = 90
MAVEN_SECONDS = 300
JARS = Path(tempfile.gettempdir()) / f"streamkit-kafka-{VERSION}"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
</dependencies></project>
"""
PROPERTIES = """process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{broker},SASL_PLAINTEXT://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker},SASL_PLAINTEXT://127.0.0.1:{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_me="hunter2";
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=3
auto.create.topics.enable=false
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=3
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
log.retention.check.interval.ms=500
log.retention.ms=-1
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
ENCRYPTED = """ssl.keystore.location={keystore}
ssl.keystore.password=storepass
ssl.key.password=storepass
"""
FORMATTED = """version=1
cluster.id=MkU3OEVBNTcwNTJENDM2Qg
node.id={node}
directory.id=8iPWg0kmRbqkVZT1DRV{node}Lw
"""  # as `kafka-storage format` writes it, which is a JVM of its own


class Broker:
    """
    A broker: where clients find it, and how it stands still or starts again.

    Of a cluster it is the `node`, from 1 on, and `controllers` are the ports of all nodes' controllers; it does not start by itself.
    """

    def __init__(self, jars: Path, keystore: Path | None = None, node: int = 1, controllers: Sequence[int] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="skkafka-"))
        self._jars = jars
        is_alone = not controllers
        broker, secured, *own = free_ports(3 if is_alone else 2)
        controllers = controllers or own
        self.address = f"127.0.0.1:{broker}"
        self.secured_address = f"127.0.0.1:{secured}"
        self._port = broker
        self._properties = self.folder / "server.properties"
        self._properties.write_text(
            PROPERTIES.format(
                broker=broker, secured=secured, controller=controllers[node - 1], data=self.folder / "log", node=node, replicas=len(controllers),
                voters=",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1)),
            ),
            encoding="utf-8",
        )  # fmt: skip
        if keystore is not None:
            encrypted = self._properties.read_text(encoding="utf-8").replace(
                "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_PLAINTEXT:SASL_SSL"
            )
            self._properties.write_text(encrypted + ENCRYPTED.format(keystore=keystore), encoding="utf-8")
        (self.folder / "log").mkdir()
        (self.folder / "log" / "meta.properties").write_text(FORMATTED.format(node=node), encoding="utf-8")
        self.process: subprocess.Popen[bytes] | None = None
        if is_alone:
            self.start()

    def start(self) -> None:
        """Start and wait until a client could connect."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start; of a cluster, more than half of the nodes have to be there before clients can connect."""
        with (self.folder / "server.txt").open("ab") as output:
            self.process = subprocess.Popen(
                [*java(self._jars, "400m"), "kafka.Kafka", str(self._properties)], stdout=output, stderr=output
            )

    def wait(self) -> None:
        """Wait until a client could connect."""
        assert self.process is not None
        try:
            wait_for_port(self._port, self.process, self.folder / "server.txt")
        except AssertionError:
            self.kill()  # nobody else would
            raise

    def kill(self) -> None:
        """End the process at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(START_SECONDS)

    def stand_still(self) -> None:
        """Answer nobody from now on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the broker and remove its folder."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(START_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)


def java(jars: Path, memory: str) -> list[str]:
    """The command that runs a class of these jars, quick to start."""
    return ["java", f"-Xmx{memory}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]


def jars_of(folder: Path, pom: str) -> Path | None:
    """The jars that a project needs, by Maven, kept for the next run; None where they cannot be had."""
    if (folder / "complete").exists():
        return folder
    if shutil.which("mvn") is None or shutil.which("java") is None:
        return None
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    (part / "pom.xml").write_text(pom, encoding="utf-8")
    command = ["mvn", "-q", "-B", "-f", str(part / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={part}"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=MAVEN_SECONDS)
    except (OSError, subprocess.SubprocessError):
        shutil.rmtree(part, ignore_errors=True)
        return None
    (part / "complete").touch()
    with contextlib.suppress(OSError):  # another run was quicker
        os.rename(part, folder)
    return folder if (folder / "complete").exists() else part


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [found.getsockname()[1] for found in sockets]


def wait_for_port(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until a process listens; an AssertionError has what it printed."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None and time.monotonic() < deadline, output.read_text(errors="replace")[-4000:]
        time.sleep(0.01)


def start_broker(keystore: Path | None = None) -> Broker | None:
    """A broker, whose secured address is encrypted by the key in `keystore`; None where Java, Maven or the artifacts are missing."""
    jars = jars_of(JARS, POM)
    if jars is None:
        return None
    broker = Broker(jars, keystore)
    _raise_transactions(broker)
    return broker


def start_cluster_of(count: int) -> list[Broker]:
    """Brokers of one cluster; none where Java, Maven or the artifacts are missing."""
    jars = jars_of(JARS, POM)
    if jars is None:
        return []
    controllers = free_ports(count)
    brokers = [Broker(jars, None, node, controllers) for node in range(1, count + 1)]
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        broker.wait()
    _raise_transactions(brokers[0])
    return brokers


def _raise_transactions(broker: Broker) -> None:
    """Have the version of transactions that a new cluster has; what is formatted here has the one before."""
    wait_until(lambda: raise_feature(broker.address, "transaction.version", TRANSACTION_VERSION) == 0)
