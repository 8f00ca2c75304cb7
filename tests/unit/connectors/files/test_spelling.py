"""How values are spelled: texts that are null, patterns of dates and times, of any file, guessed or declared, in one poll or many."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.files import FileSource
from streamkit.connectors.files import source as file_source
from streamkit.errors import ConfigError, SchemaError
from tests.kit.sampling import TAKES_ALL

UTC = dt.timezone.utc
DATES = {"dd.MM.yyyy": "%d.%m.%Y", "M/d/yyyy": None, "yyyyMMdd": "%Y%m%d", "dd-MMM-yyyy": "%d-%b-%Y", "yyyy, D": "%Y, %j"}
TIMES = {
    "dd.MM.yyyy HH:mm:ss": "%d.%m.%Y %H:%M:%S",
    "yyyyMMddHHmmss": "%Y%m%d%H%M%S",
    "MM/dd/yyyy hh:mm:ss a": "%m/%d/%Y %I:%M:%S %p",
    "yyyy-MM-dd'T'HH:mm:ssXXX": "%Y-%m-%dT%H:%M:%S+02:00",
}
SCHEMA = "id bigint, day date, at timestamp, n double, v string"


def spelled(value, pattern, known):
    if isinstance(value, dt.datetime) and pattern.endswith("X"):
        value += dt.timedelta(hours=2)
    return value.strftime(known[pattern]) if known[pattern] else f"{value.month}/{value.day}/{value.year}"


def some_rows(choose, count):
    for id in range(count):
        day = dt.date(choose.randint(1000, 9999), choose.randint(1, 12), choose.randint(13, 28))
        at = dt.datetime.combine(day, dt.time(choose.randint(0, 23), choose.randint(0, 59), choose.randint(1, 59)), UTC)
        row = {"id": id, "day": day, "at": at, "n": choose.randint(-99, 99) + 0.5, "v": choose.choice(["x", "NULL", ""])}
        yield row | {name: None for name in ("day", "at", "n", "v") if id and choose.random() < 0.3}


def csv_of(choose, rows, nulls, date, time):
    lines = ["id,day,at,n,v"]
    for row in rows:
        cells = [
            str(row["id"]),
            row["day"] and f'"{spelled(row["day"], date, DATES)}"',
            row["at"] and spelled(row["at"], time, TIMES),
            row["n"] and f'"{str(row["n"]).replace(".", ",")}"',
            row["v"] if row["v"] is None or row["v"] not in (*nulls, "") else f'"{row["v"]}"',
        ]
        lines.append(",".join(choose.choice(nulls) if cell is None else cell for cell in cells))
    return "".join(line + "\n" for line in lines)


def json_of(rows, date, time):
    for row in rows:
        day, at = row["day"] and spelled(row["day"], date, DATES), row["at"] and spelled(row["at"], time, TIMES)
        yield json.dumps({**row, "day": day, "at": at}) + "\n"


def bring(folder, path, **settings):
    with sk.open_log(folder) as log:
        run([FileSource("in", path=str(path), topic="t", min_age_ms=0, **settings)], log, once=True)
        return log.topic("t").schema.ddl(), [
            {name: row[name] for name in ("id", "day", "at", "n", "v")} for row in log.read("t").sort_by("id").to_pylist()
        ]


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("is_guessed", [True, False], ids=["guessed", "declared"])
def test_random_spellings(tmp_path, form, is_guessed, monkeypatch):
    """Random rows in random spellings, in blocks of some bytes, in a file that grows between two starts: every value comes as it was."""
    monkeypatch.setattr("streamkit.connectors.files.record_blocks.BLOCK_BYTES", 50)
    choose = random.Random(None if TAKES_ALL else f"{form} {is_guessed}")
    for number in range(30 if TAKES_ALL else 1):
        date, time = choose.choice(list(DATES)), choose.choice(list(TIMES))
        nulls = choose.choice([("",), ("NULL",), ("", "NULL", r"\N"), ("NA", "-")])
        rows = list(some_rows(choose, 12))
        settings: dict[str, Any] = {"date_format": date, "timestamp_format": time}
        settings |= {} if is_guessed else {"schema": SCHEMA}
        settings |= {"null": ",".join(nulls), "decimal_comma": True} if form == "csv" else {}
        lines = (csv_of(choose, rows, nulls, date, time) if form == "csv" else "".join(json_of(rows, date, time))).splitlines(
            True
        )
        folder, path = tmp_path / str(number), tmp_path / f"{number}.{form}"
        path.write_text("".join(lines[:5]))
        bring(folder, path, **settings)
        with path.open("a") as file:
            file.write("".join(lines[5:]))
        schema, found = bring(folder, path, **settings)
        assert found == rows, (date, time, nulls, schema)
        assert "`day` date, `at` timestamp" in schema


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(file_source, "LOOK_SECONDS", 0.0)
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def rows_of(table):
    assert isinstance(table, pa.Table)
    return table.to_pylist()


def polled(folder, data, name="a.csv", **settings):
    (folder / name).write_text(data)
    source = FileSource("in", path=str(folder), topic="t", min_age_ms=0, **settings)
    source.refused = []
    source.open(dict.fromkeys(source.splits()))
    rows = []
    while (found := source.poll(0.0)) is not None:
        rows += [row for table in found.tables.values() for row in rows_of(table)]
    assert source._topic is not None
    return {column.name: column.type for column in source._topic.schema}, rows


def opened(folder, lines, *, is_guessed, **settings):
    """A source, and what it read; a guess was made from the first record of the file, which has all of them by now."""
    source = FileSource("in", path=str(folder), topic="t", min_age_ms=0, **settings)
    source.refused = []
    (folder / "a.csv").write_text("".join(lines[:2] if is_guessed else lines))
    source.open(dict.fromkeys(source.splits()))
    rows = left(source) if is_guessed else []
    (folder / "a.csv").write_text("".join(lines))
    return source, rows


def left(source):
    rows = []
    while (found := source.poll(0.0)) is not None:
        rows += [row for table in found.tables.values() for row in rows_of(table)]
        source.committed(found.positions)
    return rows


@pytest.mark.parametrize("settings", [{}, {"schema": "id bigint, day date, at timestamp"}], ids=["guessed", "declared"])
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("2026-01-31,31.01.2026 12:00", "line 3: column 'day': found '2026-01-31', expected date, written as dd.MM.yyyy"),
        ("31.02.2026,31.01.2026 12:00", "line 3: column 'day': found '31.02.2026', expected date, written as dd.MM.yyyy"),
        (
            "31.01.2026,1769860800000",
            "line 3: column 'at': found '1769860800000', expected timestamp, written as dd.MM.yyyy HH:mm",
        ),
        ("31.01.2026,31.01.2026 24:00", "line 3: column 'at': found '31.01.2026 24:00', expected timestamp, written as"),
    ],
)
def test_a_value_that_does_not_fit(folder, settings, cell, message):
    """A pattern is the only spelling: another one is an error with file, line and column, and alone left out where that is wanted."""
    given = {"date_format": "dd.MM.yyyy", "timestamp_format": "dd.MM.yyyy HH:mm", **settings}
    text = f"id,day,at\n1,30.01.2026,30.01.2026 00:00\n2,{cell}\n3,,\n"
    if settings:
        with pytest.raises(SchemaError) as error:
            polled(folder, text, **given)
        assert f"a.csv, {message}" in str(error.value)
    source, rows = opened(folder, text.splitlines(True), is_guessed=not settings, errors_tolerance="all", **given)
    rows += left(source)
    assert [row["id"] for row in rows] == [1, 3]
    assert [f"a.csv, {message}" in str(error) for _, _, error, *_ in source.refused] == [True], source.refused


def test_what_a_guess_makes_of_a_pattern(folder):
    """All values fit: the pattern's type, also of what could be numbers; not all: what they are without it, ISO dates as texts."""
    text = "id,a,b,c,d\n1,20260131,20260131,2026-01-31,31.01.2026 10:00\n2,20260228,20260231,2026-02-28,\n"
    types, rows = polled(folder, text, date_format="yyyyMMdd", timestamp_format="dd.MM.yyyy HH:mm")
    assert types == {"id": "bigint", "a": "date", "b": "bigint", "c": "string", "d": "timestamp"}
    assert rows[0]["a"] == dt.date(2026, 1, 31)


