"""`streamkit init`: from a file to a topic, a topology that runs and a test that passes."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import importlib
import json
import random
import re
import shlex
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamkit as sk
from streamkit.connectors.files.guess import guess, guess_open
from streamkit.connectors.files.record_file import FileFormat
from streamkit.errors import ConfigError, SchemaError, TopicExistsError
from tests.kit.program import Program

CSV = """order_id,status,amount,created_at,note
1,paid,10.5,2024-01-01T10:00:00,first
2,open,3.25,2024-01-01T10:20:00,
3,paid,7,2024-01-01T11:00:00,x
4,paid,1,2024-01-01T12:00:00,
"""
JSON = """{"user": {"id": 1, "name": "ann"}, "page": "/a", "tags": ["x", "y"], "ms": 12}
{"user": {"id": 2, "name": "bob"}, "page": "/b", "tags": [], "ms": 3}
{"user": {"id": 1, "name": "ann"}, "page": "/a", "tags": null, "ms": 7}
{"user": null, "page": "/b", "tags": [null], "ms": null}
"""
BAD_DATE = 'n,at\n1,2026-01-31\n"2",2026-01-31 12:00:00\n3,yesterday\n'
EMPTY_DATE = "n,at\n1,2026-01-31 12:00:00\n2,\n3,2026-01-31 12:00:00\n"
ZONES = "n,at\n1,2026-01-31T12:00:00Z\n2,2026-01-31T12:00:00\n"


AS_SCRIPT = (
    "import os, runpy, sys; sys.path.insert(0, os.path.dirname(sys.argv[1])); runpy.run_path(sys.argv[1], run_name='__main__')"
)


@pytest.fixture
def begin(streamkit, tmp_path):
    """Write a file and call `streamkit init` on it."""

    def call(name, content, *options):
        file = tmp_path / name
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(content) if isinstance(content, str) else pq.write_table(content, file)
        return streamkit("init", str(file), "--folder", str(tmp_path), "--log", str(tmp_path / "mine"), *options)

    return call


@pytest.fixture
def runs(streamkit, tmp_path, monkeypatch):
    """Run the topology and its test, without a process; returns the rows of its output."""

    def call(name):
        monkeypatch.syspath_prepend(str(tmp_path))
        streamkit("run", str(tmp_path / f"{name}_counts.py"), "--local", "--drain", "--log", str(tmp_path / "mine"))
        importlib.import_module(f"test_{name}_counts").test_every_record_is_counted()
        for module in (f"test_{name}_counts", f"{name}_counts"):
            monkeypatch.delitem(sys.modules, module)
        return rows_of(tmp_path, name)

    return call


def runs_as_told(tmp_path, name, output):
    """Run the topology as the output of `init` says, and its test; returns the rows of its output."""
    test = str(tmp_path / f"test_{name}_counts.py")
    (told,) = re.findall(r"run it: +streamkit (.*)", output)
    run = shlex.split(told)
    for program in (
        Program("streamkit.cli", *run, has_errors=True),
        Program(None, test, code=AS_SCRIPT, has_errors=True),
    ):
        returned, said, errors = program.ended()
        assert returned == 0, said + errors
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    return rows_of(tmp_path, name)


def rows_of(tmp_path, name):
    with sk.open_log(tmp_path / "mine") as log:
        return log.read(f"{name}_counts").to_pylist()


def test_csv_becomes_a_running_topology(begin, tmp_path):
    """Types, key and event time are guessed, the rows are loaded, the counts are per status and hour, and the test passes."""
    output = begin("orders.csv", CSV)
    assert "4 records loaded, key order_id, event time created_at" in output
    assert "order_id bigint, status string, amount double, created_at timestamp, note string" in output
    counts = runs_as_told(tmp_path, "orders", output)
    assert sorted((row["status"], row["window_start"].hour, row["records"]) for row in counts) == [
        ("open", 10, 1), ("paid", 10, 1), ("paid", 11, 1), ("paid", 12, 1),
    ]  # fmt: skip
    with sk.open_log(tmp_path / "mine") as log:
        assert log.read("orders")["note"].to_pylist().count(None) == 2
        assert log.topic("orders").timestamp == "created_at"


def test_every_record_is_counted_whatever_its_time(begin, runs, tmp_path):
    """Records that lie years apart, in no order, are counted in the test and in the run, and no maintenance deletes them."""
    times = ("2013-01-01T10:00:00", "2015-06-01T10:00:00", "2014-01-01T11:00:00", "2015-06-01T09:00:00", "2013-01-01T10:30:00")
    output = begin("visits.csv", "page,at\n" + "".join(f"/{number % 2},{time}\n" for number, time in enumerate(times)))
    assert "retention.ms=-1: it keeps rows of any age" in output
    newest = {(row["page"], row["window_start"]): row["records"] for row in runs("visits")}
    assert sum(newest.values()) == len(times)
    with sk.open_log(tmp_path / "mine") as log:
        log.maintain()
        assert log.read("visits").num_rows == len(times)


def test_young_records_are_kept_as_topics_keep_them(begin, tmp_path):
    """A topic whose records are of today has the retention of every topic, and nothing is said of it."""
    now = dt.datetime.now(dt.timezone.utc).replace(microsecond=0, tzinfo=None).isoformat()
    assert "retention" not in begin("visits.csv", f"page,at\n/a,{now}\n/a,{now}\n")
    with sk.open_log(tmp_path / "mine") as log:
        assert log.topic("visits").setting("retention.ms") == "604800000"


def test_a_unique_column_is_no_group(begin, runs):
    """Where no value comes twice, all records are counted together, by the topic's name."""
    begin("planes.csv", "tail,built,weight\nN1,1999,1.5\nN2,2001,2.5\nN3,2004,4.5\n")
    (row,) = runs("planes")[-1:]
    assert (row["topic"], row["records"]) == ("planes", 3)


