"""What all examples of `topologies/` promise: they explain themselves, run as they say, and do on Spark what they do in a test."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import streamkit as sk
from streamkit.cli.main import program
from streamkit.testing import TopologyTestDriver
from tests.topologies import test_change_data_capture, test_clicks_and_impressions
from topologies import change_data_capture, clicks_and_impressions

ROOT = Path(__file__).parents[2]
DEMO = {"flight_data", "flight_delays"}  # they need a package with data
EXAMPLES = sorted(file.stem for file in (ROOT / "topologies").glob("*.py") if file.stem not in DEMO)
ON_SPARK = {
    "change_data_capture": (change_data_capture.app, test_change_data_capture.play),
    "clicks_and_impressions": (clicks_and_impressions.app, test_clicks_and_impressions.play),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_explains_itself_without_a_log(name):
    """Its sources say what they hold, so it compiles before there is a topic."""
    app = importlib.import_module(f"topologies.{name}").app

    assert app.name == name.replace("_", "-")
    assert f"topology {app.name}" in app.explain()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_commands_at_its_head_are_enough(name, tmp_path):
    """The topics that its first lines create are those that it reads: it runs on them."""
    root = str(tmp_path / "log")
    module = importlib.import_module(f"topologies.{name}")
    head = str(module.__doc__)
    commands = re.findall(r"^    streamkit (topics create .*)$", head, re.MULTILINE)
    for command in commands:
        CliRunner().invoke(program, [*shlex.split(command), "--log", root], catch_exceptions=False)

    with sk.open_log(root) as log:
        assert len(log.topics()) == len(commands) > 0
        sk.run(module.app, log=log, drain=True, engine="local").wait()
        read = re.findall(r"^    streamkit consume (\w+)", head, re.MULTILINE)
        assert len(read) == 1
        assert set(read) < set(log.topics())


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_listed_and_tested(name):
    """README.md lists it, and it has a test of its own."""
    assert f"| `topologies/{name}.py` |" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / "tests" / "topologies" / f"test_{name}.py").exists()


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_it_does_the_same_on_spark(name, spark):
    """Topics and stores are on Spark what they are in the driver: with deletions, late records and a processor."""
    app, play = ON_SPARK[name]
    with TopologyTestDriver(app, tasks=2, partitions=2) as driver:
        play(driver)
        driver.drain()
        driver.run_on_spark(spark)
