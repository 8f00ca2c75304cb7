"""Delta tables in and out: the contract, upserts, the change data feed, and versions that are gone."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import random
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.delta import DeltaSink, DeltaSource
from streamkit.connectors.delta import source as delta_source
from streamkit.connectors.runtime.positions import change_positions
from streamkit.errors import ConfigError, SchemaError
from tests.kit.sampling import TAKES_ALL, combined
from tests.unit.connectors.contract import RefusingContract, SinkContract, SourceContract, UpsertContract

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log" if TAKES_ALL else ":memory:") as log:
        yield log


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "table")


def rows_of(path):
    return DeltaTable(path).to_pyarrow_table().to_pylist()


class TestSource(SourceContract):
    """Appends to a table."""

    WAYS = ("snapshot", "changes")

    @pytest.fixture(autouse=True)
    def _table(self, path, way):
        self.path, self.mode = path, way
        self._create()

    def _create(self):
        DeltaTable.create(self.path, pa.schema([("n", pa.int64()), ("text", pa.string())]), configuration=FEED)

    def make_again(self):
        shutil.rmtree(self.path)
        self._create()
        return self.mode == "snapshot"  # of changes the topic loses the former rows

    def source(self, **settings):
        return DeltaSource("in", {"path": self.path, "topic": "numbers", "key": "n", "read.mode": self.mode, **settings})

    def add(self, first, count):
        rows = self.expected(first, count)
        write_deltalake(self.path, pa.table({"n": [n for n, _ in rows], "text": [text for _, text in rows]}), mode="append")

    def expected(self, first, count):
        return [(n, f"text {n}") for n in range(first, first + count)]

    def found(self, log):
        return [(row["n"], row["text"]) for row in log.read("numbers").to_pylist()]


class TestSink(SinkContract):
    """A table that the sink creates."""

    WAYS = ("append", "upsert")

    @pytest.fixture(autouse=True)
    def _table(self, path, way):
        self.path, self.mode = path, way

    def sink(self, tasks=1):
        return DeltaSink("out", path=self.path, topics="numbers", write_mode=self.mode, tasks_max=tasks)

    def written(self):
        return [(row["n"], row["text"]) for row in rows_of(self.path)]

    def drop(self):
        shutil.rmtree(self.path)
        return "it has lost rows"


class TestRefused(RefusingContract):
    """A table with constraints, or a column that must not be null, or folders named by values."""

    WAYS = (
        ("append", "constraint"), ("upsert", "null"), ("append", "null"), ("upsert", "constraint"), ("append", "folder"), ("upsert", "folder"),
    )  # fmt: skip

    @pytest.fixture(autouse=True)
    def _table(self, path, way):
        self.path, (self.mode, self.why) = path, way

    def refusing(self, batch_rows, errors):
        return DeltaSink("out", errors, path=self.path, topics="numbers", write_mode=self.mode, batch_rows=batch_rows)

    def begin(self, refused):
        text = pa.field("text", pa.string(), nullable=self.why != "null")
        folders = ["text"] if self.why == "folder" else None
        table = DeltaTable.create(self.path, pa.schema([pa.field("n", pa.int64()), text]), partition_by=folders)
        if self.why == "constraint":
            table.alter.add_constraint({"liked": "text <> 'bad'", "short": "text <> 'long'"})

    def bad(self, n):
        if self.why == "folder":
            return (n, f"{n} {'x' * 300}")
        return (n, None if self.why == "null" else "bad" if n % 2 else "long")

    def reason(self, n):
        if self.why == "folder":
            return f"partitioned by 'text', found text={n} x+, and the folder of a value has a longer name than the storage takes"
        return "'text'.* must not be null" if self.why == "null" else "constraint liked" if n % 2 else "constraint short"

    def kept(self):
        return [row["n"] for row in rows_of(self.path)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("value", [5e-324, 1e300])
def test_folders_of_numbers_with_many_digits(log, path, mode, value):
    """The library writes them all into the folder's name: what is too long for a file system is the record's error."""
    log.create_topic("numbers", "n int NOT NULL, v double", key="n", partitions=1)
    with log.producer() as producer:
        producer.send_batch("numbers", [{"n": 1, "v": 1.5}, {"n": 2, "v": value}, {"n": 3, "v": None}])
    settings = {"path": path, "topics": "numbers", "write.mode": mode, "partition.by": "v"}
    with pytest.raises(SchemaError, match=rf"offset 1, .* partitioned by 'v', found v={re.escape(str(value))}, .* 1e300"):
        run([DeltaSink("out", settings)], log, once=True)
    run([DeltaSink("out", {**settings, "errors.tolerance": "all"})], log, once=True)
    assert sorted(row["n"] for row in rows_of(path)) == [1, 3]


class TestUpserts(UpsertContract):
    """A table that the sink merges into."""

    BATCHES = (20, 1000)
    HAS_NULLS_IN_KEYS = True

    @pytest.fixture(autouse=True)
    def _table(self, path):
        self.path = path

    def upserting(self, batch_rows):
        return DeltaSink("out", path=self.path, topics="people", write_mode="upsert", batch_rows=batch_rows)

    def kept(self):
        return [(row["id"], row["city"], row["name"]) for row in rows_of(self.path)]


def test_types_there_and_back(log, path):
    """Every type arrives in the table, and comes back from it."""
    schema = (
        "k int NOT NULL, b boolean, t tinyint, s smallint, l bigint, f float, d double, x string, y binary, day date, at timestamp, "
        "wall timestamp_ntz, price decimal(12,2), tags array<string>, place struct<lat:double,names:map<string,int>>"
    )
    log.create_topic("kinds", schema, key="k")
    row = {
        "k": 1, "b": True, "t": -1, "s": 2, "l": 1 << 40, "f": 1.5, "d": 0.1, "x": "ä\n", "y": b"\0\xff", "day": dt.date(2020, 2, 29),
        "at": dt.datetime(2020, 1, 1, 12, 0, 0, 5, dt.timezone.utc), "wall": dt.datetime(2020, 1, 1), "price": decimal.Decimal("12.30"),
        "tags": ["a", None], "place": {"lat": 1.0, "names": {"x": 1}},
    }  # fmt: skip
    with log.producer() as producer:
        producer.send_batch("kinds", [row, dict.fromkeys(row) | {"k": 2}])
    run([DeltaSink("out", path=path, topics="kinds")], log, once=True)
    run([DeltaSource("in", path=path, topic="back", key="k")], log, once=True)
    found = [{name: one[name] for name in row} for one in log.decode("back", log.read("back"))]
    assert sorted(found, key=lambda one: one["k"]) == [row, dict.fromkeys(row) | {"k": 2}]
    assert {column.name: column.type for column in log.topic("back").schema} == {
        column.name: column.type for column in log.topic("kinds").schema
    }


def test_the_change_data_feed(log, path):
    """Updates come as rows, deletions as deletions, whoever made them."""
    write_deltalake(path, pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), configuration=FEED)
    source = DeltaSource("in", path=path, topic="people", key="id", read_mode="changes")
    run([source], log, once=True)
    table = DeltaTable(path)
    table.update(updates={"name": "'B'"}, predicate="id = 2")
    table.delete("id = 3")
    table.optimize.compact()
    run([source], log, once=True)
    found: dict[int, list[tuple[str | None, bool]]] = {}
    for row in log.read("people").to_pylist():
        found.setdefault(row["id"], []).append((row["name"], row["_deleted"]))
    assert {key: rows[-1] for key, rows in found.items()} == {1: ("a", False), 2: ("B", False), 3: (None, True)}
    assert sum(map(len, found.values())) == 5


@pytest.mark.parametrize("transforms", [{}, {"transforms": "all", "transforms.all.type": "expr", "transforms.all.select": "*"}])
def test_a_topic_of_changes_is_the_table(log, path, monkeypatch, transforms):
    """Whatever changes rows and keys, the topic has for each key what the table has; also if a version comes in many polls."""
    monkeypatch.setattr(delta_source, "ROWS_MAX", 3)
    chance = random.Random(5)
    write_deltalake(path, pa.table({"id": list(range(6)), "name": ["a"] * 6}), configuration=FEED)
    settings = {"path": path, "topic": "people", "key": "id", "read.mode": "changes", **transforms}
    for step in range(14 if TAKES_ALL else 8):
        _change(path, chance, step)
        run([DeltaSource("in", settings)], log, once=True)
        kept: dict[int, str] = {}
        for row in log.read("people").to_pylist():
            if row.get("_deleted"):
                kept.pop(row["id"], None)
            else:
                kept[row["id"]] = row["name"]
        assert kept == {row["id"]: row["name"] for row in rows_of(path)}, step


def _change(path, chance, step):
    """Another version: keys are moved, merged, overwritten, deleted, restored or added."""
    table = DeltaTable(path)
    some, name = chance.sample(range(20), 6), f"'{step}'"
    match step % 7:
        case 0:
            table.update(updates={"id": "id + 1", "name": name}, predicate="id % 2 = 0 OR id > 2")
        case 1:
            rows = pa.table({"id": some, "name": [name] * 6})
            write_deltalake(path, rows, mode="overwrite")
        case 2:
            rows = pa.table({"id": [some[0], 90 + step], "name": [name] * 2})
            merge = table.merge(rows, "target.id = source.id", source_alias="source", target_alias="target")
            merge = merge.when_matched_update({"id": "source.id + 30", "name": "source.name"})
            merge.when_not_matched_insert({"id": "source.id", "name": "source.name"}).execute()
        case 3:
            table.delete(f"id = {some[1]} OR id > 10")
        case 4:
            table.restore(table.version() - 1)
        case 5:
            table.update(updates={"name": name})
        case _:
            table.delete()
            write_deltalake(path, pa.table({"id": some, "name": [name] * 6}), mode="append")


@pytest.mark.parametrize("is_snapshot", [False, True])
def test_a_position_within_a_version(path, monkeypatch, is_snapshot):
    """The library gives the rows of a version's files in any order: one that goes on within it misses none, and repeats none."""
    monkeypatch.setattr(delta_source, "ROWS_MAX", 500)
    rows = pa.table({"id": list(range(4000)), "part": [n % 20 for n in range(4000)]})
    write_deltalake(path, rows, partition_by=["part"], configuration=FEED)
    found: list[int] = []
    position: Mapping[str, Any] = {"version": 0, "rows": 0, "snapshot": is_snapshot}
    while position["version"] == 0:
        source = DeltaSource("in", path=path, topic="numbers", key="id", read_mode="changes")
        source.open({"table": position})
        polled = source.poll(0)
        assert polled is not None
        found += pa.table(polled.tables["numbers"])["id"].to_pylist()
        position = polled.positions["table"]
    assert sorted(found) == list(range(4000))


