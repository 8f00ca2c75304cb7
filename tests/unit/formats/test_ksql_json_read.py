"""JSON of ksqlDB is read a column at a time, and means what each document alone means."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.formats import ksql_json
from streamkit.formats.decoded import Decoded
from streamkit.formats.format import UNWRAPPED, Format
from streamkit.schema import Schema
from tests.kit.sampling import examples

TEXTS = st.text(max_size=4) | st.sampled_from(["1", " 1 ", "1.5", "NaN", "-Infinity", "1_0", "true", "", "AQI=", "é", "😀"])
NUMBERS = st.sampled_from(
    [
        "0",
        "-0",
        "0.0",
        "-0.0",
        "1.50",
        "0.10",
        "1e2",
        "1e400",
        "-1e400",
        "1e-400",
        "12345.67",
        "0.1234567890123456789",
        "1E-1",
        "1e999999999",
        "-7e-999999999",
        "12345e-3",
        "-9e63",
        "99.99",
    ]
    + [str(sign * (1 << bits) + more) for bits in (7, 15, 31, 53, 63, 64) for sign in (1, -1) for more in (-1, 0, 1)]
    + ["9223372036854775", "9223372036854776", "1" * 40, "-9223372036854776"]
)
WRITTEN: dict[str, st.SearchStrategy[str]] = {  # values that are of the type just as they are written
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "boolean": st.sampled_from(["true", "false"]),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    "string": TEXTS.map(json.dumps) | TEXTS.filter(str.isprintable).map(lambda text: json.dumps(text, ensure_ascii=False)),
    "binary": st.binary(max_size=4).map(lambda data: json.dumps(base64.b64encode(data).decode())),
    "date": st.integers(-(10**5), 10**5).map(str),
    "timestamp": st.integers(-(10**13), 10**13).map(str),
    "decimal(6,2)": st.decimals(-9999, 9999, places=2).map(str),
    "decimal(4,0)": st.integers(-9999, 9999).map(str),
}
NULL = st.just("null")
for inner in ("int", "string", "double", "timestamp", "decimal(6,2)"):
    WRITTEN[f"array<{inner}>"] = st.lists(WRITTEN[inner] | NULL, max_size=3).map(lambda found: f"[{','.join(found)}]")
    WRITTEN[f"map<string,{inner}>"] = st.lists(st.tuples(st.sampled_from(["a", "B", ""]), WRITTEN[inner] | NULL), max_size=3).map(
        lambda found: "{" + ",".join(f'"{name}":{value}' for name, value in found) + "}"
    )
    WRITTEN[f"struct<X:{inner},Y:boolean>"] = st.tuples(
        st.sampled_from(["X", "x", "Z"]), WRITTEN[inner] | NULL, st.sampled_from(["Y", "y", "X"])
    ).map(lambda found: f'{{"{found[0]}":{found[1]},"{found[2]}":true}}')
ANYTHING = st.one_of(
    NUMBERS,
    NULL,
    *WRITTEN.values(),
    st.sampled_from(["NaN", "Infinity", "[[1]]", '{"X":{"X":1}}', '"\\ud83d"', '"\x01"', "01", "1."]),
)
NAMES = ["A", "B", "ß", "c", "É"]


def object_of(fields: list[tuple[str, str]], blank: str = "") -> bytes:
    """A document with these fields, names and values as they are written."""
    return (
        "{" + f",{blank}".join(f"{json.dumps(name, ensure_ascii=False)}{blank}:{value}" for name, value in fields) + "}"
    ).encode("utf-8", "replace")


@st.composite
def documents(draw: st.DrawFn) -> tuple[Schema, list[bytes]]:
    """Columns and documents: most have them as they are, some other values, other names, names twice, or damage."""
    types = draw(st.lists(st.sampled_from(sorted(WRITTEN)), min_size=1, max_size=4))
    columns = Schema.parse(", ".join(f"`{name}` {type}" for name, type in zip(NAMES, types, strict=False)))
    found = []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["plain"] * 4 + ["mixed"] * 3 + ["bytes"]))
        if kind == "bytes":
            found.append(
                draw(
                    st.binary(max_size=8)
                    | st.sampled_from([b"", b"null", b"[]", b" {} ", b"\xef\xbb\xbf{}", b'{"A":1}{"A":2}', b'{"A":"\xff"}'])
                )
            )
            continue
        fields = []
        for column in columns:
            name = draw(st.sampled_from([column.name, column.name, column.name.lower(), column.name.swapcase(), "other"]))
            fields.append((name, draw(WRITTEN[column.type] | NULL if kind == "plain" else ANYTHING | WRITTEN[column.type])))
        data = object_of(
            draw(st.permutations(fields)) + fields[: draw(st.integers(0, 1))], draw(st.sampled_from(["", " ", "\n"]))
        )
        if kind == "mixed" and draw(st.integers(0, 5)) == 0:
            place = draw(st.integers(0, len(data)))
            data = data[:place] + draw(st.binary(max_size=2)) + data[place + draw(st.integers(0, 2)) :]
        found.append(data)
    return columns, found


def as_texts(found: Decoded, columns: Schema) -> tuple[Any, ...]:
    """What was read, so that -0.0 is not 0.0, and NaN is NaN; times and dates as numbers, since Python has none beyond year 9999."""
    counted = [to_arrow(column.type.replace("timestamp", "bigint").replace("date", "int")) for column in columns]
    cells = [repr(one.cast(kind).to_pylist()) for one, kind in zip(found.rows.columns, counted, strict=True)]
    return found.rows.schema, found.rows.num_rows, cells, dict(found.failures)


@examples(1500)
@given(documents())
@example((Schema.parse("A double"), [b'{"A":-0}', b'{"A":0}']))
@example((Schema.parse("A decimal(3,2)"), [b'{"A":0.1000000000000000055511151231257827}', b'{"A":1e-400}', b'{"A":0.10}']))
@example((Schema.parse("A int"), [b'{"A":1, "B":' + b"[" * 501 + b"]" * 501 + b"}", b'{"a":1,"A":null}', b'{"a":1,"a":2}']))
@example((Schema.parse("A timestamp"), [b'{"A":9223372036854775}', b'{"A":9223372036854776}']))
@example((Schema.parse("A timestamp"), [b'{"A":9223372036854775}', b'{"A":9223372036854776}', b'{"A":true}']))
def test_documents_mean_what_each_means_alone(found: tuple[Schema, list[bytes]]) -> None:
    """Rows and errors are those of one document after the other, whatever is beside it."""
    columns, values = found

    at_once = ksql_json.read(Format("ksql_json"), None, pa.array(values, pa.binary()), columns, 0)

    assert as_texts(at_once, columns) == as_texts(ksql_json.read_one_by_one(values, columns, is_bare=False), columns)


@pytest.mark.parametrize(
    ("type", "data", "expected"),
    [
        (
            "string",
            '{"A": [1, "a", null, {"x": 1.0, "y": [2]}, [2, true], 1.50]}',
            '[1, a, null, {"x":1.0,"y":[2]}, [2, true], 1.50]',
        ),
        ("string", '{"A": {"x": [1e2, -0.0, 1E-10, "a"]}}', '{"x":[1E+2,0.0,1E-10,"a"]}'),
        ("string", '{"A": 1e2}', "1E+2"),
        ("string", '{"A": -0.0}', "0.0"),
        ("string", '{"A": -0}', "0"),
        ("string", '{"A": 0.0000001}', "1E-7"),
        ("string", '{"A": 100000000000000000000.10}', "100000000000000000000.10"),
        ("bigint", '{"A": 1e999999999}', 0),
        ("bigint", '{"A": 3e63}', -(2**63)),
        ("bigint", '{"A": -18446744073709551617.9}', -1),
        ("bigint", '{"A": 123e-999999999}', 0),
        ("int", '{"A": -19.9e1}', -199),
        ("array<int>", '{"A": [1e999999999, 2e0]}', [0, 2]),
        ("int", '{"A": 1} junk', 1),
        ("int", '{"A": 2}{"A": 3}', 2),
        ("int", '\ufeff{"A": 4}]', 4),
        ("int", '\xa0{"A": 5}', None),
        ("int", '{"A": 5, junk}', None),
        ("double", '{"A": "1d"}', 1.0),
        ("double", '{"A": " 0x1p3 "}', 8.0),
        ("double", '{"A": "-0x1p9999"}', float("-inf")),
        ("double", '{"A": "-Infinity"}', float("-inf")),
        ("double", '{"A": "inf"}', None),
        ("double", '{"A": "Infinityd"}', None),
    ],
)
def test_values_that_jackson_reads(type: str, data: str, expected: Any) -> None:
    """What follows the first document does not matter, numbers keep their digits, an array is the text that Java makes of a list."""
    found = ksql_json.read(Format("ksql_json"), None, pa.array([data.encode()], pa.binary()), Schema.parse(f"A {type}"), 0)

    assert found.rows.column(0).to_pylist() == [expected]
    assert bool(found.failures) is (expected is None)


@pytest.mark.parametrize(
    ("data", "is_read"), [("1 x", True), ("1x", False), ("1]", False), ("1\n2", True), ('"a"b', True), ("nullx", False)]
)
def test_a_bare_value_ends_where_its_word_or_number_ends(data: str, is_read: bool) -> None:
    """A number or a word goes on to a blank, or to a sign that is no letter."""
    format = Format("ksql_json", settings=((UNWRAPPED, "true"),))

    found = ksql_json.read(format, None, pa.array([data.encode()], pa.binary()), Schema.parse("A string"), 0)

    assert bool(found.failures) is not is_read


@examples(500)
@given(
    st.sampled_from(sorted(WRITTEN)).flatmap(
        lambda type: st.tuples(st.just(type), st.lists(WRITTEN[type] | ANYTHING, max_size=4))
    )
)
def test_bare_values_mean_what_each_means_alone(found: tuple[str, list[str]]) -> None:
    """So it is without an object around the one column."""
    columns, values = Schema.parse(f"A {found[0]}"), [text.encode("utf-8", "replace") for text in found[1]]
    format = Format("ksql_json", settings=((UNWRAPPED, "true"),))

    at_once = ksql_json.read(format, None, pa.array(values, pa.binary()), columns, 0)

    assert as_texts(at_once, columns) == as_texts(ksql_json.read_one_by_one(values, columns, is_bare=True), columns)


@pytest.mark.parametrize("type", sorted(WRITTEN))
def test_values_as_they_are_are_read_at_once(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No document is read alone where all have their columns as they are written, in any case of the names."""
    plain = {"decimal(6,2)": "12.50", "string": '"a\\n"', "boolean": "true", "binary": '"AQI="', "double": "1.5", "float": "1.5"}
    inner = plain.get(
        type.partition("<")[2].rpartition(">")[0].removeprefix("string,").removeprefix("X:").removesuffix(",Y:boolean"), "3"
    )
    value = plain.get(type, "3")
    if "<" in type:
        value = {"array": f"[{inner},null]", "map": f'{{"a":{inner}}}', "struct": f'{{"x":{inner}}}'}[type.partition("<")[0]]
    values = [f'{{"{name}":{found}}}'.encode() for name in ("A", "a") for found in (value, "null")]
    columns = Schema.parse(f"A {type}")
    alone = ksql_json.read_one_by_one(values, columns, is_bare=False)
    monkeypatch.setattr(ksql_json, "read_one_by_one", None)

    found = ksql_json.read(Format("ksql_json"), None, pa.array(values, pa.binary()), columns, 0)

    assert found.rows.column(0).null_count == 2
    assert as_texts(found, columns) == as_texts(alone, columns)
