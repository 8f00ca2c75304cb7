"""The contract of every decoder: a value gives the same row, or the same failure, alone and beside any others."""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.formats import json_columns
from streamkit.formats.codec import Codec, declare_format, schema_made_of
from streamkit.formats.json_documents import documents_as_columns
from streamkit.log.values.python_values import python_values
from streamkit.schema import Schema
from tests.kit.sampling import TAKES_ALL, examples
from tests.unit.formats.test_avro import written
from tests.unit.formats.values import avro_records

EXAMPLES = examples(150, share=6)
TYPES = (
    "bigint", "tinyint", "double", "float", "decimal(38,2)", "decimal(10,4)", "decimal(38,18)", "decimal(38,38)", "string", "boolean",
    "timestamp", "timestamp_ntz", "date", "binary", "array<double>", "array<decimal(20,2)>", "struct<a:int,b:timestamp>", "map<string,double>",
    "map<string,decimal(38,2)>", "map<int,struct<a:bigint>>", "map<double,int>",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "-0.0", "1", "-1", "1.0", "1.5", "1e2", "1E-2", "127", "128", "90071992547409931.25", "12345678901234567890.01",
    "9007199254740993", "9223372036854775807", "9223372036854775808", "3.4028235e38", "3.4028236e38", "1e39", "1e400", "-1e400", "0.1",
    "1704164645000", "99999999999999999999999999999999999999.99", "1" * 80, "9.6e21", "1e-41", "1e-100",
    "0e-999999999", "1e-400000000", "1e400000000", "0." + "0" * 70 + "1e-9", "NaN", "Infinity", "-Infinity", "Inf", "01", "+1", ".5", "5.",
)  # fmt: skip
TEXTS = (
    '""', '"a"', '"NaN"', '"Infinity"', '"-Infinity"', '"Inf"', '"1.10"', '"5"', '"-0"', '"1704164645000"', '"YWJj"', '"a\\nb"', '"a\nb"',
    '"a\\u0000"', '"\\ud800"', '"é"', '"\\"{"', '"}"', '"2024-01-02"', '"2024-02-30"', '"2024-01-02T03:04:05"', '"2024-01-02T03:04:05Z"',
    '"2024-01-02 03:04:05"', '"2024-01-02T03:04:05+02"', '"2024-01-02T03:04:05-0230"', '"2024-01-02T03:04:05.123456789Z"',
    '"2024-01-02T03:04:05z"', '"+10000-01-01T00:00:00Z"', '"1e-400000000"', '"1\\u0065-400000000"', '"1e-\\u0034000"', '"9999-12-31T23:59:59.999999"',
)  # fmt: skip
SPACES = ("", "", "", " ", "\n", "\r\n", "\t", "\r", "\n\n")
ODD = (
    b"", b"{}", b"null", b"[]", b"1", b"{", b"}", b"{}{}", b'{"v":1}{"v":2}', b'\xef\xbb\xbf{"v":1}', b'{"v":1\x00}', b'{"v":"\xff"}',
    b'{"v":1,}', b'{"x":NaN}', b'{"x":"NaN"}', b'{"x":1e400}', b'{"x":"\\ud800"}', b'{"x":' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"x":' + b"[" * 3000 + b"]" * 3000 + b"}", b'{"x":[' + b"{}," * 700 + b"{}]}", b'{"v":{"a":1},"\\u0076":{"a":2}}', b'{"v":}', b'{"v"',
    '{"v":1}'.encode("utf-16"),
)  # fmt: skip


@st.composite
def texts_of_json(draw, depth=2):
    """JSON, or nearly so, in any spelling."""
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from((*NUMBERS, *TEXTS, "true", "null")))
    space = st.sampled_from(SPACES)
    parts = draw(st.lists(texts_of_json(depth - 1), max_size=3))
    if draw(st.booleans()):
        return "[" + ",".join(f"{draw(space)}{part}{draw(space)}" for part in parts) + "]"
    names = [draw(st.sampled_from(("a", "b", "k", "1", "01", "1.0"))) for _ in parts]
    pairs = (f'{draw(space)}"{name}"{draw(space)}:{draw(space)}{part}' for name, part in zip(names, parts, strict=True))
    return "{" + ",".join(pairs) + draw(space) + "}"


@st.composite
def documents(draw):
    """An object with the field `v`, perhaps beside others, or something odd."""
    if draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from(ODD))
    space = st.sampled_from(SPACES)
    before = draw(st.sampled_from(("", "", '"x":"NaN",', '"x":[1,{"y":"é"}],', '"v":1,')))
    return f'{draw(space)}{{{before}{draw(space)}"v":{draw(texts_of_json())}}}{draw(space)}'.encode()


def shown(rows, row):
    """A row in a form in which NaN equals itself, and 0.0 not -0.0."""
    return repr([python_values(column.slice(row, 1)) for column in rows.columns])


def outcome(codec, values, row):
    """What became of a row."""
    found = codec.attempt(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    return found.failures[row] if row in found.failures else shown(found.rows, row)


def check_alone_and_together(codec, values, alone=None):
    """Each value of a list gives the same as if it were alone; `alone` keeps what each of them gave so."""
    alone = {} if alone is None else alone
    alone.update({value: outcome(codec, [value], 0) for value in {*values} - {*alone}})
    found = codec.attempt(pa.array(values, pa.binary()))
    together = [found.failures[row] if row in found.failures else shown(found.rows, row) for row in range(len(values))]
    assert together == [alone[value] for value in values]


@EXAMPLES
@given(st.sampled_from(TYPES), st.lists(documents(), min_size=1, max_size=8))
def test_json_is_the_same_alone_and_beside_others(type, values):
    """Decimals with a line end, times with and without a zone, NaN, damage: none changes what its neighbours are."""
    check_alone_and_together(Codec(declare_format("json"), Schema.parse(f"v {type}")), values)


@EXAMPLES
@given(st.sampled_from(TYPES), documents())
def test_json_is_read_one_way(type, document):
    """Arrow's reader, where it is asked, gives what reading one document by itself gives."""
    columns = Schema.parse(f"v {type}")
    found = Codec(declare_format("json"), columns).attempt(pa.array([document], pa.binary()))
    (alone,), failures = documents_as_columns([document], columns)

    assert bool(found.failures) == bool(failures), (found.failures, failures)
    if not failures:
        assert repr(python_values(found.rows.column(0))) == repr(python_values(alone))


@pytest.mark.parametrize(
    ("type", "names"),
    [
        ("map<int,int>", ("1", "01")),
        ("map<decimal(5,2),int>", ("1", "1.00")),
        ("map<double,int>", ("0", "-0")),
        ("map<float,int>", ("1", "1.0")),
        ("map<timestamp,int>", ("2024-05-06T00:00:00Z", "2024-05-06T02:00:00+02:00")),
        ("map<binary,int>", ("AA==", "AB==")),
        ("map<boolean,int>", ("true", "1")),
        ("array<struct<m:map<int,int>>>", ("1", "01")),
    ],
)
def test_two_names_that_are_one_key_are_refused(type, names):
    """A map has each key once, however its names are spelled, and other documents are as they were."""
    good, bad = (json.dumps(dict.fromkeys(some, 1)) for some in (names[:1], names))
    form = '{"v":[{"m":%s}]}' if type.startswith("array") else '{"v":%s}'
    values = [(form % text).encode() for text in (good, bad, good)]
    codec = Codec(declare_format("json"), Schema.parse(f"v {type}"))

    assert set(codec.attempt(pa.array(values, pa.binary())).failures) == {1}
    check_alone_and_together(codec, values)


def test_many_refused_values_change_no_others():
    """Beyond so many refusals of Arrow's reader all that is left is read one by one, and gives the same."""
    values = [b'{"v":%d.5}' % number if number % 7 else b'{"v":"soon"}' for number in range(3_000)]
    found = Codec(declare_format("json"), Schema.parse("v decimal(10,1)")).attempt(pa.array(values, pa.binary()))

    assert set(found.failures) == set(range(0, 3_000, 7))
    assert [found.rows["v"][row].as_py() for row in range(3_000) if row % 7] == [
        Decimal(f"{row}.5") for row in range(3_000) if row % 7
    ]


def test_most_documents_are_read_by_arrow(monkeypatch):
    """Line ends at the end and inside, and whole numbers for times, take no other way."""

    def refuse(*_):
        raise AssertionError("read one by one")

    monkeypatch.setattr(json_columns, "documents_as_columns", refuse)
    codec = Codec(declare_format("json"), Schema.parse("v decimal(38,2), t timestamp"))
    values = [b'{"v":90071992547409931.25}\n', b'{\n  "v":\t1.00,\r\n "t":1704164645000}', b'{"v":12345678901234567890.01}']

    assert codec.decode(pa.array(values))["v"].to_pylist() == [
        Decimal("90071992547409931.25"), Decimal("1.00"), Decimal("12345678901234567890.01")
    ]  # fmt: skip


LINES = (
    b"",
    b"1",
    b"1,2",
    b"1,x",
    b'"1",2',
    b'"a',
    b'b"',
    b'"a\nb",2',
    b"a\r\n",
    b"a,1\n",
    b",",
    b'"",',
    b"1,2,3",
    b"\xff,1",
    b"NaN,inf",
    *(b"\xef\xbb\xbf" + line for line in (b"", b"1", b"1,2", b'"1",2', b"\xef\xbb\xbf1,2")),
)


@pytest.mark.parametrize("columns", ["a string, b bigint", "a string, b timestamp", "a double", "a timestamp", "a decimal(10,2)"])
@pytest.mark.parametrize("name", ["csv", "string"])
def test_lines_and_texts_are_the_same_alone_and_beside_others(name, columns):
    """Quotes, line ends, zones and damage of one value change no other."""
    schema = Schema.parse(columns)
    if name == "string" and len(schema) > 1:
        pytest.skip("a text is one column")
    codec = Codec(declare_format(name, columns if name == "csv" else None), schema)
    times = [text.strip('"').encode() for text in TEXTS]
    values = [*LINES, *times, *(b"a," + time for time in times), *map(str.encode, NUMBERS)]

    alone: dict[bytes, object] = {}
    for pair in itertools.islice(itertools.permutations(values, 2), 0, None, 41 if TAKES_ALL else 83):
        check_alone_and_together(codec, list(pair), alone)
    check_alone_and_together(codec, values[:80], alone)


@EXAMPLES
@given(st.data())
def test_avro_is_the_same_alone_and_beside_others(data):
    """Values of any schema, whole and damaged, also as other types than they were written in."""
    schema, values = data.draw(avro_records(1))
    binary = written(schema, data.draw(st.lists(values, min_size=1, max_size=5))).to_pylist()
    cut = [one[: data.draw(st.integers(0, len(one)))] for one in binary]
    codec = Codec(declare_format("avro", schema))
    wanted = data.draw(st.sampled_from(("string", "bigint", "int", "double", "timestamp", "decimal(12,2)", "binary")))
    other = Codec(declare_format("avro", schema), Schema.parse(f"{codec.columns.names[0]} {wanted}"))

    for one in (codec, other):
        check_alone_and_together(one, data.draw(st.permutations(binary + cut)))


def test_protobuf_is_the_same_alone_and_beside_others():
    """A message that does not fit a column, or is none, fails alone."""
    pytest.importorskip("grpc_tools")
    text = 'syntax = "proto3"; message M { int64 a = 1; double b = 2; }'
    writer = Codec(declare_format("protobuf", text)).value_writer()
    values = [writer({"a": number, "b": 0.5}) for number in (0, 1, 127, 128, 1 << 40, -1)] + [b"\x08", b"", b"\xff"]

    for columns in ("a bigint, b double", "a tinyint", "a int, b float", "a timestamp", "a decimal(20,2)"):
        check_alone_and_together(Codec(declare_format("protobuf", text), Schema.parse(columns)), values)


FLOATS = st.floats() | st.sampled_from((0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308))


@examples(60)
@given(st.lists(FLOATS, min_size=1, max_size=4), st.sampled_from(("json", "avro", "csv")))
def test_every_double_comes_back(numbers, name):
    """NaN, the infinities and -0.0 are written and read as they were."""
    columns = Schema.parse("a double, b array<double>" if name != "csv" else "a double")
    codec = Codec(declare_format(name, schema_made_of(name, columns)), columns)
    rows = pa.RecordBatch.from_pylist([{"a": one, "b": numbers} for one in numbers], schema=columns.arrow)
    found = codec.decode(codec.encode(rows))

    assert repr(found.to_pylist()) == repr(rows.to_pylist())
    if name == "json":
        for value in codec.encode(rows).to_pylist():
            json.loads(value, parse_constant=pytest.fail)
