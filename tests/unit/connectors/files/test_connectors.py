"""Folders of files as sources and sinks: the contract, and what is special about files."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import zstandard

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.files import FileSink, FileSource
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.task import Orders
from streamkit.errors import ConfigError, SchemaError
from streamkit.failpoints import SimulatedCrash
from tests.kit.waiting import wait_until
from tests.unit.connectors.contract import RefusingContract, SinkContract, SourceContract, dies


class TestSource(SourceContract):
    """Several files of JSON lines in a folder."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path / "in"
        self.folder.mkdir()

    def source(self, **settings):
        return FileSource("in", {"path": str(self.folder), "topic": "numbers", "key": "n", **settings})

    def add(self, first, count):
        (self.folder / f"part-{first:04d}.jsonl").write_text(
            "".join(f'{{"n": {n}, "text": "text {n}"}}\n' for n in range(first, first + count))
        )

    def expected(self, first, count):
        return [(n, f"text {n}") for n in range(first, first + count)]

    def found(self, log):
        return [(row["n"], row["text"]) for row in log.read("numbers").to_pylist()]


class TestSink(SinkContract):
    """Files below a folder, read as anybody would read them."""

    WAYS = ("json", "csv", "parquet")

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path, way):
        self.folder, self.form = tmp_path / "out", way

    def sink(self, tasks=1):
        return FileSink("out", path=str(self.folder), topics="numbers", format=self.form, tasks_max=tasks)

    def written(self):
        return [(row["n"], row["text"]) for path in visible(self.folder) for row in READERS[self.form](path)]

    def drop(self):
        shutil.rmtree(self.folder)
        return "it has lost rows"


class TestRefused(RefusingContract):
    """Folders named by values that are too long for a file system."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path / "out"

    def refusing(self, batch_rows, errors):
        settings = {"path": str(self.folder), "topics": "numbers", "partition.by": "text", "batch.rows": batch_rows}
        return FileSink("out", {**settings, **errors})

    def begin(self, refused):
        pass

    def bad(self, n):
        return (n, f"{n} {'ä' * 50}")

    def reason(self, n):
        return f"the folder of text='{n} ä+' would have a name of 30[5-9] bytes; expected at most 255"

    def kept(self):
        return [row["n"] for path in visible(self.folder) for row in READERS["json"](path)]


READERS = {
    "json": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
    "csv": lambda path: pa.csv.read_csv(path).to_pylist(),
    "parquet": lambda path: pq.read_table(path, partitioning=None).to_pylist(),
}


def visible(folder):
    """The files that a reader of the folder takes."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path for path in paths if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)]


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as log:
        yield log


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def bring(log, folder, **settings):
    run([FileSource("in", path=str(folder), topic="rows", **{"min_age_ms": 0, **settings})], log, once=True)
    return log.read("rows").to_pylist() if "rows" in log.topics() else []


def ids(rows):
    return sorted(row["id"] for row in rows)


def test_every_form(log, folder):
    """CSV, JSON lines and Parquet, plain and compressed, hidden files left alone: all in the types of the topic."""
    (folder / "a.csv").write_text('id,name\n1,"a ""b""\nc"\n2,\n')
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b'{"id": 3, "name": "x"}\n{"id": 4, "name": null}'))
    (folder / "c.csv.zst").write_bytes(zstandard.compress(b"id,name\n5,y\n"))
    pq.write_table(pa.table({"id": [6, 7], "name": ["p", "q"]}), folder / "d.parquet")
    (folder / "e.csv.tmp").write_text("not,yet\n")
    (folder / ".f.csv").write_text("not,at all\n")
    rows = bring(log, folder, schema="id bigint, name string")
    assert sorted((row["id"], row["name"]) for row in rows) == [
        (1, 'a "b"\nc'), (2, None), (3, "x"), (4, None), (5, "y"), (6, "p"), (7, "q"),
    ]  # fmt: skip


def test_types_are_guessed(log, folder):
    """Without a topic and a schema, the first file says the columns."""
    (folder / "a.csv").write_text("id,score,at\n1,0.5,2026-01-01 00:00:00\n")
    bring(log, folder, key="id")
    topic = log.topic("rows")
    assert ([(column.name, column.type) for column in topic.schema][:2], topic.key) == (
        [("id", "bigint"), ("score", "double")],
        ("id",),
    )