def test_a_column_called_as_the_count(begin, runs):
    """A group by a column `records` has its number in another column."""
    begin("sums.csv", "records\na\nb\na\nb\n")
    assert {row["records"]: row["how_many"] for row in runs("sums")} == {"a": 2, "b": 2}


CLASHES = {  # columns that are called as what the topology makes, with what the groups are
    "topic": ("topic,x\na,1\nb,2\n", "of_topic"),
    "Topic": ("Topic,of_topic,x\na,u,1\nb,v,2\n", "counted_topic"),
    "records": ("topic,records,window_start\na,1,2024-01-01T00:00:00Z\nb,2,2024-01-01T00:00:00Z\n", "of_topic"),
    "bound": ("window_start,at\n" + "".join(f"{n % 2},2024-01-01T00:00:00Z\n" for n in range(4)), "topic"),
    "mean": ("mean_x,x\n" + "".join(f"{'ab'[n % 2]},{n}.5\n" for n in range(4)), "mean_x"),
    "all": ("records,how_many,mean_how_many\na,1,2\nb,2,3\na,3,4\nb,4,5\n", "mean_how_many"),
}


@pytest.mark.parametrize("case", CLASHES)
def test_columns_called_as_those_of_the_result(begin, runs, case):
    """The result has other names then, whatever their case, and topology and test run."""
    content, group = CLASHES[case]
    begin("clash.csv", content)
    assert all(group in row for row in runs("clash"))


@pytest.mark.parametrize("last", ["2098-12-31T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_times_to_come(begin, runs, last):
    """A topic of such records takes them, and says so; far times are counted, too, though no window can wait for them."""
    output = begin("plans.csv", f"at,x\n2099-01-01T00:00:00Z,1\n{last},2\n")
    assert "message.timestamp.after.max.ms=9223372036854775807: it accepts rows with any future time" in output
    assert sum(row["records"] for row in runs("plans")) == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("fine.tsv", b"page\tn\n/a\t1\n"),
        ("fine.csv.gz", gzip.compress(b"page,n\n/a,1\n", mtime=0)),
        ("fine.TSV.GZ", gzip.compress(b"page\tn\n/a\t1\n", mtime=0)),
    ],
)
def test_tabs_and_compressed_files(begin, streamkit, tmp_path, name, content):
    """The name says so: what `FileSource` reads, and tabs; `streamkit produce` reads them, too."""
    assert "topic fine: 1 record loaded" in begin(name, content)
    streamkit("produce", "fine", str(tmp_path / name), "--log", str(tmp_path / "mine"))
    with sk.open_log(tmp_path / "mine") as log:
        assert [(row["page"], row["n"]) for row in log.read("fine").to_pylist()] == [("/a", 1), ("/a", 1)]


