"""Jars from Maven, and Java programs that are compiled against them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

DOWNLOAD_SECONDS = 600
COMPILE_SECONDS = 120
PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>bench</artifactId><version>1</version>
<dependencies>
{dependencies}
</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def jars(folder: Path, artifacts: Sequence[str]) -> Path | None:
    """The folder with these artifacts (`group:name:version`) and all that they need; None where they cannot be had."""
    folder = folder.resolve()  # Maven would look for it from the project's folder on
    project = PROJECT.format(dependencies="\n".join(DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts))
    complete = folder / "complete"
    if complete.exists() and complete.read_text() == project:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(project)
    command = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=DOWNLOAD_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    complete.write_text(project)
    return folder


def compile_java(sources: Sequence[Path], libraries: Path, folder: Path) -> None:
    """Compile programs that stand beside the benchmark, their classes into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    line = ["javac", "-d", str(folder), "-cp", f"{libraries}/*", *map(str, sources)]
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=COMPILE_SECONDS)
    names = ", ".join(source.name for source in sources)
    assert done.returncode == 0, f"{names} does not compile: {done.stderr[-2000:]}"
