"""Values in Confluent's wire format against Apicurio's registry: what confluent-kafka writes is read, and it reads what is written here."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import threading
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.errors import ConfigError, EvaluationError, RegistryUnavailableError, SchemaError
from streamkit.formats import registry as registry_client
from streamkit.formats.codec import Codec, declare_format
from streamkit.formats.protobuf_schema import compiled
from streamkit.schema import Schema
from streamkit.testing import TopologyTestDriver
from tests.unit.connectors.contract import SourceContract
from tests.unit.connectors.raw import RECORDS, WRITTEN, RawSink, RawSource

pytestmark = pytest.mark.foreign("registry")
NUMBERS = itertools.count()
COLUMNS = Schema.parse("id bigint, user string, tags array<string>")
ROWS: list[dict[str, Any]] = [{"id": 1, "user": "ä", "tags": ["x"]}, {"id": None, "user": None, "tags": []}]
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": ["null", "long"], "default": None},
        {"name": "user", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
JSON = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": ["null", "integer"]},
        "user": {"type": ["null", "string"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
PROTO = """syntax = "proto3";
package shop;
message First { int32 n = 1; message Inner { int32 m = 1; } }
message Order { optional int64 id = 1; optional string user = 2; repeated string tags = 3; }
"""
SCHEMAS = {"avro": json.dumps(AVRO), "json": json.dumps(JSON), "protobuf": PROTO}


@pytest.fixture
def topic():
    """A topic whose subject no other test uses."""
    return f"topic-{next(NUMBERS)}"


@pytest.fixture
def client(registry):
    """Confluent's own client."""
    pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"url": registry.url})


def settings_of(registry, **more):
    return {"schema.registry.url": registry.url, "schema.registry.retries": 0, **more}


def serializers(name, client):
    """Confluent's serializer of dicts and its deserializer."""
    if name == "avro":
        from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

        return AvroSerializer(client, SCHEMAS[name]), AvroDeserializer(client)
    if name == "json":
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

        return JSONSerializer(SCHEMAS[name], client), JSONDeserializer(SCHEMAS[name], schema_registry_client=client)
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    file = compiled(PROTO)
    made = file.class_of(file.named("Order"))
    write = ProtobufSerializer(made, client, {"use.deprecated.format": False})
    read = ProtobufDeserializer(made, {"use.deprecated.format": False}, client)

    def from_message(data, context):
        found = read(data, context)
        return {
            "id": found.id if found.HasField("id") else None,
            "user": found.user if found.HasField("user") else None,
            "tags": list(found.tags),
        }

    def to_message(row, context):
        return write(made(**{name: value for name, value in row.items() if value is not None}), context)

    return to_message, from_message


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_confluents_values_are_read_and_ours_are_read_by_it(registry, client, topic, name):
    """Both sides read what the other has written, under schemas that either has registered; for Protobuf the second message of a file."""
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext(topic, MessageField.VALUE)
    write, read = serializers(name, client)
    more = (
        {"message": "Order", "use.latest.version": True} if name == "protobuf" else {}
    )  # it reads none but its own form of a file
    theirs = pa.array([write(row, context) for row in ROWS], pa.binary())

    ours = Codec(declare_format(name, SCHEMAS[name], settings_of(registry, **more)), COLUMNS, topic)

    assert ours.decode(theirs).to_pylist() == ROWS
    written = ours.encode(pa.RecordBatch.from_pylist(ROWS, schema=COLUMNS.arrow))
    assert [read(value, context) for value in written.to_pylist()] == ROWS
    if name != "json":  # whose blanks differ
        assert written.to_pylist() == theirs.to_pylist()
    found = Codec(declare_format(name, None, settings_of(registry, **more)), None, topic)
    assert [(one.name, one.type) for one in found.columns] == [(one.name, one.type) for one in COLUMNS]


