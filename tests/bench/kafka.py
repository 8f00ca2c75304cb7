"""A Kafka broker of one node on the loopback, for the benchmark to stand beside: from Maven artifacts, where those can be had."""

from __future__ import annotations

import contextlib
import csv
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench import maven

VERSION = "4.3.0"
START_SECONDS = 60
TOOL_SECONDS = 600
PRODUCER = ("acks=all", "batch.size=262144", "linger.ms=5", "buffer.memory=134217728")  # the fastest of those tried
ARTIFACTS = [f"org.apache.kafka:{name}:{VERSION}" for name in ("kafka_2.13", "kafka-tools", "kafka-streams")]
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class Kafka:
    """A broker that runs; its tools measure it."""

    def __init__(self, jars: Path, address: str) -> None:
        self.jars = jars
        self.address = address

    def append(self, topic: str, records: int, partitions: int, compression: str) -> float:
        """Records of 100 bytes a second that one producer gets acknowledged, in a new topic."""
        server = ("--bootstrap-server", self.address)
        self._tool("TopicCommand", *server, "--create", "--topic", topic, "--partitions", str(partitions))
        output = self._tool(
            "ProducerPerformance", "--topic", topic, "--num-records", str(records), "--record-size", "100", "--throughput", "-1",
            "--producer-props", f"bootstrap.servers={self.address}", *PRODUCER, f"compression.type={compression}",
        )  # fmt: skip
        return float(re.findall(rf"^{records} records sent, ([\d.]+) records/sec", output, re.MULTILINE)[0])

    def read(self, topic: str, records: int) -> float:
        """Records a second that one consumer reads, without the time to join its group."""
        output = self._tool(
            "ConsumerPerformance", "--bootstrap-server", self.address, "--topic", topic, "--num-records", str(records)
        )
        titles, values = list(csv.reader(output.strip().splitlines()[-2:], skipinitialspace=True))
        return float(dict(zip(titles, values, strict=True))["fetch.nMsg.sec"])

    def _tool(self, name: str, *arguments: str) -> str:
        return _java(self.jars, f"org.apache.kafka.tools.{name}", *arguments)


@contextmanager
def broker(folder: Path) -> Iterator[Kafka | None]:
    """Run a broker while in the block, its data below `folder`; None where it cannot be had or does not start."""
    jars = maven.jars(folder / "kafka-jars", ARTIFACTS)
    if jars is None:
        yield None
        return
    data = folder / "kafka-data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    ports = _free_ports(2)
    properties = data / "server.properties"
    properties.write_text(PROPERTIES.format(broker=ports[0], controller=ports[1], data=data / "log"))
    _java(jars, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties))
    with (data / "broker.log").open("w") as output:
        process = subprocess.Popen(
            ["java", "-Xms1g", "-Xmx1g", "-cp", f"{jars}/*", "kafka.Kafka", str(properties)], stdout=output, stderr=output
        )
        try:
            yield Kafka(jars, f"127.0.0.1:{ports[0]}") if _is_up(process, ports[0]) else None
        finally:
            process.terminate()
            process.wait(START_SECONDS)
            shutil.rmtree(data, ignore_errors=True)


def _java(jars: Path, main_class: str, *arguments: str) -> str:
    command = ["java", "-cp", f"{jars}/*", main_class, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TOOL_SECONDS).stdout


def _free_ports(count: int) -> Sequence[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [found.getsockname()[1] for found in sockets]


def _is_up(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.2)
    return False