def test_guessed_numbers_lose_no_digit(log, folder):
    """Numbers with more digits than a double keeps are decimals, and those with leading zeros texts; all others are numbers."""
    (folder / "a.csv").write_text(
        "id,zip,large,price,share,huge\n1,01234,12345678901234567890,1234567890123456.78,0.30000000000000004,1e300\n2,,1,1.5,NaN,123456789012345678\n"
    )
    row = min(bring(log, folder), key=lambda row: row["id"])
    assert {name: str(row[name]) for name in ("zip", "large", "price", "share", "huge")} == {
        "zip": "01234", "large": "12345678901234567890", "price": "1234567890123456.78", "share": "0.30000000000000004", "huge": "1e300"
    }  # fmt: skip
    types = {column.name: column.type for column in log.topic("rows").schema}
    assert (types["id"], types["zip"], types["large"], types["price"], types["share"], types["huge"]) == (
        "bigint", "string", "decimal(38,0)", "decimal(38,2)", "double", "string",
    )  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "json"])
def test_one_bad_record(log, folder, form):
    """A record that cannot be read stops the task and is named by its line; or it is a dead letter, and all others come."""
    chance = random.Random(7)
    bad = sorted(chance.sample(range(200), 5))
    lines = [
        ("x,?" if form == "csv" else '{"id": "x"}')
        if n in bad
        else (f"{n},n" if form == "csv" else f'{{"id": {n}, "name": "n"}}')
        for n in range(200)
    ]
    header = ["id,name"] if form == "csv" else []
    (folder / f"a.{form}").write_text("\n".join([*header, *lines]) + "\n")
    with pytest.raises(SchemaError, match=f"line {bad[0] + 1 + len(header)}: "):
        bring(log, folder, schema="id bigint, name string")
    rows = bring(log, folder, schema="id bigint, name string", errors_tolerance="all", errors_deadletterqueue_topic_name="bad")
    assert ids(rows) == [n for n in range(200) if n not in bad]
    letters = log.read("bad", columns=["value", "_headers"]).to_pylist()
    assert [letter["value"].decode() for letter in letters] == [lines[n] for n in bad]
    headers = dict(tuple(header.values()) for header in letters[0]["_headers"])
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"


def test_a_file_that_changes(log, folder):
    """A file that was read and has changed since, otherwise than by growing, is an error, not a guess."""
    (folder / "a.csv").write_text("id\n1\n")
    assert ids(bring(log, folder)) == [1]
    (folder / "a.csv").write_text("id\n3\n2\n")
    with pytest.raises(ConfigError, match=r"a\.csv changed after it was read"):
        bring(log, folder)


def test_files_are_moved(log, folder, tmp_path):
    """Files that were read are moved where the setting says, and those that cannot be read elsewhere."""
    (folder / "a.csv").write_text("id\n1\n")
    pq_path = folder / "b.parquet"
    pq_path.write_bytes(b"no parquet")
    done, failed = tmp_path / "done", tmp_path / "failed"
    rows = bring(log, folder, finished_path=str(done), error_path=str(failed), errors_tolerance="all", schema="id bigint")
    assert ids(rows) == [1]
    assert (os.listdir(done), os.listdir(failed), os.listdir(folder)) == (["a.csv"], ["b.parquet"], [])


def test_files_of_one_name(log, folder, tmp_path):
    """Of files of one name, in folders and one after the other, none is left out, and where they are moved none takes another's place."""
    done = tmp_path / "done"
    for number, name in enumerate(("x/a.csv", "y/a.csv", "x/a.csv")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"id\n{number}\n")
        rows = bring(log, folder, finished_path=str(done), schema="id bigint")
        assert ids(rows) == list(range(number + 1))
    assert {str(path.relative_to(done)): path.read_text() for path in done.rglob("*") if path.is_file()} == {
        "x/a.csv": "id\n0\n", "y/a.csv": "id\n1\n", "x/a.csv.1": "id\n2\n"
    }  # fmt: skip
    with run([FileSource("in", path=str(folder), topic="rows", finished_path=str(done), min_age_ms=0)], log):
        for number in (3, 4):
            (folder / "x/a.csv").write_text(f"id\n{number}\n")
            wait_until(lambda: not (folder / "x/a.csv").exists())
    assert ids(log.read("rows").to_pylist()) == [0, 1, 2, 3, 4]