def test_a_compressed_file_that_is_cut_off(begin):
    """It is named, and nothing is made."""
    with pytest.raises((ConfigError, SchemaError), match=r"cut.csv.gz.*(cut off|cannot be read)"):
        begin("cut.csv.gz", gzip.compress(b"page,n\n" + b"/a,1\n" * 9999)[:60])


def test_a_topic_that_takes_no_records_is_not_left(begin, tmp_path):
    """Else the next try would find it."""
    for _ in range(2):
        with pytest.raises(SchemaError, match=r"max\.message\.bytes"):
            begin("a.csv", f"id,x\n1,{'x' * 2_000_000}\n")
    with sk.open_log(tmp_path / "mine") as log:
        assert "a" not in log.topics()


def test_json_lines_keep_nested_values(begin, runs, tmp_path):
    """Structs and arrays are columns; without times the counts are not per hour."""
    begin("clicks.jsonl", JSON)
    assert {row["page"]: row["records"] for row in runs("clicks")} == {"/a": 2, "/b": 2}
    with sk.open_log(tmp_path / "mine") as log:
        assert log.read("clicks")["user"].to_pylist()[:1] == [{"id": 1, "name": "ann"}]


def test_parquet_keeps_its_types(begin, runs, tmp_path):
    """Decimals, dates and bytes of a Parquet file are as they were, also in the test's rows; names may be any."""
    table = pa.table({
        "the day": [dt.date(2024, 1, day) for day in (1, 2, 3, 4)],
        "price": pa.array([decimal.Decimal("1.50")] * 4, pa.decimal128(10, 2)),
        "raw": [b"\x00", None, b"a", b"b"],
        "kind": ["a", "b", "a", "b"],
        "_offset": [1, 2, 3, 4],
    })  # fmt: skip
    begin("My Prices.parquet", table)
    assert {row["kind"]: row["records"] for row in runs("my_prices")} == {"a": 2, "b": 2}
    with sk.open_log(tmp_path / "mine") as log:
        assert str(log.topic("my_prices").schema) == (
            "the day date, price decimal(10,2), raw binary, kind string, _offset_ bigint"
        )


def test_what_is_known_need_not_be_guessed(begin, tmp_path):
    """Topic, key, time and the number of rows can be said."""
    output = begin("orders.csv", CSV, "--topic", "sales", "--key", "status,order_id", "--rows", "2", "--timestamp", "created_at")
    assert "topic sales: 2 records loaded, key status, order_id" in output
    assert (tmp_path / "sales_counts.py").exists()


@pytest.mark.parametrize(
    ("name", "content", "options", "error", "message"),
    [
        ("a.txt", CSV, (), ConfigError, "does not say the format of the file"),
        ("a.csv", CSV, ("--key", "nope"), ConfigError, "has no column 'nope'; it has order_id, status"),
        ("a.csv", "a,b\n", (), ConfigError, "has no records"),
        ("a.jsonl", "{", (), SchemaError, "cannot be read as json"),
        ("a.csv", "a,a\n1,2\n", (), SchemaError, "the same name"),
        ("a.csv", 'a,b\n1,"x\n2,y\n', (), SchemaError, "a.csv, line 2: found a quote that is opened and never closed"),
        ("a.csv", 'a,b\n1,5" x\n2,"y\n3,z', (), SchemaError, "a.csv, line 3: found a quote that is opened and never closed"),
        ("a.json", '[{"a": 1},\n{"a": 2}\n', (), SchemaError, r"a.json, line 2: the list of objects does not end, expected \]"),
        ("a.json", '[{"a": 1},\n{"a": 2},', (), SchemaError, r"a.json, line 2: the list of objects does not end, expected \]"),
        ("a.json", '[{"a": 1},\n{"a": 2', (), SchemaError, """a.json, line 2: found '{"a": 2"""),
        ("a.json", '[{"a": 1}]\nmore', (), SchemaError, "a.json, line 2: found 'more"),
        ("a.json", '{\n"a": 1}\n{\n"a": 2', (), SchemaError, "a.json, line 3: found '{"),
        (
            "a.csv",
            BAD_DATE,
            ("--timestamp", "at"),
            ConfigError,
            r"a.csv, line 4: column 'at' has 'yesterday', which is no time; expected one",
        ),
        (
            "a.csv",
            EMPTY_DATE,
            ("--timestamp", "at"),
            ConfigError,
            "a.csv, line 3: column 'at' is empty; expected one in each record",
        ),
        (
            "a.csv",
            BAD_DATE,
            ("--timestamp", "n"),
            ConfigError,
            "column 'n' cannot be the event time: it is bigint, expected times",
        ),
        ("a.csv", ZONES, ("--timestamp", "at"), ConfigError, "some of its times have a zone and others have none"),
        (
            "a.jsonl",
            '\n{"at": "2026-01-31"}\n{"at": "2026-13-31"}',
            ("--timestamp", "at"),
            ConfigError,
            "a.jsonl, line 3: column 'at' has",
        ),
    ],
)
def test_what_cannot_begin_says_why(begin, tmp_path, name, content, options, error, message):
    """Nothing is made then."""
    with pytest.raises(error, match=message):
        begin(name, content, *options)
    assert not list(tmp_path.glob("*.py"))


