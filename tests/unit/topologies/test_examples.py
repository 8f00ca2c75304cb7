"""What all examples of `topologies/` promise: they explain themselves, run as they say, and do on Spark what they do in a test."""

from __future__ import annotations

import importlib
import re
import shlex
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

import streamkit as sk
from streamkit.cli.main import program
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import TAKES_ALL

ROOT = Path(__file__).parents[3]
LOCALLY = sk.run
DEMO = {"flight_data", "flight_delays"}  # they need a package with data
EXAMPLES = sorted(file.stem for file in (ROOT / "topologies").glob("*.py") if file.stem not in DEMO)
LATE = {"sessions"}  # each of whose epochs an ordinary run repeats on Spark; of the others all rows in one
BUGS = [  # (example, what is written there, what a bug makes of it)
    ("change_data_capture", 'change["after"]', 'change["after"] or {"name": "nobody"}'),
    ("clicks_and_impressions", "10 minutes", "9 minutes"),
    ("deduplication", "DAY_MS = 86_400_000", "DAY_MS = 86_400_000_000"),
    ("enrichment", 'how="left"', 'how="inner"'),
    ("foreign_key_join", 'how="left"', 'how="inner"'),
    ("sessions", 'grace="5 minutes"', 'grace="2 hours"'),
    ("table_grouping", '- person["salary"]', ""),
    ("top_pages", "), 3)", "), 2)"),
    ("word_count", "F.lower", "F.upper"),
]


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
    commands = topics_created(module, root)

    with sk.open_log(root) as log:
        assert len(log.topics()) == len(commands) > 0
        sk.run(module.app, log=log, drain=True, engine="local").wait()
        read = re.findall(r"^    streamkit consume (\w+)", str(module.__doc__), re.MULTILINE)
        assert len(read) == 1
        assert set(read) < set(log.topics())


def test_one_log_is_enough_for_all(tmp_path):
    """Whoever tries one example after the other, on the log of the one before, meets no topic of another's."""
    root = str(tmp_path / "log")
    for name in EXAMPLES:
        module = importlib.import_module(f"topologies.{name}")
        topics_created(module, root)
        with sk.open_log(root) as log:
            before = set(log.topics())
            sk.run(module.app, log=log, drain=True, engine="local").wait()
            outputs = {output.topic for output in module.app.outputs}
            assert outputs and not outputs & before


def topics_created(example: ModuleType, root: str) -> list[str]:
    """The commands at the head of an example that create topics, which are there then."""
    commands = re.findall(r"^    streamkit (topics create .*)$", str(example.__doc__), re.MULTILINE)
    for command in commands:
        made = CliRunner().invoke(program, [*shlex.split(command), "--log", root], catch_exceptions=False)
        assert made.exit_code == 0, made.output
    return commands


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_listed_and_tested(name):
    """The page of examples lists it, and it has a test of its own."""
    assert f"| `topologies/{name}.py` |" in (ROOT / "docs" / "learn" / "index.md").read_text(encoding="utf-8")
    assert (ROOT / "tests" / "unit" / "topologies" / f"test_{name}.py").exists()


@pytest.mark.spark
@pytest.mark.parametrize("name", EXAMPLES)
def test_it_does_the_same_on_spark(name, spark):
    """Topics and stores are on Spark what they are in the driver: with deletions, late records and a processor."""
    with played(name) as driver:
        driver.run_on_spark(spark)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug[0])
def test_a_difference_is_told(bug, monkeypatch):
    """The comparison with Spark finds out if something else runs there: here a run without Spark stands for it."""
    name, written, instead = bug
    example = importlib.import_module(f"topologies.{name}")
    monkeypatch.setattr("streamkit.launch.run.run", partial(run_another, changed(example, written, instead).app))
    with played(name) as driver, pytest.raises(AssertionError):
        driver.run_on_spark()


@contextmanager
def played(name):
    """A driver to which was done what the example's own test does; its epochs are few, because Spark needs seconds for each run."""
    example, test = importlib.import_module(f"topologies.{name}"), importlib.import_module(f"tests.unit.topologies.test_{name}")
    batching = "each" if TAKES_ALL or name in LATE else "all"
    topics = getattr(test, "TOPICS", None)
    with TopologyTestDriver(example.app, topics=topics, tasks=2, partitions=2, batching=batching) as driver:
        test.play(driver)
        driver.drain()
        yield driver


def changed(example, written, instead):
    """The module of an example with another text in one place."""
    text = Path(example.__file__).read_text(encoding="utf-8")
    assert text.count(written) == 1
    module = ModuleType(example.__name__)
    exec(compile(text.replace(written, instead), example.__file__, "exec"), vars(module))
    return module


def run_another(topology, _topology, _session, log, tasks, trigger, *, drain):
    return LOCALLY(topology, log=log, tasks=tasks, trigger=trigger, drain=drain, engine="local")
