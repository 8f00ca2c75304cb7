"""RETENTION_MS and CLEANUP_POLICY in a file are those of the topic, whichever of its statements says them, in whatever order."""

from __future__ import annotations

import itertools

import pytest

import streamkit as sk
from streamkit.errors import SqlError, TopologyError
from streamkit.sql.script.topology import topology_of

FORMATS = {"spark": "", "ksql": "SET 'streamkit.sql.dialect' = 'ksql';\n"}
SOURCE = "CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 's'{format}, RETENTION_MS = 5);\n"
RESULT = "CREATE STREAM r WITH (KAFKA_TOPIC = 'rr'{said}) AS SELECT k, v FROM s;\n"
DECLARED = "CREATE STREAM d (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'rr'{format}{said});\n"
READER = "CREATE TABLE c AS SELECT k, count(*) AS n FROM d GROUP BY k;\n"


def topic(dialect, statements):
    """The topic rr as the first start of a file makes it."""
    format = ", VALUE_FORMAT = 'JSON'" if dialect == "ksql" else ""
    text = FORMATS[dialect] + SOURCE + "".join(statements) + READER
    with sk.open_log(":memory:") as log:
        made = topology_of(text.replace("{format}", format), "shop", "shop.sql")
        sk.run(made, log=log, engine="local", trigger="available_now").wait()
        return dict(log.topic("rr").config)


@pytest.mark.parametrize("dialect", FORMATS)
@pytest.mark.parametrize(
    ("of_result", "of_declaration", "expected"),
    [
        ("", "", {"retention.ms": "-1", "cleanup.policy": "delete"}),
        ("RETENTION_MS = 70000", "", {"retention.ms": "70000", "cleanup.policy": "delete"}),
        ("", "RETENTION_MS = 70000", {"retention.ms": "70000", "cleanup.policy": "delete"}),
        ("RETENTION_MS = 70000", "RETENTION_MS = '70000'", {"retention.ms": "70000", "cleanup.policy": "delete"}),
        ("RETENTION_MS = 70000", "CLEANUP_POLICY = 'compact'", {"retention.ms": "70000", "cleanup.policy": "compact"}),
        ("CLEANUP_POLICY = 'compact', PARTITIONS = 2", "", {"retention.ms": "-1", "cleanup.policy": "compact"}),
    ],
)
def test_a_result_that_is_read_back(dialect, of_result, of_declaration, expected):
    """A result and a declaration of its topic make one topic with all that either says, and else the settings of a result."""
    result = RESULT.replace("{said}", f", {of_result}" if of_result else "")
    declared = DECLARED.replace("{said}", f", {of_declaration}" if of_declaration else "")
    for statements in itertools.permutations((result, declared)):
        assert expected.items() <= topic(dialect, statements).items()


@pytest.mark.parametrize("dialect", FORMATS)
@pytest.mark.parametrize("is_first", [True, False])
def test_two_values_of_one_setting(dialect, is_first):
    """Statements that do not agree are an error, which has both values and both places."""
    statements = [RESULT.replace("{said}", ", RETENTION_MS = 5000"), DECLARED.replace("{said}", ", RETENTION_MS = -1")]
    values = ("5000", "-1") if is_first else ("-1", "5000")
    line = 3 if dialect == "ksql" else 2
    with pytest.raises(
        SqlError,
        match=rf"RETENTION_MS of the topic rr is {values[1]} here, and {values[0]} at shop\.sql:{line}:\d+; expected the same",
    ):
        topic(dialect, statements if is_first else statements[::-1])


def test_other_columns_are_told_in_words():
    """A declaration that does not fit the result is an error of the topic, and not one of settings."""
    declared = "CREATE STREAM d (k STRING KEY, w INT) WITH (KAFKA_TOPIC = 'rr', RETENTION_MS = 5);\n"
    with pytest.raises(TopologyError, match="'rr' is not what the topology declares of it: it has no column 'v'") as caught:
        topic("spark", [RESULT.replace("{said}", ", RETENTION_MS = 5"), declared])
    assert "adds the topic" not in str(caught.value) and "Topic(" not in str(caught.value)