def test_values_of_several_schemas_are_read_in_one_batch(registry, topic):
    """Each value is read under its own id, and fields that its writer did not know have the reader's defaults."""
    grown = {**AVRO, "fields": [*AVRO["fields"], {"name": "kind", "type": "string", "default": "book"}]}
    old, new = (Codec(declare_format("avro", schema, settings_of(registry)), None, topic) for schema in (AVRO, grown))
    first = old.encode(pa.RecordBatch.from_pylist(ROWS, schema=COLUMNS.arrow)).to_pylist()
    columns = Schema((*COLUMNS, *Schema.parse("kind string")))
    second = new.encode(pa.RecordBatch.from_pylist([ROWS[0] | {"kind": "map"}], schema=columns.arrow)).to_pylist()

    found = new.decode(pa.array([first[0], second[0], first[1]], pa.binary()))

    assert found.to_pylist() == [ROWS[0] | {"kind": "book"}, ROWS[0] | {"kind": "map"}, ROWS[1] | {"kind": "book"}]
    assert old.decode(pa.array(second, pa.binary())).to_pylist() == ROWS[:1]


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_what_does_not_decode_is_named_with_its_schema(registry, topic, name):
    """Bytes without a header, an unknown id and damaged values are failures of their rows; the reason has the schema's id."""
    codec = Codec(declare_format(name, None, settings_of(registry)), COLUMNS, topic)
    (good, _) = codec.encode(pa.RecordBatch.from_pylist(ROWS, schema=COLUMNS.arrow)).to_pylist()
    unknown = b"\x00\x00\xff\xff\xff" + good[5:]

    found = codec.attempt(pa.array([good, b"{}", None, unknown, good[:7], good], pa.binary()))

    assert set(found.failures) == {1, 3, 4}
    assert "zero byte and a schema id" in found.failures[1]
    assert "schema id 16777215" in found.failures[3] and registry.url in found.failures[3]
    assert f"schema id {int.from_bytes(good[1:5], 'big')}: " in found.failures[4]
    with pytest.raises(SchemaError) as raised:
        codec.decode(pa.array([good, unknown], pa.binary()))
    assert raised.value.rows == (1,)


def changed(name, kind):
    """A change of a record: a field that is new without a default, one that goes, or one of another type."""
    fields = [dict(field) for field in AVRO["fields"]]
    if kind == "new":
        fields.append({"name": "must", "type": "string"})
    elif kind == "gone":
        fields = fields[1:]
    else:
        fields[1] = {"name": "user", "type": "boolean"}
    return json.dumps({**AVRO, "fields": fields})


@pytest.mark.parametrize(
    ("mode", "allowed"),
    [("BACKWARD", {"gone"}), ("FORWARD", {"new", "gone"}), ("FULL", {"gone"}), ("NONE", {"new", "gone", "type"})],
)
@pytest.mark.parametrize("has_registry", [True, False])
def test_a_topics_schema_changes_as_its_mode_says(registry, tmp_path, topic, mode, allowed, has_registry):
    """The registry's judgement and our own are the same, and a refusal names both schemas and leaves the topic as it is."""
    config = {"schema.compatibility": mode, **(settings_of(registry) if has_registry else {})}
    with sk.open_log(tmp_path / "log") as log:
        for kind in ("new", "gone", "type"):
            name = f"{topic}-{kind}"
            before = log.create_topic(name, format="avro", format_schema=AVRO, format_settings=config)
            wanted = changed(name, kind)
            if kind in allowed:
                after = log.alter_topic(name, format_schema=wanted).format
                assert after is not None
                assert json.loads(str(after.schema)) == json.loads(wanted)
                continue
            with pytest.raises(SchemaError, match=mode) as raised:
                log.alter_topic(name, format_schema=wanted)
            shown = str(raised.value)
            assert (
                '"name": "shop.Order"' in shown.split("asked for", maxsplit=1)[0]
                and '"name": "shop.Order"' in shown.split("asked for")[1]
            )
            assert log.topic(name) == before


def test_a_stream_has_the_columns_of_the_registry(registry, topic):
    """Without a schema the newest of the subject says the columns; records that do not decode name their id."""
    format = declare_format("avro", AVRO, settings_of(registry))
    Codec(format, topic=topic).register()
    app = sk.Topology("app")
    app.stream(topic, value_format="avro", format_settings=settings_of(registry)).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe(topic, [{"key": "k", "value": row} for row in ROWS])
        assert driver.read("out", "key", *COLUMNS.names) == [{"key": "k", **row} for row in ROWS]
        with pytest.raises(EvaluationError, match=rf"topic {topic}, partition \d, offset 2.*schema id 16777215"):
            rows = pa.table({"key": pa.array([b"k"]), "value": pa.array([b"\x00\x00\xff\xff\xff\x02"])})
            driver.pipe(topic, rows)


