"""Settings of ksqlDB and Kafka with which nothing is done."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import ConfigError, SqlError


@pytest.mark.parametrize(
    "name",
    [
        "ksql.query.pull.table.scan.enabled",
        "ksql.streams.commit.interval.ms",
        "cache.max.bytes.buffering",
        "processing.guarantee",
        "consumer.max.poll.records",
        "ksql.streams.producer.linger.ms",
    ],
)
def test_scripts_may_set_what_means_nothing(name: str) -> None:
    """SET says that nothing is done, SHOW PROPERTIES has the value, and a session may begin with it."""
    with sk.SqlSession(sk.open_log(":memory:"), settings={name: "0"}) as sql:
        (found,) = sql.execute(f"SET '{name}' = '1';")
        assert found.message == f"{name} is '1'. StreamKit does nothing with this setting of ksqlDB or Kafka."
        (shown,) = sql.execute("SHOW PROPERTIES;")
        assert shown.table is not None
        assert {"property": name, "value": "1"} in [
            {"property": one["property"], "value": one["value"]} for one in shown.table.to_pylist()
        ]


def test_queries_keep_such_settings() -> None:
    """A query that was made under one runs."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        sql.execute(
            "SET 'ksql.streams.num.stream.threads' = '4'; CREATE STREAM S (K INT KEY, V INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');"
            "CREATE STREAM O AS SELECT * FROM S;"
        )
        assert sql.topology("CSAS_O_1").name == "sql-CSAS_O_1"


def test_where_queries_begin_has_two_names() -> None:
    """Kafka Streams' setting with the beginning that ksqlDB gives it is the same one."""
    with sk.SqlSession(sk.open_log(":memory:")) as sql:
        sql.execute("SET 'ksql.streams.auto.offset.reset' = 'earliest';")
        assert sql.settings.offset_reset == "earliest"


@pytest.mark.parametrize(
    "name",
    [
        "ksql.nested.eror.set.null",
        "ksql.functions.collect_list.limits",
        "ksql.schema.registry.url",
        "streamkit.sql.dialct",
        "commit.interval",
    ],
)
def test_a_name_that_nobody_knows(name: str) -> None:
    """One that is nearly a known one, or none of ksqlDB or Kafka, is an error."""
    with sk.SqlSession(sk.open_log(":memory:")) as sql, pytest.raises(SqlError, match="there is no setting"):
        sql.execute(f"SET '{name}' = '1';")
    with pytest.raises(ConfigError, match="there is no setting"):
        sk.SqlSession(sk.open_log(":memory:"), settings={name: "1"})
