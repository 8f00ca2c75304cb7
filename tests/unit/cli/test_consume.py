"""`streamkit consume`."""

from __future__ import annotations

import base64
import csv
import io
import json

import pytest

import streamkit as sk


def test_table_shows_values(streamkit):
    """A table has the topic's own columns; numbers of records are not split by commas, null is empty."""
    lines = [line.split() for line in streamkit("consume", "orders").splitlines() if line.strip()]

    assert lines[0] == ["customer", "number", "amount"]
    assert lines[2:] == [["ann", "1001", "2.5"], ["bob", "1002"], ["1003", "12000000"], ["3", "of", "3", "records"]]


def test_table_says_that_there_is_more(streamkit):
    """A table that was cut says how many records there are."""
    output = streamkit("consume", "orders", "--max", "2")

    assert "2 of 3 records; --max N shows more" in output
    assert "1003" not in output


def test_json_is_one_record_a_line(streamkit):
    """JSON has every column and the record's own: event time, partition, offset."""
    records = [json.loads(line) for line in streamkit("consume", "orders", "--format", "json").splitlines()]

    assert [record["number"] for record in records] == [1001, 1002, 1003]
    assert records[1] == {
        "customer": "bob", "number": 1002, "amount": None,
        "_timestamp": "2023-11-14T22:14:20Z", "_partition": 0, "_offset": 1,
    }  # fmt: skip


def test_json_marks_deletions(streamkit):
    """A deletion says that it is one; other records do not speak of it."""
    records = [json.loads(line) for line in streamkit("consume", "customers", "--format", "json").splitlines()]

    assert [(record["name"], record["city"], record.get("_deleted")) for record in records] == [
        ("ann", "Oslo", None),
        ("ann", None, True),
    ]


def test_csv_can_be_read_back(streamkit):
    """Comma-separated values have a line of names; null is empty."""
    rows = list(csv.DictReader(io.StringIO(streamkit("consume", "orders", "--format", "csv", "--max", "2"))))

    assert [(row["customer"], row["amount"], row["_offset"], row["_deleted"]) for row in rows] == [
        ("ann", "2.5", "0", "false"),
        ("bob", "", "1", "false"),
    ]


@pytest.mark.parametrize("options", [("--json",), ("--format", "csv"), ("--json", "--headers")], ids=str)
def test_many_records_are_printed_as_one_is(streamkit, root, options):
    """Records that are written at once have the lines that each has alone: nested values, deletions, nulls, texts that need quotes."""
    with sk.open_log(root) as log:
        log.create_topic("many", "k int, t string, f double, s struct<a:array<string>>, b binary", key="k", partitions=1)
        with log.producer() as producer:
            for number in range(100):
                row = {"k": number, "t": [None, "", 'a,"é'][number % 3], "f": [float("nan"), 1e16, None][number % 3]}
                producer.send(
                    "many",
                    {**row, "s": {"a": ["x", None]} if number % 2 else None, "b": b"\xff", "_headers": [("h", b"1")]},
                    timestamp_ms=number,
                )
            producer.delete("many", {"k": 3}, timestamp_ms=100)
    begin = ("consume", "many", *options)
    names = 1 if "csv" in options else 0

    together = streamkit(*begin).splitlines()[names:]

    assert len(together) == 101
    assert together == [
        line
        for at in range(101)
        for line in streamkit(*begin, "--offset", str(at), "--partition", "0", "--max", "1").splitlines()[names:]
    ]


def test_empty_topic_has_names_only(streamkit, root):
    """A topic without records prints its columns, and no record."""
    with sk.open_log(root) as log:
        log.create_topic("empty", "a int", key="a")

    assert streamkit("consume", "empty", "--format", "csv") == "a,_timestamp,_partition,_offset,_deleted\n"
    assert streamkit("consume", "empty", "--format", "json") == ""
    assert "0 of 0 records" in streamkit("consume", "empty")


@pytest.fixture
def events(root):
    """A topic of JSON values: one, a deletion."""
    with sk.open_log(root) as log:
        log.create_topic("events", format="json", partitions=1)
        with log.producer() as producer:
            producer.send("events", {"key": "k", "value": {"n": [1, "é"]}}, timestamp_ms=0)
            producer.delete("events", {"key": "k"}, timestamp_ms=1)
    return "events"