def test_renamed_keys_of_changes(log, path):
    """A key that is renamed in key and value deletes as any; one that only values have is refused once a row changes."""
    write_deltalake(path, pa.table({"id": [1, 2], "name": ["a", "b"]}), configuration=FEED)
    sides = {
        "transforms": "v,k",
        "transforms.v.type": "ReplaceField$Value",
        "transforms.v.renames": "id:number",
        "transforms.k.type": "ReplaceField$Key",
        "transforms.k.renames": "id:number",
    }
    config = {"path": path, "read.mode": "changes"}
    both = DeltaSource("both", {**config, **sides, "topic": "both", "key": "id"})
    of_values = {name: value for name, value in sides.items() if ".k." not in name} | {"transforms": "v"}
    one = DeltaSource("one", {**config, **of_values, "topic": "one", "key": "number"})
    run([both], log, once=True)
    run([one], log, once=True)
    DeltaTable(path).update(updates={"id": "9"}, predicate="id = 1")
    run([both], log, once=True)
    kept = {row["number"]: row["_deleted"] for row in sorted(log.read("both").to_pylist(), key=lambda row: row["_offset"])}
    assert kept == {1: True, 2: False, 9: False}
    with pytest.raises(ConfigError, match=r"key=number is not among its columns id, name"):
        run([one], log, once=True)


