"""CSV cut into blocks of whole records."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.connectors.files import csv_lines
from streamkit.connectors.files.csv_lines import csv_blocks
from streamkit.errors import SchemaError


def records(data):
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


@given(st.text(st.sampled_from('x",\n\ré'), max_size=60))
def test_records_are_not_cut(text):
    """Whatever lines come one by one, no record is in two of the blocks that go, and no byte is lost without an error."""
    data = text.lstrip("\r\n").encode()
    blocks = list[bytes]()
    try:
        blocks.extend(csv_blocks(io.BytesIO(text.encode())))  # those before an error stay
    except SchemaError:
        lost = records(data[len(b"".join(blocks)) :] + b"\nbehind")
        assert len(lost) == 1 and lost[0][-1].endswith("\nbehind"), "one record, with a quote that is open at the end"
    else:
        assert b"".join(blocks) == data
    assert [record for block in blocks for record in records(block)] == records(b"".join(blocks))


def test_record_without_end_is_refused(monkeypatch):
    """A quote that is never closed is an error before what follows it fills the memory."""
    monkeypatch.setattr(csv_lines, "RECORD_BYTES_MAX", 1 << 20)
    line = b"x" * ((1 << 20) // 8) + b"\n"

    with pytest.raises(SchemaError, match="a record of more than 1 MiB; is there a quote that is never closed"):
        list(csv_blocks([b'a,b\n1,"', *([line] * 9)]))