def test_opaque_topics_are_decoded(streamkit, events):
    """Values of a format are printed as what they are: within JSON as JSON, in tables and files as text."""
    (value, deletion) = (json.loads(line) for line in streamkit("consume", events, "--format", "json").splitlines())
    assert (value["key"], value["value"], deletion["key"], deletion["_deleted"]) == ("k", {"n": [1, "é"]}, "k", True)
    (row, _) = csv.DictReader(io.StringIO(streamkit("consume", events, "--format", "csv")))
    assert (row["key"], json.loads(row["value"])) == ("k", {"n": [1, "é"]})
    assert '{"n": [1, "é"]}' in streamkit("consume", events)


def test_numbers_of_json_keep_their_digits(streamkit, root, tmp_path):
    """Decimals of any size, in keys and values, nested too, are printed with all digits, and produced again they are the same rows."""
    numbers = ["9999999999999999999999999999.9999999998", "12345678901234.1234567891", "-0.0000000001", "1.5000000000"]
    declared = (
        "CREATE STREAM d (k DECIMAL(38, 10) KEY, m DECIMAL(38, 10), a ARRAY<DECIMAL(38, 10)>, f DOUBLE)"
        " WITH (KAFKA_TOPIC = 'd', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
    )
    with sk.open_log(root) as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        rows = ", ".join(f"({one}, {one}, ARRAY[CAST({one} AS DECIMAL(38, 10))], 1.5E10)" for one in numbers)
        sql.execute(f"{declared} INSERT INTO d (k, m, a, f) VALUES {rows};")
        rows = sql.query("SELECT * FROM d").to_pylist()
        (result,) = sql.execute("PRINT d FROM BEGINNING LIMIT 4")
        assert result.subscription is not None
        with result.subscription as printed:
            shown = [row for batch in printed for row in batch.to_pylist()]
    file = tmp_path / "d.jsonl"
    file.write_text(streamkit("consume", "d", "--json"))

    outputs = {
        "json": file.read_text().splitlines(),
        "csv": streamkit("consume", "d", "--format", "csv").splitlines()[1:],
        "table": streamkit("consume", "d").splitlines()[3:],
        "PRINT": [f"{row['key']} {row['value']}" for row in shown],
    }
    for form, lines in outputs.items():
        for number, line in zip(numbers, lines[:4], strict=True):
            assert line.count(number) == 3, (form, line)
    streamkit("produce", "d", str(file))
    with sk.open_log(root) as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}) as sql:
        assert sql.query("SELECT * FROM d").to_pylist() == rows * 2


def test_bytes_can_be_seen_raw(streamkit, events):
    """What cannot be or shall not be decoded is printed in base 64."""
    value = json.loads(streamkit("consume", events, "--format", "json", "--raw").splitlines()[0])

    assert base64.b64decode(value["value"]).decode() == '{"n":[1,"é"]}'


def strict(text):
    """JSON as the standard has it, which knows no NaN."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_keys_of_opaque_topics_are_asked_for_as_text(streamkit, root):
    """A condition compares keys and values that are bytes with the UTF-8 of a text."""
    with sk.open_log(root) as log:
        log.create_topic("words", format="string", partitions=1)
        with log.producer() as producer:
            for key in ("k1", "k2"):
                producer.send("words", {"key": key, "value": f"ä of {key}"})

    for condition in ("key = 'k2'", "value like 'ä%2'"):
        records = [json.loads(line) for line in streamkit("consume", "words", "--json", "--where", condition).splitlines()]
        assert [(record["key"], record["value"]) for record in records] == [("k2", "ä of k2")]


def test_a_column_may_be_called_number(streamkit, root):
    """A condition counts rows under a name that no topic's column has."""
    with sk.open_log(root) as log:
        log.create_topic("counted", "_number bigint, v string", partitions=1)
        with log.producer() as producer:
            producer.send_batch("counted", [{"_number": 7, "v": "a"}, {"_number": 8, "v": "b"}])

    lines = streamkit("consume", "counted", "--json", "--where", "_number = 8").splitlines()
    assert [json.loads(line)["v"] for line in lines] == ["b"]


def test_json_has_no_number_that_is_none(streamkit, root):
    """NaN and infinities are texts in JSON, as Spark writes them; CSV spells them out."""
    with sk.open_log(root) as log:
        log.create_topic("odd", "x double, y double", partitions=1)
        with log.producer() as producer:
            producer.send("odd", {"x": float("nan"), "y": float("-inf")})
            producer.send("odd", {"x": 1.5, "y": float("inf")})

    records = [strict(line) for line in streamkit("consume", "odd", "--json").splitlines()]
    assert [(record["x"], record["y"]) for record in records] == [("NaN", "-Infinity"), (1.5, "Infinity")]
    assert "nan,-inf," in streamkit("consume", "odd", "--format", "csv")