def test_death_before_a_file_is_moved(log, folder, tmp_path):
    """A file whose end was committed is moved by the next task, and not read again."""
    (folder / "a.csv").write_text("id\n1\n")
    settings = {"path": str(folder), "topic": "rows", "finished_path": str(tmp_path / "done")}
    with dies("connect.committed", 2), pytest.raises(SimulatedCrash):
        SourceTask(FileSource("in", schema="id bigint", min_age_ms=0, **settings), 0, 1, log, is_once=True).run(Orders())
    assert os.listdir(folder) == ["a.csv"]
    assert ids(bring(log, folder, finished_path=str(tmp_path / "done"))) == [1]
    assert (os.listdir(folder), os.listdir(tmp_path / "done")) == ([], ["a.csv"])


def test_objects_that_lack_columns(log, folder):
    """What an object of JSON lacks is null, but not a key."""
    (folder / "a.jsonl").write_text('{"id": 1}\n{"id": 2, "name": "x"}\n{"id": 3, "tags": ["y"]}\n')
    rows = bring(log, folder, schema="id int, name string, tags array<string>", key="id")
    assert sorted((row["id"], row["name"], row["tags"]) for row in rows) == [(1, None, None), (2, "x", None), (3, None, ["y"])]
    (folder / "b.jsonl").write_text('{"name": "z"}\n')
    with pytest.raises(SchemaError, match=r"b\.jsonl, line 1: .*no column 'id'"):
        bring(log, folder)


SEMICOLONS = b'1;"a;\n""b""";1,5\n2;;\n3;x\n'


@pytest.mark.parametrize("header", [b"id;name;price\n", b"\xef\xbb\xbf", b""])
def test_other_csv(log, folder, header, monkeypatch):
    """Another delimiter, and a file that begins with its records; a bad record is named by its line and left out alone."""
    monkeypatch.setattr("streamkit.connectors.files.record_blocks.BLOCK_BYTES", 10)
    settings = {"schema": "id bigint, name string, price string", "delimiter": ";", "header": header.startswith(b"id")}
    (folder / "a.csv.zst").write_bytes(zstandard.compress(header + SEMICOLONS))
    line = 4 + header.count(b"\n")
    with pytest.raises(SchemaError, match=rf"a\.csv\.zst, line {line}: found 2 values, expected 3: id, name, price"):
        bring(log, folder, **settings)
    rows = bring(log, folder, errors_tolerance="all", **settings)
    assert sorted((row["id"], row["name"], row["price"]) for row in rows) == [(1, 'a;\n"b"', "1,5"), (2, None, None)]