@pytest.mark.parametrize(
    ("content", "doubt"), [(BAD_DATE, "line 4: column 'at' has 'yesterday'"), (EMPTY_DATE, "line 3: column 'at' is empty")]
)
def test_a_column_that_is_almost_times_is_told_of(begin, content, doubt):
    """One value that is no time keeps a column from being the event time, so its line is said; a column of other texts is none."""
    printed = begin("a.csv", content)
    assert f"{doubt}" in printed and printed.count("cannot be the event time") == 1 and "event time of arrival" in printed
    assert "cannot be the event time" not in begin("b.csv", "n,word\n1,2026-01-31\n2,two\n3,three\n")
    said = json.loads(begin("c.csv", content, "--json"))
    assert (len(said["doubts"]), said["timestamp"]) == (1, None)
    assert doubt in said["doubts"][0] and said["doubts"][0].endswith("; so the column cannot be the event time")
    assert said["doubts"][0] in printed.replace("a.csv", "c.csv")
    assert json.loads(begin("d.csv", CSV, "--json"))["doubts"] == []


def test_a_column_that_is_almost_numbers_is_told_of(begin):
    """One text among numbers makes a column of texts, so its line is said; empty values do not, nor a column of texts with some numbers."""
    content = "id,temp,word,code\n1,1.5,a,007\n2,,1,008\n3,n/a,b,009\n4,-3,c,010\n"
    printed = begin("a.csv", content)
    assert "a.csv, line 4: column 'temp' has 'n/a', which is no number; so the column is a string" in printed
    assert printed.count("is no number") == 1
    (doubt,) = json.loads(begin("b.csv", content, "--json"))["doubts"]
    assert doubt.endswith("b.csv, line 4: column 'temp' has 'n/a', which is no number; so the column is a string")
    assert "no number" not in begin("c.csv", "id,temp\n1,1.5\n2,\n3,2\n")
    at = "id,at,temp\n1,2026-01-31T12:00:00Z,1\n2,2026-01-31T12:00:00Z,n/a\n"
    assert "line 3: column 'temp' has 'n/a'" in begin("d.csv", at, "--timestamp", "at")


@pytest.mark.parametrize("seed", range(20))
def test_a_column_of_any_texts_may_be_named_as_the_time(begin, seed):
    """Whatever the values of the column are, it is the event time, or a message names the first line that is none."""
    chance = random.Random(seed)
    texts = chance.choices(
        ["2026-01-31 12:00:00", "2026-01-31", "2026-02-30", "", "x", "7", "1.5", '""', "2026-01-31T12:00:00Z"], k=3
    )
    try:
        begin("a.csv", "n,at\n" + "".join(f"{number},{text}\n" for number, text in enumerate(texts)), "--timestamp", "at")
    except ConfigError as error:
        assert re.search(r"a\.csv, line \d: column 'at'", str(error))


def test_names_of_columns_are_utf8(tmp_path):
    """A file in another encoding is refused, and the message says which is expected."""
    (tmp_path / "a.csv").write_bytes(b"\xff\xfea,b\n1,2\n")
    with pytest.raises(SchemaError, match="names of columns that are not UTF-8"):
        guess(tmp_path / "a.csv", FileFormat.CSV, 10)