def test_connectors_read_and_write_the_wire_format(registry, tmp_path, topic):
    """A raw sink registers the topic's columns under its subject; a raw source makes a topic of the subject's columns."""
    config = {"value.format": "avro", "schema.registry.url": registry.url, "schema.registry.retries": "0"}
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic(topic, COLUMNS, partitions=1)
        with log.producer() as producer:
            producer.send_batch(topic, ROWS)
        run([RawSink(f"out-{topic}", {"topics": topic, **config})], log, once=True)
        RECORDS[f"in-{topic}"] = [(row["key"], row["value"]) for row in WRITTEN[f"out-{topic}"]]
        client = registry_client.Registry({"schema.registry.url": registry.url})
        client.id_of("foreign-value", "AVRO", client.latest(f"{topic}-value").text, register=True)

        run([RawSource(f"in-{topic}", {"topic": f"{topic}-copy", **config})], log, once=True)

        assert log.read(f"{topic}-copy").select(COLUMNS.names).to_pylist() == ROWS


def test_subjects_have_the_names_of_their_strategy(registry, topic):
    """By topic, by record, or by both."""
    names = {
        strategy: Codec(
            declare_format("avro", AVRO, settings_of(registry, **{"subject.name.strategy": strategy})), topic=topic
        ).subject()
        for strategy in (
            "TopicNameStrategy",
            "io.confluent.kafka.serializers.subject.RecordNameStrategy",
            "TopicRecordNameStrategy",
        )
    }

    assert list(names.values()) == [f"{topic}-value", "shop.Order", f"{topic}-shop.Order"]


class _Answers(BaseHTTPRequestHandler):
    """Answers with what the test put into `said`, and remembers what it was asked."""

    said: list[tuple[int, object]]
    asked: list[tuple[str, str | None]]

    def do_GET(self):
        self.asked.append((self.path, self.headers["Authorization"]))
        status, body = self.said.pop(0) if self.said else (200, {"schema": '"string"'})
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        """Print nothing."""


