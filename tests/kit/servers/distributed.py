"""A distributed worker of Kafka Connect whose sources write exactly once, with MirrorMaker and Debezium, from Maven artifacts."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kit.servers.connect import DEBEZIUM
from tests.kit.servers.kafka import START_SECONDS, VERSION, free_ports, jars_of, wait_for_port

JARS = Path(tempfile.gettempdir()) / f"streamkit-connect-{VERSION}-mirror-debezium-{DEBEZIUM}"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>distributed</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-mirror</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-postgres</artifactId><version>{DEBEZIUM}</version></dependency>
</dependencies></project>
"""
PROPERTIES = """bootstrap.servers={broker}
group.id=connect
exactly.once.source.support=enabled
config.storage.topic=connect-configs
config.storage.replication.factor=1
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
offset.storage.partitions=1
status.storage.topic=connect-status
status.storage.replication.factor=1
status.storage.partitions=1
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
scheduled.rebalance.max.delay.ms=0
listeners=http://127.0.0.1:{port}
plugin.discovery=hybrid_warn
"""
MEMORY = "1g"


class Cluster:
    """A cluster of one worker, whose JVM compiles as it does by default; connectors come and go."""

    def __init__(self, jars: Path, broker: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="skcluster-"))
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        worker = self.folder / "worker.properties"
        worker.write_text(PROPERTIES.format(broker=broker, port=port), encoding="utf-8")
        with (self.folder / "worker.txt").open("ab") as output:
            self.process = subprocess.Popen(
                ["java", f"-Xmx{MEMORY}", "-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectDistributed", str(worker)],
                stdout=output, stderr=output,
            )  # fmt: skip
        wait_for_port(port, self.process, self.folder / "worker.txt")

    def start(self, name: str, config: Mapping[str, str]) -> None:
        """Make a connector; its task begins soon."""
        self._ask("PUT", f"/connectors/{name}/config", config)

    def halt(self, name: str) -> None:
        """End a connector's task, and keep its positions."""
        self._ask("PUT", f"/connectors/{name}/stop")
        self._wait(name, lambda status: status["connector"]["state"] == "STOPPED" and not status["tasks"])

    def resume(self, name: str) -> None:
        """Let a connector that was halted go on."""
        self._ask("PUT", f"/connectors/{name}/resume")

    def delete(self, name: str) -> None:
        """Remove a connector."""
        self._ask("DELETE", f"/connectors/{name}")

    def check(self, name: str) -> None:
        """AssertionError with what it says of itself if a connector has failed."""
        status = self._status(name)
        states = [one["state"] for one in (status.get("connector", {}), *status.get("tasks", ())) if one]
        assert "FAILED" not in states, status

    def stop(self) -> None:
        """End the worker and remove its folder."""
        self.process.kill()
        self.process.wait(START_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self, name: str, is_so: Any) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            status = self._status(name)
            if status and is_so(status):
                return
            assert time.monotonic() < deadline, status
            time.sleep(0.1)

    def _status(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self._ask("GET", f"/connectors/{name}/status")
        except urllib.error.HTTPError:
            return {}  # not known yet
        return found

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer; while the worker joins its group it answers 409, 500 or 503, and is asked again."""
        deadline = time.monotonic() + START_SECONDS
        data = None if body is None else json.dumps(body).encode()
        while True:
            request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
            try:
                with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:
                    said = answer.read()
                    return json.loads(said) if said else None
            except urllib.error.HTTPError as error:
                if error.code not in (409, 500, 503) or time.monotonic() > deadline:
                    error.add_note(error.read().decode(errors="replace")[:2_000])
                    raise
                time.sleep(0.2)


def start_cluster(broker: str) -> Cluster | None:
    """A cluster; None where Java, Maven or the artifacts are missing."""
    jars = jars_of(JARS, POM)
    return None if jars is None else Cluster(jars, broker)