def test_csv_that_says_no_columns(log, folder):
    """A file without records waits for none; the next one says the columns, and without a line of names the schema must."""
    (folder / "a.csv").write_text("id;n\n")
    (folder / "b.csv").write_text("")
    (folder / "c.csv").write_text("id;n\n1;2\n")
    assert [(row["id"], row["n"]) for row in bring(log, folder, delimiter=";")] == [(1, 2)]
    with pytest.raises(ConfigError, match="header=false, so it needs schema, or a topic with columns"):
        run([FileSource("other", path=str(folder), topic="others", header=False)], log, once=True)
    with pytest.raises(ConfigError, match="delimiter=';;'; expected one character"):
        FileSource("other", path=str(folder), topic="others", delimiter=";;")


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_file_that_is_cut_off(log, folder, compress):
    """A compressed file that ends too early, at whatever byte, is an error and not a shorter file; several in one are one."""
    content = b"id\n" + b"".join(b"%d\n" % random.randrange(10**9) for _ in range(30))
    name = "a.csv.gz" if compress is gzip.compress else "a.csv.zst"
    whole = compress(content) + compress(b"-1\n")
    for end in (len(whole) - 1, len(whole) - 8, len(whole) // 2, 12):
        (folder / name).write_bytes(whole[:end])
        with pytest.raises(SchemaError, match=r"a\.csv\.\w+ is cut off or damaged"):
            run([FileSource("in", path=str(folder), topic="t", schema="id bigint", min_age_ms=0)], log, once=True)
    (folder / name).write_bytes(whole)
    assert len(bring(log, folder, schema="id bigint")) == 31


def test_parquet_that_a_log_wrote(log, folder):
    """Columns that a log adds are none of the topic's, and a time without a zone stays one."""
    at = dt.datetime(2026, 1, 1)
    table = pa.table(
        {"id": [1], "at": pa.array([at], pa.timestamp("us")), "_partition": pa.array([0], pa.int32()), "_offset": [5]}
    )
    pq.write_table(table, folder / "a.parquet")
    (row,) = bring(log, folder)
    assert (row["id"], row["at"], str(log.topic("rows").schema)) == (1, at, "id bigint, at timestamp_ntz")


def test_a_watched_folder(log, folder):
    """A worker finds files that come later."""
    (folder / "a.csv").write_text("id\n1\n")
    with run([FileSource("in", path=str(folder), topic="rows", schema="id bigint")], log):
        wait_until(lambda: "rows" in log.topics() and ids(log.read("rows").to_pylist()) == [1])
        (folder / "b.csv.tmp").write_text("id\n2\n")
        (folder / "b.csv.tmp").rename(folder / "b.csv")
        wait_until(lambda: ids(log.read("rows").to_pylist()) == [1, 2])


def test_large_files_resume_within(log, folder, monkeypatch):
    """A task that dies within a file goes on behind the last block that was committed."""
    monkeypatch.setattr("streamkit.connectors.files.record_blocks.BLOCK_BYTES", 1000)
    (folder / "a.csv").write_text("id,name\n" + "".join(f'{n},"line\n{n}"\n' for n in range(1000)))
    for at in (3, 5, 1):
        with dies("connect.staged", at), pytest.raises(SimulatedCrash):
            SourceTask(FileSource("in", path=str(folder), topic="rows"), 0, 1, log, is_once=True).run(Orders())
    assert ids(bring(log, folder)) == list(range(1000))


def test_folders_by_column(log, tmp_path):
    """Files lie in folders by the values of columns, which pandas and Spark read as columns; null has its own."""
    log.create_topic("sales", "country string, amount int", partitions=1)
    with log.producer() as producer:
        producer.send_batch("sales", [{"country": country, "amount": n} for n, country in enumerate(["SE", None, "NO", "SE"])])
    run([FileSink("out", path=str(tmp_path / "out"), topics="sales", format="parquet", partition_by="country")], log, once=True)
    found = pa.dataset.dataset(tmp_path / "out" / "sales", partitioning="hive").to_table().to_pylist()
    assert sorted((row["amount"], row["country"]) for row in found) == [(0, "SE"), (1, None), (2, "NO"), (3, "SE")]
    log.create_topic("doors", "id int, open boolean", partitions=1)
    with log.producer() as producer:
        producer.send_batch("doors", [{"id": 1, "open": True}, {"id": 2, "open": False}])
    run([FileSink("doors", path=str(tmp_path / "out"), topics="doors", format="json", partition_by="open")], log, once=True)
    assert sorted(path.name for path in (tmp_path / "out" / "doors").iterdir()) == ["open=false", "open=true"]


def test_files_come_back(log, tmp_path):
    """What a sink wrote, a source reads: deletions too."""
    log.create_topic("people", "id int NOT NULL, name string", key="id")
    with log.producer() as producer:
        producer.send_batch("people", [{"id": n, "name": f"n{n}"} for n in range(10)])
        producer.delete("people", {"id": 3})
    run([FileSink("out", path=str(tmp_path / "out"), topics="people", compression="gz")], log, once=True)
    log.create_topic("rows", "id int NOT NULL, name string", key="id")
    rows = bring(log, tmp_path / "out" / "people")
    assert sorted((row["id"], row["_deleted"]) for row in rows) == sorted([*((n, False) for n in range(10)), (3, True)])


@pytest.mark.parametrize("rows", ['{"id": 1}\n{"id": 3}\n', '{"id": 1}\n{"id": 3}\n{"id": 4}\n'], ids=["same_size", "other_size"])
def test_a_file_that_was_replaced(log, folder, rows):
    """A file that took the place of one that was read is refused, also with its size and time; or by the setting read from its beginning."""
    path = folder / "a.jsonl"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    assert ids(bring(log, folder, schema="id bigint")) == [1, 2]
    times = os.stat(path)
    (folder / "new.tmp").write_text(rows)
    os.utime(folder / "new.tmp", ns=(times.st_atime_ns, times.st_mtime_ns))
    (folder / "new.tmp").rename(path)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"a\.jsonl (was replaced|changed) after it was read.*recreated\.mode=begin"):
            bring(log, folder, schema="id bigint")
    found = ids(bring(log, folder, schema="id bigint", recreated_mode="begin"))
    assert found == sorted([1, 2, *(json.loads(line)["id"] for line in rows.splitlines())])
    assert ids(bring(log, folder, schema="id bigint")) == found


