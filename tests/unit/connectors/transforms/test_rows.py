"""From rows to records and back: order, deletions, names that meet, paths to fields."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamkit.connectors.transforms.chain import chain_of
from streamkit.connectors.transforms.field_path import steps_of
from streamkit.connectors.transforms.records import key_columns
from streamkit.connectors.transforms.transform import TransformError
from streamkit.errors import ConfigError
from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.names import DELETED, HEADERS


def run(rows, key=(), predicates=None, **settings):
    """One transform; `_` in the names of settings stands for a dot."""
    own = {f"a.{name.replace('_', '.')}": value for name, value in settings.items()}
    conditions = {f"p.{name}": value for name, value in (predicates or {}).items()}
    listed = {"transforms": ("a",), "predicates": ("p",) if predicates else ()}
    chain = chain_of({**listed, "transforms.": own, "predicates.": conditions}, is_source=False)
    assert chain is not None
    return chain.run("t", rows, key)


def test_rows_keep_their_order():
    """Rows that a predicate chose lie among the others as before, and lack what those have not."""
    headers = pa.array([[("h", b"1")], None, [("h", b"2")], []], HEADERS_TYPE)
    rows = pa.table({"n": [1, 2, 3, 4], HEADERS: headers})
    predicate = {"type": "HasHeaderKey", "name": "h"}
    found = run(rows, (), predicate, type="InsertField$Value", static_field="s", static_value="x", predicate="p")["t"]
    assert found.select(["n", "s"]).to_pylist() == [
        {"n": 1, "s": "x"}, {"n": 2, "s": None}, {"n": 3, "s": "x"}, {"n": 4, "s": None},
    ]  # fmt: skip


def test_a_deletion_has_no_value():
    """A deletion's key columns are those of its key alone: what is made of the value is null there."""
    rows = pa.table({"id": [1, 2], "name": ["a", None], DELETED: [False, True]})
    found = run(rows, ("id",), type="HoistField$Value", field="whole")["t"]
    assert found["whole"].to_pylist() == [{"id": 1, "name": "a"}, None]
    found = run(rows, ("id",), type="expr", select="id + 1 AS next")["t"]
    assert found.select(["id", "next", DELETED]).to_pylist() == [
        {"id": 1, "next": 2, DELETED: False}, {"id": 2, "next": None, DELETED: True},
    ]  # fmt: skip
    found = run(rows, ("id",), type="ExtractField$Value", field="name")["t"]
    assert found.select(["id", "name", DELETED]).to_pylist() == [
        {"id": 1, "name": "a", DELETED: False}, {"id": 2, "name": None, DELETED: True},
    ]  # fmt: skip
    assert key_columns(found) == ("id",)
    found = run(rows, ("id",), type="ExtractField$Value", field="id")["t"]
    assert found.select(["id", DELETED]).to_pylist() == [{"id": 1, DELETED: False}, {"id": 2, DELETED: True}]


def test_without_a_key_nothing_is_deleted():
    """A record that has neither a key nor a value is no deletion: there is nothing to delete by."""
    found = run(pa.table({"n": [1, None]}), type="ExtractField$Value", field="n")["t"]
    assert found["n"].to_pylist() == [1, None]
    assert DELETED not in found.column_names or found[DELETED].to_pylist() == [False, False]


def test_rows_that_are_refused_are_named_as_they_came():
    """The numbers of the rows are those of what came in, also if a predicate has left out some before."""
    headers = pa.array([None, [("h", b"1")], None, [("h", b"2")]], HEADERS_TYPE)
    rows = pa.table({"n": ["x", "1", "x", "x"], HEADERS: headers})
    with pytest.raises(TransformError) as error:
        run(rows, (), {"type": "HasHeaderKey", "name": "h"}, type="Cast$Value", spec="n:int32", predicate="p")
    assert error.value.rows == (3,)


def test_the_longest_alias_has_the_setting():
    """Where an alias begins with another and a dot, its settings are its own."""
    own = {"type": "HoistField$Value", "field": "one"}
    settings = {**{f"a.{name}": value for name, value in own.items()}, "a.b.type": "HoistField$Value", "a.b.field": "two"}
    for order in (("a", "a.b"), ("a.b", "a")):
        chain = chain_of({"transforms": order, "transforms.": settings, "predicates": (), "predicates.": {}}, is_source=False)
        assert chain is not None
        assert chain.run("t", pa.table({"n": [1]}), ())["t"].column_names == [{"a": "one", "a.b": "two"}[order[-1]]]


def test_a_key_column_that_the_value_has_changed():
    """The column of a name that both have is the value's, as long as the key's is as it came and no row has a key alone."""
    rows = pa.table({"id": ["1", "2"], "name": ["a", "b"]})
    assert run(rows, ("id",), type="Cast$Value", spec="id:int32")["t"]["id"].to_pylist() == [1, 2]
    with pytest.raises(TransformError, match=r"transform both alike, with \$Key and with \$Value"):
        run(rows.append_column(DELETED, pa.array([False, True])), ("id",), type="Cast$Value", spec="id:int32")
    with pytest.raises(TransformError, match=r"transform both alike"):
        run(rows, ("id",), type="Cast$Key", spec="id:int32")


def test_names_that_meet():
    """Two fields of one name are an error of the records, not one field."""
    rows = pa.table({"a": pa.array([{"b": 1}]), "a.b": [2]})
    with pytest.raises(TransformError, match=r"two fields would be called 'a\.b'"):
        run(rows, type="Flatten$Value")
    assert run(rows, type="Flatten$Value", delimiter="_")["t"].to_pylist() == [{"a_b": 1, "a.b": 2}]


def test_times_are_kept_to_the_microsecond():
    """Where Connect has milliseconds only, columns keep what they have."""
    rows = pa.table({"n": pa.array([1_700_000_000_123_456, -1], pa.int64())})
    settings = {"type": "TimestampConverter$Value", "field": "n", "unix_precision": "microseconds"}
    found = run(rows, **settings, target_type="Timestamp")["t"]["n"]
    assert found.cast(pa.int64()).to_pylist() == [1_700_000_000_123_456, -1]


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ["a"]), ("a.b", ["a", "b"]), ("`a.b`", ["a.b"]), ("`a.b`.c", ["a.b", "c"]), ("a.`b.c`.d", ["a", "b.c", "d"]),
        ("a.", ["a", ""]), ("`a\\`.b`", ["a`.b"]), ("`a`b`", ["a`b"]), ("a`b.c", ["a`b", "c"]),
    ],
)  # fmt: skip
def test_paths(path, steps):
    """Dots part the names of a path but within backticks, as in Connect's second syntax."""
    assert steps_of(path, str) == steps


@pytest.mark.parametrize("path", ["`a", "a.`b", "`a.b`c"])
def test_paths_that_are_none(path):
    """A backtick that does not end is an error."""
    with pytest.raises(ConfigError, match="only one backtick of a pair"):
        steps_of(path, str)