def test_a_position_of_an_earlier_order(path):
    """A position within changes that does not say their order counts rows of another one: the version is read again."""
    write_deltalake(path, pa.table({"id": [1, 2, 3]}), configuration=FEED)
    source = DeltaSource("in", path=path, topic="numbers", key="id", read_mode="changes")
    source.open({"table": {"version": 0, "rows": 2, "snapshot": False}})
    polled = source.poll(0)
    assert polled is not None
    assert pa.table(polled.tables["numbers"]).num_rows == 3


def test_rows_that_change_are_no_snapshot(log, path):
    """A version that removes rows stops a source of added rows; one that only compacts files does not."""
    write_deltalake(path, pa.table({"id": [1, 2]}))
    write_deltalake(path, pa.table({"id": [3]}), mode="append")
    source = DeltaSource("in", path=path, topic="rows")
    run([source], log, once=True)
    DeltaTable(path).optimize.compact()
    write_deltalake(path, pa.table({"id": [4]}), mode="append")
    run([source], log, once=True)
    assert sorted(row["id"] for row in log.read("rows").to_pylist()) == [1, 2, 3, 4]
    DeltaTable(path).delete("id = 1")
    with pytest.raises(ConfigError, match=r"removes or changes rows.* offsets set \w+ table '.\"version\": \d+"):
        run([source], log, once=True)


