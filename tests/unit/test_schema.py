"""Promises of schemas: what can be declared, and that nothing is lost when it is written down."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.data_type import ARROW_TYPES, NESTING_MAX, array_of, map_of, normalise_type, struct_of
from streamkit.errors import SchemaError
from streamkit.schema import Schema, SchemaColumn, check_user_schema

NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))
ATOMS = st.sampled_from(sorted(set(ARROW_TYPES) - {"void"})) | DECIMALS
TYPES = st.recursive(
    ATOMS,
    lambda inner: (
        inner.map(array_of)
        | st.builds(map_of, ATOMS, inner)
        | st.dictionaries(NAMES.map(str.lower), inner, min_size=1, max_size=3).map(lambda fields: struct_of(fields.items()))
    ),
    max_leaves=5,
)
COLUMNS = st.builds(SchemaColumn, NAMES, TYPES, st.booleans())
SCHEMAS = st.lists(COLUMNS, min_size=1, max_size=6, unique_by=lambda column: column.name.lower()).map(
    lambda columns: Schema(tuple(columns))
)


def of_names(*names):
    return Schema(tuple(SchemaColumn(name, "int") for name in names))


@given(SCHEMAS)
@example(of_names("a", "x)"))
@example(of_names("(", "b,c"))
@example(of_names("`", "``", "a`,b"))
def test_a_schema_survives_being_written_down(schema):
    """Whatever its columns are called, a schema reads as itself from its SQL text and from Arrow."""
    assert Schema.parse(schema.ddl()) == schema
    assert Schema.parse(schema.arrow) == schema


@given(st.text(max_size=40))
@example("a decimal(10")
@example("`a")
def test_any_text_is_a_schema_or_refused(text):
    """No text does anything else than give a schema that survives being written down, or a SchemaError."""
    try:
        schema = check_user_schema(Schema.parse(text))
    except SchemaError:
        return
    assert Schema.parse(schema.ddl()) == schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("a int, a int", "'a' and 'a' have the same name"),
        ("user int, User string", "'user' and 'User' have the same name"),
        ("`é` int, `É` int", "have the same name"),
        ("a int,, b int", "cannot read ''"),
        ("a int, ", "cannot read ''"),
        ("a", "cannot read 'a'"),
        (
            "a decimal(39,0)",
            "cannot be a column's; expected one of .* decimal.p,s. with p from 1 to 38 and s from 0 to p, array<",
        ),
        ("a array", "type 'array' cannot be a column's; expected one of .*, array<…>, map<…,…> or struct<name:…>"),
        ("a array<strin>", "in the type 'array<strin>': the type 'strin' cannot be a column's; expected one of boolean"),
        ("a array<array<strin>>", "in the type 'array<strin>': the type 'strin'"),
        ("a array<int,int>", "the array 'array<int,int>' names 2; expected one type, as in array<int>"),
        ("a map<int>", "the map 'map<int>' names 1; expected the types of its keys and its values, as in map<string,int>"),
        ("a map<map<int,int>,int>", "has keys of type map<int,int>, which a map cannot have"),
        ("a map<void,int>", "has keys of type void"),
        ("a struct<int>", "cannot read the field 'int' of the type 'struct<int>'; expected NAME:TYPE"),
        ("a struct<>", r"the fields of a struct are \[\]; expected at least one"),
        ("a struct<b:int,B:int>", "the fields 'b' and 'B' of struct<b:int,B:int> have the same name, since case does not count"),
        ("a struct<b:int,b:int>", "each with its own name"),
        ("a struct<b:int,>", "cannot read the field ''"),
        ("a array<int", "'array<int' cannot be a column's"),
        (f"a {'array<' * 25}int{'>' * 25}", "nests 25 levels deep; expected at most 24"),
        ("a array<struct<`b\nc`:int>>", r"the field name 'b\\nc' in the column 'a' has U\+000A control character"),
        ("a int, a/b int", "cannot read 'a/b int' .*; other names stand in backticks, as in `first name` string"),
        ("  ", "schema is empty"),
        ("`a\nb` int", r"column name 'a\\nb' has U\+000A control character"),
        ("`a\x1b[31m` int", r"U\+001B control character"),
        (pa.schema([("", pa.int32())]), "a column has an empty name"),
        (pa.schema([("a", pa.list_(pa.time32("s")))]), "cannot hold Arrow's time32.*, or lists, maps and structs of them"),
        (pa.schema([("a", pa.map_(pa.map_(pa.string(), pa.int8()), pa.int8()))]), "has keys of type map<string,tinyint>"),
        ("a void not null", "'a' is void and NOT NULL"),
        (pa.schema([("a", pa.decimal128(5, -2))]), r"type 'decimal\(5,-2\)' cannot be a column's"),
        (pa.schema([("a", pa.decimal256(50, 2))]), r"type 'decimal\(50,2\)' cannot be a column's"),
        ("_Offset int", "'_Offset' is StreamKit's own"),
        (None, "found None as a schema"),
        (5, "found 5 as a schema"),
    ],
)
def test_what_cannot_be_a_schema_is_refused(schema, reason):
    """Columns of one name in any case, of no name, or with control characters are refused, and so is anything but a schema."""
    with pytest.raises(SchemaError, match=reason):
        check_user_schema(Schema.parse(schema))


def test_the_text_of_a_column_stays():
    """Names of stores hash it, so stores of today are found again only if it stays as it is."""
    assert repr(SchemaColumn("user", "string", nullable=False)) == "Column(name='user', type='string', nullable=False)"


def test_a_nested_type_has_one_spelling():
    """Spaces, cases, synonyms and NOT NULL inside make no difference; names of fields keep their case and may have any characters."""
    spelled = "STRUCT < A : Integer not null , `b c,>` : Map< STRING , Array<decimal( 3 , 1 )> > >"
    assert normalise_type(spelled) == "struct<A:int,`b c,>`:map<string,array<decimal(3,1)>>>"
    assert Schema.parse("a struct<b int, c string> NOT NULL") == Schema((SchemaColumn("a", "struct<b:int,c:string>", False),))


def test_types_nest_as_deep_as_arrow_reads():
    """A map of maps of the deepest level that is allowed goes into an Arrow stream and comes out."""
    schema = Schema.parse(f"a {'map<string,' * NESTING_MAX}int{'>' * NESTING_MAX}")
    batch = pa.RecordBatch.from_pylist([{"a": None}], schema.arrow)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert next(iter(pa.ipc.open_stream(sink.getvalue()))).equals(batch)


@given(SCHEMAS, NAMES)
def test_columns_are_found_by_their_names(schema, name):
    """A column is found by its own name, and by `spelt` in any case; a name that no column has is in no schema."""
    columns = {column.name: column for column in schema}

    for wanted in (*columns, name, name.upper(), name.swapcase(), *map(str.upper, columns)):
        assert (wanted in schema) == (wanted in columns)
        others = tuple(column for column in schema if column.name.lower() == wanted.lower())
        assert schema.spelt(wanted) == ((columns[wanted],) if wanted in columns else others)
        if wanted in columns:
            assert schema[wanted] == columns[wanted]
        else:
            with pytest.raises(KeyError):
                schema[wanted]
    assert 1 not in schema and ["id"] not in schema


def test_what_is_looked_up_changes_no_schema():
    """A schema that was asked for its columns is equal to one that was not, and is copied to other processes as that one is."""
    asked, fresh = of_names("a", "B"), of_names("a", "B")
    assert asked.spelt("b") == (SchemaColumn("B", "int"),)

    assert asked == fresh
    assert hash(asked) == hash(fresh)
    assert repr(asked) == repr(fresh)
    assert pickle.loads(pickle.dumps(asked)).spelt("A") == (SchemaColumn("a", "int"),)


def test_names_may_differ_in_case_only_where_rows_exist():
    """Columns that SQL of ksqlDB made are a schema, which keeps both and is written down; one name twice is none."""
    schema = of_names("v", "V", "Other")
    assert schema.spelt("v") == (schema["v"],)
    assert schema.spelt("V") == (schema["V"],)
    assert of_names("foo", "Foo").spelt("FOO") == tuple(of_names("foo", "Foo"))
    assert (
        Schema.from_ddl(schema.ddl()) == Schema.from_arrow(schema.arrow) == Schema.parse(schema.ddl(), keeps_case=True) == schema
    )
    with pytest.raises(SchemaError, match="'v' and 'v' have the same name; expected"):
        of_names("v", "v")
    for text in (schema.ddl(), schema.arrow):
        with pytest.raises(SchemaError, match="'v' and 'V' have the same name, since case does not count"):
            Schema.parse(text)
