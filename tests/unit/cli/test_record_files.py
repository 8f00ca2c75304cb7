"""Promises of the files that `produce` reads: what is taken, and what is refused with its line."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json
import math
import re
import subprocess
import sys
import threading
from ast import literal_eval

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamkit as sk
from streamkit.cli.terminal.rendering import counted
from streamkit.connectors.files.record_file import FileFormat, RecordFile
from streamkit.errors import SchemaError
from tests.kit.waiting import WAIT_SECONDS
from tests.unit.cli.command_process import CommandProcess

UTC = dt.timezone.utc
COLUMNS = "n int, x double, y float, day date, at timestamp, local timestamp_ntz"
GOOD = '{"a": 1, "b": "x"}'
FULL = {"n": 1, "x": 0.5, "y": 0.5, "day": "2026-01-31", "at": "2026-01-31T12:00:00Z", "local": "2026-01-31T12:00:00"}


@pytest.fixture
def topic(root):
    with sk.open_log(root) as log:
        log.create_topic("typed", COLUMNS, partitions=1)
        log.create_topic("plain", "a int, b string", partitions=1)
        log.create_topic("documents", format="json", partitions=1)


def read(root, topic, *columns):
    with sk.open_log(root) as log:
        return log.read(topic).select(columns or log.topic(topic).schema.names).to_pylist()


def test_what_is_no_finite_number_goes_round(streamkit, root, topic, tmp_path):
    """NaN and the infinities are printed in JSON as texts, as Spark writes them, and read back as what they were; CSV has them too."""
    values = [math.nan, math.inf, -math.inf, 1.5, None]
    with sk.open_log(root) as log, log.producer() as producer:
        for value in values:
            producer.send("typed", {"n": None, "x": value, "y": value, "day": None, "at": None, "local": None})
    printed = streamkit("consume", "typed", "--json")
    assert [json.loads(line)["x"] for line in printed.splitlines()] == ["NaN", "Infinity", "-Infinity", 1.5, None]

    for form, text in (("json", printed), ("csv", streamkit("consume", "typed", "--format", "csv"))):
        (tmp_path / f"f.{form}").write_text(text)
        streamkit("produce", "typed", str(tmp_path / f"f.{form}"))
    found = read(root, "typed", "x", "y")
    assert [(str(row["x"]), str(row["y"])) for row in found] == [(str(value), str(value)) for value in values] * 3


def test_texts_of_csv_go_round(as_program, streamkit, root, tmp_path):
    """What consume prints as CSV, produce takes back: empty texts and bytes are no null, ends of lines and quotes stay, void is null."""
    texts = ["", " ", ",", '"', '""', "a\rb", "end\r", "\n", "\r\n", "a,b", "null", "\u2028", "\0", "ä"]
    rows = [{"s": text, "b": text.encode(), "t": None, "v": None} for text in texts]
    rows.append({"s": "x", "b": None, "t": "", "v": None})
    with sk.open_log(root) as log:
        for name in ("before", "after"):
            log.create_topic(name, "s string not null, b binary, t string, v void", partitions=1)
        with log.producer() as producer:
            producer.send_batch("before", rows)

    (tmp_path / "f.csv").write_text(as_program("consume", "before", "--format", "csv")[1], newline="")
    streamkit("produce", "after", str(tmp_path / "f.csv"))
    assert read(root, "after") == rows


def test_csv_quotes_what_it_has_to(as_program, root):
    """Numbers, plain texts and nulls stand without quotes; an empty text has them, which tells it from null."""
    with sk.open_log(root) as log:
        log.create_topic("few", '`a,"b` string, n int', partitions=1)
        with log.producer() as producer:
            for text in ("", None, "x y"):
                producer.send("few", {'a,"b': text, "n": 1}, timestamp_ms=0)

    lines = as_program("consume", "few", "--format", "csv")[1].splitlines()
    assert [line.split(",1970")[0] for line in lines[1:]] == ['"",1', ",1", "x y,1"]
    assert lines[0] == '"a,""b",n,_timestamp,_partition,_offset,_deleted'


def test_a_void_column_takes_nothing(streamkit, root, tmp_path):
    """A value in a column that is always null is refused with its line."""
    with sk.open_log(root) as log:
        log.create_topic("hollow", "n int, v void", partitions=1)
    (tmp_path / "f.csv").write_text("n,v\n1,\n2,x\n")

    with pytest.raises(sk.StreamKitError, match=r"f.csv, line 3: column 'v': found 'x', expected void, which is always null"):
        streamkit("produce", "hollow", str(tmp_path / "f.csv"))


@pytest.mark.parametrize("name", ["x", "n"])
def test_other_texts_are_no_numbers(streamkit, root, topic, tmp_path, name):
    """A text that spells no number is refused, and so is NaN where numbers are whole."""
    (tmp_path / "f.json").write_text(json.dumps({**FULL, name: "nan" if name == "x" else "NaN"}))
    with pytest.raises(sk.StreamKitError, match=rf"f.json, line 1: column '{name}': found '"):
        streamkit("produce", "typed", str(tmp_path / "f.json"))


def test_times_may_be_milliseconds(streamkit, root, topic, tmp_path):
    """Times with and without a zone may be whole numbers of milliseconds, in JSON as numbers or as texts, and in CSV."""
    (tmp_path / "f.json").write_text(json.dumps({**FULL, "at": 1500, "local": 1500}))
    (tmp_path / "f.csv").write_text("n,x,y,day,at,local\n,,,,1500,1500\n")
    for name in ("f.json", "f.csv"):
        streamkit("produce", "typed", str(tmp_path / name))

    time = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)
    assert read(root, "typed", "at", "local") == [{"at": time.replace(tzinfo=UTC), "local": time}] * 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            '{"a": 1, "b": "x"}\n{"b": "y"}',
            r"f, line 2: the record has no column 'a'; found b; the topic has a int, b string; a column without .* null in JSON, empty in CSV$",
        ),
        ('{"a": null, "b": null}\n{"a": 1}', r"f, line 2: the record has no column 'b'"),
        ('{"b": "x", "zz": 2}', r"line 1: the record has no column 'a' and the unknown column 'zz'; found b, zz; the topic has"),
        ('{"a": 1, "b": "x", "zz": null}', r"line 1: the record has the unknown column 'zz'"),
        ('{"a": 1, "b": "\\"a\\": null"}\n{"b": "y"}', r"line 2: the record has no column 'a'"),
        ('{"a": 1, "b": "x"}\n{"a": 1, "a": 2, "b": "x"}', r"f, line 2: the name 'a' is twice"),
        ('{"a": 1.5, "b": "x"}', r"line 1: column 'a': found 1.5 \(float\), expected int; it is not an integer that fits int$"),
        (
            '{"a": 99999999999999999999, "b": "x"}',
            r"line 1: column 'a': found 9+ \(int\), expected int; it is not an integer that fits int$",
        ),
        ('{"a": true, "b": "x"}', r"line 1: column 'a': found True \(bool\), expected int"),
        ('{"a": 1, "b": 5}', r"line 1: column 'b': found 5, expected string$"),
    ],
    ids=range(10),
)
def test_json_that_is_refused(streamkit, root, topic, tmp_path, data, reason):
    """A line of JSON has just the columns of the topic, each once and of its type; else its line and column are named."""
    (tmp_path / "f").write_text(data)
    with pytest.raises(sk.StreamKitError, match=reason):
        streamkit("produce", "plain", str(tmp_path / "f"), "--format", "json")
    assert read(root, "plain") == []


def test_nulls_that_are_written_are_taken(streamkit, root, topic, tmp_path):
    """Null is a value, however it is spaced; only what is not there is refused."""
    (tmp_path / "f.json").write_text('{"a":null,"b":null}\n{ "b" : null , "a"\t:\tnull }\n{"a":1,"b":"\\"a\\":null"}\n')
    streamkit("produce", "plain", str(tmp_path / "f.json"))

    assert read(root, "plain", "a", "b") == [{"a": None, "b": None}] * 2 + [{"a": 1, "b": '"a":null'}]


def test_documents_are_whole(streamkit, root, topic, tmp_path):
    """A record of an opaque topic has its key and value, and no name twice at any depth."""
    for data, reason in (
        ('{"value": 1}', "line 1: the record has no column 'key'"),
        ('{"key": "k", "value": {"a": 1, "a": 2}}', "line 1: the name 'a' is twice"),
    ):
        (tmp_path / "f.json").write_text(data)
        with pytest.raises(sk.StreamKitError, match=reason):
            streamkit("produce", "documents", str(tmp_path / "f.json"))


NO_OBJECT = [  # a line, and why it is refused
    ("null", r"f, line 1: found 'null', expected an object of names and values"),
    ("null\n" + GOOD, r"f, line 1: found 'null', expected an object"),
    (GOOD + GOOD, r"f, line 1: found .*, which is no JSON: Extra data"),
    (GOOD + '{"a": 1, "b": 5}', r"f, line 1: found .*, which is no JSON: Extra data"),
    (GOOD + "null", r"f, line 1: found .*, which is no JSON: Extra data"),
    ('{\n"a": 1,\n"b": "x"\n}\n', r"f, line 1: found '{', which is no JSON"),
    ("[" * 100_000, r"f, line 1: found '\[+', which is no JSON: maximum recursion depth exceeded"),
    ('{"a": 1, "b": "x", "zz": ' + "[" * 20_000 + "]" * 20_000 + "}", r"f, line 1: found .*, which is no JSON: maximum"),
    ('{"a": 1, "b": "\\ud800"}', r"f, line 1: column 'b'"),
]
READS_EACH = """
import sys, streamkit as sk
from streamkit.connectors.files.record_file import FileFormat, RecordFile
with sk.open_log(sys.argv[1]) as log:
    for path in sys.argv[2:]:
        try:
            list(RecordFile(open(path, "rb"), "f", FileFormat.JSON, log.topic("plain"), None).pieces())
            print("taken")
        except sk.StreamKitError as error:
            print(repr(str(error)))