def test_a_table_of_changes_that_was_made_again(log, path):
    """The topic is the new table: what only the former one had is deleted, and others' rows of the same keys are replaced."""
    settings = {"path": path, "topic": "rows", "key": "id", "read.mode": "changes"}
    for rows in ({"id": [1, 2], "v": ["a", "b"]}, {"id": [2, 3], "v": ["B", "C"]}):
        shutil.rmtree(path, ignore_errors=True)
        write_deltalake(path, pa.table(rows), configuration=FEED)
        run([DeltaSource("in", settings, recreated_mode="begin")], log, once=True)
    last = {row["id"]: row for row in log.read("rows").to_pylist()}
    assert {id: row["v"] for id, row in last.items() if not row["_deleted"]} == {2: "B", 3: "C"}
    with log.producer() as producer:
        producer.send("rows", {"id": 9, "v": "of another"})
    run([DeltaSource("in", settings, recreated_mode="begin")], log, once=True)
    assert not [row for row in log.read("rows").to_pylist() if row["id"] == 9 and row["_deleted"]]


def test_changes_that_nobody_has(log, path):
    """A feed that was off for a while, and values of a column's former type, are refused with both ways to go on."""
    settings = {"path": path, "topic": "rows", "key": "id", "read.mode": "changes"}
    write_deltalake(path, pa.table({"id": [1], "v": ["a"]}), configuration=FEED)
    run([DeltaSource("in", settings)], log, once=True)
    write_deltalake(path, pa.table({"id": [1], "v": [5]}), mode="overwrite", schema_mode="overwrite")
    advice = (
        "delete the topic rows, then streamkit connect offsets reset in. To go on without this version: .*offsets set in table"
    )
    with pytest.raises(ConfigError, match=f"version 1 .* columns of other types.*{advice}"):
        run([DeltaSource("in", settings)], log, once=True)
    for is_on in ("false", "true"):
        DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": is_on})
        write_deltalake(path, pa.table({"id": [2], "v": [6]}), mode="append")
    change_positions(log, "in", {"table": {"version": 2, "rows": 0, "snapshot": False}})
    with pytest.raises(ConfigError, match=f"no change data feed at version [23]: it was off then.*{advice}"):
        run([DeltaSource("in", settings)], log, once=True)


