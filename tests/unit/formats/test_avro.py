"""Avro as columns: what fastavro reads one by one, schemas that differ, and bytes that are no values."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import SchemaError
from streamkit.formats.avro_compatibility import check_compatible, unreadable
from streamkit.formats.avro_schema import avro_of, columns_of_avro
from streamkit.formats.codec import Codec, declare_format
from streamkit.formats.format import Format
from streamkit.schema import Schema
from tests.kit.sampling import examples
from tests.unit.formats.values import avro_records

SCHEMAS = examples(40)


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name, type, **more):
    return {"name": name, "type": type, **more}


def written(schema, values):
    """What fastavro writes."""
    parsed = fastavro.parse_schema(schema)
    found = []
    for value in values:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, value)
        found.append(sink.getvalue())
    return pa.array(found, pa.binary())


def codec(schema, columns=None):
    return Codec(declare_format("avro", schema), None if columns is None else Schema.parse(columns))


def as_dicts(rows):
    return rows.to_pylist(maps_as_pydicts="strict")


@SCHEMAS
@given(st.data())
def test_columns_are_what_fastavro_reads(data):
    """Values of any schema come as columns as fastavro gives them one by one, also pruned, and are written as it writes them."""
    schema, values = data.draw(avro_records())
    rows = data.draw(st.lists(values, max_size=6))
    binary = written(schema, rows)
    own = codec(schema)

    found = own.decode(binary)

    assert as_dicts(found) == rows
    name = data.draw(st.sampled_from(own.columns.names))
    assert found.select([name]).equals(own.decode(binary, [name]))
    assert as_dicts(own.decode(own.encode(found))) == rows


@SCHEMAS
@given(st.data())
def test_damaged_values_are_named_and_the_others_stay(data):
    """Cut or lengthened bytes never give a value, whatever the lengths in them say; the rows around them do."""
    schema, values = data.draw(avro_records())
    rows = data.draw(st.lists(values, min_size=2, max_size=5))
    binary = written(schema, rows).to_pylist()
    victim = data.draw(st.integers(0, len(rows) - 1))
    is_cut = len(binary[victim]) > 0 and data.draw(st.booleans())
    binary[victim] = binary[victim][:-1] if is_cut else binary[victim] + b"\x00"

    found = codec(schema).attempt(pa.array(binary, pa.binary()))

    assert set(found.failures) <= {victim}
    if not is_cut:
        assert set(found.failures) == {victim}
    kept = [row for row in range(len(rows)) if row != victim]
    assert as_dicts(found.rows.take(pa.array(kept))) == [rows[row] for row in kept]


@SCHEMAS
@given(st.binary(max_size=40), st.data())
def test_arbitrary_bytes_end_in_values_or_failures(content, data):
    """Random bytes never hang, crash or take memory that they do not have."""
    schema, _ = data.draw(avro_records())

    found = codec(schema).attempt(pa.array([content, None, content], pa.binary()))

    assert set(found.failures) in ({0, 2}, set())
    assert found.rows.num_rows == 3


def test_a_huge_length_is_not_trusted():
    """A length of 2**62 bytes or items is a failure of that row alone."""
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"

    for type in ("string", "bytes", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}):
        assert set(codec(record(field("a", type))).attempt(pa.array([huge, huge + b"x"])).failures) == {0, 1}


def test_numbers_of_every_length_are_read():
    """Variable-length integers of one to ten bytes are read in one batch."""
    numbers = [sign * (1 << bits) + add for bits in range(63) for sign in (1, -1) for add in (-1, 0, 1)] + [
        (1 << 63) - 1,
        -(1 << 63),
    ]
    rows = [{"a": number, "b": "x"} for number in numbers]

    assert as_dicts(codec(schema := record(field("a", "long"), field("b", "string"))).decode(written(schema, rows))) == rows


def test_a_wider_type_and_missing_fields_are_resolved_by_name():
    """Values of another schema are read by the reader's: by name, wider, and with its defaults, also inside."""
    writer = record(field("gone", "string"), field("n", "int"), field("inside", record(field("x", "int"), name="In")))
    reader = record(
        field("inside", record(field("y", "string", default="why"), field("x", "long"), name="In")),
        field("n", "double"),
        field("added", ["null", "string"], default=None),
        field("tags", {"type": "array", "items": "string"}, default=["a"]),
    )
    format = Format("avro", json.dumps(reader), earlier=(json.dumps(writer),))

    found = Codec(format).decode(written(writer, [{"gone": "x", "n": 3, "inside": {"x": 4}}]))

    assert as_dicts(found) == [{"inside": {"y": "why", "x": 4}, "n": 3.0, "added": None, "tags": ["a"]}]