@pytest.fixture
def answers():
    handler = type("Handler", (_Answers,), {"said": [], "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(registry_client, "_FIRST_WAIT_SECONDS", 0.001)


def test_a_registry_that_stumbles_is_asked_again(answers, quick):
    """Errors that may pass are tried again; what an id means is asked once."""
    handler, url = answers
    handler.said += [(503, {}), (500, {"message": "no"}), (200, {"schema": '"string"'})]
    client = registry_client.Registry({"schema.registry.url": url})

    assert client.schema(7).text == '"string"' and client.schema(7).id == 7
    assert len(handler.asked) == 3


def test_a_registry_that_is_gone_is_an_error_that_may_pass(answers, quick):
    """After the last try; the message has the address and no secret, and a second address is tried beside the first."""
    _, url = answers
    client = registry_client.Registry({"schema.registry.url": "http://me:secret@127.0.0.1:1", "schema.registry.retries": "2"})

    with pytest.raises(RegistryUnavailableError, match=r"http://127.0.0.1:1 does not answer .*, tried 3 times") as raised:
        client.schema(7)

    assert raised.value.is_retryable and "secret" not in str(raised.value)
    assert registry_client.Registry({"schema.registry.url": f"http://127.0.0.1:1, {url}"}).schema(7).text == '"string"'


def test_a_registry_knows_its_user(answers, quick, monkeypatch):
    """Name and password go with each request, from the settings or the address; a refusal names the setting and not the password."""
    handler, url = answers
    monkeypatch.setenv("REGISTRY_USER", "me:secret")
    format = declare_format(
        "avro", None, {"schema.registry.url": url, "schema.registry.basic.auth.user.info": "${env:REGISTRY_USER}"}
    )
    handler.said += [(200, {"schema": '"string"'}), (401, {"message": "no"})]

    registry_client.registry_of(format).schema(1)
    with pytest.raises(ConfigError, match="refuses the user") as raised:
        registry_client.Registry({"schema.registry.url": url.replace("//", "//me:secret@")}).schema(2)

    assert [login for _, login in handler.asked] == ["Basic bWU6c2VjcmV0"] * 2
    assert "secret" not in str(raised.value) + repr(format)


def test_what_a_registry_said_is_bounded(answers, monkeypatch):
    """No more schemas are kept than a thousand; the one that was not asked for longest goes first."""
    handler, url = answers
    monkeypatch.setattr(registry_client, "SCHEMAS_KEPT", 2)
    client = registry_client.Registry({"schema.registry.url": url})

    for schema_id in (1, 2, 1, 3, 1, 2):
        client.schema(schema_id)

    assert [path.rpartition("/")[2] for path, _ in handler.asked] == ["1", "2", "3", "2"]


GROWN = {  # schemas of the numbers, each newer than the one before
    "avro": [
        json.dumps({"type": "record", "name": "N", "fields": [{"name": name, "type": type} for name, type in fields]})
        for fields in (
            [("n", "int"), ("text", "string")],
            [("n", "long"), ("text", "string"), ("more", ["null", "double"])],
            [("text", "string"), ("n", "long"), ("last", {"type": "array", "items": "string"})],
        )
    ],
    "json": [
        json.dumps({"type": "object", "properties": {name: {"type": type} for name, type in fields}})
        for fields in (
            [("n", "integer"), ("text", "string")],
            [("n", "integer"), ("text", "string"), ("more", "number")],
            [("text", "string"), ("n", "integer"), ("last", "boolean")],
        )
    ],
    "protobuf": [
        f'syntax = "proto3"; message N {{ {fields} }}'
        for fields in (
            "optional int64 n = 1; optional string text = 2;",
            "optional int64 n = 1; optional string text = 2; optional double more = 3;",
            "optional string text = 2; optional int64 n = 1; repeated string last = 4;",
        )
    ],
}
MORE: dict[str, Any] = {"more": 1.5, "last": []}


class TestGrowingSchemas(SourceContract):
    """Records under three schemas in turn, which the registry knows by their ids: each is what its own schema says."""

    WAYS = tuple(GROWN)

    @pytest.fixture(autouse=True)
    def _records(self, way, registry, topic):
        self.settings = settings_of(registry, **{"subject.name.strategy": "TopicNameStrategy"})
        self.form = way
        RECORDS["in"] = []
        self.codecs = [
            Codec(declare_format(way, text, {**settings_of(registry), "schema.compatibility": "NONE"}), None, topic)
            for text in GROWN[way]
        ]

    def source(self, **settings):
        url = self.settings["schema.registry.url"]
        return RawSource("in", {"topic": "numbers", "value.format": self.form, "schema.registry.url": url, **settings})

    def add(self, first, count):
        for n in range(first, first + count):
            codec = self.codecs[n % 3]
            row = {"n": n, "text": f"text {n}", "more": 1.5, "last": n % 2 == 0 if self.form == "json" else ["x"] * n}
            columns = codec.written
            batch = pa.RecordBatch.from_pylist([{name: row[name] for name in columns.names}], schema=columns.arrow)
            RECORDS["in"] += [(None, value) for value in codec.encode(batch).to_pylist()]

    def expected(self, first, count):
        return [(n, f"text {n}", 1.5 if n % 3 == 1 else None, n % 3 == 2) for n in range(first, first + count)]

    def found(self, log):
        rows = log.read("numbers").to_pylist()
        return [(row["n"], row["text"], row.get("more"), row.get("last") is not None) for row in rows]


@pytest.mark.parametrize("is_together", [True, False])
def test_a_schema_whose_types_do_not_go_together(registry, topic, tmp_path, is_together):
    """A column of another type is refused by its record and with both types, whether the records come in one poll or each in its own."""
    text = ({"type": "record", "name": "N", "fields": [{"name": "n", "type": type}]} for type in ("int", "string"))
    settings = {**settings_of(registry), "schema.compatibility": "NONE"}
    codecs = [Codec(declare_format("avro", one, settings), None, topic) for one in text]
    RECORDS["in"] = []
    config = {"topic": "numbers", "value.format": "avro", "schema.registry.url": registry.url}
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    with sk.open_log(tmp_path / "log") as log:
        for number in range(6):
            row = {"n": number if number % 2 == 0 else str(number)}
            batch = pa.RecordBatch.from_pylist([row], schema=codecs[number % 2].written.arrow)
            RECORDS["in"] += [(None, value) for value in codecs[number % 2].encode(batch).to_pylist()]
            if not is_together:
                run([RawSource("in", {**config, **tolerant})], log, once=True)
        if is_together:
            with pytest.raises(SchemaError, match=r"offset 1, KAFKA_PRODUCE: .*column 'n': found '1' \(string\), expected int"):
                run([RawSource("in", config)], log, once=True)
            run([RawSource("in", {**config, **tolerant})], log, once=True)
        assert log.read("numbers")["n"].to_pylist() == [0, 2, 4]
        assert log.read("dead").num_rows == 3


class AvroSource(RawSource):
    """Brings records of a topic of Avro."""

    FOREIGN = "of-avro"


class ProtobufSource(RawSource):
    """Brings records of a topic of Protobuf."""

    FOREIGN = "of-protobuf"


SOURCES: dict[str, type[RawSource]] = {"avro": AvroSource, "protobuf": ProtobufSource}


def by_stream(name, url, rows, **settings):
    """The values as a stream has them, as columns of the registry's newest schema."""
    app = sk.Topology("app")
    registry = {"schema.registry.url": url, "schema.registry.retries": "0", **settings}
    app.stream(f"of-{name}", value_format=name, format_settings=registry).to("out")
    with TopologyTestDriver(app) as driver:
        keys = pa.nulls(len(rows), pa.binary())
        driver.pipe(f"of-{name}", pa.table({"key": keys, "value": pa.array(rows, pa.binary())}))
        return [{key: value for key, value in row.items() if key != "key" and key[0] != "_"} for row in driver.read("out")]


def by_connector(name, url, rows, folder, **settings):
    """The values as a connector has them, of which each schema and message makes columns."""
    RECORDS["in-foreign"] = [(None, value) for value in rows]
    config = {"value.format": name, "schema.registry.url": url, **{f"value.format.{key}": one for key, one in settings.items()}}
    with sk.open_log(folder) as log:
        run([SOURCES[name]("in-foreign", {"topic": "copy", **config})], log, once=True)
        return [{key: row[key] for key in row if key[0] != "_"} for row in log.read("copy").to_pylist()]


def test_defaults_of_avro_are_those_of_the_newest_schema_for_everyone(registry, tmp_path):
    """What an earlier writer did not know has the reader's default, also within a record, for streams as for connectors; so have wider types."""
    inner: dict[str, Any] = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
    old: dict[str, Any] = {"type": "record", "name": "D", "fields": [{"name": "id", "type": "int"}, {"name": "s", "type": inner}]}
    wide = {**inner, "fields": [*inner["fields"], {"name": "y", "type": "string", "default": "why"}]}
    new = {
        **old,
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "s", "type": wide},
            {"name": "c", "type": "int", "default": 7},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1_000},
            {
                "name": "d",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
                "default": "\u0001\u0000",
            },
        ],
    }
    defaults = {"c": 7, "at": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc), "d": Decimal("2.56")}
    settings = {**settings_of(registry), "schema.compatibility": "NONE"}
    first, second = (Codec(declare_format("avro", one, settings), None, "of-avro") for one in (old, new))
    rows = [*first.encode(pa.RecordBatch.from_pylist([{"id": 1, "s": {"x": 2}}], schema=first.written.arrow)).to_pylist()]
    later = [{"id": 1 << 40, "s": {"x": 3, "y": "z"}, **defaults, "c": 9}]
    rows += second.encode(pa.RecordBatch.from_pylist(later, schema=second.written.arrow)).to_pylist()
    expected = [{"id": 1, "s": {"x": 2, "y": "why"}, **defaults}, *later]

    assert by_stream("avro", registry.url, rows) == expected
    assert by_connector("avro", registry.url, rows, tmp_path / "log") == expected


