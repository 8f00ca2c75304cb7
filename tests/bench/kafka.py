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

VERSION = "4.3.0"
START_SECONDS = 60
TOOL_SECONDS = 600
COMPILE_SECONDS = 120
PRODUCER = ("acks=all", "batch.size=262144", "linger.ms=5", "buffer.memory=134217728")  # the fastest of those tried
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>{VERSION}</version></dependency>
</dependencies></project>
"""
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

    def compiled(self, source: Path, folder: Path) -> None:
        """Compile a program that stands beside the benchmark, its classes into a new folder."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        line = ["javac", "-d", str(folder), "-cp", f"{self.jars}/*", str(source)]
        done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=COMPILE_SECONDS)
        assert done.returncode == 0, f"{source.name} does not compile: {done.stderr[-2000:]}"

    def _tool(self, name: str, *arguments: str) -> str:
        return _java(self.jars, f"org.apache.kafka.tools.{name}", *arguments)


@contextmanager
def broker(folder: Path) -> Iterator[Kafka | None]:
    """Run a broker while in the block, its data below `folder`; None where it cannot be had or does not start."""
    jars = _jars(folder / "kafka-jars")
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


def _jars(folder: Path) -> Path | None:
    complete = folder / "complete"
    if complete.exists() and complete.read_text() == POM:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(POM)
    command = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=TOOL_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    complete.write_text(POM)
    return folder


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
