"""Topics of the spark dialect and of programs say how their keys lie behind a registry, so equal keys have equal bytes whoever writes them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.cli.main import main
from streamkit.errors import SchemaError, SqlError, StreamKitError, TopologyError
from streamkit.formats.codec import schema_made_of
from streamkit.schema import Schema

pytestmark = pytest.mark.foreign("registry")
FORMATS = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON_SR": "json"}


@pytest.fixture
def spark(session):
    with session("spark") as found:
        yield found


def settings_of(registry):
    return {"schema.registry.url": registry.url}


def of_topic(topic, format):
    """WITH of a topic whose keys and values have a format."""
    keys = "JSON" if format == "JSON_SR" else format
    return f"WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{format}', KEY_FORMAT = '{keys}', PARTITIONS = 4)"


def spellings(log, topic):
    """The bytes and the partition of each key, once."""
    return {(bytes(row["key"]), row["_partition"]) for row in log.read(topic).to_pylist()}


def others_register(client, topic, format):
    """A newer schema of keys, with a field more."""
    client.set_compatibility(f"{topic}-key", "NONE")
    text = schema_made_of(FORMATS[format], Schema.parse("id bigint, more string"))
    client.id_of(f"{topic}-key", "JSON" if format == "JSON_SR" else format, text, register=True)


def program(log, registry, format, topic, name, schema="id bigint, v string", keys=None):
    """Copy the rows of `rows` into a topic."""
    app = sk.Topology(name)
    app.stream("rows", schema=schema, key="id").to(
        topic, value_format=FORMATS[format], key_format=keys or FORMATS[format], format_settings=settings_of(registry)
    )
    sk.run(app, log=log, engine="local", trigger="available_now").wait()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("maker", ["CREATE STREAM", "CREATE … AS", "to"])
def test_a_key_has_one_spelling(spark, registry, log, client, topic, format, maker):
    """Whatever others register in the meantime: of INSERT by values and by a query, of programs that end and begin, and of producers."""
    log.create_topic("rows", "id bigint, v string", key="id", partitions=4)
    with log.producer() as producer:
        producer.send("rows", {"id": 7, "v": "a"})
    spark.execute("CREATE STREAM rows (id BIGINT KEY, v STRING)")
    if maker == "to":
        program(log, registry, format, topic, "first")
    declares = f"CREATE STREAM s (id BIGINT KEY, v STRING) {of_topic(topic, format)}"
    if maker == "CREATE … AS":
        spark.execute(f"CREATE STREAM s {of_topic(topic, format)} AS SELECT * FROM rows")
        assert spark.catch_up(60)
        spark.execute("TERMINATE ALL")
    else:
        spark.execute(declares)
    spark.execute("INSERT INTO s VALUES (7, 'b')")
    others_register(client, topic, format)
    spark.execute("INSERT INTO s VALUES (7, 'c'); INSERT INTO s SELECT * FROM rows")
    assert spark.catch_up(60)
    program(log, registry, format, topic, "second")
    with log.producer() as producer:
        producer.send(topic, {"key": {"id": 7}, "value": {"v": "d", **({"id": 7} if maker != "CREATE STREAM" else {})}})
    found = log.read(topic)
    assert found.num_rows == {"CREATE STREAM": 5, "CREATE … AS": 6, "to": 6}[maker]
    assert len(spellings(log, topic)) == 1
    assert {row["id"] for row in spark.query("SELECT id FROM s").to_pylist()} == {7}
    assert len(client.versions(f"{topic}-key")) == 2


@pytest.mark.parametrize("format", FORMATS)
def test_a_topic_that_is_made_again_has_the_keys_of_its_statement(spark, client, log, topic, format):
    """The registry still has the keys of the dropped topic, and nobody writes under them."""
    for key, value in (("id INT", "7"), ("name STRING", "'b'"), ("id BIGINT", "8"), ("id INT", "9")):
        spark.execute(f"CREATE STREAM s ({key} KEY, v STRING) {of_topic(topic, format)}; INSERT INTO s VALUES ({value}, 'x')")
        spark.execute(f"INSERT INTO s VALUES ({value}, 'y')")
        name = key.split()[0]
        assert [repr(row[name]) for row in spark.query(f"SELECT {name} FROM s").to_pylist()] == [value, value]
        assert len(spellings(log, topic)) == 1
        spark.execute("DROP STREAM s DELETE TOPIC")
        client.set_compatibility(f"{topic}-key", "NONE")


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_both_dialects_and_programs_share_a_topic(spark, sql, registry, log, topic, format):
    """The columns of keys are found by either dialect, and rows of each are read by the others."""
    spark.execute(f"CREATE STREAM s (id BIGINT KEY, v STRING) {of_topic(topic, format)}; INSERT INTO s VALUES (1, 'spark')")
    sql.execute(f"CREATE STREAM K {of_topic(topic, format)}; INSERT INTO K VALUES (2, 'ksql')")
    log.create_topic("rows", "id bigint, v string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("rows", {"id": 3, "v": "program"})
    program(log, registry, format, topic, "program")
    rows = [(1, "spark"), (2, "ksql"), (3, "program")]
    for session, name in ((spark, "s"), (sql, "K")):
        found = session.query(f"SELECT `id`, `v` FROM {name}").to_pylist()
        assert sorted(tuple(row.values()) for row in found) == rows


@pytest.mark.parametrize("keys", ["string", "json", "protobuf"])
@pytest.mark.parametrize("maker", ["spark", "ksql", "to"])
def test_other_keys_than_those_of_the_topic_are_refused(session, registry, log, topic, maker, keys):
    """A program that would write them does not start; numbers that fit are written as the topic has them."""
    log.create_topic("rows", "id int, v string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("rows", {"id": 3, "v": "program"})
    if maker == "to":
        app = sk.Topology("made")
        rows = app.stream("rows", schema="id int, v string", key="id")
        rows.select_key(id=F.col("id").cast("bigint")).to(
            topic, value_format="avro", key_format="avro", format_settings=settings_of(registry)
        )
        sk.run(app, log=log, engine="local", trigger="available_now").wait()
    else:
        with session(maker) as declares:
            declares.execute(f"CREATE STREAM s (`id` BIGINT KEY, `v` STRING) {of_topic(topic, 'AVRO')}")
    assert dict(log.topic(topic).format.settings)["key.format"] == "avro"
    with pytest.raises(TopologyError, match=f"its keys are `id` bigint.* in the format avro, and what is written has .*{keys}"):
        program(log, registry, "AVRO", topic, "others", "id int, v string", keys)
    program(log, registry, "AVRO", topic, "same", "id int, v string")
    assert {len(key) for key, _ in spellings(log, topic)} == {5 + 2}  # the schema's id, and a field that may be null


def test_a_topic_of_before_says_no_keys_and_goes_on(spark, registry, log, client, topic):
    """Its keys go by the registry, as before: programs that wrote there write there, and no schema is registered."""
    log.create_topic("rows", "id bigint, v string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("rows", {"id": 7, "v": "a"})
    log.create_topic(
        topic, partitions=1, format="avro", format_schema=schema_made_of("avro", Schema.parse("id bigint, v string")),
        format_settings=settings_of(registry),
    )  # fmt: skip
    program(log, registry, "AVRO", topic, "program")
    spark.execute(f"CREATE STREAM s (id BIGINT KEY, v STRING) {of_topic(topic, 'AVRO').replace(', PARTITIONS = 4', '')}")
    spark.execute("INSERT INTO s VALUES (7, 'b')")
    program(log, registry, "AVRO", topic, "program")
    assert len(spellings(log, topic)) == 1
    assert len(client.versions(f"{topic}-key")) == 1
    assert "key.format" not in dict(log.topic(topic).format.settings)


def test_keys_in_json_of_the_spark_dialect_are_refused_in_the_ksql_dialect(spark, sql, topic):
    """They are under a schema of the registry, which the ksql dialect does not read."""
    spark.execute(f"CREATE STREAM s (id BIGINT KEY, v STRING) {of_topic(topic, 'JSON_SR')}; INSERT INTO s VALUES (1, 'spark')")
    with pytest.raises(SqlError, match="are JSON under a schema of the registry"):
        sql.execute(f"CREATE STREAM K (`id` BIGINT KEY, `v` STRING) {of_topic(topic, 'JSON_SR')}")


def test_keys_in_json_of_the_ksql_dialect_are_refused_in_the_spark_dialect(spark, sql, topic):
    """They are under no schema, and the spark dialect has them under one beside such values; without the key it reads the values."""
    sql.execute(f"CREATE STREAM K (`id` BIGINT KEY, `v` STRING) {of_topic(topic, 'JSON_SR')}; INSERT INTO K VALUES (1, 'ksql')")
    with pytest.raises(SqlError, match="are JSON without a schema of the registry"):
        spark.execute(f"CREATE STREAM s (id BIGINT KEY, v STRING) {of_topic(topic, 'JSON_SR')}")
    spark.execute(f"CREATE STREAM s (v STRING) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = 'JSON_SR')")
    assert spark.query("SELECT v FROM s").to_pylist() == [{"v": "ksql"}]


OF_OTHERS = {"type": "record", "name": "Key", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}


@pytest.mark.parametrize("dialect", ["ksql", "spark"])
@pytest.mark.parametrize("is_result", [True, False])
def test_a_topic_is_made_for_a_subject_of_keys_of_others(session, log, client, topic, dialect, is_result):
    """The registry refuses a record of another name, so keys are written under theirs, if the columns fit it."""
    client.id_of(f"{topic}-key", "AVRO", json.dumps(OF_OTHERS), register=True)
    client.set_compatibility(f"{topic}-key", "BACKWARD")
    given = "(`id` {} KEY, `v` INT) WITH (KAFKA_TOPIC = '{}', VALUE_FORMAT = 'JSON', PARTITIONS = 4)"
    result = of_topic(topic, "AVRO")
    with session(dialect) as sql:
        sql.execute(
            f"CREATE STREAM e {given.format('BIGINT', 'e')}; CREATE STREAM d {given.format('STRING', 'd')}; INSERT INTO e VALUES (7, 1)"
        )
        for type, source in (("STRING", "d"), ("BIGINT", "e")):
            made = f"{result} AS SELECT * FROM {source}" if is_result else f"(`id` {type} KEY, `v` INT) {result}"
            if type == "STRING":
                with pytest.raises(SqlError, match=f"refuses the schema for the subject {topic}-key"):
                    sql.execute(f"CREATE STREAM s {made}")
        sql.execute(f"CREATE STREAM s {made}; INSERT INTO s VALUES (7, 2)")
        sql.execute(f"CREATE STREAM o {result.replace(', PARTITIONS = 4', '')}; INSERT INTO o (`id`, `v`) VALUES (7, 3)")
        if not is_result:
            sql.execute("INSERT INTO s SELECT * FROM e")
        assert sql.catch_up(60)
        assert sorted(row["v"] for row in sql.query("SELECT `v` FROM s").to_pylist()) == [1, 2, 3]
        assert len(spellings(log, topic)) == len(client.versions(f"{topic}-key")) == 1


PARTS = (
    "i INT KEY, d DOUBLE KEY, e DECIMAL(5, 2) KEY, t DATE KEY, w TIMESTAMP KEY, s STRUCT<x INT, y STRING> KEY, l ARRAY<INT> KEY"
)
AT = dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)
KEY = {"i": 7, "d": 1.0, "e": Decimal("1.50"), "t": dt.date(2020, 1, 2), "w": AT, "s": {"x": 1, "y": "z"}, "l": [1, 2]}


@pytest.mark.parametrize("format", FORMATS)
def test_a_producer_writes_a_dict_of_the_columns(spark, log, topic, format):
    """In any order, with numbers that fit, or as `decode` gives it: the bytes are those of SQL; of bytes they are what is sent."""
    spark.execute(f"CREATE STREAM s ({PARTS}, v INT) {of_topic(topic, format)}")
    spark.execute(
        "INSERT INTO s VALUES (7, 1, 1.5, DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05', named_struct('x', 1, 'y', 'z'), ARRAY(1, 2), 1)"
    )
    (written,) = log.decode(topic, log.read(topic))
    nested = {**KEY, "s": {"y": "z", "x": 1}}
    keys = [KEY, dict(reversed(KEY.items())), nested, {**KEY, "d": 1}, written["key"], log.read(topic)["key"][0].as_py()]
    with log.producer() as producer:
        for key in keys:
            producer.send(topic, {"key": key, "value": {"v": 2}})
    assert log.read(topic).num_rows == 7
    assert len(spellings(log, topic)) == 1
    refused = ["7", 7, True, [7], {}, {"I": 7}, {**KEY, "z": 1}, {**KEY, "i": "q"}, {**KEY, "i": 1 << 40}]
    for key in refused:
        with log.producer() as producer, pytest.raises(SchemaError, match=r"row 0, column '(key|i)': found"):
            producer.send(topic, {"key": key, "value": {"v": 2}})
    assert log.read(topic).num_rows == 7


@pytest.mark.parametrize("is_made_of_itself", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_a_topic_that_a_program_reads_again_says_its_keys(registry, log, topic, format, is_made_of_itself):
    """As one that it only writes; also where its rows go into it again."""
    log.create_topic("rows", "id bigint, v string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("rows", {"id": 7, "v": "a"})
    how = {"value_format": FORMATS[format], "key_format": FORMATS[format], "format_settings": settings_of(registry)}
    app = sk.Topology("reads-again")
    again = app.stream(topic, schema="id bigint, v string", key="id", **how)
    rows = app.stream("rows", schema="id bigint, v string", key="id")
    if is_made_of_itself:
        again = again.filter(F.col("v") == "a").with_columns(v=F.lit("b"))
        rows.merge(again).to(topic, **how)
    else:
        rows.to(topic, **how)
        again.to("again")
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    assert dict(log.topic(topic).format.settings)["key.schema"] == "`id` bigint"
    assert {row["key"]["id"] for row in log.decode(topic, log.read(topic))} == {7}
    assert len(spellings(log, topic)) == 1


@pytest.mark.parametrize("format", FORMATS)
def test_a_start_that_fails_does_not_say_the_keys_of_its_topic_for_good(registry, log, client, topic, format):
    """The registry refuses its keys, so that nobody has written any, and the program that writes other ones starts."""
    log.create_topic("rows", "id bigint, v string", key="id", partitions=1)
    log.create_topic("names", "id string, v string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("rows", {"id": 7, "v": "a"})
        producer.send("names", {"id": "b", "v": "a"})
    text = schema_made_of(FORMATS[format], Schema.parse("id bigint"))
    client.id_of(f"{topic}-key", "JSON" if format == "JSON_SR" else format, text, register=True)
    client.set_compatibility(f"{topic}-key", "FULL")
    how = {"value_format": "json", "key_format": FORMATS[format], "format_settings": settings_of(registry)}
    how["value_schema"] = schema_made_of("json", Schema.parse("v string"))
    for source, type in (("names", "string"), ("rows", "bigint"), ("rows", "bigint")):
        app = sk.Topology(f"of-{source}")
        app.stream(source, schema=f"id {type}, v string", key="id").to(topic, **how)
        run = sk.run(app, log=log, engine="local", trigger="available_now")
        if source == "names":
            with pytest.raises(StreamKitError, match=r"the registry .* refuses the schema"):
                run.wait()
        else:
            run.wait()
    if format != "JSON_SR":  # keys in JSON have the columns that the topic says
        with log.producer() as producer:
            producer.send(topic, {"key": {"id": 7}, "value": {"v": "b"}})
    assert len(spellings(log, topic)) == 1
    assert log.read(topic).num_rows == 1 + (format != "JSON_SR")  # of the rows the second start has read the only one


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
@pytest.mark.parametrize("dialect", ["ksql", "spark"])
def test_a_topic_is_made_again_with_a_narrower_number(session, client, log, topic, dialect, format):
    """Which the registry refuses, and which fits the keys of the dropped topic: it is written as these."""
    with session(dialect) as sql:
        for type in ("BIGINT", "INT"):
            given = of_topic(topic, format).replace(f"VALUE_FORMAT = '{format}'", "VALUE_FORMAT = 'AVRO'")
            sql.execute(f"CREATE STREAM s (`id` {type} KEY, `v` INT) {given}; INSERT INTO s VALUES (7, 1)")
            sql.execute("INSERT INTO s VALUES (7, 2)")
            assert [row["id"] for row in sql.query("SELECT `id` FROM s").to_pylist()] == [7, 7]
            assert len(spellings(log, topic)) == 1
            client.set_compatibility(f"{topic}-key", "BACKWARD")
            sql.execute("DROP STREAM s DELETE TOPIC")
    assert len(client.versions(f"{topic}-key")) == 1


OTHER_KEYS = [  # the key of a topic, that of a program, and whether it may write
    ("int", "tinyint", True),
    ("bigint", "int", True),
    ("int", "bigint", False),
    ("double", "int", False),
    ("float", "double", False),
    ("decimal(6,2)", "decimal(6,4)", False),
    ("decimal(6,2)", "decimal(5,2)", False),
    ("timestamp", "date", False),
    ("array<bigint>", "array<int>", True),
    ("array<double>", "array<int>", False),
    ("struct<X: bigint, Y: string>", "struct<X: int, Y: string>", True),
    ("struct<X: double>", "struct<X: int>", False),
    ("struct<X: int, Y: int>", "struct<X: int>", False),
]
ONE_OF = {
    **dict.fromkeys(("int", "bigint", "double", "float"), 1),
    "decimal(6,2)": Decimal("1.50"),
    "timestamp": AT,
    "array<bigint>": [1],
    "array<double>": [1],
    "struct<X: bigint, Y: string>": {"X": 1, "Y": "y"},
    "struct<X: double>": {"X": 1},
    "struct<X: int, Y: int>": {"X": 1, "Y": 2},
}


@pytest.mark.parametrize(("there", "other", "may_write"), OTHER_KEYS)
@pytest.mark.parametrize("format", FORMATS)
def test_keys_of_other_types_are_other_keys(registry, log, topic, format, there, other, may_write):
    """Narrower whole numbers alone are written as those of the topic, which a schema of JSON does not tell from other ones."""
    how = {"value_format": FORMATS[format], "key_format": FORMATS[format], "format_settings": settings_of(registry)}
    for name, type in (("made", there), ("other", other), ("same", there)):
        log.create_topic(f"rows-{name}", f"id {type}, v string", key="id", partitions=1)
        app = sk.Topology(name)
        app.stream(f"rows-{name}", schema=f"id {type}, v string", key="id").select("id", "v").to(topic, **how)
        is_refused = (
            name == "other" and not may_write and not (other == "bigint" and format == "JSON_SR")
        )  # whose numbers have no width
        if name == "made":
            with log.producer() as producer:
                producer.send("rows-made", {"id": ONE_OF[there], "v": "a"})
        if is_refused:
            with pytest.raises(TopologyError, match="its keys are `id` "):
                sk.run(app, log=log, engine="local", trigger="available_now").wait()
        else:
            sk.run(app, log=log, engine="local", trigger="available_now").wait()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("columns", [("K",), ("J",), ("J", "K"), ("K", "J", "L")])
def test_keys_of_other_columns_are_other_keys(registry, log, topic, format, columns):
    """Fewer or more, and in JSON in another order; AVRO and PROTOBUF find them by their names."""
    log.create_topic("rows", "K int, J int, L int, v string", partitions=1)
    with log.producer() as producer:
        producer.send("rows", {"K": 1, "J": 2, "L": 3, "v": "a"})
    how = {"value_format": FORMATS[format], "key_format": FORMATS[format], "format_settings": settings_of(registry)}
    for name, key in (("made", ("K", "J")), ("other", columns)):
        app = sk.Topology(name)
        app.stream("rows").select_key(*key).select("K", "J", "v", *key[2:]).to(topic, **how)
        if name == "other" and not (columns == ("J", "K") and format != "JSON_SR"):
            with pytest.raises(TopologyError, match="its keys are `K` int, `J` int in the format"):
                sk.run(app, log=log, engine="local", trigger="available_now").wait()
        else:
            sk.run(app, log=log, engine="local", trigger="available_now").wait()
    assert len(spellings(log, topic)) == 1
    assert log.read(topic).num_rows == 1 + (columns == ("J", "K") and format != "JSON_SR")


@pytest.mark.parametrize("format", FORMATS)
def test_the_newest_version_is_for_values(registry, log, client, topic, format):
    """Programs that write values under it, and producers, go by the keys that the topic says."""
    log.create_topic("rows", "id bigint, v string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("rows", {"id": 7, "v": "a"})
    settings = {**settings_of(registry), "use.latest.version": "true"}
    for part, columns in (("key", "id bigint"), ("value", "id bigint, v string")):  # else there is no newest
        text = schema_made_of(FORMATS[format], Schema.parse(columns))
        client.id_of(f"{topic}-{part}", "JSON" if format == "JSON_SR" else format, text, register=True)
    for name in ("one", "two"):
        app = sk.Topology(name)
        rows = app.stream("rows", schema="id bigint, v string", key="id")
        rows.to(topic, value_format=FORMATS[format], key_format=FORMATS[format], format_settings=settings)
        sk.run(app, log=log, engine="local", trigger="available_now").wait()
        others_register(client, topic, format)
    with log.producer() as producer:
        producer.send(topic, {"key": {"id": 7}, "value": {"id": 7, "v": "b"}})
    assert log.read(topic).num_rows == 3
    assert len(spellings(log, topic)) == 1


@pytest.mark.parametrize(
    ("there", "other"), [("DECIMAL(6, 2)", "DECIMAL(7, 3)"), ("FLOAT", "DOUBLE"), ("DOUBLE", "FLOAT"), ("DATE", "TIMESTAMP")]
)
def test_a_session_does_not_insert_keys_of_json_in_another_type(spark, registry, log, topic, there, other):
    """As a program does not: the schema of JSON does not tell one number from another, and the bytes do."""
    given = of_topic(topic, "JSON_SR")
    value = "DATE '2020-01-02'" if there == "DATE" else "1"
    spark.execute(f"CREATE STREAM a (id {there} KEY, v INT) {given}; INSERT INTO a VALUES ({value}, 1)")
    for write in (
        f"INSERT INTO b VALUES (CAST({value} AS {other}), 2)",
        f"INSERT INTO b SELECT CAST(id AS {other}) AS id, v FROM a",
    ):
        with pytest.raises(SqlError, match=r"its keys are id .*, and id .* is written|expected the type that it has"):
            spark.execute(f"CREATE STREAM b (id {other} KEY, v INT) {given}; {write}")
    assert log.read(topic).num_rows == 1


def test_keys_in_json_without_the_registry_are_other_keys(registry, log, topic):
    """As `to` writes several columns where it says no format of keys."""
    log.create_topic("rows", "K int, J int, v string", partitions=1)
    with log.producer() as producer:
        producer.send("rows", {"K": 1, "J": 2, "v": "a"})
    for name, keys in (("made", "json"), ("other", None)):
        app = sk.Topology(name)
        rows = app.stream("rows").select_key("K", "J")
        rows.to(topic, value_format="avro", format_settings=settings_of(registry), key_format=keys)
        if name == "made":
            sk.run(app, log=log, engine="local", trigger="available_now").wait()
        else:
            with pytest.raises(TopologyError, match=r"what is written has .* in the format json without a registry"):
                sk.run(app, log=log, engine="local", trigger="available_now").wait()


@pytest.mark.parametrize("format", FORMATS)
def test_a_declaration_takes_the_columns_of_the_keys(spark, topic, format):
    """With the types that the topic says, in JSON too, whose schema does not say all."""
    spark.execute(f"CREATE STREAM a (i INT KEY, e DECIMAL(5, 2) KEY, t DATE KEY, v INT) {of_topic(topic, format)}")
    spark.execute(f"CREATE STREAM b {of_topic(topic, format)}; INSERT INTO b VALUES (1, 1.5, DATE '2020-01-02', 2)")
    assert spark.query("SELECT * FROM a").to_pylist() == spark.query("SELECT * FROM b").to_pylist()
    assert [str(one.type) for one in spark.query("SELECT i, e, t FROM b").schema] == ["int32", "decimal128(5, 2)", "date32[day]"]
    with pytest.raises(
        SqlError, match=r"have i int, e decimal\(5,2\), t date by its format, and no k, which would be null; expected"
    ):
        spark.execute(f"CREATE STREAM c (k STRING KEY, v INT) {of_topic(topic, format)}")


@pytest.mark.parametrize("format", FORMATS)
def test_lines_of_a_file_have_keys_as_a_producer_sends_them(registry, tmp_path, topic, format, monkeypatch):
    """`streamkit produce` and HTTP read records of JSON: dicts of the columns, whose times and decimals are texts."""
    texts = {"i": 7, "d": 1, "e": "1.50", "t": "2020-01-02", "w": "2020-01-02T03:04:05Z", "s": {"y": "z", "x": 1}, "l": [1, 2]}
    settings = {"streamkit.sql.dialect": "spark", **settings_of(registry)}
    with sk.open_log(str(tmp_path / "log")) as log, sk.SqlSession(log, settings=settings) as sql:
        sql.execute(f"CREATE STREAM s ({PARTS}, v INT) {of_topic(topic, format)}")
        sql.execute(
            "INSERT INTO s VALUES (7, 1, 1.5, DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05', named_struct('x', 1, 'y', 'z'), ARRAY(1, 2), 1)"
        )
        file = tmp_path / "records.json"
        for key, is_written in (
            (texts, True), (dict(reversed(texts.items())), True), ("7", False), (7, False), ({}, False), ({**texts, "z": 1}, False),
        ):  # fmt: skip
            file.write_text(json.dumps({"key": key, "value": {"v": 2}}) + "\n")
            before = log.read(topic).num_rows
            monkeypatch.setattr("sys.argv", ["streamkit", "produce", topic, str(file), "--log", str(tmp_path / "log")])
            with pytest.raises(SystemExit) as end:
                main()
            assert (end.value.code or 0, log.read(topic).num_rows) == ((0, before + 1) if is_written else (1, before)), key
        assert len(spellings(log, topic)) == 1


@pytest.mark.parametrize("format", FORMATS)
def test_a_declaration_without_a_key_writes_none(spark, log, topic, format):
    """Into a topic that says its keys, too; rows of the other declaration have null for it."""
    given = of_topic(topic, format)
    spark.execute(f"CREATE STREAM a (id INT KEY, v INT) {given}; CREATE STREAM b (v INT) {given}")
    spark.execute("INSERT INTO b VALUES (1); INSERT INTO a VALUES (7, 2)")
    found = [tuple(row.values()) for row in spark.query("SELECT * FROM a").to_pylist()]
    assert sorted(found, key=str) == [(7, 2), (None, 1)]
    assert {row["key"] is None for row in log.read(topic).to_pylist()} == {True, False}


@pytest.mark.parametrize("maker", ["spark", "ksql"])
@pytest.mark.parametrize("keys", ["AVRO", "PROTOBUF"])
def test_a_declaration_without_the_format_of_keys_does_not_write(session, spark, log, topic, maker, keys):
    """In the spark dialect its keys are texts, which nobody of the topic could read; also where no other declaration is there."""
    with session(maker) as sql:
        sql.execute(
            f"CREATE TABLE a (`id` INT PRIMARY KEY, `v` INT) {of_topic(topic, keys)}; INSERT INTO a VALUES (5, 1); DROP TABLE a"
        )
    spark.execute(f"CREATE TABLE b (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC = '{topic}', VALUE_FORMAT = '{keys}')")
    for write in ("INSERT INTO b VALUES (5, 2)", "DELETE FROM b WHERE id = 5"):
        with pytest.raises(
            SqlError, match=rf"b cannot write keys of the topic {topic}: its keys are `id` int in the format {keys.lower()}"
        ):
            spark.execute(write)
    spark.execute(f"CREATE TABLE c (id INT PRIMARY KEY, v INT) {of_topic(topic, keys)}; INSERT INTO c VALUES (5, 3)")
    assert len(spellings(log, topic)) == 1


@pytest.mark.parametrize("format", FORMATS)
def test_keys_of_a_producer_do_not_depend_on_their_neighbours(spark, log, topic, format):
    """Each is a dict of Python's values, or of texts; what is in no column, at any depth, is refused, and what does not fit, by its row."""
    spark.execute(f"CREATE STREAM s (n SMALLINT KEY, w TIMESTAMP KEY, s STRUCT<x INT> KEY, v INT) {of_topic(topic, format)}")
    keys = [{"n": 7, "w": AT, "s": {"x": 1}}, {"n": 7, "w": "2020-01-02T03:04:05Z", "s": {"x": 1}}]
    with log.producer() as producer:
        producer.send_batch(topic, [{"key": key, "value": {"v": 1}} for key in (*keys, None, *reversed(keys))])
    assert len({row["key"] for row in log.read(topic).to_pylist() if row["key"] is not None}) == 1
    for wrong in (
        {**keys[0], "n": 70_000},
        {**keys[0], "s": {"X": 1}},
        {**keys[0], "s": {"x": 1, "y": 2}},
        {**keys[0], "w": "never"},
    ):
        with log.producer() as producer, pytest.raises(SchemaError, match=r"row 2, column '[nws]"):
            producer.send_batch(topic, [{"key": key, "value": {"v": 1}} for key in (*keys, wrong)])
    assert log.read(topic).num_rows == 5
    spark.execute(f"CREATE STREAM t (d DOUBLE KEY, s STRUCT<x INT, y STRUCT<z INT>> KEY, v INT) {of_topic(topic + '-t', format)}")
    right = {"d": 1.0, "s": {"x": 1, "y": {"z": 2}}}
    for other in ({"s": {"X": 1}}, {"s": {"x": 1, "y": {"Z": 2}}}, {"s": {"x": 1, "w": 2}}, {"d": True}, {"d": "much"}):
        with log.producer() as producer, pytest.raises(SchemaError, match=r"row 0, column '[ds]"):
            producer.send(f"{topic}-t", {"key": right | other, "value": {"v": 1}})
    with log.producer() as producer:
        producer.send(f"{topic}-t", {"key": right, "value": {"v": 1}})


