"""Transforms between a connector and its topic, both ways: keys of topics, other topics, dead letters, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.connectors import Polled, Sink, Source, run
from streamkit.errors import ConfigError, SchemaError
from streamkit.names import DELETED, RESERVED_COLUMNS
from tests.kit.sampling import TAKES_ALL

ROWS = pa.table(
    {
        "id": ["1", "2", "x", "3"],
        "amount": [1.5, -2.0, 3.0, None],
        "at": ["2024-02-29 12:00:00", "1999-12-31 23:59:59", None, "2024-03-01 00:00:00"],
    }
)


class Rows(Source):
    """Brings the rows of the class once."""

    ROWS: ClassVar[pa.Table] = ROWS

    def splits(self) -> Sequence[str]:
        return ["all-0"]

    def open(self, positions: Mapping[str, Mapping[str, int] | None]) -> None:
        self.is_done = positions["all-0"] is not None

    def poll(self, timeout: float) -> Polled | None:
        if self.is_done:
            return None
        self.is_done = True
        return Polled({"raw": self.ROWS}, {"all-0": {"done": 1}})


class Kept(Sink):
    """Keeps the rows in memory."""

    takes_other_names = True
    FOUND: ClassVar[list[pa.Table]] = []

    def topic(self, topic) -> None:
        self.heard = topic

    def open(self, generation, partitions):
        return None

    def put(self, rows: pa.Table, ends) -> None:
        assert rows.column_names[: len(self.heard.schema)] == list(self.heard.schema.names)
        assert rows.num_rows == 0 or set(rows["_topic"].to_pylist()) == {self.heard.name}
        self.FOUND.append(rows)


class Named(Kept):
    """A sink that takes no routers."""

    takes_other_names = False


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log" if TAKES_ALL else ":memory:") as log:
        yield log


@pytest.fixture
def kept(monkeypatch):
    found: list[pa.Table] = []
    monkeypatch.setattr(Kept, "FOUND", found)
    return found


def configured(*transforms, **more):
    """The settings of transforms: each a type, and its settings by name."""
    config = {"transforms": ",".join(f"t{n}" for n in range(len(transforms))), **more}
    for n, (kind, settings) in enumerate(transforms):
        config |= {f"transforms.t{n}.type": kind} | {f"transforms.t{n}.{name}": value for name, value in settings.items()}
    return config


KEYED = [
    ("Cast$Value", {"spec": "id:int32"}),
    ("ValueToKey", {"fields": "id"}),
    ("TimestampConverter$Value", {"field": "at", "target.type": "Timestamp", "format": "yyyy-MM-dd HH:mm:ss"}),
]
TOLERANT = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}


def test_a_source_with_transforms(log):
    """A topic that is created has the columns, types and key that the transforms give; a record that fails is a dead letter."""
    run([Rows("in", configured(*KEYED, **TOLERANT))], log, once=True)
    topic = log.topic("raw")
    assert (str(topic.schema), topic.key) == ("id int NOT NULL, amount double, at timestamp", ("id",))
    assert sorted(log.read("raw")["id"].to_pylist()) == [1, 2, 3]
    (letter,) = log.read("bad", columns=["key", "value", "_headers"]).to_pylist()
    said = {pair["key"].removeprefix("__connect.errors."): pair["value"].decode() for pair in letter["_headers"]}
    assert (letter["key"], letter["value"]) == (None, b'{"id": "x", "amount": 3.0, "at": null}')
    assert list(said) == [
        "topic", "connector.name", "task.id", "stage", "class.name", "exception.class.name", "exception.message", "exception.stacktrace",
    ]  # fmt: skip
    assert said["stage"] == "TRANSFORMATION"
    assert said["class.name"] == "org.apache.kafka.connect.transforms.Cast$Value"
    assert said["exception.class.name"] == "streamkit.connectors.transforms.transform.TransformError"
    assert "'x'" in said["exception.message"]


def test_a_failure_stops_the_task(log):
    """Without tolerance the first record that a transform refuses stops the task, named by the transform."""
    with pytest.raises(SchemaError, match=r"TRANSFORMATION: the transform t0 \(Cast\$Value\): 'x'"):
        run([Rows("in", configured(*KEYED))], log, once=True)


def test_routers_of_a_source(log):
    """Rows go to the topics that routers name, each with its own columns."""
    where = ("expr", {"select": "id, amount * 2 AS twice", "where": "amount > 0"})
    run([Rows("in", configured(where, ("RegexRouter", {"regex": "(.*)", "replacement": "$1.positive"})))], log, once=True)
    assert log.read("raw.positive").select(["id", "twice"]).to_pylist() == [{"id": "1", "twice": 3.0}, {"id": "x", "twice": 6.0}]
    assert "raw" not in log.topics()


def test_a_sink_with_transforms(log, kept):
    """A sink hears of the topic as the transforms give it, and gets its rows so, under the router's name; deletions too."""
    log.create_topic("people", "id int NOT NULL, name string, secret string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("people", {"id": 1, "name": "ada", "secret": "x"})
        producer.send("people", {"id": 2, "name": "bob", "secret": "y"})
        producer.send_batch("people", [{"id": 2, "name": None, "secret": None, DELETED: True}])
    chain = [
        ("ReplaceField$Value", {"exclude": "secret", "renames": "name:who"}),
        ("InsertField$Value", {"offset.field": "at", "topic.field": "from"}),
        ("RegexRouter", {"regex": "people", "replacement": "folk"}),
    ]
    run([Kept("out", configured(*chain, topics="people"))], log, once=True)
    rows = pa.concat_tables(kept).select(["id", "who", "at", "from", DELETED]).to_pylist()
    assert rows == [
        {"id": 1, "who": "ada", "at": 0, "from": "people", DELETED: False},
        {"id": 2, "who": "bob", "at": 1, "from": "people", DELETED: False},
        {"id": 2, "who": None, "at": None, "from": None, DELETED: True},
    ]


def test_a_sink_of_deletions_alone(log, kept):
    """A batch of deletions has the columns of all others."""
    log.create_topic("people", "id int NOT NULL, name string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send_batch("people", [{"id": 2, "name": None, DELETED: True}])
    run([Kept("out", configured(("ReplaceField$Value", {"renames": "name:who"}), topics="people"))], log, once=True)
    assert pa.concat_tables(kept).select(["id", "who"]).to_pylist() == [{"id": 2, "who": None}]


def test_routers_that_a_sink_cannot_take(log, kept):
    """A sink that names its files by the topic takes no router; none takes rows of one topic under two names."""
    log.create_topic("people", "id int", partitions=1)
    with log.producer() as producer:
        producer.send("people", {"id": 1})
    router = ("RegexRouter", {"regex": "people", "replacement": "folk"})
    with pytest.raises(ConfigError, match="it cannot have routers"):
        run([Named("named", configured(router, topics="people"))], log, once=True)
    with pytest.raises(ConfigError, match="a sink must write rows of one topic under one name"):
        run([Kept("out", configured(("TimestampRouter", {}), topics="people"))], log, once=True)
    assert kept == []


def test_key_and_value_that_differ(log):
    """A column of the key that the value has otherwise is an error that says what to do, not a silent choice."""
    deletion = ROWS.slice(0, 1).append_column(DELETED, pa.array([True]))
    rows = pa.concat_tables([ROWS.slice(0, 2).append_column(DELETED, pa.array([False, False])), deletion])

    class Deleting(Rows):
        ROWS = rows

    log.create_topic("raw", "id string NOT NULL, amount double, at string", key="id", partitions=1)
    with pytest.raises(SchemaError, match=r"transform both alike, with \$Key and with \$Value"):
        run([Deleting("in", configured(("MaskField$Key", {"fields": "id"})))], log, once=True)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"transforms": "a"}, "needs the setting transforms.a.type"),
        ({"transforms": "a", "transforms.a.type": "Cast"}, r"expected Cast\$Key or Cast\$Value"),
        ({"transforms": "a", "transforms.a.type": "com.acme.Cast$Value"}, "expected one of Cast"),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.b.type": "Filter"}, "expected its alias there"),
        ({"transforms": "a,a", "transforms.a.type": "Filter"}, "has a name twice"),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.exclude": "x"}, "has no setting 'exclude'"),
        (
            {"transforms": "a", "transforms.a.type": "ReplaceField$Value", "transforms.a.blacklist": "x"},
            "has no setting 'blacklist'",
        ),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"}, "is not among predicates"),
        ({"predicates": "p", "predicates.p.type": "Nothing"}, "expected one of HasHeaderKey"),
        ({"predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "("}, "no regular expression"),
        ({"transforms": "a", "transforms.a.type": "Cast$Value", "transforms.a.spec": "x:int"}, "with a type of int8"),
        ({"transforms": "a", "transforms.a.type": "TimestampRouter", "transforms.a.timestamp.format": "YYYY"}, "the letter 'Y'"),
        (
            {"transforms": "a", "transforms.a.type": "InsertField$Value", "transforms.a.offset.field": "o"},
            "offset.field is for sinks",
        ),
        ({"transforms": "a", "transforms.a.type": "expr", "transforms.a.where": "a +"}, "syntax error"),
        ({"transforms": "a", "transforms.a.type": "expr", "transforms.a.select": "a + 1"}, "has no name"),
        (
            {"transforms": "a", "transforms.a.type": "RegexRouter", "transforms.a.regex": "a", "transforms.a.replacement": "$1"},
            "group",
        ),
    ],
)
def test_configurations_that_are_refused(config, said):
    """What is wrong with transforms is said when the connector is made, before anything runs."""
    with pytest.raises(ConfigError, match=said):
        Rows("in", config)


def test_unwrap_before_a_sink(log, kept):
    """A topic of Debezium's envelopes goes out as its rows; a deletion is one."""
    row = "struct<id:int,name:string>"
    log.create_topic("changes", f"id int NOT NULL, before {row}, after {row}, op string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("changes", {"id": 1, "before": None, "after": {"id": 1, "name": "ada"}, "op": "c"})
        producer.send("changes", {"id": 1, "before": {"id": 1, "name": "ada"}, "after": None, "op": "d"})
    unwrap = ("io.debezium.transforms.ExtractNewRecordState", {"add.fields": "op"})
    run([Kept("out", configured(unwrap, topics="changes"))], log, once=True)
    assert pa.concat_tables(kept).select(["id", "name", "__op", DELETED]).to_pylist() == [
        {"id": 1, "name": "ada", "__op": "c", DELETED: False},
        {"id": 1, "name": None, "__op": None, DELETED: True},
    ]


def test_a_topic_with_another_key(log):
    """A topic that is there keeps its key; transforms that give another are an error."""
    log.create_topic("raw", "id int NOT NULL, amount double NOT NULL, at timestamp", key="amount", partitions=1)
    with pytest.raises(ConfigError, match="give the key id, and the topic raw has the key amount"):
        run([Rows("in", configured(*KEYED, **TOLERANT))], log, once=True)


class Bytes(Kept):
    """A sink of bytes."""

    IS_RAW = True

    def put(self, rows: pa.Table, ends) -> None:
        self.FOUND.append(rows)


def test_a_sink_of_bytes(log, kept):
    """Transforms work on columns, and the bytes are those of what they gave: another key, fewer columns, a header."""
    log.create_topic("people", "id int NOT NULL, name string, mail string", key="id", partitions=1)
    with log.producer() as producer:
        producer.send("people", {"id": 1, "name": "ada", "mail": "a@b"})
    chain = [
        ("ValueToKey", {"fields": "name"}),
        ("ExtractField$Key", {"field": "name"}),
        ("HeaderFrom$Value", {"fields": "mail", "headers": "to", "operation": "move"}),
    ]
    run([Bytes("out", configured(*chain, topics="people"))], log, once=True)
    (row,) = pa.concat_tables(kept).to_pylist()
    assert (row["key"], row["value"]) == (b"ada", b'{"id":1,"name":"ada"}')
    assert row["_headers"] == [{"key": "to", "value": b"a@b"}]


def test_bytes_need_a_format(log):
    """Bytes have no columns: the error of a transform that needs them names the setting."""

    class Raw(Rows):
        IS_RAW = True
        ROWS = pa.table({"key": pa.array([b"k"]), "value": pa.array([b"{}"])})

    with pytest.raises(
        ConfigError, match=r"needs a value of columns; found one that is binary; value\.format and value\.schema say how"
    ):
        run([Raw("in", configured(("ReplaceField$Value", {"exclude": "x"})))], log, once=True)
    run([Raw("hoisted", configured(("HoistField$Value", {"field": "body"})))], log, once=True)
    assert log.read("raw").select(["key", "body"]).to_pylist() == [{"key": b"k", "body": b"{}"}]
    assert log.topic("raw").key == ("key",)


def test_topics_that_get_one_name(log, kept):
    """Topics that a router gives one name go out together if their columns are the same; else the sink does not begin."""
    for name, schema in (("a-x", "id int"), ("a-y", "id int"), ("a-z", "id string")):
        log.create_topic(name, schema, partitions=1)
        with log.producer() as producer:
            producer.send(name, {"id": 1 if schema == "id int" else "1"})
    router = ("RegexRouter", {"regex": "(.*)-.*", "replacement": "$1"})
    run([Kept("out", configured(router, topics="a-x,a-y"))], log, once=True)
    assert pa.concat_tables(kept)["_topic"].to_pylist() == ["a", "a"]
    with pytest.raises(ConfigError, match="give two topics the name a"):
        run([Kept("other", configured(router, topics="a-x,a-z"))], log, once=True)


MISTAKES = [
    ({"type": "expr", "select": "id, upper(nome) AS name"}, "there is no column 'nome'"),
    ({"type": "expr", "where": "amont > 0"}, "there is no column 'amont'"),
    ({"type": "expr", "select": "*, id + array(1) AS x"}, "the columns are"),
    ({"type": "ValueToKey", "fields": "di"}, "there is no field 'di'"),
    ({"type": "ExtractField$Value", "field": "di"}, "there is no field 'di'"),
    ({"type": "HeaderFrom$Value", "fields": "di", "headers": "h", "operation": "copy"}, "there is no field 'di'"),
    ({"type": "InsertField$Value", "static.field": "id", "static.value": "x"}, "there is a field 'id' already"),
    ({"type": "ReplaceField$Value", "renames": "id:at"}, "two fields would be called 'at'"),
    ({"type": "TimestampConverter$Value", "field": "amount", "target.type": "Date"}, "is no time"),
    ({"type": "MaskField$Value", "fields": "amount", "replacement": "x"}, "is no double"),
]


@pytest.mark.parametrize(("mistake", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_of_the_settings_stops_the_task_whatever_is_tolerated(log, mistake, said):
    """No record is to blame: none is lost, no position moves, nothing advises to tolerate it, and a corrected setting has all."""
    config = {"transforms": "t", **{f"transforms.t.{name}": value for name, value in mistake.items()}, **TOLERANT}
    with pytest.raises(ConfigError, match=said) as raised:
        run([Rows("in", {**config, "topic": "raw"})], log, once=True)
    assert "errors.tolerance" not in str(raised.value)
    assert "bad" not in log.topics() or log.read("bad").num_rows == 0
    run([Rows("in", {"topic": "raw"})], log, once=True)
    assert log.read("raw").num_rows == ROWS.num_rows
    with pytest.raises((ConfigError, SchemaError), match=said) as refused:
        run([Kept("out", {**config, "topics": "raw"})], log, once=True)
    assert "errors.tolerance" not in str(refused.value)


@pytest.mark.parametrize(
    "select",
    ["nosuch(id) AS x", "upper(nosuch(id)) AS x", "transform(array(1), x -> nosuch(x)) AS x", "sum(amount) AS x", "rand() AS x"],
)
def test_a_function_that_there_is_not_is_an_error_before_anything_runs(select):
    """Also deep inside, and whatever the columns are."""
    with pytest.raises(ConfigError, match=r"nosuch|aggregate|rand"):
        Rows("in", {"topic": "raw", "transforms": "t", "transforms.t.type": "expr", "transforms.t.select": f"*, {select}"})


RESERVED = {
    "insert": ("InsertField$Value", {"static.field": "{}", "static.value": "true"}),
    "topic": ("InsertField$Value", {"topic.field": "{}"}),
    "rename": ("ReplaceField$Value", {"renames": "id:{}"}),
    "expr": ("expr", {"select": "*, id AS `{}`"}),
    "hoist": ("HoistField$Value", {"field": "{}"}),
    "key": ("ReplaceField$Key", {"renames": "id:{}"}),
}


@pytest.mark.parametrize(
    ("kind", "own"),
    [*((kind, "_offset") for kind in RESERVED), *(("insert", own) for own in (*sorted(RESERVED_COLUMNS), "_Row"))],
)
@pytest.mark.parametrize("is_source", [True, False])
def test_names_of_own_columns(log, kind, own, is_source):
    """A transform that makes a column of a name that StreamKit's own have is one error, whatever is tolerated; no value vanishes."""
    class_name, settings = RESERVED[kind]
    transforms = configured(
        ("ValueToKey", {"fields": "id"}),
        (class_name, {name: text.format(own) for name, text in settings.items()}),
        **TOLERANT,
    )
    log.create_topic("people", "id string, name string", key="id")
    connector = Rows("in", transforms) if is_source else Kept("out", transforms | {"topics": "people"})
    with pytest.raises(
        ConfigError, match=f"a row behind the transforms t0, t1 has the column '{own}', a name that StreamKit's own"
    ):
        run([connector], log, once=True)
    assert "raw" not in log.topics() and log.read("bad").num_rows == 0


def test_a_name_of_own_columns_on_the_way(log):
    """Between two transforms a column may be called as it likes."""
    config = configured(
        ("InsertField$Value", {"static.field": "_offset", "static.value": "7"}),
        ("ReplaceField$Value", {"renames": "_offset:seven"}),
    )
    run([Rows("in", config)], log, once=True)
    assert "7" in log.read("raw")["seven"].to_pylist()


class TwoKinds(Rows):
    """Records that bring their own columns."""

    has_schemas_of_records = True

    def poll(self, timeout):
        polled = super().poll(timeout)
        return polled and Polled({"raw": [self.ROWS, self.ROWS.drop_columns(["amount"])]}, polled.positions)


@pytest.mark.parametrize(("where", "is_mistake"), [("amount > 0", False), ("amont > 0", True)])
def test_records_that_bring_their_columns(log, where, is_mistake):
    """One that lacks a column is a dead letter beside others that have it; a column that none has is a mistake of the setting."""
    config = {
        "topic": "raw",
        "transforms": "t",
        "transforms.t.type": "expr",
        "transforms.t.where": where,
        "errors.tolerance": "all",
    }
    if is_mistake:
        with pytest.raises(ConfigError, match="there is no column 'amont'"):
            run([TwoKinds("in", config)], log, once=True)
        return
    run([TwoKinds("in", {**config, "errors.deadletterqueue.topic.name": "bad"})], log, once=True)
    assert (log.read("raw").num_rows, log.read("bad").num_rows) == (2, 4)
