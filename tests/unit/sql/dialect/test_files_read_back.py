"""Files of the ksql dialect in which a query reads the topic of another one, on a log that has none of their results."""

from __future__ import annotations

import itertools

import pytest

import streamkit as sk
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.preview import preview
from streamkit.errors import TopologyError
from tests.kit.engine_run import Run, execute, fresh_log

DECLARED = """\
SET 'streamkit.sql.dialect' = 'ksql';
CREATE STREAM S (K STRING KEY, V BIGINT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 2);
"""
STREAM = "CREATE STREAM R WITH ({}) AS SELECT K, V FROM S;\n"
TABLE = "CREATE TABLE R WITH ({}) AS SELECT K, MAX(V) AS V FROM S GROUP BY K;\n"
ENDS = {
    STREAM: "CREATE STREAM Q WITH (VALUE_FORMAT = 'NATIVE') AS SELECT K, V + 1 AS W, ROWTIME AS T FROM R;\n",
    TABLE: "CREATE TABLE Q WITH (VALUE_FORMAT = 'NATIVE') AS SELECT K, V + 1 AS W, ROWTIME AS T FROM R;\n",
}
WRITTEN = [
    "VALUE_FORMAT = 'JSON'",
    "VALUE_FORMAT = 'JSON_SR'",
    "VALUE_FORMAT = 'AVRO'",
    "VALUE_FORMAT = 'PROTOBUF'",
    "VALUE_FORMAT = 'DELIMITED'",
    "VALUE_FORMAT = 'KAFKA'",
    "VALUE_FORMAT = 'JSON', WRAP_SINGLE_VALUE = false",
]
FURTHER = ["", "TIMESTAMP = 'V'", "PARTITIONS = 3", "KAFKA_TOPIC = 'other', PARTITIONS = 3, RETENTION_MS = -1"]
RECORDS = [("a", 70), ("b", 50), ("a", 90), ("b", 60)]
START_MS = 1000


@pytest.fixture
def log():
    """A log with four records of the topic `s`."""
    with fresh_log() as opened:
        opened.create_topic("s", format="json", partitions=2)
        produce(opened, RECORDS)
        yield opened


def produce(log, records):
    with log.producer() as producer:
        for number, (key, value) in enumerate(records):
            producer.send("s", {"key": key, "value": {"V": value}}, timestamp_ms=START_MS + number)


def topology(tmp_path, text):
    path = tmp_path / "shop.sql"
    path.write_text(text)
    return sk.load_sql(str(path))


def results(log, topic="Q"):
    """The rows, by key and value, with the event times that SELECT made a column."""
    return sorted(tuple(row[name] for name in ("K", "W", "T")) for row in log.read(topic).to_pylist())


@pytest.mark.parametrize("made", [STREAM, TABLE], ids=["stream", "table"])
@pytest.mark.parametrize(("format", "further"), list(itertools.product(WRITTEN, FURTHER)))
def test_a_first_start_creates_the_topic_between(tmp_path, log, made, format, further):
    """A plan accepts the file, both queries have their rows, and the next start goes on with the same program, in either order of statements."""
    between, end = made.format(f"{format}, {further}" if further else format), ENDS[made]
    app = topology(tmp_path, DECLARED + end + between)
    program = compile_with_settings(app, log)
    assert preview(log.catalog, program).refusals == ()
    execute(log, program, Run())
    has_time = "TIMESTAMP" in further
    is_table = made is TABLE
    last = {"a": 90, "b": 60}
    offsets = {(key, value): number for number, (key, value) in enumerate(RECORDS)}
    kept = [(key, value) for key, value in RECORDS if not is_table or last[key] == value]
    assert results(log)[-1:] != []
    assert {(k, w - 1, t) for k, w, t in results(log)} >= {
        (key, value, value if has_time else START_MS + offsets[key, value]) for key, value in kept
    }
    topic = "other" if "KAFKA_TOPIC" in further else "R"
    assert log.topic(topic).partitions == (3 if "PARTITIONS" in further else 2)
    assert dict(log.topic(topic).config)["cleanup.policy"] == ("compact" if is_table else "delete")

    again = compile_with_settings(topology(tmp_path, DECLARED + between + end), log)
    assert again.fingerprint == program.fingerprint
    produce(log, [("c", 95)])
    execute(log, again, Run(tasks=2))
    assert [(k, w) for k, w, _ in results(log) if k == "c"] == [("c", 96)]


def test_three_stages(tmp_path, log):
    """A query may read the topic of one that reads the topic of another one; INSERT INTO a result goes the same way."""
    app = topology(
        tmp_path,
        DECLARED
        + """
CREATE STREAM Q WITH (VALUE_FORMAT = 'NATIVE') AS SELECT K, V AS W, ROWTIME AS T FROM C;
CREATE STREAM C WITH (VALUE_FORMAT = 'PROTOBUF', TIMESTAMP = 'V') AS SELECT K, V + 1000 AS V FROM B;
CREATE STREAM B WITH (VALUE_FORMAT = 'AVRO', TIMESTAMP = 'V', PARTITIONS = 5) AS SELECT K, V FROM A;
INSERT INTO A SELECT K, V * 10 AS V FROM S;
CREATE STREAM A WITH (VALUE_FORMAT = 'DELIMITED') AS SELECT K, V FROM S;
""",
    )
    execute(log, compile_with_settings(app, log), Run())
    values = [(key, value * factor + 1000) for key, value in RECORDS for factor in (1, 10)]
    assert results(log) == sorted((key, value, value) for key, value in values)
    assert {name: log.topic(name).partitions for name in "ABC"} == {"A": 5, "B": 5, "C": 5}


def test_a_topic_that_holds_something_else(tmp_path, log):
    """What is there and does not fit is an error at the statement, as that of any result, and a plan says so."""
    log.create_topic("R", "K string, V bigint", key="K")
    app = topology(tmp_path, DECLARED + STREAM.format("TIMESTAMP = 'V'") + ENDS[STREAM])
    with pytest.raises(TopologyError, match=r"(?s)the topic 'R' has columns: K string, V bigint; .*shop.sql:3:1"):
        compile_with_settings(app, log)
