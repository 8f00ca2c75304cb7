"""Apicurio's schema registry on the loopback, started once a run from a Maven artifact; it keeps its schemas in memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from pathlib import Path

from tests.kit.servers.kafka import MAVEN_SECONDS, START_SECONDS, free_ports, wait_for_port

VERSION = "2.6.13.Final"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
FOLDER = Path(tempfile.gettempdir()) / f"streamkit-apicurio-{VERSION}"


class Registry:
    """A registry: where clients find it, and how it ends."""

    def __init__(self, folder: Path) -> None:
        self._output = Path(tempfile.mkdtemp(prefix="skapicurio-"))
        (port,) = free_ports(1)
        self.address = f"http://127.0.0.1:{port}"
        self.url = f"{self.address}/apis/ccompat/v7"
        jar = next(folder.glob("*-runner.jar"))
        with (self._output / "server.txt").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    "java", "-Xmx200m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dquarkus.http.port={port}",
                    "-Dquarkus.http.host=127.0.0.1", f"-Djava.io.tmpdir={self._output}", "-cp", f"{jar}:{folder}/lib/*",
                    "io.quarkus.runner.GeneratedMain",
                ],
                stdout=output, stderr=output, cwd=folder,
            )  # fmt: skip
        self._wait(port)

    def _wait(self, port: int) -> None:
        """Wait until it answers: the first request takes long on a busy machine, and a second one beside it would make it longer."""
        said = self._output / "server.txt"
        try:
            wait_for_port(port, self.process, said)
            urllib.request.urlopen(f"{self.url}/subjects", timeout=START_SECONDS).close()
        except (AssertionError, OSError):
            self.stop()  # nobody else would
            raise

    def stop(self) -> None:
        """End the server and remove its folder."""
        self.process.kill()
        self.process.wait(START_SECONDS)
        shutil.rmtree(self._output, ignore_errors=True)


def start_registry() -> Registry | None:
    """A registry; None where Java, Maven or the artifact is missing."""
    folder = _unpacked()
    return None if folder is None else Registry(folder)


def _unpacked() -> Path | None:
    """The folder of the server, by Maven, kept for the next run."""
    if (FOLDER / "complete").exists():
        return FOLDER
    if shutil.which("mvn") is None or shutil.which("java") is None:
        return None
    part = Path(tempfile.mkdtemp(prefix=f"{FOLDER.name}-", dir=FOLDER.parent))
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={part}"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=MAVEN_SECONDS, cwd=part)
        archive = next(part.glob("*.tar.gz"))
        with tarfile.open(archive) as tar:
            tar.extractall(part, filter="data")
    except (OSError, subprocess.SubprocessError, StopIteration, tarfile.TarError):
        shutil.rmtree(part, ignore_errors=True)
        return None
    archive.unlink()
    (part / "complete").touch()
    with contextlib.suppress(OSError):  # another run was quicker
        os.rename(part, FOLDER)
    return FOLDER if (FOLDER / "complete").exists() else part
