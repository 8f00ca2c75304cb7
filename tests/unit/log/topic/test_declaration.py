"""Promises of what is asked for as a topic: it is refused in words, or it is there as it was asked for."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.errors import ConfigError, SchemaError, StreamKitError, TopicNotFoundError
from streamkit.log.opening import open_log
from streamkit.log.topic.settings import SETTINGS
from streamkit.schema import Schema, SchemaColumn

EMPTY = pa.schema([])
NAMES = st.sampled_from(
    ["", "k", "K", "k`", " ", "a,b", "\0", "\x1b", "\ud800", "_offset", "_Topic", "ß", "ẞ", "İ", 3, None]
) | st.text(max_size=6)
TYPES = st.sampled_from(
    ["int", "Integer", " bigint", "decimal", "decimal(5, 2)", "decimal(39,0)", "strng", "", "void", "int not null", 3, None]
)
COLUMNS = st.builds(SchemaColumn, NAMES, TYPES, st.sampled_from([True, False, None, 1]))
ARROW_TYPES = st.sampled_from(
    [
        pa.int8(), pa.uint64(), pa.float16(), pa.decimal256(70, 3), pa.decimal128(5, -2), pa.timestamp("ns", "Europe/Oslo"), pa.time32("s"),
        pa.date64(), pa.large_string(), pa.binary(3), pa.dictionary(pa.int8(), pa.string()), pa.null(), pa.struct([]), pa.list_(pa.struct([])),
        pa.map_(pa.string(), pa.int8()), pa.month_day_nano_interval(), pa.bool8(), pa.json_(),
    ]
)  # fmt: skip
FIELDS = st.builds(
    lambda name, kind, nullable: pa.field(name, kind, nullable or kind == pa.null()),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    ARROW_TYPES,
    st.booleans(),
)
SCHEMAS = (
    st.lists(COLUMNS, max_size=3).map(lambda columns: lambda: Schema(tuple(columns)))
    | st.lists(COLUMNS, max_size=3).map(lambda columns: lambda: Schema(columns))  # type: ignore[arg-type]
    | st.lists(FIELDS, max_size=3).map(lambda fields: lambda: pa.schema(fields))
    | st.text(max_size=12).map(lambda text: lambda: text)
    | st.sampled_from([None, 3, b"k int", ["k int"], {"k": "int"}, "k int", "k string, v void", "`k`` ` int"]).map(
        lambda odd: lambda: odd
    )
)
ODD = st.sampled_from([None, 3, "k", "\ud800", b"k", ["k"], ("k",), {"k"}, {"k": 1}, ["k", "k"], [None], [["k"]], "", ()])
VALUES = st.sampled_from(
    [None, 3, -1, 0.5, "compact", "delete, compact", "delete,delete", "", ",", "zstd", [1], float("nan"), 10**30, True]
)
CONFIGS = st.dictionaries(st.sampled_from(list(SETTINGS)), VALUES, max_size=2) | st.sampled_from([None, "x", ["x"], {3: 4}, 0])


def as_written(text):
    """How a topic that this version would refuse was written by one that did not."""
    return {
        "id": 0, "name": "old", "schema": text, "key": [], "timestamp": None, "partitions": 1, "config": {}, "partition_by": [],
        "internal": False, "version": 1, "format": None,
    }  # fmt: skip


@pytest.fixture(params=["", "`x` strng", "`x` 3 NOT NULL"])
def log_with_an_odd_topic(request, empty_log):
    """A log that holds a topic with a schema that is refused today."""
    empty_log.create_topic("sound", "k int", partitions=1)
    empty_log.create_topic("old", "k int", partitions=1)
    with empty_log.catalog.database.write() as transaction:
        transaction.execute("UPDATE topic SET declaration = ? WHERE name = 'old'", (json.dumps(as_written(request.param)),))
        transaction.execute("UPDATE topic_schema SET schema = ? WHERE topic_id = 2", (request.param,))
    return empty_log


@given(SCHEMAS, ODD, ODD, ODD, CONFIGS)
@example(lambda: EMPTY, None, None, None, None)
@example(lambda: Schema(()), None, None, None, None)
@example(lambda: Schema((SchemaColumn("k", "Integer"),)), None, None, None, None)
def test_what_is_created_is_there_as_it_was_created(schema, key, timestamp, partition_by, config):
    """Whatever `create_topic` takes, `topic` gives back equal, and it can be described and deleted; the rest is refused in words."""
    with open_log(":memory:") as log:
        try:
            created = log.create_topic("t", schema(), key, timestamp, 2, config, partition_by)
        except StreamKitError:
            assert log.topics() == []
            return
        assert log.topic("t") == created
        assert log.read("t").num_rows == 0
        assert log.describe("t")["name"] == "t"
        assert log.create_topic("t", schema(), key, timestamp, 2, config, partition_by) == created
        log.delete_topic("t")


@pytest.mark.parametrize("schema", [EMPTY, Schema(()), "", " "], ids=repr)
def test_a_topic_has_columns(empty_log, schema):
    """A schema without columns is refused, in whichever form, when a topic is created and when it is altered."""
    with pytest.raises(SchemaError, match="the schema is empty; expected columns such as"):
        empty_log.create_topic("t", schema)
    empty_log.create_topic("t", "k int")
    with pytest.raises(SchemaError, match="the schema is empty; expected columns such as"):
        empty_log.alter_topic("t", schema=schema)


@pytest.mark.every_catalog
def test_an_odd_topic_does_not_hide_the_others(log_with_an_odd_topic):
    """A topic that an older version took is listed and described beside the others, maintained, and can be deleted."""
    log = log_with_an_odd_topic
    assert log.topics() == ["old", "sound"]
    assert [log.describe(name)["name"] for name in log.topics()] == ["old", "sound"]
    log.maintain()
    log.fsck()

    log.delete_topic("old")

    assert log.topics() == ["sound"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (Schema((SchemaColumn("x", "strng"),)), "the type 'strng' cannot be a column's; expected one of boolean"),
        (
            Schema((SchemaColumn("x", 3),)),  # type: ignore[arg-type]
            "the type 3 cannot be a column's",
        ),
        (pa.schema([("x", pa.struct([]))]), r"the fields of a struct are \[\]; expected at least one"),
        (3, "found 3 as a schema; expected text such as"),
    ],
    ids=str,
)
def test_a_schema_of_another_kind_is_refused(empty_log, schema, reason):
    """Anything but a schema, or one with unknown types, is refused when a topic is created and when it is altered."""
    with pytest.raises(SchemaError, match=reason):
        empty_log.create_topic("t", schema)
    empty_log.create_topic("t", "k int")
    with pytest.raises(SchemaError, match=reason):
        empty_log.alter_topic("t", schema=schema)


@pytest.mark.parametrize(
    ("name", "flaw"),
    [
        ("\ud800", "character 1 is U\\+D800"), ("a\0", "character 2 is U\\+0000"), ("", "it has 0 characters"), ("n" * 300, "it has 300 characters"),
        ("оrders", "character 1 is U\\+043E CYRILLIC SMALL LETTER O"), (3, "it is a int"), (None, "it is a NoneType"), (["a"], "it is a list"),
    ],
    ids=ascii,
)  # fmt: skip
def test_no_topic_has_a_name_that_cannot_be(empty_log, name, flaw):
    """To ask for a topic of a name that none can have is the error of one that there is not, and says what is wrong with it."""
    for ask in (empty_log.topic, empty_log.describe, empty_log.delete_topic, empty_log.read, empty_log.alter_topic):
        with pytest.raises(TopicNotFoundError, match=f"does not exist, and cannot: (its )?{flaw}.*; there is none"):
            ask(name)


@pytest.mark.parametrize(("argument", "error", "reason"), [
    ({"key": 3}, SchemaError, "found key=3; expected the name of a column, or a list of names"),
    ({"key": {"a", "b"}}, SchemaError, "expected the name of a column, or a list of names"),
    ({"key": b"a"}, SchemaError, "found key=b'a'; expected"),
    ({"partition_by": 3}, SchemaError, "found partition_by=3; expected"),
    ({"config": "x"}, ConfigError, "found 'x' as the settings of a topic; expected names and values, as in"),
    ({"config": [("retention.ms", 1)]}, ConfigError, "as the settings of a topic; expected names and values"),
])  # fmt: skip
def test_arguments_of_another_kind_are_refused(empty_log, argument, error, reason):
    """An argument of the wrong kind is refused with what was found and what was expected."""
    with pytest.raises(error, match=reason):
        empty_log.create_topic("t", "a int, b int", **argument)


@pytest.mark.parametrize("config", ["x", "", [3], 0, {3}], ids=repr)
def test_settings_of_another_kind_are_refused(empty_log, config):
    """Altering a topic takes its settings as names and values, as creating it does."""
    empty_log.create_topic("t", "a int")
    with pytest.raises(ConfigError, match="as the settings of a topic; expected names and values"):
        empty_log.alter_topic("t", config=config)


@pytest.mark.parametrize("topics", ["t", 3], ids=repr)
def test_topics_to_maintain_are_a_list(empty_log, topics):
    """The letters of a name are not taken for topics."""
    empty_log.create_topic("t", "a int")
    with pytest.raises(ConfigError, match="as the topics to maintain; expected a list of names"):
        empty_log.maintain(topics)
    empty_log.maintain(["t"])


@pytest.mark.parametrize("before", ["x", None, [1], 1.5, True, {"x": 1}, {0: "x"}, {False: 0}, 10**30], ids=repr)
def test_records_are_deleted_before_an_offset(empty_log, before):
    """Records are deleted before an offset that is a whole number, of a partition that there is, and before nothing else."""
    empty_log.create_topic("t", "a int")
    with pytest.raises(StreamKitError, match="records cannot be deleted before"):
        empty_log.delete_records("t", before)


@pytest.mark.parametrize("moment", [10**30, -(10**30)])
def test_a_time_has_64_bits(empty_log, moment):
    """A time that no record can have is refused, not passed on to what cannot hold it."""
    empty_log.create_topic("t", "a int")
    with pytest.raises(ConfigError, match="expected whole milliseconds since 1970"):
        empty_log.offsets_for_times("t", moment)
    with pytest.raises(ConfigError, match="expected whole milliseconds since 1970"):
        empty_log.read("t", start_time=moment)