OBJECT = {"type": "object"}
DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}
NO_COLUMNS: list[tuple[str, str, bytes]] = [
    *(
        ("json", json.dumps({**OBJECT, "properties": {"a": one, "value": {"type": "string"}}}), b'{"a":{"q":1}}')
        for one in (
            OBJECT, {}, {"$ref": "#"}, {"type": ["integer", "string", "null"]}, {"enum": [1, 2], "type": "nothing"}, {"const": 1},
            {"type": "array"}, {"type": "array", "items": [{"type": "integer"}]},
        )
    ),
    ("json", json.dumps({**DRAFT, **OBJECT}), b'{"a":1}'),
    ("json", json.dumps({**DRAFT, "type": "array", "items": {"type": "integer"}}), b"[1]"),
    ("json", json.dumps({**DRAFT, "type": "string"}), b'"x"'),
    ("avro", '{"type": "record", "name": "R", "fields": [{"name": "value", "type": ["null", "R"]}]}', b"\x00"),
    ("protobuf", 'syntax = "proto3"; message R { optional R next = 1; optional string value = 2; }', b"\x00\x12\x01x"),
    ("protobuf", 'syntax = "proto3"; message R { optional string value = 2; }', b"\x02\x08\x12\x01x"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "text", "value"), NO_COLUMNS)