@pytest.mark.parametrize("mode", ["snapshot", "changes"])
def test_a_version_that_is_gone(log, path, mode):
    """A version whose files were vacuumed is an error that says how to go on."""
    write_deltalake(path, pa.table({"id": [1]}), configuration=FEED)
    source = DeltaSource("in", path=path, topic="rows", key="id", read_mode=mode)
    run([source], log, once=True)
    write_deltalake(path, pa.table({"id": [2]}), mode="append")
    table = DeltaTable(path)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(ConfigError, match=r"version 1 of the Delta table .* vacuumed.*offsets set in table"):
        run([source], log, once=True)


ENCODED = ["New York", "München", "a/b", "50%", "a:b", "a=b", "x~y", "a+b", " ", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]


@pytest.mark.parametrize("value", ENCODED, ids=str)
def test_changes_of_folders_with_encoded_names(log, path, value):
    """The library does not find them: the start says so, a version says so, and neither advises to leave it out until its file is gone."""

    def rows(n, of):
        return pa.table({"id": [n], "part": pa.array([of], pa.scalar(value).type)})

    def source(name="in", topic="rows", mode="changes"):
        return DeltaSource(name, path=path, topic=topic, key="id", read_mode=mode)

    write_deltalake(path, rows(1, None), partition_by=["part"], configuration=FEED)
    run([source()], log, once=True)
    write_deltalake(path, rows(2, value), mode="append")
    for name, topic in (("in", "rows"), ("later", "later")):  # at the version, and at the start
        with pytest.raises(ConfigError, match=r"the library encodes its name.*Nothing is lost.*read\.mode=snapshot") as raised:
            run([source(name, topic)], log, once=True)
        assert "offsets set" not in str(raised.value) and "vacuumed" not in str(raised.value)
    run([source("whole", "whole", "snapshot")], log, once=True)
    assert sorted((row["id"], row["part"]) for row in log.read("whole").to_pylist()) == [(1, None), (2, value)]
    table = DeltaTable(path)
    table.delete()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(ConfigError, match=r"version 1 .* vacuumed.*offsets set in table"):
        run([source()], log, once=True)


@pytest.mark.parametrize("mode", ["snapshot", "changes"])
def test_an_empty_text_as_a_partition_is_null(log, path, mode):
    """Delta's protocol takes it for null: so does a source, whether it reads the table or its changes."""
    source = DeltaSource("in", path=path, topic="rows", read_mode=mode, **({"key": "id"} if mode == "changes" else {}))
    for first in (0, 10):
        rows = pa.table({"id": [first, first + 1, first + 2], "part": ["a", "", None]})
        write_deltalake(path, rows, partition_by=["part"], mode="append", configuration=FEED)
        run([source], log, once=True)
        source = DeltaSource("in", path=path, topic="rows", read_mode=mode, **({"key": "id"} if mode == "changes" else {}))
    found = sorted((row["id"], row["part"]) for row in log.read("rows").to_pylist())
    assert found == sorted((row["id"], row["part"]) for row in DeltaTable(path).to_pyarrow_table().to_pylist())
    assert [part for _, part in found].count("") == 0


def test_changes_of_a_table_in_a_folder_with_an_odd_name(log, tmp_path):
    """What the folders above the table are called does not matter."""
    path = str(tmp_path / "of ~ é#" / "table")
    Path(path).parent.mkdir()
    source = DeltaSource("in", path=path, topic="rows", key="id", read_mode="changes")
    for n in (1, 2):
        write_deltalake(path, pa.table({"id": [n], "part": ["a"]}), partition_by=["part"], mode="append", configuration=FEED)
        run([source], log, once=True)
    assert [row["id"] for row in log.read("rows").to_pylist()] == [1, 2]


