"""Routers before sinks that name what they write by the topic: folders of files, and Delta tables."""

from __future__ import annotations

import json

import deltalake
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.delta import DeltaSink
from streamkit.connectors.files import FileSink
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError
from streamkit.failpoints import SimulatedCrash
from tests.unit.connectors.contract import dies

SOURCES = ("orders-north", "orders-south", "people")


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as log:
        for name in SOURCES:
            log.create_topic(name, "n bigint NOT NULL", key="n", partitions=1)
        yield log


def routed(replacement):
    return {
        "transforms": "r",
        "transforms.r.type": "RegexRouter",
        "transforms.r.regex": "(orders)-.*",
        "transforms.r.replacement": replacement,
    }


def files(folder, config):
    return FileSink("out", config | {"path": str(folder), "topics": ",".join(SOURCES)})


def files_of(folder):
    paths = [path for path in folder.rglob("*.jsonl") if "_streamkit" not in path.parts]
    return sorted((path.parent.name, json.loads(line)["n"]) for path in paths for line in path.read_text().splitlines())


def tables(folder, config):
    return DeltaSink("out", config | {"path": f"{folder}/${{topic}}", "topics": ",".join(SOURCES)})


def tables_of(folder):
    return sorted(
        (path.name, n) for path in folder.iterdir() for n in deltalake.DeltaTable(path).to_pyarrow_table()["n"].to_pylist()
    )


@pytest.mark.parametrize(("sink", "found"), [(files, files_of), (tables, tables_of)], ids=["files", "delta"])
@pytest.mark.parametrize("point", ["connect.in_target", "connect.target_committed"])
def test_a_routers_name_is_the_targets(log, tmp_path, sink, found, point):
    """Topics that a router gives one name come into one folder or table, each row once, also where the task dies between."""
    expected = []
    for turn in range(2):
        for number, name in enumerate(SOURCES):
            with log.producer() as producer:
                producer.send(name, {"n": 10 * turn + number})
            expected.append((name.split("-")[0], 10 * turn + number))
        with dies(point, at=2), pytest.raises(SimulatedCrash):
            SinkTask(sink(tmp_path / "out", routed("$1")), 0, 1, log, is_once=True).run(Orders())
        run([sink(tmp_path / "out", routed("$1"))], log, once=True)
    assert found(tmp_path / "out") == sorted(expected)


def test_a_name_that_is_no_folder(log, tmp_path):
    """A router cannot send files out of the sink's folder."""
    for name in ("../orders", "/orders", "_streamkit"):
        with pytest.raises(ConfigError, match=f"found the topic name '{name}' behind the transforms; expected that of a folder"):
            run([files(tmp_path / "out", routed(name))], log, once=True)