def test_unions_of_several_types_are_structs_of_members():
    """Of a union without a common type the member that was written is there; int and long together are bigint."""
    schema = record(field("a", ["null", "string", "boolean"]), field("b", ["int", "long", "null"]))
    rows = [{"a": "x", "b": 1}, {"a": True, "b": 1 << 40}, {"a": None, "b": None}]

    found = codec(schema)

    assert str(found.columns) == "a struct<member0:string,member1:boolean>, b bigint"
    assert as_dicts(found.decode(written(schema, rows))) == [
        {"a": {"member0": "x", "member1": None}, "b": 1},
        {"a": {"member0": None, "member1": True}, "b": 1 << 40},
        {"a": None, "b": None},
    ]


def test_enums_and_fixed_have_types_of_columns():
    """Symbols of enums are strings, fixed bytes binary; an index that there is not is a failure."""
    schema = record(
        field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}), field("f", {"type": "fixed", "name": "F", "size": 2})
    )
    values = written(schema, [{"e": "B", "f": b"xy"}])

    assert codec(schema).decode(values).to_pylist() == [{"e": "B", "f": b"xy"}]
    assert set(codec(schema).attempt(pa.array([b"\x06xy", values[0].as_py()])).failures) == {0}


def test_values_that_do_not_fit_the_wanted_column_are_named():
    """A number beyond the wanted type is a failure of its row."""
    schema = record(field("a", "long"))
    values = written(schema, [{"a": 1}, {"a": 1 << 40}])

    with pytest.raises(SchemaError, match=r"row 1: .*column 'a'") as raised:
        codec(schema, "a int").decode(values)

    assert raised.value.rows == (1,)


def test_a_type_that_holds_itself_is_refused():
    """A recursive record has no columns, and the message names it."""
    tree = record(field("left", ["null", "Tree"]), name="Tree")

    with pytest.raises(SchemaError, match="Tree contains itself"):
        codec(tree).columns


def test_columns_have_a_schema_and_back():
    """A schema made of columns describes those columns."""
    columns = Schema.parse(
        "a bigint NOT NULL, b string, c decimal(10,2), d timestamp, e timestamp_ntz, f date, g array<struct<x:int,y:map<string,double>>>"
    )

    found = columns_of_avro(avro_of(columns))

    assert [(column.name, column.type) for column in found] == [(column.name, column.type) for column in columns]


LATER = [
    (record(field("a", "long")), True, False),
    (record(field("a", "int"), field("b", "string", default="")), True, True),
    (record(field("a", "int"), field("b", "string")), False, True),
    (record(), True, False),
    (record(field("a", ["null", "int"])), True, False),
    (record(field("a", "string")), False, False),
    (record(field("z", "int", aliases=["a"])), True, False),
]


@pytest.mark.parametrize(("new", "is_backward", "is_forward"), LATER)
def test_modes_decide_which_change_is_taken(new, is_backward, is_forward):
    """BACKWARD, FORWARD, FULL and NONE take what Avro's rules say, and a refusal has both schemas."""
    old, new = json.dumps(record(field("a", "int"))), json.dumps(new)
    allowed = {"BACKWARD": is_backward, "FORWARD": is_forward, "FULL": is_backward and is_forward}

    for mode, is_allowed in allowed.items():
        if is_allowed:
            check_compatible("t", mode, [old], new)
        else:
            with pytest.raises(SchemaError) as raised:
                check_compatible("t", mode, [old], new)
            assert old in str(raised.value) and new in str(raised.value) and mode in str(raised.value)


def test_transitive_modes_look_at_every_version():
    """What the newest schema allows may still be refused for an older one."""
    first, second = json.dumps(record(field("a", "string"))), json.dumps(record())
    third = json.dumps(record(field("a", "int", default=0)))

    check_compatible("t", "BACKWARD", [first, second], third)
    with pytest.raises(SchemaError, match="a is written as string and read as int"):
        check_compatible("t", "BACKWARD_TRANSITIVE", [first, second], third)


def test_enums_may_gain_symbols_for_readers_alone():
    """A reader that lacks a symbol refuses the writer's enum, unless it has a default."""
    few = {"type": "enum", "name": "E", "symbols": ["A"]}
    more = {"type": "enum", "name": "E", "symbols": ["A", "B"]}

    assert unreadable(json.dumps(more), json.dumps(few)) == []
    assert unreadable(json.dumps(few), json.dumps(more)) != []
    assert unreadable(json.dumps({**few, "default": "A"}), json.dumps(more)) == []