def test_nested_dates_in_json(tmp_path):
    """Patterns hold inside of structs and arrays, guessed and declared."""
    for schema in ({}, {"schema": "id bigint, s struct<day:date,all:array<date>>"}):
        folder = tmp_path / str(len(schema))
        folder.mkdir()
        data = '{"id": 1, "s": {"day": "31.01.2026", "all": ["01.02.2026", null]}}\n'
        types, rows = polled(folder, data, "b.json", date_format="dd.MM.yyyy", **schema)
        assert types["s"] == "struct<day:date,all:array<date>>"
        assert rows[0]["s"] == {"day": dt.date(2026, 1, 31), "all": [dt.date(2026, 2, 1), None]}
        with pytest.raises(SchemaError, match=r"b\.json, line 2: .*s\.day.*written as dd\.MM\.yyyy"):
            polled(
                folder,
                data + data.replace("31.01.2026", "2026-01-31"),
                "b.json",
                schema="id bigint, s struct<day:date,all:array<date>>",
                date_format="dd.MM.yyyy",
            )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"date_format": "dd.MM.yyyy HH:mm"}, "the format 'dd.MM.yyyy HH:mm' of dates has H, m, and a date has no time of day"),
        ({"date_format": "tt.MM.jjjj"}, "the format 'tt.MM.jjjj' of dates cannot be used: .*t"),
        ({"timestamp_format": "HH:mm"}, "of times has no part of a date"),
        (
            {"timestamp_format": "yyyy-MM-ddXXX", "schema": "id bigint, at timestamp_ntz"},
            "has a zone, and the column 'at' is timestamp_ntz",
        ),
    ],
)
def test_formats_that_cannot_be(folder, settings, message):
    """A pattern that reads nothing, or loses something, is refused before a record is read."""
    with pytest.raises(ConfigError, match=message):
        polled(folder, "id,at\n1,2026-01-31Z\n", **settings)


