"""Columns that are guessed: whatever the guess says, the reader reads all of it, and nothing of what is written there is lost."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import math
import re
import shutil
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.connectors.files import FileSource
from streamkit.connectors.runtime.shares import splits_of
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError, SchemaError
from tests.kit.sampling import examples

TEXTS = [
    "0",
    "1",
    "-1",
    "7",
    "42",
    "007",
    "-0",
    "-0.0",
    "00",
    "+5",
    "+49301234",
    "0x1F",
    "0x20",
    "0XFF",
    "1e5",
    "1E+3",
    "1e+20",
    "1.5e-7",
    "-2.5E-4",
    "1e400",
    "1e-400",
    "1.10",
    "2.50",
    ".5",
    "5.",
    "-.5",
    "1,5",
    "0.1",
    "0.30000000000000004",
    "0.12345678901234567890123",
    "12345678901234567890",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "123456789012345678901234567890123456789",
    "99999999999999999999999999999999999999.5",
    "1_0",
    "1d",
    "0b1",
    "١",
    "−5",
    "NaN",
    "nan",
    "inf",
    "-inf",
    "Infinity",
    "NA",
    "null",
    "true",
    "false",
    "True",
    "TRUE",
    "tRuE",
    "t",
    "yes",
    "2024-01-02",
    "2024-02-30",
    "0000-01-01",
    "0001-01-01",
    "9999-12-31",
    "10000-01-01",
    "20240102",
    "2024/01/02",
    "03:04:05",
    "2024-01-02T03:04",
    "2024-01-02T03:04:05",
    "2024-01-02T03:04:05Z",
    "2024-01-02T03:04:05+0200",
    "2024-01-02T03:04:05.5-03:30",
    "2024-01-02T24:00",
    "2024-01-02T03:04:60",
    "2024-01-02T03:04:05.123456",
    "2024-01-02T03:04:05.123456789",
    "2024-01-02T03:04:05.1234560",
    "2024-01-02T03",
    "0001-01-01T00:00+05",
    "9999-12-31T23:59:59-05",
    "2024-01-02T03:04:05+99:00",
    "PT5M",
    "x",
]
SPACED = [
    " 5",
    "5 ",
    "\t5",
    " true",
    " 2024-01-02",
    "  ",
    "2024-02-03 04:05:06.5+00",
    "2024-01-02 03:04:05",
    "2024-01-02 03",
    "1 000",
    "5\n",
]
LINE_MARKS = set(",\n")
TEXT = st.one_of(
    st.sampled_from([*TEXTS, *SPACED]),
    st.text(st.sampled_from("01259+-.eExF:TZ \t"), min_size=1, max_size=9),
    st.integers().map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.datetimes().map(str),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("guesses") / "in"


def read(folder, name, data, **given):
    """The types that are guessed of a file, and its records."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / name).write_bytes(data)
    source = FileSource("in", path=str(folder), topic="t", min_age_ms=0, **given)
    source.refused = []
    source.open(dict.fromkeys(source.splits()))
    rows = []
    while (polled := source.poll(0.0)) is not None:
        for table in polled.tables.values():
            assert isinstance(table, pa.Table)
            rows += table.to_pylist()
    return source._topic and {column.name: column.type for column in source._topic.schema}, rows


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def says(value, text):
    """Whether a value says all that a text says: a number by the digits of its text, spelled as numbers are."""
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return text.lower().replace("infinity", "inf") == str(value)
    if isinstance(value, int | float | Decimal):
        usual = re.fullmatch(r"-?(0|[1-9][0-9]*)?(\.[0-9]+)?(e[+-]?[0-9]+)?", text, re.IGNORECASE | re.ASCII)
        printed = repr(value) if isinstance(value, float) else str(value)
        signed = printed.startswith("-") == text.startswith("-")
        return (
            bool(usual)
            and signed
            and Decimal(printed) == Decimal(text)
            and (text == printed or "." in text or "e" not in text.lower() or "+" in text or "-" in text[1:])
        )
    if isinstance(value, dt.datetime):
        moment = dt.datetime.fromisoformat(re.sub(r"([+-]\d\d)$", r"\1:00", text.replace("Z", "+00:00")))
        return moment.astimezone(dt.timezone.utc) == value if moment.tzinfo else moment == value.replace(tzinfo=None)
    return value.isoformat() == text if isinstance(value, dt.date) else value == text