def test_values_of_a_schema_that_says_no_columns(registry, tmp_path, topic, form, text, value):
    """They are refused with the reason, or dead letters with their bytes; they were stored as null. So are those beside good ones, in one poll."""
    if form == "protobuf":
        pytest.importorskip("grpc_tools")
    client = registry_client.registry_of(declare_format(form, None, settings_of(registry)))
    schema_id = client.id_of(topic, {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}[form], text, True)
    wrong = b"\0" + schema_id.to_bytes(4, "big") + value
    message = {"message": "Order"} if form == "protobuf" else {}
    good = Codec(declare_format(form, SCHEMAS[form], settings_of(registry, **message)), None, topic)
    rows = good.encode(pa.RecordBatch.from_pylist(ROWS, schema=good.written.arrow)).to_pylist()
    config = {"topic": "orders", "value.format": form, "schema.registry.url": registry.url}
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    RECORDS["in"] = [(b"k", wrong), *((b"k", row) for row in rows)]
    with sk.open_log(tmp_path / "log") as log:
        advice = "value.schema says which columns" if form == "json" else ""
        for more in ({}, {"key": "k"}):
            with pytest.raises(SchemaError, match=rf"(?s)the value cannot be read: .*schema id {schema_id}: .*{advice}"):
                run([RawSource("in", {**config, **more})], log, once=True)
        assert "orders" not in log.topics()
        run([RawSource("in", {**config, **tolerant})], log, once=True)
        assert [row["id"] for row in log.read("orders").to_pylist()] == [row["id"] for row in ROWS]
        assert [row["value"] for row in log.read("dead").to_pylist()] == [wrong]


def test_a_message_is_the_one_that_its_value_names(registry, tmp_path):
    """Streams refuse another message than the one whose columns they have, connectors take its own, and a wrong setting is an error."""
    pytest.importorskip("grpc_tools")
    settings = {**settings_of(registry), "schema.compatibility": "NONE", "message": "Order"}
    codec = Codec(declare_format("protobuf", PROTO, settings), COLUMNS, "of-protobuf")
    rows = codec.encode(pa.RecordBatch.from_pylist(ROWS, schema=COLUMNS.arrow)).to_pylist()

    assert by_stream("protobuf", registry.url, rows, message="Order") == ROWS
    with pytest.raises(EvaluationError, match=r"it is a shop.Order, as the value says; expected message=shop.Order"):
        by_stream("protobuf", registry.url, rows)
    assert by_connector("protobuf", registry.url, rows, tmp_path / "a") == ROWS
    assert by_connector("protobuf", registry.url, rows, tmp_path / "b", message="shop.Order") == ROWS
    for wrong, reason in (("First", "it is a shop.Order"), ("Nope", "no message 'Nope'.*shop.Order")):
        with pytest.raises(SchemaError, match=reason):
            by_connector("protobuf", registry.url, rows, tmp_path / wrong, message=wrong)
    read = Codec(declare_format("protobuf", None, settings_of(registry)), None, "of-protobuf").value_reader()
    assert [read(value) for value in rows] == ROWS