@pytest.mark.parametrize(
    ("given", "nulls"),
    [
        (None, ("",)),
        ("", ("",)),
        ("NA", ("NA",)),
        ("NULL, NA", ("NULL", "NA")),
        ("NULL,", ("NULL", "")),
        (["a,b", ""], ("a,b", "")),
    ],
)
def test_texts_that_are_null(folder, given, nulls):
    """One text or several, of which one may be nothing; a quoted one is a text."""
    settings = {} if given is None else {"null": given}
    text = "".join(f'{null if "," not in null else "x"};"{null}"\n' for null in nulls)
    _, rows = polled(folder, "n;v\n7;y\n" + text, delimiter=";", schema="n string, v string", **settings)
    assert [(row["n"], row["v"]) for row in rows[1:]] == [(None if "," not in null else "x", null) for null in nulls]


def test_commas_beside_formats(folder):
    """A decimal comma, and dates with points: each column by its type."""
    types, rows = polled(folder, "a;b\n31.01.2026;1.234,5\n", delimiter=";", decimal_comma=True, date_format="dd.MM.yyyy")
    assert types == {"a": "date", "b": "double"}
    assert rows == [{"a": dt.date(2026, 1, 31), "b": 1234.5}]
    assert Decimal("1234.5") == Decimal(str(rows[0]["b"]))