@pytest.mark.parametrize(
    ("form", "record", "name"),
    [(FileFormat.CSV, b'"a, b\n""c""",1\n', "text"), (FileFormat.JSON, b'{"text": "a", "n": 1}\n', "text")],
)
def test_a_guess_reads_the_beginning(monkeypatch, tmp_path, form, record, name):
    """Of a large file the first block of whole records is read, and no more; a record that is longer is read to its end."""
    monkeypatch.setattr("streamkit.connectors.files.guess.BLOCK_BYTES", 10_000)
    path = tmp_path / "many"
    path.write_bytes((b"text,n\n" if form is FileFormat.CSV else b"") + record * 100_000)
    with path.open("rb") as file:
        found = guess_open(file, path, form, 1_000_000)
        assert file.tell() == 10_000
    assert found.schema[name].type == "string" and found.schema["n"].type == "bigint"
    assert 400 < found.sample.num_rows < 1_000
    monkeypatch.setattr("streamkit.connectors.files.guess.BLOCK_BYTES", 4)
    assert guess(path, form, 10).sample.num_rows >= 1


def test_a_guess_from_the_beginning_needs_no_end(monkeypatch, tmp_path):
    """Of a list that is longer than what is read, the end is not missed; a file that is read whole has one."""
    path = tmp_path / "many.json"
    path.write_bytes(b"[\n" + b'{"n": 1},\n' * 1_000 + b'{"n": 2}\n]\n')
    monkeypatch.setattr("streamkit.connectors.files.guess.BLOCK_BYTES", 1_000)
    assert 50 < guess(path, FileFormat.JSON, 10_000).sample.num_rows < 200
    monkeypatch.setattr("streamkit.connectors.files.guess.BLOCK_BYTES", 1_000_000)
    assert guess(path, FileFormat.JSON, 10_000).sample.num_rows == 1_001


@pytest.mark.parametrize("name", ["class", "import", "app", "sk", "counts", "f", "schema"])
def test_names_that_python_or_the_topology_has_are_no_variables(begin, runs, name):
    """A file called as a word of Python, or as what the example calls something else, begins with an example that runs."""
    begin(f"{name}.csv", CSV)
    assert runs(name)


def test_nothing_is_overwritten(begin, tmp_path):
    """A topic or a file that is there stays as it is."""
    begin("orders.csv", CSV)
    (tmp_path / "orders_counts.py").write_text("mine")
    with pytest.raises(ConfigError, match="there is a file"):
        begin("orders.csv", CSV)
    assert (tmp_path / "orders_counts.py").read_text() == "mine"
    (tmp_path / "orders_counts.py").unlink()
    (tmp_path / "test_orders_counts.py").unlink()
    with pytest.raises(TopicExistsError):
        begin("orders.csv", CSV)
    assert not (tmp_path / "orders_counts.py").exists()


def test_csv_of_another_kind(streamkit, tmp_path):
    """Another encoding and another delimiter are said by options; the errors without them name these."""
    file = tmp_path / "a.csv"
    file.write_bytes("id;stadt\n1;Köln\n2;Bonn\n".encode("latin-1"))
    common = ("init", str(file), "--folder", str(tmp_path), "--log", str(tmp_path / "mine"))
    with pytest.raises(SchemaError, match=r"a\.csv, line 2: .*`streamkit init` --encoding"):
        streamkit(*common)
    with pytest.raises(SchemaError, match=r"a\.csv, line 1: found one column, 'id;stadt'; .* --delimiter ';'"):
        streamkit(*common, "--encoding", "latin-1")
    assert "2 records loaded, key id" in streamkit(*common, "--encoding", "latin-1", "--delimiter", ";")
    with sk.open_log(tmp_path / "mine") as log:
        assert sorted(log.read("a")["stadt"].to_pylist()) == ["Bonn", "Köln"]


def test_what_a_guess_cannot_say_is_said_by_a_topic(streamkit, root, tmp_path):
    """The advice is one that can be followed: no option of init, and none at all for a column of two kinds."""
    (tmp_path / "a.json").write_text('{"id": 1, "v": {}}\n')
    with pytest.raises(
        SchemaError, match="objects without fields; a topic says what it is: create one by `streamkit topics create"
    ):
        streamkit("init", str(tmp_path / "a.json"), "--folder", str(tmp_path))
    (tmp_path / "b.json").write_text('{"id": 1, "v": "x"}\n{"id": 2, "v": 5}\n')
    with pytest.raises(SchemaError, match="holds numbers and texts, expected one kind: no column holds both") as error:
        streamkit("init", str(tmp_path / "b.json"), "--folder", str(tmp_path))
    assert "setting schema" not in str(error.value)