def test_a_file_that_was_copied_is_the_same(log, folder):
    """A copy with the size and time of what was read, as on another host, is not read again."""
    path = folder / "a.jsonl"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    bring(log, folder, schema="id bigint")
    shutil.copy2(path, folder / "copy.tmp")
    (folder / "copy.tmp").rename(path)
    assert ids(bring(log, folder, schema="id bigint")) == [1, 2]


@pytest.mark.parametrize("schema", ["id bigint, at date", None])
def test_the_event_time_is_a_date(log, folder, schema):
    """A row of a day has the event time of its midnight in UTC; one without a day that of its arrival."""
    (folder / "a.csv").write_text("id,at\n1,1999-01-01\n2,\n3,1969-12-31\n")
    pq.write_table(pa.table({"id": [4], "at": [dt.date(2001, 2, 3)]}), folder / "b.parquet")
    given = {"schema": schema} if schema else {}
    run([FileSource("in", {"timestamp.column": "at"}, path=str(folder), topic="rows", min_age_ms=0, **given)], log, once=True)
    rows = log.read("rows", columns=["id", "at", "_timestamp"]).to_pylist()
    found = {row["id"]: row["_timestamp"] for row in rows if row["at"]}
    assert found == {row["id"]: dt.datetime.combine(row["at"], dt.time(), dt.timezone.utc) for row in rows if row["at"]}
    assert {row["id"]: row["_timestamp"].year > 2020 for row in rows if not row["at"]} == {2: True}


@pytest.mark.parametrize("pattern", ["out/**/*.json", "out/*/*.json", "**/*.json", "o*t/**/*.json"])
def test_patterns_leave_hidden_folders_alone(log, tmp_path, pattern):
    """The marks of a sink, and all below a folder whose name begins with _ or a dot, are no records; a folder that is named is."""
    for name in ("out/t/a.json", "out/_streamkit/out/t-0.json", "out/.trash/b.json", "out/_named/c.json", "out/t/_d.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"id": 1}\n')
    source = FileSource("in", path=str(tmp_path / pattern), topic="rows")
    assert list(source.splits()) == [str(tmp_path / "out/t/a.json")]
    named = FileSource("in", path=str(tmp_path / "out/_named/*.json"), topic="rows")
    assert list(named.splits()) == [str(tmp_path / "out/_named/c.json")]


def test_wrong_names_are_no_fault_of_records(log, folder):
    """A line of names that is not the topic's is said once, of the file, whatever is tolerated."""
    (folder / "a.csv").write_text("id,new\n1,2\n3,4\n")
    for tolerance in ("none", "all"):
        with pytest.raises(SchemaError) as error:
            bring(log, folder, schema="id bigint", errors_tolerance=tolerance)
        assert str(error.value).count("a.csv") == 1 and "line 2" not in str(error.value)
        assert "the unknown column 'new'; found id, new; the topic has id bigint" in str(error.value)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    "transforms", [{}, {"transforms": "x", "transforms.x.type": "expr", "transforms.x.select": "id, at, 1 / id AS v"}]
)
def test_rows_that_fail_behind_the_reader(log, folder, form, transforms):
    """A row that a transform or the topic refuses is named by its file and line, also behind lines that were left out."""
    lines = {
        "csv": ["id,at", "1,2020-01-01", "", '2,"', 'x"', "0,2020-01-02", "3,2999-01-01"],
        "jsonl": ['{"id":1,"at":"2020-01-01"}', "", "no", '{"id":0,"at":"2020-01-02"}', '{"id":3,"at":"2999-01-01"}'],
    }
    if form == "parquet":
        pq.write_table(
            pa.table({"id": [1, 0, 3], "at": [dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(2999, 1, 1)]}),
            folder / "a.parquet",
        )
    else:
        (folder / f"a.{form}").write_text("\n".join(lines[form]) + "\n")
    settings = {
        "timestamp.column": "at",
        "schema": "id bigint, at date",
        "path": str(folder),
        "topic": "rows",
        "min.age.ms": 0,
        **transforms,
    }
    expected = {
        "csv": "line 6" if transforms else "line 7",
        "jsonl": "line 4" if transforms else "line 5",
        "parquet": "record 2" if transforms else "record 3",
    }[form]
    expected = f"{folder / f'a.{form}'}, {expected}"
    places = []

    class Watched(FileSource):
        """Notes what it says of places."""

        def place_of(self, topic, row):
            places.append(super().place_of(topic, row))
            return places[-1]

    SourceTask(Watched("in", {**settings, "errors.tolerance": "all"}), 0, 1, log, is_once=True).run(Orders())
    assert expected in places
    if form == "parquet":
        with pytest.raises(SchemaError, match=rf"connector again, {expected}, (TRANSFORMATION|KAFKA_PRODUCE): "):
            run([FileSource("again", settings)], log, once=True)


