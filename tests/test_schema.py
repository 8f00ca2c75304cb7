"""Promises of schemas: what can be declared, and that nothing is lost when it is written down."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.data_type import ARROW_TYPES
from streamkit.errors import SchemaError
from streamkit.schema import Column, Schema, check_user_schema

NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))
COLUMNS = st.builds(Column, NAMES, st.sampled_from(sorted(set(ARROW_TYPES) - {"void"})) | DECIMALS, st.booleans())
SCHEMAS = st.lists(COLUMNS, min_size=1, max_size=6, unique_by=lambda column: column.name.lower()).map(
    lambda columns: Schema(tuple(columns))
)


def of_names(*names):
    return Schema(tuple(Column(name, "int") for name in names))


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
        ("a array<int>", "type 'array<int>' cannot be a column's"),
        ("a decimal(39,0)", "cannot be a column's; expected one of .* or decimal.p,s. with p from 1 to 38 and s from 0 to p"),
        (
            "a map<string,int>",
            r"cannot read 'int>' .* nested types .map, array, struct. are not supported; .* of the types boolean",
        ),
        ("a Array<int>", "nested types .map, array, struct. are not supported; expected one of boolean"),
        ("a int, a/b int", "cannot read 'a/b int' .*; other names stand in backticks, as in `first name` string"),
        ("  ", "schema is empty"),
        ("`a\nb` int", r"column name 'a\\nb' has U\+000A control character"),
        ("`a\x1b[31m` int", r"U\+001B control character"),
        (pa.schema([("", pa.int32())]), "a column has an empty name"),
        (pa.schema([("a", pa.list_(pa.int32()))]), "cannot hold Arrow's list"),
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