@pytest.mark.parametrize("mode", ["snapshot", "changes"])
@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (b"abc", pa.binary(), "partitioned by 'part' of bytes"),
        (decimal.Decimal("-1.50"), pa.decimal128(10, 2), "a folder whose name the library cannot read"),
        (decimal.Decimal("1.50"), pa.decimal128(10, 2), None),
        (-1.5, pa.float64(), None),
        (float("nan"), pa.float64(), None),
        (dt.date(1, 1, 1), pa.date32(), None),
        (True, pa.bool_(), None),
    ],
)
def test_values_of_folders(log, path, mode, value, kind, said):
    """What the library reads of a folder's name is the value, or the table is refused; bytes came as the text of their escapes."""
    with suppress(DeltaError):  # of a decimal, which it cannot read once it has written it
        write_deltalake(path, pa.table({"id": [1], "part": pa.array([value], kind)}), partition_by=["part"], configuration=FEED)
    source = DeltaSource("in", path=path, topic="rows", key="id", read_mode=mode, starting_version=0)
    if said is not None:
        with pytest.raises(ConfigError, match=said):
            run([source], log, once=True)
        return
    run([source], log, once=True)
    assert [repr(row["part"]) for row in log.read("rows").to_pylist()] == [repr(value)]


@pytest.mark.parametrize("mode", ["snapshot", "changes"])
def test_a_log_that_is_gone(log, path, mode):
    """So is a version whose log was cleaned up."""
    write_deltalake(path, pa.table({"id": [1]}), configuration=FEED)
    source = DeltaSource("in", path=path, topic="rows", key="id", read_mode=mode)
    run([source], log, once=True)
    for n in (2, 3):
        write_deltalake(path, pa.table({"id": [n]}), mode="append")
    DeltaTable(path).create_checkpoint()
    (Path(path) / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(ConfigError, match=r"version 1 of the Delta table .* cleaned up.*offsets set in table"):
        run([source], log, once=True)


def test_a_table_that_was_restored(log, path):
    """A table that has fewer versions than were read is not what it was, and neither is another one of the place: each is said."""
    write_deltalake(path, pa.table({"id": [1]}))
    shutil.copytree(path, f"{path}-backup")
    write_deltalake(path, pa.table({"id": [2]}), mode="append")
    run([DeltaSource("in", path=path, topic="rows")], log, once=True)
    shutil.rmtree(path)
    write_deltalake(path, pa.table({"id": [1]}))
    with pytest.raises(ConfigError, match=rf"the Delta table {path} was deleted and made again"):
        run([DeltaSource("in", path=path, topic="rows")], log, once=True)
    shutil.rmtree(path)
    shutil.copytree(f"{path}-backup", path)
    with pytest.raises(ConfigError, match="is at version 0, and was read up to 1"):
        run([DeltaSource("in", path=path, topic="rows")], log, once=True)


def test_columns_that_come_later(log, path):
    """A column that the topic gets is added to the table, and one that a table gets to the topic."""
    log.create_topic("people", "id int NOT NULL", key="id")
    with log.producer() as producer:
        producer.send("people", {"id": 1})
    sink = DeltaSink("out", path=path, topics="people")
    run([sink], log, once=True)
    run([DeltaSource("in", path=path, topic="back")], log, once=True)
    log.alter_topic("people", schema="id int NOT NULL, name string")
    with log.producer() as producer:
        producer.send("people", {"id": 2, "name": "b"})
    run([sink], log, once=True)
    run([DeltaSource("in", path=path, topic="back")], log, once=True)
    assert sorted((row["id"], row["name"]) for row in rows_of(path)) == [(1, None), (2, "b")]
    assert sorted((row["id"], row["name"]) for row in log.read("back").to_pylist()) == [(1, None), (2, "b")]


@pytest.mark.parametrize("partitions", [[], ["part"]])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", "a"),
        ("date", dt.date(2020, 1, 1)),
        ("decimal(9,2)", decimal.Decimal("-1.50")),
        ("decimal(9,0)", decimal.Decimal(-15)),
        ("boolean", False),
        ("binary", b"\0"),
    ],
)
def test_keys_of_all_types(log, path, kind, value, partitions):
    """A row is found by its key, whatever its type, null, and in the name of a folder; or the table is refused."""
    log.create_topic("kept", f"id int, part {kind}, v int", key=["id", "part"])
    sink = DeltaSink("out", path=path, topics="kept", write_mode="upsert", partition_by=partitions)
    if kind in ("binary", "decimal(9,2)") and partitions:  # in the name of a folder they would be other values
        with pytest.raises(ConfigError, match=rf"partitioned by 'part' of type {re.escape(kind)}"):
            run([sink], log, once=True)
        return
    for v in (1, 2):
        with log.producer() as producer:
            producer.send_batch("kept", [{"id": 1, "part": part, "v": v} for part in (value, None)])
        run([sink], log, once=True)
    assert [row["v"] for row in rows_of(path)] == [2, 2]
    with log.producer() as producer:
        producer.delete("kept", {"id": 1, "part": None})
    run([sink], log, once=True)
    assert [row["part"] for row in rows_of(path)] == [value]