"""


def test_json_has_an_object_a_line(root, topic, tmp_path):
    """A line holds one object and nothing beside it, however little or much there is; all else is refused with its line, and ends no process."""
    paths = [tmp_path / f"f{number}" for number in range(len(NO_OBJECT))]
    for path, (data, _) in zip(paths, NO_OBJECT, strict=True):
        path.write_text(data)
    command = [sys.executable, "-c", READS_EACH, str(root), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    for line, (data, reason) in zip(done.stdout.splitlines(), NO_OBJECT, strict=True):
        assert re.search(reason, literal_eval(line).splitlines()[-1]), data[:50]


@pytest.mark.parametrize(
    ("kind", "written", "stored"),
    [
        ("decimal(20,2)", "12345678901234567.89", decimal.Decimal("12345678901234567.89")),
        ("decimal(38,18)", "-1.000000000000000001e1", decimal.Decimal("-10.00000000000000001")),
        ("bigint", "9007199254740993.0", 9007199254740993),
        ("bigint", "9.007199254740993e15", 9007199254740993),
        ("bigint", "1e3", 1000),
        ("double", "123456789012345678901234567890", 1.2345678901234568e29),
        ("double", "1.50", 1.5),
    ],
)
@pytest.mark.parametrize("beside", ["", '\n{"x": 0.5e1}'], ids=["alone", "beside others"])
def test_numbers_of_json_are_exact(streamkit, root, tmp_path, kind, written, stored, beside):
    """A number of JSON arrives with all its digits, however it is written, and whatever stands in the lines beside it."""
    with sk.open_log(root) as log:
        log.create_topic("numbers", f"x {kind}", partitions=1)
    (tmp_path / "f.json").write_text(f'{{"x": {written}}}{beside}')
    streamkit("produce", "numbers", str(tmp_path / "f.json"))

    assert read(root, "numbers", "x") == [{"x": stored}, *([{"x": 5}] if beside else [])]


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("bigint", "9007199254740993.5"), ("bigint", "1e-400"), ("bigint", "1e-99999999999999999999"), ("bigint", "1e99"),
        ("decimal(20,2)", "0.001"), ("decimal(20,2)", "1e99999999999999999999"), ("double", "1e999"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_not_rounded(streamkit, root, tmp_path, kind, written):
    """A number of which a digit would be lost in a column that has all digits, or that is larger than all doubles, is refused."""
    with sk.open_log(root) as log:
        log.create_topic("numbers", f"x {kind}", partitions=1)
    (tmp_path / "f.json").write_text(f'{{"x": {written}}}')
    with pytest.raises(sk.StreamKitError, match=r"f.json, line 1: column 'x': found .*, expected"):
        streamkit("produce", "numbers", str(tmp_path / "f.json"))


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("12345678901234567890.123456789", "12345678901234567890.123456789"),
        ('{"a": [1.10, 1E5, "\\u00e4", true, null, 0.5], "b": {}}', '{"a":[1.10,1E5,"ä",true,null,0.5],"b":{}}'),
    ],
)
def test_numbers_of_documents_stay_as_written(streamkit, root, topic, tmp_path, written, stored):
    """Numbers in the values of an opaque topic of JSON are stored as they were written."""
    (tmp_path / "f.json").write_text(f'{{"key": "k", "value": {written}}}\n{{"key": "k", "value": null}}')
    streamkit("produce", "documents", str(tmp_path / "f.json"))

    assert read(root, "documents", "value") == [{"value": stored.encode()}, {"value": None}]


def test_documents_that_cannot_be_written_are_refused(streamkit, root, topic, tmp_path):
    """A value of an opaque topic of JSON that is larger than all doubles, or nests too deep, is refused with its line."""
    for value in ("1e999", "[1.10, NaN]", "[" * 600 + "1.10" + "]" * 600, "[" * 5000 + "]" * 5000):
        (tmp_path / "f.json").write_text(f'{{"key": "k", "value": {value}}}')
        with pytest.raises(sk.StreamKitError, match=r"f.json, line 1: "):
            streamkit("produce", "documents", str(tmp_path / "f.json"))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("day", 5, "found 5, expected date, as ISO text such as 2026-01-31"),
        ("at", True, "found true, expected timestamp, as ISO text such as .*, or milliseconds"),
        ("local", "noon", "found 'noon', expected timestamp_ntz, as ISO text without a zone"),
    ],
)
def test_dates_and_times_that_are_refused(streamkit, root, topic, tmp_path, name, value, reason):
    """Who writes a date or a time otherwise is told how it is written."""
    (tmp_path / "f.json").write_text(json.dumps({**FULL, name: value}))
    with pytest.raises(sk.StreamKitError, match=f"line 1: column '{name}': {reason}"):
        streamkit("produce", "typed", str(tmp_path / "f.json"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a,a\n1,2\n", "f.csv: the column 'a' is there twice"),
        (b"a\n", "f.csv: topic plain: the data have no column 'b'; found a; the topic has a int, b string"),
        (b"a,b,zz\n", "f.csv: topic plain: the data have the unknown column 'zz'"),
        (b'a,b\n1,x\n2,"y\n3,z\n', "f.csv, line 3: found a quote that is opened and never closed"),
        (b'a,b\n1,x\n"2,y\n', "f.csv, line 3: found a quote that is opened and never closed"),
        (b'a,b\n1,5" wide\n2,"y\n3,z\n', "f.csv, line 3: found a quote that is opened and never closed"),
        (b'a,b\n1,"x"y\n2,"y\n3,z\n', "f.csv, line 3: found a quote that is opened and never closed"),
        (b"a,b\n1,x\n2,\xff\n", r"f.csv, line 3: column 'b': found b'\\xff', expected text in UTF-8"),
    ],
    ids=range(8),
)
def test_csv_that_is_refused(streamkit, root, topic, tmp_path, data, reason):
    """A CSV file has each column once, closes its quotes, and is UTF-8; else its line is named."""
    (tmp_path / "f.csv").write_bytes(data)
    with pytest.raises(sk.StreamKitError, match=reason):
        streamkit("produce", "plain", str(tmp_path / "f.csv"))
    assert read(root, "plain") == []


def test_a_quote_within_a_text_is_a_text(streamkit, root, topic, tmp_path):
    """A single quote that opens nothing is taken as it is."""
    (tmp_path / "f.csv").write_text('a,b\n1,5" wide\n')
    streamkit("produce", "plain", str(tmp_path / "f.csv"))

    assert read(root, "plain", "b") == [{"b": '5" wide'}]


def test_csv_comes_through_a_pipe(root, topic):
    """A pipe, in which nobody can seek, is read as a file is; what is wrong in it is refused without its line."""
    for data, code, said in (
        ("a,b\n1,x\n", 0, ""),
        ("a,b\n1,x,y\n", 1, "error: standard input cannot be read as CSV"),
        ('a,b\n1,"x\n2,y\n', 1, "error: standard input: found a quote that is opened and never closed"),
    ):
        found, _, errors = CommandProcess(root, "produce", "plain", "-", "--format", "csv").rest(data)
        assert (found, errors[: len(said)]) == (code, said)

    assert read(root, "plain") == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("f.json", '{"a": 1, "b": "x"}\n', "line 1: the record has no column 'when', expected the event time there; found a, b"),
        ("f.json", '{"a": 1, "b": "x", "when": 5}\n\n{"a": 1, "b": "x"}\n', "line 3: the record has no column 'when'"),
        ("f.csv", "a,b\n1,x\n", "f.csv has no column 'when'; it has a, b"),
    ],
    ids=["in no line", "not in one line", "CSV"],
)
def test_event_times_are_not_made_up(streamkit, root, topic, tmp_path, name, data, reason):
    """A record without the column that --timestamp-column names is refused, and does not get the time of its arrival."""
    (tmp_path / name).write_text(data)
    with pytest.raises(sk.StreamKitError, match=reason):
        streamkit("produce", "plain", str(tmp_path / name), "--timestamp-column", "when")
    assert read(root, "plain") == []


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_event_times_may_have_their_own_name(streamkit, root, topic, tmp_path, form):
    """--timestamp-column _timestamp takes the event times of that column, as they are taken without it."""
    time = dt.datetime(2020, 1, 1, tzinfo=UTC)
    (tmp_path / "f.csv").write_text("a,b,_timestamp\n1,x,2020-01-01\n")
    (tmp_path / "f.json").write_text('{"a": 1, "b": "x", "_timestamp": "2020-01-01T00:00:00Z"}')
    pq.write_table(pa.table({"a": [1], "b": ["x"], "_timestamp": [time]}), tmp_path / "f.parquet")
    streamkit("produce", "plain", str(tmp_path / f"f.{form}"), "--timestamp-column", "_timestamp")

    assert read(root, "plain", "a", "_timestamp") == [{"a": 1, "_timestamp": time}]


@pytest.mark.parametrize(
    ("kind", "count"), [("int64", 1 << 62), ("int64", -(1 << 63)), ("uint64", (1 << 64) - 1), ("uint64", (1 << 63) - 1)]
)
def test_event_times_beyond_all_times_are_refused(streamkit, root, topic, tmp_path, kind, count):
    """Milliseconds that no event time has are refused with their record, whatever the type of their column."""
    times = pa.array([0, None, count], getattr(pa, kind)())
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "t": times}), tmp_path / "f.parquet")
    with pytest.raises(SchemaError, match=rf"f.parquet, record 3: column 't': found {count}.*, expected"):
        streamkit("produce", "plain", str(tmp_path / "f.parquet"), "--timestamp-column", "t")
    assert read(root, "plain") == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_names_in_another_encoding_are_refused(streamkit, root, topic, tmp_path, encoding):
    """A CSV file in UTF-16 is refused with what was found in its first line."""
    (tmp_path / "f.csv").write_text("\ufeffä,b\n1,x\n", encoding=encoding)
    with pytest.raises(SchemaError, match=r"f.csv, line 1: found b'.*, expected the names of columns, as text in UTF-8"):
        streamkit("produce", "plain", str(tmp_path / "f.csv"))


@pytest.mark.parametrize("data", ["a,b", "a,b\n", "a,b\n1,x"], ids=["names", "names and a line end", "a record"])
def test_the_last_line_of_csv_needs_no_end(streamkit, root, topic, tmp_path, data):
    """A line of names alone is a file of no records, and the last line may end without a line end."""
    (tmp_path / "f.csv").write_text(data)

    assert f"{counted(data.count('1'), 'record')} written" in streamkit("produce", "plain", str(tmp_path / "f.csv"))


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ({95: None, 96: None}, "line 97: topic strict: column 's': found null.*; the rows that do not fit are lines 97, 98$"),
        ({95: "x" * 5_000}, r"line 97: topic strict: it takes \d+ bytes"),
    ],
    ids=["null", "large"],
)
def test_all_records_that_are_refused_have_their_lines(streamkit, root, tmp_path, monkeypatch, form, refused, reason):
    """Where several records of a file do not fit, each is named by its line of the file."""
    monkeypatch.setattr("streamkit.connectors.files.record_file.BLOCK_BYTES", 1_024)
    with sk.open_log(root) as log:
        log.create_topic("strict", "n int, s string not null", partitions=1, config={"max.message.bytes": 2_000})
    texts = [refused.get(number, "x") for number in range(100)]
    lines = {
        "csv": ["n,s", *(f"{number},{text or ''}" for number, text in enumerate(texts))],
        "json": ["", *(json.dumps({"n": number, "s": text}) for number, text in enumerate(texts))],
    }
    (tmp_path / f"f.{form}").write_text("\n".join(lines[form]))
    with pytest.raises(SchemaError, match=rf"f.{form}, {reason}"):
        streamkit("produce", "strict", str(tmp_path / f"f.{form}"))


class Watched(io.BytesIO):
    """A file that knows which threads read it."""

    def __init__(self, data):
        super().__init__(data)
        self.threads = set()

    def read1(self, size=-1):
        self.threads.add(threading.current_thread())
        return super().read1(size)

    def read(self, size=-1):
        self.threads.add(threading.current_thread())
        return super().read(size)


@pytest.mark.parametrize(
    ("form", "data"),
    [(FileFormat.CSV, b"a,wrong\n1,x\n"), (FileFormat.CSV, b"a,b\n1,x,y\n"), (FileFormat.JSON, b"{}\n")],
    ids=["header", "record", "JSON"],
)
def test_no_thread_is_left_reading(root, topic, form, data):
    """Whoever reads a file that is refused is done with it: a thread still reading when Python ends would abort the process."""
    file = Watched(data)
    with sk.open_log(root) as log, pytest.raises(sk.StreamKitError):
        list(RecordFile(file, "f", form, log.topic("plain"), None).pieces())

    assert file.threads == {threading.current_thread()}


def test_records_of_csv_go_over_blocks(streamkit, root, topic, tmp_path, monkeypatch):
    """A CSV file comes in blocks; records over several lines, and longer than a block, are whole."""
    monkeypatch.setattr("streamkit.connectors.files.record_file.BLOCK_BYTES", 16)
    rows = [(number, f'line\n"{number}"\r\n' * (number % 5) + '5" wide') for number in range(100)]
    with (tmp_path / "f.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows([("a", "b"), *rows])
    streamkit("produce", "plain", str(tmp_path / "f.csv"))

    assert read(root, "plain") == [{"a": a, "b": b} for a, b in rows]
