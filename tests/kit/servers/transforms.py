"""Connect's own transforms, run by a small program of Java: what chains make of records. Needs Maven and a JDK."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.kit.servers.kafka import VERSION, jars_of, java

DEBEZIUM = "3.6.1.Final"
JARS = Path(tempfile.gettempdir()) / f"streamkit-connect-transforms-{VERSION}"
PROGRAM = Path(__file__).with_name("Transforms.java")
SECONDS = 300
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>transforms</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-transforms</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-postgres</artifactId><version>{DEBEZIUM}</version></dependency>
</dependencies></project>
"""


def answers_of_connect(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]] | None:
    """What Connect makes of the cases; None where Java, Maven or the artifacts are missing."""
    jars = jars_of(JARS, POM)
    if jars is None:
        return None
    asked, answered = folder / "cases.json", folder / "answers.json"
    asked.write_text(json.dumps(cases), encoding="utf-8")
    command = java(jars, "700m")
    command[1:1] = ["-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"]
    subprocess.run([*command, str(PROGRAM), str(asked), str(answered)], check=True, capture_output=True, timeout=SECONDS)
    found: list[dict[str, Any]] = json.loads(answered.read_text(encoding="utf-8"))
    return found