@pytest.mark.parametrize("format", ["AVRO", "PROTOBUF"])
def test_what_a_key_of_a_producer_may_leave_out(sql, log, topic, format):
    """Columns, and fields of structs beside any others, which are null then; and times as the numbers that these formats have."""
    sql.execute(
        f"CREATE STREAM s (D DATE KEY, W TIMESTAMP KEY, S STRUCT<T TIMESTAMP, Y STRING> KEY, v INT) {of_topic(topic, format)}"
    )
    keys = [
        {"D": dt.date(2020, 1, 2), "W": AT, "S": {"T": AT}},
        {"D": 18263, "W": 1577934245000000, "S": {"T": AT, "Y": None}},
        {"W": AT},
    ]
    with log.producer() as producer:
        for key in keys:
            producer.send(topic, {"key": key, "value": {"V": 1}})
    found = sorted((row["D"] is None, row["W"], (row["S"] or {}).get("T")) for row in sql.query("SELECT * FROM S").to_pylist())
    assert found == [(False, AT, AT), (False, AT, AT), (True, AT, None)]
    assert len(spellings(log, topic)) == 2


@pytest.mark.parametrize("values", ["JSON", "AVRO", "PROTOBUF"])
def test_the_spark_dialect_writes_no_keys_that_the_ksql_dialect_has_otherwise(log, values):
    """Without a registry; texts and bytes are the same in both, and JSON and DELIMITED of several columns."""
    cases = {
        ("INT", "KAFKA"): [("STRING", "KAFKA", False), ("INT", "STRING", False)],
        ("STRING", "KAFKA"): [("STRING", "KAFKA", True), ("STRING", "STRING", True), ("STRING", "JSON", False)],
        ("BYTES", "KAFKA"): [("BINARY", "KAFKA", True)],
        ("INT", "JSON"): [("INT", "JSON", False)],
        ("INT", "AVRO"): [("INT", "STRING", False)],
    }
    for number, ((type, keys), others) in enumerate(cases.items()):
        given = f"WITH (KAFKA_TOPIC = 't{number}', VALUE_FORMAT = '{values}', KEY_FORMAT = '{{}}', PARTITIONS = 1)"
        with sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as ksql:
            ksql.execute(f"CREATE STREAM A{number} (`k` {type} KEY, `v` INT) {given.format(keys)}")
        with sk.SqlSession(log) as spark:
            for place, (other, format, is_written) in enumerate(others):
                literal = {"INT": "5", "STRING": "'a'", "BINARY": "X'61'"}[other]
                spark.execute(f"CREATE STREAM b{number}_{place} (k {other} KEY, v INT) {given.format(format)}")
                if is_written:
                    spark.execute(f"INSERT INTO b{number}_{place} VALUES ({literal}, 1)")
                else:
                    with pytest.raises(SqlError, match=f"cannot write keys of the topic t{number}: its keys are `k` "):
                        spark.execute(f"INSERT INTO b{number}_{place} VALUES ({literal}, 1)")


def test_a_wider_number_is_not_made_for_a_subject_of_keys_of_others(sql, client, topic):
    """Which the registry refuses in PROTOBUF: no key beyond the subject's could be written."""
    client.id_of(f"{topic}-key", "PROTOBUF", schema_made_of("protobuf", Schema.parse("K int")), register=True)
    client.set_compatibility(f"{topic}-key", "BACKWARD")
    with pytest.raises(SqlError, match=f"refuses the schema for the subject {topic}-key"):
        sql.execute(f"CREATE STREAM S (K BIGINT KEY, V INT) {of_topic(topic, 'PROTOBUF')}")
    sql.execute(f"CREATE STREAM S (K INT KEY, V INT) {of_topic(topic, 'PROTOBUF')}; INSERT INTO S VALUES (1, 2)")