def test_json_is_a_format_and_an_option(streamkit):
    """--json is --format json, as everywhere else."""
    assert streamkit("consume", "orders", "--json") == streamkit("consume", "orders", "--format", "json") != ""


def test_a_table_marks_deletions(streamkit):
    """A table with a deletion says which record is one; a table without has no such column."""
    lines = [line.split() for line in streamkit("consume", "customers").splitlines() if line.strip()]

    assert lines[0] == ["name", "city", "_deleted"]
    assert lines[2:4] == [["ann", "Oslo"], ["ann", "true"]]
    assert "_deleted" not in streamkit("consume", "orders")


@pytest.fixture
def traced(root):
    """A topic of three records: with headers of every kind, with none, a deletion with one."""
    with sk.open_log(root) as log:
        log.create_topic("traced", "k string, n int", key="k", partitions=1)
        with log.producer() as producer:
            headers = [("trace", b"abc"), ("trace", b"\x00\xff"), ('é, "="', b""), ("none", None)]
            rows = [{"k": "a", "n": 1, "_headers": headers}, {"k": "b", "n": 2, "_headers": None}]
            producer.send_batch("traced", rows)
            producer.send_batch("traced", [{"k": "a", "n": None, "_deleted": True, "_headers": [("why", b"gone")]}])
    return "traced"


def test_headers_are_printed_where_they_are_wanted(streamkit, traced):
    """Headers are pairs of a name and base 64 in JSON and CSV, readable in a table, and left out unless asked for."""
    records = [json.loads(line) for line in streamkit("consume", traced, "--json", "--headers").splitlines()]

    assert records[0]["_headers"] == [["trace", "YWJj"], ["trace", "AP8="], ['é, "="', ""], ["none", None]]
    assert [record["_headers"] for record in records[1:]] == [None, [["why", "Z29uZQ=="]]]
    (row, *_) = csv.DictReader(io.StringIO(streamkit("consume", traced, "--format", "csv", "--headers")))
    assert json.loads(row["_headers"]) == records[0]["_headers"]
    assert "trace=abc, trace=AP8=" in streamkit("consume", traced, "--headers")
    assert "trace" not in streamkit("consume", traced, "--json").replace(traced, "")


@pytest.mark.parametrize("form", ["json", "csv"])
def test_headers_go_round(streamkit, root, tmp_path, traced, form):
    """What consume prints with --headers, produce takes back: names, bytes, nulls and order."""
    (tmp_path / f"f.{form}").write_text(streamkit("consume", traced, "--format", form, "--headers"))
    streamkit("produce", traced, str(tmp_path / f"f.{form}"))

    with sk.open_log(root) as log:
        rows = log.read(traced, columns=["k", "n", "_headers", "_deleted"]).to_pylist()
    kept = [{name: row[name] for name in ("k", "n", "_headers", "_deleted", "_timestamp")} for row in rows]
    assert len(kept) == 6
    assert kept[:3] == kept[3:]


@pytest.mark.parametrize("headers", ['[["a"]]', '[["a", "b", "c"]]', '[[1, "AA=="]]', '[["a", "no base 64"]]', '"a"', "5"])
def test_headers_that_are_none_are_refused(streamkit, tmp_path, traced, headers):
    """A header that is no pair of a name and base 64 is named by its line."""
    (tmp_path / "f.json").write_text('{"k": "a", "n": 1}\n{"k": "b", "n": 2, "_headers": ' + headers + "}\n")

    with pytest.raises(sk.StreamKitError, match=r"line 2: column '_headers': found .*, expected pairs of a name and base 64"):
        streamkit("produce", traced, str(tmp_path / "f.json"))


@pytest.mark.parametrize("more", [(), ("--json",), ("--follow",), ("--max", "1")], ids=" ".join)
def test_a_partition_that_is_not_there_is_nothing_but_an_error(as_program, more):
    """Where a partition is wanted that the topic has not, nothing is printed but the error."""
    code, out, err = as_program("consume", "orders", "--partition", "0", "--partition", "9", *more)

    assert (code, out) == (1, "")
    assert err.startswith("error: topic orders has no partition 9; it has 0 to 0")
