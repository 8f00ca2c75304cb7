"""What a process that runs connectors loads: foreign libraries when they are used, and never Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streamkit.connectors.classes import class_of, known_classes
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.errors import ConfigError

FOREIGN = (
    "confluent_kafka",
    "kafka",
    "adbc_driver_postgresql",
    "psycopg",
    "deltalake",
    "pyspark",
    "pandas",
    "google.protobuf",
    "starlette",
    "uvicorn",
    "h2",
)
LOADS = "import json, sys; from streamkit.connectors.classes import class_of, known_classes; [class_of(name) for name in known_classes()]"


def test_foreign_libraries_are_loaded_when_they_are_used():
    """To know all connectors and their settings loads none of their libraries, and no Spark."""
    code = f"{LOADS}; print(json.dumps([name for name in {FOREIGN!r} if name in sys.modules]))"
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )
    assert json.loads(found.stdout) == []


def test_every_connector_is_found_by_its_name():
    """The names of the documentation are classes of the kind that they say."""
    names = known_classes()
    assert {
        "FileSink",
        "FileSource",
        "HttpSink",
        "HttpSource",
        "KafkaSink",
        "KafkaSource",
        "PostgresSink",
        "DeltaSink",
        "DeltaSource",
    } <= set(names)
    for name in names:
        assert issubclass(class_of(name), Source if name.endswith("Source") else Sink)


@pytest.mark.parametrize(
    ("name", "module", "extra", "settings"),
    [
        ("KafkaSource", "confluent_kafka", "kafka", {"bootstrap.servers": "x:1", "kafka.topic": "t"}),
        ("DeltaSource", "deltalake", "delta", {"path": "x", "topic": "t"}),
    ],
)
def test_a_missing_library_names_its_extra(monkeypatch, name, module, extra, settings):
    """Where a library is not installed, the error says how to get it."""
    monkeypatch.setitem(sys.modules, module, None)
    source = class_of(name)("in", settings)
    assert isinstance(source, Source)
    with pytest.raises(ConfigError, match=rf"pip install 'pyspark-streamkit\[{extra}\]'"):
        source.open(dict.fromkeys(source.splits()))
