"""What runs first in the Python processes that Spark starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from streamkit.spark.interpreter.sitecustomize import ARCHIVE, without_archive
from streamkit.spark.session import INTERPRETER


def started(*path):
    """The path and the output of a process that was started as Spark starts its own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    code = "import sys, pyspark; print(pyspark.__file__)"
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout


def test_the_compiled_pyspark_is_taken():
    """Spark puts the archive of its sources first; the process takes the installed pyspark that the archive belongs to."""
    import pyspark

    archive = Path(pyspark.__file__).parents[1] / ARCHIVE
    assert archive.is_file()
    assert ".zip" in started(archive)
    assert started(archive, INTERPRETER).strip() == pyspark.__file__


def test_another_archive_stays():
    """The archive of a pyspark that is not installed, as on a host with a Spark of its own, is left where it is."""
    path = ["", f"/opt/spark/{ARCHIVE}", "/usr/lib/python3"]

    assert without_archive(path) == path
    assert without_archive([*path, "/opt/spark"]) == ["", "/usr/lib/python3", "/opt/spark"]


def test_the_file_of_the_user_runs_too(tmp_path):
    """A sitecustomize of the user is run as it would be without ours."""
    (tmp_path / "sitecustomize.py").write_text("print('the user has been here')")

    assert started(INTERPRETER, tmp_path).startswith("the user has been here")