@pytest.mark.parametrize(("schema", "columns"), [
    ('{"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]}', {"id": 7}),
    ('"long"', {"id": 7}),
    ('{"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": {"type": "int", "logicalType": "date"}}]}',
     {"id": 7, "at": dt.date(2026, 1, 1)}),
])  # fmt: skip
def test_keys_have_the_types_of_their_own_schema(registry, tmp_path, topic, schema, columns):
    """Of a record, of a bare value and of several columns, where the value has none of them; deletions too."""
    key = Codec(declare_format("avro", schema, settings_of(registry)), None, topic, "key")
    names = key.written.names
    (encoded,) = key.encode(
        pa.RecordBatch.from_pylist([dict(zip(names, columns.values(), strict=True))], schema=key.written.arrow)
    ).to_pylist()
    RECORDS[f"in-{topic}"] = [(encoded, b"1"), (encoded, None)]
    config = {
        "value.format": "csv",
        "value.schema": "v int",
        "key.format": "avro",
        "schema.registry.url": registry.url,
        "key": list(columns),
    }
    foreign = type("Foreign", (RawSource,), {"FOREIGN": topic})
    with sk.open_log(tmp_path / "log") as log:
        run([foreign(f"in-{topic}", {"topic": topic, **config})], log, once=True)
        found = log.read(topic).select([*columns, "v", "_deleted"]).to_pylist()
    assert found == [{**columns, "v": 1, "_deleted": False}, {**columns, "v": None, "_deleted": True}]


def test_schemas_of_avro_that_refer_to_others(registry, client, tmp_path):
    """Types of other subjects, at any depth, named twice, with and without their namespace: for connectors, streams and Confluent's client."""
    from confluent_kafka.schema_registry import Schema as Registered
    from confluent_kafka.schema_registry import SchemaReference
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    city = {"type": "enum", "name": "City", "namespace": "geo", "symbols": ["NYC", "SFO"]}
    place = {"type": "record", "name": "Place", "namespace": "geo", "fields": [
        {"name": "city", "type": "City"}, {"name": "zip", "type": "int"}]}  # fmt: skip
    trip = {"type": "record", "name": "Trip", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"}, {"name": "start", "type": "geo.Place"}, {"name": "stops", "type": {"type": "array", "items": "geo.Place"}},
        {"name": "city", "type": ["null", "geo.City"], "default": None}]}  # fmt: skip
    client.register_schema("geo-city", Registered(json.dumps(city), "AVRO"))
    to_city = SchemaReference("geo.City", "geo-city", 1)
    client.register_schema("geo-place", Registered(json.dumps(place), "AVRO", [to_city]))
    to_place = SchemaReference("geo.Place", "geo-place", 1)
    whole = Registered(json.dumps(trip), "AVRO", [to_city, to_place])
    client.register_schema("of-references-value", whole)
    row = {"id": 1, "start": {"city": "NYC", "zip": 1}, "stops": [{"city": "SFO", "zip": 2}], "city": "SFO"}
    value = AvroSerializer(client, whole)(row, SerializationContext("of-references", MessageField.VALUE))

    app = sk.Topology("app")
    app.stream("of-references", value_format="avro", format_settings=settings_of(registry)).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("of-references", [{"key": "k", "value": row}])
        driver.pipe("of-references", pa.table({"key": pa.array([b"k"]), "value": pa.array([value])}))
        assert driver.read("out", *row) == [row, row]
    RECORDS["of-references"] = [(None, value)]
    config = {"topic": "copy", "value.format": "avro", "schema.registry.url": registry.url}
    foreign = type("Foreign", (RawSource,), {"FOREIGN": "of-references"})
    with sk.open_log(tmp_path / "log") as log:
        run([foreign("of-references", config)], log, once=True)
        assert log.read("copy").select(list(row)).to_pylist() == [row]
    codec = Codec(declare_format("avro", None, {**settings_of(registry), "use.latest.version": "true"}), None, "of-references")
    assert codec.encode(pa.RecordBatch.from_pylist([row], schema=codec.written.arrow)).to_pylist() == [value]
