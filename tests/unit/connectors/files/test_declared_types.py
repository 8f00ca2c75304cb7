"""`schema=` of files: the topic has the declared types, whatever the file has, or the record that does not fit is named."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.files import FileSource
from streamkit.errors import SchemaError

CASES = [
    (pa.array([1], pa.int64()), "int", 1),
    (pa.array([1], pa.int32()), "bigint", 1),
    (pa.array([1], pa.uint32()), "double", 1.0),
    (pa.array([(1 << 64) - 1], pa.uint64()), "decimal(20,0)", Decimal((1 << 64) - 1)),
    (pa.array([1], pa.int64()), "decimal(10,2)", Decimal("1.00")),
    (pa.array([Decimal("1.50")]), "decimal(10,4)", Decimal("1.5000")),
    (pa.array([1_704_110_400_123]), "timestamp", dt.datetime(2024, 1, 1, 12, 0, 0, 123_000, dt.timezone.utc)),
    (pa.array([5], pa.timestamp("us")), "timestamp", dt.datetime(1970, 1, 1, 0, 0, 0, 5, dt.timezone.utc)),
    (pa.array(["a"]).dictionary_encode(), "string", "a"),
    (pa.array([[1]], pa.list_(pa.int64())), "array<int>", [1]),
    (pa.array([{"a": 1}]), "struct<a:int>", {"a": 1}),
    (pa.array([1 << 40], pa.int64()), "int", None),
    (pa.array([1.5]), "decimal(10,2)", None),
    (pa.array(["5"]), "int", None),
    (pa.array([5], pa.date32()), "timestamp", None),
    (pa.array([[1 << 40]]), "array<int>", None),
]


@pytest.mark.parametrize(("values", "type", "expected"), CASES)
def test_parquet_is_read_as_it_is_declared(tmp_path, values, type, expected):
    """Also where the types differ; what would lose something is refused, and no topic is made of other types."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"v": values}), tmp_path / "in" / "a.parquet")
    with sk.open_log(tmp_path / "log") as log:
        source = FileSource("in", path=str(tmp_path / "in"), topic="t", schema=f"v {type}")
        if expected is None:
            with pytest.raises(SchemaError, match=r"record 1: topic t: column 'v.*expected "):
                run([source], log, once=True)
            return
        run([source], log, once=True)
        assert str(log.topic("t").schema) == f"v {type}"
        assert log.read("t")["v"].to_pylist() == [expected]


@pytest.mark.parametrize("type", ["int", "bigint", "double", "decimal(10,2)"])
def test_all_forms_give_the_declared_type(tmp_path, type):
    """CSV, JSON and Parquet of the same record make the same topic."""
    files = {"csv": b"v\n1\n", "json": json.dumps({"v": 1}).encode()}
    found = set()
    for form in ("csv", "json", "parquet"):
        folder = tmp_path / form
        folder.mkdir()
        if form == "parquet":
            pq.write_table(pa.table({"v": [1]}), folder / "a.parquet")
        else:
            (folder / f"a.{form}").write_bytes(files[form])
        with sk.open_log(tmp_path / f"log-{form}") as log:
            run([FileSource("in", path=str(folder), topic="t", schema=f"v {type}", min_age_ms=0)], log, once=True)
            found.add((str(log.topic("t").schema), str(log.read("t")["v"].to_pylist())))
    assert len(found) == 1 and {schema for schema, _ in found} == {f"v {type}"}


NULLS = {"csv": b"id,v\n1,x\n,y\n3,z\n", "json": b'{"id":1,"v":"x"}\n{"v":"y"}\n{"id":3,"v":"z"}\n', "parquet": None}


@pytest.mark.parametrize("form", NULLS)
@pytest.mark.parametrize("is_there", [False, True], ids=["created", "there"])
def test_columns_that_are_never_null(tmp_path, form, is_there):
    """NOT NULL of the schema is kept by the topic, and a null is named by its record, or left out alone."""
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / f"a.{form}"
    if data := NULLS[form]:
        file.write_bytes(data)
    else:
        pq.write_table(pa.table({"id": [1, None, 3], "v": ["x", "y", "z"]}), file)
    settings = {"path": str(tmp_path / "in"), "topic": "t", "schema": "id bigint NOT NULL, v string", "min_age_ms": 0}
    with sk.open_log(tmp_path / "log") as log:
        if is_there:
            log.create_topic("t", settings["schema"])
        place = {"csv": "line 3", "json": "line 2", "parquet": "record 2"}[form]
        with pytest.raises(
            SchemaError, match=rf"a\.{form}, {place}: .*(column 'id': found null, and the column is NOT NULL|no column 'id')"
        ):
            run([FileSource("in", **settings)], log, once=True)
        if form == "parquet":
            pq.write_table(pa.table({"id": [1, 3], "v": ["x", "z"]}), file)
        run([FileSource("in", errors_tolerance="all", **settings)], log, once=True)
        assert str(log.topic("t").schema) == "id bigint NOT NULL, v string"
        assert sorted(row["id"] for row in log.read("t").to_pylist()) == [1, 3]


def test_transforms_make_other_columns(tmp_path):
    """NOT NULL of the file's columns says nothing of those that transforms make of them."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,v\n1,x\n")
    renames = {"transforms": "r", "transforms.r.type": "ReplaceField$Value", "transforms.r.renames": "id:no"}
    settings = {"path": str(tmp_path / "in"), "topic": "t", "schema": "id bigint NOT NULL, v string", **renames}
    with sk.open_log(tmp_path / "log") as log:
        run([FileSource("in", settings)], log, once=True)
        assert str(log.topic("t").schema) == "no bigint, v string"
