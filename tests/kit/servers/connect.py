"""A worker of Kafka Connect with Debezium's connector for PostgreSQL and Apicurio's Avro converter, from Maven artifacts."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kit.servers.apicurio import VERSION as APICURIO
from tests.kit.servers.kafka import START_SECONDS, VERSION, free_ports, jars_of, java, wait_for_port

DEBEZIUM = "3.6.1.Final"
JARS = Path(tempfile.gettempdir()) / f"streamkit-connect-{VERSION}-debezium-{DEBEZIUM}-apicurio-{APICURIO}"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>connect</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-postgres</artifactId><version>{DEBEZIUM}</version></dependency>
<dependency><groupId>io.apicurio</groupId><artifactId>apicurio-registry-utils-converter</artifactId><version>{APICURIO}</version></dependency>
</dependencies></project>
"""
PROPERTIES = """bootstrap.servers={broker}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
listeners=http://127.0.0.1:{port}
plugin.discovery=hybrid_warn
"""


class Connect:
    """A standalone worker with connectors, which begin at once."""

    def __init__(self, jars: Path, broker: str, connectors: Sequence[Mapping[str, Any]]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="skconnect-"))
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        worker = self.folder / "worker.properties"
        worker.write_text(PROPERTIES.format(broker=broker, folder=self.folder, port=port), encoding="utf-8")
        described = [self._described(connector) for connector in connectors]
        with (self.folder / "worker.txt").open("ab") as output:
            self.process = subprocess.Popen(
                [*java(jars, "400m"), "org.apache.kafka.connect.cli.ConnectStandalone", str(worker), *described],
                stdout=output, stderr=output,
            )  # fmt: skip
        wait_for_port(port, self.process, self.folder / "worker.txt")
        for connector in connectors:
            self._wait(str(connector["name"]))

    def _described(self, connector: Mapping[str, Any]) -> str:
        path = self.folder / f"{connector['name']}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in connector.items()), encoding="utf-8")
        return str(path)

    def _wait(self, name: str) -> None:
        """Wait until the connector's task runs."""
        deadline = time.monotonic() + START_SECONDS
        state = ""
        while state != "RUNNING":
            assert time.monotonic() < deadline and state != "FAILED", (self.folder / "worker.txt").read_text()[-4000:]
            time.sleep(0.2)
            try:
                with urllib.request.urlopen(f"{self.url}/connectors/{name}/tasks/0/status", timeout=5) as answer:
                    state = json.load(answer)["state"]
            except OSError:
                continue

    def stop(self) -> None:
        """End the worker and remove its folder."""
        self.process.kill()
        self.process.wait(START_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)


def connect_jars() -> Path | None:
    """The jars of the worker; None where Java, Maven or the artifacts are missing."""
    return jars_of(JARS, POM)
