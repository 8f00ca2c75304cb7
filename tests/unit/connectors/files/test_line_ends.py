"""Lines that end with LF, CRLF or CR: files of records have any of them, also side by side."""

from __future__ import annotations

import gzip
import json
import shutil

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.connectors import run
from streamkit.connectors.files import FileSource
from streamkit.connectors.files.line_ends import count_lines, lines_end
from tests.kit.sampling import examples

END = st.sampled_from(["\n", "\r\n", "\r"])
VALUE = st.text(st.sampled_from('x",;\n\r é'), max_size=5)
RECORDS = st.lists(st.tuples(VALUE, st.booleans(), END), max_size=8)


def read(folder, name, data, **given):
    """What a source makes of a file, and the positions."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    source = FileSource("in", path=str(folder), topic="t", schema="id bigint, v string", min_age_ms=0, **given)
    source.open(dict.fromkeys(source.splits()))
    rows = []
    while (polled := source.poll(0.0)) is not None:
        for table in polled.tables.values():
            assert isinstance(table, pa.Table)
            rows += table.select(["id", "v"]).to_pylist()
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lines") / "in"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@examples(150, 6)
@given(records=RECORDS, head=END, is_ended=st.booleans(), block_bytes=st.sampled_from([1, 3, 16, 1 << 20]))
def test_csv(folder, name, records, head, is_ended, block_bytes):
    """Every record comes, whatever ends its line and the line of names, and however the file is cut into blocks."""
    text = f"id,v{head}"
    for n, (value, is_quoted, end) in enumerate(records):
        plain = value and not set(value) & set('",\r\n') and not is_quoted
        text += f"{n},{value}" if plain else f'{n},"' + value.replace('"', '""') + '"'
        text += end
    data = text.encode() if is_ended else text.rstrip("\r\n").encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamkit.connectors.files.record_blocks.BLOCK_BYTES", block_bytes)
        assert read(folder, name, data) == [{"id": n, "v": value} for n, (value, _, _) in enumerate(records)]


@examples(100, 5)
@given(records=RECORDS, block_bytes=st.sampled_from([1, 3, 16, 1 << 20]))
def test_json(folder, records, block_bytes):
    """The same of JSON lines."""
    data = "".join(json.dumps({"id": n, "v": value}) + end for n, (value, _, end) in enumerate(records)).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamkit.connectors.files.record_blocks.BLOCK_BYTES", block_bytes)
        assert read(folder, "a.jsonl", data) == [{"id": n, "v": value} for n, (value, _, _) in enumerate(records)]


@given(st.text(st.sampled_from("x\r\n"), max_size=12))
def test_whole_lines(text):
    """Whole lines are those of Python's universal line ends, but for a CR at the end, behind which an LF may come."""
    data = text.encode()
    assert count_lines(data) == len(data.splitlines()) - (bool(data) and not data.endswith((b"\r", b"\n")))
    lines = data.removesuffix(b"\r").splitlines(keepends=True)
    assert lines_end(data) == sum(len(line) for line in lines if line.endswith((b"\r", b"\n")))


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("schema", [{}, {"schema": "id bigint, v string"}])
def test_files_are_finished_when_they_are_read(tmp_path, end, schema):
    """A file is not moved unread, with a schema and with a guess; and a bad record is named by its line."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_bytes(end.join(["id,v", "1,x", '2,"y', 'z"', "3,q", ""]).encode())
    common = {"path": str(tmp_path / "in"), "topic": "t", "min_age_ms": 0, "finished_path": str(tmp_path / "done"), **schema}
    with sk.open_log(tmp_path / "log") as log:
        run([FileSource("in", **common)], log, once=True)
        assert sorted(row["id"] for row in log.read("t").to_pylist()) == [1, 2, 3]
        assert [path.name for path in (tmp_path / "done").iterdir()] == ["a.csv"]
        (tmp_path / "in" / "b.csv").write_bytes(end.join(["id,v", "1,x", '2,"y', 'z"', "q,q", ""]).encode())
        with pytest.raises(sk.errors.SchemaError, match=r"b\.csv, line 5: column 'id'"):
            run([FileSource("in", **common)], log, once=True)


def test_names_that_do_not_end(folder):
    """A quote in the line of names that is never closed is an error; one within a name is a part of it."""
    with pytest.raises(sk.errors.SchemaError, match=r"a\.csv, line 1: found a quote that is opened and never closed"):
        read(folder, "a.csv", b'"id,v\n1,x\n')
    with pytest.raises(sk.errors.SchemaError, match=r"unknown column 'v\"'"):
        read(folder, "a.csv", b'id,v"\n1,x\n2,"y"\n')
