"""
Columns that were guessed, and what comes after the guess: the same bytes give the same values in any cut, or an error.

It cuts files into polls, restarts and further files; `test_guesses` knows one file that is there as a whole.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.files import FileSource
from streamkit.connectors.files import source as file_source
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.topic.topic import Topic
from tests.kit.sampling import examples
from tests.unit.connectors.files.test_growing import Follower
from tests.unit.connectors.files.test_guesses import NUMBER, SPACED, TEXT, TEXTS, quoted


class Cut(Follower):
    """A follower whose columns are guessed; the topic is that of the task before it."""

    topic: Topic | None = None

    def __init__(self, folder, **given):
        super().__init__(folder, schema=None, min_age_ms=0, **given)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(file_source, "LOOK_SECONDS", 0.0)
    return tmp_path


def said(value):
    """What a value says, whatever its type: a text that is a number in another cut says the number as it is spelled."""
    if isinstance(value, dict):
        return {name: said(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [said(one) for one in value]
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.timezone.utc)
    if isinstance(value, str) and value.lower().lstrip("-") in ("nan", "inf", "infinity"):
        return value.lower().replace("infinity", "inf")
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else repr(value)
    return value


def follow(folder, name, pieces, way):
    """What the rows say that are read of the pieces of a file, one after the other."""
    folder.mkdir()
    header = b"id,v\n" if name.endswith("csv") else b""
    follower = Cut(folder)
    for number, piece in enumerate(pieces):
        with (folder / (f"{number}{name}" if way == "files" else name)).open("ab") as file:
            file.write(header + piece if way == "files" or not number else piece)
        if way != "polls" and number:
            follower.begin()
            if follower.topic is not None:
                follower.source.topic(follower.topic)
        follower.poll()
        follower.topic = follower.source._topic
    return [(id, said(value)) for id, value in follower.rows]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_source, "LOOK_SECONDS", 0.0)
        yield tmp_path_factory.mktemp("cuts"), iter(range(10**9))


def compare(shared, name, lines, way, cut):
    """The same rows in two pieces as in one, where no error says why there are none."""
    root, numbers = shared
    whole = follow(root / str(next(numbers)), name, [b"".join(lines)], "polls")
    try:
        found = follow(root / str(next(numbers)), name, [b"".join(lines[:cut]), b"".join(lines[cut:])], way)
    except SchemaError as error:
        assert "column 'v" in str(error) and "line" in str(error) and "expected" in str(error), error
        return
    for (id, one), (other_id, other) in zip(found, whole, strict=True):
        is_text = isinstance(one, str) != isinstance(other, str)  # of a column of nulls, which is one of texts
        assert id == other_id and (one == other or (is_text and is_same(one, other))), (one, other)


def is_same(one, other):
    text, value = (one, other) if isinstance(one, str) else (other, one)
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    return (
        text == str(value) or (isinstance(value, int | float | Decimal) and Decimal(text) == value) or isinstance(value, dt.date)
    )


WAYS = st.sampled_from(["polls", "restart", "files"])


@examples(40)
@given(texts=st.lists(st.one_of(TEXT, st.just("")), min_size=2, max_size=4), way=WAYS, data=st.data())
def test_csv_in_any_cut(shared, texts, way, data):
    """Random texts of a column."""
    lines = [f"{n},{quoted(text) if text else ''}\n".encode() for n, text in enumerate(texts)]
    compare(shared, "a.csv", lines, way, data.draw(st.integers(1, len(lines) - 1)))


LEAVES = st.one_of(NUMBER, st.sampled_from(["null", "true", "-0", "1.0", "1e3", "9007199254740993", "1704067200000"]),
                   st.sampled_from([*TEXTS, *SPACED]).map(json.dumps))  # fmt: skip


@examples(40)
@given(values=st.lists(LEAVES, min_size=2, max_size=4), is_nested=st.booleans(), way=WAYS, data=st.data())
def test_json_in_any_cut(shared, values, is_nested, way, data):
    """Random JSON, also within structs of arrays."""
    shape = '{"a":[%s]}' if is_nested else "%s"
    lines = [f'{{"id":{n},"v":{shape % value}}}\n'.encode() for n, value in enumerate(values)]
    try:
        compare(shared, "a.json", lines, way, data.draw(st.integers(1, len(lines) - 1)))
    except SchemaError as error:
        assert "column 'v" in str(error)  # the whole has no type


@pytest.mark.parametrize(
    ("name", "first", "later"),
    [("a.csv", first, later) for first, texts in {
        "1": ["007", "-0", "+4", "1E5", "1.0"], "1.5": ["007", "12345678901234567890", "0.12345678901234567890", "1E5", "00.5"],
        "99999999999999999999": ["007", "1E3"], "12345678901234567.25": ["007", "1E3", "-0.0", "1.123"], "true": ["1", "t"],
        "2024-01-01": ["2024-1-2", "1704067200000"], "2024-01-01T00:00:00Z": ["1704067200000", "2024-01-01T00:00:00", "2024-01-01"],
        "2024-01-01T00:00:00": ["2024-01-01T00:00:00Z"],
    }.items() for later in texts]
    + [("a.json", first, later) for first, texts in {
        "1": ["1.0", "1e3", '"1"', "true"], "1.5": ["9007199254740993", "0.12345678901234567890", "1e-400", "true"],
        "99999999999999999999": ['"7"', "1.5"], '"2024-01-01T00:00:00Z"': ["1704067200000", '"2024-01-01T00:00:00"'], "true": ["1", '"true"'],
        '[{"a":1.5}]': ['[{"a":2.5},{"a":9007199254740993}]'], '{"t":"2024-01-01"}': ['{"t":1704067200000}'],
    }.items() for later in texts],
)  # fmt: skip
def test_what_is_spelled_otherwise(place, name, first, later):
    """Each is refused with the file, the line and the column."""
    way = ("polls", "restart", "files")[len(first + later) % 3]
    line = "2,%s\n" if name == "a.csv" else '{"id":2,"v":%s}\n'
    with pytest.raises(
        SchemaError,
        match=r"a\.\w+, line \d: column 'v.*found .* guessed from other .*: the setting schema, such as schema='v string",
    ):
        follow(place / "in", name, [(line % first).encode(), (line % later).encode()], way)


def test_a_task_remembers_what_it_guessed(tmp_path):
    """A file grows between two starts: the topic has the columns by then, and the position says that they were guessed."""
    path = tmp_path / "a.csv"
    path.write_text("id,zip\n1,10001\n")
    given = {"path": str(path), "topic": "rows", "min_age_ms": 0}
    with sk.open_log(tmp_path / "log") as log:
        run([FileSource("in", **given)], log, once=True)
        with path.open("a") as file:
            file.write("2,02134\n3,10003\n")
        with pytest.raises(
            SchemaError, match=r"a\.csv, line 3: column 'zip': found '02134', and bigint was guessed .* schema='zip string"
        ):
            run([FileSource("in", **given)], log, once=True)
        with pytest.raises(ConfigError, match=r"topic rows has the column 'zip' of type bigint, and schema says string"):
            run([FileSource("in", schema="id bigint, zip string", **given)], log, once=True)
        run([FileSource("in", errors_tolerance="all", errors_deadletterqueue_topic_name="dead", **given)], log, once=True)
        assert sorted(row["zip"] for row in log.read("rows").to_pylist()) == [10001, 10003]
        assert log.read("dead").num_rows == 1
        with path.open("a") as file:
            file.write("4,00004\n")
        run([FileSource("in", schema="id bigint, zip bigint", **given)], log, once=True)  # which the user says
        assert sorted(row["zip"] for row in log.read("rows").to_pylist()) == [4, 10001, 10003]
        run([FileSource("other", **{**given, "topic": "texts"}, schema="id bigint, zip string")], log, once=True)
        assert [row["zip"] for row in log.read("texts").to_pylist()] == ["10001", "02134", "10003", "00004"]


def test_a_topic_that_a_user_declared(tmp_path):
    """Its columns are no guess: they take all spellings."""
    (tmp_path / "a.csv").write_text("id,zip\n1,007\n")
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("rows", "id bigint, zip bigint")
        run([FileSource("in", path=str(tmp_path / "a.csv"), topic="rows", min_age_ms=0)], log, once=True)
        assert log.read("rows")["zip"].to_pylist() == [7]


def test_parquet_of_other_types(place):
    """A later file of Parquet has the types of the guess, or narrower ones."""
    folder = place / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1], "v": [1.5]}), folder / "a.parquet")
    follower = Cut(folder)
    follower.poll()
    pq.write_table(pa.table({"id": pa.array([2], pa.int32()), "v": pa.array([2.5], pa.float32())}), folder / "b.parquet")
    follower.poll()
    assert follower.rows == [(1, 1.5), (2, 2.5)]
    pq.write_table(pa.table({"id": [3], "v": [9007199254740993]}), folder / "c.parquet")
    with pytest.raises(
        SchemaError, match=r"c\.parquet: .*column 'v': found bigint, and the first file has double; expected double"
    ):
        follower.poll()