@examples(200)
@given(texts=st.lists(TEXT, min_size=1, max_size=4), is_quoted=st.booleans())
def test_csv(folder, texts, is_quoted):
    """Random texts of a column: nothing is refused, and each value says what its text says."""
    lines = "".join(f"{n},{quoted(text) if is_quoted or set(text) & LINE_MARKS else text}\n" for n, text in enumerate(texts))
    types, rows = read(folder, "a.csv", f"id,v\n{lines}".encode())
    values = [row["v"] for row in rows]
    assert len(values) == len(texts) and all(map(says, values, texts)), (types, values)


def test_each_text_alone(folder):
    """The same of each text that has been trouble, alone, and twice beside a number, a time and a null: each in a column of one file."""
    besides = ("", "1", "1.5", "2024-01-02", "2024-01-02 03:04:05", "x")
    columns = [(text, beside) for text in [*TEXTS, *SPACED] for beside in besides]
    names = ",".join(f"v{number}" for number in range(len(columns)))
    lines = [",".join(quoted(cell) if cell else "" for cell in cells) for cells in zip(*columns, strict=True)]
    types, rows = read(folder, "a.csv", f"id,{names}\n0,{lines[0]}\n1,{lines[1]}\n9,{',' * (len(columns) - 1)}\n".encode())
    for number, (text, beside) in enumerate(columns):
        values = [row[f"v{number}"] for row in rows]
        assert says(values[0], text) and values[2] is None, (text, beside, types[f"v{number}"], values)
        assert says(values[1], beside) if beside else values[1] is None, (text, beside, types[f"v{number}"], values)


@pytest.mark.parametrize(
    ("texts", "type"),
    [
        (["1", "-5", "20240102"], "bigint"),
        (["1.10", "2.50", "7"], "double"),
        (["1e+20", "1.5e-07", "0.1"], "double"),
        (["NaN", "1.5", "-inf"], "double"),
        (["0x1F", "0x20"], "string"),
        (["+49301234", "+5"], "string"),
        (["01234"], "string"),
        (["-0", "1"], "string"),
        (["1e5"], "string"),
        (["12345678901234567890", "1"], "decimal(38,0)"),
        (["0.12345678901234567890123"], "decimal(38,23)"),
        (["9007199254740993", "1e+16"], "decimal(38,0)"),
        (["true", "FALSE"], "boolean"),
        (["2024-01-02"], "date"),
        (["2024-02-03 04:05:06.5+00", "2024-02-03 04:05:06Z"], "timestamp"),
        (["2024-01-02 03:04:05", "2024-01-02"], "timestamp"),
        (["2024-01-02 03:04:05", "2024-01-02 03:04:05Z"], "string"),
        (["2024-01-02 03:04:05.123456789"], "string"),
        ([" 5", "6"], "string"),
    ],
)
def test_what_is_guessed(folder, texts, type):
    """Types that users count on."""
    types, _ = read(folder, "a.csv", ("v\n" + "\n".join(texts) + "\n").encode())
    assert types == {"v": type}


NUMBER = st.one_of(
    st.integers(-(10**37), 10**37).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        [
            "1E5",
            "1.10",
            "0.30000000000000004",
            "0.12345678901234567890123",
            "9007199254740993",
            "18446744073709551616",
            "-0.0",
            "1e2",
        ]
    ),
)
LEAF = st.one_of(NUMBER, st.just("null"), st.booleans().map(json.dumps), st.sampled_from([*TEXTS, *SPACED]).map(json.dumps))


def documents(leaf):
    """JSON of one shape, a column of which has values of one kind, nested or not."""
    return st.one_of(
        leaf,
        st.lists(leaf, max_size=3).map(lambda parts: f"[{','.join(parts)}]"),
        st.dictionaries(st.sampled_from(["a", "b", "c d"]), leaf, min_size=1, max_size=2).map(
            lambda fields: "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields.items()) + "}"
        ),
    )