LONG = "x" * 2_000_000
BEYOND = {
    "a quote that nobody closes": '1,a,\n2,"b,\n3,c,\n',
    "a far time": "1,a,2024-01-01T00:00:00Z\n2,b,2999-01-01T00:00:00Z\n",
    "a large value": f"1,a,\n2,{LONG},\n",
    "no UTF-8": "1,a,\n2,\udcff,\n",
}


@pytest.mark.parametrize("beyond", BEYOND)
@pytest.mark.parametrize("has_letters", [True, False])
def test_a_tolerant_source_goes_on(tmp_path, beyond, has_letters):
    """Whatever the record failed on, its dead letter does not: it is cut, or has another time."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.csv").write_bytes(("id,s,t\n" + BEYOND[beyond]).encode(errors="surrogateescape"))
    settings = {"schema": "id bigint, s string, t timestamp", "timestamp.column": "t", "errors.tolerance": "all"}
    settings |= {"errors.deadletterqueue.topic.name": "bad"} if has_letters else {}
    with sk.open_log(tmp_path / "log") as log:
        found = bring(log, tmp_path / "in", **settings)
        assert ids(found)[0] == 1 and 2 not in ids(found)
        assert not has_letters or log.read("bad").num_rows >= 1


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_null_in_csv_of_one_column(log, tmp_path, compression):
    """It would be a blank line: it is refused, and all others are read back; beside other columns nulls are."""
    log.create_topic("one", "v string")
    log.create_topic("two", "v string, w string")
    values = ["a", None, "", "b\nc"]
    with log.producer() as producer:
        producer.send_batch("one", [{"v": value} for value in values])
        producer.send_batch("two", [{"v": value, "w": None} for value in values])
    given = {"path": str(tmp_path / "out"), "format": "csv", "compression": compression}
    run(
        [
            FileSink("two", topics="two", **given),
            FileSink("meta", topics="one", **{**given, "path": str(tmp_path / "m")}, metadata=True),
        ],
        log,
        once=True,
    )
    with pytest.raises(SchemaError, match=r"null in the one column 'v'.*blank line.*metadata=true"):
        run([FileSink("one", topics="one", **given)], log, once=True)
    run(
        [FileSink("one", topics="one", errors_tolerance="all", errors_deadletterqueue_topic_name="dead", **given)], log, once=True
    )
    assert log.read("dead").num_rows == 1
    for name in ("one", "two"):
        folder = str(tmp_path / "out" / name)
        back = run(
            [FileSource(f"back-{name}", path=folder, topic=f"back-{name}", schema=log.topic(name).schema.ddl(), min_age_ms=0)],
            log,
            once=True,
        )
        assert back is not None
        found = [row["v"] for row in log.read(f"back-{name}").to_pylist()]
        assert sorted(found, key=repr) == sorted((one for one in values if one is not None or name == "two"), key=repr)
    with pytest.raises(ConfigError, match=r"partition\.by names all columns of topic one"):
        run([FileSink("none", topics="one", partition_by="v", **given)], log, once=True)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b'id,s\n1,a\n2,"b\n3,c\n4,d\n', [1]),
        (b'id,s\n1,a\n2,"b', [1]),
        (b'id,s\n1,"a\n2,b\n', []),
        (b"id,s\nx,a\ny,b\n", []),
    ],
)
def test_a_block_without_a_record_that_can_be_read(log, folder, data, wanted):
    """A quote that never closes makes one record of the rest: it alone is left out, is a dead letter, and the task ends."""
    (folder / "a.csv").write_bytes(data)
    rows = bring(log, folder, schema="id bigint, s string", errors_tolerance="all", errors_deadletterqueue_topic_name="dead")
    assert ids(rows) == wanted
    letters = log.read("dead").to_pylist()
    assert len(letters) == (2 if data.endswith(b"y,b\n") else 1)
    with pytest.raises(
        SchemaError, match=r"a\.csv, line \d: (found a quote that is opened and never closed|column 'id': found 'x')"
    ):
        run([FileSource("other", path=str(folder), topic="other", min_age_ms=0, schema="id bigint, s string")], log, once=True)


class TestForeignFiles:
    """Two sinks that write a topic to one folder."""

    @pytest.fixture(autouse=True)
    def _first(self, log, tmp_path):
        log.create_topic("one", "n int", partitions=1)
        self.log, self.path = log, str(tmp_path / "out")
        self.add(1, 2, 3)
        run([FileSink("first", topics="one", path=self.path)], log, once=True)

    def add(self, *numbers):
        with self.log.producer() as producer:
            producer.send_batch("one", [{"n": n} for n in numbers])

    def rows(self):
        return [row["n"] for path in visible(Path(self.path)) for row in READERS["json"](path)]

    def test_a_file_of_another_connector_stays(self):
        """The second one fails and names the file; in another folder it writes all."""
        with pytest.raises(ConfigError, match=r"connector second: the file .*/out/one/one\+0\+0{20}\.jsonl is there"):
            run([FileSink("second", topics="one", path=self.path)], self.log, once=True)
        assert self.rows() == [1, 2, 3]
        self.path += "-2"
        run([FileSink("second", topics="one", path=self.path)], self.log, once=True)
        assert self.rows() == [1, 2, 3]

    def test_a_topic_that_is_made_again(self):
        """Its rows do not replace those of the former topic, under whatever name a connector writes them."""
        self.log.delete_topic("one")
        self.log.create_topic("one", "n int", partitions=1)
        self.add(11, 12, 13, 14)
        with pytest.raises(ConfigError, match="this connector has not written it"):
            run([FileSink("second", topics="one", path=self.path)], self.log, once=True)
        assert self.rows() == [1, 2, 3]

    def test_a_file_that_appears_between_the_commit_and_its_name(self, monkeypatch):
        """The committed rows wait under their hidden name, and get theirs when the way is free."""
        self.add(4)
        name = Path(self.path, "one", f"one+0+{3:020d}.jsonl")
        committed = FileSink._committed

        def commit(sink, place, mark):
            found = committed(sink, place, mark)
            name.write_text('{"n": 40}\n')
            return found

        monkeypatch.setattr(FileSink, "_committed", commit)
        for _ in range(2):  # a start that finds the way closed fails, too
            with pytest.raises(ConfigError, match="this connector has not written it"):
                run([FileSink("first", topics="one", path=self.path)], self.log, once=True)
        assert self.rows() == [1, 2, 3, 40]
        name.unlink()
        run([FileSink("first", topics="one", path=self.path)], self.log, once=True)
        assert self.rows() == [1, 2, 3, 4]

    def test_a_death_between_the_two_names_of_a_file(self):
        """A file that has its name already loses the hidden one at the next start."""
        (mark,) = Path(self.path, "_streamkit", "first", "one-0").glob(f"{1:020d}.json")
        ((hidden, name),) = json.loads(mark.read_text())["files"]
        os.link(Path(self.path, name), Path(self.path, hidden))
        self.add(4)
        run([FileSink("first", topics="one", path=self.path)], self.log, once=True)
        assert self.rows() == [1, 2, 3, 4]
        assert [one.name for one in Path(self.path, "one").iterdir() if one.name.startswith(".")] == []
