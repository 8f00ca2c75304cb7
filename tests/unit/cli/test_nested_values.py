"""Promises of nested values on the command line: JSON in and out, in CSV as JSON in a cell."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math

import pyarrow.parquet as pq
import pytest

import streamkit as sk
from streamkit.errors import ConfigError, SchemaError

UTC = dt.timezone.utc
COLUMNS = (
    "id string not null, tags array<string>, at struct<lat:double,lon:double>, props map<string,int>, "
    "days map<date,array<struct<n:decimal(5,2),b:binary,t:timestamp>>>, odd map<struct<k:int>,boolean>"
)
FULL = {
    "id": "a", "tags": ["x", None, 'é,"\n'], "at": {"lat": 1.0, "lon": "NaN"}, "props": {"a": 1, "b": None},
    "days": {"2026-01-31": [{"n": "1.25", "b": "AP8=", "t": "2026-01-31T12:00:00Z"}, {"n": None, "b": None, "t": "+57861-07-09T08:00:00Z"}, None]},
    "odd": [[{"k": 1}, True]],
}  # fmt: skip
EMPTY = {"id": "b", "tags": [], "at": {"lat": None, "lon": -0.5}, "props": {}, "days": {}, "odd": []}
NOTHING = {"id": "c"} | dict.fromkeys(("tags", "at", "props", "days", "odd"))


@pytest.fixture
def topic(root):
    with sk.open_log(root) as log:
        for name in ("first", "second"):
            log.create_topic(name, COLUMNS, key="id", partitions=1)


def own(line):
    return {name: value for name, value in json.loads(line).items() if not name.startswith("_")}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_nested_values_go_round(streamkit, as_program, root, topic, tmp_path, form):
    """What consume prints of nested values, produce reads back as it was: times, decimals, bytes, NaN, keys of maps, nulls inside."""
    (tmp_path / "f.json").write_text(lines([FULL, EMPTY, NOTHING]))
    streamkit("produce", "first", str(tmp_path / "f.json"))
    printed = as_program("consume", "first", "--format", form)[1]
    if form == "json":
        assert [own(line) for line in printed.splitlines()] == [FULL, EMPTY, NOTHING]
    (tmp_path / f"g.{form}").write_text(printed, newline="")
    streamkit("produce", "second", str(tmp_path / f"g.{form}"))
    with sk.open_log(root) as log:
        columns = ["id", "tags", "at", "props", "odd"]
        first, second = ([repr(row) for row in log.read(name).select(columns).to_pylist()] for name in ("first", "second"))
        row = log.decode("second", log.read("second"))[0]
    assert first == second
    assert math.isnan(row["at"]["lon"]) and row["props"] == {"a": 1, "b": None} and row["odd"] == [({"k": 1}, True)]
    day = row["days"][dt.date(2026, 1, 31)]
    assert day[0] == {"n": decimal.Decimal("1.25"), "b": b"\0\xff", "t": dt.datetime(2026, 1, 31, 12, tzinfo=UTC)}
    assert day[2] is None and len(day) == 3


def test_nested_columns_of_parquet_are_taken(streamkit, root, topic, tmp_path):
    """A Parquet file has nested columns as Arrow has them."""
    with sk.open_log(root) as log:
        with log.producer() as producer:
            producer.send(
                "first", {"id": "a", "tags": ["x"], "at": {"lat": 1, "lon": 2}, "props": {"a": 1}, "days": None, "odd": []}
            )
        pq.write_table(log.read("first").select(log.topic("first").schema.names), tmp_path / "f.parquet")
    streamkit("produce", "second", str(tmp_path / "f.parquet"))
    with sk.open_log(root) as log:
        assert log.decode("second", log.read("second").drop_columns(["_timestamp"])) == log.decode(
            "first", log.read("first").drop_columns(["_timestamp"])
        )


REFUSED = [
    ({"tags": ["x", 1]}, "column 'tags[1]': found 1, expected string"),
    ({"tags": "x"}, "column 'tags': found 'x' (str), expected array<string>"),
    ({"at": {"lat": 1}}, "column 'at': it has no field 'lon'; found lat; expected struct<lat:double,lon:double>"),
    ({"at": {"lat": "x", "lon": 1}}, "column 'at.lat': found 'x' (str), expected double"),
    ({"props": {"a": 1.5}}, "column \"props['a']\": found 1.5 (float), expected int; it is not an integer"),
    ({"days": {"x": []}}, "column 'days.key': found 'x', expected date, as ISO text"),
    (
        {"days": {"2026-01-31": [{"n": 1000.5, "b": None, "t": None}]}},
        "column 'days[datetime.date(2026, 1, 31)][0].n': found '1000.5'",
    ),
]


@pytest.mark.parametrize(("changed", "reason"), REFUSED, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_what_does_not_fit_has_its_line_and_its_path(streamkit, root, topic, tmp_path, form, changed, reason):
    """An error says the line of the file, the column, and the way to the value in it; nothing is written."""
    row = NOTHING | changed
    text = lines([NOTHING, row])
    if form == "csv":
        cells = [",".join("" if one[name] is None else quoted(one[name]) for name in NOTHING) for one in (NOTHING, row)]
        text = "\n".join([",".join(NOTHING), *cells]) + "\n"
    (tmp_path / f"f.{form}").write_text(text)
    with pytest.raises(SchemaError) as refused:
        streamkit("produce", "first", str(tmp_path / f"f.{form}"))
    assert f"line {2 + (form == 'csv')}: {reason}" in str(refused.value)
    with sk.open_log(root) as log:
        assert log.read("first").num_rows == 0


def quoted(value):
    text = value if value == "c" else json.dumps(value)
    return '"' + text.replace('"', '""') + '"'


def test_a_cell_that_is_no_json_is_refused(streamkit, topic, tmp_path):
    """In CSV a nested value is JSON; another text is refused with its line."""
    (tmp_path / "f.csv").write_text(f'{",".join(NOTHING)}\na,"[""x""",,,,\n')
    with pytest.raises(SchemaError, match=r"line 2: column 'tags': found .* expected array<string>, as JSON: Expecting"):
        streamkit("produce", "first", str(tmp_path / "f.csv"))


def test_nested_columns_are_described_and_not_compared(streamkit, topic):
    """A description spells the types; --where may ask whether a nested value is null, and compares none."""
    assert "days map<date,array<struct<n:decimal(5,2),b:binary,t:timestamp>>>" in streamkit(
        "topics", "describe", "first", "--json"
    )
    assert streamkit("consume", "first", "--where", "tags is not null", "--json") == ""
    for condition in ("tags = 'x'", "tags = tags", "id = tags"):
        with pytest.raises(ConfigError, match="columns of that type cannot be compared"):
            streamkit("consume", "first", "--where", condition)