def is_kept(found, wanted):
    """Whether a value that was read is the one that was written, every digit of it; what an object lacks is null."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return set(wanted) <= set(found) and all(is_kept(value, wanted.get(name)) for name, value in found.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(is_kept, found, wanted))
    if isinstance(wanted, Decimal):
        return isinstance(found, int | float | Decimal) and Decimal(str(found)) == wanted
    if isinstance(wanted, str) and isinstance(found, float):  # JSON has texts for these alone
        return (
            not math.isfinite(found)
            and wanted in ("NaN", "Infinity", "-Infinity")
            and float(wanted) == pytest.approx(found, nan_ok=True)
        )
    if isinstance(wanted, str):
        return says(found, wanted) and not isinstance(found, bool | int | float | Decimal)
    return found == wanted and type(found) is type(wanted)


@examples(120)
@given(st.data())
def test_json(folder, data):
    """Random JSON: what has one type is read with every digit, nested too; what has none is refused, and the message names the column."""
    leaf = data.draw(st.sampled_from([NUMBER, LEAF, st.sampled_from([*TEXTS, *SPACED]).map(json.dumps)]))
    values = data.draw(st.lists(documents(leaf), min_size=1, max_size=3))
    written = "".join(f'{{"id":{n},"v":{value}}}\n' for n, value in enumerate(values)).encode()
    try:
        types, rows = read(folder, "a.json", written)
    except SchemaError as error:
        assert re.search(
            r"a\.json: the column 'v.* (holds .* and .*, expected one kind|no type of numbers keeps|are .* its own name)",
            str(error),
        ), error
        return
    wanted = [json.loads(line, parse_int=Decimal, parse_float=Decimal)["v"] for line in written.splitlines()]
    assert all(map(is_kept, [row["v"] for row in rows], wanted)), (types, rows)


PARQUET = {
    "u": pa.array([(1 << 64) - 1, None], pa.uint64()), "t": pa.array([1, 86_399_999_999], pa.time64("us")), "m": pa.array([5, None], pa.time32("ms")),
    "s": pa.array([{"u": 1, "t": 1}, None], pa.struct([("u", pa.uint64()), ("t", pa.time64("us"))])), "l": pa.array([[1], []], pa.list_(pa.uint64())),
    "d": pa.array([Decimal("1.5"), None], pa.decimal256(30, 2)), "n": pa.nulls(2), "at": pa.array([1_000, None], pa.timestamp("ns")),
}  # fmt: skip


def test_parquet(folder):
    """Unsigned 64-bit integers, times of day and wide decimals have a type that holds them, nested too."""
    file = io.BytesIO()
    pq.write_table(pa.table(PARQUET), file)
    types, rows = read(folder, "a.parquet", file.getvalue())
    assert types == {
        "u": "decimal(20,0)", "t": "string", "m": "string", "s": "struct<u:decimal(20,0),t:string>", "l": "array<decimal(20,0)>",
        "d": "decimal(30,2)", "n": "string", "at": "timestamp_ntz",
    }  # fmt: skip
    assert rows[0] == {
        "u": Decimal((1 << 64) - 1), "t": "00:00:00.000001", "m": "00:00:00.005", "s": {"u": Decimal(1), "t": "00:00:00.000001"}, "l": [Decimal(1)],
        "d": Decimal("1.50"), "n": None, "at": dt.datetime(1970, 1, 1, 0, 0, 0, 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            pa.array([5, 1_234_567_891], pa.timestamp("ns")),
            r"a\.parquet, record 1: column 'v'.*1970-01-01 00:00:00\.000000005.*would lose data",
        ),
        (pa.array([5], pa.duration("s")), r"a\.parquet: column 'v': a column cannot hold Arrow's duration"),
        (pa.array([Decimal(10) ** 40], pa.decimal256(50, 2)), r"a\.parquet: column 'v'"),
    ],
)
def test_parquet_that_no_column_holds(folder, values, message):
    """The error names the file and the column."""
    file = io.BytesIO()
    pq.write_table(pa.table({"v": values}), file)
    with pytest.raises(SchemaError, match=message):
        read(folder, "a.parquet", file.getvalue())


def test_a_guess_passes_over_what_is_no_record(folder):
    """Where failures are tolerated, a bad first line ends nothing."""
    types, rows = read(folder, "a.json", b'no json\n{"id":3}\n', errors_tolerance="all")
    assert (types, [row["id"] for row in rows]) == ({"id": "bigint"}, [3])
    types, rows = read(folder, "a.csv", b"id,v\n1\n2,x\n", errors_tolerance="all")
    assert (types, rows) == ({"id": "bigint", "v": "string"}, [{"id": 2, "v": "x"}])


def test_null_is_no_text_in_a_guess(folder):
    """What stands for null by the setting says nothing of the type."""
    types, rows = read(folder, "a.csv", b"id,v\n1,NA\n2,5\n", null="NA")
    assert (types, [row["v"] for row in rows]) == ({"id": "bigint", "v": "bigint"}, [None, 5])


@pytest.mark.parametrize("schema", [{}, {"schema": "id bigint, v string"}], ids=["guessed", "declared"])
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig", "UTF-8"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.csv.gz"])
def test_encodings(folder, name, encoding, schema, monkeypatch):
    """Texts in other encodings are read by a setting, whatever block or chunk they are cut at."""
    monkeypatch.setattr("streamkit.connectors.files.record_blocks.BLOCK_BYTES", 7)
    monkeypatch.setattr("streamkit.connectors.files.recoded.CHUNK_BYTES", 3)
    text = '{"id":1,"v":"Böß"}\r\n{"id":2,"v":"x"}\r\n' if "json" in name else "id,v\r\n1,Böß\r\n2,x\r\n"
    data = text.encode(encoding)
    types, rows = read(folder, name, gzip.compress(data) if name.endswith("gz") else data, encoding=encoding, **schema)
    assert types == {"id": "bigint", "v": "string"}
    assert [(row["id"], row["v"]) for row in rows] == [(1, "Böß"), (2, "x")]


@pytest.mark.parametrize("schema", [{}, {"schema": "id bigint, v string"}], ids=["guessed", "declared"])
def test_what_csv_needs_to_be_told(folder, schema):
    """Another encoding and another delimiter are errors that name the line and the setting."""
    for data, message in (
        (b"id,v\n1,x\n2,B\xf6\n", r"a\.csv, line 3: .*xf6.*expected text in UTF-8; .* encoding=latin-1"),
        (b"id,\xf6\n1,x\n", r"a\.csv, line 1: .*expected .*UTF-8; .* encoding=latin-1"),
        (b"id;v\n1;x\n", r"a\.csv.*found .*id;v.*delimiter=';'"),
        (b"id\tv\n1\tx\n", r"a\.csv.*found .*delimiter='.t'"),
    ):
        with pytest.raises(SchemaError, match=message) as error:
            read(folder, "a.csv", data, **schema)
        assert str(error.value).count("a.csv") == 1
    _, rows = read(folder, "a.csv", b"id;v\n1;x\n", delimiter=";", **schema)
    assert rows[0]["v"] == "x"
    for options, message in (
        ({"encoding": "klingon"}, "encoding='klingon'; expected the name"),
        ({"encoding": "base64"}, "encoding='base64'"),
    ):
        with pytest.raises(ConfigError, match=message):
            read(folder, "a.csv", b"", **options)
    with pytest.raises(SchemaError, match=r"a\.csv is not all ascii, as encoding says: .*can't decode byte 0xf6"):
        read(folder, "a.csv", b"id,v\n1,B\xf6\n", encoding="ascii", **schema)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'id,v\n1,"a\nb"\n2,b,c\n', "line 4: found 3 values, expected 2: id, v"),
        (b"id,v\r1,a\r2\r", "line 3: found 1 values, expected 2: id, v"),
        (b'id,v\n1,a\n2,"b\n3,c\n', "line 3: found a quote that is opened and never closed"),
        (b"id,v,v\n1,a,b\n", "columns have the same name, 'v'"),
        (b"id,,v\n1,a,b\n", "a column has an empty name"),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "A.CSV"])
def test_what_cannot_be_guessed_from(folder, name, data, message):
    """The file, once, and the line where there is one; suffixes may be upper case."""
    with pytest.raises(SchemaError, match=rf"{name}(, |: ){message}") as error:
        read(folder, name, data)
    assert str(error.value).count(name) == 1


@pytest.mark.parametrize(
    "schema", [{}, {"schema": "id bigint, v double, d decimal(10,2), n bigint"}], ids=["guessed", "declared"]
)
def test_decimal_commas(folder, schema):
    """Numbers with a comma before the fraction, and points between thousands; a point elsewhere is refused, or makes a text."""
    settings = {"delimiter": ";", "decimal_comma": True, **schema}
    types, rows = read(folder, "a.csv", b"id;v;d;n\n1;1.234,5;-2,50;1.234.567\n2;0,25;10;7\n3;;;\n", **settings)
    wanted = [(1234.5, Decimal("-2.50"), 1234567), (0.25, Decimal(10), 7), (None, None, None)]
    assert [(row["v"], row["d"] if schema else row["d"] and Decimal(repr(row["d"])), row["n"]) for row in rows] == wanted
    if schema:
        with pytest.raises(SchemaError, match=r"a\.csv, line 2: column 'v': found '1\.5', expected double"):
            read(folder, "a.csv", b"id;v;d;n\n1;1.5;2;3\n", **settings)
    else:
        types, rows = read(folder, "a.csv", b"id;v\n1;1.5\n2;2,5\n3;1,234.5\n", **settings)
        assert (types, [row["v"] for row in rows]) == ({"id": "bigint", "v": "string"}, ["1.5", "2,5", "1,234.5"])


def test_what_postgresql_writes(folder):
    """`psql --csv` and COPY have t and f, and zones of hours alone; nothing is null, and a quoted nothing an empty text."""
    data = b'id,at,ok,n,x,e\n1,2024-02-03 04:05:06.5+00,t,1.50,,""\n2,2024-02-03 04:05:06+05:30,f,2.00,y,z\n'
    types, rows = read(folder, "a.csv", data, schema="id int, at timestamp, ok boolean, n decimal(10,2), x string, e string")
    assert [(row["ok"], row["x"], row["e"], row["at"].microsecond) for row in rows] == [
        (True, None, "", 500_000),
        (False, "y", "z", 0),
    ]
    types, rows = read(folder, "a.csv", data)
    assert (types["at"], types["ok"], types["n"]) == ("timestamp", "string", "double")


@pytest.mark.parametrize("is_renamed", [False, True], ids=["as they are", "transformed"])
def test_tasks_have_one_guess(tmp_path, is_renamed):
    """The connector's first file says the columns, whichever task is the first to read, and whatever it reads first."""
    for number, cell in enumerate(['""', "5", "x", "1.5", "7", "true", "2020-01-01"]):
        (tmp_path / f"{number}.csv").write_text(f"z\n{cell}\n")
    renamed = {"transforms": "t", "transforms.t.type": "ReplaceField$Value", "transforms.t.renames": "z:y"} if is_renamed else {}
    config = {"topic": "t", "path": str(tmp_path), "min.age.ms": "0", **renamed}
    read = []
    for task in range(3):
        source = FileSource("in", config)
        source.open(dict.fromkeys(splits_of(task, 3, source.splits())))
        while (polled := source.poll(0.0)) is not None:
            read += [table for table in polled.tables.values() if isinstance(table, pa.Table)]
        source.close()
    assert {str(table.schema.field("z").type) for table in read} == {"string"}
    assert sorted(str(row["z"]) for table in read for row in table.to_pylist()) == sorted(
        ["", "5", "x", "1.5", "7", "true", "2020-01-01"]
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_results_do_not_depend_on_tasks(tmp_path, order):
    """Tasks that come one behind the other, in any order: a later one reads in the columns of the topic that is there by then."""
    for number, cell in enumerate(["x", "5", "7", "1.5", "2020-01-01", "true"]):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}.csv").write_text(f"z\n{cell}\n")
    with sk.open_log(tmp_path / "log") as log:
        for task in order:
            SourceTask(
                FileSource("in", {"topic": "t", "path": str(tmp_path / "in"), "min.age.ms": "0"}), task, 3, log, is_once=True
            ).run(Orders())
        assert sorted(log.read("t")["z"].to_pylist()) == ["1.5", "2020-01-01", "5", "7", "true", "x"]
