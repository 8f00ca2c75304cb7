"""Random lives of topics behind a registry: whoever makes one and writes to it, a key has one spelling, and everyone reads it."""

from __future__ import annotations

import datetime as dt
import itertools
from random import Random

import pytest

import streamkit as sk
from streamkit.formats.codec import schema_made_of
from streamkit.schema import Schema
from tests.kit.sampling import seeds

pytestmark = pytest.mark.foreign("registry")
FORMATS = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON_SR": "json"}
KEYS = {  # a key by its columns: its literals in both dialects, its value, and what a producer sends, if that is the same
    "id BIGINT": ("7", "7", 7, True),
    "id INT": ("7", "7", 7, True),
    "name STRING": ("'b'", "'b'", "b", True),
    "day DATE": ("DATE '2020-01-02'", "'2020-01-02'", dt.date(2020, 1, 2), False),
    "part STRUCT<A: INT, B: STRING>": ("named_struct('A', 1, 'B', 'x')", "STRUCT(A := 1, B := 'x')", {"A": 1, "B": "x"}, True),
}


class Life:
    """A topic, and those who write one key there, in any order."""

    def __init__(self, chance, registry, client, topic, format):
        self.chance, self.registry, self.client, self.topic, self.format = chance, registry, client, topic, format
        self.log, self.numbers = sk.open_log(":memory:"), itertools.count()
        self.dialects = ["spark"] if format == "JSON_SR" else ["spark", "ksql"]  # which has no keys in JSON under a schema
        self.make()

    def make(self):
        """The topic, by SQL of either dialect or by a program; its key may be another one each time."""
        chosen = self.chance.choice(list(KEYS))
        self.name, self.type = chosen.split(" ", 1)
        *literals, self.value, self.is_sent = KEYS[chosen]
        self.literals = dict(zip(("spark", "ksql"), literals, strict=True))
        self.rows = f"rows-{next(self.numbers)}"
        self.log.create_topic(self.rows, f"{self.name} {self.type}, v int", key=self.name, partitions=4)
        with self.log.producer() as producer:
            producer.send(self.rows, {self.name: self.value, "v": 1})
        self.written, self.maker = 0, self.chance.choice([*self.dialects, "program"])
        self.writers = ["ksql"] if self.has_no_nulls else self.dialects
        if self.maker == "program":
            self.program()
        else:
            self.declare(self.maker)

    @property
    def has_no_nulls(self):
        """Whether the topic's values have none, as ksqlDB's have in Protobuf, which each program has to say, and the spark dialect cannot."""
        return self.maker == "ksql" and self.format == "PROTOBUF"

    def session(self, dialect):
        settings = {"streamkit.sql.dialect": dialect, "schema.registry.url": self.registry.url}
        return sk.SqlSession(self.log, engine="local", settings=settings)

    def declare(self, dialect):
        """A stream of the topic, in place of the one of before."""
        keys = "JSON" if self.format == "JSON_SR" else self.format
        given = f"WITH (KAFKA_TOPIC = '{self.topic}', VALUE_FORMAT = '{self.format}', KEY_FORMAT = '{keys}', PARTITIONS = 4)"
        with self.session(dialect) as sql:
            column = f"`{self.name}` {self.type.replace(':', '')} KEY"
            sql.execute(f"DROP STREAM IF EXISTS {dialect}; CREATE STREAM {dialect} ({column}, `v` INT) {given}")

    def values(self):
        dialect = self.chance.choice(self.writers)
        self.declare(dialect)
        with self.session(dialect) as sql:
            sql.execute(f"INSERT INTO {dialect} VALUES ({self.literals[dialect]}, 2)")
        self.written += 1

    def select(self):
        dialect = self.chance.choice(self.writers)
        self.declare(dialect)
        with self.session(dialect) as sql:
            made = f"CREATE STREAM rows_of_{dialect} WITH (KAFKA_TOPIC = '{self.rows}')"
            sql.execute(f"DROP STREAM IF EXISTS rows_of_{dialect}; {made}; INSERT INTO {dialect} SELECT * FROM rows_of_{dialect}")
            assert sql.catch_up(60)
            sql.execute("TERMINATE ALL")
        self.written += 1

    def program(self):
        app = sk.Topology(f"program-{next(self.numbers)}")
        rows = app.stream(self.rows, schema=f"{self.name} {self.type}, v int", key=self.name)
        format, settings = FORMATS[self.format], {"schema.registry.url": self.registry.url}
        if self.has_no_nulls:
            settings["nulls"] = "defaults"
        rows.to(self.topic, value_format=format, key_format=format, format_settings=settings)
        sk.run(app, log=self.log, engine="local", trigger="available_now").wait()
        self.written += 1

    def produce(self):
        if not self.is_sent:
            return
        key = {self.name: self.value}
        with self.log.producer() as producer:
            producer.send(
                self.topic, {"key": dict(reversed(key.items())), "value": {"v": 3, **(key if self.maker == "program" else {})}}
            )
        self.written += 1

    def others(self):
        """A newer schema of keys in the registry, with a field more."""
        self.client.set_compatibility(f"{self.topic}-key", "NONE")
        text = schema_made_of(FORMATS[self.format], Schema.parse(f"{self.name} {self.type}, more string"))
        self.client.id_of(f"{self.topic}-key", "JSON" if self.format == "JSON_SR" else self.format, text, register=True)

    def again(self):
        for part in ("key", "value"):
            self.client.set_compatibility(f"{self.topic}-{part}", "NONE")
        for dialect in self.dialects:
            with self.session(dialect) as sql:
                sql.execute(f"DROP STREAM IF EXISTS {dialect}")
        self.log.delete_topic(self.topic)
        self.make()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", seeds(4))
def test_a_key_has_one_spelling(seed, registry, client, topic, format):
    """Whatever is registered, and made again, in between."""
    life = Life(Random(f"{seed} {format}"), registry, client, topic, format)
    for _ in range(8):
        life.chance.choice([life.values, life.select, life.program, life.produce, life.others, life.again])()
    life.values()
    records = life.log.read(topic).to_pylist()
    assert len(records) == life.written
    assert len({(bytes(record["key"]), record["_partition"]) for record in records}) == 1, life.maker
    for dialect in life.dialects:
        life.declare(dialect)
        with life.session(dialect) as sql:
            assert sql.query(f"SELECT `{life.name}` FROM {dialect}").column(0).to_pylist() == [life.value] * life.written
