"""No frame is written whose columns are not those of its topic, whatever made them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamkit.errors import SchemaError
from streamkit.log.slab.frame import TopicColumns, check_columns
from streamkit.log.slab.slab import write_slab
from streamkit.log.storage.storage import FileStorage
from streamkit.names import SlabName, fresh_token
from streamkit.schema import Schema

TOPIC = TopicColumns("orders", Schema.parse("id bigint, note string, tags array<string>"))
STAMPS = pa.array([0, 1], pa.timestamp("ms", tz="UTC"))
RIGHT = {"id": pa.array([1, 2]), "note": pa.array(["a", "b"]), "tags": pa.array([["x"], None], pa.list_(pa.string()))}


def batch(**columns):
    return pa.RecordBatch.from_pydict({**RIGHT, **columns, "_timestamp": STAMPS})


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("id", pa.array([b"12345678", b"12345678"])),
        ("id", pa.array([1.0, 2.0])),
        ("note", pa.array([b"a", b"b"])),
        ("note", pa.array(["a", "b"], pa.large_string())),
        ("tags", pa.array([[1], [2]])),
        ("_timestamp", pa.array([0, 1], pa.timestamp("us", tz="UTC"))),
    ],
)
def test_a_column_of_another_type_is_refused(tmp_path, name, column):
    """The error names the topic, the column and both types, and no file is left."""
    storage = FileStorage(str(tmp_path))
    rows = batch().set_column(batch().schema.get_field_index(name), name, column)
    slab = SlabName("p1", 1, 1, fresh_token())
    with pytest.raises(SchemaError, match=rf"topic orders have a column {name} of Arrow's type .*nothing was written"):
        write_slab(storage, slab, [(1, 0, rows)], topics={1: TOPIC})
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_dictionaries_are_layouts_and_no_types(tmp_path):
    """A column of a dictionary is one of its values' type."""
    rows = batch(note=pa.array(["a", "b"]).dictionary_encode())
    check_columns(rows, TOPIC)
    storage = FileStorage(str(tmp_path))
    write_slab(storage, SlabName("p1", 1, 1, fresh_token()), [(1, 0, rows)], topics={1: TOPIC})
