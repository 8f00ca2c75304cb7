"""The wheel, installed where the sources are not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from streamkit.connectors.classes import class_of, known_classes
from tests.kit.sampling import TAKES_ALL

ROOT = Path(__file__).parents[3]
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", "streamkit", "pyspark_streamkit", "connectors", "state")
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"  # what `build` asks in a process of its own
IMPORT_ALL = """
import importlib, pkgutil, streamkit
names = [module.name for module in pkgutil.walk_packages(streamkit.__path__, "streamkit.")]
for name in names:
    importlib.import_module(name)
print(streamkit.__file__, *names, sep="\\n")
"""

FIND_FORMAT = """
import pickle, pkgutil, sys
(found,) = [module.name for module in pkgutil.iter_modules() if module.name.startswith("pyspark_")]
source = pickle.loads(pickle.dumps(__import__(found).DefaultSource))
print(source.name(), "pyarrow" in sys.modules)
"""

USE_ARCHIVE = """
import streamkit.state, streamkit.schema
from streamkit.connectors.classes import class_of, known_classes

print(streamkit.schema.__file__)
print(streamkit.schema.Schema.parse("a int"))
print([(name, class_of(name).__module__) for name in known_classes()])
"""


def run(*command, folder, path=None):
    """What a program prints, started away from the checkout."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "STREAMKIT_LOG", "STREAMKIT_CONF")
    }
    if path:
        environment["PYTHONPATH"] = str(path)
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def modules_in_checkout():
    """Every module of the checkout, by the name it is imported under."""
    folders = {"streamkit": ROOT / "streamkit", "streamkit.connectors": ROOT / "connectors", "streamkit.state": ROOT / "state"}
    for prefix, folder in folders.items():
        for file in folder.rglob("*.py"):
            parts = file.relative_to(folder).with_suffix("").parts
            if prefix != "streamkit" or parts[0] not in ("connectors", "state"):
                yield ".".join((prefix, *parts)).removesuffix(".__init__")


def build_wheel(folder):
    """Build the wheel from a copy of the checkout, so that nothing is left behind in it."""
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / "source" / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (folder / "source").mkdir(exist_ok=True)
            shutil.copy(source, folder / "source" / name)
    if TAKES_ALL:
        command = ("-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", folder / "source")
        run(sys.executable, *command, folder=folder)
    else:
        (folder / "dist").mkdir()
        run(sys.executable, "-c", BUILD, folder / "dist", folder=folder / "source")
    return next((folder / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment with the wheel, and with the dependencies of this one, but not with its StreamKit."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder)
    python = folder / "bin" / "python"
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    if TAKES_ALL:
        run(
            sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel, folder=folder
        )
    else:
        zipfile.ZipFile(wheel).extractall(packages)  # as pip does with what is of Python alone
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its own .pth files do not count there
    return folder


def test_wheel_holds_every_module(environment, tmp_path):
    """Every module of the checkout is in the wheel and can be imported from it, with nothing else beside."""
    file, *names = run(environment / "bin" / "python", "-c", IMPORT_ALL, folder=tmp_path).split()

    assert Path(file).is_relative_to(environment)
    assert sorted(["streamkit", *names]) == sorted(modules_in_checkout())


def test_wheel_is_typed_and_licensed(wheel):
    """Type checkers find the marker, and the licence travels along."""
    names = zipfile.ZipFile(wheel).namelist()

    assert "streamkit/py.typed" in names
    assert any(name.endswith("/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"streamkit", "pyspark_streamkit"}


def test_spark_finds_the_format(environment, tmp_path):
    """Spark looks for top-level modules of this name, and pickles their source: the wheel has one, light enough for any session."""
    assert run(environment / "bin" / "python", "-c", FIND_FORMAT, folder=tmp_path).split() == ["streamkit", "False"]


def test_wheel_as_zip(wheel, tmp_path):
    """
    Under another name the wheel is the archive that spark-submit takes with --py-files.

    A configuration names connectors by their class from there too: all of them are found and loaded.
    """
    archive = shutil.copy(wheel, tmp_path / "streamkit.zip")
    file, row_type, connectors = run(sys.executable, "-c", USE_ARCHIVE, folder=tmp_path, path=archive).splitlines()

    assert (file, row_type) == (f"{archive}/streamkit/schema.py", "a int")
    assert len(known_classes()) > 5
    assert connectors == str([(name, class_of(name).__module__) for name in known_classes()])