KEYS = {
    "boolean": (False, True),
    "int": (0, 1),
    "string": ("a", "b"),
    "double": (0.0, float("nan")),
    "date": (dt.date(1970, 1, 1), dt.date(2020, 1, 1)),
}


@pytest.mark.parametrize(("first", "others"), combined([*KEYS], [["boolean"], ["string"], ["int", "date"]], together=1))
def test_nulls_in_several_key_columns(log, path, first, others):
    """A row changes the row of its key alone, wherever nulls stand: every key is written, then some are changed and others deleted."""
    kinds = [first, *others]
    names = ["a", "b", "c"][: len(kinds)]
    log.create_topic(
        "kept", ", ".join(f"{name} {kind}" for name, kind in zip((*names, "v"), (*kinds, "int"), strict=True)), key=names
    )
    keys = [key for key in itertools.product(*([*KEYS[kind], None] for kind in kinds)) if set(key) != {None}]
    wanted = dict.fromkeys(map(repr, keys), 1)
    sink = DeltaSink("out", path=path, topics="kept", write_mode="upsert")
    for changed, deleted in ((keys, []), (keys[::3], keys[1::3])):
        v = 1 if changed is keys else 2
        with log.producer() as producer:
            producer.send_batch("kept", [{**dict(zip(names, key, strict=True)), "v": v} for key in changed])
            for key in deleted:
                producer.delete("kept", dict(zip(names, key, strict=True)))
        run([sink], log, once=True)
        wanted |= dict.fromkeys(map(repr, changed), v)
        wanted = {key: v for key, v in wanted.items() if key not in set(map(repr, deleted))}
        assert {repr(tuple(row[name] for name in names)): row["v"] for row in rows_of(path)} == wanted


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_an_empty_text_in_a_partition_column(log, path, mode):
    """Delta would make null of it: it is the failure of its row."""
    log.create_topic("kept", "id int, part string", key=["id", "part"])
    with log.producer() as producer:
        producer.send_batch("kept", [{"id": n, "part": part} for n, part in enumerate(("a", "", None, ""))])
    errors = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
    run([DeltaSink("out", errors, path=path, topics="kept", write_mode=mode, partition_by=["part"])], log, once=True)
    assert sorted((row["id"], row["part"]) for row in rows_of(path)) == [(0, "a"), (2, None)]
    assert log.read("bad").num_rows == 2


def test_what_does_not_fit(log, path):
    """A deletion in an append, a type that differs and a missing table are refused in words."""
    log.create_topic("people", "id int NOT NULL, name string", key="id")
    with log.producer() as producer:
        producer.delete("people", {"id": 1})
    with pytest.raises(SchemaError, match=r"write\.mode=upsert deletes the row"):
        run([DeltaSink("out", path=path, topics="people")], log, once=True)
    write_deltalake(f"{path}-other", pa.table({"id": ["text"]}))
    with pytest.raises(SchemaError, match="has the column 'id' as string"):
        run([DeltaSink("other", path=f"{path}-other", topics="people")], log, once=True)
    with pytest.raises(ConfigError, match="there is no Delta table"):
        run([DeltaSource("in", path=f"{path}-none", topic="rows")], log, once=True)
